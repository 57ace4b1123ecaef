//! For programs without an async runtime: the same node, whose calls block the thread that makes them.
//!
//! A [`Node`] has a thread of its own, on which its runtime runs. What gives an answer at once is at the async types, which
//! [`Node::get_ref`] and [`Peer::get_ref`] lend. Called from an async task, everything here blocks the thread of that task.
//!
//! ```
//! use std::time::Duration;
//! use exonet::{Allow, Outcome, blocking};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let alice = blocking::Node::build(exonet::Node::builder(Allow::anyone()).bind("127.0.0.1:0"))?;
//! let bob = blocking::Node::build(exonet::Node::builder(Allow::anyone()).bind("127.0.0.1:0"))?;
//!
//! let receipt = alice.peer(bob.get_ref().peer_addr()).send("hello")?;
//! let mut delivery = bob.recv()?;
//! assert_eq!(delivery.bytes(1024)?, "hello");
//! delivery.ack()?;
//! assert_eq!(receipt.wait().outcome, Outcome::Delivered);
//! alice.close(Duration::from_secs(5));
//! # Ok(())
//! # }
//! ```

use core::fmt;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;
use std::thread::{self, Thread};

use bytes::Bytes;
use tokio::runtime::{Builder as RuntimeBuilder, Handle};
use tokio::sync::oneshot;

use crate::call::{Answer, Failure, Reply, Serving};
use crate::error::{
    BodyError, BuildError, CallError, Closed, NotDelivered, PingError, SendError, SendFromError, ServeError,
};
use crate::peer_addr::PeerAddr;
use crate::receive::Received;
use crate::send::message::Message;
use crate::send::{OpenMessage, Settled};
use crate::{Builder, MessageId, NodeId};

/// A thread that runs the tasks of a node, for as long as somebody holds this.
struct Runtime {
    handle: Handle,
    /// Dropped, the thread ends.
    _stop: oneshot::Sender<()>,
}

impl Runtime {
    fn start() -> Result<Arc<Self>, BuildError> {
        let runtime = RuntimeBuilder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(BuildError::Runtime)?;
        let (handle, (stop, stopped)) = (runtime.handle().clone(), oneshot::channel::<()>());
        let run = move || {
            // An error is what it looks like when the last holder is gone.
            let _ = runtime.block_on(stopped);
            // A look-up or a write to disk that is under way goes on by itself.
            runtime.shutdown_background();
        };
        let spawned = thread::Builder::new().name("exonet".to_owned()).spawn(run);
        spawned.map_err(BuildError::Runtime)?;
        Ok(Arc::new(Self { handle, _stop: stop }))
    }

    /// What `future` comes to. Its timers and sockets are those of the thread.
    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let _context = self.handle.enter();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let (mut future, mut cx) = (pin!(future), Context::from_waker(&waker));
        loop {
            match future.as_mut().poll(&mut cx) {
                Poll::Ready(done) => return done,
                Poll::Pending => thread::park(),
            }
        }
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A node whose calls block: see [`crate::Node`]. Cheap to clone.
#[derive(Clone)]
pub struct Node {
    node: crate::Node,
    runtime: Arc<Runtime>,
}

impl Node {
    /// Makes the node, and the thread on which it runs.
    ///
    /// # Errors
    /// As [`Builder::build`], and [`BuildError::Runtime`].
    pub fn build(builder: Builder) -> Result<Self, BuildError> {
        let runtime = Runtime::start()?;
        let node = runtime.wait(builder.build())?;
        Ok(Self { node, runtime })
    }

    /// The node, for what does not wait.
    pub const fn get_ref(&self) -> &crate::Node {
        &self.node
    }

    /// A handle on a peer: see [`crate::Node::peer`].
    pub fn peer(&self, to: impl Into<PeerAddr>) -> Peer {
        Peer { peer: self.node.peer(to), runtime: Arc::clone(&self.runtime) }
    }

