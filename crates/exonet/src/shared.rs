//! The state that the handles of a node and its driver share: the lock, the socket, and the outgoing datagrams.
//!
//! # When a message leaves
//!
//! A lone message leaves on the caller's own thread: the caller takes the lock, queues, and flushes. A burst of
//! messages must not cost a system call per message. Four rules prevent that:
//!
//! * No thread holds the lock during a system call, and only one thread flushes at a time ([`Turn`]). A thread that
//!   finds another one flushing leaves a mark and returns. The other thread then finds more to put into each packet.
//! * A caller flushes only if the last datagram left longer than [`LULL`] ago. Otherwise it tells the driver, which
//!   flushes as soon as it runs: on another thread at once; on this thread when the caller next yields. `send` makes
//!   sure that the caller yields, since `send` takes part in tokio's cooperative budget.
//! * A caller sends at most [`CALLER_BURST`] batches and leaves the rest to the driver, so that it does not spend its
//!   time on the messages of others.
//! * While the driver is awake, callers that send messages of one kind one by one queue them without the lock
//!   ([`Intake`]). The next task that takes the lock passes them all to the core.
//!
//! So a message waits at most for one flush in progress or for the driver's next turn, and one caller causes at most
//! one system call per `LULL`.

use core::cell::Cell;
use core::net::SocketAddr;
use core::num::NonZeroU32;
use core::time::Duration;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::available_parallelism;

use exonet_proto::node::{Incoming, Position, Transmit};
use exonet_proto::{Mono, NodeId, Now};
use exonet_store::StoreError;
use tokio::sync::{Notify, Semaphore, watch};

use crate::after::{After, Log};
use crate::carrier::{Carriers, Written};
use crate::clock::Clock;
use crate::dead::DeadLetters;
use crate::dead::keeper::Keeper;
use crate::engine::{Engine, Phase, Todo};
use crate::error::Closed;
use crate::journal;
use crate::naming::{Naming, Pins, Superseded};
use crate::receive::batch::Taken;
use crate::receive::routes::Route;
use crate::report::Times;
use crate::resolve::Names;
use crate::send::intake::Intake;
use crate::socket::{Socket, is_too_large};
use crate::turn::Turn;

/// If nothing has left for this long, a caller flushes on its own thread. It is a few times the cost of a send to a
/// socket, and less than any round trip.
const LULL: Duration = Duration::from_micros(20);

/// A caller sends at most this many batches before it leaves the rest to the driver.
const CALLER_BURST: usize = 4;

/// How many times a thread tries to take the lock before it sleeps, if the machine has another processor to release
/// it. This takes about twenty microseconds. A step under the lock rarely takes longer. To sleep and to be woken
/// costs both threads a system call.
static TRIES: LazyLock<usize> =
    LazyLock::new(|| if available_parallelism().is_ok_and(|count| count.get() > 1) { 2_000 } else { 0 });

/// The result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Nothing is left to send, or another thread sends it.
    Empty,
    /// The socket takes no more for now.
    Blocked,
    /// The flush has sent as many batches as its budget allows.
    More,
}

