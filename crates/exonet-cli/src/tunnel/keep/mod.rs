//! Connections that outlive a process at either end.
//!
//! A *keeper* holds the sockets of an identity's programs. It is a process of its own, which outlives the command that
//! has started it ([`process`]); for an identity that does not outlive the command it is a part of the command
//! ([`office`]). The command that has the node, the *run*, carries bytes between a Unix socket of the keeper, the
//! *link* of the connection, and a stream of the other end. So keepers speak to each other ([`frame`]), and each
//! remembers what the other has not got yet ([`machine`]). A link may break at any time, and another one follows.
#![cfg_attr(not(unix), allow(dead_code, reason = "nothing is kept"))]

#[cfg(unix)]
mod client;
#[cfg(unix)]
mod connection;
#[cfg(unix)]
mod drive;
mod former;
#[cfg(unix)]
mod frame;
#[cfg(unix)]
mod machine;
#[cfg(not(unix))]
mod nowhere;
#[cfg(unix)]
mod office;
#[cfg(unix)]
mod pass;
#[cfg(unix)]
mod process;
mod say;
#[cfg(unix)]
mod socket;
#[cfg(unix)]
mod way;

#[cfg(unix)]
pub(crate) use client::{Keeper, Tales, start};
#[cfg(unix)]
pub(crate) use drive::{Road, Standing, drive, follow};
pub(crate) use former::take_over;
#[cfg(not(unix))]
pub(crate) use nowhere::{Keeper, Road, Standing, Tales, drive, follow, start};
#[cfg(unix)]
pub(crate) use process::{close_inherited, run};
pub(crate) use say::{About, Ending, Key, Order, Token, Told, word};

/// The bytes between two keepers, at one of them.
#[cfg(unix)]
pub(crate) type Link = tokio::net::UnixStream;
#[cfg(not(unix))]
pub(crate) type Link = tokio::io::DuplexStream;
