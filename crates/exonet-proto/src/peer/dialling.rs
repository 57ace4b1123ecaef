//! Connections to a peer: when this node wants one, and what happens when one ends.
//!
//! A connection is a path that only an opening leads to; the contest of paths never does. So a connection has keys of its own,
//! and packets under way on an older path are lost with that path. The node that was given the peer's address asks its driver for
//! the connection ([`Dial`]); the other node cannot be reached by one.

use core::net::SocketAddr;
use core::time::Duration;

use super::{Context, Peer};
use crate::channel::Pipe;
use crate::config::Carrier;
use crate::event::Dial;
use crate::opening::initiate::{Goal, Opening};
use crate::time::{Mono, Now};

/// How long datagrams have to bring an answer before the node tries a connection beside them.
const HEAD_START: Duration = Duration::from_millis(250);
/// A peer that has been silent for this long may be behind a middlebox that drops datagrams.
const SILENT: Duration = Duration::from_millis(500);
/// A connection that has brought nothing for this long, and for this many probe timeouts, is replaced when the network is back. What
/// waits in a connection that works may be late. The first time is a little longer than most systems wait before they repeat
/// something: they then wait for twice as long each time.
const STUCK: Duration = Duration::from_millis(250);
const STUCK_PTOS: u32 = 3;
/// After this many consecutive probe timeouts, the peer may receive nothing that this node sends, though this node hears the
/// peer.
const DEAF: u32 = 3;
/// Beside a working connection, datagrams are tried after the first of these times, then after twice as long each time, up to the
/// second.
const FIRST_TRIAL: Duration = Duration::from_secs(10);
const LAST_TRIAL: Duration = Duration::from_secs(300);
/// How long a trial of datagrams may take to bring an answer: three copies of the opening.
const TRIAL: Duration = Duration::from_millis(1_500);
/// If datagrams fail again within this time, the next trial waits for twice as long as the last.
const STEADY: Duration = Duration::from_secs(300);
/// Connections that wait for the driver to open them. The node asks for further ones again later.
const MAX_DIALS: usize = 1_024;

/// The connection to a peer, if this node opens one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dialling {
    /// This node chose the peer's address, and its settings let it open connections.
    pub(crate) may: bool,
    /// A connection is opened only if datagrams do not get through.
    pub(crate) falls_back: bool,
    /// The connection that is open.
    pub(crate) pipe: Option<Pipe>,
    /// The address that the connection goes to, and since when it is open.
    address: Option<SocketAddr>,
    pub(crate) since: Mono,
    /// The driver was asked for a connection.
    asked: bool,
    /// The last channel that worked was on a connection.
    won: bool,
    /// Datagrams arrive from the peer, and none of this node's are acknowledged.
    deaf: bool,
    /// When datagrams are tried again, and how long that wait is.
    back_at: Option<Mono>,
    back_after: Duration,
    /// The opening under way tries datagrams until this time.
    trial: Option<Mono>,
    /// When the channel last moved from a connection to datagrams.
    moved_back: Option<Mono>,
}

impl Dialling {
    /// New keys have come into use, on a connection or on datagrams.
    pub(crate) fn settle(&mut self, now: Mono, piped: bool) {
        if !piped {
            self.back_at = None;
            self.moved_back = Some(now).filter(|_| self.won);
        } else if !self.won && self.falls_back {
            let relapse = self.moved_back.is_some_and(|at| now.since(at) < STEADY);
            self.back_after = if relapse { self.longer() } else { FIRST_TRIAL };
            self.back_at = Some(now + self.back_after);
        }
        (self.won, self.asked, self.deaf, self.trial) = (piped, false, false, None);
    }

    fn longer(&self) -> Duration {
        self.back_after.saturating_mul(2).clamp(FIRST_TRIAL, LAST_TRIAL)
    }

    /// The opening under way tries datagrams beside a working connection.
    pub(crate) const fn is_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// When to act on datagrams beside the connection. `free`: there is a connection, and no opening is under way.
    pub(crate) fn deadline(&self, free: bool) -> Option<Mono> {
        self.trial.or(self.back_at.filter(|_| free))
    }

    /// Whether a connection is wanted beside the `opening`. `silent`: since when the peer has been silent, if it is.
    fn is_due(&self, now: Mono, opening: &Opening, silent: Option<Mono>) -> bool {
        let wants = self.may && self.pipe.is_none() && !self.asked;
        let late = now.since(opening.begun) >= HEAD_START;
        let silent = silent.is_some_and(|since| now.since(since) >= SILENT);
        wants && (!self.falls_back || self.won || self.deaf || late || silent)
    }
}

impl Peer {
    /// The application has given an address of the peer.
    pub(crate) fn choose(&mut self, cx: &Context, address: SocketAddr) {
        self.add_hint(address);
        let carrier = cx.config.carrier;
        self.link.dialling.may = carrier != Carrier::Udp;
        self.link.dialling.falls_back = carrier == Carrier::Auto;
    }

    /// The destinations of copies of an opening: the proven path first.
    pub(crate) fn goals(&self, cx: &Context) -> Vec<Goal> {
        let trial = self.link.dialling.is_trial();
        let active = self.link.proven().filter(|_| !trial);
        if let Some(path) = active.filter(|path| path.pipe.is_some()) {
            return vec![Goal { remote: path.remote, pipe: path.pipe }];
        }
        let active = active.map(|path| path.remote);
        let others = self.hints.iter().copied().filter(|hint| Some(*hint) != active);
        let datagrams = active.into_iter().chain(others).map(|remote| Goal { remote, pipe: None });
        let Dialling { pipe, address, .. } = self.link.dialling;
        let piped = address.filter(|_| pipe.is_some() && !trial).map(|remote| Goal { remote, pipe });
        datagrams.filter(|_| cx.config.carrier != Carrier::Tcp).chain(piped).collect()
    }

