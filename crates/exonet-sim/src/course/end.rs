//! A node on a course, with its application.

use core::net::SocketAddr;
use core::time::Duration;

use bytes::Bytes;
use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{Arrival, Boot, Config, Event, Incoming, IncomingBody, Node, Outgoing};
use exonet_proto::{Mono, NodeId, Now};

/// The size of every message, in bytes.
pub const SIZE: usize = 1_024;

/// The method of all calls.
static METHOD: Bytes = Bytes::from_static(b"echo");

/// The size in bytes of a datagram with one message and nothing else, including the headers of IPv4 and UDP.
pub const PACKET: usize = SIZE + 61;

/// How many messages a bulk sender keeps open: more than any link of a course holds.
const BACKLOG: u64 = 12_288;

/// What the application of an end does.
#[derive(Debug)]
pub(super) enum Work {
    /// Sends as fast as the node allows.
    Bulk { open: u64 },
    /// Sends `left` more messages, or makes as many calls, and no more.
    Batch { left: u64, open: u64, calls: bool },
    /// Sends one message at a time, at fixed intervals, whatever happens to the earlier ones.
    Visitor { every: Duration, next: Mono },
    /// Takes messages.
    Sink,
    /// Each actor makes a call, and makes the next one when it has the reply.
    Caller { since: Vec<Mono>, idle: Vec<u64>, latencies: Latencies },
    /// Answers calls.
    Server,
}

impl Work {
    pub(super) fn caller(actors: u64) -> Self {
        Self::Caller { since: Vec::new(), idle: (0..actors).rev().collect(), latencies: Latencies::default() }
    }
}

/// The latencies of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// The number of calls that have ended.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The latency that this share of the calls did not exceed. The share is from 0 to 1.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index below the length"
        )]
        let at = (sorted.len().saturating_sub(1) as f64 * share) as usize;
        sorted.get(at).copied().unwrap_or_default()
    }
}

#[derive(Debug)]
pub(super) struct End {
    pub(super) node: Node,
    pub(super) address: SocketAddr,
    /// The other end of the pair, and the direction to it.
    pub(super) peer: usize,
    pub(super) way: usize,
    /// The end that begins knows it; the other end learns it.
    pub(super) peer_id: Option<(NodeId, SocketAddr)>,
    pub(super) timer: Option<Mono>,
    /// Datagrams that have arrived, and for which the node has not woken up.
    pub(super) inbox: Vec<(Arrival, Vec<u8>)>,
    /// Until when datagrams stay in the inbox.
    pub(super) rests_until: Mono,
    pub(super) received: u64,
    /// When the last message of a [`Work::Batch`] was settled, and when the last message was taken.
    pub(super) settled: Option<Mono>,
    pub(super) taken: Option<Mono>,
    work: Work,
    body: Bytes,
}

impl End {
    pub(super) fn new(
        config: Config,
        secret: [u8; 32],
        address: SocketAddr,
        peer: usize,
        way: usize,
        work: Work,
        now: Now,
    ) -> Self {
        let node = Node::new(config, SecretKey::from_bytes(secret), Boot::Ephemeral, secret, now);
        let body = Bytes::from(vec![0x5a; SIZE]);
        Self {
            node,
            address,
            peer,
            way,
            peer_id: None,
            timer: None,
            inbox: Vec::new(),
            rests_until: Mono(0),
            received: 0,
            settled: None,
            taken: None,
            work,
            body,
        }
    }

    /// When the application acts next without an event.
    pub(super) fn next_work(&self) -> Option<Mono> {
        if let Work::Visitor { next, .. } = &self.work { Some(*next) } else { None }
    }

    pub(super) fn take_latencies(&mut self) -> Latencies {
        match &mut self.work {
            Work::Caller { latencies, .. } => std::mem::take(latencies),
            _ => Latencies::default(),
        }
    }

