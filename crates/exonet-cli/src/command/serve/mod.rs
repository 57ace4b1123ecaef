//! `exon serve`: answers calls.

mod desk;
mod sessions;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exonet::Node;
use exonet::call::Serving;
use exonet::config::Config;
use futures_util::future::{join, join_all};
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use self::desk::{Answers, Desk, Event};
use super::announce::{announce, be_somebody};
use super::exec::Program;
use super::names::stand_for;
use super::standing::{self, Begin, Next, Over, depart, lives, superseded};
use super::stop::{Leave, requests_or};
use crate::args::ServeArgs;
use crate::control::{Control, Role};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::moving::{Arrival, Door, take_in};
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::units::{self, count};

/// The last request to stop that has an effect. The first request drains, the second ends running calls, and the
/// third ends the process at once.
const LAST_REQUEST: u32 = 3;
/// A wait without a limit: the calls that are waited for have been told to end.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

pub(super) async fn run(settings: &Settings, args: &ServeArgs) -> Result<Exit, Failure> {
    let answers = if args.echo { Answers::Echo } else { Answers::Process(Program::new(&args.exec)?) };
    let answers = Arc::new(answers);
    let arrival = match args.arrive {
        Some(id) => take_in(settings, &Door { id, bind: args.door }).await?,
        None => None,
    };
    if !settings.identity.is_there()? {
        node::can_bind(args.bind).await?;
    }
    be_somebody(settings)?;
    let leave = Leave::default();
    let requests = requests_or(LAST_REQUEST, &leave)?;
    let metrics = Metrics::open(settings, &args.metrics, "serve").await?;
    let started = Instant::now();
    let mut totals = Totals::default();
    let life = || {
        let (answers, leave, metrics) = (&answers, &leave, metrics.as_ref());
        Life { settings, args, answers, leave, metrics, arrival: arrival.as_ref() }
    };
    let interrupted = lives(async |begin| life().run(begin, requests.clone(), &mut totals).await).await?;
    totals.sum_up(settings, started.elapsed(), interrupted)?;
    Ok(if interrupted && !leave.is_asked() { Exit::Interrupted } else { Exit::Success })
}

/// One life of the node: until the command ends, or the node is frozen for a move.
struct Life<'a> {
    settings: &'a Settings,
    args: &'a ServeArgs,
    answers: &'a Arc<Answers>,
    leave: &'a Leave,
    metrics: Option<&'a Metrics>,
    arrival: Option<&'a Arrival>,
}

impl Life<'_> {
    /// Returns at the end whether a signal ended the command.
    async fn run(
        &self,
        begin: Begin,
        mut requests: watch::Receiver<u32>,
        totals: &mut Totals,
    ) -> Result<Over<bool>, Failure> {
        let Self { settings, args, answers, leave, metrics, .. } = *self;
        let node = self.node(begin).await?;
        let _watched = metrics.map(|metrics| metrics.watch(&node));
        let control = Control::try_open_leaving(settings, &node, Role::Command("serve"), leave);
        let (tell, mut events) = mpsc::unbounded_channel();
        let (cut, is_cut) = watch::channel(false);
        let desk = Arc::new(Desk::new(&node, args, Arc::clone(answers), tell.clone(), is_cut));
        let servings = serve(&node, args, &desk)?;
        let conversations = sessions::serve(&node, args, answers, &tell)?;
        begin.greet(settings, &node);
        stand_for(settings, &node, &args.called).await?;
        standing::answers(settings, self.arrival);
        if begin.bind() != Some(node.local_addr()) {
            announce(settings, &node, &args.allow, "call", serves(args))?;
        }
        let interrupted = loop {
            if args.exit_after.is_some_and(|enough| totals.calls >= enough) {
                break false;
            }
            tokio::select! {
                // The desk stays alive in this function, so the channel stays open.
                Some(event) = events.recv() => totals.add(settings, &event)?,
                _ = requests.wait_for(|requests| *requests > 0) => break true,
                failure = superseded(&node) => return Err(failure),
            }
        };
        control.close().await;
        let (at, began) = (node.local_addr(), Instant::now());
        let moves = leave.is_asked();
        if moves {
            settings.note(
                "the identity is about to move: the node takes no further calls, and running ones may finish",
            );
            node.freeze(args.drain).await;
        }
        // Calls that still run have had their time.
        let span = if moves { Duration::ZERO } else { args.drain };
        let drained = drain(&node, servings, (span, requests), (&cut, tell));
        let mut over = pin!(join(depart(settings, leave, began), drained));
        let (next, ()) = loop {
            tokio::select! {
                over = &mut over => break over,
                Some(event) = events.recv() => totals.add(settings, &event)?,
            }
        };
        // The node is closed. The rest of a session waits for the next run of this identity.
        drop(conversations);
        while let Ok(event) = events.try_recv() {
            totals.add(settings, &event)?;
        }
        totals.forgotten += node.stats().replies_forgotten;
        Ok(match next? {
            Next::End => Over::Ended(interrupted),
            Next::GoOn => Over::Stays(at),
        })
    }

    async fn node(&self, begin: Begin) -> Result<Node, Failure> {
        let args = self.args;
        let change = |config: &mut Config| {
            config.tell_refused = !args.silent;
            config.limits.message = args.max_body.0.max(args.max_reply.0);
            config.reply_kept = args.keep_replies;
            // Without sessions, nothing would ever read messages.
            config.takes.messages = !args.sessions.is_empty();
            // A caller counts as gone when its channel ends.
            config.idle_timeout = args.end_orphans.unwrap_or(config.idle_timeout);
        };
        node::at_again(self.settings, begin.bind(), args.bind, &args.allow, change).await
    }
}

