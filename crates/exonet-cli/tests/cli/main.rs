//! The command from end to end, as processes over loopback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

#[cfg(unix)]
mod calls;
#[cfg(unix)]
mod checkpoints;
#[cfg(unix)]
mod codes;
mod conformance;
#[cfg(unix)]
mod copies;
#[cfg(unix)]
mod crashes;
mod dead;
mod demo;
#[cfg(unix)]
mod ends;
#[cfg(unix)]
mod exec;
mod files;
#[path = "../../../exonet/tests/common/free.rs"]
mod free;
#[cfg(unix)]
mod gateway;
#[cfg(unix)]
mod groups;
#[cfg(unix)]
mod inbox;
#[cfg(unix)]
mod kept;
mod messages;
#[cfg(unix)]
mod metrics;
#[cfg(unix)]
mod moves;
#[cfg(unix)]
mod moving;
mod names;
#[cfg(unix)]
mod readme;
mod relay;
#[cfg(unix)]
mod services;
#[cfg(unix)]
mod sessions;
#[cfg(unix)]
mod shares;
mod shell;
mod sim;
#[cfg(unix)]
#[path = "../../../exonet/tests/common/skip.rs"]
mod skip;
#[cfg(unix)]
mod stderr;
#[cfg(unix)]
mod strangers;
mod support;
#[cfg(unix)]
mod top;
#[cfg(unix)]
mod trace;
#[cfg(unix)]
mod tunnel;
#[cfg(unix)]
mod twins;
#[cfg(unix)]
mod up;
mod usage;
