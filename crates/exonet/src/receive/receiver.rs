//! The ways to wait for messages: with and without a guard.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use exonet_proto::node::Incoming;
use futures_core::Stream;

use crate::error::Closed;
use crate::node::Node;
use crate::peer::Peer;
use crate::receive::batch::{Batch, Taken};
use crate::receive::delivery::{Delivery, Received};
use crate::receive::filter::Filter;
use crate::receive::routes::Route;
use crate::shared::Shared;

type Waiting<T> = Pin<Box<dyn Future<Output = Result<T, Closed>> + Send + Sync>>;

/// Receives the messages that its [`Filter`] selects, each under a guard. [`Node::receiver`] makes it.
///
/// A message goes to the oldest receiver whose filter selects it, or to [`Node::recv`] if there is none. Clones share
/// a queue: each message goes to one of them. When the last clone is dropped, the waiting messages go to other
/// receivers. If nobody takes the messages of a receiver, their senders have to wait, as with a node whose messages
/// nobody takes.
///
/// It is a [`Stream`] that ends when the node is closed. Like every handle, it keeps the node running.
///
/// ```
/// # use exonet::{Allow, Message, Node, receive::Filter};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// let orders = bob.receiver(Filter::any().tag("order"));
/// let to_bob = alice.peer(bob.peer_addr());
/// to_bob.send("a letter").await?;
/// to_bob.send(Message::new("two teas").tag("order")).await?;
///
/// let order = orders.recv().await?;
/// assert_eq!(order.body().as_whole().unwrap(), "two teas");
/// order.ack()?;
/// assert_eq!(bob.recv().await?.take()?.body.as_whole().unwrap(), "a letter");
/// # Ok(())
/// # }
/// ```
pub struct Receiver {
    node: Node,
    /// None: it gets the messages that no other receiver gets.
    route: Option<Arc<Registered>>,
    /// The future of the [`Stream`] while it waits.
    waiting: Option<Waiting<Incoming>>,
}

/// A route. The engine has it for as long as this value exists.
struct Registered {
    node: Node,
    route: Arc<Route>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.node.shared().amend(|engine| engine.remove_route(&self.route));
    }
}

impl Node {
    /// Waits for the next message that is not a call, and returns it under a guard. [`Delivery::ack`] delivers it;
    /// otherwise the node hands it out again.
    ///
    /// Use this method if the application acts on messages. A message counts as delivered only once the application
    /// has said so, so a message is not lost when its handling fails. [`Self::at_most_once`] has no guard, and is for
    /// messages that may be lost.
    ///
    /// Cancel-safe. Many tasks may call it: a message is with one of them at a time.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed and no message waits.
    pub async fn recv(&self) -> Result<Delivery, Closed> {
        let incoming = next(self.shared(), None, true).await?;
        Ok(Delivery::new(self.shared(), incoming))
    }

    /// Returns the next message under a guard, if one waits.
    pub fn try_recv(&self) -> Option<Delivery> {
        let incoming = self.shared().take(None, true).ok()??;
        Some(Delivery::new(self.shared(), incoming))
    }

    /// Makes a receiver of the messages that `filter` selects from now on. [`Self::recv`] no longer gets these.
    pub fn receiver(&self, filter: Filter) -> Receiver {
        let route = (!filter.takes_any()).then(|| {
            let route = Arc::new(Route::new(filter));
            self.shared().step_calmly(|engine, now| engine.add_route(now, Arc::clone(&route)));
            Arc::new(Registered { node: self.clone(), route })
        });
        Receiver { node: self.clone(), route, waiting: None }
    }

    /// Receives messages without a guard: a message counts as delivered when it is returned, whatever happens to it
    /// afterwards.
    ///
    /// Use [`Self::recv`], unless a message may be lost when its handling fails or the process dies: for example one
    /// sensor reading among many. The outcome of a message received in this way is Delivered in any case. This way is
    /// also faster, above all with [`AtMostOnce::recv_batch`].
    pub fn at_most_once(&self) -> AtMostOnce {
        self.receiver(Filter::any()).at_most_once()
    }
}

impl Peer {
    /// A receiver of the messages of this peer: see [`Node::receiver`].
    pub fn receiver(&self) -> Receiver {
        self.node().receiver(Filter::any().peer(self.id()))
    }
}

impl Receiver {
    fn route(&self) -> Option<&Arc<Route>> {
        self.route.as_ref().map(|registered| &registered.route)
    }

    /// Waits for the next message, and returns it under a guard: see [`Node::recv`].
    ///
    /// Cancel-safe. Many tasks may call it.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed and no message waits.
    pub async fn recv(&self) -> Result<Delivery, Closed> {
        let incoming = next(self.node.shared(), self.route(), true).await?;
        Ok(Delivery::new(self.node.shared(), incoming))
    }

