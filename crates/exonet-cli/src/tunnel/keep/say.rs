//! What a keeper and a run say to each other.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::TryRngCore;
use rand::rngs::OsRng;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::failure::Failure;
use crate::tunnel::carry::Closed;
use crate::tunnel::event::Story;

/// The number of a kept connection: random, made by the end that opens it, known to the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token(u128);

impl Token {
    /// # Errors
    /// The system has no randomness.
    pub(crate) fn random() -> Result<Self, Failure> {
        let mut bytes = [0; 16];
        let filled = OsRng.try_fill_bytes(&mut bytes);
        filled.map_err(|error| Failure::new("no randomness").because(&error))?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Token {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'a'..=b'f'));
        if text.len() != 32 || !digits {
            return Err(());
        }
        u128::from_str_radix(text, 16).map(Self).map_err(drop)
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'a> Deserialize<'a> for Token {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(|()| serde::de::Error::custom("no token"))
    }
}

/// A kept connection. A token of one peer says nothing about the connections of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key {
    /// The id of the other node.
    pub(crate) peer: String,
    pub(crate) token: Token,
}

/// What a run says of a connection, and the next run has to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) token: Token,
    /// This end has opened the connection, and opens the next link of it.
    pub(crate) opener: bool,
    pub(crate) story: Story,
    /// The address that the connection leads to, or where it came from.
    pub(crate) address: String,
}

impl About {
    pub(crate) fn key(&self) -> Key {
        Key { peer: self.story.peer.clone(), token: self.token }
    }
}

/// How a connection has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ending {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// A word for programs, and the reason for people.
    pub(crate) why: String,
    pub(crate) text: String,
    pub(crate) seconds: f64,
}

/// What is done with the end of a connection.
pub(crate) type Told = Box<dyn FnOnce(Ending) + Send>;

impl Ending {
    /// The end of a connection of which nothing more is known.
    pub(crate) fn lost(why: &str, text: &str) -> Self {
        Self { sent: 0, received: 0, why: why.to_owned(), text: text.to_owned(), seconds: 0.0 }
    }

    pub(crate) fn of(closed: &Closed, text: String) -> Self {
        let (sent, received, why) = (closed.sent, closed.received, closed.why.word().to_owned());
        Self { sent, received, why, text, seconds: 0.0 }
    }
}

/// The version of what is said between the processes.
pub(super) const VERSION: u8 = 1;

/// The first line of a process that speaks to a keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) v: u8,
    #[serde(flatten)]
    pub(super) wish: Wish,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Wish {
    /// To be the run: orders and tales follow.
    Attach { keep_ms: u64 },
    /// To hand over the socket that comes with the line; the link of the connection follows.
    New { about: About, window: usize },
    /// A new link of a connection, which follows.
    Link(Key),
}

/// What the run wants.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Break the connection, and remember it no longer.
    Drop { key: Key, why: String, text: String },
    /// Break the connection, and tell the other end.
    Break { key: Key, why: String, text: String },
    /// Break all connections, and tell the other ends.
    Stop,
    /// The run has reported the end of a connection.
    Reported(Key),
}

/// What the keeper tells the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tale {
    /// A connection is kept from a former run.
    Kept(Box<About>),
    /// The former run has reported the end of this one of them.
    Reported(Key),
    /// There are no more of them.
    All,
    /// A connection has ended. The other end may not know yet.
    Closed { key: Key, ending: Ending },
    /// Nothing is left of a connection.
    Forgotten(Key),
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The word for why a connection has ended.
pub(crate) fn word(why: &str) -> &'static str {
    const WORDS: [&str; 14] = [
        "ended",
        "reset_here",
        "reset_there",
        "denied",
        "busy",
        "malformed",
        "gone",
        "barred",
        "idle",
        "restarted",
        "left",
        "silent",
        "stopping",
        "failed",
    ];
    WORDS.into_iter().find(|word| *word == why).unwrap_or("failed")
}
