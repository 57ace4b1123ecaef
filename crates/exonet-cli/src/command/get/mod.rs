//! `exon get`: one file from several nodes that share it.

mod code;
mod course;
mod list;
mod progress;
mod server;
mod standing;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exonet::Node;
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use self::course::Course;
use self::progress::{Now, Progress, ServerLine};
use self::server::{Event, Out, Server, settle};
use self::standing::{Standings, State};
use super::stop::stop;
use crate::args::GetArgs;
use crate::copy::Hex32;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::peers::Named;
use crate::settings::Settings;
use crate::share::{LONGEST_PIECE, Part, PartError, Shape, Tally, vacant};
use crate::store::{Names, SafePath};
use crate::text::escape;
use crate::units::{self, Size};

/// The interval at which arrived pieces are forced to the disk and marked. A crash loses at most the later ones.
const MARK: Duration = Duration::from_secs(1);
/// The most pieces that one server is asked for at once.
const BODIES: usize = 64;

#[derive(Serialize)]
struct ServerEvent<'a> {
    r#type: &'static str,
    peer: String,
    name: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    end: &'static str,
    name: &'a str,
    /// The path of the file.
    file: String,
    /// None if no server has answered.
    size: Option<u64>,
    root: Option<Hex32>,
    /// Bytes that arrived in this run, and bytes of an earlier run.
    fetched: u64,
    had: u64,
    /// Pieces that arrived twice.
    doubled: u64,
    seconds: f64,
    servers: Vec<ServerLine<'a>>,
}

pub(super) async fn run(settings: &Settings, args: &GetArgs) -> Result<Exit, Failure> {
    if let Some(code) = args.code().map_err(|error| Failure::new(error.to_string()))? {
        return code::run(settings, args, code).await;
    }
    for (at, server) in args.servers.iter().enumerate() {
        if args.servers.iter().take(at).any(|other| other.peer.id == server.peer.id) {
            return Err(Failure::new(format!("{} is named twice", server.name))
                .hint("name each node once")
                .wrong_usage());
        }
    }
    let target = args.name.as_deref().map(|name| target(name, args.out.as_deref())).transpose()?;
    if let Some(target) = &target {
        vacant(target, args.force).map_err(|error| unusable(error, target))?;
    }
    let node = node::toward_all(settings, &args.servers, |config| {
        config.limits.bodies = BODIES;
        // A piece is put together in memory.
        config.limits.stream_above = LONGEST_PIECE;
    })
    .await?;
    let done = match (&args.name, target) {
        (Some(name), Some(target)) => Download::new(settings, args, &node, name, target).run().await,
        _ => list::run(settings, &args.servers, &node).await,
    };
    node.close(GOODBYE).await;
    done
}

/// The path of the file.
fn target(name: &str, out: Option<&Path>) -> Result<PathBuf, Failure> {
    let wrong = |_| {
        Failure::new(format!("{} cannot be the name of a shared file", escape(name.as_bytes())))
            .hint("use a name that `exon get --list` shows, such as films/one.mkv")
    };
    let path = SafePath::new(name, Names { hidden: true, portable: cfg!(not(unix)) }).map_err(wrong)?;
    let last = path.components().last().unwrap_or_default().to_owned();
    Ok(match out {
        None => PathBuf::from(last),
        Some(out) if out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/') => out.join(last),
        Some(out) => out.to_owned(),
    })
}

fn unusable(error: PartError, target: &Path) -> Failure {
    let there = target.display();
    match error {
        PartError::Taken if target.is_dir() => {
            Failure::new(format!("{there} is a directory")).hint("for another place: --out PATH")
        }
        PartError::Taken => Failure::new(format!("{there} already exists"))
            .hint("for another place: --out PATH; to replace it: --force"),
        PartError::Special => Failure::new(format!(
            "{there} is a device, a pipe or a socket, which `exon get` does not replace"
        ))
        .hint("for another place: --out PATH"),
        PartError::Other(Some(root)) => {
            let what = format!("{there}.part is of another version of the file, {root}");
            Failure::new(what).hint("to continue with it: --root, with this hash; to begin again: --force")
        }
        PartError::Other(None) => {
            Failure::new(format!("{there}.part exists, and `exon get` has not made it"))
                .hint("move it away, or choose another place: --out PATH")
        }
        PartError::Busy => Failure::new(format!("another `exon get` is fetching {there}"))
            .hint("wait for it, or choose another place: --out PATH"),
        PartError::Damaged => Failure::new(format!(
            "what an earlier run had left in {there}.part was damaged, and is discarded"
        ))
        .hint("the same command fetches that part again"),
        PartError::Disk(failure) => failure,
    }
}

