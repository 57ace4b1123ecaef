//! The datagrams of a half-connection, as values.

use std::fmt;

use crate::half::{Ask, EVERY, Mark, State, Taken};
use crate::id::{Incarnation, Slot, Stamp};
use crate::ledger::Letter;

/// The meaning of a datagram.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Datagram {
    /// ASK.
    Ask {
        /// The first number wanted.
        s: u64,
        /// How many.
        n: u64,
        /// The frontier.
        l: u64,
        /// The stamp, or zero.
        ts: u64,
    },
    /// A fragment of the message that is bound to slot `s` under incarnation `r`.
    Token {
        /// The slot.
        s: u64,
        /// The incarnation.
        r: u64,
        /// The message: its place among those of the configuration.
        letter: Letter,
        /// Which fragment.
        part: u8,
        /// The call that the message is the reply to, if it is one.
        answers: Option<u64>,
    },
    /// A message that is bound to slot `s`, under the incarnation that `ts` will name.
    Early {
        /// The slot.
        s: u64,
        /// The stamp.
        ts: u64,
        /// The message.
        letter: Letter,
    },
    /// STATE.
    State(Claimed),
    /// STAMP_REJECTED of a stamp.
    StampRejected(u64),
    /// CLOSE that refuses: nothing was accepted under this stamp, and nothing will be.
    Refused(u64),
    /// VERDICT: the verdict of the application on a message.
    Verdict {
        /// The slot.
        s: u64,
        /// The incarnation.
        r: u64,
        /// The verdict.
        mark: Mark,
    },
    /// REVOKE: the sender withdraws a message.
    Revoke {
        /// The slot.
        s: u64,
        /// The incarnation.
        r: u64,
    },
    /// WITHDRAWN: a message was withdrawn.
    Withdrawn {
        /// The slot.
        s: u64,
        /// The incarnation.
        r: u64,
    },
    /// REPLY to the call `s`.
    Reply {
        /// The call.
        s: u64,
        /// The content of the reply: the message that was the call when it was answered.
        of: Letter,
    },
    /// REPLY_ACK.
    ReplyAck(u64),
    /// PROBE of a call.
    Probe(u64),
    /// NOCALL.
    NoCall(u64),
    /// COMPUTING.
    Computing(u64),
}

/// A STATE.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimed(pub(crate) State);

/// A datagram in the network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The node that sent it.
    pub from: usize,
    /// The node that it goes to.
    pub to: usize,
    /// The content.
    pub datagram: Datagram,
}

impl Datagram {
    pub(crate) fn ask(ask: Ask) -> Self {
        Self::Ask { s: ask.s.0, n: ask.n, l: ask.l.0, ts: ask.ts.0 }
    }

    pub(crate) fn token(s: Slot, r: Incarnation, letter: Letter, part: u8) -> Self {
        Self::Token { s: s.0, r: r.0, letter, part, answers: None }
    }

    pub(crate) fn early(s: Slot, ts: Stamp, letter: Letter) -> Self {
        Self::Early { s: s.0, ts: ts.0, letter }
    }

    /// The message that it carries, and its number.
    pub(crate) fn body(&self) -> Option<(u64, Letter)> {
        match *self {
            Self::Token { s, letter, .. } | Self::Early { s, letter, .. } => Some((s, letter)),
            _ => None,
        }
    }
}

impl fmt::Display for Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask { s, n, l, ts: 0 } => write!(f, "ASK(s={s} n={n} l={l})"),
            Self::Ask { s, n, l, ts } => write!(f, "ASK(s={s} n={n} l={l} ts={ts})"),
            Self::Token { s, r, letter, answers: Some(call), .. } => {
                write!(f, "TOKEN(s={s} r={r} m{letter}, the reply to {call})")
            }
            Self::Token { s, r, letter, part: 0, .. } => write!(f, "TOKEN(s={s} r={r} m{letter})"),
            Self::Token { s, r, letter, part, .. } => write!(f, "TOKEN(s={s} r={r} m{letter}.{part})"),
            Self::Early { s, ts, letter } => write!(f, "EARLY(s={s} ts={ts} m{letter})"),
            Self::Verdict { s, r, mark: Mark::Done } => write!(f, "VERDICT(s={s} r={r} done)"),
            Self::Verdict { s, r, mark: Mark::Rejected } => write!(f, "VERDICT(s={s} r={r} rejected)"),
            Self::Revoke { s, r } => write!(f, "REVOKE(s={s} r={r})"),
            Self::Withdrawn { s, r } => write!(f, "WITHDRAWN(s={s} r={r})"),
            Self::Reply { s, of } => write!(f, "REPLY(s={s} to m{of})"),
            Self::ReplyAck(s) => write!(f, "REPLY_ACK(s={s})"),
            Self::Probe(s) => write!(f, "PROBE(s={s})"),
            Self::NoCall(s) => write!(f, "NOCALL(s={s})"),
            Self::Computing(s) => write!(f, "COMPUTING(s={s})"),
            Self::StampRejected(ts) => write!(f, "STAMP_REJECTED(ts={ts})"),
            Self::Refused(ts) => write!(f, "REFUSED(ts={ts})"),
            Self::State(Claimed(State { b, r, live, taken })) => {
                write!(f, "STATE(b={} r={}", b.0, r.0)?;
                match live {
                    None => write!(f, " no record")?,
                    Some(claim) => {
                        let (hi, lo, up) = (claim.hi.0, claim.lo.0, claim.up.0);
                        let free: Vec<_> = claim.free.iter().flatten().collect();
                        write!(f, " hi={hi} of {lo}..{up} free {free:?}")?;
                        if claim.closed {
                            write!(f, " final")?;
                        }
                        if claim.part {
                            write!(f, " part")?;
                        }
                    }
                }
                match taken {
                    None => write!(f, ")"),
                    Some(Taken { ts, end: Slot(0) }) => write!(f, " ts={})", ts.0),
                    Some(Taken { ts, end: EVERY }) => write!(f, " ts={} forgotten)", ts.0),
                    Some(Taken { ts, end }) => write!(f, " ts={} end={})", ts.0, end.0),
                }
            }
        }
    }
}

/// The name of a node.
pub(crate) fn name(node: usize) -> char {
    ['A', 'B', 'C'].get(node).copied().unwrap_or('?')
}
