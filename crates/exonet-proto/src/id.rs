//! Names of nodes, slots, incarnations and messages.

use core::fmt;
use core::num::NonZeroU64;
use core::str::FromStr;

use blake2::{Blake2s256, Digest};

/// The largest number that the protocol carries: 62 bits, the range of a variable-length integer.
pub const MAX_NUMBER: u64 = (1 << 62) - 1;

/// The number `s` of a slot, drawn from its *sender's* clock. At most [`MAX_NUMBER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u64);

/// The incarnation `r` of a receiver record, drawn from the *receiver's* clock. At most [`MAX_NUMBER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// The incarnation of a message that left before its receiver named a record: only its stamp names one.
    pub const UNNAMED: Self = Self(u64::MAX);
}

/// A stamp `ts`: a second name for the incarnation that the first messages of a sender record meet, chosen by the
/// *sender*: the nanoseconds since 1970 that its clock shows. Zero names none. At most [`MAX_NUMBER`] (the year
/// 2116).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// No stamp.
    pub const NONE: Self = Self(0);

    /// Whether the stamp names anything.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// How often an identity has moved to another place. A peer that has met a later generation of an identity does not talk to an
/// earlier one. At most [`MAX_NUMBER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// Which of the places that claim one [`Generation`] an identity lives at: drawn at random at each arrival, and zero where the
/// identity was made. At most [`MAX_NUMBER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lineage(pub u64);

/// A stay of an identity at one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    /// How often the identity had moved before.
    pub generation: Generation,
    /// Which place it is.
    pub lineage: Lineage,
}

impl Stay {
    /// Whether an identity that has proven to be at `other` does not live here: it has moved on, or two places claim one generation.
    pub(crate) fn is_superseded_by(self, other: Self) -> bool {
        self.generation < other.generation
            || (self.generation == other.generation && self.lineage != other.lineage)
    }
}

/// The name of a journaled message: unique within one journal, and the same after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LetterId(NonZeroU64);

impl LetterId {
    pub(crate) const fn new(id: u64) -> Option<Self> {
        match NonZeroU64::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// The name as a number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The name of the message that was named `n` after this one.
    pub(crate) const fn nth(self, n: u32) -> Self {
        Self(self.0.saturating_add(n as u64))
    }
}

/// A node: its X25519 public key. Addresses are hints; this is its identity.
///
/// The text form is 56 characters of lower-case base32 (RFC 4648 alphabet, no padding) over a version byte,
/// the key and a two-byte checksum.
///
/// ```
/// use exonet_proto::NodeId;
/// let id = NodeId([7; 32]);
/// assert_eq!(id.to_string().parse::<NodeId>().unwrap(), id);
/// assert!("not-a-node".parse::<NodeId>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub [u8; 32]);

/// Version byte of the text form.
const TEXT_VERSION: u8 = 1;
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// 1 version + 32 key + 2 checksum bytes, five bits a character.
const TEXT_LEN: usize = 56;

/// Why a text is not a node id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseNodeIdError {
    /// Not 56 characters long.
    #[error("a node id has {TEXT_LEN} characters, this has {0}")]
    Length(usize),
    /// A character outside a-z and 2-7.
    #[error("a node id consists of a-z and 2-7, this has {0:?}")]
    Character(char),
    /// A version of the text form that this release does not know.
    #[error("node id of unknown version {0}")]
    Version(u8),
    /// The checksum does not match: mistyped or cut.
    #[error("the checksum of the node id does not match: was it mistyped?")]
    Checksum,
}

impl NodeId {
    fn checksum(&self) -> [u8; 2] {
        let digest = Blake2s256::new()
            .chain_update(b"exonet node id")
            .chain_update([TEXT_VERSION])
            .chain_update(self.0)
            .finalize();
        digest.first_chunk().copied().unwrap_or_default()
    }

