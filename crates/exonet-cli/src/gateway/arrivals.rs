//! Messages on their way to clients. A body that is still arriving is read in a task of its own: no request waits for
//! a slow sender, and the end of a request does not stop the read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use exonet::Delivery;
use exonet::error::BodyError;
use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore};

use super::Office;
use crate::control::protocol::LONGEST_BODY;

/// The maximum number of messages that clients hold, or that wait for a client, at once.
pub(super) const OUT: usize = 1_024;
/// The maximum number of messages, within [`OUT`], whose bodies are being read or have been read and wait for a
/// client.
const READ: usize = 64;

/// A message that has arrived in full, and its place within [`OUT`]. If it is dropped, the message is delivered
/// again.
pub(super) struct Arrival {
    pub(super) delivery: Delivery,
    pub(super) body: Bytes,
    pub(super) place: OwnedSemaphorePermit,
}

/// A message whose body had to be read. It keeps its place within [`READ`] until a client takes it.
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
    /// Clients hold the maximum number of messages.
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
    /// The next message. If `patient`, it waits for a place within [`OUT`]. Cancel-safe: no message is lost if the
    /// future is dropped.
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

    /// A message that has arrived in full, if there is one and there is a place for it.
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

    /// Returns a message whose body has arrived in full; starts a task to read any other body.
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
                // The message is delivered again.
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
