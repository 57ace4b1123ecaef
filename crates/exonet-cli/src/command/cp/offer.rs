//! `exon cp --code`: offers files to the node that knows the code, and copies them there.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use exonet::naming::{BoundName, NamingError};
use exonet::{Node, NodeId, PeerAddr};
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::manifest::{self, Known};
use super::offering::{Event, Offering};
use super::passing::{self, Passing};
use super::report::Report;
use super::scan::{self, Scan};
use super::{Copying, Course, Meter, Peer, Progress, Window, key, only_name};
use crate::args::CpArgs;
use crate::code::Code;
use crate::code::meeting::{ENDED, Ended, VERSION};
use crate::code::nearby::{Answering, Asking};
use crate::command::names;
use crate::command::stop::{Stop, stop};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node;
use crate::settings::Settings;

/// How long another offer with the same number may take to answer.
const TAKEN: Duration = Duration::from_millis(300);
/// The maximum number of code numbers that are tried.
const NUMBERS: usize = 32;
/// The time limit for the last answers at the end.
const GOODBYE: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct CodeLine<'a> {
    r#type: &'static str,
    code: &'a str,
    number: u16,
    peer: String,
    /// Whether the offer can be found on the local network, and through the name server.
    local: bool,
    names: bool,
}

#[derive(Serialize)]
struct GuessLine {
    r#type: &'static str,
    from: String,
    left: u32,
}

#[derive(Serialize)]
struct ReceiverLine {
    r#type: &'static str,
    peer: String,
}

/// Runs the command with --code.
pub(in crate::command) async fn run(settings: Settings, args: &CpArgs) -> Result<Exit, Failure> {
    if args.no_local && settings.names().is_none() {
        return Err(Failure::new("without the local network, only a name server can find the offer")
            .hint("give one: --names ID@HOST:PORT, or EXON_NAMES; or leave out --no-local"));
    }
    let mut stop = pin!(stop(args.timeout)?);
    let scan = scan::scan(args.sources(), args)?;
    if scan.items.is_empty() {
        return Err(Failure::new("nothing can be copied").hint("see the lines above"));
    }
    let (settings, passing) = if passing::is_needed(&settings) {
        let (settings, passing) = Passing::new(settings).await?;
        (settings, Some(passing))
    } else {
        (settings, None)
    };
    let node = wherever(&settings).await?;
    let place = tokio::select! {
        place = Place::find(&settings, &node, passing.as_ref(), args.no_local) => place?,
        why = &mut stop => {
            node.close(GOODBYE).await;
            return Ok(ended_early(&settings, why));
        }
    };
    let (tell, events) = mpsc::unbounded_channel();
    let known = manifest::read(&scan);
    let code = Code::draw(place.number)?;
    say(&settings, &node, &place, &code)?;
    let serving = Offering::new(code, node.id(), known.clone(), tell).serve(&node)?;
    let mut offer = Offer { settings: &settings, args, node: &node, scan, known, events };
    let done = offer.run(stop.as_mut()).await;
    place.leave(&settings).await;
    // The answer to a wrong code may still be on its way.
    node.close(GOODBYE).await;
    drop(serving);
    drop(passing);
    done
}

/// Starts a node at any port of all addresses.
async fn wherever(settings: &Settings) -> Result<Node, Failure> {
    let change = |config: &mut exonet::config::Config| config.takes.messages = false;
    match node::at(settings, Some((Ipv6Addr::UNSPECIFIED, 0).into()), &[], change).await {
        Ok(node) => Ok(node),
        // Machines without IPv6 are common.
        Err(_) => node::at(settings, Some((Ipv4Addr::UNSPECIFIED, 0).into()), &[], change).await,
    }
}

fn say(settings: &Settings, node: &Node, place: &Place, code: &Code) -> Result<(), Failure> {
    let password = code.password();
    let ways = match (place.answering.is_some(), place.bound.is_some()) {
        (true, false) => "on this network",
        (true, true) => "on this network, or with the same --names",
        _ => "with the same --names",
    };
    settings.note(format!("on the other machine, {ways}: exon get {}", password.as_str()));
    settings.output.text(&password)?;
    settings.output.line(&CodeLine {
        r#type: "code",
        code: &password,
        number: place.number,
        peer: crate::command::reachable_as(node),
        local: place.answering.is_some(),
        names: place.bound.is_some(),
    })
}

