//! The channel to a peer: epochs of keys that share one path. Disposable: it holds no promise.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use crate::channel::congestion::{Bounded, CongestionControl, Cubic, Exo, Fixed};
use crate::channel::mtu::BASE;
use crate::channel::path::{Path, PathAddr};
use crate::channel::{Pipe, Recovery, Roaming, recovery};
use crate::config::{Config, CongestionChoice};
use crate::opening::answer::Held;
use crate::opening::initiate::Opening;
use crate::opening::lives::Lives;
use crate::peer::dialling::Dialling;
use crate::peer::epoch::{Epoch, Pending};
use crate::peer::piece::Cuts;
use crate::time::Mono;
use crate::wire::ChannelIndex;

/// Pings of the application that wait to leave.
pub(crate) const MAX_PINGS: usize = 64;
/// How many packets at the end of a burst may have too little behind them to reveal a loss soon.
const MAX_BURST: usize = 24;
/// A queue is long if it holds this many congestion windows of messages.
const LONG_QUEUE: u64 = 4;
/// The part of a round trip for which ACK and STATE may wait for data.
const RIDE_SHARE: u32 = 4;
/// The most packets that wait for their copies. Further packets get none.
const MAX_HEDGES: usize = 4_096;
/// Answers to path challenges that wait to leave.
pub(crate) const MAX_RESPONSES: usize = 4;
/// Openings of one peer that are answered and not confirmed.
pub(crate) const MAX_PENDING: usize = 4;
/// The silence after which an opening leaves beside the probes: this many probe timeouts, since answers may be late, and no less
/// than this time. On a short path a peer that is merely busy is late by many timeouts, and has no time for handshakes. A peer
/// that restarts is usually away for longer, and the opening, which is repeated, finds it. The timeouts that have passed tell
/// nothing: each packet that leaves postpones them.
const REOPEN_PTOS: u32 = 4;
const REOPEN_SILENCE: Duration = Duration::from_secs(1);
/// Where a connection may be opened in place of a silent path, a shorter silence is enough: datagrams may not get through, and an
/// opening costs little in comparison.
const DIAL_PTOS: u32 = 3;
const DIAL_SILENCE: Duration = Duration::from_millis(500);
/// A connection loses nothing, but what waits in it may be late. So the node waits longer before it gives a connection up.
const PIPE_SILENCE: Duration = Duration::from_secs(3);
/// The largest packet on a connection: what waits behind a packet should not wait for long.
const MAX_PIPED: u16 = 16_000;
/// On a path with random loss, requests are repeated after this many probe timeouts at the latest.
const PATIENCE: u32 = 4;
/// The least idle timeout that a peer may impose: each idle end costs a handshake when there is something to send again.
const MIN_IDLE: Duration = Duration::from_secs(1);

