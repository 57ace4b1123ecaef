//! Why a channel ends, or an opening is refused: the codes of CLOSE (PROTOCOL.md "CLOSE").

/// The channel ends, without a further reason.
pub const DONE: u64 = 0;
/// In an ANSWER: the policy does not let the initiator in, and nothing that it sent under the stamp of this opening was taken or
/// ever will be.
pub const REFUSED: u64 = 1;
/// In an ANSWER: the policy does not let the initiator in. Its early messages stay in doubt.
pub const REFUSED_IN_DOUBT: u64 = 2;
/// In a data packet: the sender's identity has ended with it, and nothing can be delivered to it any more. A node whose identity
/// is stored never sends this.
pub const FOR_GOOD: u64 = 3;
