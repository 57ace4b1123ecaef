//! What the node's lock guards: the core, and the tasks that wait for it.

pub(crate) mod journaling;
pub(crate) mod sending;
mod streaming;

use core::net::SocketAddr;
use core::task::Waker;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use exonet_proto::node::{
    Batch, BodyRead, Conflict, DeliveryKey, Dial, Event, Incoming, IncomingBody, MessageKey, Node as Core,
    OpenMessage, Outcome, SendError as CoreError, Status, Transmit, Verdict,
};
use exonet_proto::{MessageId, Mono, NodeId, Now};
use tokio::sync::oneshot;

use crate::after::{After, Chore, Log, Pong};
use crate::allow::{Allow, Question};
use crate::call::desk::Calls;
use crate::comings::Comings;
use crate::journal;
use crate::presence::Presences;
use crate::receive::batch::Taken;
use crate::receive::routes::{Route, Routes};
use crate::send::intake::{Bodies, Kind};
use crate::send::lot::Lot;
use crate::send::outcomes::Outlets;
use crate::send::reasons::Reasons;
use crate::send::receipts::{Receipts, Settled};
use crate::send::room::Room;
use crate::state::StateDir;
use crate::stream::desk::Streams;
use crate::timer::Timer;
use crate::trace::Trace;

/// The phase of a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Open,
    /// The node refuses new work, and goes on with open messages.
    Closing,
    /// The driver has ended or is ending, and every receipt is settled.
    Stopped,
    /// The core panicked: nothing may rely on its state.
    Broken,
}

/// The value of `armed` while the driver works, or has been woken and will.
pub(crate) const AWAKE: Mono = Mono(0);

/// After the intake was opened this many times without getting a message, it stays closed.
const IDLE: u32 = 4;

/// The state of the intake.
#[derive(Default)]
struct Gathering {
    is_open: bool,
    /// The kind of messages that the intake opens for when the lock is released.
    wanted: Option<Kind>,
    /// How many times it was opened since the last message came in.
    idle: u32,
    /// Empty memory for the next messages.
    spare: Bodies,
    /// The lot of the messages that are being queued now.
    lot: Option<Arc<Lot>>,
}

/// What the caller of [`Engine::pump`] does once the lock is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Todo {
    /// The driver has work.
    pub(crate) driver: bool,
    /// A task that waits for messages to be settled, or for the node to be quiet, should look again.
    pub(crate) settled: bool,
    /// A message waits for a receiver.
    pub(crate) readable: bool,
    /// This step has woken servers of calls.
    pub(crate) called: bool,
    /// The node has ended, and every waiting task should look again.
    pub(crate) ended: bool,
    /// A peer reports that the identity lives elsewhere.
    pub(crate) suspected: bool,
    /// There is room in a queue that the core does not report.
    freed: bool,
}

impl Todo {
    pub(crate) const NOTHING: Self = Self {
        driver: false,
        settled: false,
        readable: false,
        called: false,
        ended: false,
        suspected: false,
        freed: false,
    };

    /// Adds the work of `other`.
    pub(crate) fn join(&mut self, other: Self) {
        self.driver |= other.driver;
        self.settled |= other.settled;
        self.readable |= other.readable;
        self.called |= other.called;
        self.ended |= other.ended;
        self.suspected |= other.suspected;
    }
}

impl Default for Todo {
    fn default() -> Self {
        Self::NOTHING
    }
}

