//! How bytes get there: the mechanics of a channel, without keys, frames or sockets.
//!
//! A channel may be dropped and re-made at any instant with nothing lost, so nothing here holds a promise.
//! Packet numbers belong to an *epoch* (one set of keys); round-trip time, congestion and path MTU belong to
//! the *path*, which up to three epochs share:
//!
//! * per epoch: [`Sent<C>`] (what left and what became of it) and [`Received`] (what arrived: replay
//!   protection and what to acknowledge);
//! * per path: [`Recovery`] (loss detection, probe timeouts, [`Rtt`], congestion control, pacing, path MTU);
//! * per peer: [`Roaming`] (which address is in use, and when to move).
//!
//! # Call contract
//!
//! Time never runs backwards between calls. Nothing here reads a clock or allocates per packet once its rings
//! have grown to the size of the window.
//!
//! *Receiving a packet.* [`Received::check`] before decryption: a packet that is not [`Fresh`](received::Arrival::Fresh) is
//! dropped there. After the tag has been verified: [`Received::is_newest`], then [`Roaming::on_packet_from`]. Only a packet of
//! the latest epoch that the peer has used can be the newest of all. Then the frames of the packet are processed.
//! [`Received::on_packet`] comes last, since only the frames say whether an acknowledgement is owed. Nothing else is received in
//! between; if the frames are malformed, the channel ends and there is nothing left to note. After the last packet of a receive
//! batch [`Received::ack_due`] tells when an ACK is owed; write it from [`Received::ranges`] and call [`Received::on_ack_sent`].
//!
//! *Receiving an ACK.* [`Recovery::on_ack`] with the epoch that it acknowledges; an error there is a protocol
//! violation and closes the channel.
//!
//! *Sending a packet.* Ask [`Recovery::allowance`] (not for ACKs, probes and challenges). While assembling,
//! [`Sent::carry`] every item whose fate matters; then [`Recovery::on_sent`], or [`Sent::discard`] if the
//! packet is not sent after all. When there is nothing more to send although the window is open, call
//! [`Recovery::on_app_limited`].
//!
//! *Timers.* Wake at the earliest of [`Sent::loss_time`] of each epoch, [`Recovery::pto_at`],
//! [`Received::ack_due`], the pacing time and [`Roaming::timeout`]. For each epoch whose loss time has
//! come call [`Recovery::on_loss_timeout`]; if the probe timeout has come, [`Recovery::on_pto`].
//!
//! *Ending an epoch.* [`Recovery::on_gone`] reports every item still under way as [`Fate::Gone`].

pub mod congestion;
mod dispersion;
pub mod ecn;
pub(crate) mod hedge;
mod loss;
pub mod mtu;
mod one_way;
pub mod pacer;
pub mod path;
pub(crate) mod pipes;
mod pto;
pub mod rate;
pub mod received;
pub mod recovery;
mod reordering;
pub mod retransmission;
pub mod roaming;
pub mod rtt;
pub mod sent;
mod skips;
mod train;
mod units;

pub use congestion::CongestionControl;
pub use ecn::EcnCounts;
pub use hedge::Hedging;
pub use mtu::MtuSearch;
pub use pacer::Pacer;
pub use path::{Path, PathAddr, Pipe};
pub use received::Received;
pub use recovery::Recovery;
pub use retransmission::Retransmission;
pub use roaming::Roaming;
pub use rtt::Rtt;
pub use sent::{AckOfUnsent, Fate, PacketInfo, Sent};
pub use skips::SkipSeed;