/// The registrations through which a number leads to this node.
struct Place {
    number: u16,
    answering: Option<JoinHandle<()>>,
    bound: Option<BoundName>,
}

impl Place {
    /// Finds a number that no other offer has, and registers it.
    async fn find(
        settings: &Settings,
        node: &Node,
        passing: Option<&Passing>,
        no_local: bool,
    ) -> Result<Self, Failure> {
        for attempt in 0..NUMBERS {
            let number = Code::draw_number(attempt)?;
            if !no_local && is_taken(number).await {
                continue;
            }
            let bound = match settings.names() {
                Some(_) => match bind(settings, node, passing, number).await? {
                    Some(bound) => Some(bound),
                    None => continue,
                },
                None => None,
            };
            let answering = if no_local { None } else { answer(settings, node, number, bound.is_some())? };
            return Ok(Self { number, answering, bound });
        }
        Err(Failure::new(format!("{NUMBERS} numbers were tried, and other offers use them"))
            .hint("try again later, or leave out --names on a local network"))
    }

    /// Releases the number.
    async fn leave(self, settings: &Settings) {
        if let Some(answering) = self.answering {
            answering.abort();
        }
        if let Some(bound) = self.bound {
            let name = bound.name().clone();
            match tokio::time::timeout(GOODBYE, bound.unbind()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => settings.error(names::failed("unbind", &name, &error).to_string()),
                Err(_) => {
                    settings.note(format!("the name server does not answer, and still has the name {name}"));
                }
            }
        }
    }
}

/// Whether another offer on the network answers to the number.
async fn is_taken(number: u16) -> bool {
    match Asking::new(number) {
        Ok(mut asking) => tokio::time::timeout(TAKEN, asking.next()).await.is_ok(),
        Err(_) => false,
    }
}

/// Binds the name. None: another node has it.
async fn bind(
    settings: &Settings,
    node: &Node,
    passing: Option<&Passing>,
    number: u16,
) -> Result<Option<BoundName>, Failure> {
    let name = Code::name_of(number)?;
    if let Some(passing) = passing {
        passing.note(settings.names().unwrap_or_default(), &name)?;
    }
    match node.bind_name(&name, passing::addresses(node.local_addr())).await {
        Ok(bound) => Ok(Some(bound)),
        Err(NamingError::Taken { .. }) => Ok(None),
        Err(error) => Err(names::failed("bind", &name, &error)),
    }
}

fn answer(
    settings: &Settings,
    node: &Node,
    number: u16,
    is_bound: bool,
) -> Result<Option<JoinHandle<()>>, Failure> {
    match Answering::new(number, node.id(), node.local_addr()) {
        Ok(answering) => Ok(Some(tokio::spawn(answering.run()))),
        Err(error) if is_bound => {
            settings.note(format!(
                "the local network cannot be used: {error}; only the name server can find this offer"
            ));
            Ok(None)
        }
        Err(error) => Err(Failure::new("cannot be found on the local network")
            .because(&error)
            .hint("give both machines a name server: --names ID@HOST:PORT; see `exon names serve`")),
    }
}