/// One run of the command.
struct Download<'a> {
    settings: &'a Settings,
    args: &'a GetArgs,
    name: &'a str,
    target: PathBuf,
    servers: Vec<Server>,
    events: mpsc::UnboundedReceiver<(usize, Event)>,
    standings: Standings,
    progress: Progress<'a>,
    started: Instant,
}

impl<'a> Download<'a> {
    fn new(settings: &'a Settings, args: &'a GetArgs, node: &Node, name: &'a str, target: PathBuf) -> Self {
        let (tell, events) = mpsc::unbounded_channel();
        let server = |(at, named): (usize, &Named)| Server::new(at, node.peer(&named.peer), tell.clone());
        Self {
            settings,
            args,
            name,
            target,
            servers: args.servers.iter().enumerate().map(server).collect(),
            events,
            standings: Standings::new(&args.servers),
            progress: Progress::new(settings, name),
            started: Instant::now(),
        }
    }

    async fn run(mut self) -> Result<Exit, Failure> {
        let stop = stop(None)?;
        let mut stop = pin!(stop);
        let (decide, decided) = watch::channel(None);
        let mut tasks = JoinSet::new();
        for server in self.servers.clone() {
            tasks.spawn(server.run(self.name.to_owned(), decided.clone()));
        }
        let begun = tokio::select! {
            begun = self.begin() => begun?,
            _ = &mut stop => {
                self.settings.note("interrupted; nothing had arrived");
                self.settings.output.line(&self.summary("interrupted"))?;
                return Ok(Exit::Interrupted);
            }
        };
        let course = Arc::new(begun);
        let had = course.shape.size - course.plan().missing_bytes();
        if had > 0 {
            self.settings.note(format!(
                "{} of {} are there; continues from there",
                Size(had),
                Size(course.shape.size)
            ));
        }
        decide.send_replace(Some(Arc::clone(&course)));
        let interrupted = tokio::select! {
            done = self.fetch(&course, &mut tasks) => done.map(|()| false),
            _ = &mut stop => Ok(true),
        };
        self.progress.clear();
        // From here on, the command fetches nothing more, and keeps the pieces that have arrived.
        tasks.shutdown().await;
        let marked = mark(&course).await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let interrupted = interrupted.map_err(|failure| self.kept(failure, &course))?;
        marked.map_err(|error| Failure::path("write", course.part.path(), &error))?;
        if !interrupted {
            let (this, force) = (Arc::clone(&course), self.args.force);
            let finished = tokio::task::spawn_blocking(move || this.part.finish(force)).await;
            finished
                .map_err(|error| Failure::new("cannot finish the file").because(&error))?
                .map_err(|error| unusable(error, &self.target))?;
        }
        self.sum_up(&course, had, interrupted)
    }

    /// Runs until the file to fetch is known.
    async fn begin(&mut self) -> Result<Course, Failure> {
        loop {
            let met: Vec<_> = self.standings.all().iter().zip(&self.servers).collect();
            let met = met.into_iter().filter(|(standing, _)| matches!(standing.state, State::Active));
            let met: Vec<_> =
                met.filter_map(|(standing, server)| Some((server.clone(), standing.info?))).collect();
            if self.standings.are_known() && !met.is_empty() {
                let root = match self.args.root {
                    Some(root) => root,
                    None => self.only_root()?,
                };
                let met: Vec<_> = met.into_iter().filter(|(_, info)| info.root == root).collect();
                if !met.is_empty() {
                    let shape = settle(self.name, &met).await.ok_or_else(|| {
                        Failure::new(
                            "the nodes report different sizes of the file, and none has proven its own",
                        )
                        .hint("--root HASH, if you know the hash, and other nodes")
                    })?;
                    return self.course(root, shape);
                }
            }
            self.next_event(None).await?;
        }
    }

    /// The hash that all servers report for the file.
    fn only_root(&self) -> Result<Hex32, Failure> {
        let said = || {
            self.standings.all().iter().filter_map(|standing| Some((&standing.named.name, standing.info?)))
        };
        let first = said().next().map(|(_, info)| info.root);
        match first.filter(|root| said().all(|(_, info)| info.root == *root)) {
            Some(root) => Ok(root),
            None => {
                let line = |(name, info): (&String, crate::share::Info)| {
                    format!("\n      {name}: {}, {}", Size(info.size), info.root)
                };
                let lines: String = said().map(line).collect();
                let what = format!(
                    "the nodes have different files under the name {}:{lines}",
                    escape(self.name.as_bytes())
                );
                Err(Failure::new(what).hint("choose one: --root HASH"))
            }
        }
    }

