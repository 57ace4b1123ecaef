//! Two nodes over loopback: messages per second, and round trips.

use std::time::{Duration, Instant};

use bytes::Bytes;
use exonet::error::{Closed, SendError};
use exonet::{Allow, Message, Node, Peer};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::failure::Failure;
use crate::node::GOODBYE;
use crate::units::{precise, rate};

/// The maximum number of bytes and of messages of a batch.
const BATCH_BYTES: usize = 64 << 10;
const MAX_BATCH: usize = 1_024;
/// The time before the clock starts, in which windows grow and caches fill.
const WARM_UP: Duration = Duration::from_millis(500);

/// How many messages are handed over at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Batch {
    One,
    Many,
}

impl Batch {
    /// How many messages of `size` bytes are handed over at a time.
    pub(super) fn messages(self, size: usize) -> usize {
        match self {
            Self::One => 1,
            Self::Many => (BATCH_BYTES / size.max(1)).clamp(2, MAX_BATCH),
        }
    }
}

/// The figures of messages one way.
#[derive(Debug, Serialize)]
pub(super) struct OneWay {
    pub(super) size: usize,
    /// How many messages were handed over at a time.
    pub(super) batch: usize,
    pub(super) messages_per_s: f64,
    pub(super) bytes_per_s: f64,
}

/// The figures of round trips, one after the other.
#[derive(Debug, Serialize)]
pub(super) struct RoundTrip {
    pub(super) size: usize,
    pub(super) per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) max_us: f64,
}

impl RoundTrip {
    /// Computes the figures from the times of the trips, in nanoseconds.
    pub(super) fn of(size: usize, trips: &Histogram<u64>, took: Duration) -> Self {
        let micros = |nanos: u64| precise(nanos) / 1e3;
        Self {
            size,
            per_s: rate(trips.len(), took),
            p50_us: micros(trips.value_at_quantile(0.5)),
            p99_us: micros(trips.value_at_quantile(0.99)),
            max_us: micros(trips.max()),
        }
    }
}

/// Two nodes that know each other.
pub(super) struct Pair {
    here: Node,
    there: Node,
    to_there: Peer,
    to_here: Peer,
}

fn sending(error: &SendError) -> Failure {
    Failure::new("cannot send over loopback").because(error)
}

fn receiving(error: &Closed) -> Failure {
    Failure::new("cannot receive over loopback").because(error)
}

impl Pair {
    pub(super) async fn connect() -> Result<Self, Failure> {
        let (here, there) = (node().await?, node().await?);
        let (to_here, to_there) = (there.peer(here.peer_addr()), here.peer(there.peer_addr()));
        Ok(Self { here, there, to_there, to_here })
    }

    /// Sends without pause, and counts what the receiving application gets.
    pub(super) async fn one_way(self, size: usize, batch: Batch, over: Duration) -> Result<OneWay, Failure> {
        let sender = tokio::spawn(send_for_ever(self.to_there.clone(), size, batch));
        let there = self.there.clone();
        let receive = tokio::spawn(async move {
            take_for(&there, batch, size, WARM_UP).await?;
            let started = Instant::now();
            let taken = take_for(&there, batch, size, over).await?;
            Ok((taken, started.elapsed()))
        });
        let measured = tokio::select! {
            measured = receive => {
                measured.unwrap_or_else(|e| Err(Failure::new("the receiver has failed").because(&e)))
            }
            // The sender ends only if it fails.
            ended = sender => Err(match ended {
                Ok(error) => sending(&error),
                Err(error) => Failure::new("the sender has failed").because(&error),
            }),
        };
        self.end().await;
        let (taken, took) = measured?;
        let messages_per_s = rate(taken, took);
        Ok(OneWay {
            size,
            batch: batch.messages(size),
            messages_per_s,
            bytes_per_s: messages_per_s * precise(u64::try_from(size).unwrap_or(u64::MAX)),
        })
    }

