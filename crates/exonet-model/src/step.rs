//! The steps that can happen.

use std::fmt;

use crate::datagram::name;

/// One step of a world. A node is a small number. A datagram is named by its place in the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The application sends its next message.
    Send {
        /// The node.
        at: u8,
        /// The receiver.
        to: u8,
    },
    /// The application takes back a message that is still queued.
    Cancel {
        /// The node.
        at: u8,
        /// The receiver.
        to: u8,
    },
    /// The application sends its first messages, and they leave early.
    Open {
        /// The node.
        at: u8,
        /// The receiver.
        to: u8,
        /// How many.
        count: u8,
        /// The stamp.
        ts: u8,
    },
    /// The sender asks, with some envelopes on standby.
    Ask {
        /// The node.
        at: u8,
        /// The receiver.
        to: u8,
        /// `N`.
        standby: u8,
    },
    /// A datagram that was sent once arrives.
    Hear {
        /// The datagram.
        packet: u32,
        /// How many slots the node is willing to grant, if it is an ASK.
        grant: u8,
        /// Whether its sender is let in as a stray before.
        astray: bool,
        /// Whether it is refused, if it is an ASK with a stamp.
        refused: bool,
    },
    /// A message that was sent once arrives, and the application judges it.
    Mark {
        /// The datagram.
        packet: u32,
        /// Whether it is done with it.
        done: bool,
    },
    /// The sender closes.
    Close {
        /// The node.
        at: u8,
        /// The receiver.
        to: u8,
    },
    /// The application gives up on a message that is bound.
    Abandon {
        /// The node.
        at: u8,
        /// The receiver.
        to: u8,
        /// Its slot.
        s: u8,
    },
    /// The application withdraws a message that is bound.
    Withdraw {
        /// The node.
        at: u8,
        /// The receiver.
        to: u8,
        /// Its slot.
        s: u8,
    },
    /// The application answers a call.
    Answer {
        /// The node.
        at: u8,
        /// The caller.
        from: u8,
        /// Its number.
        s: u8,
    },
    /// A reply has been kept for too long.
    Expire {
        /// The node.
        at: u8,
        /// The caller.
        from: u8,
    },
    /// A drained record is dropped.
    Drop {
        /// The node.
        at: u8,
        /// The sender of these messages.
        from: u8,
    },
    /// A record is closed: its STATEs are final.
    End {
        /// The node.
        at: u8,
        /// The sender of these messages.
        from: u8,
    },
    /// A record is evicted.
    Evict {
        /// The node.
        at: u8,
        /// The sender of these messages.
        from: u8,
    },
    /// The fragments of incomplete messages are lost.
    Forget {
        /// The node.
        at: u8,
        /// The sender of these messages.
        from: u8,
    },
    /// A node forgets the stamps that it knows of a sender.
    Unlearn {
        /// The node.
        at: u8,
        /// The sender.
        from: u8,
    },
    /// What lost records took early of a sender has no place any more.
    Full {
        /// The node.
        at: u8,
        /// The sender.
        from: u8,
    },
    /// `latest` rises by one, durably.
    Raise(u8),
    /// A sender outside this world is forgotten: `upper` rises by one, or, if it had a record, to `latest`.
    Outsider {
        /// The node.
        at: u8,
        /// Whether its record is evicted.
        evicted: bool,
    },
    /// The next block of `D` becomes durable.
    Reserve(u8),
    /// Everything that a journal may hold back is written.
    Sync(u8),
    /// The node crashes and starts again.
    Crash {
        /// The node.
        at: u8,
        /// Whether the next block of `D` was written before, unnoticed.
        wrote: bool,
    },
}

impl Step {
    /// The node at which it happens; none if that depends on the datagram.
    pub(crate) fn at(self) -> Option<usize> {
        match self {
            Self::Hear { .. } | Self::Mark { .. } => None,
            Self::Send { at, .. }
            | Self::Open { at, .. }
            | Self::Unlearn { at, .. }
            | Self::Full { at, .. }
            | Self::Raise(at)
            | Self::Outsider { at, .. }
            | Self::Cancel { at, .. }
            | Self::Ask { at, .. }
            | Self::Close { at, .. }
            | Self::Abandon { at, .. }
            | Self::Withdraw { at, .. }
            | Self::Answer { at, .. }
            | Self::Expire { at, .. }
            | Self::Drop { at, .. }
            | Self::End { at, .. }
            | Self::Evict { at, .. }
            | Self::Forget { at, .. }
            | Self::Reserve(at)
            | Self::Sync(at)
            | Self::Crash { at, .. } => Some(at.into()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |node: u8| name(node.into());
        match *self {
            Self::Send { at, to } => write!(f, "{} sends a message to {}", name(at), name(to)),
            Self::Open { at, to, count: 1, ts } => {
                write!(f, "{} sends a message to {} early, under stamp {ts}", name(at), name(to))
            }
            Self::Open { at, to, count, ts } => {
                write!(f, "{} sends {count} messages to {} early, under stamp {ts}", name(at), name(to))
            }
            Self::Unlearn { at, from } => write!(f, "{} forgets the stamps of {}", name(at), name(from)),
            Self::Full { at, from } => {
                write!(f, "{} has no place for what {} sent early", name(at), name(from))
            }
            Self::Raise(at) => write!(f, "{} lets latest rise", name(at)),
            Self::Outsider { at, evicted: false } => {
                write!(f, "{} forgets the stamps of a stranger", name(at))
            }
            Self::Outsider { at, evicted: true } => write!(f, "{} evicts its record of a stranger", name(at)),
            Self::Cancel { at, to } => write!(f, "{} cancels a message to {}", name(at), name(to)),
            Self::Ask { at, to, standby: 0 } => write!(f, "{} asks {}", name(at), name(to)),
            Self::Ask { at, to, standby } => {
                write!(f, "{} asks {}, for {standby} on standby too", name(at), name(to))
            }
            Self::Hear { packet, grant, .. } => write!(f, "datagram {packet} arrives, grant {grant}"),
            Self::Mark { packet, .. } => write!(f, "datagram {packet} arrives, and is judged"),
            Self::Close { at, to } => write!(f, "{} closes to {}", name(at), name(to)),
            Self::Abandon { at, to, s } => write!(f, "{} gives up slot {s} at {}", name(at), name(to)),
            Self::Withdraw { at, to, s } => write!(f, "{} withdraws slot {s} at {}", name(at), name(to)),
            Self::Answer { at, from, s } => write!(f, "{} answers call {s} of {}", name(at), name(from)),
            Self::Expire { at, from } => write!(f, "{} forgets a reply to {}", name(at), name(from)),
            Self::Drop { at, from } => write!(f, "{} drops its record of {}", name(at), name(from)),
            Self::End { at, from } => write!(f, "{} closes its record of {}", name(at), name(from)),
            Self::Evict { at, from } => write!(f, "{} evicts its record of {}", name(at), name(from)),
            Self::Forget { at, from } => write!(f, "{} forgets the fragments of {}", name(at), name(from)),
            Self::Reserve(at) => write!(f, "{} has its next block of numbers", name(at)),
            Self::Sync(at) => write!(f, "{} writes what it held back", name(at)),
            Self::Crash { at, wrote: false } => write!(f, "{} crashes", name(at)),
            Self::Crash { at, wrote: true } => {
                write!(f, "{} crashes, its next block of numbers just written", name(at))
            }
        }
    }
}
