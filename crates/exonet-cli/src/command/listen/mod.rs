//! `exon listen`: receives messages and files.

mod desk;
mod exec;
pub(super) mod files;
mod patient;
mod streams;
mod stuck;
pub(super) mod taking;
mod totals;
mod working;

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use exonet::config::Config;
use exonet::{Node, NodeId};
use futures_util::future::join;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::desk::Desk;
use self::exec::Exec;
use self::patient::Patience;
use self::streams::Heard;
pub(super) use self::streams::{refuse, refuse_sessions};
use self::stuck::Stuck;
use self::taking::{Listener, Taken};
use self::totals::Totals;
use self::working::{Inputs, Working};
use super::announce::{announce, be_somebody};
use super::names::stand_for;
use super::standing::{Begin, Next, Over, answers, depart, lives, superseded};
use super::stop::{Leave, requests_or};
use crate::args::ListenArgs;
use crate::control::{Again, Control, Role};
use crate::copy;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::log;
use crate::metrics::Metrics;
use crate::moving::{Arrival, Door, take_in};
use crate::node;
use crate::settings::Settings;
use crate::store::{Names, Options, Store};

/// The maximum number of deliveries in progress at once, for large messages and files, and for small messages.
const ABREAST: usize = 256;
/// The interval between two sweeps for the leftovers of killed processes.
const SWEEP: Duration = Duration::from_secs(10);
/// The interval between two sweeps for abandoned copies.
const TIDY: Duration = Duration::from_secs(600);
/// The time limit for the last answers at the end.
const GOODBYE: Duration = Duration::from_secs(2);
/// The last request to stop that has an effect. With commands, the first request lets them finish, the second ends
/// them, and the third ends the process at once.
const LAST_REQUEST: u32 = 3;

pub(super) async fn run(settings: &Settings, args: &ListenArgs) -> Result<Exit, Failure> {
    let options = Options {
        limit: args.max_store,
        overwrite: args.overwrite,
        names: Names { hidden: args.hidden, portable: args.portable_names || cfg!(not(unix)) },
        patience: args.patience,
        keep_parts: args.keep_parts,
    };
    let open = |directory: &Path| Store::open(directory, options).map(Arc::new);
    let store = args.out.as_deref().map(open).transpose()?;
    #[cfg(unix)]
    if store.is_none() && args.exec.is_empty() && settings.output.may_be_closed() {
        settings.note(
            "standard output is closed, or /dev/null: messages are acknowledged, and not shown; --out DIR stores them",
        );
    }
    if !args.exec.is_empty() {
        // Errors of the command are reported before the node waits for anything.
        drop(Exec::new(settings, args)?);
    }
    let arrival = match args.arrive {
        Some(id) => take_in(settings, &Door { id, bind: args.door }).await?,
        None => None,
    };
    if !settings.identity.is_there()? {
        node::can_bind(args.bind).await?;
    }
    be_somebody(settings)?;
    let leave = Leave::default();
    let requests = requests_or(if args.exec.is_empty() { 2 } else { LAST_REQUEST }, &leave)?;
    let metrics = Metrics::open(settings, &args.metrics, "listen").await?;
    let life = Life { settings, args, store, leave: &leave, metrics, arrival: arrival.as_ref() };
    let mut totals = Totals::default();
    let started = Instant::now();
    let interrupted = lives(async |begin| life.run(begin, requests.clone(), &mut totals).await).await?;
    totals.sum_up(settings, started.elapsed(), interrupted)?;
    Ok(if interrupted && !leave.is_asked() { Exit::Interrupted } else { Exit::Success })
}

/// One life of the node: until the command ends, or the node is frozen for a move.
struct Life<'a> {
    settings: &'a Settings,
    args: &'a ListenArgs,
    store: Option<Arc<Store>>,
    leave: &'a Leave,
    metrics: Option<Metrics>,
    arrival: Option<&'a Arrival>,
}