    /// Asks the driver for a connection beside the opening under way, if there is a reason to.
    pub(crate) fn ask_for_pipe(&mut self, cx: &mut Context, now: Now) {
        let link = &mut self.link;
        let Some(opening) = link.opening.as_ref().filter(|_| link.pipe().is_none()) else { return };
        if link.dialling.is_due(now.mono, opening, link.silent_since()) && cx.dials.len() < MAX_DIALS {
            link.dialling.asked = true;
            cx.dials.push_back(Dial { peer: self.id, addresses: self.hints.clone() });
        }
    }

    /// Whether the connection that the driver was asked for is still wanted.
    pub(crate) fn wants_pipe(&mut self) -> bool {
        self.link.dialling.asked &= self.link.opening.is_some();
        self.link.dialling.asked && self.link.dialling.pipe.is_none()
    }

    /// The driver has opened the connection `pipe` to `address`. The opening goes there at once.
    pub(crate) fn on_dialled(&mut self, now: Now, pipe: Pipe, address: SocketAddr) {
        let dialling = &mut self.link.dialling;
        (dialling.asked, dialling.pipe, dialling.address) = (false, Some(pipe), Some(address));
        dialling.since = now.mono;
        if let Some(opening) = self.link.opening.as_mut() {
            opening.widen(now.mono);
        }
    }

    /// The connection that this node dialled, if the peer owes something there and it has brought nothing for a while: the system
    /// waits longer and longer before it sends again.
    pub(super) fn silent_pipe(&self, now: Mono) -> Option<Pipe> {
        let (pipe, since) = self.link.numb_since()?;
        let patience = STUCK.max(self.link.pto().saturating_mul(STUCK_PTOS));
        (now.since(since) >= patience).then_some(pipe)
    }

    /// The connection `pipe` has ended, or brings nothing. Everything under way on it is lost.
    pub(crate) fn on_pipe_broken(&mut self, cx: &mut Context, now: Now, pipe: Pipe) {
        let link = &mut self.link;
        let dialled = link.dialling.pipe.take_if(|dialled| *dialled == pipe).is_some();
        if let Some(opening) = link.opening.as_mut().filter(|_| dialled) {
            // The opening may have been lost there: another connection is asked for.
            opening.widen(now.mono);
        }
        link.responses.retain(|(to, _)| to.pipe != Some(pipe));
        if link.pipe() != Some(pipe) {
            return;
        }
        link.roaming = None;
        (link.dialling.trial, link.dialling.back_at) = (None, None);
        link.confirm = false;
        link.copies.clear();
        // The peer may have something to send, and cannot open a connection itself.
        link.reopen |= link.dialling.may && link.is_connected() && link.opening.is_none();
        self.lose_all(cx, now);
    }

    /// Time has passed: ends a trial of datagrams that was in vain, and begins the next if it is due.
    pub(crate) fn try_datagrams(&mut self, cx: &mut Context, now: Now) {
        if self.link.dialling.trial.is_some_and(|until| until <= now.mono) {
            self.abort_opening(cx);
            let dialling = &mut self.link.dialling;
            dialling.trial = None;
            dialling.back_after = dialling.longer();
            dialling.back_at = Some(now.mono + dialling.back_after);
        }
        let link = &mut self.link;
        let due = link.dialling.back_at.is_some_and(|at| at <= now.mono);
        let calm = link.opening.is_none() && !link.reopen && link.is_connected() && link.pipe().is_some();
        if due && calm && !self.hints.is_empty() {
            link.dialling.trial = Some(now.mono + TRIAL);
            link.reopen = true;
        }
    }

    /// The probe timeout has expired `count` times in a row. Datagrams may get lost on the way to the peer though the peer is
    /// heard. In that case a connection is tried beside them.
    pub(crate) fn note_timeouts(&mut self, now: Now, count: u32) {
        let link = &mut self.link;
        if count < DEAF {
            link.dialling.deaf = false;
        } else if link.dialling.falls_back && !link.dialling.deaf && link.opening.is_none() {
            let first = link.current.as_ref().and_then(|epoch| epoch.sent.first_unheard());
            link.dialling.deaf = first.is_some_and(|first| now.mono.since(first) >= SILENT);
            link.reopen |= link.dialling.deaf;
        }
    }

    /// Everything under way is lost, with the path that it was on.
    pub(crate) fn lose_all(&mut self, cx: &mut Context, now: Now) {
        let mut fates = std::mem::take(&mut cx.scratch.fates);
        let link = &mut self.link;
        let current = link.current.as_deref_mut();
        let previous = link.previous.as_mut().map(|(epoch, _)| &mut **epoch);
        for epoch in current.into_iter().chain(previous) {
            let keep = |fate, item| fates.push((item, fate));
            let lost = link.recovery.on_broken(now.mono, &mut epoch.sent, keep);
            link.packets_lost += lost;
            cx.stats.packets_lost += lost;
        }
        self.apply(cx, now, &mut fates);
        cx.scratch.fates = fates;
    }

    /// The peer has moved to a path of which nothing is known.
    pub(crate) fn on_path_change(&mut self, cx: &mut Context, now: Now) {
        let before = self.link.recovery.is_reliable();
        self.link.on_path_change(now.mono, &cx.config);
        if before || self.link.recovery.is_reliable() {
            self.lose_all(cx, now);
        }
    }
}
