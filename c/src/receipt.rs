//! The outcomes of messages.

use std::future::{Future as _, poll_fn};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use exo::send::{Cancel, Settled, Status};
use exo::{DurabilityLevel, Outcome, Receipt};

use crate::border::{Out, border, free, given, look};
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::Inner;
use crate::promise::Promise;
use crate::queue::Event;
use crate::raw::exonet_str;
use crate::text::Text;

/// The kind of a message's outcome.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum exonet_outcome_kind {
    /// There is no outcome yet.
    EXONET_OPEN = 0,
    /// The receiving application has the message, once.
    EXONET_DELIVERED = 1,
    /// The receiving application has processed it: `status`. For a message with EXONET_CONFIRM_PROCESSED.
    EXONET_PROCESSED = 2,
    /// The receiving application has rejected it: `status`, and exonet_receipt_reason.
    EXONET_REJECTED = 3,
    /// Its deadline came first: certainly never delivered.
    EXONET_EXPIRED = 4,
    /// It was withdrawn: certainly never delivered.
    EXONET_CANCELLED = 5,
    /// The peer has refused it: certainly never delivered. exonet_receipt_reason says why.
    EXONET_REFUSED = 6,
    /// One of the two sides no longer knows: it happened once or not at all.
    EXONET_UNKNOWN = 7,
    /// This node ended first: the next life of its identity continues with the message.
    EXONET_KEPT = 8,
}

/// The outcome of a message, with its details.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct exonet_outcome {
    /// The kind of the outcome.
    kind: exonet_outcome_kind,
    /// For EXONET_PROCESSED and EXONET_REJECTED, the status from the receiving application; else 0.
    status: u32,
    /// It was delivered after its deadline.
    late: bool,
}

impl exonet_outcome {
    pub(crate) const fn none() -> Self {
        Self { kind: exonet_outcome_kind::EXONET_OPEN, status: 0, late: false }
    }
}

impl From<Settled> for exonet_outcome {
    fn from(settled: Settled) -> Self {
        use exonet_outcome_kind as Kind;
        let (kind, status) = match settled.outcome {
            Outcome::Delivered => (Kind::EXONET_DELIVERED, 0),
            Outcome::Processed { status } => (Kind::EXONET_PROCESSED, status),
            Outcome::Rejected { status, .. } => (Kind::EXONET_REJECTED, status),
            Outcome::Expired => (Kind::EXONET_EXPIRED, 0),
            Outcome::Cancelled => (Kind::EXONET_CANCELLED, 0),
            Outcome::Refused(_) => (Kind::EXONET_REFUSED, 0),
            Outcome::Unknown => (Kind::EXONET_UNKNOWN, 0),
            Outcome::Kept => (Kind::EXONET_KEPT, 0),
        };
        Self { kind, status, late: settled.late }
    }
}

/// A handle on a message that was sent. Freeing it neither cancels the message nor speeds it up.
pub struct exonet_receipt {
    inner: Arc<Inner>,
    receipt: Arc<Mutex<Receipt>>,
    settled: Arc<Promise<Settled>>,
    watched: AtomicBool,
    id: OnceLock<Text>,
    reason: OnceLock<Text>,
}

fn locked(receipt: &Mutex<Receipt>) -> MutexGuard<'_, Receipt> {
    receipt.lock().unwrap_or_else(PoisonError::into_inner)
}

impl exonet_receipt {
    /// A receipt; with a `token`, its outcome is an event.
    fn new(inner: &Arc<Inner>, receipt: Receipt, token: Option<u64>) -> Self {
        let receipt = Self {
            inner: Arc::clone(inner),
            receipt: Arc::new(Mutex::new(receipt)),
            settled: Arc::new(Promise::new()),
            watched: AtomicBool::new(false),
            id: OnceLock::new(),
            reason: OnceLock::new(),
        };
        if token.is_some() {
            receipt.watch(token);
        }
        receipt
    }

    fn settled(&self) -> Option<Settled> {
        self.settled.look().copied().or_else(|| locked(&self.receipt).settled())
    }

    /// Makes sure that the promise is kept. The library wakes only one task that waits for a receipt, so one task
    /// waits for all threads.
    fn watch(&self, token: Option<u64>) {
        if self.watched.swap(true, Ordering::AcqRel) {
            return;
        }
        let (receipt, promise) = (Arc::clone(&self.receipt), Arc::clone(&self.settled));
        let tell = token.map(|token| (Arc::clone(self.inner.core()), token));
        self.inner.handle().spawn(async move {
            let settled = poll_fn(|cx| Pin::new(&mut *locked(&receipt)).poll(cx)).await;
            promise.keep(settled);
            if let Some((core, token)) = tell {
                core.queue.put(Event::Settled { token, settled });
            }
        });
    }
}

