//! Hosts on one machine: network namespaces, and what joins them.

mod awake;
mod namespace;
mod pair;
mod star;
mod tun;

pub(crate) use awake::Awake;
pub(crate) use namespace::Namespace;
pub(crate) use pair::{CLIENT_IP, ELSEWHERE, Pair, SERVER_IP};
pub(crate) use star::Star;
pub(crate) use tun::Tun;