    /// Waits for the next message, under a guard.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed and nothing waits.
    pub fn recv(&self) -> Result<Delivery, Closed> {
        self.runtime.wait(self.node.recv()).map(|delivery| self.guard(delivery))
    }

    /// Waits for the next message for `timeout` at most. None: none came.
    ///
    /// # Errors
    /// As [`Self::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Delivery>, Closed> {
        let next = self.runtime.wait(async { tokio::time::timeout(timeout, self.node.recv()).await });
        next.ok().transpose().map(|delivery| delivery.map(|delivery| self.guard(delivery)))
    }

    fn guard(&self, delivery: crate::Delivery) -> Delivery {
        Delivery { delivery, runtime: Arc::clone(&self.runtime) }
    }

    /// Serves a method by a function, each call on a thread that may block: see [`crate::Node::serve`].
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn serve<A: Answer>(
        &self,
        method: impl Into<Bytes>,
        handler: impl Fn(Request) -> A + Send + Sync + 'static,
    ) -> Result<Serving, ServeError> {
        let (handler, runtime) = (Arc::new(handler), self.runtime.handle.clone());
        let _context = self.runtime.handle.enter();
        let serve = move |request: crate::call::Request| {
            let (handler, runtime) = (Arc::clone(&handler), runtime.clone());
            async move {
                let answer = move || handler(Request { request, runtime }).answer();
                let ran = tokio::task::spawn_blocking(answer).await;
                ran.unwrap_or_else(|_| Err(Failure::from(crate::call::ReplyStatus::PANICKED)))
            }
        };
        self.node.serve(method, serve).start()
    }

    /// Waits until all that was sent so far is settled, for `timeout` at most: see [`crate::Node::flush`].
    pub fn flush(&self, timeout: Option<Duration>) -> Vec<OpenMessage> {
        self.runtime.wait(self.node.flush(timeout))
    }

    /// Ends the node: see [`crate::Node::close`].
    pub fn close(&self, timeout: Duration) -> Vec<OpenMessage> {
        self.runtime.wait(self.node.close(timeout))
    }
}

/// A call to be answered by a function that may block: see [`crate::call::Request`].
pub struct Request {
    request: crate::call::Request,
    runtime: Handle,
}

impl Request {
    /// The caller, the name of the call and its method; its body is read by [`Self::bytes`].
    pub const fn get_ref(&self) -> &crate::call::Request {
        &self.request
    }

    /// Waits for all of the body, if it has no more than `limit` bytes.
    ///
    /// # Errors
    /// [`BodyError`].
    pub fn bytes(&mut self, limit: u64) -> Result<Bytes, BodyError> {
        self.runtime.block_on(self.request.body.bytes(limit))
    }
}

/// A peer of a [`Node`]: see [`crate::Peer`].
#[derive(Clone)]
pub struct Peer {
    peer: crate::Peer,
    runtime: Arc<Runtime>,
}

impl Peer {
    /// The peer, for what does not wait.
    pub const fn get_ref(&self) -> &crate::Peer {
        &self.peer
    }

    /// Sends a message, waiting for room in the peer's queue: see [`crate::Peer::send`].
    ///
    /// # Errors
    /// [`SendError`]; nothing has been queued.
    pub fn send(&self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        let receipt = self.runtime.wait(self.peer.send(message))?;
        Ok(Receipt { receipt, runtime: Arc::clone(&self.runtime) })
    }

