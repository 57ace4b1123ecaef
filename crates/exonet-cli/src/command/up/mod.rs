//! `exon up`: a node in the background that sends for other commands.

mod book;
#[cfg(unix)]
mod detach;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exonet::Node;
use futures_util::future::join;
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use self::book::{Book, Intake, Totals};
use super::announce::be_somebody;
use super::listen::refuse;
use super::standing::{Begin, Next, Over, answers, depart, lives, superseded};
use super::stop::{Leave, requests_or};
use crate::args::UpArgs;
use crate::control::past::Past;
use crate::control::protocol::{Places, Room};
use crate::control::{Control, Desk, Role, available};
use crate::exit::{Exit, Tally};
use crate::failure::Failure;
use crate::gateway::{Gateway, Site};
use crate::metrics::{self, Metrics};
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::units::{self, counted};

pub(super) async fn run(settings: &Settings, args: &UpArgs) -> Result<Exit, Failure> {
    available("up")?;
    check_reach(args)?;
    if args.bind.is_some() && !settings.identity.is_there()? {
        node::can_bind(args.bind).await?;
    }
    be_somebody(settings)?;
    if args.detach {
        #[cfg(unix)]
        return detach::detach(settings).await;
        #[cfg(not(unix))]
        return Err(Failure::new("--detach does not work on this system"));
    }
    #[cfg(unix)]
    if args.session {
        // Closing the terminal must not end the process. If this call fails, the process is already the leader of its
        // session.
        let _ = rustix::process::setsid();
    }
    let leave = Leave::default();
    let requests = requests_or(2, &leave)?;
    let site = Site::take(settings, &args.gateway).await?;
    let metrics = Metrics::open(settings, &args.metrics, "up").await?;
    let started = Instant::now();
    let life =
        Life { settings, args, site, leave: &leave, metrics, past: Arc::default(), end: Arc::default() };
    let mut totals = Totals::default();
    let open = lives(async |begin| life.run(begin, requests.clone(), &mut totals).await).await?;
    sum_up(settings, &totals, (open, leave.is_asked()), started.elapsed())?;
    Ok(if leave.is_asked() { Exit::Success } else { Exit::Interrupted })
}

/// Fails if other machines can reach the gateway and the user has not allowed it. This is checked before an identity
/// is created.
fn check_reach(args: &UpArgs) -> Result<(), Failure> {
    let gateway = &args.gateway;
    match gateway.http.filter(|http| !http.ip().is_loopback() && !gateway.http_remote) {
        Some(address) => Err(Failure::new(format!("other machines can reach --http {address}"))
            .hint("use 127.0.0.1, or allow this: --http-remote")
            .wrong_usage()),
        None => Ok(()),
    }
}

/// One life of the node: until the command ends, or the node is frozen for a move.
struct Life<'a> {
    settings: &'a Settings,
    args: &'a UpArgs,
    site: Option<Site>,
    leave: &'a Leave,
    metrics: Option<Metrics>,
    past: Arc<Past>,
    /// True: `exon down` asks the node to end.
    end: Arc<watch::Sender<bool>>,
}

