//! The first byte of each frame. 0x07 is reserved for receive timestamps.

pub(super) const PADDING: u8 = 0x00;
pub(super) const PING: u8 = 0x01;
pub(super) const ACK: u8 = 0x02;
pub(super) const CLOSE: u8 = 0x03;
pub(super) const PATH_CHALLENGE: u8 = 0x04;
pub(super) const PATH_RESPONSE: u8 = 0x05;
pub(super) const PARAMS: u8 = 0x06;
pub(super) const ASK: u8 = 0x10;
pub(super) const STATE: u8 = 0x11;
pub(super) const WITHDRAWN: u8 = 0x12;
pub(super) const TOKEN: u8 = 0x14;
pub(super) const HAVE: u8 = 0x15;
pub(super) const REVOKE: u8 = 0x16;
pub(super) const ASK_STAMPED: u8 = 0x17;
pub(super) const EARLY: u8 = 0x18;
pub(super) const STAMP_REJECTED: u8 = 0x19;
pub(super) const REPLY: u8 = 0x1a;
pub(super) const REPLY_ACK: u8 = 0x1b;
pub(super) const PROBE: u8 = 0x1c;
pub(super) const NOCALL: u8 = 0x1d;
pub(super) const COMPUTING: u8 = 0x1e;
pub(super) const VERDICT: u8 = 0x1f;
/// To [`LAST_MESSAGES`], by the bits below.
pub(super) const MESSAGES: u8 = 0x20;
pub(super) const LAST_MESSAGES: u8 = 0x2b;
/// An offset follows the slot.
pub(super) const OFFSET: u8 = 0x01;
/// A length follows that: the frame need not be the last.
pub(super) const LENGTH: u8 = 0x02;
/// For one message whose length was not known when it began: it goes on behind the frame, or ends with it.
pub(super) const GOES_ON: u8 = 0x04;
pub(super) const ENDS: u8 = 0x08;
/// A node that does not know this frame leaves the message where it is.
pub(super) const REVOKE_STREAM: u8 = 0x81;
pub(super) const FIRST_IGNORABLE: u8 = 0x80;
pub(super) const LAST_IGNORABLE: u8 = 0xbf;