pub(crate) struct Engine {
    pub(crate) core: Core,
    pub(crate) phase: Phase,
    pub(crate) receipts: Receipts,
    /// The name of the node, for logs.
    pub(crate) name: Arc<str>,
    /// The work to do without the lock.
    pub(crate) after: After,
    pub(crate) trace: Option<Trace>,
    /// When the timer wakes the driver; [`AWAKE`] while the driver does not sleep.
    pub(crate) armed: Mono,
    /// The timer that wakes the driver.
    pub(crate) timer: Arc<Timer>,
    /// Whether callers left work to the driver since it last began to flush.
    pub(crate) left_to_driver: bool,
    /// The latest write that the core wants. The driver takes it.
    pub(crate) batch: Option<Batch>,
    /// None: this node keeps no journal, or it has ended.
    journal: Option<journal::Log>,
    /// Whether the node keeps a journal. Then no datagram leaves that depends on a record which is not yet written.
    is_journaled: bool,
    /// Where a node without a journal notes the early messages that it took.
    pub(crate) notes: Option<Arc<StateDir>>,
    /// Messages that this node took, and that wait for the disk before the application gets them.
    held: journal::Held,
    /// The open messages of a former life, until the application takes them.
    recovered: Vec<(OpenMessage, journaling::Hold)>,
    /// Peers that do not answer. The driver looks their names up again.
    pub(crate) absent: Vec<NodeId>,
    /// Peers about which the driver asks the application.
    pub(crate) asks: Vec<(NodeId, SocketAddr)>,
    /// Connections that the driver must open.
    pub(crate) dials: Vec<Dial>,
    pub(crate) room: Room,
    /// The messages that callers queue without the lock.
    gathering: Gathering,
    pub(crate) calls: Calls,
    pub(crate) routes: Routes,
    pub(crate) streams: Streams,
    pub(crate) presences: Presences,
    /// The application's function that admits peers, if the policy asks it.
    pub(crate) question: Option<Arc<Question>>,
    /// The peers that this function has admitted.
    welcomed: BTreeSet<NodeId>,
    /// The number of tasks that wait until all messages to one peer are settled.
    pub(crate) peer_waits: usize,
    writers: BTreeMap<MessageKey, Option<Waker>>,
    readers: BTreeMap<DeliveryKey, Waker>,
    pings: BTreeMap<u64, oneshot::Sender<Pong>>,
    next_ping: u64,
    oldest: u64,
    comings: Comings,
    /// The reasons that receiving applications gave for verdicts.
    reasons: Reasons,
    /// The application's streams of outcomes.
    pub(crate) outlets: Outlets,
}

impl Engine {
    pub(crate) fn new(core: Core, queue_limit: usize, trace: Option<Trace>, timer: Arc<Timer>) -> Self {
        Self {
            name: core.id().short().into(),
            after: After::default(),
            core,
            timer,
            phase: Phase::Open,
            receipts: Receipts::default(),
            trace,
            armed: Mono::NEVER,
            left_to_driver: false,
            batch: None,
            journal: None,
            is_journaled: false,
            notes: None,
            held: journal::Held::default(),
            recovered: Vec::new(),
            absent: Vec::new(),
            asks: Vec::new(),
            dials: Vec::new(),
            room: Room::new(queue_limit),
            gathering: Gathering::default(),
            calls: Calls::default(),
            routes: Routes::default(),
            streams: Streams::default(),
            presences: Presences::default(),
            question: None,
            welcomed: BTreeSet::new(),
            peer_waits: 0,
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
            pings: BTreeMap::new(),
            next_ping: 0,
            oldest: u64::MAX,
            comings: Comings::default(),
            reasons: Reasons::default(),
            outlets: Outlets::default(),
        }
    }

    /// Leaves work to the driver. Returns whether the driver sleeps and must be woken.
    pub(crate) fn leave_to_driver(&mut self) -> bool {
        self.left_to_driver = true;
        core::mem::replace(&mut self.armed, AWAKE) != AWAKE
    }