/// An offer that waits for a receiver, or is being copied.
struct Offer<'a> {
    settings: &'a Settings,
    args: &'a CpArgs,
    node: &'a Node,
    scan: Scan,
    known: watch::Receiver<Known>,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Offer<'_> {
    /// Runs until the files are copied, or the offer ends.
    async fn run(&mut self, mut stop: Pin<&mut impl Future<Output = Stop>>) -> Result<Exit, Failure> {
        let mut to = tokio::select! {
            to = self.next() => to?,
            why = &mut stop => return Ok(ended_early(self.settings, why)),
        };
        loop {
            self.settings.note(format!("{} has given the code", to.short()));
            self.settings.output.line(&ReceiverLine { r#type: "receiver", peer: to.to_string() })?;
            match self.copy(to, stop.as_mut()).await? {
                Over::Ended(exit) => return Ok(exit),
                Over::Taken(by) => to = by,
            }
        }
    }

    /// Waits for the next node that proves that it knows the code.
    async fn next(&mut self) -> Result<NodeId, Failure> {
        loop {
            // The desk holds the sender, so the channel ends only with the node.
            match self.events.recv().await {
                None => return Err(Failure::new("the node has stopped")),
                Some(Event::Begin { from }) => return Ok(from),
                Some(Event::Unreadable(why)) => return Err(Failure::new(why)),
                Some(Event::Wrong { from, left }) => self.wrong(from, left)?,
            }
        }
    }

    fn wrong(&self, from: NodeId, left: u32) -> Result<(), Failure> {
        self.settings.output.line(&GuessLine { r#type: "guess", from: from.to_string(), left })?;
        if left == 0 {
            return Err(Failure::new(
                "wrong codes were tried, and the offer has ended: somebody may be guessing",
            )
            .hint("the same command offers it again, under a new code"));
        }
        let tries = crate::units::counted(left.into(), "more wrong code");
        self.settings.error(format!("{} tried a wrong code; {tries} will end the offer", from.short()));
        Ok(())
    }

    async fn copy(
        &mut self,
        to: NodeId,
        stop: Pin<&mut impl Future<Output = Stop>>,
    ) -> Result<Over, Failure> {
        let (settings, node) = (self.settings, self.node);
        let root = self.known.borrow().as_ref().and_then(|known| known.as_ref().ok()?.root);
        let (stopping, stopped) = watch::channel(false);
        let peer = node.peer(where_it_is(node, to));
        let copying = Copying {
            peer: Peer::new(peer.clone(), stopped).returning(),
            meter: Arc::new(Meter::default()),
            window: Window::new(),
            lasting: root.map_or_else(key::of_this_run, |root| key::of_content(&root))?,
            of_this_run: key::of_this_run()?,
            checksum: self.args.checksum,
        };
        let mut report = Report::new(settings);
        report.problems(&self.scan)?;
        let absent = "the receiver can give the same code again, and continues".to_owned();
        let mut progress = Progress::new(settings, only_name(&self.scan), absent);
        let items = self.scan.items.clone();
        let mut course = Course { node, copying: &copying, stopping: &stopping, progress: &mut progress };
        let over = tokio::select! {
            ended = course.run(items, stop, &mut report) => Ok(ended?),
            by = self.next() => Err(by?),
        };
        progress.clear();
        match over {
            Ok(ended) => {
                let (stored, left) = report.ends();
                tell(&peer, if ended.is_some() { "interrupted" } else { "done" }, stored, left).await;
                Ok(Over::Ended(report.sum_up(ended, copying.meter.sent.get())?))
            }
            Err(by) => {
                peer.abandon();
                // The former receiver may be gone, so this command does not wait for it.
                tokio::spawn(async move { tell(&peer, "elsewhere", 0, 0).await });
                Ok(Over::Taken(by))
            }
        }
    }
}

/// The node with its current address: this node forgets a receiver that leaves, and the receiver may come back.
fn where_it_is(node: &Node, id: NodeId) -> PeerAddr {
    let remote = node.peer(id).stats().and_then(|stats| stats.remote);
    let known = remote.and_then(|remote| PeerAddr::new(id, [remote.to_string()]).ok());
    known.unwrap_or_else(|| id.into())
}

enum Over {
    Ended(Exit),
    /// Another node has proven that it knows the code: the same person has retried after an interrupt.
    Taken(NodeId),
}

/// Tells the receiver how the copy ended.
async fn tell(peer: &exonet::Peer, end: &str, stored: u64, left: u64) {
    let ended = Ended { v: VERSION, end: end.to_owned(), stored, left };
    if let Ok(body) = serde_json::to_vec(&ended) {
        // A receiver that does not get this call notices that this node is gone.
        let _ = peer.call(ENDED, body).deadline(GOODBYE).await;
    }
}

fn ended_early(settings: &Settings, why: Stop) -> Exit {
    match why {
        Stop::Interrupted => {
            settings.note("interrupted: the code is no longer valid");
            Exit::Interrupted
        }
        Stop::TimedOut => {
            settings.note("nobody gave the code in time: it is no longer valid");
            Exit::Undelivered
        }
    }
}
