//! The command from end to end, as processes over loopback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod demo;
mod files;
mod messages;
mod sim;
mod support;
mod usage;