    /// Takes the events of the core, and leaves the work that follows from them in [`Engine::after`].
    pub(crate) fn pump(&mut self, now: Now) {
        let mut todo = Todo::default();
        // The node reports an outcome only after its record is written.
        if self.is_journaled {
            self.write_journal(now);
        }
        while let Some(batch) = self.core.poll_persist() {
            // Each write contains the earlier ones, so only the last is needed.
            self.batch = Some(batch);
        }
        while let Some(event) = self.core.poll_event() {
            if let Some(trace) = &mut self.trace {
                trace.event(now, &event);
            }
            self.on_event(now, event, &mut todo);
        }
        while let Some(dial) = self.core.poll_dial() {
            self.dials.push(dial);
        }
        if todo.freed {
            // The core reports room after a STATE only if the core itself refused a message. Tasks may wait for room
            // without such a refusal, so this wakes them.
            self.room.serve_all(&mut self.core, &mut self.after);
        }
        let oldest = self.receipts.oldest();
        let ends = || (self.core.is_quiet() && self.held.is_empty()) || self.core.is_finished();
        todo.settled |= oldest > self.oldest || (self.phase == Phase::Closing && ends());
        self.oldest = oldest;
        let next = self.core.poll_timeout().unwrap_or(Mono::NEVER);
        let mut late = false;
        if next < self.armed {
            // The driver need not be woken only to set a later alarm.
            if next > now.mono {
                self.armed = self.timer.arm(now.mono, next);
            }
            late = next < self.armed;
        }
        todo.driver |= late
            || self.batch.is_some()
            || !self.asks.is_empty()
            || !self.absent.is_empty()
            || !self.dials.is_empty()
            || self.phase >= Phase::Stopped;
        self.after.todo.join(todo);
    }

    fn on_event(&mut self, now: Now, event: Event, todo: &mut Todo) {
        match event {
            Event::Outcome { key, peer, count, outcome, id, late, receiver_durability } => {
                todo.settled |= self.peer_waits > 0;
                todo.freed |= outcome != Outcome::Delivered || self.room.has_promises();
                self.settled(now, (key, count), peer, Settled { outcome, id, late, receiver_durability });
            }
            Event::Reason { id, reason } => self.reasons.keep(id, reason),
            Event::Reply { key, id, status, body } => {
                todo.freed |= self.room.has_promises();
                todo.settled |= self.peer_waits > 0;
                self.replied(now, key, status, body);
                let settled = Settled::with_id(Outcome::Delivered, id);
                self.receipts.settle(key, 1, settled, |waker| self.after.wake(Some(waker)));
                self.after.wake(self.writers.remove(&key).flatten());
            }
            Event::Called { method } => todo.called |= self.called(now, &method),
            Event::Stream { peer, name } => {
                self.streams.come(&mut self.core, now, (peer, name), &mut self.after);
            }
            Event::Readable if self.routes.are_none() => todo.readable = true,
            Event::Readable => todo.readable |= self.routes.sort(&mut self.core, now, &mut self.after),
            Event::Sendable { peer } => self.room.serve(&mut self.core, &peer, &mut self.after),
            Event::BodyWritable { key } => {
                self.after.wake(self.writers.get_mut(&key).and_then(Option::take));
            }
            Event::BodyReadable { key } => self.after.wake(self.readers.remove(&key)),
            Event::Authorize { id, remote } => self.asks.push((id, remote)),
            Event::Refused { peer, remote } => self.log(Log::Refused(peer, remote)),
            Event::Connected { peer, remote, restarted } => {
                let coming = self.comings.connected(now.mono, peer, remote, restarted);
                self.log(Log::Connected(peer, remote, coming));
                let news = self.presences.connected(&peer, remote, restarted);
                self.after.chores.extend(news.map(Chore::All));
            }
            Event::Away { peer, since } => {
                self.absent.push(peer);
                self.after.chores.extend(self.presences.away(&peer, since).map(Chore::All));
            }
            Event::Back { peer } => {
                self.after.chores.extend(self.presences.back(now.mono, &peer).map(Chore::All));
            }
            Event::Forgotten { peer } => {
                self.welcomed.remove(&peer);
                let told = self.comings.forgotten(now.mono, &peer);
                self.log(Log::Forgotten(peer, told));
            }
            Event::Pong { cookie, rtt, refused, .. } => {
                let asker = self.pings.remove(&cookie);
                let pong = refused.map_or(Ok(rtt), Err);
                self.after.chores.extend(asker.map(|asker| Chore::Pong(asker, Some(pong))));
            }
            Event::IdentityConflict { peer, whose } => {
                todo.suspected |= whose == Conflict::Moved;
                self.conflict(peer, whose);
            }
            Event::Stopped => {
                self.log(Log::WriteFailed);
                self.stop(Phase::Stopped);
                todo.settled = true;
                todo.readable = true;
            }
        }
    }

