//! What an application knows of where others are.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::{Mono, NodeId};

/// An application goes by an address for so long before it looks it up again.
const LASTS: Duration = Duration::from_secs(300);

/// An address, and when it was looked up.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: SocketAddr,
    at: Mono,
}

/// The addresses that one application was told. They grow old: where a peer has moved since, only the protocol can find
/// it, until the application asks again.
#[derive(Debug, Default)]
pub(crate) struct Book(BTreeMap<NodeId, Entry>);

impl Book {
    /// Where the application believes `id` to be, which is at `address` in truth. It learns that when it asks for the
    /// first time, and when its entry is old. True: the entry had become wrong, and is right again.
    pub(crate) fn look_up(&mut self, now: Mono, id: NodeId, address: SocketAddr) -> (SocketAddr, bool) {
        let new = Entry { address, at: now };
        let entry = self.0.entry(id).or_insert(new);
        let before = entry.address;
        if entry.at + LASTS <= now {
            *entry = new;
        }
        (entry.address, entry.address != before)
    }

    /// Somebody tells the application where `id` is.
    pub(crate) fn is_told(&mut self, now: Mono, id: NodeId, address: SocketAddr) {
        self.0.insert(id, Entry { address, at: now });
    }
}