/// The channel that carries bytes to a peer and back.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) recovery: Recovery,
    pub(crate) roaming: Option<Roaming>,
    /// Packets are sealed under these keys.
    pub(crate) current: Option<Box<Epoch>>,
    /// Packets are still opened under these keys until then.
    pub(crate) previous: Option<(Box<Epoch>, Mono)>,
    /// Epochs that were answered and that no data packet has confirmed.
    pub(crate) pending: Vec<Pending>,
    /// Openings that will be answered in a moment.
    pub(crate) held: Vec<Held>,
    /// The connection to the peer, if this node opens one.
    pub(crate) dialling: Dialling,
    /// The opening that this node began and that is not answered.
    pub(crate) opening: Option<Box<Opening>>,
    /// The peer has never proven that it is there: until this time, the node holds what the peer asked for.
    pub(crate) tentative: Option<Mono>,
    /// The peer's processes.
    pub(crate) lives: Lives,
    pub(crate) pings: VecDeque<u64>,
    /// PINGs of the application that left and are neither answered nor lost.
    pub(crate) pinging: u32,
    pub(crate) responses: VecDeque<(PathAddr, [u8; 8])>,
    /// Packets to send regardless of the window.
    pub(crate) probes: u32,
    /// The latest packets with messages that left since the queue was last empty. With each: whether it carries something that
    /// was lost before.
    burst: VecDeque<(ChannelIndex, u64, bool)>,
    /// Packets that will get a copy, by the time of the copy.
    pub(crate) hedges: VecDeque<(Mono, ChannelIndex, u64)>,
    /// The next packets are copies of these packets of the current epoch.
    pub(crate) copies: VecDeque<u64>,
    /// An ack-eliciting packet has to show the peer that this node has the new keys, or still lives.
    pub(crate) confirm: bool,
    /// The peer was told that the channel ends.
    pub(crate) closed: bool,
    /// A new epoch is wanted though there is one.
    pub(crate) reopen: bool,
    /// The peer's policy has refused an opening: messages in doubt wait until then for the next opening.
    pub(crate) refused_until: Mono,
    /// The latest ACK and STATE also go to the address on trial.
    pub(crate) mirror_due: bool,
    /// The keepalive interval of this peer, in place of the node's.
    pub(crate) keepalive: Option<Duration>,
    pub(crate) pace_at: Mono,
    /// Since the queue was last empty, the window or pacing has held something up: the path bounds the rate.
    pub(crate) held_up: bool,
    /// ACK and STATE that are due wait until then for data that is about to leave. Zero: they do not wait.
    pub(crate) ride_until: Mono,
    pub(crate) heard_at: Mono,
    /// When this node last sent something that asks for an answer.
    pub(crate) spoke_at: Mono,
    /// When it first did so since it last heard the peer.
    asked_at: Mono,
    /// When this node last found that the peer had been silent for too long.
    doubted_at: Mono,
    /// The application was told that the peer is away, and has not been told that it is back.
    away: bool,
    /// When the channel last served the halves, the application or a keepalive, at either end.
    pub(crate) used_at: Mono,
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    /// Bytes of authentic packets that came, and of packets sent.
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// The largest datagram that the peer takes.
    peer_takes: u16,
    /// The largest datagram that is tried on the path.
    datagram_cap: u16,
}

impl Link {
    pub(crate) fn new(now: Mono, config: &Config) -> Self {
        Self {
            recovery: fresh_recovery(now, config, config.max_datagram),
            roaming: None,
            current: None,
            previous: None,
            pending: Vec::new(),
            held: Vec::new(),
            dialling: Dialling::default(),
            opening: None,
            tentative: None,
            lives: Lives::default(),
            pings: VecDeque::new(),
            pinging: 0,
            responses: VecDeque::new(),
            probes: 0,
            burst: VecDeque::new(),
            hedges: VecDeque::new(),
            copies: VecDeque::new(),
            confirm: false,
            closed: false,
            reopen: false,
            refused_until: Mono(0),
            mirror_due: false,
            keepalive: None,
            pace_at: Mono::NEVER,
            held_up: false,
            ride_until: Mono(0),
            heard_at: now,
            spoke_at: now,
            doubted_at: Mono(0),
            away: false,
            asked_at: now,
            used_at: now,
            packets_sent: 0,
            packets_lost: 0,
            bytes_in: 0,
            bytes_out: 0,
            peer_takes: u16::MAX,
            datagram_cap: config.max_datagram,
        }
    }

    /// The peer is on a path of which nothing is known.
    pub(crate) fn on_path_change(&mut self, now: Mono, config: &Config) {
        self.datagram_cap = self.largest_datagram(config);
        self.recovery.set_reliable(self.pipe().is_some());
        self.recovery.on_path_change(now, self.datagram_cap, controller(config));
        take_policy(&mut self.recovery, config);
    }

    /// The peer takes datagrams of at most this size. `fresh`: nothing is known of the path yet.
    pub(crate) fn cap_datagrams(&mut self, now: Mono, config: &Config, peer: u64, fresh: bool) {
        self.peer_takes = u16::try_from(peer).unwrap_or(u16::MAX);
        let cap = self.largest_datagram(config);
        if cap != self.datagram_cap || fresh {
            self.datagram_cap = cap;
            if cap < self.recovery.datagram_size() || !self.recovery.rtt().is_measured() {
                self.on_path_change(now, config);
            }
        }
    }

