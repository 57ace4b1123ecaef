//! The senders of `exon bench client`: messages one way, messages and their echoes, or calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use exonet::error::CallError;
use exonet::{Message, Peer, Receipt};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::client::{Done, sending};
use super::open::{Handed, Open};
use super::work::{ECHO, HEAD, METHOD};
use crate::failure::Failure;

/// How many low bits of a message's number count the messages of an actor. The bits above them hold the number of the
/// actor.
const SHARE: u32 = 40;
/// The longest message in bytes that is sent and read as a whole. Longer ones are streamed.
const WHOLE: usize = 1 << 20;
/// The minimum and the maximum size of the blocks that an actor allocates for bodies.
const LEAST_BLOCK: usize = 2 << 10;
const MOST_BLOCK: usize = 64 << 10;
/// The byte that fills a message after its head.
const FILL: u8 = 0x5a;

/// The work that all actors share.
pub(super) struct Work {
    pub(super) peer: Peer,
    pub(super) size: usize,
    pub(super) batch: u64,
    pub(super) actors: u64,
    /// The number of messages that all actors together may have open.
    pub(super) open: AtomicU64,
    /// The end of the warm-up.
    pub(super) begin: Instant,
    pub(super) until: Option<Instant>,
    /// The number of messages that are still to be sent after the warm-up.
    pub(super) left: AtomicU64,
    pub(super) counters: Vec<Mutex<Done>>,
}

/// One task.
pub(super) struct Actor {
    work: Arc<Work>,
    /// The number of its next message.
    number: u64,
    block: BytesMut,
    echoes: Option<mpsc::Receiver<Bytes>>,
}

/// The actor whose message this is.
pub(super) fn actor_of(body: &[u8]) -> usize {
    let number = body.first_chunk().map_or(u64::MAX, |number| u64::from_be_bytes(*number));
    usize::try_from(number >> SHARE).unwrap_or(usize::MAX)
}

impl Work {
    /// The number of messages to send now, at most `most`, and whether they count.
    fn claim(&self, most: u64) -> (u64, bool) {
        let now = Instant::now();
        if now < self.begin {
            return (most, false);
        }
        if let Some(until) = self.until {
            return (if now < until { most } else { 0 }, true);
        }
        let take = |left: u64| Some(left.saturating_sub(most));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        (left.unwrap_or(0).min(most), true)
    }

    /// The number of messages that one actor may have open: at least two batches, so that one is sent while the other
    /// is in flight.
    fn share(&self) -> u64 {
        (self.open.load(Ordering::Relaxed) / self.actors).max(1)
    }

