//! Items that are handed out to clients, each for a limited time and at most until its client disconnects.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Leased items, by handle. An item that its client does not return in time is dropped; its `Drop` reacts to that.
pub(super) struct Leases<T> {
    held: Mutex<HashMap<String, Held<T>>>,
    changed: Notify,
}

struct Held<T> {
    /// None: the item is lent.
    thing: Option<T>,
    until: Instant,
    owner: u64,
}

impl<T> Default for Leases<T> {
    fn default() -> Self {
        Self { held: Mutex::default(), changed: Notify::new() }
    }
}

/// A new handle, which is unique.
pub(super) fn handle() -> String {
    BASE64.encode(rand::random::<[u8; 15]>())
}

impl<T> Leases<T> {
    fn held(&self) -> MutexGuard<'_, HashMap<String, Held<T>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands `thing` out under `handle` for the time `lease`.
    pub(super) fn put(&self, handle: &str, thing: T, lease: Duration, owner: u64) {
        let held = Held { thing: Some(thing), until: Instant::now() + lease, owner };
        self.held().insert(handle.to_owned(), held);
        self.changed.notify_one();
    }

    /// Takes an item back. None: its lease is over, it is lent, or it was never handed out.
    pub(super) fn take(&self, handle: &str) -> Option<T> {
        let thing = self.lend(handle)?;
        self.end(handle);
        Some(thing)
    }

    /// Takes an item, whose lease goes on without it: until [`Self::give_back`] or [`Self::end`], or until the lease
    /// ends. None: its lease is over, it is lent, or it was never handed out.
    pub(super) fn lend(&self, handle: &str) -> Option<T> {
        let mut held = self.held();
        held.get_mut(handle).filter(|held| Instant::now() < held.until)?.thing.take()
    }

    /// Gives an item that was lent back, or drops it if its lease is over. Returns whether its lease goes on.
    pub(super) fn give_back(&self, handle: &str, thing: T) -> bool {
        let mut held = self.held();
        let Some(lease) = held.get_mut(handle).filter(|held| Instant::now() < held.until) else {
            // A `Drop` may run any code, so the lock is not held there.
            drop(held);
            drop(thing);
            return false;
        };
        lease.thing = Some(thing);
        true
    }

    /// Ends the lease of an item that was lent.
    pub(super) fn end(&self, handle: &str) {
        let gone = self.held().remove(handle);
        drop(gone);
    }

    /// Drops all items of this owner.
    pub(super) fn release(&self, owner: u64) {
        self.drop_if(|held| held.owner == owner);
    }

    /// The number of items that are handed out.
    pub(super) fn len(&self) -> usize {
        self.held().len()
    }

    fn drop_if(&self, over: impl Fn(&Held<T>) -> bool) {
        let mut held = self.held();
        let gone: Vec<_> = held.extract_if(|_, held| over(held)).collect();
        drop(held);
        // A `Drop` may run any code, so the lock is not held here.
        drop(gone);
    }

    /// Drops each item that is not returned in time. Never returns.
    pub(super) async fn watch(&self) {
        loop {
            let next = self.held().values().map(|held| held.until).min();
            match next {
                None => self.changed.notified().await,
                Some(until) => tokio::select! {
                    () = sleep_until(until) => {
                        let now = Instant::now();
                        self.drop_if(|held| held.until <= now);
                    }
                    () = self.changed.notified() => {}
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_asked_back_in_time_is_dropped() {
        let leases = Arc::new(Leases::default());
        let watched = Arc::clone(&leases);
        let watch = tokio::spawn(async move { watched.watch().await });
        let (long, short, mine) = (Arc::new(1), Arc::new(2), Arc::new(3));
        leases.put("long", Arc::clone(&long), Duration::from_secs(60), 0);
        leases.put("short", Arc::clone(&short), Duration::from_secs(1), 0);
        leases.put("mine", Arc::clone(&mine), Duration::from_secs(60), 7);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!([&long, &short, &mine].map(Arc::strong_count), [2, 1, 2]);
        assert!(leases.take("short").is_none());
        leases.release(7);
        assert!(
            leases.take("mine").is_none() && leases.take("long").is_some() && leases.take("long").is_none()
        );
        watch.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_lent_comes_back_while_its_lease_goes_on() {
        let leases = Leases::default();
        let thing = Arc::new(1);
        let put = |handle, owner| leases.put(handle, Arc::clone(&thing), Duration::from_secs(60), owner);
        put("kept", 0);
        let lent = leases.lend("kept").unwrap();
        assert!(leases.lend("kept").is_none() && leases.take("kept").is_none() && leases.len() == 1);
        assert!(leases.give_back("kept", lent) && leases.lend("kept").is_some());
        leases.end("kept");
        assert!(leases.len() == 0 && leases.take("kept").is_none());

        // Its owner has left, or its lease is over: it is dropped when it comes back.
        put("left", 7);
        let lent = leases.lend("left").unwrap();
        leases.release(7);
        assert!(!leases.give_back("left", lent) && leases.take("left").is_none());
        put("late", 0);
        let lent = leases.lend("late").unwrap();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!leases.give_back("late", lent) && leases.take("late").is_none());
        assert_eq!(Arc::strong_count(&thing), 1);
    }
}
