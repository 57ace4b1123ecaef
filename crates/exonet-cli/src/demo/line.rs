//! The lines that the process of the receiver writes to its parent over a pipe.
//!
//! A line is one write, short enough to be atomic on a pipe, even if the process is killed during the write. Lines
//! that were written stay in the pipe.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use exonet::PeerAddr;

/// The protocols that the demo compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Exonet without a journal.
    Exonet,
    /// Exonet with a journal.
    Journal,
    /// Resending, with a receiver that remembers what it has seen until it is restarted.
    Remembering,
    /// Resending only.
    Plain,
}

/// All sides.
pub(super) const SIDES: [Side; 4] = [Side::Exonet, Side::Journal, Side::Remembering, Side::Plain];

/// A report of the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The receiver can be reached.
    Ready { exonet: PeerAddr, journal: Option<PeerAddr>, remembering: SocketAddr, plain: SocketAddr },
    /// The application has got a message.
    Delivered(Side, u64),
    /// The application with a journal has got a message of this incarnation and slot.
    Kept(u64, (u64, u64)),
    /// The answer to a question: the number of records.
    Records(usize),
}

impl Line {
    fn letter(side: Side) -> char {
        match side {
            Side::Exonet => 'x',
            Side::Journal => 'j',
            Side::Remembering => 'm',
            Side::Plain => 'p',
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { exonet, journal, remembering, plain } => {
                write!(f, "ready {exonet} {remembering} {plain}")?;
                journal.as_ref().map_or(Ok(()), |journal| write!(f, " {journal}"))?;
                writeln!(f)
            }
            Self::Delivered(side, n) => writeln!(f, "{} {n}", Self::letter(*side)),
            Self::Kept(n, (r, s)) => writeln!(f, "k {n} {r} {s}"),
            Self::Records(records) => writeln!(f, "records {records}"),
        }
    }
}

/// The error for a line that no receiver of this version writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the receiver's process sent something that cannot be understood")]
pub(super) struct Strange;

impl FromStr for Line {
    type Err = Strange;

    fn from_str(text: &str) -> Result<Self, Strange> {
        let mut words = text.split_ascii_whitespace();
        let mut next = || words.next().ok_or(Strange);
        let first = next()?;
        let line = match first {
            "ready" => Self::Ready {
                exonet: next()?.parse().map_err(|_| Strange)?,
                remembering: next()?.parse().map_err(|_| Strange)?,
                plain: next()?.parse().map_err(|_| Strange)?,
                journal: next().ok().map(str::parse).transpose().map_err(|_| Strange)?,
            },
            "k" => {
                let mut number = || next()?.parse().map_err(|_| Strange);
                Self::Kept(number()?, (number()?, number()?))
            }
            "records" => Self::Records(next()?.parse().map_err(|_| Strange)?),
            letter => {
                let mut sides = SIDES.into_iter();
                let side = sides.find(|side| letter.chars().eq([Self::letter(*side)]));
                Self::Delivered(side.ok_or(Strange)?, next()?.parse().map_err(|_| Strange)?)
            }
        };
        words.next().is_none().then_some(line).ok_or(Strange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip() {
        let id = exonet::NodeId([3; 32]);
        let ready = |journal| Line::Ready {
            exonet: PeerAddr::from((id, "127.0.0.1:1".parse().unwrap())),
            journal,
            remembering: "127.0.0.1:2".parse().unwrap(),
            plain: "127.0.0.1:3".parse().unwrap(),
        };
        let lines = [
            ready(None),
            ready(Some(PeerAddr::from((id, "127.0.0.1:4".parse().unwrap())))),
            Line::Kept(3, (u64::MAX, 2)),
            Line::Delivered(Side::Exonet, 0),
            Line::Delivered(Side::Remembering, u64::MAX),
            Line::Delivered(Side::Plain, 7),
            Line::Records(12),
        ];
        for line in lines {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
    }

    #[test]
    fn anything_else_is_strange() {
        for text in ["", "x", "x y", "x 1 2", "y 1", "xm 1", "ready a b c", "records", "k 1 2"] {
            assert_eq!(text.parse::<Line>(), Err(Strange), "{text}");
        }
    }
}