    fn course(&self, root: Hex32, shape: Shape) -> Result<Course, Failure> {
        let part = Part::begin(&self.target, root, shape, self.args.force);
        let part = part.map_err(|error| unusable(error, &self.target))?;
        Ok(Course::new(self.name.to_owned(), root, shape, part, self.servers.len()))
    }

    /// Runs until every piece is present.
    async fn fetch(&mut self, course: &Arc<Course>, tasks: &mut JoinSet<()>) -> Result<(), Failure> {
        let mut ticks = tokio::time::interval(progress::TICK);
        let mut marks = tokio::time::interval(MARK);
        let mut marking: Option<JoinHandle<std::io::Result<()>>> = None;
        loop {
            if course.plan().is_done() {
                return Ok(());
            }
            tokio::select! {
                event = self.next_event(Some(course)) => event?,
                // The task has found that everything is present, or that its server is out, and has reported it.
                Some(_) = tasks.join_next() => {}
                _ = ticks.tick() => {
                    let now = now(&self.standings, course);
                    self.progress.tick(&now)?;
                }
                _ = marks.tick(), if marking.is_none() => marking = Some(mark(course)),
                Some(marked) = ended(&mut marking) => {
                    marking = None;
                    marked.map_err(|error| Failure::path("write", course.part.path(), &error))?;
                }
            }
        }
    }

    /// Handles an event of a server. Cancel-safe.
    async fn next_event(&mut self, course: Option<&Course>) -> Result<(), Failure> {
        if self.standings.are_out() {
            let name = escape(self.name.as_bytes());
            return Err(Failure::new(format!("no node sends {name}:{}", self.standings.reasons())));
        }
        // A time that the clock cannot represent never comes.
        let patience = self.standings.nobody.and_then(|since| since.checked_add(self.args.patience));
        let (server, event) = tokio::select! {
            // The servers hold the sending end of this channel.
            Some(event) = self.events.recv() => event,
            () = sleep_until(patience.map(Into::into)) => {
                let span = match self.args.patience {
                    Duration::ZERO => "at once".to_owned(),
                    span => format!("for {}", units::span(span)),
                };
                let reasons = self.standings.reasons();
                let what = if self.standings.have_answered() {
                    let name = escape(self.name.as_bytes());
                    format!("no node that has answered sends {name}, and the others have not answered {span}:{reasons}")
                } else {
                    format!("no node has answered {span}:{reasons}")
                };
                return Err(Failure::new(what).hint("are they running, and are their addresses right?"));
            }
        };
        let before = self.standings.all().get(server).map(|standing| standing.state.words().0);
        match event {
            Event::Met(info) if self.args.root.is_some_and(|root| info.root != root) => {
                self.standings.set(server, State::Out(Out::differs(&info)));
            }
            Event::Met(info) => self.standings.met(server, info),
            Event::Silent => self.standings.set(server, State::Silent),
            Event::Out(out) => self.standings.set(server, State::Out(out)),
            Event::Failed(failure) => return Err(failure),
        }
        self.tell(server, before.unwrap_or_default(), course.is_some())
    }