    /// `count` messages to a peer, from `key` on, have their outcome.
    fn settled(&mut self, now: Now, (key, count): (MessageKey, u32), peer: NodeId, settled: Settled) {
        if matches!(settled.outcome, Outcome::Delivered | Outcome::Processed { .. }) {
            let since = self.receipts.since(key);
            self.after.took.extend(since.map(|since| (now.mono.since(since), count)));
        }
        self.tell_ended(peer, count, settled);
        self.receipts.settle(key, count, settled, |waker| self.after.wake(Some(waker)));
        if !self.writers.is_empty() {
            self.after.wake(self.writers.remove(&key).flatten());
        }
    }

    /// Handles a report that two nodes have one identity.
    fn conflict(&mut self, peer: NodeId, whose: Conflict) {
        self.log(match whose {
            Conflict::Theirs => Log::TheirsTwice(peer),
            Conflict::Ours => Log::OursTwice(peer),
            Conflict::Moved => Log::OursMoved(peer),
        });
    }

    pub(crate) fn log(&mut self, log: Log) {
        self.after.chores.push(Chore::Log(Arc::clone(&self.name), log));
    }

    // ---- sending

    // ---- receiving

    /// Continues to read a streamed body, or stores the waker.
    pub(crate) fn read(&mut self, now: Now, key: DeliveryKey, waker: &mut Option<Waker>) -> BodyRead {
        let read = self.core.body_read(now, key);
        let old = match waker.take_if(|_| read == BodyRead::Pending) {
            Some(waker) => self.readers.insert(key, waker),
            None => self.readers.remove(&key),
        };
        self.after.forget(old);
        read
    }

    pub(crate) fn done(&mut self, now: Now, key: DeliveryKey) -> bool {
        self.phase != Phase::Broken && self.core.done(now, key) && self.write_journal(now)
    }

    /// Like [`Self::done`], without a verdict of the application.
    pub(crate) fn taken(&mut self, now: Now, key: DeliveryKey) -> bool {
        self.phase != Phase::Broken && self.core.taken(now, key) && self.write_journal(now)
    }

    /// Ends a message with the verdict of the application.
    pub(crate) fn judge(&mut self, now: Now, key: DeliveryKey, verdict: Verdict) -> bool {
        let judged = self.phase < Phase::Stopped && self.core.judge(now, key, verdict);
        judged && self.write_journal(now)
    }

    /// Hands a message out again at `at`.
    pub(crate) fn release_at(&mut self, key: DeliveryKey, at: Mono) -> Option<Waker> {
        if self.phase < Phase::Stopped {
            self.core.release_at(key, at);
        }
        self.leave_readable(key)
    }

    /// The reason that the receiving application gave for a message.
    pub(crate) fn reason(&self, id: &MessageId) -> Option<Arc<str>> {
        self.reasons.of(id)
    }

    pub(crate) fn release(&mut self, now: Now, key: DeliveryKey) -> Option<Waker> {
        if self.phase < Phase::Stopped {
            self.core.release(now, key);
        }
        self.leave_readable(key)
    }

    /// Removes the reader of a streamed body. Returns its waker.
    pub(crate) fn leave_readable(&mut self, key: DeliveryKey) -> Option<Waker> {
        self.readers.remove(&key)
    }

