//! The open messages of an actor of `exon bench client`. The time of each message is noted when its outcome is known.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use exonet::Receipt;
use exonet::send::BatchReceipt;
use tokio::sync::Notify;

use super::client::Done;
use crate::exit::Tally;

/// Messages that were handed over and have no outcome yet.
pub(super) struct Open {
    sent: Vec<Sent>,
    /// The number of messages in all hand-overs.
    messages: u64,
    gate: Arc<Gate>,
}

/// One hand-over.
struct Sent {
    receipt: Handed,
    messages: u64,
    clock: Arc<Clock>,
    measured: bool,
}

/// The receipt of one hand-over. The time of a batch is the time of its last outcome.
pub(super) enum Handed {
    One(Receipt),
    Batch(BatchReceipt),
}

/// Wakes the actor when enough messages are settled, not for each of them.
#[derive(Default)]
struct Gate {
    settled: AtomicU64,
    wanted: AtomicU64,
    notify: Notify,
}

/// Notes the time when the library wakes the task that waits for an outcome.
struct Clock {
    began: Instant,
    /// Nanoseconds from the hand-over to the outcome, plus 1; 0 while there is no outcome.
    took: AtomicU64,
    gate: Arc<Gate>,
}

impl Wake for Clock {
    fn wake(self: Arc<Self>) {
        let nanos = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX - 1);
        self.took.store(nanos + 1, Ordering::Release);
        let settled = self.gate.settled.fetch_add(1, Ordering::AcqRel) + 1;
        if settled >= self.gate.wanted.load(Ordering::Acquire) {
            self.gate.notify.notify_one();
        }
    }
}

impl Open {
    pub(super) fn new() -> Self {
        Self { sent: Vec::new(), messages: 0, gate: Arc::default() }
    }

    /// The number of messages without an outcome, as far as this actor has checked.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Adds messages that were handed over from `began` on. If not `measured`, their times do not count.
    pub(super) fn push(&mut self, began: Instant, mut receipt: Handed, messages: u64, measured: bool) {
        let clock = Arc::new(Clock { began, took: AtomicU64::new(0), gate: Arc::clone(&self.gate) });
        let waker = Waker::from(Arc::clone(&clock));
        if receipt.poll(&mut Context::from_waker(&waker)).is_ready() {
            waker.wake();
        }
        self.messages += messages;
        self.sent.push(Sent { receipt, messages, clock, measured });
    }

    /// Waits until half of the open messages, or all of them, are settled.
    pub(super) async fn settled(&self, all: bool) {
        let open = self.sent.len() as u64;
        let enough = if all { open } else { open.div_ceil(2) };
        let before = self.gate.settled.load(Ordering::Acquire);
        let known =
            self.sent.iter().filter(|sent| sent.clock.took.load(Ordering::Acquire) > 0).count() as u64;
        if known < enough {
            // Messages that settle between the two looks are counted twice. Then the actor looks early, and once more
            // later.
            self.gate.wanted.store(before + (enough - known), Ordering::Release);
            if self.gate.settled.load(Ordering::Acquire) < before + (enough - known) {
                self.gate.notify.notified().await;
            }
        }
    }

    /// Counts settled messages.
    pub(super) fn collect(&mut self, done: &mut Done) {
        let idle = Waker::noop();
        let messages = &mut self.messages;
        self.sent.retain_mut(|sent| {
            let took = sent.clock.took.load(Ordering::Acquire);
            if took == 0 {
                return true;
            }
            let Poll::Ready(tally) = sent.receipt.poll(&mut Context::from_waker(idle)) else { return true };
            done.tally.join(&tally);
            *messages -= sent.messages;
            if sent.measured {
                done.time(took - 1, sent.messages);
            }
            false
        });
    }
}

impl Handed {
    /// Returns Ready once every outcome is known, and again in every later call.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Tally> {
        match self {
            Self::One(receipt) => Pin::new(receipt).poll(cx).map(|settled| {
                let mut tally = Tally::default();
                tally.add(settled.outcome);
                tally
            }),
            Self::Batch(receipt) => Pin::new(receipt).poll(cx).map(|tally| Tally {
                delivered: tally.delivered,
                unknown: tally.unknown,
                expired: tally.expired,
                cancelled: tally.cancelled,
                ..Tally::default()
            }),
        }
    }
}