    /// Reports the change of a server.
    fn tell(&mut self, server: usize, before: &'static str, begun: bool) -> Result<(), Failure> {
        let Some(standing) = self.standings.all().get(server) else { return Ok(()) };
        let (state, reason) = standing.state.words();
        let name = self.standings.name(server);
        // The same state again, for example after another failed call, is not news.
        if state == before {
            return Ok(());
        }
        self.progress.clear();
        match (state, reason) {
            // The command ends here, and reports the reasons of all servers together.
            (_, Some(_)) if self.standings.are_out() => {}
            (_, Some(reason)) => self.settings.error(format!("{name}: {reason}; {}", told(state))),
            ("silent", None) => {
                let instead = match begun {
                    _ if self.standings.all().len() == 1 => "",
                    true => "other nodes send what it was asked for, and ",
                    false => "continues without it, and ",
                };
                self.settings.note(format!("{name}: no answer; {instead}it is tried again"));
            }
            _ if before == "silent" => self.settings.note(format!("{name}: is back")),
            _ => {}
        }
        let peer = standing.named.peer.id.to_string();
        self.settings.output.line(&ServerEvent { r#type: "server", peer, name, state, reason })
    }

    /// A failure after some pieces had arrived.
    fn kept(&self, failure: Failure, course: &Course) -> Failure {
        let here = course.shape.size - course.plan().missing_bytes();
        if here == 0 {
            course.part.remove_if_empty();
            return failure;
        }
        let part = course.part.path().display();
        let further = if self.standings.have_another() {
            format!(
                "--root {} continues from there, with a node that has this version; --force begins again, with another",
                course.root
            )
        } else {
            "the same command continues from there".to_owned()
        };
        self.settings.note(format!(
            "{} of {} are kept in {part}: {further}",
            Size(here),
            Size(course.shape.size)
        ));
        failure
    }

    /// The last line, before any server has answered.
    fn summary(&self, end: &'static str) -> Summary<'_> {
        Summary {
            r#type: "summary",
            end,
            name: self.name,
            file: self.target.display().to_string(),
            size: None,
            root: None,
            fetched: 0,
            had: 0,
            doubled: 0,
            seconds: self.started.elapsed().as_secs_f64(),
            servers: Vec::new(),
        }
    }

    fn sum_up(&self, course: &Course, had: u64, interrupted: bool) -> Result<Exit, Failure> {
        let took = self.started.elapsed();
        let now = now(&self.standings, course);
        let fetched = now.bytes.saturating_sub(had);
        let name = escape(self.name.as_bytes());
        if interrupted {
            self.settings.note(format!(
                "interrupted; {} of {} are in {}: the same command continues from there",
                Size(now.bytes),
                Size(now.total),
                course.part.path().display()
            ));
        } else {
            let rate = units::whole(units::rate(fetched, took)).unwrap_or(0);
            let rate = if fetched < 1 << 20 { String::new() } else { format!(", {}/s", Size(rate)) };
            let had = if had > 0 { format!(", {} were there", Size(had)) } else { String::new() };
            let text = format!("{} in {}{rate}{had}", Size(fetched), units::span(took));
            if !self.settings.quiet {
                self.settings.output.text(&format!("{:<9}  {name}  {text}", "stored"))?;
            }
            if now.servers.len() > 1 {
                self.shares(&now.servers);
            }
        }
        let servers = now.servers.iter().map(|(standing, tally)| ServerLine::new(standing, *tally)).collect();
        self.settings.output.line(&Summary {
            size: Some(course.shape.size),
            root: Some(course.root),
            fetched,
            had,
            doubled: course.plan().doubled(),
            servers,
            ..self.summary(if interrupted { "interrupted" } else { "done" })
        })?;
        Ok(if interrupted { Exit::Interrupted } else { Exit::Success })
    }

    /// Prints the share of each server.
    fn shares(&self, servers: &[(&standing::Standing, Tally)]) {
        let names = servers.iter().map(|(standing, _)| standing.named.name.len()).max().unwrap_or(0);
        for (standing, tally) in servers {
            let brought = Size(tally.bytes).to_string();
            let (state, reason) = standing.state.words();
            let more = match (state, reason) {
                ("active", _) => String::new(),
                (state, _) => format!("  {state}"),
            };
            self.settings.note(format!("{:<names$}  {brought:>10}{more}", standing.named.name));
        }
    }
}

fn now<'s>(standings: &'s Standings, course: &Course) -> Now<'s> {
    let plan = course.plan();
    let servers = standings.all().iter().enumerate().map(|(at, standing)| (standing, plan.tally(at)));
    let total = course.shape.size;
    Now { bytes: total - plan.missing_bytes(), total, servers: servers.collect() }
}

/// What the command prints about this state.
fn told(state: &str) -> &'static str {
    match state {
        "banned" => "it is banned: nothing more is taken from it",
        _ => "continues without it",
    }
}

/// Forces the pieces that have arrived to the disk, and then marks them.
fn mark(course: &Arc<Course>) -> JoinHandle<std::io::Result<()>> {
    let this = Arc::clone(course);
    tokio::task::spawn_blocking(move || this.part.mark())
}

/// The end of the running task, if there is one.
async fn ended(marking: &mut Option<JoinHandle<std::io::Result<()>>>) -> Option<std::io::Result<()>> {
    let marking = marking.as_mut()?;
    Some(marking.await.unwrap_or_else(|error| Err(std::io::Error::other(error))))
}

async fn sleep_until(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
