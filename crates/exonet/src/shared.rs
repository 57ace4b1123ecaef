//! What the handles of a node and its driver share: the lock, the socket, and the way out.
//!
//! # When a message leaves
//!
//! A lone message leaves on the caller's thread, without a hop: it takes the lock, queues, and flushes. A
//! burst must not cost a system call each, and three things see to that:
//!
//! * The lock is not held during a system call, and only one thread flushes at a time ([`Turn`]). Who finds another
//!   flushing leaves word and goes; the other then finds more to put into each packet.
//! * A caller flushes only if the last datagram left longer than [`LULL`] ago. Otherwise it tells the driver,
//!   which flushes as soon as it runs: on another thread at once, on this one when the caller next yields,
//!   which `send` sees to (it takes part in tokio's cooperative budget).
//! * A caller sends at most [`CALLER_BURST`] batches before it leaves the rest to the driver, so that nobody is kept
//!   at sending what others queue.
//!
//! So a message waits at most for a flush that is under way or for the driver's next turn, and one caller
//! causes at most one system call per `LULL`.

use core::cell::Cell;
use core::net::SocketAddr;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exonet_proto::node::{Incoming, IncomingRun, Transmit};
use exonet_proto::{Mono, NodeId, Now};
use tokio::sync::{Notify, Semaphore};

use crate::clock::Clock;
use crate::engine::{Engine, Phase, Todo};
use crate::error::Closed;
use crate::resolve::Names;
use crate::socket::{Socket, is_too_large};
use crate::turn::Turn;

/// A caller that finds the way out unused for this long flushes itself. A few times what a send to a socket costs,
/// and less than any round trip.
const LULL: Duration = Duration::from_micros(20);

/// Batches that a caller sends before it leaves the rest to the driver.
const CALLER_BURST: usize = 4;

/// How a flush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Nothing is left, or another thread sees to it.
    Empty,
    /// The socket takes no more for now.
    Blocked,
    /// The budget is used up.
    More,
}

