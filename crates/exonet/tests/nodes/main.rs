//! Live nodes, over real sockets, one file for each subject. Tests that need their own process are beside this one.
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

mod answers;
mod blocking;
mod calls;
mod carriers;
mod checkpoints;
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
mod networks;
mod outcomes;
mod paths;
mod peers;
mod receivers;
mod sessions;
mod streams;