impl Life<'_> {
    /// Returns at the end whether a signal ended the command.
    async fn run(
        &self,
        begin: Begin,
        requests: watch::Receiver<u32>,
        totals: &mut Totals,
    ) -> Result<Over<bool>, Failure> {
        let (settings, args, leave) = (self.settings, self.args, self.leave);
        let node = self.node(begin).await?;
        // Before any stream can be refused.
        let streams = streams::read(&node, args.stream.as_deref())?;
        let _watched = self.metrics.as_ref().map(|metrics| metrics.watch(&node));
        let (again, wanted) = mpsc::unbounded_channel();
        let role = if !args.exec.is_empty() { Role::Worker(again) } else { Role::Command("listen") };
        let control = Control::try_open_leaving(settings, &node, role, leave);
        let (tell, copied) = mpsc::unbounded_channel();
        let servings = files::serve(&node, self.store.clone(), tell)?;
        begin.greet(settings, &node);
        stand_for(settings, &node, &args.called).await?;
        answers(settings, self.arrival);
        if begin.bind() != Some(node.local_addr()) {
            announce(settings, &node, &args.allow, "send", self.stores())?;
        }
        let interrupted = tokio::select! {
            biased;
            failure = superseded(&node) => Err(failure),
            // The work ends with an error when the node is closed.
            Ok(never) = streams::refuse(&node) => match never {},
            interrupted = self.work(&node, streams, (requests, copied, wanted), totals) => interrupted,
        };
        control.close().await;
        let (at, began) = (node.local_addr(), Instant::now());
        if leave.is_asked() {
            node.freeze(GOODBYE).await;
        }
        let (next, _) = join(depart(settings, leave, began), node.close(GOODBYE)).await;
        drop(servings);
        let interrupted = interrupted?;
        Ok(match next? {
            Next::End => Over::Ended(interrupted),
            Next::GoOn => Over::Stays(at),
        })
    }

    async fn node(&self, begin: Begin) -> Result<Node, Failure> {
        let args = self.args;
        let change = |config: &mut Config| {
            config.tell_refused = !args.silent;
            // A piece of a file is assembled in memory.
            config.limits.stream_above = copy::LONGEST_PIECE;
        };
        node::at_again(self.settings, begin.bind(), args.bind, &args.allow, change).await
    }

    /// Describes what the node does with messages and files.
    fn stores(&self) -> String {
        let args = self.args;
        match &args.out {
            _ if !args.exec.is_empty() => format!("runs a command for each message, {} at once", args.jobs),
            Some(directory) => format!("stores up to {} in {}", args.max_store, directory.display()),
            None => "shows messages and stores nothing; --out DIR stores, and takes files".to_owned(),
        }
    }

    /// Takes what arrives until told to stop (true), or until enough has arrived (false).
    async fn work(
        &self,
        node: &Node,
        streams: mpsc::Receiver<streams::Heard>,
        (mut requests, copied, wanted): (
            watch::Receiver<u32>,
            mpsc::UnboundedReceiver<Taken>,
            mpsc::UnboundedReceiver<Again>,
        ),
        totals: &mut Totals,
    ) -> Result<bool, Failure> {
        let (settings, args) = (self.settings, self.args);
        if !args.exec.is_empty() {
            let (exec, inputs) = (Exec::new(settings, args)?, Inputs { requests, copied, wanted });
            return Working::new(settings, node, exec, args).run(inputs, totals).await;
        }
        let patience = Patience { most: args.patience, crowded: Arc::default() };
        let (node, store) = (node.clone(), self.store.clone());
        let listener = Listener { node, output: settings.output, raw: args.raw, store, patience };
        let mut service = Service::new(settings, listener, args.exit_after);
        let stop = async { drop(requests.wait_for(|requests| *requests > 0).await) };
        service.run(stop, (copied, streams), totals).await
    }
}

/// The state of the work on deliveries.
struct Service<'a> {
    settings: &'a Settings,
    listener: Arc<Listener>,
    enough: u64,
    /// Large messages wait for their senders, and small messages have already arrived. Neither kind delays the other.
    large: Desk,
    small: Desk,
    jobs: JoinSet<(NodeId, bool, Result<Taken, Failure>)>,
    /// Deliveries that could not be stored.
    stuck: Stuck,
}