/// Gives the receipt of a message to a caller that wants one; with a `token`, its outcome is an event.
pub(crate) fn hand_out(
    inner: &Arc<Inner>,
    place: &mut Option<Out<'_, *mut exonet_receipt>>,
    receipt: Receipt,
    token: Option<u64>,
) {
    if place.is_some() || token.is_some() {
        let receipt = exonet_receipt::new(inner, receipt, token);
        if let Some(place) = place {
            place.give(receipt);
        }
    }
}

/// Waits for the outcome of the message, for `timeout_ms` at most. A dead peer leaves a message in doubt for the
/// node's doubt_timeout_ms, by default for ever: see exonet_receipt_abandon.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_receipt_wait(
    receipt: Option<&exonet_receipt>,
    timeout_ms: i64,
    outcome: Option<&mut MaybeUninit<exonet_outcome>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let receipt = given(receipt, "receipt")?;
        let mut outcome = Out::value(outcome, "outcome")?;
        outcome.set(exonet_outcome::none());
        let settled = match receipt.settled() {
            Some(settled) => settled,
            None if timeout_ms == 0 => return Err(Fault::timeout()),
            None => {
                receipt.watch(None);
                *receipt.inner.wait(timeout_ms, receipt.settled.wait())?
            }
        };
        outcome.set(settled.into());
        Ok(())
    })
}

/// Whether the message has left and its outcome is not known.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_receipt_in_doubt(receipt: Option<&exonet_receipt>) -> bool {
    look(false, || Some(matches!(locked(&receipt?.receipt).status(), Status::InDoubt { .. })))
}

/// The name of the message at both ends. Empty before it leaves.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_receipt_id(receipt: Option<&exonet_receipt>) -> exonet_str {
    look(exonet_str::empty(), || {
        let receipt = receipt?;
        if receipt.id.get().is_none() {
            let id = locked(&receipt.receipt).id()?;
            let _ = receipt.id.set(Text::new(id));
        }
        receipt.id.get().map(Text::lend)
    })
}

/// Why a message was rejected or refused, or other details of its outcome, as a sentence. Empty if there are none.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_receipt_reason(receipt: Option<&exonet_receipt>) -> exonet_str {
    look(exonet_str::empty(), || {
        let receipt = receipt?;
        if receipt.reason.get().is_none() {
            let reason = match receipt.settled()?.outcome {
                Outcome::Refused(why) => why.to_string(),
                _ => locked(&receipt.receipt).reason()?.to_string(),
            };
            let _ = receipt.reason.set(Text::new(reason));
        }
        receipt.reason.get().map(Text::lend)
    })
}

/// The durability level that the receiver has declared: "memory", "process", "batched" or "sync". Empty if there is no outcome, or
/// if it does not come from the receiver.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_receipt_receiver_durability(receipt: Option<&exonet_receipt>) -> exonet_str {
    look(exonet_str::empty(), || named(receipt?.settled()?.receiver_durability?).map(exonet_str::fixed))
}

/// The name of a level, with a NUL. None: this library has no name for it.
const fn named(level: DurabilityLevel) -> Option<&'static str> {
    match level {
        DurabilityLevel::Memory => Some("memory\0"),
        DurabilityLevel::Process => Some("process\0"),
        DurabilityLevel::Batched => Some("batched\0"),
        DurabilityLevel::Sync => Some("sync\0"),
        _ => None,
    }
}

/// Withdraws the message. If it has not left, its outcome is EXONET_CANCELLED. If it has, `asked`, which may be NULL,
/// is set: its receiver is asked for it, and the outcome tells whether it was taken.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_receipt_cancel(
    receipt: Option<&exonet_receipt>,
    asked: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let cancel = locked(&given(receipt, "receipt")?.receipt).cancel()?;
        if let Some(asked) = asked {
            asked.write(cancel == Cancel::Asked);
        }
        Ok(())
    })
}

/// Gives the message up: its outcome is EXONET_UNKNOWN now, or EXONET_CANCELLED if it never left.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_receipt_abandon(
    receipt: Option<&exonet_receipt>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        locked(&given(receipt, "receipt")?.receipt).abandon();
        Ok(())
    })
}

/// Frees a receipt. The message is still delivered, and so is the requested event.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_receipt_free(receipt: Option<Box<exonet_receipt>>) {
    free(receipt);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_the_name_that_the_library_gives_it() {
        use DurabilityLevel::{Batched, Memory, Process, Sync};
        for level in [Memory, Process, Batched, Sync] {
            assert_eq!(named(level).and_then(|name| name.strip_suffix('\0')), Some(level.name()));
        }
    }
}
