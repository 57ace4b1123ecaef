//! The messages that the node has handed out and the inbox has not finished.
//!
//! The following may happen before the handler of a first copy of a message has begun its transaction: the slot of
//! that copy dies, another copy is processed, and the sender says that the row is gone. If the inbox deleted its row
//! then, the first copy would be processed as well. So the row stays until all copies of the message that were handed
//! out before the answer are finished.

use core::task::Poll;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::Key;

#[derive(Default)]
struct Table {
    next: u64,
    /// The messages, by ticket. None: the key has not been read yet.
    out: BTreeMap<u64, Option<Key>>,
}

#[derive(Default)]
struct Shared {
    table: Mutex<Table>,
    /// Notified when a key was read, or a message is finished.
    changed: Notify,
}

#[derive(Clone, Default)]
pub(crate) struct HandedOut(Arc<Shared>);

/// A message that was handed out. When this is dropped, the message is finished.
pub(crate) struct Ticket {
    of: HandedOut,
    number: u64,
}

impl HandedOut {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls a function that hands out a message. No other task can look between the hand-out and its note.
    pub(crate) fn poll<T>(&self, mut poll: impl FnMut() -> Poll<T>) -> Poll<(T, Ticket)> {
        let mut table = self.table();
        poll().map(|handed| {
            let number = table.next;
            table.next += 1;
            table.out.insert(number, None);
            (handed, Ticket { of: self.clone(), number })
        })
    }

    /// Returns those of these keys that belong to no message that is handed out now. Waits for keys that have not
    /// been read yet.
    pub(crate) async fn without(&self, keys: Vec<Key>) -> Vec<Key> {
        let mark = self.table().next;
        loop {
            let changed = self.0.changed.notified();
            {
                let table = self.table();
                let mut before = table.out.range(..mark);
                if !before.any(|(_, key)| key.is_none()) {
                    let out: std::collections::BTreeSet<_> = table.out.values().flatten().collect();
                    return keys.into_iter().filter(|key| !out.contains(key)).collect();
                }
            }
            changed.await;
        }
    }
}

impl Ticket {
    pub(crate) fn has_key(&self, key: Key) {
        self.of.table().out.insert(self.number, Some(key));
        self.of.0.changed.notify_waiters();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.of.table().out.remove(&self.number);
        self.of.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use core::task::Context;
    use std::future::Future;
    use std::task::Waker;

    use super::*;

    fn hand_out(handed: &HandedOut) -> Ticket {
        match handed.poll(|| Poll::Ready(())) {
            Poll::Ready(((), ticket)) => ticket,
            Poll::Pending => unreachable!(),
        }
    }

    #[test]
    fn a_row_stays_while_a_copy_of_its_message_is_handed_out() {
        let (handed, keys) = (HandedOut::default(), [Key([1; 16]), Key([2; 16])]);
        let mut cx = Context::from_waker(Waker::noop());
        let ticket = hand_out(&handed);
        let mut asked = pin!(handed.without(keys.to_vec()));
        assert!(asked.as_mut().poll(&mut cx).is_pending(), "it may be a copy of either");
        // It does not wait for messages that are handed out later.
        let later = hand_out(&handed);
        ticket.has_key(keys[0]);
        assert_eq!(asked.poll(&mut cx), Poll::Ready(vec![keys[1]]));
        drop((ticket, later));
        let asked = pin!(handed.without(keys.to_vec()));
        assert_eq!(asked.poll(&mut cx), Poll::Ready(keys.to_vec()));
    }
}
