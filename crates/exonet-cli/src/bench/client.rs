//! `exon bench client`: sends to a server, and counts what became of every message.

use std::collections::VecDeque;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use exonet::{BatchReceipt, Message, Node, PeerAddr, Receipt, SendError};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::task::JoinSet;

use super::work::{CALL, HEAD, REPORT, Report, cpu};
use crate::args::{ClientArgs, Mode};
use crate::exit::{Exit, Tally};
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::units::{count, precise, rate, span, whole};

/// Messages that the actors have open together at most before they wait for their oldest: a quarter of what a queue takes.
const OPEN: u64 = 16_384;
/// What an actor's numbers have to themselves.
const SHARE: u32 = 40;

/// The last line.
#[derive(Debug, Serialize)]
struct Summary {
    r#type: &'static str,
    msgs_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    sent: u64,
    /// As their receipts say.
    delivered: u64,
    unknown: u64,
    /// As the server counts.
    received: u64,
    duplicates: u64,
    cpu_s: f64,
    server_cpu_s: f64,
    seconds: f64,
    mtu: Option<u16>,
}

pub(super) async fn send(settings: &Settings, args: &ClientArgs) -> Result<Exit, Failure> {
    let size = usize::try_from(args.size.0).unwrap_or(usize::MAX);
    if size < HEAD {
        return Err(Failure::new(format!("a message of the bench has at least {HEAD} bytes")));
    }
    let node = node::toward(settings, &args.peer).await?;
    let (summary, exit) = while_heard(&node, args, measure(&node, args, size)).await??;
    node.close(GOODBYE).await;
    tell(settings, &summary)?;
    Ok(exit)
}

/// What `work` comes to, unless the server is silent for too long.
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
            return Err(failure.hint("see that `exon bench server` runs there, and can be reached"));
        }
    }
}

async fn measure(node: &Node, args: &ClientArgs, size: usize) -> Result<(Summary, Exit), Failure> {
    // The channel stands before the clock starts.
    let before = report(node, &args.peer).await?;
    let (cpu_before, begun) = (cpu(), Instant::now());
    let work = Arc::new(Work {
        node: node.clone(),
        peer: args.peer.clone(),
        size,
        batch: u64::from(args.batch),
        open: OPEN / u64::from(args.actors).max(1),
        begun,
        until: args.messages.is_none().then(|| begun + args.seconds),
        left: AtomicU64::new(args.messages.unwrap_or(u64::MAX)),
    });
    let mut actors = JoinSet::new();
    for actor in 0..u64::from(args.actors) {
        let work = Arc::clone(&work);
        let rpc = args.mode == Mode::Rpc;
        actors.spawn(async move { if rpc { work.call(actor).await } else { work.post(actor).await } });
    }
    let mut done = Done::new()?;
    while let Some(actor) = actors.join_next().await {
        done.add(actor.map_err(|e| Failure::new("an actor of the bench has failed").because(&e))??)?;
    }
    let took = begun.elapsed();
    let cpu_s = (cpu() - cpu_before).as_secs_f64();
    let told = report(node, &args.peer).await?;
    let millis = |quantile: f64| precise(done.times.value_at_quantile(quantile)) / 1e6;
    let summary = Summary {
        r#type: "summary",
        msgs_per_s: rate(done.tally.delivered, took),
        p50_ms: millis(0.5),
        p99_ms: millis(0.99),
        p999_ms: millis(0.999),
        sent: done.sent,
        delivered: done.tally.delivered,
        unknown: done.tally.unknown,
        received: told.received,
        duplicates: told.duplicates,
        cpu_s,
        server_cpu_s: told.cpu_s - before.cpu_s,
        seconds: took.as_secs_f64(),
        mtu: node.peer_stats(&args.peer.id).map(|stats| stats.mtu),
    };
    Ok((summary, done.tally.exit()))
}

fn tell(settings: &Settings, summary: &Summary) -> Result<(), Failure> {
    let time = |ms: f64| span(Duration::from_secs_f64(ms / 1e3));
    settings.output.text(&format!(
        "{} messages/s   p50 {}, p99 {}, p99.9 {}\n{} sent, {} delivered, {} received, {} twice, {} unknown\n\
         processor time {:.2} s here, {:.2} s there, in {:.2} s",
        count(whole(summary.msgs_per_s).unwrap_or(0)),
        time(summary.p50_ms),
        time(summary.p99_ms),
        time(summary.p999_ms),
        count(summary.sent),
        count(summary.delivered),
        count(summary.received),
        count(summary.duplicates),
        count(summary.unknown),
        summary.cpu_s,
        summary.server_cpu_s,
        summary.seconds,
    ))?;
    settings.output.line(summary)
}

