//! `exon bench client`: sends to a server, and counts the outcome of every message.

use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use exonet::error::SendError;
use exonet::{Message, Node, Peer};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::task::JoinSet;

use super::actor::{Actor, Work};
use super::replies::Replies;
use super::work::{HEAD, REPORT, Report, cpu};
use crate::args::{ClientArgs, Mode};
use crate::exit::{Exit, Tally};
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::units::{count, precise, rate, span, whole};

/// The maximum number of messages that all actors together have open: a quarter of the capacity of a queue.
const MOST_OPEN: u64 = 16_384;
/// The minimum number of open bytes, however small the congestion window is.
const LEAST_OPEN: u64 = 64 << 10;
/// The interval between two checks of the window.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The largest message. Larger ones give no new information.
const MOST: usize = 1 << 30;
/// How many counters the actors share.
const COUNTERS: usize = 8;

/// The last line of the output.
#[derive(Debug, Serialize)]
struct Summary {
    r#type: &'static str,
    msgs_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    /// How many messages the rate and the times are based on.
    measured: u64,
    sent: u64,
    /// The number of messages with the outcome Delivered, or of calls with replies.
    delivered: u64,
    unknown: u64,
    expired: u64,
    cancelled: u64,
    /// The number that the server has counted. None for calls, which it does not count.
    received: Option<u64>,
    duplicates: Option<u64>,
    cpu_s: f64,
    server_cpu_s: f64,
    seconds: f64,
    mtu: Option<u16>,
}

/// The counts of actors.
pub(super) struct Done {
    pub(super) sent: u64,
    pub(super) tally: Tally,
    times: Histogram<u64>,
}

impl Done {
    fn new() -> Result<Self, Failure> {
        let times = Histogram::new_with_max(3_600_000_000_000, 3);
        let times = times.map_err(|e| Failure::new("cannot make a histogram").because(&e))?;
        Ok(Self { sent: 0, tally: Tally::default(), times })
    }

    fn join(&mut self, other: &Self) -> Result<(), Failure> {
        self.sent += other.sent;
        self.tally.join(&other.tally);
        self.times.add(&other.times).map_err(|e| Failure::new("cannot add histograms").because(&e))
    }

    /// Notes that `messages` messages have taken `nanos` nanoseconds each.
    pub(super) fn time(&mut self, nanos: u64, messages: u64) {
        self.times.saturating_record_n(nanos, messages);
    }
}

pub(super) async fn send(settings: &Settings, args: &ClientArgs) -> Result<Exit, Failure> {
    let size = usize::try_from(args.size.0).unwrap_or(usize::MAX);
    if !(HEAD..=MOST).contains(&size) {
        let failure = Failure::new(format!("the bench cannot send messages of {}", args.size));
        return Err(failure.hint(format!("choose a size from {HEAD} bytes to 1 GiB")));
    }
    if args.mode == Mode::Rpc && args.batch > 1 {
        let failure = Failure::new("--batch hands over messages one way, and --mode rpc waits for each echo");
        return Err(failure.hint("give one of them only; --actors N has N messages under way"));
    }
    let node = node::toward(settings, &args.peer).await?;
    let (summary, exit) = while_heard(&node, args, measure(&node, args, size)).await??;
    node.close(GOODBYE).await;
    tell(settings, &summary)?;
    Ok(exit)
}

/// The result of `work`, unless the server is silent for too long.
async fn while_heard<T>(node: &Node, args: &ClientArgs, work: impl Future<Output = T>) -> Result<T, Failure> {
    let mut work = pin!(work);
    let mut heard = 0;
    loop {
        if let Ok(done) = tokio::time::timeout(args.timeout, &mut work).await {
            return Ok(done);
        }
        let now = node.stats().datagrams_in;
        if mem::replace(&mut heard, now) == now {
            let (peer, silent) = (args.peer.id.short(), span(args.timeout));
            let failure = Failure::new(format!("nothing came from {peer} for {silent}"));
            return Err(failure.hint("check that `exon bench server` runs there and can be reached"));
        }
    }
}