thread_local! {
    /// The buffer into which the nodes of a thread write datagrams: many nodes with little traffic need no buffers of
    /// their own.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The outgoing datagrams. If `pending` is set, `buffer` holds datagrams that the socket has not taken yet; otherwise
/// `buffer` is empty.
struct Outbox {
    /// None: the node has ended.
    socket: Option<Arc<Socket>>,
    local: SocketAddr,
    buffer: Vec<u8>,
    pending: Option<Transmit>,
}

/// How a node finds others by name, and how others find it.
pub(crate) struct Service {
    pub(crate) names: Names,
    pub(crate) naming: Option<Arc<dyn Naming>>,
    pub(crate) pins: Arc<Pins>,
    pub(crate) generation: u64,
}

/// One node.
pub(crate) struct Shared {
    pub(crate) id: NodeId,
    pub(crate) names: Names,
    /// The service that looks up names.
    pub(crate) naming: Option<Arc<dyn Naming>>,
    /// The nodes that this node found under each name.
    pub(crate) pins: Arc<Pins>,
    /// How many times the identity has moved.
    pub(crate) generation: u64,
    /// The directory of a stored identity.
    pub(crate) place: Option<PathBuf>,
    pub(crate) times: Times,
    pub(crate) intake: Intake,
    pub(crate) carriers: Carriers,
    pub(crate) dead: Keeper,
    /// How many times the node hands a message out under a guard before it rejects the message.
    pub(crate) attempts: Option<NonZeroU32>,
    clock: Clock,
    // A mutex of std, because a panic poisons it: after a panic the state of the core cannot be trusted, and the node
    // must stop.
    engine: Mutex<Engine>,
    outbox: Mutex<Outbox>,
    turn: Turn,
    last_sent: AtomicU64,
    /// How many batches have left since the driver last looked at the socket.
    pub(crate) sent_since: AtomicU32,
    /// Whether the socket has been replaced.
    pub(crate) rebound: AtomicBool,
    /// Notified when the driver has work.
    pub(crate) work: Notify,
    /// Wakes one receiver when a message waits. A receiver that takes a message wakes the next.
    pub(crate) readable: Notify,
    /// Notified when messages are settled, or the node becomes quiet.
    pub(crate) settled: Notify,
    /// Notified when more of the journal is on disk.
    journaled: Notify,
    /// Notified when a peer reports that the identity lives elsewhere.
    pub(crate) suspected: Notify,
    /// Set once the identity is known to live elsewhere.
    pub(crate) superseded: watch::Sender<Option<Superseded>>,
    /// Closed when the driver has ended and has released the socket and the state.
    pub(crate) ended: Semaphore,
}

impl Shared {
    pub(crate) fn new(
        engine: Engine,
        clock: Clock,
        socket: Arc<Socket>,
        service: Service,
        dead: DeadLetters,
        attempts: Option<NonZeroU32>,
    ) -> Self {
        let local = socket.local_addr();
        let outbox = Outbox { socket: Some(socket), local, buffer: Vec::new(), pending: None };
        Self {
            id: engine.core.id(),
            names: service.names,
            naming: service.naming,
            pins: service.pins,
            generation: service.generation,
            place: None,
            times: Times::new(&engine.name),
            intake: Intake::default(),
            carriers: Carriers::default(),
            dead: Keeper::new(dead),
            attempts,
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
            journaled: Notify::new(),
            suspected: Notify::new(),
            superseded: watch::Sender::new(None),
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

    /// Runs `f` under the lock. The caller must [finish](Self::finish) the returned work without the lock, since code
    /// of the application never runs under the lock.
    fn locked<T>(&self, f: impl FnOnce(&mut Engine) -> T) -> (T, After) {
        let mut after = After::begin();
        let mut engine = self.engine();
        engine.take_in(&self.intake, || self.clock.now());
        let out = f(&mut engine);
        if engine.is_journaled() && engine.phase != Phase::Broken {
            engine.write_journal(self.clock.now());
        }
        engine.let_in(&self.intake);
        let Engine { core, after: left, .. } = &mut *engine;
        core.take_spent(&mut left.spent);
        core::mem::swap(left, &mut after);
        (out, after)
    }

    fn engine(&self) -> MutexGuard<'_, Engine> {
        for _ in 0..*TRIES {
            match self.engine.try_lock() {
                Ok(engine) => return engine,
                Err(TryLockError::WouldBlock) => core::hint::spin_loop(),
                Err(TryLockError::Poisoned(_)) => break,
            }
        }
        match self.engine.lock() {
            Ok(engine) => engine,
            Err(poisoned) => {
                let mut engine = poisoned.into_inner();
                if engine.phase != Phase::Broken {
                    engine.break_down();
                }
                engine
            }
        }
    }

    /// Does the work that a step has left. The caller must not hold the lock.
    pub(crate) fn finish(&self, after: After) {
        self.see_to(after.todo);
        after.run(&self.times);
    }

    /// Changes state outside of the core, which causes no work for the core.
    pub(crate) fn amend<T>(&self, f: impl FnOnce(&mut Engine) -> T) -> T {
        let (out, after) = self.locked(f);
        self.finish(after);
        out
    }

    /// Reads state of the engine, which causes no work.
    pub(crate) fn look<T>(&self, f: impl FnOnce(&Engine) -> T) -> T {
        self.amend(|engine| f(engine))
    }

    /// The notification that wakes a receiver of this route.
    pub(crate) fn readable<'a>(&'a self, route: Option<&'a Arc<Route>>) -> &'a Notify {
        route.map_or(&self.readable, |route| &route.readable)
    }

    /// Takes the next received message of a route; None if no message waits.
    pub(crate) fn take(&self, route: Option<&Arc<Route>>, guarded: bool) -> Result<Option<Incoming>, Closed> {
        let mut incoming = None;
        let take = |engine: &mut Engine, now| {
            let more = engine.take(now, route, guarded, &mut incoming);
            let call = incoming.is_some() && engine.leave_to_driver();
            (engine.phase < Phase::Closing || engine.holds_for(route), more, call)
        };
        let ((open, more, call), _, mut after) = self.step_quietly(take);
        after.todo.driver |= call;
        // The notification woke only one receiver.
        after.wake_next(route, more);
        self.finish(after);
        if incoming.is_none() && !open { Err(Closed) } else { Ok(incoming) }
    }

    /// Takes up to `most` received messages of a route.
    pub(crate) fn take_many(
        &self,
        route: Option<&Arc<Route>>,
        most: usize,
        taken: &mut Taken,
    ) -> Result<(), Closed> {
        let take = |engine: &mut Engine, now| {
            let more = engine.take_many(now, route, most, taken);
            let call = !taken.is_empty() && engine.leave_to_driver();
            (engine.phase < Phase::Closing || engine.holds_for(route), more, call)
        };
        let ((open, more, call), _, mut after) = self.step_quietly(take);
        after.todo.driver |= call;
        after.wake_next(route, more);
        self.finish(after);
        if taken.is_empty() && !open { Err(Closed) } else { Ok(()) }
    }

    /// Runs one step of a caller: `f`, then the work that follows from it, including a flush.
    pub(crate) fn step<T>(&self, f: impl FnOnce(&mut Engine, Now) -> T) -> T {
        let last_sent = Mono(self.last_sent.load(Ordering::Relaxed));
        let ((out, lull, call), _, mut after) = self.step_quietly(|engine, now| {
            let out = f(engine, now);
            let lull = now.mono.since(last_sent) >= LULL;
            (out, lull, !lull && engine.leave_to_driver())
        });
        after.todo.driver |= call;
        self.finish(after);
        if lull && self.flush(CALLER_BURST) != Flushed::Empty {
            self.work.notify_one();
        }
        out
    }

    /// Whether a datagram left just now, so that further messages may wait a little.
    pub(crate) fn is_busy(&self) -> bool {
        self.clock.mono().since(Mono(self.last_sent.load(Ordering::Relaxed))) < LULL
    }

    /// Runs the last step of a node. What this step does not send is never sent.
    pub(crate) fn step_last(&self, f: impl FnOnce(&mut Engine, Now)) {
        self.step(f);
        self.flush(CALLER_BURST);
    }

    /// Runs a step after which nothing is urgent. Its datagrams leave together with the next urgent ones, or in the
    /// driver's next turn. So a reply to a message that was just received takes the STATE along.
    pub(crate) fn step_calmly<T>(&self, f: impl FnOnce(&mut Engine, Now) -> T) -> T {
        let ((out, call), _, mut after) =
            self.step_quietly(|engine, now| (f(engine, now), engine.leave_to_driver()));
        after.todo.driver |= call;
        self.finish(after);
        out
    }

    /// Runs a step, and returns the work that follows: the caller [finishes](Self::finish) it.
    pub(crate) fn step_quietly<T>(&self, f: impl FnOnce(&mut Engine, Now) -> T) -> (T, Now, After) {
        let ((out, now), after) = self.locked(|engine| {
            // Reads the clock under the lock, so that the core never sees time run backwards.
            let now = self.clock.now();
            let out = f(engine, now);
            if engine.phase != Phase::Broken {
                engine.pump(now);
            }
            (out, now)
        });
        (out, now, after)
    }

    fn see_to(&self, todo: Todo) {
        if todo.ended {
            self.journaled.notify_waiters();
            self.settled.notify_waiters();
            self.readable.notify_waiters();
        }
        if todo.driver || todo.ended {
            self.work.notify_one();
        }
        if todo.readable {
            self.readable.notify_one();
        }
        if todo.settled {
            self.settled.notify_waiters();
        }
        if todo.suspected {
            self.suspected.notify_one();
        }
    }

    /// Sends the datagrams that are ready: at most `budget` batches.
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
        let mut later = After::begin();
        let mut outbox = self.outbox();
        if outbox.pending.is_none() {
            outbox.buffer = BUFFER.take();
        }
        let flushed = self.drain_through(&mut outbox, left, &mut later);
        if outbox.pending.is_none() {
            BUFFER.set(core::mem::take(&mut outbox.buffer));
        }
        // A woken task may run at once and ask the node for its address, which needs this lock.
        drop(outbox);
        self.finish(later);
        flushed
    }

    /// Sends until `left` batches have left. Adds the work that follows to `later`.
    fn drain_through(&self, outbox: &mut Outbox, left: &mut usize, later: &mut After) -> Flushed {
        let Some(socket) = &outbox.socket else {
            return Flushed::Empty;
        };
        let segments = socket.max_segments();
        loop {
            if outbox.pending.is_none() {
                let buffer = &mut outbox.buffer;
                let (transmit, _, after) =
                    self.step_quietly(|engine, now| engine.transmit(now, segments, buffer));
                later.join(after);
                outbox.pending = transmit;
            }
            let Some(transmit) = &outbox.pending else {
                return Flushed::Empty;
            };
            if *left == 0 {
                return Flushed::More;
            }
            let data = outbox.buffer.get(..transmit.len).unwrap_or_default();
            if let Some(pipe) = transmit.pipe {
                // The connection keeps bytes that it cannot send yet. If it is broken, its task reports that.
                if let Written::Room(room) = self.carriers.send(pipe, data, transmit.segment) {
                    let (.., after) = self.step_quietly(|engine, now| engine.core.pipe_room(now, pipe, room));
                    later.join(after);
                }
                outbox.pending = None;
                self.last_sent.store(self.clock.mono().0, Ordering::Relaxed);
                *left -= 1;
                continue;
            }
            match socket.try_send(transmit, data) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flushed::Blocked,
                Err(error) if is_too_large(&error) => {
                    outbox.pending = None;
                    let ((), _, after) = self.step_quietly(|engine, now| engine.core.handle_refused(now));
                    later.join(after);
                }
                // The core treats any other error like a lost datagram.
                Ok(()) | Err(_) => outbox.pending = None,
            }
            // The system call may have taken longer than a lull, so this reads the clock again.
            self.last_sent.store(self.clock.mono().0, Ordering::Relaxed);
            self.sent_since.fetch_add(1, Ordering::Relaxed);
            *left -= 1;
        }
    }

    /// Replaces the socket.
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

    /// Starts the thread that forces the journal, if the durability asks for that.
    pub(crate) fn start_forcing(self: &Arc<Self>) -> io::Result<()> {
        self.amend(|engine| engine.start_forcing(self))
    }

    /// Notes that the journal is on disk up to `through`.
    pub(crate) fn journaled(&self, through: Position) {
        self.step_calmly(|engine, now| engine.journaled(now, through));
        self.journaled.notify_waiters();
    }

    /// Notes that the journal could not be forced to the disk: the node stops.
    pub(crate) fn journal_failed(&self, error: &StoreError) {
        self.step_calmly(|engine, now| engine.journal_failed(now, error.to_string()));
        self.journaled.notify_waiters();
    }

    /// Waits until a crash cannot take the journal up to `at`. None: returns at once.
    ///
    /// # Errors
    /// [`Closed`] if the node ended before.
    pub(crate) async fn until_safe(&self, at: Option<Position>) -> Result<(), Closed> {
        let Some(at) = at else { return Ok(()) };
        loop {
            // Created before the look at the journal, so that no wake-up between the look and the wait is missed.
            let journaled = self.journaled.notified();
            match self.look(|engine| engine.is_safe(at)) {
                Some(true) => return Ok(()),
                Some(false) => journaled.await,
                None => return Err(Closed),
            }
        }
    }

    /// Takes the journal out, after the last step that may write to it.
    pub(crate) fn leave_journal(&self) -> Option<journal::Log> {
        self.amend(Engine::leave_journal)
    }

    /// Releases the socket.
    pub(crate) fn hang_up(&self) {
        let mut outbox = self.outbox();
        outbox.socket = None;
        outbox.pending = None;
        outbox.buffer = Vec::new();
    }

    /// Ends the node, and settles open messages. If `why` is given, logs that they were lost.
    pub(crate) fn stop(&self, why: Option<&str>) {
        self.amend(|engine| {
            let open = engine.receipts.open_count();
            if engine.stop(Phase::Stopped)
                && open > 0
                && let Some(why) = why
            {
                engine.log(Log::Ended(why.to_owned(), open));
            }
            engine.after.todo.ended = true;
        });
    }
}

#[cfg(test)]
mod tests {
    use core::task::{Context, Waker};
    use std::task::Wake;

    use super::*;
    use crate::{Allow, Node, PeerAddr};

    /// A task that, when it is woken, asks the node for its address.
    struct Asks {
        node: Node,
        woken: AtomicBool,
    }

    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            assert!(self.node.local_addr().port() > 0);
            self.woken.store(true, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn whoever_is_woken_while_datagrams_leave_may_ask_the_node() {
        let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let nobody = PeerAddr::from((NodeId([2; 32]), SocketAddr::from(([127, 0, 0, 1], 9))));
        let mut receipt = core::pin::pin!(node.peer(nobody).try_send("x").unwrap());
        let asks = Arc::new(Asks { node: node.clone(), woken: AtomicBool::new(false) });
        let waker = Waker::from(Arc::clone(&asks));
        assert!(receipt.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        // The flush finds that the task has ended.
        let now = node.shared().clock().now();
        node.shared().amend(|engine| {
            engine.receipts.open_keys().iter().for_each(|key| engine.core.abandon(now, *key));
        });
        node.shared().flush(1);
        assert!(asks.woken.load(Ordering::Relaxed));
    }
}