    /// Which messages are cut to fill packets, if `bytes` are queued or in doubt. Each part may be lost, and costs time to
    /// handle. So no message is cut while the path takes everything at once. On a path that loses packets, calls and replies are
    /// not cut, since an application waits for them. Other messages are cut only if the queue is so long that they wait for
    /// longer than a repair takes.
    pub(crate) fn cuts(&self, bytes: u64) -> Option<Cuts> {
        let long = self.recovery.congestion().window().saturating_mul(LONG_QUEUE);
        match self.recovery.is_lossy() {
            _ if !self.fills() => None,
            false => Some(Cuts::All),
            true => (bytes >= long).then_some(Cuts::Plain),
        }
    }

    /// Whether messages have to wait for the path, so that they may be cut to fill packets.
    pub(crate) fn fills(&self) -> bool {
        let fast = self.recovery.is_fast();
        self.held_up && !fast
    }

    fn largest_datagram(&self, config: &Config) -> u16 {
        let remote = self.roaming.as_ref().map(|roaming| roaming.active().addr().remote.ip());
        let cap = remote.map_or(config.max_datagram, |ip| config.datagrams_to(ip)).min(self.peer_takes);
        if self.pipe().is_some() { cap.min(MAX_PIPED) } else { cap }.max(BASE)
    }

    /// The connection that packets for the peer go to. None: they go as datagrams.
    pub(crate) fn pipe(&self) -> Option<Pipe> {
        self.roaming.as_ref()?.active().addr().pipe
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.current.is_some()
    }

    /// Whether an opening of the peer was answered, or is about to be.
    pub(crate) fn is_answering(&self) -> bool {
        !self.pending.is_empty() || !self.held.is_empty()
    }

    /// Whether anything authentic has ever come from the peer: at least an opening.
    pub(crate) fn has_heard(&self) -> bool {
        self.lives.is_known() || self.is_answering()
    }

