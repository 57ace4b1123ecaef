//! Why a channel ends, or an opening is not taken: the codes of CLOSE (PROTOCOL.md "CLOSE").

/// The channel ends, and nothing else is said.
pub const DONE: u64 = 0;
/// In an ANSWER: policy does not let the initiator in, and nothing that it sent under the stamp of this opening was taken
/// or ever will be.
pub const REFUSED: u64 = 1;
/// In an ANSWER: policy does not let the initiator in; nothing is said of what it has sent early.
pub const REFUSED_IN_DOUBT: u64 = 2;
/// In a data packet: the sender's identity has ended with it, and nothing can be delivered to it any more. Never said by a node
/// whose identity is stored.
pub const FOR_GOOD: u64 = 3;