thread_local! {
    /// What the nodes of a thread write datagrams into: of many that have little to say each, none has memory for it.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The way out. `pending` says that `buffer` holds datagrams which the socket has not taken yet; else that is empty.
struct Outbox {
    /// None: the node has ended.
    socket: Option<Arc<Socket>>,
    local: SocketAddr,
    buffer: Vec<u8>,
    pending: Option<Transmit>,
}

/// One node.
pub(crate) struct Shared {
    pub(crate) id: NodeId,
    pub(crate) names: Names,
    clock: Clock,
    // std's lock, for its poison: a core that panicked half-way keeps no promise, and must be stopped.
    engine: Mutex<Engine>,
    outbox: Mutex<Outbox>,
    turn: Turn,
    last_sent: AtomicU64,
    /// Batches that have left since the driver last looked at the socket.
    pub(crate) sent_since: AtomicU32,
    /// The socket has been replaced.
    pub(crate) rebound: AtomicBool,
    /// The driver has work.
    pub(crate) work: Notify,
    /// A message waits for a receiver: wakes one; who takes a message wakes the next.
    pub(crate) readable: Notify,
    /// Messages were settled, or the node became quiet.
    pub(crate) settled: Notify,
    /// Closed when the driver is gone, and with it the socket and the hold on the state.
    pub(crate) ended: Semaphore,
}

impl Shared {
    pub(crate) fn new(engine: Engine, clock: Clock, socket: Arc<Socket>) -> Self {
        let local = socket.local_addr();
        let outbox = Outbox { socket: Some(socket), local, buffer: Vec::new(), pending: None };
        Self {
            id: engine.core.id(),
            names: Names::default(),
            clock,
            engine: Mutex::new(engine),
            outbox: Mutex::new(outbox),
            turn: Turn::default(),
            last_sent: AtomicU64::new(0),
            sent_since: AtomicU32::new(0),
            rebound: AtomicBool::new(false),
            work: Notify::new(),
            readable: Notify::new(),
            settled: Notify::new(),
            ended: Semaphore::new(0),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn socket(&self) -> Option<Arc<Socket>> {
        self.outbox().socket.clone()
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.outbox().local
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn engine(&self) -> MutexGuard<'_, Engine> {
        match self.engine.lock() {
            Ok(engine) => engine,
            Err(poisoned) => {
                let mut engine = poisoned.into_inner();
                if engine.phase != Phase::Broken {
                    tracing::error!(node = %engine.name, "the core panicked: the node has stopped");
                    let mut wakes = Vec::new();
                    engine.break_down(&mut wakes);
                    wakes.into_iter().for_each(Waker::wake);
                    self.settled.notify_waiters();
                    self.readable.notify_waiters();
                    self.work.notify_one();
                }
                engine
            }
        }
    }

    /// Changes what is not the core's, so that nothing follows.
    pub(crate) fn amend<T>(&self, f: impl FnOnce(&mut Engine) -> T) -> T {
        f(&mut self.engine())
    }

    /// Looks at the engine without giving it anything to do.
    pub(crate) fn look<T>(&self, f: impl FnOnce(&Engine) -> T) -> T {
        f(&self.engine())
    }

    /// The next received message; None if none waits.
    pub(crate) fn take(&self, guarded: bool) -> Result<Option<Incoming>, Closed> {
        let mut wakes = Vec::new();
        let take = |engine: &mut Engine, now| {
            let incoming = engine.take(now, guarded);
            let call = incoming.is_some() && engine.leave_to_driver();
            (incoming, engine.phase, engine.core.has_waiting(), call)
        };
        let ((incoming, phase, more, call), _, mut todo) = self.step_quietly(&mut wakes, take);
        todo.driver |= call;
        // One event wakes only one.
        todo.readable |= more;
        self.see_to(todo);
        wakes.into_iter().for_each(Waker::wake);
        match incoming {
            Some(incoming) => Ok(Some(incoming)),
            None if phase == Phase::Open => Ok(None),
            None => Err(Closed),
        }
    }

    /// At most `most` received messages; none if none wait.
    pub(crate) fn take_many(&self, most: usize, runs: &mut Vec<IncomingRun>) -> Result<(), Closed> {
        let mut wakes = Vec::new();
        let take = |engine: &mut Engine, now| {
            engine.take_many(now, most, runs);
            let call = !runs.is_empty() && engine.leave_to_driver();
            (engine.phase, engine.core.has_waiting(), call)
        };
        let ((phase, more, call), _, mut todo) = self.step_quietly(&mut wakes, take);
        todo.driver |= call;
        todo.readable |= more;
        self.see_to(todo);
        wakes.into_iter().for_each(Waker::wake);
        if runs.is_empty() && phase != Phase::Open { Err(Closed) } else { Ok(()) }
    }

    /// One step of a caller: `f`, then whatever follows from it, flushing included.
    pub(crate) fn step<T>(&self, f: impl FnOnce(&mut Engine, Now) -> T) -> T {
        let mut wakes = Vec::new();
        let last_sent = Mono(self.last_sent.load(Ordering::Relaxed));
        let ((out, lull, call), _, mut todo) = self.step_quietly(&mut wakes, |engine, now| {
            let out = f(engine, now);
            let lull = now.mono.since(last_sent) >= LULL;
            (out, lull, !lull && engine.leave_to_driver())
        });
        todo.driver |= call;
        self.see_to(todo);
        wakes.into_iter().for_each(Waker::wake);
        if lull && self.flush(CALLER_BURST) != Flushed::Empty {
            self.work.notify_one();
        }
        out
    }

    /// The last step: what is not said now is never said.
    pub(crate) fn step_last(&self, f: impl FnOnce(&mut Engine, Now)) {
        self.step(f);
        self.flush(CALLER_BURST);
    }

    /// One step after which nothing is urgent: what it makes the core say goes out with the next thing that
    /// does, or with the driver's next turn. A reply to what was just received so takes the STATE with it.
    pub(crate) fn step_calmly<T>(&self, f: impl FnOnce(&mut Engine, Now) -> T) -> T {
        let mut wakes = Vec::new();
        let ((out, call), _, mut todo) =
            self.step_quietly(&mut wakes, |engine, now| (f(engine, now), engine.leave_to_driver()));
        todo.driver |= call;
        self.see_to(todo);
        wakes.into_iter().for_each(Waker::wake);
        out
    }

    /// One step without what follows from it: that is left to the caller.
    pub(crate) fn step_quietly<T>(
        &self,
        wakes: &mut Vec<Waker>,
        f: impl FnOnce(&mut Engine, Now) -> T,
    ) -> (T, Now, Todo) {
        let mut engine = self.engine();
        // Read under the lock, so that the core never sees time run back.
        let now = self.clock.now();
        if engine.phase == Phase::Broken {
            return (f(&mut engine, now), now, Todo::default());
        }
        let out = f(&mut engine, now);
        let todo = engine.pump(now, wakes);
        (out, now, todo)
    }

    pub(crate) fn see_to(&self, todo: Todo) {
        if todo.driver {
            self.work.notify_one();
        }
        if todo.readable {
            self.readable.notify_one();
        }
        if todo.settled {
            self.settled.notify_waiters();
        }
    }

    /// Sends what is ready: at most `budget` batches.
    pub(crate) fn flush(&self, budget: usize) -> Flushed {
        if !self.turn.take() {
            return Flushed::Empty;
        }
        let mut left = budget;
        loop {
            let flushed = self.drain(&mut left);
            if flushed != Flushed::Empty {
                self.turn.pass_on();
                return flushed;
            }
            if self.turn.end() {
                return Flushed::Empty;
            }
        }
    }

    fn drain(&self, left: &mut usize) -> Flushed {
        let mut outbox = self.outbox();
        if outbox.pending.is_none() {
            outbox.buffer = BUFFER.take();
        }
        let flushed = self.drain_through(&mut outbox, left);
        if outbox.pending.is_none() {
            BUFFER.set(core::mem::take(&mut outbox.buffer));
        }
        flushed
    }

    fn drain_through(&self, outbox: &mut Outbox, left: &mut usize) -> Flushed {
        let Some(socket) = &outbox.socket else {
            return Flushed::Empty;
        };
        let segments = socket.max_segments();
        loop {
            if outbox.pending.is_none() {
                let mut wakes = Vec::new();
                let buffer = &mut outbox.buffer;
                let (transmit, _, todo) =
                    self.step_quietly(&mut wakes, |engine, now| engine.transmit(now, segments, buffer));
                self.see_to(todo);
                wakes.into_iter().for_each(Waker::wake);
                outbox.pending = transmit;
            }
            let Some(transmit) = &outbox.pending else {
                return Flushed::Empty;
            };
            if *left == 0 {
                return Flushed::More;
            }
            let data = outbox.buffer.get(..transmit.len).unwrap_or_default();
            match socket.try_send(transmit, data) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flushed::Blocked,
                Err(error) if is_too_large(&error) => {
                    outbox.pending = None;
                    let mut wakes = Vec::new();
                    let ((), _, todo) =
                        self.step_quietly(&mut wakes, |engine, now| engine.core.handle_refused(now));
                    self.see_to(todo);
                    wakes.into_iter().for_each(Waker::wake);
                }
                // Whatever else went wrong is a lost datagram to the core.
                Ok(()) | Err(_) => outbox.pending = None,
            }
            // The call may well have taken longer than a lull.
            self.last_sent.store(self.clock.mono().0, Ordering::Relaxed);
            self.sent_since.fetch_add(1, Ordering::Relaxed);
            *left -= 1;
        }
    }

    /// Goes on with another socket.
    pub(crate) fn rebind(&self, socket: Socket) {
        {
            let mut outbox = self.outbox();
            if outbox.socket.is_none() {
                return;
            }
            outbox.local = socket.local_addr();
            outbox.socket = Some(Arc::new(socket));
            outbox.pending = None;
            outbox.buffer = Vec::new();
        }
        self.rebound.store(true, Ordering::Release);
        self.step(|engine, now| engine.rebind(now));
        self.work.notify_one();
    }

    /// Gives the socket up.
    pub(crate) fn hang_up(&self) {
        let mut outbox = self.outbox();
        outbox.socket = None;
        outbox.pending = None;
        outbox.buffer = Vec::new();
    }

    /// Ends the node. What is open is settled, and said to be lost if `why` is given.
    pub(crate) fn stop(&self, why: Option<&str>) {
        let mut wakes = Vec::new();
        {
            let mut engine = self.engine();
            let open = engine.receipts.open_count();
            if engine.stop(Phase::Stopped, &mut wakes)
                && open > 0
                && let Some(why) = why
            {
                tracing::warn!(node = %engine.name, open, "{why} before all messages were settled");
            }
        }
        wakes.into_iter().for_each(Waker::wake);
        self.settled.notify_waiters();
        self.readable.notify_waiters();
        self.work.notify_one();
    }
}
