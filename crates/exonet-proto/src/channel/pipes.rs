//! The connections that a driver has opened or accepted: which peer each belongs to, and how many bytes it takes now.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::path::Pipe;

/// How many bytes a connection puts before each packet: its length.
const FRAMING: usize = 2;

#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// The place of the peer at the other end, once a peer has appeared there.
    owner: Option<u32>,
    /// How many bytes the connection takes now.
    room: usize,
}

/// The connections of a node.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    open: BTreeMap<Pipe, Open>,
    last: u32,
}

impl Pipes {
    /// A connection that takes `room` bytes has begun. It belongs to `owner` if this node dialled it.
    pub(crate) fn open(&mut self, owner: Option<u32>, room: usize) -> Pipe {
        // After four thousand million connections, an old one with this number may still be open.
        loop {
            self.last = self.last.wrapping_add(1);
            let pipe = Pipe(self.last);
            if let Entry::Vacant(place) = self.open.entry(pipe) {
                place.insert(Open { owner, room });
                return pipe;
            }
        }
    }

    /// The connection has ended. Returns the place of the peer that it belonged to.
    pub(crate) fn close(&mut self, pipe: Pipe) -> Option<u32> {
        self.open.remove(&pipe)?.owner
    }

    pub(crate) fn owner(&self, pipe: Pipe) -> Option<u32> {
        self.open.get(&pipe)?.owner
    }

    /// The peer at `place` has appeared on the connection. False: the connection belongs to another peer and is not `free`, or it
    /// has ended. Each connection has one peer, so that its end concerns only that peer.
    pub(crate) fn claim(&mut self, pipe: Pipe, place: u32, free: bool) -> bool {
        let Some(entry) = self.open.get_mut(&pipe) else { return false };
        if free {
            entry.owner = Some(place);
        }
        *entry.owner.get_or_insert(place) == place
    }

    /// The connection takes `room` bytes from now on.
    pub(crate) fn set_room(&mut self, pipe: Pipe, room: usize) {
        if let Some(entry) = self.open.get_mut(&pipe) {
            entry.room = room;
        }
    }

    /// Whether the connection takes a packet of `bytes` now.
    pub(crate) fn has_room(&self, pipe: Pipe, bytes: usize) -> bool {
        self.open.get(&pipe).is_some_and(|entry| entry.room >= bytes.saturating_add(FRAMING))
    }

    /// A packet of `bytes` goes to the connection.
    pub(crate) fn spend(&mut self, pipe: Pipe, bytes: usize) {
        if let Some(entry) = self.open.get_mut(&pipe) {
            entry.room = entry.room.saturating_sub(bytes.saturating_add(FRAMING));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_one_peers() {
        let mut pipes = Pipes::default();
        let (taken, dialled) = (pipes.open(None, 0), pipes.open(Some(7), 0));
        assert!(
            pipes.claim(taken, 3, false) && pipes.claim(taken, 3, false) && !pipes.claim(taken, 4, false)
        );
        assert!(!pipes.claim(dialled, 3, false) && pipes.claim(dialled, 3, true));
        assert_eq!((pipes.close(taken), pipes.close(taken)), (Some(3), None));
        assert!(!pipes.claim(taken, 3, true), "it is gone");
    }

    #[test]
    fn it_takes_what_it_has_room_for() {
        let mut pipes = Pipes::default();
        let pipe = pipes.open(None, 0);
        assert!(!pipes.has_room(pipe, 1), "nothing was said of it yet");
        pipes.set_room(pipe, 100);
        assert!(pipes.has_room(pipe, 98) && !pipes.has_room(pipe, 99));
        pipes.spend(pipe, 58);
        assert!(pipes.has_room(pipe, 38) && !pipes.has_room(pipe, 39));
        pipes.spend(pipe, 1_000);
        assert!(!pipes.has_room(pipe, 1));
    }
}