    /// Whether there are no keys, and none under way.
    pub(crate) fn is_gone(&self) -> bool {
        self.current.is_none()
            && self.previous.is_none()
            && self.pending.is_empty()
            && self.held.is_empty()
            && self.opening.is_none()
            && self.pings.is_empty()
    }

    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        self.current.as_ref().and(self.roaming.as_ref()).map(|roaming| roaming.active().addr().remote)
    }

    /// Where the peer was proven to be. At any other address it gets only what its own packets allow, and no openings.
    pub(crate) fn proven(&self) -> Option<PathAddr> {
        let active = self.roaming.as_ref().map(Roaming::active);
        active.filter(|path| path.is_validated()).map(Path::addr)
    }

    pub(crate) fn pto(&self) -> Duration {
        self.recovery.pto_interval()
    }

    /// The round trip at which copies of an opening leave, if `messages` wait for a channel. Beside a channel, copies are not
    /// hurried.
    pub(crate) fn opens_eagerly(&self, messages: bool) -> Option<Duration> {
        let rtt = self.recovery.rtt();
        let round = if rtt.is_measured() { self.pto() } else { rtt.smoothed() };
        (messages && !self.is_connected()).then_some(round)
    }

    /// The longest interval that repeated requests back off to, if it is shorter than usual.
    pub(crate) fn patience(&self) -> Duration {
        if self.recovery.is_random() { self.pto() * PATIENCE } else { Duration::MAX }
    }

    /// The epoch that packets with this index belong to.
    pub(crate) fn epoch_mut(&mut self, index: ChannelIndex) -> Option<&mut Epoch> {
        let current = self.current.as_deref_mut();
        let previous = self.previous.as_mut().map(|(epoch, _)| &mut **epoch);
        let pending = self.pending.iter_mut().map(|pending| &mut pending.epoch);
        current.into_iter().chain(previous).chain(pending).find(|epoch| epoch.index == index)
    }

    /// Something leaves that asks for an answer. Repeating it into silence does not keep a channel alive.
    pub(crate) fn spoke(&mut self, now: Mono) {
        self.spoke_at = now;
        if self.asked_at <= self.heard_at {
            self.asked_at = now;
        }
    }

    /// A packet with messages leaves. `again`: some of them were lost before.
    pub(crate) fn note_lone(&mut self, index: ChannelIndex, number: u64, again: bool) {
        if self.burst.len() == MAX_BURST {
            self.burst.pop_front();
        }
        self.burst.push_back((index, number, again));
    }

    /// Nothing is left to send: the last packets, which have too little behind them, may get copies.
    pub(crate) fn hedge(&mut self, now: Mono) {
        for (index, number, again) in self.burst.drain(..) {
            if self.hedges.len() < MAX_HEDGES
                && let Some(wait) = self.recovery.hedge(now, again)
            {
                self.hedges.push_back((now + wait, index, number));
            }
        }
    }

    /// Queues a ping. False: too many wait already.
    pub(crate) fn ping(&mut self, cookie: u64) -> bool {
        if self.pings.len() < MAX_PINGS {
            self.pings.push_back(cookie);
            return true;
        }
        false
    }

    pub(crate) fn respond(&mut self, to: PathAddr, data: [u8; 8]) {
        if self.responses.len() < MAX_RESPONSES {
            self.responses.push_back((to, data));
        }
    }

    /// The network may have changed: opens anew at once, beside the present channel.
    pub(crate) fn hurry(&mut self, now: Mono) {
        self.reopen |= self.current.is_some();
        if let Some(opening) = self.opening.as_mut() {
            opening.hurry(now);
        }
    }

    /// When the peer will have been silent for too long, if it answers nothing of what is under way. Something is under way if
    /// there is a probe timeout, `pto`.
    fn doubt_at(&self, pto: Option<Mono>) -> Mono {
        let reliable = self.recovery.is_reliable();
        let asked = self.opening.is_none() && (pto.is_some() || reliable && self.awaits_ack());
        let (least, ptos) = match reliable {
            true => (PIPE_SILENCE, REOPEN_PTOS),
            false if self.dialling.falls_back => (DIAL_SILENCE, DIAL_PTOS),
            false => (REOPEN_SILENCE, REOPEN_PTOS),
        };
        let patience = least.max(self.pto().saturating_mul(ptos));
        let since = self.heard_at.max(self.asked_at).max(self.doubted_at);
        if asked { since + patience } else { Mono::NEVER }
    }

    /// The connection that this node dialled, and when it will have brought nothing for too long, if the peer owes something
    /// there.
    pub(crate) fn numb_at(&self) -> Option<(Pipe, Mono)> {
        let (pipe, since) = self.numb_since()?;
        let patience = PIPE_SILENCE.max(self.pto().saturating_mul(REOPEN_PTOS));
        Some((pipe, since + patience))
    }

    /// The same connection, and since when it has brought nothing.
    pub(crate) fn numb_since(&self) -> Option<(Pipe, Mono)> {
        let dialling = &self.dialling;
        let pipe = self.pipe().or(dialling.pipe).filter(|_| dialling.may)?;
        let opening = self.opening.as_ref().filter(|_| !dialling.is_trial());
        let begun = opening.map_or(Mono(0), |opening| opening.begun);
        let waits = opening.is_some() || self.pipe().is_some() && self.awaits_ack();
        let since = self.heard_at.max(self.asked_at).max(dialling.since).max(begun);
        waits.then_some((pipe, since))
    }

    /// Whether the silence calls for a new opening beside the probes, if this node needs the channel. True once, and again after
    /// another such silence.
    pub(crate) fn take_doubt(&mut self, now: Mono) -> bool {
        let doubts = self.doubt_at(self.pto_at()) <= now;
        if doubts {
            self.doubted_at = now;
        }
        doubts
    }

    /// Whether openings go unanswered for too long.
    pub(crate) fn is_out_of_reach(&self, now: Mono) -> bool {
        self.asked_at > self.heard_at && now.since(self.asked_at) >= REOPEN_SILENCE
    }

    /// Since when the peer has left everything unanswered that asks for an answer.
    pub(crate) fn silent_since(&self) -> Option<Mono> {
        (self.asked_at > self.heard_at).then_some(self.asked_at)
    }

    /// Whether any part of the channel uses, or may use, the connection `pipe`.
    pub(crate) fn uses_pipe(&self, pipe: Pipe) -> bool {
        let pipe = Some(pipe);
        let paths = self.roaming.iter().flat_map(|roaming| [Some(roaming.active().addr()), roaming.mirror()]);
        paths.flatten().any(|path| path.pipe == pipe)
            || self.pending.iter().any(|pending| pending.answered.1 == pipe)
            || self.held.iter().any(|held| held.arrival.pipe == pipe)
            || self.opening.is_some() && self.dialling.pipe == pipe
    }

    /// The peer is silent for too long. Returns when it was last heard, if the application has not been told yet.
    pub(crate) fn goes_away(&mut self) -> Option<Mono> {
        let told = core::mem::replace(&mut self.away, true);
        (!told).then_some(self.heard_at)
    }

    /// The application was told that the peer is away.
    pub(crate) const fn is_away(&self) -> bool {
        self.away
    }

    /// The peer is heard. True: the application had been told that it is away.
    pub(crate) fn hear(&mut self, now: Mono) -> bool {
        self.heard_at = now;
        core::mem::take(&mut self.away)
    }

    /// When to renew the keys: the side that began them goes first. Unused keys are not renewed, since that would keep the
    /// channel from ever being idle.
    pub(crate) fn rekey_at(&self, config: &Config) -> Mono {
        let free = self.opening.is_none() && !self.reopen;
        let Some(epoch) = self.current.as_ref().filter(|epoch| free && self.used_at > epoch.born) else {
            return Mono::NEVER;
        };
        let patience = if epoch.initiator { config.rekey_after } else { config.rekey_after * 5 / 4 };
        epoch.born + patience
    }

    /// When the channel is dropped for want of use.
    pub(crate) fn idle_at(&self, config: &Config) -> Mono {
        if self.current.is_none() && self.previous.is_none() {
            return Mono::NEVER;
        }
        self.heard_at.max(self.asked_at) + self.idle_timeout(config)
    }

    /// The shorter of the idle timeouts of both ends: the end that drops first drops for both.
    fn idle_timeout(&self, config: &Config) -> Duration {
        let theirs = self.current.as_ref().map(|epoch| epoch.params.idle_timeout);
        let Some(theirs) = theirs.filter(|theirs| !theirs.is_zero()) else { return config.idle_timeout };
        theirs.max(MIN_IDLE).min(config.idle_timeout)
    }

    /// The keepalive interval, if any.
    fn keepalive(&self, config: &Config) -> Option<Duration> {
        self.keepalive.or(config.keepalive)
    }

    /// Whether the channel is of use even while there is nothing to send.
    pub(crate) fn is_kept(&self, config: &Config) -> bool {
        let (pinging, alive) = (self.pinging > 0, self.keepalive(config).is_some());
        pinging || alive
    }

    /// When a keepalive is due.
    pub(crate) fn keepalive_at(&self, config: &Config) -> Mono {
        match self.keepalive(config) {
            Some(every) if self.current.is_some() && !self.confirm => {
                self.heard_at.max(self.spoke_at) + every
            }
            _ => Mono::NEVER,
        }
    }

    pub(crate) fn deadline(&self, config: &Config) -> Mono {
        let pto = self.pto_at();
        let opening = self.opening.as_ref().map(|opening| opening.next_at());
        let pending = self.pending.iter().map(|pending| pending.expires).min();
        let held = self.held.iter().map(|held| held.until).min();
        let previous = self.previous.as_ref().map(|(_, until)| *until);
        let roaming = self.roaming.as_ref().and_then(Roaming::timeout);
        let trial = self.dialling.deadline(self.opening.is_none() && self.pipe().is_some());
        let numb = self.numb_at().map(|(_, at)| at);
        let timers = [opening, pending, held, previous, roaming, pto, trial, numb, self.tentative]
            .into_iter()
            .flatten();
        let epochs = self.epochs().flat_map(|epoch| {
            [epoch.sent.loss_time(), epoch.received.ack_due().map(|at| at.max(self.ride_until))]
        });
        let least = timers.chain(epochs.flatten()).min().unwrap_or(Mono::NEVER);
        least
            .min(self.pace_at)
            .min(self.doubt_at(pto))
            .min(self.hedges.front().map_or(Mono::NEVER, |(at, ..)| *at))
            .min(self.rekey_at(config))
            .min(self.idle_at(config))
            .min(self.keepalive_at(config))
            .min(if self.refused_until > Mono(0) { self.refused_until } else { Mono::NEVER })
    }

    /// Whether something is under way that the peer should acknowledge.
    fn awaits_ack(&self) -> bool {
        self.recovery.is_asking() && self.epochs().any(|epoch| !epoch.sent.is_settled())
    }

    pub(crate) fn pto_at(&self) -> Option<Mono> {
        let unsettled = self.epochs().any(|epoch| !epoch.sent.is_settled());
        unsettled.then(|| self.recovery.pto_at()).flatten()
    }

    /// The epochs that may have packets under way.
    pub(crate) fn epochs(&self) -> impl Iterator<Item = &Epoch> {
        self.current.as_deref().into_iter().chain(self.previous.as_ref().map(|(epoch, _)| &**epoch))
    }

    /// Whether ACK and STATE that are due wait for data that may leave at `at` at the earliest. On a slow link, a separate packet
    /// for every two packets of the peer would take much of the capacity from the data.
    pub(crate) fn claims_may_ride(&mut self, now: Mono, at: Mono) -> bool {
        let rtt = self.recovery.rtt();
        if self.ride_until == Mono(0) && rtt.is_measured() {
            self.ride_until = now + rtt.smoothed() / RIDE_SHARE;
        }
        now < self.ride_until && at <= self.ride_until
    }

    /// Whether nothing of what is under way is acknowledged though it should be: the peer may be gone.
    pub(crate) fn is_unheard(&self, now: Mono) -> bool {
        self.current.as_ref().is_some_and(|epoch| self.recovery.is_unheard(now, &epoch.sent))
    }

    /// Whether an acknowledgement is due in either epoch.
    pub(crate) fn ack_due(&self, now: Mono) -> bool {
        self.epochs().any(|epoch| epoch.received.ack_due().is_some_and(|at| at <= now))
    }
}

fn controller(config: &Config) -> Box<dyn CongestionControl> {
    if let Some(own) = &config.parts.congestion {
        return Box::new(Bounded::new(own.make(), BASE));
    }
    match config.congestion {
        CongestionChoice::Exo => Box::new(Exo::new(BASE)),
        CongestionChoice::Cubic => Box::new(Cubic::new(BASE)),
        CongestionChoice::Fixed(window) => {
            let mut fixed = Fixed::new(window);
            fixed.on_mtu(BASE);
            Box::new(fixed)
        }
    }
}

/// Installs the application's own policy of retransmission, if it has one, for a path on which nothing has left.
fn take_policy(recovery: &mut Recovery, config: &Config) {
    if let Some(own) = &config.parts.retransmission {
        recovery.set_retransmission(own.make());
    }
}

fn fresh_recovery(now: Mono, config: &Config, max_datagram: u16) -> Recovery {
    let path = recovery::Config {
        initial_rtt: config.initial_rtt,
        max_datagram,
        hedging: config.hedging,
        ecn: config.ecn,
        ..recovery::Config::default()
    };
    let mut recovery = Recovery::new(now, path, controller(config));
    take_policy(&mut recovery, config);
    recovery
}
