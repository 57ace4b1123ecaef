//! Gives the turn to flush to one thread at a time. No thread waits for it.

use std::sync::atomic::{AtomicU8, Ordering};

const IDLE: u8 = 0;
const TAKEN: u8 = 1;
const AGAIN: u8 = 2;

/// Lets one thread at a time do a piece of work. Another thread that wants the work done meanwhile leaves a mark and
/// returns. All state is in one atomic, so no mark is overlooked.
#[derive(Default)]
pub(crate) struct Turn(AtomicU8);

impl Turn {
    /// Asks for the turn. True: the caller does the work, and repeats it until [`Self::end`] returns true. False:
    /// another thread has the turn, and its work will cover everything that the caller did before this call.
    pub(crate) fn take(&self) -> bool {
        let next = |state| Some(if state == IDLE { TAKEN } else { AGAIN });
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(IDLE)
    }

    /// Ends the turn. Returns false if another thread has left a mark: then the caller still has the turn, and does
    /// the work once more.
    pub(crate) fn end(&self) -> bool {
        if self.0.compare_exchange(TAKEN, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return true;
        }
        // A swap, so that this thread sees everything that the other thread did before it left its mark.
        self.0.swap(TAKEN, Ordering::AcqRel);
        false
    }

    /// Ends the turn and ignores any mark: the caller makes sure by other means that the work is done.
    pub(crate) fn pass_on(&self) {
        self.0.store(IDLE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn one_at_a_time() {
        let turn = Turn::default();
        assert!(turn.take());
        assert!(!turn.take());
        assert!(!turn.end(), "word was left");
        assert!(turn.end());
        assert!(turn.take());
    }

    #[test]
    fn nothing_is_overlooked() {
        let (turn, made, seen) = (Turn::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        made.fetch_add(1, Ordering::Relaxed);
                        if turn.take() {
                            loop {
                                seen.store(made.load(Ordering::Relaxed), Ordering::Relaxed);
                                if turn.end() {
                                    break;
                                }
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(seen.into_inner(), 80_000);
    }
}