    /// Puts the next message of a route into `place`. Returns whether more messages wait.
    pub(crate) fn take(
        &mut self,
        now: Now,
        route: Option<&Arc<Route>>,
        guarded: bool,
        place: &mut Option<Incoming>,
    ) -> bool {
        if !guarded && self.is_forced() {
            return self.take_when_safe(now, route, place);
        }
        self.take_now(now, route, guarded, place)
    }

    fn take_now(
        &mut self,
        now: Now,
        route: Option<&Arc<Route>>,
        guarded: bool,
        place: &mut Option<Incoming>,
    ) -> bool {
        if self.phase == Phase::Broken {
            return false;
        }
        if (route.is_some() || !self.routes.is_empty())
            && let Some(more) = self.take_routed(now, route, guarded, place)
        {
            return more;
        }
        if route.is_some() || !self.routes.are_none() {
            return false;
        }
        *place = if guarded { self.core.accept(now) } else { self.core.recv(now) };
        if !self.write_journal(now) {
            *place = None;
        }
        self.core.has_waiting()
    }

    /// Like [`Self::take`], for messages that the core has already handed out.
    fn take_routed(
        &mut self,
        now: Now,
        route: Option<&Arc<Route>>,
        guarded: bool,
        place: &mut Option<Incoming>,
    ) -> Option<bool> {
        loop {
            let (incoming, more) = self.routes.next(route);
            let incoming = incoming?;
            // If this fails, the message is not delivered: its record is gone.
            if guarded || is_streamed(&incoming) || self.taken(now, incoming.key) {
                *place = Some(incoming);
                return Some(more || self.more_waits(route));
            }
        }
    }

    fn more_waits(&self, route: Option<&Arc<Route>>) -> bool {
        route.is_none() && self.routes.are_none() && self.core.has_waiting()
    }

    /// Takes up to `most` messages of a route at once. Returns whether more wait.
    pub(crate) fn take_many(
        &mut self,
        now: Now,
        route: Option<&Arc<Route>>,
        most: usize,
        taken: &mut Taken,
    ) -> bool {
        if self.is_forced() {
            return self.take_many_when_safe(now, route, most, taken);
        }
        let (mut left, mut more) = (most, false);
        if route.is_some() || !self.routes.is_empty() {
            let mut incoming = None;
            while left > 0 {
                more = self.take(now, route, false, &mut incoming);
                let Some(incoming) = incoming.take() else { break };
                taken.singles.push(incoming);
                left -= 1;
            }
            return more;
        }
        while left > 0
            && self.phase != Phase::Broken
            && let Some(run) = self.core.recv_run(now, left)
        {
            left -= run.len();
            taken.runs.push(run);
        }
        if !self.write_journal(now) {
            taken.runs.clear();
        }
        self.core.has_waiting()
    }

    /// Adds a receiver with a filter.
    pub(crate) fn add_route(&mut self, now: Now, route: Arc<Route>) {
        if self.phase < Phase::Stopped {
            self.routes.add(route);
            self.after.todo.readable |= self.routes.sort(&mut self.core, now, &mut self.after);
        }
    }

    /// Removes a receiver with a filter. The messages that wait for it go to other receivers.
    pub(crate) fn remove_route(&mut self, route: &Arc<Route>) {
        self.after.todo.readable |= self.routes.remove(route, &mut self.after);
        self.held.leave(route);
        self.after.todo.readable |= !self.held.is_empty();
    }

    /// Whether the node refuses new work.
    pub(crate) fn is_ending(&self) -> bool {
        self.phase >= Phase::Closing
    }

    /// Wakes the receivers, so that they notice that the node is ending.
    pub(crate) fn wake_routes(&mut self) {
        self.routes.wake_all(&mut self.after);
        self.streams.wake_all(&mut self.after);
        self.after.chores.extend(self.presences.all().map(Chore::All));
    }

