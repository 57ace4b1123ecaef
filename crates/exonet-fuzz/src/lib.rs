//! The targets of the fuzzers: one function of bytes for each target, which panics when a promise is broken.
//!
//! `fuzz/` drives these functions by coverage; the tests of this crate run them over the corpora that are committed
//! there. Everything is determined by the bytes: keys, randomness and time are constants or come from them.
//!
//! | Target | Bytes are |
//! |---|---|
//! | [`datagram`], [`frames`], [`head`], [`text`] | input of a parser; input that it accepts is written again |
//! | [`state_files`] | damage to the files of an identity |
//! | [`received`], [`recovery`], [`roaming`] | operations and wire numbers for a part of a channel |
//! | [`half`], [`hostile_half`] | schedules of genuine datagrams; a peer that sends any number |
//! | [`opening`], [`packet`] | handshakes and sealed frames of a peer that has genuine keys, for a real node |
//! | [`operations`] | calls and faults in a world of real nodes, under the ledger |

// This crate consists of tests: an error ends in a panic, which the fuzzer reports.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod datagram;
mod driven;
mod frames;
mod half;
mod head;
mod hostile_half;
mod memory;
mod number;
mod opening;
mod operations;
mod ops;
mod packet;
mod puppet;
mod received;
mod recovery;
mod roaming;
mod speech;
mod state_files;
mod text;

pub use datagram::datagram;
pub use frames::frames;
pub use half::half;
pub use head::head;
pub use hostile_half::hostile_half;
pub use opening::opening;
pub use operations::operations;
pub use packet::packet;
pub use received::received;
pub use recovery::recovery;
pub use roaming::roaming;
pub use state_files::state_files;
pub use text::text;

/// A function that a fuzzer calls.
pub type Target = fn(&[u8]);

/// Every target by its name, which is that of its corpus and of its program in `fuzz/fuzz_targets/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("datagram", datagram),
    ("frames", frames),
    ("half", half),
    ("head", head),
    ("hostile_half", hostile_half),
    ("opening", opening),
    ("operations", operations),
    ("packet", packet),
    ("received", received),
    ("recovery", recovery),
    ("roaming", roaming),
    ("state_files", state_files),
    ("text", text),
];
