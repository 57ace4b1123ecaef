//! The ways in which bytes can be malformed.

/// Why bytes are not a datagram, a frame or a message head of this protocol.
///
/// Every variant is a property of the bytes alone. Whether a peer may send something *now* is judged elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// A datagram of no bytes.
    #[error("an empty datagram")]
    Empty,
    /// A datagram of another version; a [`version_answer`](super::version_answer) may be due.
    #[error("a datagram of version {0}")]
    Version(u8),
    /// A datagram of this version whose kind has no meaning.
    #[error("a datagram of unknown kind {0}")]
    Kind(u8),
    /// The bytes end before the structure does.
    #[error("cut short")]
    Truncated,
    /// A length outside its bounds, or one that disagrees with the structure that it measures.
    #[error("a length out of bounds")]
    Length,
    /// A reserved bit or byte is not zero.
    #[error("a reserved bit is set")]
    Reserved,
    /// A frame that this version does not know and must not ignore.
    #[error("an unknown frame of type {0:#04x}")]
    UnknownFrame(u8),
    /// A range is empty, or leaves its bounds.
    #[error("a range out of bounds")]
    Range,
    /// More or fewer elements than the frame may hold.
    #[error("a count out of bounds")]
    Count,
    /// A number, or the end of a run of them, above 2^62 - 1.
    #[error("a number beyond 62 bits")]
    Number,
    /// A known parameter appears twice.
    #[error("parameter {0} appears twice")]
    DuplicateParameter(u8),
    /// A known parameter has a value that it may not have.
    #[error("parameter {0} has a forbidden value")]
    Parameter(u8),
}
