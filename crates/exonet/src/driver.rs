//! The task that receives, keeps time, and does what no caller's thread may do: it starts writes to the disk, and
//! asks the application which peers to admit.
//!
//! The driver works in turns. First it receives a limited number of datagrams. It takes the lock once per system
//! call, so that callers can take it in between. If there are more datagrams than the driver has time for, each peer
//! gets an equal share of that time ([`Shares`]). Then the driver handles timers, sends, and handles openings, which
//! get a share of the time too ([`Openings`]). At the end of a turn it sleeps until the socket, the alarm, the end of
//! a write or a caller ([`Shared::work`]) wakes it.
//!
//! If datagrams of a turn have woken a task, the driver sends nothing in that turn. The woken task runs on this
//! thread as soon as the driver sleeps, and its messages take ACK and STATE along: one datagram instead of two. The
//! driver sleeps for this, and does not yield: when one task has yielded and another was woken, tokio wakes a second
//! thread, and that takes longer than a whole round trip on one thread.

mod writer;

use core::net::SocketAddr;
use core::task::Poll;
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use exonet_proto::node::{Arrival, Seat, Work};
use exonet_proto::wire::{self, ChannelIndex};
use exonet_proto::{Mono, NodeId, Now};

use crate::after::shielded;
use crate::allow::Question;
use crate::engine::{AWAKE, Engine, Phase};
use crate::network::Network;
use crate::openings::Openings;
use crate::report::Report;
use crate::shared::{Flushed, Shared};
use crate::shares::Shares;
use crate::socket::{Inbox, Socket};
use crate::state::StateDir;
use crate::timer::Timer;

use writer::Writer;

/// A turn makes at most this many system calls that receive.
const RECEIVE_BURST: usize = 16;

/// After this many datagrams of one system call, the driver checks how long they have taken.
const LOOK_AT_TIME: u32 = 16;

/// If the datagrams of one system call took this long, others have arrived meanwhile.
const LONG: Duration = Duration::from_micros(200);

/// A turn sends at most this many batches.
const SEND_BURST: usize = 8;

/// After this many batches, the driver looks for answers of peers even if tokio has not polled the system: under load
/// tokio polls it only after many turns of tasks.
const LOOK_AFTER: u32 = 4;

/// How long the driver waits for a woken task to send something before the driver itself sends.
const PATIENCE: Duration = Duration::from_millis(1);

/// How often a driver that always has work lets tokio poll the system. In between, the driver goes to the end of the
/// queue of ready tasks: a yield would put it behind all tasks that become ready meanwhile.
const YIELD_EVERY: Duration = Duration::from_millis(1);

pub(crate) struct Driver {
    shared: Arc<Shared>,
    socket: Arc<Socket>,
    shares: Shares<Held>,
    openings: Openings,
    asks: Vec<(NodeId, SocketAddr)>,
    absent: Vec<NodeId>,
    lines: String,
    writer: Writer,
    timer: Arc<Timer>,
    /// Tells when the network may be back. It is set once a peer has been silent, or a connection is wanted.
    network: Option<Network>,
    report: Report,
    /// When the driver last gave tokio the chance to poll the system.
    yielded: Mono,
    /// Whether anything has changed since the driver last slept.
    happened: bool,
    /// Whether datagrams for channels arrived in this turn.
    busy: bool,
    /// Whether datagrams have woken a task in this turn.
    woke: bool,
    /// Whether this turn sends nothing, so that the woken tasks go first.
    patient: bool,
    /// How long the next datagrams may stay in the socket, given those of this turn.
    rest: Duration,
    /// Until then, datagrams that arrive stay in the socket and wake no task.
    rests_until: Option<Mono>,
}

impl Driver {
    pub(crate) fn new(
        shared: Arc<Shared>,
        socket: Arc<Socket>,
        timer: Arc<Timer>,
        store: Option<Arc<StateDir>>,
        sink: Option<Box<dyn io::Write + Send>>,
    ) -> Self {
        Self {
            socket,
            shares: Shares::default(),
            openings: Openings::default(),
            asks: Vec::new(),
            absent: Vec::new(),
            lines: String::new(),
            writer: Writer::new(store),
            timer,
            network: None,
            report: Report::new(&shared.id.short(), sink),
            yielded: Mono(0),
            happened: true,
            busy: false,
            woke: false,
            patient: false,
            rest: Duration::ZERO,
            rests_until: None,
            shared,
        }
    }