    /// Writes the next datagrams to send into `buffer`.
    pub(crate) fn transmit(&mut self, now: Now, segments: usize, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if self.phase == Phase::Broken {
            return None;
        }
        let transmit = self.core.poll_transmit(now, segments, buffer);
        // The datagrams may depend on records of this poll. A poll that returns none may append records too, when it
        // removes a peer that has nothing left to send.
        if self.write_journal(now) { transmit } else { None }
    }

    // ---- life

    pub(crate) fn ping(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
    ) -> Result<(u64, oneshot::Receiver<Pong>), CoreError> {
        if self.phase != Phase::Open {
            return Err(CoreError::Closed);
        }
        let cookie = self.next_ping;
        self.next_ping += 1;
        self.core.ping(now, peer, hints, cookie)?;
        let (asker, answer) = oneshot::channel();
        self.pings.insert(cookie, asker);
        Ok((cookie, answer))
    }

    /// Refuses new work, and goes on with open messages.
    pub(crate) fn close(&mut self, now: Now) {
        if self.phase == Phase::Open {
            self.phase = Phase::Closing;
            self.core.close(now);
            self.calls.draining = true;
            self.calls.end(&mut self.after);
        }
    }

    /// Takes no further calls, and tells callers to try again.
    pub(crate) fn drain(&mut self) {
        self.calls.draining = true;
    }

    /// Takes no further messages, and tells the peers which messages it did not take.
    pub(crate) fn finish(&mut self, now: Now) {
        if self.phase < Phase::Stopped {
            self.core.finish(now);
        }
    }

    /// Whether every reachable peer has been told which messages were not taken.
    pub(crate) fn is_finished(&self) -> bool {
        self.phase >= Phase::Stopped || self.core.is_finished()
    }

    /// Tells the peers that have sent something that this identity ends. Returns after how long to repeat that, or
    /// None if there is no need.
    pub(crate) fn foretell_end(&mut self) -> Option<Duration> {
        if self.phase < Phase::Stopped { self.core.foretell_end() } else { None }
    }