async fn measure(node: &Node, args: &ClientArgs, size: usize) -> Result<(Summary, Exit), Failure> {
    let peer = node.peer(&args.peer);
    let mut replies = Replies::start(node, args.actors);
    // The channel is established before the clock starts.
    report(&peer, &mut replies).await?;
    let begin = Instant::now() + args.warm_up;
    let counters = (0..COUNTERS).map(|_| Done::new().map(Mutex::new)).collect::<Result<_, _>>()?;
    let work = Arc::new(Work {
        peer: peer.clone(),
        size,
        batch: u64::from(args.batch),
        actors: u64::from(args.actors),
        open: AtomicU64::new(u64::from(args.open.unwrap_or(1))),
        begin,
        until: args.messages.is_none().then(|| begin + args.seconds),
        left: AtomicU64::new(args.messages.unwrap_or(u64::MAX)),
        counters,
    });
    let mut actors = JoinSet::new();
    for number in 0..args.actors {
        let actor = Actor::new(Arc::clone(&work), number, replies.of(number));
        match (args.call, args.mode) {
            (true, _) => actors.spawn(actor.call()),
            (false, Mode::Rpc) => actors.spawn(actor.echo()),
            (false, Mode::Oneway) => actors.spawn(actor.post()),
        };
    }
    let watching = args.open.is_none().then(|| tokio::spawn(watch_window(Arc::clone(&work))));
    tokio::time::sleep_until(begin.into()).await;
    let (cpu_before, warm) = (cpu(), report(&peer, &mut replies).await?);
    while let Some(actor) = actors.join_next().await {
        actor.map_err(|e| Failure::new("an actor of the bench has failed").because(&e))??;
    }
    let took = begin.elapsed();
    let cpu_s = cpu().saturating_sub(cpu_before).as_secs_f64();
    if let Some(watching) = watching {
        watching.abort();
    }
    let told = report(&peer, &mut replies).await?;
    let mut done = Done::new()?;
    for counter in &work.counters {
        done.join(&counter.lock().unwrap_or_else(PoisonError::into_inner))?;
    }
    let millis = |nanos: u64| precise(nanos) / 1e6;
    let counted = |one: u64, other: u64| (!args.call).then(|| one + other);
    let summary = Summary {
        r#type: "summary",
        msgs_per_s: rate(done.times.len(), took),
        p50_ms: millis(done.times.value_at_quantile(0.5)),
        p99_ms: millis(done.times.value_at_quantile(0.99)),
        p999_ms: millis(done.times.value_at_quantile(0.999)),
        max_ms: millis(done.times.max()),
        measured: done.times.len(),
        sent: done.sent,
        delivered: done.tally.delivered,
        unknown: done.tally.unknown,
        expired: done.tally.expired,
        cancelled: done.tally.cancelled,
        received: counted(warm.received, told.received),
        duplicates: counted(warm.duplicates, told.duplicates),
        cpu_s,
        server_cpu_s: told.cpu_s - warm.cpu_s,
        seconds: took.as_secs_f64(),
        mtu: peer.stats().map(|stats| stats.mtu),
    };
    Ok((summary, done.tally.exit()))
}

/// Keeps four congestion windows of messages open. More messages would only wait in the queue, which would distort
/// the times.
async fn watch_window(work: Arc<Work>) {
    let size = work.size as u64;
    loop {
        let window = work.peer.stats().map_or(0, |stats| stats.window);
        let messages = window.saturating_mul(4).max(LEAST_OPEN) / size;
        let least = work.actors.saturating_mul(2);
        work.open.store(messages.min(MOST_OPEN).max(least), Ordering::Relaxed);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn tell(settings: &Settings, summary: &Summary) -> Result<(), Failure> {
    let time = |ms: f64| span(Duration::from_secs_f64(ms / 1e3));
    let of_server = |what: Option<u64>, word: &str| what.map(|n| format!(", {} {word}", count(n)));
    settings.output.text(&format!(
        "{} messages/s   p50 {}, p99 {}, p99.9 {}, most {}\n{} sent, {} delivered, {} unknown{}{}\n\
         processor time {:.2} s here, {:.2} s there, in {:.2} s",
        count(whole(summary.msgs_per_s).unwrap_or(0)),
        time(summary.p50_ms),
        time(summary.p99_ms),
        time(summary.p999_ms),
        time(summary.max_ms),
        count(summary.sent),
        count(summary.delivered),
        count(summary.unknown),
        of_server(summary.received, "received").unwrap_or_default(),
        of_server(summary.duplicates, "twice").unwrap_or_default(),
        summary.cpu_s,
        summary.server_cpu_s,
        summary.seconds,
    ))?;
    settings.output.line(summary)
}

/// What the server has counted since the last report.
async fn report(peer: &Peer, replies: &mut Replies) -> Result<Report, Failure> {
    let question = Message::default().tag(REPORT).priority(exonet::Priority::Urgent);
    drop(peer.send(question).await.map_err(sending)?);
    let body = replies.report().await?;
    serde_json::from_slice(&body).map_err(|e| Failure::new("the server's report cannot be read").because(&e))
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` wants it
pub(super) fn sending(error: SendError) -> Failure {
    Failure::new("cannot send to the bench's server").because(&error)
}