    /// Runs until the node has stopped.
    pub(crate) async fn run(self) {
        // Dropped last: the socket and the state are released before the tasks that wait for the end wake.
        let _ended = Ended(Arc::clone(&self.shared));
        self.turns().await;
    }

    async fn turns(mut self) {
        while !self.shared.look(|engine| engine.phase == Phase::Broken) {
            let begun = self.shared.clock().mono();
            self.look_around();
            (self.busy, self.woke) = (false, false);
            let more = self.receive(begun);
            if let Some(meshes) = self.openings.sieve.review(begun) {
                self.socket.sift(meshes);
            }
            // Not in two turns in a row: events may wake tasks again and again that have nothing to send.
            self.patient = self.woke && !self.patient && !more && self.openings.is_empty();
            if self.tick() {
                return self.tell_the_rest().await;
            }
            let flushed = if self.patient { Flushed::Empty } else { self.speak() };
            self.prepare_sleep();
            if more || flushed == Flushed::More || !self.openings.is_empty() {
                self.pass_turn(begun).await;
            } else {
                self.sleep(flushed == Flushed::Blocked).await;
            }
        }
    }

    /// Lets the tasks run that are ready now, and goes on after them. tokio looks only now and then for tasks that
    /// have become ready.
    async fn pass_turn(&mut self, now: Mono) {
        if now.since(self.yielded) >= YIELD_EVERY {
            self.yielded = now;
            tokio::task::yield_now().await;
            return;
        }
        let mut passed = false;
        core::future::poll_fn(|cx| {
            if core::mem::replace(&mut passed, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Sends the datagrams that are ready, and handles openings.
    fn speak(&mut self) -> Flushed {
        let flushed = self.shared.flush(SEND_BURST);
        self.busy |= flushed == Flushed::More;
        self.openings.note_turn(self.shared.clock().mono(), self.busy);
        // Openings get their share of the time, however much there is to send.
        match flushed {
            Flushed::Blocked => Flushed::Blocked,
            Flushed::Empty => self.open(),
            Flushed::More => match self.open() {
                Flushed::Empty => Flushed::More,
                other => other,
            },
        }
    }

    /// Takes over a new socket, and takes in openings that arrived over connections.
    fn look_around(&mut self) {
        for (arrival, opening) in self.shared.carriers.take_openings() {
            self.openings.put(arrival, &opening);
            self.happened = true;
        }
        if self.shared.rebound.swap(false, Ordering::AcqRel)
            && let Some(socket) = self.shared.socket()
        {
            self.socket = socket;
            self.rests_until = None;
            self.openings.sieve.socket_changed();
        }
    }

    /// Receives from the socket, and handles the new datagrams and those that wait. Returns whether there may be
    /// more. `begun` is the start of the turn.
    fn receive(&mut self, begun: Mono) -> bool {
        if self.rests_until.is_some_and(|until| begun < until) {
            return false;
        }
        self.rest = Duration::ZERO;
        let mut inbox = Inbox::take();
        let more = self.receive_into(&mut inbox);
        inbox.give_back();
        self.work_on_waiting(begun);
        let more = more || !self.shares.is_empty();
        // The driver has more work at hand, so it does not wait.
        self.rest_for(begun, if more { Duration::ZERO } else { self.rest });
        more
    }

    /// Leaves arriving datagrams in the socket for the time `rest`: receiving one packet costs as much as
    /// receiving several together ([`exonet_proto::node::Node::may_rest`]).
    fn rest_for(&mut self, now: Mono, rest: Duration) {
        let rests = !rest.is_zero();
        if rests != self.rests_until.is_some()
            && let Err(error) = self.socket.watch(!rests)
        {
            tracing::warn!(%error, "watching the socket");
            // The driver looks at the socket by the clock instead.
            self.rests_until = Some(now + Duration::from_millis(1));
            return;
        }
        self.rests_until = rests.then(|| now + rest);
    }

    /// Returns whether the socket may have more.
    fn receive_into(&mut self, inbox: &mut Inbox) -> bool {
        let mut look = self.shared.sent_since.load(Ordering::Relaxed) >= LOOK_AFTER;
        if look {
            self.shared.sent_since.store(0, Ordering::Relaxed);
        }
        for round in 0..RECEIVE_BURST {
            let more = match inbox.fill(&self.socket, look) {
                Ok(more) => more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.shares.keeps_up();
                    return false;
                }
                Err(error) => {
                    // An ICMP message about an earlier datagram. Anyone can have sent it, so it has no effect.
                    tracing::debug!(%error, "receiving");
                    continue;
                }
            };
            if round > 0 && self.busy && !self.shares.is_pressed() {
                // Sends what the previous round of this loop has produced: under load, waiting gains nothing.
                self.shared.flush(SEND_BURST);
            }
            let (begun, ended) = self.take_in(inbox);
            let long = ended.since(begun) >= LONG;
            self.shares.note(ended, more || long);
            self.happened = true;
            if !more && !long {
                return false;
            }
            look |= long;
        }
        true
    }

    /// Handles the received datagrams, or puts them aside. Returns when it began and when it ended.
    fn take_in(&mut self, inbox: &mut Inbox) -> (Mono, Mono) {
        let Self { openings, shares, busy, shared, rest, .. } = self;
        let (clock, mut span) = (shared.clock(), (Mono(0), Mono(0)));
        self.woke |= pass(shared, |engine, now| {
            let mut run = Run::begin(now.mono);
            let (mut aside, mut count) = (shares.is_pressed(), 0_u32);
            for (arrival, datagram) in inbox.datagrams() {
                if wire::is_strange(datagram) {
                    openings.put(arrival, datagram);
                    continue;
                }
                let channel = wire::channel_of(datagram);
                if channel != run.channel {
                    run = run.end(engine, shares, clock.mono());
                    run.channel = channel;
                    run.seat = channel.and_then(|index| engine.core.seat(index));
                }
                count += 1;
                if !aside && count.is_multiple_of(LOOK_AT_TIME) {
                    aside = shares.takes_long(now.mono, clock.mono());
                }
                *busy = true;
                match run.seat {
                    Some(seat) if aside => {
                        let held = || Held { arrival, datagram: (&*datagram).into() };
                        run.dropped += u64::from(!shares.put(now.mono, seat, datagram.len(), held));
                    }
                    // The datagram belongs to no known peer, so it costs next to nothing.
                    _ => engine.core.handle_datagram(now, arrival, datagram),
                }
            }
            let ended = clock.mono();
            run.end(engine, shares, ended);
            *rest = engine.core.may_rest();
            span = (now.mono, ended);
        });
        span
    }

    /// Handles datagrams that were put aside, for a limited time.
    fn work_on_waiting(&mut self, begun: Mono) {
        if self.shares.is_empty() {
            return;
        }
        let Self { shares, shared, .. } = self;
        let clock = shared.clock();
        self.woke |= pass(shared, |engine, now| {
            let slice = Shares::<Held>::slice(now.mono.since(begun));
            let (until, mut last) = (now.mono + slice, now.mono);
            while last < until
                && let Some((seat, mut held)) = shares.take()
            {
                engine.core.handle_datagram(now, held.arrival, &mut held.datagram);
                let begun = core::mem::replace(&mut last, clock.mono());
                let time = last.since(begun);
                shares.charge(last, seat, time);
                engine.core.note_work(seat, Work::new(time, 0));
            }
        });
        (self.busy, self.happened) = (true, true);
    }

    /// Handles openings for as long as their share allows, and sends the answers.
    fn open(&mut self) -> Flushed {
        if self.openings.is_empty() {
            return Flushed::Empty;
        }
        let allowed = self.openings.allowance(self.busy);
        let clock = self.shared.clock();
        let (begun, mut last) = (clock.mono(), None);
        let mut since = begun;
        while since.since(begun) < allowed
            && let Some((kind, mut opening)) = self.openings.take()
        {
            let (many, dropped) = (self.openings.are_many(), self.openings.take_dropped());
            // The answer leaves at the end of this turn, together with messages of the tasks that the opening wakes.
            pass(&self.shared, |engine, now| {
                engine.core.press(many, dropped);
                engine.core.handle_datagram(now, opening.arrival, &mut opening.datagram);
            });
            let now = clock.mono();
            self.openings.spend(kind, self.busy, now.since(since));
            (since, last) = (now, Some(kind));
        }
        let Some(kind) = last else { return Flushed::Empty };
        self.happened = true;
        let flushed = self.shared.flush(SEND_BURST);
        self.openings.spend(kind, self.busy, clock.mono().since(since));
        flushed
    }

    /// Handles timers, writes, questions to the application, and figures. Returns whether the node has stopped, so
    /// that this was the last tick.
    fn tick(&mut self) -> bool {
        let (asks, absent, report) = (&mut self.asks, &mut self.absent, &mut self.report);
        let (lines, idle, patient) = (&mut self.lines, self.writer.is_idle(), self.patient);
        let writes = report.can_write();
        let ((stopped, batch, figures, dials), _, mut after) = self.shared.step_quietly(|engine, now| {
            engine.armed = AWAKE;
            // If this turn sends, it flushes after the tick.
            engine.left_to_driver &= patient;
            if engine.core.poll_timeout().is_some_and(|due| due <= now.mono) {
                engine.core.handle_timeout(now);
            }
            asks.append(&mut engine.asks);
            absent.append(&mut engine.absent);
            let stopped = engine.phase >= Phase::Stopped;
            let figures = if stopped || report.is_due(now.mono) {
                report.look(now.mono, engine.core.stats(), stopped)
            } else {
                None
            };
            if let (Some(stats), Some(trace)) = (&figures, &mut engine.trace) {
                trace.stats(now, stats);
            }
            if let Some(trace) = engine.trace.as_mut().filter(|_| writes) {
                trace.take(now, lines);
            }
            (stopped, engine.batch.take_if(|_| idle), figures, core::mem::take(&mut engine.dials))
        });
        after.todo.driver = false;
        self.shared.finish(after);
        let dialled = !dials.is_empty();
        dials.into_iter().for_each(|dial| crate::carrier::dial(&self.shared, dial));
        if let Some(stats) = figures {
            self.report.publish(&stats);
        }
        self.report.write(&mut self.lines);
        if let Some(batch) = batch {
            self.writer.begin(&self.shared, batch);
        }
        self.answer();
        if (dialled || !self.absent.is_empty()) && self.network.is_none() {
            // Without such news, the node probes silent peers by its timers alone.
            self.network = Network::watch().ok();
        }
        self.absent.drain(..).for_each(|peer| self.shared.look_again(peer));
        stopped
    }

    /// Writes the last lines of the event trace to the application's sink.
    async fn tell_the_rest(&mut self) {
        self.report.written().await;
        let lines = &mut self.lines;
        self.shared.step_quietly(|engine, now| {
            if let Some(trace) = &mut engine.trace {
                trace.take(now, lines);
            }
        });
        self.report.write(&mut self.lines);
        self.report.written().await;
        // A write in progress still holds the lock of the identity.
        self.writer.stop().await;
        // If this fails, the next life treats the end of this one as a crash.
        if let Some(journal) = self.shared.leave_journal() {
            let closed = tokio::task::spawn_blocking(move || journal.close()).await;
            if let Ok(Err(error)) = closed {
                tracing::warn!(node = %self.shared.id.short(), "{error}");
            }
        }
    }

    /// Asks the application, without the lock, whether to admit peers, and passes its answers to the core. If the
    /// question panics, the driver refuses the peer.
    fn answer(&mut self) {
        if self.asks.is_empty() {
            return;
        }
        let question = self.shared.look(|engine| engine.question.clone());
        for (id, remote) in self.asks.drain(..) {
            let ask =
                |question: &Arc<Question>| shielded("the question of `Allow::ask`", || question(id, remote));
            let yes = question.as_ref().and_then(ask).unwrap_or(false);
            if !yes {
                tracing::debug!(peer = %id.short(), %remote, "refused");
            }
            self.shared.step(|engine, now| engine.admit(now, (id, remote), question.as_ref(), yes));
        }
    }

    /// Sets the alarm. If there is work, makes sure that the driver does not sleep.
    fn prepare_sleep(&mut self) {
        let happened = core::mem::take(&mut self.happened);
        let (timer, report, idle, patient) =
            (&self.timer, &mut self.report, self.writer.is_idle(), self.patient);
        let sieve = self.openings.sieve.wake_at();
        let rested = self.rests_until.unwrap_or(Mono::NEVER);
        let (work, _, mut after) = self.shared.step_quietly(|engine, now| {
            let patience = if patient { now.mono + PATIENCE } else { Mono::NEVER };
            let due = engine.core.poll_timeout().unwrap_or(Mono::NEVER);
            let next = due.min(report.wake_at(happened)).min(sieve).min(patience).min(rested);
            engine.armed = timer.arm(now.mono, next);
            let waits = !engine.asks.is_empty()
                || !engine.absent.is_empty()
                || !engine.dials.is_empty()
                || (idle && engine.batch.is_some());
            // While this task is awake, a caller that leaves work to it does not wake it.
            let left = core::mem::take(&mut engine.left_to_driver) && engine.core.has_ready();
            waits || left || engine.phase >= Phase::Stopped
        });
        after.todo.driver = work;
        self.shared.finish(after);
    }

    async fn sleep(&mut self, blocked: bool) {
        let Self { shared, socket, timer, writer, happened, rests_until, report, network, .. } = self;
        let written = tokio::select! {
            biased;
            () = shared.work.notified() => {
                *happened = true;
                None
            }
            _ = socket.readable(), if rests_until.is_none() => None,
            _ = socket.writable(), if blocked => None,
            () = timer.ring() => None,
            () = report.written(), if !report.can_write() => None,
            written = writer.end(), if !writer.is_idle() => Some(written),
            news = changed(network) => {
                if news {
                    shared.step(|engine, now| engine.core.hasten(now));
                    shared.carriers.hasten.notify_waiters();
                }
                *happened = true;
                None
            }
        };
        match written {
            None => {}
            Some(Ok(through)) => shared.step(|engine, now| engine.core.handle_persisted(now, through)),
            Some(Err(error)) => {
                tracing::error!(node = %shared.id.short(), %error, "cannot write the state: the node stops");
                shared.step(|engine, now| engine.core.handle_persist_failed(now));
            }
        }
    }
}

/// Waits for a change of the network. Returns false if the system gives no more news.
async fn changed(network: &mut Option<Network>) -> bool {
    let Some(news) = network else { return core::future::pending().await };
    let changed = news.changed().await.is_ok();
    network.take_if(|_| !changed);
    changed
}

/// A datagram that waits for its peer's share of the time.
struct Held {
    arrival: Arrival,
    datagram: Box<[u8]>,
}

/// Datagrams of one channel that arrived one after the other. The driver measures their time as a whole.
struct Run {
    channel: Option<ChannelIndex>,
    seat: Option<Seat>,
    begun: Mono,
    dropped: u64,
}

impl Run {
    const fn begin(now: Mono) -> Self {
        Self { channel: None, seat: None, begun: now, dropped: 0 }
    }

    /// Charges the peer for the run, and begins the next.
    fn end(self, engine: &mut Engine, shares: &mut Shares<Held>, now: Mono) -> Self {
        if let Some(seat) = self.seat {
            let work = Work::new(now.since(self.begun), self.dropped);
            shares.charge(now, seat, work.time);
            engine.core.note_work(seat, work);
        }
        Self::begin(now)
    }
}

/// Handles datagrams. Returns whether they have woken a task.
fn pass(shared: &Shared, f: impl FnOnce(&mut Engine, Now)) -> bool {
    let ((), _, mut after) = shared.step_quietly(|engine, now| {
        engine.armed = AWAKE;
        f(engine, now);
    });
    let woke = after.todo.readable || after.todo.called || after.wakes();
    // The caller is the driver, so nobody needs to wake it.
    after.todo.driver = false;
    shared.finish(after);
    woke
}

struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended.close();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Nothing receives any more, so no open message can be settled. After an orderly end, this has no effect.
        self.shared.stop(Some("the runtime ended"));
        // Another process may open the journal once the identity is released. If this fails, that process treats the
        // end of this one as a crash.
        if let Some(journal) = self.shared.leave_journal() {
            let _ = journal.close();
        }
        self.shared.hang_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Allow;
    use exonet_proto::node::{Arrival, Outgoing};

    #[tokio::test]
    async fn openings_have_their_share_however_much_there_is_to_send() {
        let node = crate::Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        // From here on the test awaits nothing, so the node's own driver does not run.
        let shared = Arc::clone(node.shared());
        let socket = shared.socket().unwrap();
        let timer = Arc::new(Timer::new().unwrap());
        let mut driver = Driver::new(Arc::clone(&shared), socket, timer, None, None);
        let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
        shared.step_quietly(|engine, now| {
            for peer in (2..).take(SEND_BURST * 3) {
                engine.core.send(now, NodeId([peer; 32]), &[nobody], Outgoing::default()).unwrap();
            }
        });
        let arrival = Arrival { remote: nobody, local_ip: None, ecn: 0, pipe: None };
        driver.openings.put(arrival, &[0x11; wire::MIN_OPENING]);
        assert!(driver.speak() == Flushed::More);
        assert!(driver.openings.is_empty());
    }

    #[tokio::test]
    async fn a_driver_that_is_behind_lets_datagrams_wait_and_says_what_became_of_them() {
        let build = || crate::Node::builder(Allow::anyone()).bind("127.0.0.1:0").build();
        let (node, friend) = (build().await.unwrap(), build().await.unwrap());
        let receipt = friend.peer(node.peer_addr()).send("1").await.unwrap();
        node.recv().await.unwrap().ack().unwrap();
        receipt.await;
        // From here on the test awaits nothing, so the nodes' own drivers do not run.
        let shared = Arc::clone(node.shared());
        let timer = Arc::new(Timer::new().unwrap());
        let socket = shared.socket().unwrap();
        let mut driver = Driver::new(Arc::clone(&shared), socket, timer, None, None);
        let work = || node.peer(friend.id()).stats().unwrap().work;
        let (before, mut inbox) = (work(), Inbox::take());
        let mut receive = |driver: &mut Driver, text: &'static str| {
            drop(friend.peer(node.peer_addr()).try_send(text).unwrap());
            friend.shared().flush(SEND_BURST);
            shared.sent_since.store(LOOK_AFTER, Ordering::Relaxed);
            driver.receive_into(&mut inbox);
        };
        driver.shares.press(shared.clock().mono());
        receive(&mut driver, "2");
        assert!(shared.take(None, false).unwrap().is_none() && !driver.shares.is_empty());
        // The driver drops datagrams of a peer whose queue is full.
        let (mut waiting, mut its) = (Vec::new(), None);
        while let Some((seat, held)) = driver.shares.take() {
            waiting.push(held);
            its = Some(seat);
        }
        let (now, seat, room) = (shared.clock().mono(), its.unwrap(), Shares::<Held>::room(waiting.len()));
        for (i, held) in waiting.into_iter().enumerate() {
            assert!(driver.shares.put(now, seat, if i == 0 { room } else { 0 }, || held));
        }
        receive(&mut driver, "3");
        assert!(work().dropped > before.dropped && node.stats().share_dropped == work().dropped);
        driver.work_on_waiting(now);
        assert!(driver.shares.is_empty() && shared.take(None, false).unwrap().is_some());
        assert!(work().time > before.time);
    }
}