    /// The first eight characters of the text form, for logs and tables. Not unique.
    pub fn short(&self) -> String {
        self.to_string().chars().take(8).collect()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [TEXT_VERSION].into_iter().chain(self.0).chain(self.checksum());
        let (mut acc, mut bits) = (0_u32, 0);
        let mut text = String::with_capacity(TEXT_LEN);
        for byte in bytes {
            acc = (acc << 8) | u32::from(byte);
            bits += 8;
            while bits >= 5 {
                bits -= 5;
                let digit = (acc >> bits) & 31;
                text.extend(ALPHABET.get(digit as usize).map(|c| char::from(*c)));
            }
        }
        f.pad(&text)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl FromStr for NodeId {
    type Err = ParseNodeIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let length = text.chars().count();
        if length != TEXT_LEN {
            return Err(ParseNodeIdError::Length(length));
        }
        let (mut acc, mut bits) = (0_u32, 0);
        let mut bytes = Vec::with_capacity(35);
        for c in text.chars() {
            let digit = ALPHABET
                .iter()
                .position(|a| char::from(*a) == c)
                .and_then(|d| u32::try_from(d).ok())
                .ok_or(ParseNodeIdError::Character(c))?;
            acc = (acc << 5) | digit;
            bits += 5;
            if bits >= 8 {
                bits -= 8;
                bytes.extend(u8::try_from((acc >> bits) & 0xff));
            }
        }
        let (version, rest) = bytes.split_first().ok_or(ParseNodeIdError::Checksum)?;
        if *version != TEXT_VERSION {
            return Err(ParseNodeIdError::Version(*version));
        }
        let (key, sum) = rest.split_at_checked(32).ok_or(ParseNodeIdError::Checksum)?;
        let id = Self(key.try_into().map_err(|_| ParseNodeIdError::Checksum)?);
        if sum == id.checksum() { Ok(id) } else { Err(ParseNodeIdError::Checksum) }
    }
}

/// The name of a message, the same at both ends and never used twice: its sender, the incarnation of the record that took it, and
/// its slot. It is the idempotency key for external effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The node that sent it.
    pub sender: NodeId,
    /// The receiver's incarnation under which it was bound, or [`Incarnation::UNNAMED`] as long as the sender does not know it;
    /// sender, receiver and slot are enough to name it.
    pub r: Incarnation,
    /// Its slot.
    pub s: Slot,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.r {
            Incarnation::UNNAMED => write!(f, "{}/-/{}", self.sender, self.s.0),
            r => write!(f, "{}/{}/{}", self.sender, r.0, self.s.0),
        }
    }
}

/// A text is not the id of a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseMessageIdError {
    /// It does not have the form `SENDER/NUMBER/NUMBER`.
    #[error("the id of a message has the form SENDER/NUMBER/NUMBER")]
    Form,
    /// The sender is not a node id.
    #[error(transparent)]
    Sender(#[from] ParseNodeIdError),
}

/// Reads what [`Display`](fmt::Display) writes.
impl FromStr for MessageId {
    type Err = ParseMessageIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('/');
        let (Some(sender), Some(r), Some(s), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(ParseMessageIdError::Form);
        };
        let number = |text: &str| {
            let number = text.parse().ok().filter(|n: &u64| *n <= MAX_NUMBER && n.to_string() == text);
            number.ok_or(ParseMessageIdError::Form)
        };
        let r = if r == "-" { Incarnation::UNNAMED } else { Incarnation(number(r)?) };
        Ok(Self { sender: sender.parse()?, r, s: Slot(number(s)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_rejects_a_changed_character() {
        let text = NodeId([42; 32]).to_string();
        for at in 2..TEXT_LEN {
            let mut changed: Vec<char> = text.chars().collect();
            changed[at] = if changed[at] == 'a' { 'b' } else { 'a' };
            let changed: String = changed.into_iter().collect();
            assert!(changed.parse::<NodeId>().is_err(), "{changed}");
        }
    }

    #[test]
    fn the_text_of_a_message_id_is_read_again_and_no_other() {
        let sender = NodeId([42; 32]);
        for r in [Incarnation(0), Incarnation(MAX_NUMBER), Incarnation::UNNAMED] {
            let id = MessageId { sender, r, s: Slot(1 << 40) };
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let above = MAX_NUMBER + 1;
        let no_numbers =
            ["", "/1", "/1/", "/1/x", "/1/2/3", "/+1/2", "/01/2", "/1/-", "/ 1/2", &format!("/{above}/1")];
        for rest in no_numbers {
            let text = format!("{sender}{rest}");
            assert_eq!(text.parse::<MessageId>(), Err(ParseMessageIdError::Form), "{text}");
        }
        assert_eq!("a/1/2".parse::<MessageId>(), Err(ParseNodeIdError::Length(1).into()));
    }

    #[test]
    fn text_form_is_56_characters() {
        assert_eq!(NodeId([255; 32]).to_string().len(), TEXT_LEN);
        assert_eq!("ab".parse::<NodeId>(), Err(ParseNodeIdError::Length(2)));
    }
}

/// The name of a call at both ends. It is never reused: an old reply does not answer a new call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The caller.
    pub caller: NodeId,
    /// The slot of the message that is the call.
    pub s: Slot,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.caller, self.s.0)
    }
}