    /// Says goodbye to every peer.
    pub(crate) fn leave_all(&mut self, now: Now) {
        if self.phase < Phase::Stopped {
            self.core.leave_all(now);
        }
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_quiet(&self) -> bool {
        self.phase >= Phase::Stopped || (self.core.is_quiet() && self.held.is_empty())
    }

    pub(crate) fn forget_ping(&mut self, cookie: u64) {
        let asker = self.pings.remove(&cookie);
        self.after.chores.extend(asker.map(|asker| Chore::Pong(asker, None)));
    }

    pub(crate) fn open_messages(&self) -> Vec<OpenMessage> {
        // After a stop every message is settled, even if the core still lists some.
        if self.phase >= Phase::Stopped { Vec::new() } else { self.core.open_messages() }
    }

    /// The open messages to a peer.
    pub(crate) fn open_messages_to(&self, peer: &NodeId) -> Vec<OpenMessage> {
        let mut open = self.open_messages();
        open.retain(|message| message.peer == *peer);
        open
    }

    /// Whether a message to a peer is open, or may be: replies to calls of the peer may count as well.
    pub(crate) fn has_open(&self, peer: &NodeId) -> bool {
        const MANY: usize = 1_024;
        let held = self.core.peer_stats(peer).map_or(0, |stats| stats.queued + stats.in_doubt);
        let stopped = self.phase >= Phase::Stopped;
        !stopped && held > 0 && (held > MANY || !self.open_messages_to(peer).is_empty())
    }

    /// Gives up all open messages to a peer.
    pub(crate) fn abandon_peer(&mut self, now: Now, peer: &NodeId) {
        if self.phase < Phase::Stopped {
            self.core.abandon_peer(now, peer);
        }
    }

    /// Changes which peers are admitted from now on. Returns the application's former function: its destructor is
    /// code of the application, so the caller drops it without the lock.
    pub(crate) fn set_allow(&mut self, now: Now, allow: Allow) -> Option<Arc<Question>> {
        let (policy, question) = allow.into_policy();
        if self.phase < Phase::Stopped {
            self.core.set_policy(policy);
            for id in core::mem::take(&mut self.welcomed) {
                self.core.admit(now, id, false);
            }
        }
        core::mem::replace(&mut self.question, question)
    }

    /// Passes the application's answer to the core, if it comes from the current function.
    pub(crate) fn admit(
        &mut self,
        now: Now,
        (id, remote): (NodeId, SocketAddr),
        asked: Option<&Arc<Question>>,
        yes: bool,
    ) {
        let same = match (asked, &self.question) {
            (Some(asked), Some(question)) => Arc::ptr_eq(asked, question),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.asks.push((id, remote));
            return;
        }
        if yes {
            self.welcomed.insert(id);
        }
        self.core.admit(now, id, yes);
    }

    /// Takes in an address that a name of the peer has led to. The core uses it only if something was sent to the
    /// peer.
    pub(crate) fn learn(&mut self, now: Now, peer: NodeId, hint: SocketAddr) {
        if self.phase < Phase::Stopped {
            self.core.suggest(now, &peer, hint);
        }
    }

    /// Whether `peer` answers none of the messages on their way to it.
    pub(crate) fn is_away(&self, peer: &NodeId) -> bool {
        self.phase < Phase::Stopped && self.core.is_away(peer)
    }

    /// Tells the core that the network under the node has changed.
    pub(crate) fn rebind(&mut self, now: Now) {
        if self.phase < Phase::Stopped {
            self.core.rebind(now);
        }
    }

    /// Ends everything: settles all receipts, and wakes every waiting task. Returns false if the node had already
    /// stopped.
    pub(crate) fn stop(&mut self, phase: Phase) -> bool {
        if self.phase >= Phase::Stopped {
            return false;
        }
        self.phase = phase;
        self.tell_last_words(Self::last_word);
        let open = self.receipts.open_keys();
        for key in &open {
            if let Some(settled) = self.last_word(*key) {
                self.receipts.settle(*key, 1, settled, |waker| self.after.wake(Some(waker)));
            }
        }
        // For the rest no outcome is known: the core is broken, or has settled them without an event.
        let unknown = Settled::without_id(Outcome::Unknown);
        for key in open {
            self.receipts.settle(key, u32::MAX, unknown, |waker| self.after.wake(Some(waker)));
        }
        if let Some(lot) = self.gathering.lot.take() {
            lot.end(0..u32::MAX, unknown, |waker| self.after.wake(Some(waker)));
        }
        let writers = core::mem::take(&mut self.writers).into_values().flatten();
        let readers = core::mem::take(&mut self.readers).into_values();
        self.after.chores.extend(writers.chain(readers).map(Chore::Wake));
        let askers = core::mem::take(&mut self.pings).into_values();
        self.after.chores.extend(askers.map(|asker| Chore::Pong(asker, None)));
        self.calls.end(&mut self.after);
        self.room.turn_away(&mut self.after);
        self.wake_routes();
        true
    }

    /// Ends everything after a panic of the core. Nothing calls the core afterwards.
    pub(crate) fn break_down(&mut self) {
        self.log(Log::CorePanicked);
        self.stop(Phase::Broken);
        self.phase = Phase::Broken;
        self.after.todo.ended = true;
    }

    /// The outcome of a message that is still open when the node ends. None: the core cannot tell.
    fn last_word(&self, key: MessageKey) -> Option<Settled> {
        if self.phase == Phase::Broken {
            return None;
        }
        if let Some(left) = self.left_to_journal(key) {
            return Some(left);
        }
        match self.core.status(key) {
            Status::Queued => Some(Settled::without_id(Outcome::Cancelled)),
            Status::InDoubt { id, late, .. } => {
                Some(Settled { late, ..Settled::with_id(Outcome::Unknown, id) })
            }
            Status::Settled => None,
        }
    }
}

fn is_streamed(incoming: &Incoming) -> bool {
    matches!(incoming.body, IncomingBody::Stream { .. })
}