fn methods(args: &ServeArgs) -> Vec<String> {
    let echoes = args.methods.is_empty() && args.sessions.is_empty();
    if echoes { vec!["echo".to_owned()] } else { args.methods.clone() }
}

/// Describes what the node serves.
fn serves(args: &ServeArgs) -> String {
    let (methods, sessions) = (methods(args).join(", "), args.sessions.join(", "));
    match (methods.as_str(), sessions.as_str()) {
        (methods, "") => format!("serves {methods}"),
        ("", sessions) => format!("serves sessions {sessions}"),
        (methods, sessions) => format!("serves {methods}, and sessions {sessions}"),
    }
}

fn serve(node: &Node, args: &ServeArgs, desk: &Arc<Desk>) -> Result<Vec<Serving>, Failure> {
    let one = |method: String| {
        let desk = Arc::clone(desk);
        let handler = move |request| Arc::clone(&desk).run(request);
        let serve = node.serve(method.clone(), handler).concurrency(args.concurrency.into());
        serve.start().map_err(|e| Failure::new(format!("cannot serve {method:?}")).because(&e))
    };
    methods(args).into_iter().map(one).collect()
}

/// Waits for running calls and for replies in flight, until `span` is over or another request to stop arrives. Then
/// it ends the running calls.
async fn drain(
    node: &Node,
    servings: Vec<Serving>,
    (span, mut requests): (Duration, watch::Receiver<u32>),
    (cut, tell): (&watch::Sender<bool>, mpsc::UnboundedSender<Event>),
) {
    node.drain();
    let running = servings.iter().map(Serving::running).sum();
    let mut enough = pin!(async {
        tokio::select! {
            () = tokio::time::sleep(span) => {}
            _ = requests.wait_for(|requests| *requests > 1) => {}
        }
    });
    let stop_all = join_all(servings.into_iter().map(|serving| serving.stop(FOR_EVER)));
    // This is reported when each serving has been asked to stop once, and accepts no further call.
    let told = async { tell.send(Event::Draining { running }) };
    let mut stopped = pin!(join(stop_all, told));
    tokio::select! {
        _ = &mut stopped => tokio::select! {
            _ = node.close(FOR_EVER) => return,
            () = enough => {}
        },
        () = &mut enough => {
            cut.send_replace(true);
            drop(stopped.await);
        }
    }
    node.close(GOODBYE).await;
}

/// The totals of a server.
#[derive(Debug, Default, Serialize)]
struct Totals {
    calls: u64,
    /// The number of sessions that were served, or were being served at the end.
    sessions: u64,
    /// The number of these calls that were answered with a failure.
    failed: u64,
    /// The number of replies whose callers did not confirm them in time.
    forgotten: u64,
}

impl Totals {
    fn add(&mut self, settings: &Settings, event: &Event) -> Result<(), Failure> {
        if let Event::Answer { status, .. } = event {
            self.calls += 1;
            self.failed += u64::from(*status != 0);
            settings.output.text(&event.to_string())?;
        }
        self.sessions += u64::from(matches!(event, Event::Session { .. }));
        if let Event::Session { .. } | Event::SessionEnd { .. } = event {
            settings.output.text(&event.to_string())?;
        }
        if let Event::Draining { .. } = event {
            settings.note(event.to_string());
        }
        settings.output.line(event)
    }

    fn sum_up(&self, settings: &Settings, took: Duration, interrupted: bool) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Summary<'a> {
            r#type: &'static str,
            end: &'static str,
            #[serde(flatten)]
            totals: &'a Totals,
            seconds: f64,
        }
        let (calls, failed) = (units::counted(self.calls, "call"), count(self.failed));
        let answered = format!("answered {calls}, {failed} by a failure");
        let served = format!("served {}", units::counted(self.sessions, "session"));
        let did = match (self.calls, self.sessions) {
            (_, 0) => answered,
            (0, _) => served,
            _ => format!("{answered}, and {served}"),
        };
        settings.note(format!("{did}, in {}", units::span(took)));
        let end = if interrupted { "interrupted" } else { "done" };
        settings.output.line(&Summary { r#type: "summary", end, totals: self, seconds: took.as_secs_f64() })
    }
}
