//! Messages as bytes: queued, cut into fragments, put together again, bounded by windows.
//!
//! Everything here is soft state: what it forgets comes again, since only a STATE settles a message (PROTOCOL.md "Messages"). A
//! message in wire form is its head followed by its body; *length* and *offset* count that form.

pub(crate) mod arena;
pub(crate) mod arrived;
mod assembly;
mod bundle;
mod fragments;
mod head;
pub(crate) mod inbox;
mod incoming;
pub(crate) mod lane;
mod lines;
mod outcome;
mod outgoing;
mod queue;
mod rows;
pub(crate) mod run;
pub(crate) mod scheduler;
mod shelf;
mod source;
mod store;
mod verdict;
pub(crate) mod waiting;

pub(crate) use assembly::{Assembly, Refused};
pub(crate) use bundle::{BUNDLED, BUNDLED_WHOLE, Bundle};
pub(crate) use fragments::{Fragments, Halves};
pub(crate) use head::read_head;
pub(crate) use inbox::Notice;
pub use incoming::{InStream, Incoming, IncomingBody};
pub use outcome::{Outcome, Refusal};
pub use outgoing::{Alike, DeliveryKey, Early, MessageKey, Outgoing, Priority};
pub(crate) use queue::{Flow, SendQueue};
pub use shelf::{Keep, Shelf};
pub(crate) use source::{SMALL, Source};
pub use store::MAX_STREAM_BODY;
pub(crate) use store::{Ending, HEAD_ROOM, Letter, Store};
pub use verdict::{Confirm, MAX_REASON, Verdict, Word};

/// Messages up to this length share the receiver's pool; larger ones have a window of their own.
pub(crate) const POOLED: u64 = 64 << 10;

/// The longest head: flags, a tag of 255 bytes, and room for extensions.
pub(crate) const MAX_HEAD: u64 = 1_024;