impl<'a> Service<'a> {
    fn new(settings: &'a Settings, listener: Listener, enough: Option<u64>) -> Self {
        Self {
            settings,
            listener: Arc::new(listener),
            enough: enough.unwrap_or(u64::MAX),
            large: Desk::new(ABREAST),
            small: Desk::new(ABREAST),
            jobs: JoinSet::new(),
            stuck: Stuck::default(),
        }
    }

    /// Takes what arrives until told to stop (true), or until enough has arrived (false).
    async fn run(
        &mut self,
        stop: impl Future<Output = ()>,
        (mut copied, mut streams): (mpsc::UnboundedReceiver<Taken>, mpsc::Receiver<Heard>),
        totals: &mut Totals,
    ) -> Result<bool, Failure> {
        let mut stop = pin!(stop);
        let mut sweep = tokio::time::interval(SWEEP);
        let mut tidy = tokio::time::interval(TIDY);
        loop {
            self.begin(totals).await?;
            if totals.taken() >= self.enough {
                return Ok(false);
            }
            tokio::select! {
                delivery = self.listener.node.recv() => {
                    let delivery = delivery.map_err(|error| log::node_stopped(&error))?;
                    let desk = if delivery.body().is_stream() { &mut self.large } else { &mut self.small };
                    desk.put(delivery.from(), delivery);
                }
                Some(job) = self.jobs.join_next() => {
                    let (from, large, taken) =
                        job.map_err(|e| Failure::new("taking a message failed").because(&e))?;
                    let desk = if large { &mut self.large } else { &mut self.small };
                    desk.finished(from);
                    self.add(taken?, totals)?;
                }
                Some(taken) = copied.recv() => self.add(taken, totals)?,
                Some(heard) = streams.recv() => match heard {
                    Heard::Told(event) => event.tell(self.settings)?,
                    Heard::Message(delivery) => {
                        let taken = self.listener.take_in_stream(delivery).await;
                        self.add(taken?, totals)?;
                    }
                },
                () = self.stuck.over() => {}
                _ = sweep.tick(), if self.listener.store.is_some() => {
                    let listener = Arc::clone(&self.listener);
                    tokio::task::spawn_blocking(move || listener.store.as_ref().map(|store| store.sweep()));
                }
                _ = tidy.tick(), if self.listener.store.is_some() => {
                    let listener = Arc::clone(&self.listener);
                    tokio::task::spawn_blocking(move || listener.store.as_ref().map(|store| store.tidy()));
                }
                () = &mut stop => return Ok(true),
            }
        }
    }

    /// Starts deliveries for which there is a place, up to the wanted total.
    async fn begin(&mut self, totals: &mut Totals) -> Result<(), Failure> {
        loop {
            let wanted = usize::try_from(self.enough.saturating_sub(totals.taken())).unwrap_or(usize::MAX);
            let (small, large) = (self.small.at_work(), self.large.at_work());
            let (delivery, is_large) = if let Some(delivery) = self.small.next(wanted.saturating_sub(large)) {
                (delivery, false)
            } else if let Some(delivery) = self.large.next(wanted.saturating_sub(small)) {
                (delivery, true)
            } else {
                let crowded = self.small.is_crowded() || self.large.is_crowded();
                self.listener.patience.crowded.store(crowded, Ordering::Relaxed);
                return Ok(());
            };
            let (from, listener) = (delivery.from(), Arc::clone(&self.listener));
            if is_large || listener.store.is_some() {
                self.jobs.spawn(async move { (from, is_large, listener.take(delivery).await) });
            } else {
                // A small message that is only shown is handled at once, in the order of arrival.
                let taken = listener.take(delivery).await;
                self.small.finished(from);
                self.add(taken?, totals)?;
            }
        }
    }

    fn add(&mut self, taken: Taken, totals: &mut Totals) -> Result<(), Failure> {
        match taken {
            Taken::Stuck { delivery, error } => self.stuck.put(self.settings, delivery, &error),
            Taken::NotNow { from, error } => {
                self.stuck.failed(self.settings, from, &error);
            }
            taken => {
                if matches!(taken, Taken::Message { .. } | Taken::File { .. }) {
                    self.stuck.work_again(self.settings);
                }
                // A message on the disk is accepted, even if the event cannot be printed.
                totals.add(self.settings, taken).map_err(Failure::broken_output)?;
            }
        }
        Ok(())
    }
}
