//! One set of keys of a channel, and the packets under it.

use core::net::SocketAddr;
use core::time::Duration;

use super::event::Arrival;
use crate::channel::{Received, Sent};
use crate::crypto::{Keys, Opened, Suite};
use crate::id::{Incarnation, Slot};
use crate::time::Mono;
use crate::wire::{self, Bases, ChannelIndex, DATA_HEADER, Params, TAG, Writer, data_header};

/// The largest datagram that a key may have to protect.
const LARGEST: usize = 65_527;

/// What sealing adds to the frames.
pub(super) const OVERHEAD: usize = DATA_HEADER + TAG;

/// What a packet carried, for the halves to learn its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    /// The whole messages of `s..s+n`.
    Messages { r: Incarnation, s: Slot, n: u32 },
    /// `len` bytes of a message from `offset` on.
    Fragment { r: Incarnation, s: Slot, offset: u64, len: u32 },
    /// Our wish for slots.
    Ask,
    /// What left with the opening, again.
    Early,
    /// That our sender record has closed.
    Farewell,
    /// Our claim, the `nth` of this direction.
    State { nth: u64 },
    /// What we have of a message.
    Have { s: Slot },
    /// How much was given up.
    Abandoned,
    /// The reply to a call.
    Reply { s: Slot },
    /// A ping of the application.
    Ping { cookie: u64 },
    /// A copy of what packet `of` under the keys of this index carries.
    Copy { index: ChannelIndex, of: u64 },
    /// Acknowledgements of packets under the keys of this index, up to here.
    Ack { index: ChannelIndex, largest: u64 },
}

/// Keys, indices, bases and packet numbers of one handshake. Never persisted, never cloned.
#[derive(Debug)]
pub(super) struct Epoch {
    /// We are found by this.
    pub(super) index: ChannelIndex,
    /// The peer is found by this.
    pub(super) remote: ChannelIndex,
    pub(super) keys: Keys,
    pub(super) suite: Suite,
    /// As the sender of frames.
    pub(super) bases: Bases,
    /// What the peer has declared; its token, if any, is kept as a tag only.
    pub(super) params: Params,
    /// Stands for the token by which the peer would say that it has restarted.
    pub(super) reset_tag: Option<[u8; wire::RESET_TOKEN]>,
    pub(super) sent: Sent<Carried>,
    pub(super) received: Received,
    pub(super) born: Mono,
    /// This node began it.
    pub(super) initiator: bool,
    /// Packets sealed, and packets that did not open.
    pub(super) sealed: u64,
    pub(super) forged: u64,
}

impl Epoch {
    /// The keys have protected as many packets, or been tried on as many forgeries, as they may (RFC 9001, 6.6).
    pub(super) fn is_worn_out(&self) -> bool {
        self.sealed >= self.seal_limit() || self.forged >= self.suite.forgery_limit(LARGEST)
    }

    /// Time for new keys, well before these are worn out.
    pub(super) fn wears_out(&self) -> bool {
        self.sealed >= self.seal_limit() / 2
    }

    fn seal_limit(&self) -> u64 {
        self.suite.seal_limit(LARGEST)
    }