    /// Measures round trips, with one message in flight at any time.
    pub(super) async fn round_trips(self, size: usize, over: Duration) -> Result<RoundTrip, Failure> {
        let body = Bytes::from(vec![0x5a; size]);
        let pair = std::sync::Arc::new(self);
        // Both sides run on threads of the runtime: other threads would have to wake the thread that waits for this
        // future.
        let echo = tokio::spawn({
            let pair = std::sync::Arc::clone(&pair);
            async move { pair.echo().await }
        });
        let trips = tokio::spawn({
            let pair = std::sync::Arc::clone(&pair);
            async move { pair.trips(&body, over).await }
        });
        let trips = trips.await.map_err(|e| Failure::new("the bench has failed").because(&e))?;
        echo.abort();
        pair.end().await;
        let (trips, took) = trips?;
        Ok(RoundTrip::of(size, &trips, took))
    }

    async fn trips(&self, body: &Bytes, over: Duration) -> Result<(Histogram<u64>, Duration), Failure> {
        let histogram = Histogram::<u64>::new_with_max(60_000_000_000, 3);
        let mut trips = histogram.map_err(|e| Failure::new("cannot make a histogram").because(&e))?;
        let (begun, messages) = (Instant::now(), self.here.at_most_once());
        let mut started = None;
        loop {
            let sent = Instant::now();
            let receipt = self.to_there.send(body.clone()).await;
            drop(receipt.map_err(|e| sending(&e))?);
            messages.recv().await.map_err(|e| receiving(&e))?;
            let Some(started) = started else {
                if begun.elapsed() >= WARM_UP {
                    started = Some(Instant::now());
                }
                continue;
            };
            trips.saturating_record(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
            let took: Duration = Instant::now().duration_since(started);
            if took >= over {
                return Ok((trips, took));
            }
        }
    }

    async fn echo(&self) -> Result<std::convert::Infallible, Failure> {
        let messages = self.there.at_most_once();
        loop {
            let received = messages.recv().await.map_err(|e| receiving(&e))?;
            let body = received.body.as_whole().cloned().unwrap_or_default();
            let receipt = self.to_here.send(body).await;
            drop(receipt.map_err(|e| sending(&e))?);
        }
    }

    /// Closes both nodes. Queued messages are given up.
    async fn end(&self) {
        tokio::join!(self.here.close(Duration::ZERO), self.there.close(GOODBYE));
    }
}

async fn node() -> Result<Node, Failure> {
    let built = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await;
    built.map_err(|e| Failure::new("cannot start a node on loopback").because(&e))
}

/// Sends until an error stops it: at the latest, when the node is closed.
async fn send_for_ever(to: Peer, size: usize, batch: Batch) -> SendError {
    let body = Bytes::from(vec![0x5a; size]);
    loop {
        let sent = match batch {
            Batch::One => to.send(body.clone()).await.map(drop),
            Batch::Many => {
                let batch = std::iter::repeat_n(body.clone(), batch.messages(size)).map(Message::new);
                to.send_batch(batch).await.map(drop).map_err(|error| error.source)
            }
        };
        if let Err(error) = sent {
            return error;
        }
    }
}

/// Receives messages for the time `over`, and returns their number.
async fn take_for(node: &Node, batch: Batch, size: usize, over: Duration) -> Result<u64, Failure> {
    let end = tokio::time::Instant::now() + over;
    let messages = node.at_most_once();
    let mut taken = 0_u64;
    loop {
        let some = async {
            match batch {
                Batch::One => messages.recv().await.map(|_| 1),
                Batch::Many => {
                    messages.recv_batch(batch.messages(size)).await.map(|batch| batch.map(drop).count())
                }
            }
        };
        match tokio::time::timeout_at(end, some).await {
            Ok(some) => {
                let some = some.map_err(|e| receiving(&e))?;
                taken = taken.saturating_add(u64::try_from(some).unwrap_or(0));
            }
            Err(_) => return Ok(taken),
        }
    }
}
