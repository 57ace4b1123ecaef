//! The address at which a peer is reached, and when it changes.
//!
//! A datagram's source address proves nothing: anyone on the way can send a copy from elsewhere. So a
//! move is a *contest* between the active path and a candidate:
//!
//! 1. An authenticated packet, newer than all before, from another address begins it. Both paths are challenged;
//!    STATE and ACK go to both, bulk stays on the active path.
//! 2. Anything newer from the active path ends it: the peer is still there. Nothing changes.
//! 3. The candidate answers its challenge: it becomes active. The path left is remembered for three probe
//!    timeouts, and anything newer from there leads back at once.
//! 4. No answer for three probe timeouts: the candidate is forgotten.
//!
//! One contest per round trip, so one migration per round trip.
//!
//! # Call contract
//!
//! After every authenticated packet: [`Roaming::on_packet_from`], then [`Roaming::on_response`] for each
//! PATH_RESPONSE in it. Before sending: [`Roaming::challenge`] until it gives nothing, each followed by
//! [`Roaming::on_challenge_sent`]; packets of STATE and ACK go to [`Roaming::mirror`] too (as
//! [off-path](super::PacketInfo::off_path) packets), all else to [`Roaming::active`] only. Whatever goes to a
//! path stays within [`Roaming::allowance`] and is reported to [`Roaming::on_sent`]. A PATH_CHALLENGE is answered
//! to the address that it came from. [`Moved`] tells what has become of the active path: unless
//! [`keep_congestion`](Moved::keep_congestion), give [`Recovery`](super::Recovery) a fresh path.

use core::time::Duration;

use super::path::{Path, PathAddr, PathValidator};
use crate::Mono;

/// The most bytes of a datagram that contains only a challenge.
pub const CHALLENGE_LEN: u64 = 48;

/// If a contest involves a connection, answers get at least three times this.
const PIPED_PTO: Duration = Duration::from_secs(1);

/// The active path has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Only a port has changed: round-trip time and congestion state still hold (RFC 9000, section 9.4).
    pub keep_congestion: bool,
    /// The move led back to the path left last.
    pub back: bool,
}

/// The timing of the active path at the time of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The probe timeout without back-off, peer's acknowledgement delay included.
    pub pto: Duration,
}

/// A candidate on trial.
#[derive(Clone, Copy, Debug)]
struct Contest {
    candidate: Path,
    ours: PathValidator,
    theirs: PathValidator,
}

/// The addresses of one peer.
#[derive(Clone, Debug)]
pub struct Roaming {
    active: Path,
    contest: Option<Contest>,
    /// The path that was left last, and until when it is remembered.
    former: Option<(Path, Mono)>,
    /// No contest begins before this time.
    quiet_until: Mono,
    /// The challenge of an active path that was never proven.
    proving: Option<PathValidator>,
}

impl Roaming {
    /// Begins with `path` as the active path.
    pub fn new(path: Path) -> Self {
        Self { active: path, contest: None, former: None, quiet_until: Mono(0), proving: None }
    }

    /// Begins with the path on which the first packet under new keys came, though anyone may have sent that copy of it. The path
    /// is used within its allowance, and challenged until it answers or the peer appears elsewhere.
    pub fn unproven(now: Mono, from: PathAddr, timing: Timing, random: [u8; 8]) -> Self {
        Self { proving: Some(PathValidator::new(now, random, timing.pto)), ..Self::new(Path::unproven(from)) }
    }

    /// The path to which everything but challenges goes.
    pub fn active(&self) -> &Path {
        &self.active
    }

    /// The active path was proven by other means than a challenge.
    pub fn validate_active(&mut self) {
        self.active.validate();
    }

    /// This node chooses another address for the peer. This ends a contest.
    pub fn set_active(&mut self, path: Path) {
        *self = Self::new(path);
    }

    /// The path to which STATE and ACK also go.
    pub fn mirror(&self) -> Option<PathAddr> {
        self.contest.as_ref().map(|contest| contest.candidate.addr())
    }

    /// Counts `bytes` of a datagram received from `from`, if it is a path of this peer.
    pub fn on_received(&mut self, from: &PathAddr, bytes: u64) {
        if let Some(path) = self.path_mut(from) {
            path.on_received(bytes);
        }
    }

    /// An authenticated packet in a datagram of `bytes` came from `from`; `newest` if no packet with a larger number arrived
    /// before. `random` gives eight unpredictable bytes, and is called only if a contest begins.
    pub fn on_packet_from(
        &mut self,
        now: Mono,
        from: PathAddr,
        bytes: u64,
        newest: bool,
        timing: Timing,
        random: &mut dyn FnMut() -> [u8; 8],
    ) -> Option<Moved> {
        self.on_received(&from, bytes);
        if !newest {
            return None;
        }
        if self.active.addr().same(&from) {
            if self.contest.take().is_some() {
                self.quiet_until = now + timing.rtt;
            }
            return None;
        }
        if self.contest.as_ref().is_some_and(|contest| contest.candidate.addr().same(&from)) {
            return None;
        }
        if let Some((former, _)) = self.former.filter(|(path, until)| now < *until && path.addr().same(&from))
        {
            self.former = None;
            return Some(self.migrate(now, former, timing, true));
        }
        if self.quiet_until <= now {
            self.begin(now, from, bytes, timing, random);
        }
        None
    }