    /// Takes messages that have arrived, and sends what is due.
    pub(super) fn work(&mut self, now: Now) {
        while let Some(event) = self.node.poll_event() {
            let count = match event {
                Event::Outcome { count, .. } => count,
                Event::Reply { .. } => 1,
                _ => continue,
            };
            match &mut self.work {
                Work::Bulk { open } => *open = open.saturating_sub(u64::from(count)),
                Work::Batch { left, open, .. } => {
                    *open = open.saturating_sub(u64::from(count));
                    if *left == 0 && *open == 0 {
                        self.settled.get_or_insert(now.mono);
                    }
                }
                _ => {}
            }
        }
        while let Some(incoming) = self.node.take_call(now, &METHOD) {
            self.taken = Some(now.mono);
            if let (Some(call), IncomingBody::Whole(body)) = (incoming.call, incoming.body) {
                self.node.reply(now, call, 0, body);
            }
        }
        while let Some(incoming) = self.node.recv(now) {
            self.received += 1;
            self.taken = Some(now.mono);
            self.take(now, &incoming);
        }
        let Some(peer) = self.peer_id else { return };
        match &mut self.work {
            Work::Bulk { open } => {
                // It sends in batches, so that it is not called for every single outcome.
                if *open > BACKLOG / 2 {
                    return;
                }
                while *open < BACKLOG && send(&mut self.node, now, peer, &self.body) {
                    *open += 1;
                }
            }
            Work::Batch { left, open, calls } => {
                let hand_over = if *calls { call } else { send };
                while *left > 0 && hand_over(&mut self.node, now, peer, &self.body) {
                    (*left, *open) = (*left - 1, *open + 1);
                }
            }
            Work::Caller { since, idle, .. } => {
                while let Some(actor) = idle.pop() {
                    if since.len() as u64 <= actor {
                        since.resize(usize::try_from(actor).unwrap_or(usize::MAX) + 1, now.mono);
                    }
                    if let Some(at) = usize::try_from(actor).ok().and_then(|actor| since.get_mut(actor)) {
                        *at = now.mono;
                    }
                    if !send(&mut self.node, now, peer, &marked(actor)) {
                        idle.push(actor);
                        break;
                    }
                }
            }
            Work::Visitor { every, next } => {
                if *next <= now.mono {
                    *next = now.mono + *every;
                    // If there is no room for a message, the application skips it, as a sensor would.
                    let _ = send(&mut self.node, now, peer, &self.body);
                }
            }
            Work::Sink | Work::Server => {}
        }
    }

    fn take(&mut self, now: Now, incoming: &Incoming) {
        let IncomingBody::Whole(body) = &incoming.body else { return };
        match &mut self.work {
            Work::Server => {
                let _ = self.node.send(
                    now,
                    incoming.id.sender,
                    &[],
                    Outgoing { body: body.clone(), ..Outgoing::default() },
                );
            }
            Work::Caller { since, idle, latencies } => {
                let Some(actor) = body.first_chunk().map(|it| u64::from_be_bytes(*it)) else { return };
                if let Some(begun) = usize::try_from(actor).ok().and_then(|actor| since.get(actor)) {
                    latencies.0.push(now.mono.since(*begun));
                    idle.push(actor);
                }
            }
            // An end that also sends learns its peer from the first message that it receives.
            Work::Bulk { .. } => {
                let address = super::address(self.peer);
                self.peer_id.get_or_insert((incoming.id.sender, address));
            }
            Work::Batch { .. } | Work::Sink | Work::Visitor { .. } => {}
        }
    }
}

fn call(node: &mut Node, now: Now, (id, address): (NodeId, SocketAddr), body: &Bytes) -> bool {
    let call = Outgoing { body: body.clone(), tag: METHOD.clone(), ..Outgoing::default() };
    node.call(now, id, &[address], call).is_ok()
}

fn send(node: &mut Node, now: Now, (id, address): (NodeId, SocketAddr), body: &Bytes) -> bool {
    node.send(now, id, &[address], Outgoing { body: body.clone(), ..Outgoing::default() }).is_ok()
}

/// A body that names an actor.
fn marked(actor: u64) -> Bytes {
    let mut body = vec![0x5a; SIZE];
    if let Some(mark) = body.first_chunk_mut() {
        *mark = actor.to_be_bytes();
    }
    body.into()
}
