//! Calls over loopback: how many per second, how long each takes, and what it costs.

use std::time::{Duration, Instant};

use bytes::Bytes;
use exonet::call::Request;
use exonet::error::CallError;
use exonet::stats::Stats;
use exonet::{Allow, Node, PeerAddr};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::args::CallsArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::GOODBYE;
use crate::settings::Settings;
use crate::units::{count, precise, rate, span, whole};

/// The default numbers of concurrent callers.
const ACTORS: [u32; 3] = [1, 10, 100];
/// The time before the clock starts, in which windows grow and caches fill.
const WARM_UP: Duration = Duration::from_millis(200);
const METHOD: &str = "echo";

/// All figures; the last line of `--json`.
#[derive(Debug, Serialize)]
struct Figures {
    r#type: &'static str,
    first_contact: bool,
    size: u64,
    calls: Vec<Calls>,
}

/// The figures for this number of actors, each of which has one call in flight at any time.
#[derive(Debug, Serialize)]
struct Calls {
    actors: u32,
    calls: u64,
    per_s: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    /// The processor time of a call, for both sides together.
    cpu_us: Option<f64>,
    /// The datagrams per call in both directions, as the server counts them, including other traffic.
    datagrams: f64,
    /// Openings that had to prove their address first.
    retries: u64,
}

pub(super) async fn run(settings: &Settings, args: &CallsArgs) -> Result<Exit, Failure> {
    let actors = if args.actors.is_empty() { ACTORS.to_vec() } else { args.actors.clone() };
    let first_contact = args.first_contact;
    let mut figures = Figures { r#type: "summary", first_contact, size: args.size.0, calls: Vec::new() };
    let who = if first_contact { "a new identity for every call" } else { "two nodes in this process" };
    settings.output.text(&format!("\n  {who}, over loopback, encrypted\n"))?;
    for actors in actors {
        let measured = measure(args, actors).await?;
        settings.output.text(&row(&measured))?;
        figures.calls.push(measured);
    }
    settings.output.text("")?;
    settings.output.line(&figures)?;
    Ok(Exit::Success)
}

fn row(row: &Calls) -> String {
    let micros = |us: f64| span(Duration::from_secs_f64(us / 1e6));
    let cpu = row.cpu_us.map(|us| format!(", {} of the processor", micros(us))).unwrap_or_default();
    format!(
        "  {:>6} at once {:>10} calls/s   p50 {}, p99 {}, p99.9 {}\n  {:>35}{:.1} datagrams{cpu} each",
        count(row.actors.into()),
        count(whole(row.per_s).unwrap_or(0)),
        micros(row.p50_us),
        micros(row.p99_us),
        micros(row.p999_us),
        "",
        row.datagrams,
    )
}

async fn measure(args: &CallsArgs, actors: u32) -> Result<Calls, Failure> {
    let server = node().await?;
    let echo = |mut request: Request| async move { request.body.bytes(u64::MAX).await };
    let serve = server.serve(METHOD, echo).concurrency(usize::MAX >> 4);
    let serving = serve.start().map_err(|e| Failure::new("cannot serve over loopback").because(&e))?;
    let caller = if args.first_contact { None } else { Some(node().await?) };
    let body = Bytes::from(vec![0x5a; usize::try_from(args.size.0).unwrap_or(usize::MAX)]);
    let actor = Actor { caller: caller.clone(), to: server.peer_addr(), body };
    actor.run_all(actors, WARM_UP).await?;
    let (before, cpu) = (server.stats(), processor());
    let started = Instant::now();
    let trips = actor.run_all(actors, args.seconds).await?;
    let took = started.elapsed();
    let (after, spent) = (server.stats(), cpu.zip(processor()).map(|(from, to)| to.saturating_sub(from)));
    drop(serving);
    if let Some(caller) = caller {
        caller.close(GOODBYE).await;
    }
    server.close(GOODBYE).await;
    let micros = |nanos: u64| precise(nanos) / 1e3;
    let each = |sum: f64| sum / precise(trips.len().max(1));
    let datagrams = |stats: &Stats| precise(stats.datagrams_in.saturating_add(stats.datagrams_out));
    Ok(Calls {
        actors,
        calls: trips.len(),
        per_s: rate(trips.len(), took),
        p50_us: micros(trips.value_at_quantile(0.5)),
        p99_us: micros(trips.value_at_quantile(0.99)),
        p999_us: micros(trips.value_at_quantile(0.999)),
        max_us: micros(trips.max()),
        cpu_us: spent.map(|spent| each(spent.as_secs_f64() * 1e6)),
        datagrams: each(datagrams(&after) - datagrams(&before)),
        retries: after.retries.saturating_sub(before.retries),
    })
}

/// An actor that repeats calls.
#[derive(Clone)]
struct Actor {
    /// The calling node, or None for a new node for every call.
    caller: Option<Node>,
    to: PeerAddr,
    body: Bytes,
}

impl Actor {
    async fn run_all(&self, actors: u32, over: Duration) -> Result<Histogram<u64>, Failure> {
        let end = Instant::now() + over;
        let mut running: JoinSet<_> = (0..actors).map(|_| self.clone().run(end)).collect();
        let mut all = histogram()?;
        while let Some(one) = running.join_next().await {
            let one = one.map_err(|e| Failure::new("a caller has failed").because(&e))??;
            all.add(one).map_err(|e| Failure::new("cannot add histograms").because(&e))?;
        }
        Ok(all)
    }

    async fn run(self, end: Instant) -> Result<Histogram<u64>, Failure> {
        let mut trips = histogram()?;
        while Instant::now() < end {
            let took = match &self.caller {
                Some(caller) => self.call(caller).await?,
                None => {
                    let caller = node().await?;
                    let took = self.call(&caller).await?;
                    caller.close(GOODBYE).await;
                    took
                }
            };
            trips.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(trips)
    }

    async fn call(&self, caller: &Node) -> Result<Duration, Failure> {
        let failed = |e: CallError| Failure::new("cannot call over loopback").because(&e);
        let called = Instant::now();
        let mut reply = caller.peer(&self.to).call(METHOD, self.body.clone()).await.map_err(failed)?;
        let whole = reply.body.bytes(u64::MAX).await;
        whole.map_err(|e| Failure::new("a reply ended early").because(&e))?;
        Ok(called.elapsed())
    }
}

fn histogram() -> Result<Histogram<u64>, Failure> {
    let histogram = Histogram::new_with_max(60_000_000_000, 3);
    histogram.map_err(|e| Failure::new("cannot make a histogram").because(&e))
}

async fn node() -> Result<Node, Failure> {
    let built = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await;
    built.map_err(|e| Failure::new("cannot start a node on loopback").because(&e))
}

/// The processor time that this process has used.
#[cfg(unix)]
fn processor() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(not(unix))]
fn processor() -> Option<Duration> {
    None
}
