//! One set of keys of a channel, and the packets under it.

use core::net::SocketAddr;
use core::time::Duration;

use crate::channel::{Pipe, Received, Sent, SkipSeed};
use crate::crypto::{Keys, Suite};
use crate::id::{Incarnation, Slot};
use crate::opening::prefix::Prefix;
use crate::time::Mono;
use crate::wire::{self, Bases, ChannelIndex, DATA_HEADER, Params, TAG, Writer, data_header};

/// The largest datagram that a key may have to protect.
const LARGEST: usize = 65_527;

/// How many bytes sealing adds to the frames.
pub(crate) const OVERHEAD: usize = DATA_HEADER + TAG;

/// An item that a packet carried. The halves learn its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// The whole messages of `s..s+n`.
    Messages { r: Incarnation, s: Slot, n: u32 },
    /// `len` bytes of a message from `offset` on.
    Fragment { r: Incarnation, s: Slot, offset: u64, len: u32 },
    /// This node's ASK for slots.
    Ask,
    /// The messages that left with the opening, again.
    Early,
    /// The farewell: this node's sender record has closed.
    Farewell,
    /// This node's STATE, the `nth` of this direction.
    State { nth: u64 },
    /// HAVE: what this node has of a message.
    Have { s: Slot },
    /// The verdict of this node's application on a message.
    Verdict { s: Slot },
    /// WITHDRAWN: these messages are withdrawn.
    Withdrawn { s: Slot, n: u64 },
    /// The reply to a call.
    Reply { s: Slot },
    /// A ping of the application.
    Ping { cookie: u64 },
    /// A copy of what packet `of` under the keys of `index` carries.
    Copy { index: ChannelIndex, of: u64 },
    /// Acknowledgements of packets under the keys of `index`, up to `largest`.
    Ack { index: ChannelIndex, largest: u64 },
}

/// Keys, indices, bases and packet numbers of one handshake. Never persisted, never cloned.
#[derive(Debug)]
pub(crate) struct Epoch {
    /// The index in packets to this node.
    pub(crate) index: ChannelIndex,
    /// The index in packets to the peer.
    pub(crate) remote: ChannelIndex,
    pub(crate) keys: Keys,
    pub(crate) suite: Suite,
    /// The bases for frames that this node writes.
    pub(crate) bases: Bases,
    /// The peer's parameters. Its reset token, if any, is kept only as a tag.
    pub(crate) params: Params,
    /// The tag of the token by which the peer would announce that it has restarted.
    pub(crate) reset_tag: Option<[u8; wire::RESET_TOKEN]>,
    pub(crate) sent: Sent<Carried>,
    pub(crate) received: Received,
    pub(crate) born: Mono,
    /// This node began the handshake.
    pub(crate) initiator: bool,
    /// Packets sealed, and packets that did not open.
    pub(crate) sealed: u64,
    pub(crate) forged: u64,
}

/// The result of a handshake.
pub(crate) struct Agreed {
    pub(crate) keys: Keys,
    pub(crate) suite: Suite,
    /// The index of this node, and that of the peer.
    pub(crate) index: ChannelIndex,
    pub(crate) remote: ChannelIndex,
    pub(crate) bases: Bases,
    pub(crate) params: Params,
}

impl Epoch {
    /// An epoch under whose keys nothing has been sent or received. `initiator`: this node began the handshake.
    pub(crate) fn new(
        now: Mono,
        agreed: Agreed,
        initiator: bool,
        skips: SkipSeed,
        max_ack_delay: Duration,
    ) -> Self {
        let Agreed { keys, suite, index, remote, bases, params } = agreed;
        Self {
            index,
            remote,
            keys,
            suite,
            bases,
            params,
            reset_tag: None,
            sent: Sent::skipping(skips),
            received: Received::new(max_ack_delay),
            born: now,
            initiator,
            sealed: 0,
            forged: 0,
        }
    }

    /// Whether the keys have protected as many packets as they may, or been tried on as many forgeries (RFC 9001, 6.6).
    pub(crate) fn is_worn_out(&self) -> bool {
        self.sealed >= self.seal_limit() || self.forged >= self.suite.forgery_limit(LARGEST)
    }

    /// Whether it is time for new keys, well before these are worn out.
    pub(crate) fn wears_out(&self) -> bool {
        self.sealed >= self.seal_limit() / 2
    }

    fn seal_limit(&self) -> u64 {
        self.suite.seal_limit(LARGEST)
    }

    /// Makes one packet of at most `cap` bytes at the end of `buf`; `fill` writes the frames. Returns the size of the packet.
    /// None, with `buf` unchanged, if there are no frames.
    ///
    /// The packet has the number that [`Sent`] gives next: the caller reports the packet as sent, or discards what it carries.
    pub(crate) fn seal(
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

    /// Notes that the packet carries the `n` messages below `end`, each whole.
    pub(crate) fn carry_whole(&mut self, r: Incarnation, end: Slot, n: u32) {
        if n > 0 {
            self.sent.carry(Carried::Messages { r, s: Slot(end.0 - u64::from(n)), n });
        }
    }

    /// Writes an ACK if one is owed.
    pub(crate) fn write_ack(&mut self, now: Mono, writer: &mut Writer<'_>) {
        if self.received.owes_ack() {
            self.repeat_ack(now, writer);
        }
    }

    /// Writes an ACK of everything that has arrived.
    pub(crate) fn repeat_ack(&mut self, now: Mono, writer: &mut Writer<'_>) {
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

/// An epoch that this node answered to and that no data packet has confirmed yet: the opening may be a replay.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) epoch: Epoch,
    /// The datagram of Noise message 2: every copy of the opening gets the same answer.
    pub(crate) answer: Box<[u8]>,
    /// The number of the STATE in the answer: a peer that has the keys has read it.
    pub(crate) state: Option<u64>,
    /// The mac1 of the opening.
    pub(crate) mac1: [u8; 16],
    pub(crate) prefix: Option<Prefix>,
    pub(crate) expires: Mono,
    /// When the answer last left, and whether it had left before.
    pub(crate) answered_at: Mono,
    pub(crate) again: bool,
    /// Where the answer went first.
    pub(crate) answered: (SocketAddr, Option<Pipe>),
    /// The answer went elsewhere as well: the peer that uses its keys may be at either address.
    pub(crate) scattered: bool,
}
