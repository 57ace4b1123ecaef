//! What travels: the datagrams of a half-connection, as values.

use std::fmt;

use crate::half::{Ask, State};
use crate::id::{Incarnation, Slot};
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
    },
    /// STATE.
    State(Claimed),
}

/// A STATE.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimed(pub(crate) State);

/// A datagram on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Who sent it.
    pub from: usize,
    /// To whom.
    pub to: usize,
    /// What.
    pub datagram: Datagram,
}

impl Datagram {
    pub(crate) fn ask(ask: Ask) -> Self {
        Self::Ask { s: ask.s.0, n: ask.n, l: ask.l.0 }
    }

    pub(crate) fn token(s: Slot, r: Incarnation, letter: Letter, part: u8) -> Self {
        Self::Token { s: s.0, r: r.0, letter, part }
    }
}

impl fmt::Display for Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask { s, n, l } => write!(f, "ASK(s={s} n={n} l={l})"),
            Self::Token { s, r, letter, part: 0 } => write!(f, "TOKEN(s={s} r={r} m{letter})"),
            Self::Token { s, r, letter, part } => write!(f, "TOKEN(s={s} r={r} m{letter}.{part})"),
            Self::State(Claimed(state)) => match &state.live {
                None => write!(f, "STATE(b={} r={} no record)", state.b.0, state.r.0),
                Some(claim) => {
                    let (hi, lo, up) = (claim.hi.0, claim.lo.0, claim.up.0);
                    let free: Vec<_> = claim.free.iter().flatten().collect();
                    write!(f, "STATE(b={} r={} hi={hi} of {lo}..{up} free {free:?})", state.b.0, state.r.0)
                }
            },
        }
    }
}

/// The name of a node.
pub(crate) fn name(node: usize) -> char {
    ['A', 'B', 'C'].get(node).copied().unwrap_or('?')
}
