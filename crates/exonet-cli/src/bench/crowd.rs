//! The process of the many peers: each is a node that sends one message.

use std::collections::BTreeSet;
use std::io::{self, BufReader, BufWriter};

use bytes::Bytes;
use exonet_proto::node::{Config, Outgoing, Policy};
use exonet_proto::{Mono, NodeId, Now};

use super::frame::{Frame, node_address};
use super::host::{Host, at};
use crate::exit::Exit;
use crate::failure::Failure;

/// Answers each frame on standard input with one frame, until the input ends.
pub(crate) fn crowd(size: usize) -> Result<Exit, Failure> {
    let failed = |e: io::Error| Failure::new("the bench's peers have lost their node").because(&e);
    let mut from = BufReader::new(io::stdin().lock());
    let mut to = BufWriter::new(io::stdout().lock());
    // The first frame has the id of the node instead of a datagram.
    let first = Frame::read(&mut from).map_err(failed)?;
    let id = first.datagrams.first().and_then(|(_, id)| id.as_slice().try_into().ok());
    let id = id.ok_or_else(|| Failure::new("bench-crowd is started by `exon bench`"))?;
    let mut crowd = Crowd {
        to: NodeId(id),
        body: Bytes::from(vec![0x5a; size]),
        peers: Vec::new(),
        calls: BTreeSet::new(),
        open: 0,
        buffer: Vec::new(),
    };
    loop {
        let frame = match Frame::read(&mut from) {
            Ok(frame) => frame,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Exit::Success),
            Err(error) => return Err(failed(error)),
        };
        crowd.turn(frame)?.write(&mut to).map_err(failed)?;
    }
}

struct Crowd {
    to: NodeId,
    body: Bytes,
    peers: Vec<Peer>,
    /// The times at which peers want to be called.
    calls: BTreeSet<(Mono, u32)>,
    /// The number of messages that are not yet delivered.
    open: u32,
    buffer: Vec<u8>,
}

struct Peer {
    host: Host,
    call: Mono,
}

impl Crowd {
    fn turn(&mut self, frame: Frame) -> Result<Frame, Failure> {
        let now = at(frame.time);
        let mut said = Vec::new();
        for _ in 0..frame.number {
            self.birth(now, &mut said)?;
        }
        for (number, mut datagram) in frame.datagrams {
            self.with(number, now, &mut said, |host| {
                host.hear(now, node_address(), &mut datagram);
            });
        }
        while let Some((call, number)) = self.calls.first().copied()
            && call <= now.mono
        {
            self.with(number, now, &mut said, |host| host.node.handle_timeout(now));
        }
        Ok(Frame {
            time: self.calls.first().map_or(Mono::NEVER, |(call, _)| *call),
            number: self.open,
            datagrams: said,
        })
    }

    fn birth(&mut self, now: Now, said: &mut Vec<(u32, Vec<u8>)>) -> Result<(), Failure> {
        let crowded = |e: &dyn std::error::Error| Failure::new("a peer of the bench cannot send").because(e);
        let number = u32::try_from(self.peers.len()).map_err(|e| crowded(&e))?;
        let seed = *blake3::hash(&number.to_be_bytes()).as_bytes();
        let mut host = Host::new(Config::new(Policy::Anyone), seed, now);
        let message = Outgoing { body: self.body.clone(), ..Outgoing::default() };
        let sent = host.node.send(now, self.to, &[node_address()], message);
        sent.map_err(|e| crowded(&e))?;
        self.open += 1;
        self.peers.push(Peer { host, call: Mono::NEVER });
        self.with(number, now, said, |_| ());
        Ok(())
    }

    /// Calls a peer, and then collects its datagrams and the time of its next call.
    fn with(&mut self, number: u32, now: Now, said: &mut Vec<(u32, Vec<u8>)>, call: impl FnOnce(&mut Host)) {
        let peer = usize::try_from(number).ok().and_then(|number| self.peers.get_mut(number));
        let Some(peer) = peer else { return };
        call(&mut peer.host);
        let delivered = peer.host.speak(now, &mut self.buffer, |_, datagram| said.push((number, datagram)));
        self.open = self.open.saturating_sub(delivered);
        self.calls.remove(&(peer.call, number));
        // A call that is due again at once waits for the next turn. Otherwise this turn would never end.
        peer.call = match peer.host.next_call() {
            Mono::NEVER => return,
            next if next <= now.mono => Mono(now.mono.0.saturating_add(1)),
            next => next,
        };
        self.calls.insert((peer.call, number));
    }
}