    fn count(&self, number: u64, count: impl FnOnce(&mut Done)) {
        let place = usize::try_from(number >> SHARE).unwrap_or(0) % self.counters.len().max(1);
        if let Some(counter) = self.counters.get(place) {
            count(&mut counter.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Actor {
    pub(super) fn new(work: Arc<Work>, actor: u32, echoes: Option<mpsc::Receiver<Bytes>>) -> Self {
        Self { work, number: u64::from(actor) << SHARE, block: BytesMut::new(), echoes }
    }

    /// The body of message `number`, cut from the actor's block.
    fn body(&mut self, number: u64) -> Bytes {
        let size = self.work.size;
        if self.block.capacity() - self.block.len() < size {
            // There is room for the open messages only: with a thousand actors, larger blocks would be cold memory.
            let open = usize::try_from(self.work.share()).unwrap_or(usize::MAX).saturating_mul(size);
            self.block.reserve(open.clamp(LEAST_BLOCK, MOST_BLOCK).max(size));
        }
        self.block.put_u64(number);
        self.block.put_u64(0);
        self.block.put_bytes(FILL, size - HEAD);
        self.block.split().freeze()
    }

    /// Passes the next message to the node, streamed if it is large.
    async fn send(&mut self, tag: &'static [u8]) -> Result<Receipt, Failure> {
        let work = Arc::clone(&self.work);
        let head = Message::default().tag(tag);
        if work.size > WHOLE {
            let (number, size) = (self.number.to_be_bytes(), work.size as u64);
            let fill = tokio::io::repeat(FILL).take(size - number.len() as u64);
            let sent = work.peer.send_from(head, size, number.chain(fill)).await;
            return sent.map_err(|e| Failure::new("cannot send to the bench's server").because(&e));
        }
        let body = self.body(self.number);
        work.peer.send(Message::new(body).tag(tag)).await.map_err(sending)
    }

    /// One-way measurement: sends while there is room, and otherwise waits for outcomes.
    pub(super) async fn post(mut self) -> Result<(), Failure> {
        let (work, mut open) = (Arc::clone(&self.work), Open::new());
        loop {
            let (messages, measured) = work.claim(work.batch);
            if messages == 0 {
                break;
            }
            let began = Instant::now();
            let handed = if work.batch == 1 {
                Handed::One(self.send(&[]).await?)
            } else {
                let numbers = self.number..self.number + messages;
                let bodies: Vec<Bytes> = numbers.map(|number| self.body(number)).collect();
                let sent = work.peer.send_batch(bodies).await;
                Handed::Batch(sent.map_err(|error| sending(error.source))?)
            };
            self.number += messages;
            open.push(began, handed, messages, measured);
            work.count(self.number, |done| done.sent += messages);
            while open.messages() >= work.share() {
                self.settle(&mut open, false).await;
            }
        }
        while open.messages() > 0 {
            self.settle(&mut open, true).await;
        }
        Ok(())
    }

    async fn settle(&self, open: &mut Open, all: bool) {
        open.settled(all).await;
        self.work.count(self.number, |done| open.collect(done));
    }

    /// Round-trip measurement: sends one message at a time, and waits for its echo.
    pub(super) async fn echo(mut self) -> Result<(), Failure> {
        let work = Arc::clone(&self.work);
        let mut echoes =
            self.echoes.take().ok_or_else(|| Failure::new("an actor has no socket for replies"))?;
        while let (1, measured) = work.claim(1) {
            let began = Instant::now();
            drop(self.send(ECHO).await?);
            work.count(self.number, |done| done.sent += 1);
            let echo = echoes.recv().await.ok_or_else(|| Failure::new("the bench has stopped receiving"))?;
            self.check(&echo)?;
            self.done(began, measured);
        }
        Ok(())
    }

    /// Makes calls, one after the other.
    pub(super) async fn call(mut self) -> Result<(), Failure> {
        let work = Arc::clone(&self.work);
        while let (1, measured) = work.claim(1) {
            let (began, body) = (Instant::now(), self.body(self.number));
            work.count(self.number, |done| done.sent += 1);
            match work.peer.call(METHOD, body).await {
                Ok(mut reply) => {
                    let reply = reply.body.bytes(u64::MAX).await;
                    self.check(&reply.map_err(|e| Failure::new("a reply ended early").because(&e))?)?;
                    self.done(began, measured);
                }
                Err(CallError::Unknown { .. }) => {
                    work.count(self.number, |done| done.tally.unknown += 1);
                    self.number += 1;
                }
                Err(error) => return Err(Failure::new("cannot call the bench's server").because(&error)),
            }
        }
        Ok(())
    }

    /// Checks that the echo equals the sent message.
    fn check(&self, echo: &[u8]) -> Result<(), Failure> {
        if echo.len() == self.work.size && echo.starts_with(&self.number.to_be_bytes()) {
            return Ok(());
        }
        Err(Failure::new("the bench's server sent back other bytes than it was sent"))
    }

    fn done(&mut self, began: Instant, measured: bool) {
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.work.count(self.number, |done| {
            done.tally.delivered += 1;
            if measured {
                done.time(nanos, 1);
            }
        });
        self.number += 1;
    }
}