/// What the server has counted since it was last asked.
async fn report(node: &Node, peer: &PeerAddr) -> Result<Report, Failure> {
    drop(node.send(peer, Message::default().tag(REPORT)).await.map_err(sending)?);
    loop {
        let received = node.recv().await.map_err(|e| Failure::new("the server is gone").because(&e))?;
        if received.tag == REPORT {
            let body = received.body.as_whole().cloned().unwrap_or_default();
            return serde_json::from_slice(&body)
                .map_err(|e| Failure::new("the server's report makes no sense").because(&e));
        }
    }
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` wants it
fn sending(error: SendError) -> Failure {
    Failure::new("cannot send to the bench's server").because(&error)
}

/// What actors have to do, together.
struct Work {
    node: Node,
    peer: PeerAddr,
    size: usize,
    batch: u64,
    /// Of each actor.
    open: u64,
    begun: Instant,
    until: Option<Instant>,
    left: AtomicU64,
}

/// What an actor has done.
struct Done {
    sent: u64,
    tally: Tally,
    times: Histogram<u64>,
}

impl Done {
    fn new() -> Result<Self, Failure> {
        let times = Histogram::new_with_max(3_600_000_000_000, 3);
        let times = times.map_err(|e| Failure::new("cannot make a histogram").because(&e))?;
        Ok(Self { sent: 0, tally: Tally::default(), times })
    }

    fn add(&mut self, other: Self) -> Result<(), Failure> {
        self.sent += other.sent;
        self.tally.delivered += other.tally.delivered;
        self.tally.unknown += other.tally.unknown;
        self.tally.expired += other.tally.expired;
        self.tally.cancelled += other.tally.cancelled;
        self.times.add(other.times).map_err(|e| Failure::new("cannot add histograms").because(&e))
    }

    /// `messages` have taken so long.
    fn time(&mut self, took: Duration, messages: u64) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.times.saturating_record_n(nanos, messages);
    }
}

enum Open {
    One(Receipt),
    Many(BatchReceipt),
}

impl Work {
    /// How many messages to send now, at most `most`.
    fn claim(&self, most: u64) -> u64 {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return 0;
        }
        if self.until.is_some() {
            return most;
        }
        let take = |left: u64| Some(left.saturating_sub(most));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0).min(most)
    }

    /// The body of message `number`, cut from `block`.
    fn body(&self, block: &mut BytesMut, number: u64) -> Bytes {
        if block.capacity() - block.len() < self.size {
            block.reserve(self.size.max(1 << 20));
        }
        block.put_u64(number);
        block.put_u64(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        block.put_bytes(0x5a, self.size - HEAD);
        block.split().freeze()
    }

    /// One way: sends while there is room, and waits for what it sent long ago.
    async fn post(&self, actor: u64) -> Result<Done, Failure> {
        let (mut done, mut block, mut open) = (Done::new()?, BytesMut::new(), VecDeque::new());
        let mut number = actor << SHARE;
        loop {
            let messages = self.claim(self.batch);
            if messages > 0 {
                let sent_at = Instant::now();
                let receipt = if self.batch == 1 {
                    let body = self.body(&mut block, number);
                    Open::One(self.node.send(&self.peer, body).await.map_err(sending)?)
                } else {
                    let bodies = (number..number + messages).map(|number| self.body(&mut block, number));
                    let sent = self.node.send_batch(&self.peer, bodies).await;
                    Open::Many(sent.map_err(|(_, error)| sending(error))?)
                };
                number += messages;
                done.sent += messages;
                open.push_back((sent_at, receipt));
            }
            while open.len() as u64 * self.batch > if messages > 0 { self.open } else { 0 }
                && let Some((sent_at, receipt)) = open.pop_front()
            {
                match receipt {
                    Open::One(mut receipt) => done.tally.add(receipt.outcome().await.outcome),
                    Open::Many(mut receipt) => {
                        let tally = receipt.outcomes().await;
                        done.tally.delivered += tally.delivered;
                        done.tally.unknown += tally.unknown;
                        done.tally.expired += tally.expired;
                        done.tally.cancelled += tally.cancelled;
                    }
                }
                done.time(sent_at.elapsed(), self.batch.min(messages.max(1)));
            }
            if messages == 0 {
                return Ok(done);
            }
        }
    }

    /// There and back: sends one, and waits for a reply, its own or another actor's.
    async fn call(&self, actor: u64) -> Result<Done, Failure> {
        let (mut done, mut block) = (Done::new()?, BytesMut::new());
        let mut number = actor << SHARE;
        while self.claim(1) > 0 {
            let call = Message::new(self.body(&mut block, number)).tag(CALL);
            drop(self.node.send(&self.peer, call).await.map_err(sending)?);
            number += 1;
            done.sent += 1;
            let reply = self.node.recv().await;
            let reply = reply.map_err(|e| Failure::new("the server is gone").because(&e))?;
            let body = reply.body.as_whole().map_or(&[][..], |body| body);
            if let Some(sent_at) = body.get(8..HEAD).and_then(|at| at.try_into().ok()) {
                let sent_at = Duration::from_nanos(u64::from_be_bytes(sent_at));
                done.time(self.begun.elapsed().saturating_sub(sent_at), 1);
                done.tally.delivered += 1;
            }
        }
        Ok(done)
    }
}