    /// Sends a message whose body of `len` bytes is read from `reader`: see [`crate::Peer::send_from`].
    ///
    /// # Errors
    /// [`SendFromError`]; the message has been withdrawn.
    pub fn send_from(
        &self,
        head: impl Into<Message>,
        len: u64,
        mut reader: impl std::io::Read,
    ) -> Result<Receipt, SendFromError> {
        const CHUNK: u64 = 64 << 10;
        let (receipt, mut writer) = self.runtime.wait(self.peer.send_stream(head, len))?;
        let mut chunk = Vec::new();
        while writer.remaining() > 0 {
            chunk.clear();
            let most = writer.remaining().min(CHUNK);
            let read = std::io::Read::read_to_end(&mut std::io::Read::take(&mut reader, most), &mut chunk);
            if read.map_err(SendFromError::Read)? == 0 {
                return Err(SendFromError::Short { read: len - writer.remaining(), len });
            }
            // Settled meanwhile: that is no error, the receipt tells.
            if self.runtime.wait(writer.write_chunk(Bytes::copy_from_slice(&chunk))).is_err() {
                break;
            }
        }
        Ok(Receipt { receipt, runtime: Arc::clone(&self.runtime) })
    }

    /// Calls a method of the peer, and waits for the reply: see [`crate::Peer::call`]. None as `deadline`: for as long as it
    /// takes.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn call(
        &self,
        method: impl Into<Bytes>,
        body: impl Into<Bytes>,
        deadline: Option<Duration>,
    ) -> Result<Reply, CallError> {
        let call = self.peer.call(method, body);
        let call = deadline.into_iter().fold(call, crate::call::Call::deadline);
        self.runtime.wait(call.into_future())
    }

    /// A round trip to the peer and back: see [`crate::Peer::ping`].
    ///
    /// # Errors
    /// [`PingError`].
    pub fn ping(&self, timeout: Duration) -> Result<Option<Duration>, PingError> {
        self.runtime.wait(self.peer.ping(timeout))
    }
}

/// What [`Peer::send`] gives: see [`crate::Receipt`].
#[must_use = "a receipt says what became of the message; drop it only if that does not matter"]
pub struct Receipt {
    receipt: crate::Receipt,
    runtime: Arc<Runtime>,
}

impl Receipt {
    /// The receipt, for what does not wait.
    pub const fn get_ref(&self) -> &crate::Receipt {
        &self.receipt
    }

    /// Waits for what becomes of the message.
    pub fn wait(self) -> Settled {
        self.runtime.wait(self.receipt)
    }

    /// Waits for what becomes of the message, for `timeout` at most. None: it is not known yet.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Settled> {
        let receipt = &mut self.receipt;
        self.runtime.wait(async { tokio::time::timeout(timeout, receipt.outcome()).await }).ok()
    }
}

/// A received message under its guard: see [`crate::Delivery`].
#[must_use = "a delivery that is dropped without `ack` is handed out again"]
pub struct Delivery {
    delivery: crate::Delivery,
    runtime: Arc<Runtime>,
}

impl Delivery {
    /// The delivery, for what does not wait.
    pub const fn get_ref(&self) -> &crate::Delivery {
        &self.delivery
    }

    /// Who sent it.
    pub const fn from(&self) -> NodeId {
        self.delivery.from()
    }

    /// Its name at both ends.
    pub const fn id(&self) -> MessageId {
        self.delivery.id()
    }

    /// Waits for all of the body, if it has no more than `limit` bytes.
    ///
    /// # Errors
    /// [`BodyError`].
    pub fn bytes(&mut self, limit: u64) -> Result<Bytes, BodyError> {
        self.runtime.wait(self.delivery.body_mut().bytes(limit))
    }

    /// Acknowledges the message: from here on it is delivered.
    ///
    /// # Errors
    /// [`NotDelivered`].
    pub fn ack(self) -> Result<(), NotDelivered> {
        self.delivery.ack()
    }

    /// Acknowledges the message, and gives its parts.
    ///
    /// # Errors
    /// As [`Self::ack`].
    pub fn take(self) -> Result<Received, NotDelivered> {
        self.delivery.take()
    }
}

macro_rules! debugs {
    ($($kind:ident . $field:ident),*) => {
        $(impl fmt::Debug for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($kind)).field(&self.$field).finish()
            }
        })*
    };
}

debugs!(Node.node, Peer.peer, Receipt.receipt, Delivery.delivery, Request.request);
