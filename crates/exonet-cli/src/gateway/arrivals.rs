//! Messages on their way to clients. A body that is still coming is read beside the requests: none waits for a slow sender, and none that
//! ends breaks it off.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use exonet::Delivery;
use exonet::error::BodyError;
use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore};

use super::Office;
use crate::control::protocol::LONGEST_BODY;

/// Messages that clients have, or are to have, at once.
pub(super) const OUT: usize = 1_024;
/// Of these, messages whose bodies are being read, or have been and wait for a client.
const READ: usize = 64;

/// A message that is here whole, and its place among those that clients have. Dropped, it is given again.
pub(super) struct Arrival {
    pub(super) delivery: Delivery,
    pub(super) body: Bytes,
    pub(super) place: OwnedSemaphorePermit,
}

/// One whose body had to be read: its place among those lasts until a client has it.
struct Whole {
    arrival: Arrival,
    _reads: OwnedSemaphorePermit,
}

/// Messages for the first client that asks.
pub(super) struct Arrivals {
    places: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    whole: Mutex<VecDeque<Whole>>,
    more: Notify,
}

/// Why there is no message.
#[derive(Debug)]
pub(super) enum NoArrival {
    /// Clients have as many as they may.
    TooManyOut,
    /// The node has ended.
    Closed,
}

impl From<AcquireError> for NoArrival {
    fn from(_: AcquireError) -> Self {
        Self::Closed
    }
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(OUT)),
            reads: Arc::new(Semaphore::new(READ)),
            whole: Mutex::default(),
            more: Notify::new(),
        }
    }
}

impl Arrivals {
    /// The next message. It waits for a place among those that clients have if `patient`. Dropped early, nothing is lost.
    ///
    /// # Errors
    /// [`NoArrival`].
    pub(super) async fn next(&self, office: &Arc<Office>, patient: bool) -> Result<Arrival, NoArrival> {
        loop {
            let more = self.more.notified();
            if let Some(arrival) = self.take_whole() {
                return Ok(arrival);
            }
            let come = async {
                let place = match Arc::clone(&self.places) {
                    places if patient => places.acquire_owned().await?,
                    places => places.try_acquire_owned().map_err(|_| NoArrival::TooManyOut)?,
                };
                let reads = Arc::clone(&self.reads).acquire_owned().await?;
                let delivery = office.node.recv().await.map_err(|_| NoArrival::Closed)?;
                Ok(Self::take_in(office, delivery, place, reads))
            };
            tokio::select! {
                () = more => {}
                come = come => match come {
                    Ok(None) => {}
                    Ok(Some(arrival)) => return Ok(arrival),
                    Err(why) => return Err(why),
                },
            }
        }
    }

    /// A message that is here, if there is one and a place for it.
    pub(super) fn try_next(&self, office: &Arc<Office>) -> Option<Arrival> {
        loop {
            if let Some(arrival) = self.take_whole() {
                return Some(arrival);
            }
            let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
            let reads = Arc::clone(&self.reads).try_acquire_owned().ok()?;
            let delivery = office.node.try_recv()?;
            if let Some(arrival) = Self::take_in(office, delivery, place, reads) {
                return Some(arrival);
            }
        }
    }

    fn take_whole(&self) -> Option<Arrival> {
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        whole.pop_front().map(|whole| whole.arrival)
    }

    /// Gives a message whose body is here, and has that of another read.
    fn take_in(
        office: &Arc<Office>,
        mut delivery: Delivery,
        place: OwnedSemaphorePermit,
        reads: OwnedSemaphorePermit,
    ) -> Option<Arrival> {
        if let Some(body) = delivery.body().as_whole().filter(|body| body.len() <= LONGEST_BODY) {
            let body = body.clone();
            return Some(Arrival { delivery, body, place });
        }
        let reader = Arc::clone(office);
        office.spawn(async move {
            let body = match delivery.body_mut().bytes(LONGEST_BODY as u64).await {
                Ok(body) => body,
                Err(BodyError::TooLarge { .. }) => {
                    delivery.reject(format!("the gateway takes messages of {LONGEST_BODY} bytes at most"));
                    return;
                }
                // It comes again.
                Err(_) => return,
            };
            let whole = Whole { arrival: Arrival { delivery, body, place }, _reads: reads };
            let arrivals = &reader.inbox.arrivals;
            arrivals.whole.lock().unwrap_or_else(PoisonError::into_inner).push_back(whole);
            arrivals.more.notify_one();
        });
        None
    }
}
