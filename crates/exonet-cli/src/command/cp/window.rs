//! Limits the number of pieces in flight: enough to keep the path full, and few enough that each is answered soon.
//!
//! Pieces in flight share the path. On a slow path, many pieces would all take long, none would be answered
//! meanwhile, and many would be sent only in part when the connection breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The size of the window at the start, its minimum, and its maximum. The maximum is the number of large messages
/// that the receiver accepts at once.
const FIRST: usize = 4;
const LEAST: usize = 2;
const MOST: usize = 16;
/// The window grows if a piece is answered faster than the first value, and shrinks if slower than the second.
const FAST: Duration = Duration::from_millis(500);
const SLOW: Duration = Duration::from_secs(3);

pub(super) struct Window {
    room: Arc<Semaphore>,
    size: AtomicUsize,
}

/// A place for a piece in flight.
pub(super) struct Place {
    since: Instant,
    permit: OwnedSemaphorePermit,
}

impl Window {
    pub(super) fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(FIRST)), size: AtomicUsize::new(FIRST) }
    }

    /// Waits for a place.
    pub(super) async fn enter(&self) -> Option<Place> {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.room).acquire_owned().await.ok()?;
        Some(Place { since: Instant::now(), permit })
    }

    /// The piece has been answered.
    pub(super) fn leave(&self, place: Place) {
        let took = place.since.elapsed();
        let size = self.size.load(Ordering::Relaxed);
        if took < FAST && size < MOST && self.room.available_permits() == 0 {
            self.size.fetch_add(1, Ordering::Relaxed);
            self.room.add_permits(1);
        } else if took > SLOW && size > LEAST {
            self.size.fetch_sub(1, Ordering::Relaxed);
            place.permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(window: &Window, after: Duration) {
        let places: Vec<_> =
            futures_util::future::join_all((0..window.size.load(Ordering::Relaxed)).map(|_| window.enter()))
                .await;
        for mut place in places.into_iter().flatten() {
            place.since = Instant::now().checked_sub(after).unwrap();
            window.leave(place);
        }
    }

    #[tokio::test]
    async fn it_grows_while_answers_are_fast_and_shrinks_when_they_are_slow() {
        let window = Window::new();
        for _ in 0..20 {
            answered(&window, Duration::ZERO).await;
        }
        assert_eq!(window.size.load(Ordering::Relaxed), MOST);
        for _ in 0..20 {
            answered(&window, SLOW * 2).await;
        }
        assert_eq!(window.size.load(Ordering::Relaxed), LEAST);
        assert_eq!(window.room.available_permits(), LEAST);
        answered(&window, FAST * 2).await;
        assert_eq!(window.size.load(Ordering::Relaxed), LEAST);
    }
}