    fn begin(
        &mut self,
        now: Mono,
        from: PathAddr,
        bytes: u64,
        timing: Timing,
        random: &mut dyn FnMut() -> [u8; 8],
    ) {
        let mut candidate = Path::unproven(from);
        candidate.on_received(bytes);
        // Round trips of datagrams say nothing about those on a connection, and a connection loses no challenge.
        let piped = from.pipe.is_some() || self.active.addr().pipe.is_some();
        let pto = if piped { timing.pto.max(PIPED_PTO) } else { timing.pto };
        self.contest = Some(Contest {
            candidate,
            ours: PathValidator::new(now, random(), pto),
            theirs: PathValidator::new(now, random(), pto),
        });
        self.quiet_until = now + timing.rtt;
    }

    /// A PATH_RESPONSE came from `from`, in a packet already given to [`on_packet_from`](Self::on_packet_from).
    pub fn on_response(
        &mut self,
        now: Mono,
        from: &PathAddr,
        data: [u8; 8],
        timing: Timing,
    ) -> Option<Moved> {
        if self.proving.is_some_and(|proving| proving.is_answer(data)) {
            self.active.validate();
            self.proving = None;
        }
        let contest = self.contest.as_mut()?;
        if contest.ours.is_answer(data) {
            self.active.validate();
            self.proving = None;
            // The response came from the active path: the peer is still there, even if the packet was overtaken.
            if self.active.addr().same(from) {
                self.contest = None;
                self.quiet_until = now + timing.rtt;
            }
            return None;
        }
        if !contest.theirs.is_answer(data) {
            return None;
        }
        let mut path = contest.candidate;
        path.validate();
        let left = self.active;
        let moved = self.migrate(now, path, timing, false);
        // A path that was never proven is not worth returning to.
        self.former = left.is_validated().then(|| (left, now + timing.pto.saturating_mul(3)));
        Some(moved)
    }

    fn migrate(&mut self, now: Mono, to: Path, timing: Timing, back: bool) -> Moved {
        let keep_congestion = self.active.addr().same_hosts(&to.addr());
        self.active = to;
        self.contest = None;
        self.proving = None;
        self.quiet_until = now + timing.rtt;
        Moved { keep_congestion, back }
    }

    /// A PATH_CHALLENGE to send: its path and its bytes. The path allows a datagram of [`CHALLENGE_LEN`].
    pub fn challenge(&self, now: Mono) -> Option<(PathAddr, [u8; 8])> {
        self.challenges().find_map(|(path, challenge)| challenge.due(now).map(|data| (path.addr(), data)))
    }

    /// The challenges under way that the allowances permit.
    fn challenges(&self) -> impl Iterator<Item = (&Path, &PathValidator)> {
        let proving = self.proving.iter().map(|proving| (&self.active, proving));
        let contest = self.contest.iter();
        contest
            .flat_map(|contest| [(&contest.candidate, &contest.theirs), (&self.active, &contest.ours)])
            .chain(proving)
            .filter(|(path, _)| path.allowance() >= CHALLENGE_LEN)
    }

    /// The challenge to `to` leaves, in a datagram that [`on_sent`](Self::on_sent) counts.
    pub fn on_challenge_sent(&mut self, now: Mono, to: &PathAddr) {
        if let Some(proving) = self.proving.as_mut().filter(|_| self.active.addr().same(to)) {
            proving.on_sent(now);
        }
        if let Some(contest) = &mut self.contest {
            let candidate = contest.candidate.addr().same(to);
            if candidate { &mut contest.theirs } else { &mut contest.ours }.on_sent(now);
        }
    }

    /// How many bytes may be sent to `to` now. Zero for an address that is not one of this peer's.
    pub fn allowance(&self, to: &PathAddr) -> u64 {
        let candidate = self.contest.as_ref().map(|contest| &contest.candidate);
        let paths = [Some(&self.active), candidate, self.former.as_ref().map(|(path, _)| path)];
        paths.into_iter().flatten().find(|path| path.addr().same(to)).map_or(0, Path::allowance)
    }

    /// A datagram of `bytes` goes to `to`.
    pub fn on_sent(&mut self, to: &PathAddr, bytes: u64) {
        if let Some(path) = self.path_mut(to) {
            path.on_sent(bytes);
        }
    }

    fn path_mut(&mut self, addr: &PathAddr) -> Option<&mut Path> {
        let candidate = self.contest.as_mut().map(|contest| &mut contest.candidate);
        let former = self.former.as_mut().map(|(path, _)| path);
        [Some(&mut self.active), candidate, former].into_iter().flatten().find(|path| path.addr().same(addr))
    }

    /// When [`on_timeout`](Self::on_timeout) or [`challenge`](Self::challenge) has something to do.
    pub fn timeout(&self) -> Option<Mono> {
        let contest = self.contest.as_ref().map(|contest| contest.theirs.expires());
        let proving = self.proving.as_ref().map(PathValidator::expires);
        let expires = [contest, proving].into_iter().flatten().min()?;
        Some(self.challenges().map(|(_, challenge)| challenge.next()).fold(expires, Mono::min))
    }

    /// Time has passed: forgets a candidate that never answered, and the path that was left.
    pub fn on_timeout(&mut self, now: Mono) {
        if let Some(proving) = self.proving.as_mut().filter(|proving| proving.expires() <= now) {
            proving.renew(now);
        }
        self.contest = self.contest.filter(|contest| now < contest.theirs.expires());
        self.former = self.former.filter(|(_, until)| now < *until);
    }
}

#[cfg(test)]
mod tests;