    /// Makes one packet of at most `cap` bytes at the end of `buf`: `fill` writes the frames. Gives its size; None,
    /// and `buf` as it was, when there are no frames.
    ///
    /// Its number is that which [`Sent`] gives next: the caller reports it as sent, or discards what it carries.
    pub(super) fn seal(
        &mut self,
        buf: &mut Vec<u8>,
        cap: usize,
        fill: impl FnOnce(&mut Self, &mut Writer<'_>),
    ) -> Option<usize> {
        let start = buf.len();
        buf.resize(start + cap, 0);
        let room = buf.get_mut(start + DATA_HEADER..start + cap.saturating_sub(TAG))?;
        let mut writer = Writer::new(room, self.bases);
        fill(self, &mut writer);
        let len = writer.len();
        if len == 0 {
            buf.truncate(start);
            return None;
        }
        buf.truncate(start + OVERHEAD + len);
        let number = self.sent.next_number();
        let header = data_header(self.remote, number);
        let packet = buf.get_mut(start..)?;
        let (clear, sealed) = packet.split_at_mut_checked(DATA_HEADER)?;
        clear.copy_from_slice(&header);
        if self.keys.seal.seal_in_place(number, &header, sealed).is_err() {
            buf.truncate(start);
            return None;
        }
        self.sealed += 1;
        Some(OVERHEAD + len)
    }

    /// The packet carries the `n` messages below `end`, each whole.
    pub(super) fn carry_whole(&mut self, r: Incarnation, end: Slot, n: u32) {
        if n > 0 {
            self.sent.carry(Carried::Messages { r, s: Slot(end.0 - u64::from(n)), n });
        }
    }

    /// ACK, if one is owed.
    pub(super) fn write_ack(&mut self, now: Mono, writer: &mut Writer<'_>) {
        if self.received.owes_ack() {
            self.repeat_ack(now, writer);
        }
    }

    /// ACK of all that has arrived.
    pub(super) fn repeat_ack(&mut self, now: Mono, writer: &mut Writer<'_>) {
        let Some(largest) = self.received.largest() else { return };
        let arrival = Duration::from_nanos(largest.arrived.0);
        let ecn = self.received.ecn_to_tell();
        let ecn = ecn.map(|ecn| crate::wire::Ecn { ect0: ecn.ect0, ect1: ecn.ect1, ce: ecn.ce });
        if writer.ack(self.received.delay(now), arrival, ecn, self.received.ranges()).is_some() {
            self.received.on_ack_sent();
            self.sent.carry(Carried::Ack { index: self.index, largest: largest.number });
        }
    }
}

/// An epoch that this node answered to and that no data packet has confirmed yet: the other side may be a replay.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) epoch: Epoch,
    /// Noise message 2 in its datagram: every copy of the opening gets the same.
    pub(super) answer: Box<[u8]>,
    /// The number of the STATE in it: a peer that has the keys has read it.
    pub(super) state: Option<u64>,
    /// The mac1 of the opening.
    pub(super) mac1: [u8; 16],
    pub(super) prefix: Option<Prefix>,
    pub(super) expires: Mono,
    /// When the answer last left, and whether it had before.
    pub(super) answered_at: Mono,
    pub(super) again: bool,
    /// Where the answer went first.
    pub(super) answered: SocketAddr,
    /// It went elsewhere as well: the peer that uses its keys may be at either address.
    pub(super) scattered: bool,
}

/// An opening that is answered as soon as the messages that came with it have been taken, or in a moment.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) opened: Opened,
    pub(super) arrival: Arrival,
    pub(super) theirs: Params,
    /// Ours and the peer's.
    pub(super) index: ChannelIndex,
    pub(super) remote: ChannelIndex,
    pub(super) mac1: [u8; 16],
    pub(super) prefix: Option<Prefix>,
    /// When it came, and when it is answered at the latest.
    pub(super) since: Mono,
    pub(super) until: Mono,
}

/// The part of an address by which strangers are counted: /24 of IPv4, /48 of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix(u64);

impl Prefix {
    /// None: of this machine, whose programs share without bounds.
    pub fn told(ip: core::net::IpAddr) -> Option<Self> {
        (!ip.to_canonical().is_loopback()).then(|| Self::of(ip))
    }

    pub(super) fn of(ip: core::net::IpAddr) -> Self {
        match ip.to_canonical() {
            core::net::IpAddr::V4(v4) => Self(u64::from(v4.to_bits() >> 8)),
            core::net::IpAddr::V6(v6) => {
                let [a, b, c, ..] = v6.segments();
                Self(1 << 63 | u64::from(a) << 32 | u64::from(b) << 16 | u64::from(c))
            }
        }
    }
}
