//! Nodes that live, over real sockets, one subject a file. What has to be a process of its own is a test beside this one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on has failed"
)]

#[path = "../common/mod.rs"]
mod common;

mod blocking;
mod calls;
mod carriers;
mod confirm;
mod connections;
mod durable;
mod group;
mod group_calls;
mod group_streams;
mod layers;
mod life;
mod messages;
mod moving;
mod outcomes;
mod paths;
mod peers;
mod receivers;
mod sessions;
mod streams;