impl Life<'_> {
    /// Returns at the end the number of messages without an outcome.
    async fn run(
        &self,
        begin: Begin,
        mut requests: watch::Receiver<u32>,
        totals: &mut Totals,
    ) -> Result<Over<usize>, Failure> {
        let Self { settings, args, leave, .. } = *self;
        let (node, left) = node::background(settings, begin.bind(), args).await?;
        let _watched = self.metrics.as_ref().map(|metrics| metrics.watch(&node));
        if !matches!(begin, Begin::Again(_)) {
            totals.recovered = u64::try_from(left.len()).unwrap_or(u64::MAX);
        }
        let (taken, of_gateway) = mpsc::unbounded_channel();
        let (handed, of_commands) = mpsc::unbounded_channel();
        let (gateway, askers) = match &self.site {
            Some(site) => site
                .open(settings, &node, &args.gateway, &taken, &left)
                .map(|(it, askers)| (Some(it), askers))?,
            None => (None, Vec::new()),
        };
        let places = places(&node, gateway.as_ref(), self.metrics.as_ref());
        let room =
            Room { messages: u64::try_from(args.queue.get()).unwrap_or(u64::MAX), bytes: args.queue_bytes.0 };
        let (end, past) = (Arc::clone(&self.end), Arc::clone(&self.past));
        let desk = Desk { handed, past: Arc::clone(&past), end, places: places.clone(), room };
        let control = Control::open_leaving(settings, &node, Role::Up(desk), leave)?;
        begin.greet(settings, &node);
        answers(settings, None);
        if begin.bind() != Some(node.local_addr()) {
            announce(settings, &node, &control, (gateway.as_ref(), places))?;
        }
        let mut book = Book::new(settings, &node, left, askers, (totals, past));
        let mut intake = Intake { of_commands, of_gateway };
        let mut ended = self.end.subscribe();
        let worked = {
            let mut stop = pin!(async {
                tokio::select! {
                    _ = requests.wait_for(|requests| *requests > 0) => {}
                    _ = ended.wait_for(|ended| *ended) => {}
                }
            });
            tokio::select! {
                biased;
                failure = superseded(&node) => Err(failure),
                worked = book.keep(&mut intake, &mut stop) => worked,
                Ok(never) = refuse(&node) => match never {},
            }
        };
        control.close().await;
        if let Some(gateway) = gateway {
            gateway.close().await;
        }
        let (at, began) = (node.local_addr(), Instant::now());
        if leave.is_asked() {
            node.freeze(GOODBYE).await;
        }
        let (next, open) = join(depart(settings, leave, began), node.close(GOODBYE)).await;
        book.finish()?;
        worked?;
        Ok(match next? {
            Next::End => Over::Ended(open.len()),
            Next::GoOn => Over::Stays(at),
        })
    }
}

fn places(node: &Node, gateway: Option<&Gateway>, metrics: Option<&Metrics>) -> Places {
    Places {
        peer: Some(node.peer_addr().to_string()),
        http: gateway.map(|gateway| gateway.url.clone()),
        http_token: gateway.map(|gateway| gateway.token.display().to_string()),
        metrics: metrics::url(metrics),
    }
}

fn announce(
    settings: &Settings,
    node: &Node,
    control: &Control,
    (gateway, places): (Option<&Gateway>, Places),
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Up {
        r#type: &'static str,
        id: String,
        identity: String,
        pid: u32,
        control: Option<String>,
        #[serde(flatten)]
        places: Places,
    }
    let options = settings.identity.options();
    let (identity, pid) = (&settings.identity, std::process::id());
    settings.note(format!(
        "the node of identity {identity} runs (process {pid}), and sends as {}",
        node.id().short()
    ));
    settings.note(format!(
        "to send: exon send{options} --durable PEER TEXT; to see what is open: exon outbox ls{options}"
    ));
    if let Some(gateway) = gateway {
        gateway.announce(settings);
    }
    settings.output.line(&Up {
        r#type: "up",
        id: node.id().to_string(),
        identity: identity.to_string(),
        pid,
        control: control.path().map(|path| path.display().to_string()),
        places,
    })
}

/// Prints the summary. `moved`: open messages have moved with the identity.
fn sum_up(
    settings: &Settings,
    totals: &Totals,
    (open, moved): (usize, bool),
    took: Duration,
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Summary {
        r#type: &'static str,
        end: &'static str,
        /// The number of messages handed over by commands.
        taken: u64,
        recovered: u64,
        #[serde(flatten)]
        tally: Tally,
        open: usize,
        seconds: f64,
    }
    let taken = counted(totals.taken, "message");
    settings.note(format!("took {taken} in {}: {}", units::span(took), totals.tally.describe()));
    if open > 0 && !moved {
        let number = counted(u64::try_from(open).unwrap_or(u64::MAX), "message");
        let options = settings.identity.options();
        settings.note(format!(
            "kept: {number}. To continue: exon up{options}; to see them: exon outbox ls{options}"
        ));
    }
    settings.output.line(&Summary {
        r#type: "summary",
        end: if moved { "moved" } else { "interrupted" },
        taken: totals.taken,
        recovered: totals.recovered,
        tally: totals.tally,
        open,
        seconds: took.as_secs_f64(),
    })
}