    /// Returns the next message under a guard, if one waits.
    pub fn try_recv(&self) -> Option<Delivery> {
        let incoming = self.node.shared().take(self.route(), true).ok()??;
        Some(Delivery::new(self.node.shared(), incoming))
    }

    /// Receives the same messages without a guard: a message counts as delivered when it is returned.
    #[must_use]
    pub fn at_most_once(self) -> AtMostOnce {
        AtMostOnce { receiver: self }
    }

    /// `guarded` never changes for one receiver.
    fn poll_next(&mut self, cx: &mut Context<'_>, guarded: bool) -> Poll<Option<Incoming>> {
        if self.waiting.is_none() {
            // If a message waits, this returns it without allocating a future.
            match self.node.shared().take(self.route(), guarded) {
                Ok(Some(incoming)) => return Poll::Ready(Some(incoming)),
                Ok(None) => {}
                Err(Closed) => return Poll::Ready(None),
            }
            let (shared, route) = (Arc::clone(self.node.shared()), self.route().cloned());
            self.waiting = Some(Box::pin(async move { next(&shared, route.as_ref(), guarded).await }));
        }
        let Some(waiting) = &mut self.waiting else { return Poll::Pending };
        let next = ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(next.ok())
    }
}

impl Clone for Receiver {
    fn clone(&self) -> Self {
        Self { node: self.node.clone(), route: self.route.clone(), waiting: None }
    }
}

impl Stream for Receiver {
    type Item = Delivery;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Delivery>> {
        let receiver = self.get_mut();
        let next = ready!(receiver.poll_next(cx, true));
        Poll::Ready(next.map(|incoming| Delivery::new(receiver.node.shared(), incoming)))
    }
}

/// Receives without a guard: a message counts as delivered when it is returned, and is lost if the application dies
/// before it has acted on it. [`Node::at_most_once`] and [`Receiver::at_most_once`] make it.
///
/// It is a [`Stream`] that ends when the node is closed.
///
/// ```
/// # use exonet::{Allow, Node};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// alice.peer(bob.peer_addr()).send("21 degrees").await?;
/// let mut reading = bob.at_most_once().recv().await?;
/// assert_eq!(reading.body.bytes(100).await?, "21 degrees");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AtMostOnce {
    receiver: Receiver,
}

impl AtMostOnce {
    /// Waits for the next message. The message is delivered when this method returns it, unless its body still
    /// arrives: then it is delivered once the application has read the end of its body.
    ///
    /// Cancel-safe. Many tasks may call it: each message goes to one of them.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed and no message waits.
    pub async fn recv(&self) -> Result<Received, Closed> {
        let shared = self.receiver.node.shared();
        let incoming = next(shared, self.receiver.route(), false).await?;
        Ok(Received::new(shared, incoming, true))
    }

    /// Returns the next message, if one waits.
    pub fn try_recv(&self) -> Option<Received> {
        let shared = self.receiver.node.shared();
        let incoming = shared.take(self.receiver.route(), false).ok()??;
        Some(Received::new(shared, incoming, true))
    }

    /// Waits for a message, then takes up to `most` messages that are there, under one hold of the lock. For small
    /// messages this is faster than [`Self::recv`].
    ///
    /// Cancel-safe, like [`Self::recv`].
    ///
    /// # Errors
    /// [`Closed`], when the node is closed and no message waits.
    pub async fn recv_batch(&self, most: usize) -> Result<Batch, Closed> {
        let (shared, route) = (self.receiver.node.shared(), self.receiver.route());
        tokio::task::coop::consume_budget().await;
        let mut taken = Taken::default();
        loop {
            // Created before the look at the queue, so that no wake-up between the look and the wait is missed.
            let readable = shared.readable(route).notified();
            shared.take_many(route, most, &mut taken)?;
            if !taken.is_empty() || most == 0 {
                break;
            }
            readable.await;
        }
        Ok(Batch::new(shared, taken))
    }
}

impl Stream for AtMostOnce {
    type Item = Received;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Received>> {
        let receiver = &mut self.get_mut().receiver;
        let next = ready!(receiver.poll_next(cx, false));
        Poll::Ready(next.map(|incoming| Received::new(receiver.node.shared(), incoming, true)))
    }
}

/// Waits for the next message of a route.
async fn next(shared: &Shared, route: Option<&Arc<Route>>, guarded: bool) -> Result<Incoming, Closed> {
    tokio::task::coop::consume_budget().await;
    loop {
        // Created before the look at the queue, so that no wake-up between the look and the wait is missed.
        let readable = shared.readable(route).notified();
        if let Some(incoming) = shared.take(route, guarded)? {
            return Ok(incoming);
        }
        readable.await;
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filter = self.route().map(|route| &route.filter);
        f.debug_struct("Receiver").field("node", &self.node.id()).field("filter", &filter).finish()
    }
}
