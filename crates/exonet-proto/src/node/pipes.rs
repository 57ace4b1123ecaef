//! Connections: which the driver is to open, and what it says of those that it has.

use core::net::SocketAddr;

use super::Node;
use crate::channel::Pipe;
use crate::event::Dial;
use crate::id::NodeId;
use crate::time::Now;

impl Node {
    /// A connection that the driver is to open: it answers by [`Node::pipe_dialled`], however late, as long as
    /// [`Node::wants_pipe`] says so.
    pub fn poll_dial(&mut self) -> Option<Dial> {
        self.cx.dials.pop_front()
    }

    /// Whether a connection to `peer` that was asked for is still of use. Once it is not, it will be asked for anew.
    pub fn wants_pipe(&mut self, peer: &NodeId) -> bool {
        let place = self.peers.find(peer);
        place.and_then(|place| self.peers.get_mut(place)).is_some_and(crate::peer::Peer::wants_pipe)
    }

    /// A connection to `peer` at `remote` is open, which takes `room` bytes now. None: it is of no use any more.
    pub fn pipe_dialled(&mut self, now: Now, peer: &NodeId, remote: SocketAddr, room: usize) -> Option<Pipe> {
        let place = self.peers.find(peer)?;
        let (peer, cx) = self.at(place).filter(|(peer, _)| peer.link.opening.is_some())?;
        if !peer.wants_pipe() {
            return None;
        }
        let pipe = cx.pipes.open(Some(place), room);
        peer.on_dialled(now, pipe, remote);
        self.after(now, place);
        Some(pipe)
    }

    /// Somebody has opened a connection to this node. It takes `room` bytes now.
    pub fn pipe_accepted(&mut self, room: usize) -> Pipe {
        self.cx.pipes.open(None, room)
    }

    /// The connection can take `room` bytes from now on, framing included: each packet needs two bytes more than its length.
    pub fn pipe_room(&mut self, now: Now, pipe: Pipe, room: usize) {
        self.cx.pipes.set_room(pipe, room);
        if let Some(place) = self.cx.pipes.owner(pipe) {
            self.after(now, place);
        }
    }

    /// Whether anything is or may come on the connection. If not, it is to be closed.
    pub fn uses_pipe(&self, pipe: Pipe) -> bool {
        self.peer_on(pipe).is_some()
    }

    /// The peer whose packets come or may come on the connection. None: it is of no use.
    pub fn peer_on(&self, pipe: Pipe) -> Option<NodeId> {
        let peer = self.peers.get(self.cx.pipes.owner(pipe)?)?;
        peer.link.uses_pipe(pipe).then_some(peer.id)
    }

    /// An opening of the peer at `place` has come by the connection, if it came by one. False: that is another peer's, or gone.
    pub(super) fn claims_pipe(&mut self, pipe: Option<Pipe>, place: u32) -> bool {
        // Who was there before may be forgotten.
        pipe.is_none_or(|pipe| {
            let free = !self.uses_pipe(pipe);
            self.cx.pipes.claim(pipe, place, free)
        })
    }

    /// The connection is no more: what was given to it and not acknowledged is lost.
    pub fn pipe_closed(&mut self, now: Now, pipe: Pipe) {
        let Some(place) = self.cx.pipes.close(pipe) else { return };
        if let Some((peer, cx)) = self.at(place) {
            peer.on_pipe_broken(cx, now, pipe);
        }
        self.after(now, place);
    }
}
