//! Bytes to packets and frames, and back. No state, no clock, no cryptography.
//!
//! `PROTOCOL.md`, sections "Datagrams" and "Frames", specifies this module.
//!
//! Reading never copies and never allocates: [`Datagram::parse`] splits a datagram into views, and [`Frames`] walks an opened
//! payload. A frame is validated as a whole before it is returned, so that iterating over its ranges or entries cannot fail.
//! Every fault has a name in [`Malformed`], and nothing that a peer sends makes this module panic.
//!
//! Writing goes straight into the transmit buffer through [`Writer`]: a frame is written whole or not at all.
//!
//! ```
//! use exonet_proto::wire::{Ask, Bases, Frame, Frames, Writer};
//! use exonet_proto::{Incarnation, Slot, Stamp};
//!
//! let bases = Bases { sender: 1 << 40, receiver: 7 };
//! let mut packet = [0; 64];
//! let mut writer = Writer::new(&mut packet, bases);
//! assert!(writer.ask(Ask { s: Slot(1 << 40), n: 16, l: Slot(1 << 40), ts: Stamp::NONE }));
//! let mut messages = writer.messages(Incarnation(7), Slot(1 << 40)).unwrap();
//! assert!(messages.push(&[0], b"hello"));
//! let len = writer.len();
//!
//! let frames: Result<Vec<_>, _> = Frames::new(&packet[..len], bases).collect();
//! assert!(matches!(frames.unwrap()[..], [Frame::Ask(_), Frame::Messages(_)]));
//! ```

mod ack;
mod base;
mod call;
pub mod close;
mod cursor;
mod datagram;
mod error;
mod frame;
mod head;
mod kind;
mod messages;
mod number;
mod params;
mod ranges;
mod revoke;
mod state;
mod stream;
mod tlv;
mod traceparent;
mod varint;
mod verdict;
mod version;
mod writer;

#[cfg(test)]
mod tests;

pub use ack::{ARRIVAL_SPAN, Ack, AckRanges, Ecn, MAX_ACK_RANGES};
pub use base::Bases;
pub use call::{Reply, Role};
pub(crate) use cursor::Take;
pub use datagram::{
    ANSWER_HEADER, Answer, ChannelIndex, DATA_HEADER, Data, Datagram, MAC, MAX_ANSWER, MAX_ANSWER_PAYLOAD,
    MAX_OPENING, MAX_OPENING_PAYLOAD, MIN_ANSWER, MIN_DATA, MIN_OPENING, MIN_OPENING_PAYLOAD, OPENING_HEADER,
    Opening, RESET, RESET_TOKEN, RETRY, Reset, Retry, TAG, VERSION, answer_header, bears_cookie, channel_of,
    data_header, is_strange, opening_header, reset, retry,
};
pub use error::Malformed;
pub use frame::{Ask, Frame, Frames, MAX_RUN};
pub(crate) use head::ALIKE_HEAD;
pub use head::{Head, MAX_TAG, Priority};
pub(crate) use messages::entry_lead;
pub use messages::{
    Early, Entries, MAX_EARLY, Messages, MessagesWriter, Part, entry_prefix, messages_overhead, split_entry,
};
pub use number::expand;
pub use params::{Params, ResetToken};
pub use ranges::Ranges;
pub use revoke::RevokeStream;
pub use state::{Claim, Have, MAX_HAVE_RANGES, State};
pub use stream::{StreamEnd, StreamMark};
pub use tlv::{Tlv, Tlvs};
pub use traceparent::{ParseTraceparentError, Traceparent};
pub(crate) use varint::put_varint;
pub use varint::varint_len;
pub use verdict::{MAX_REASON, Verdict};
pub use version::{VersionAnswer, version_answer};
pub use writer::Writer;
