//! Two genuine half-connections over a network that keeps every datagram ever sent, and delivers any of them at any
//! time: each message is delivered at most once, and its outcome is true.

use std::collections::VecDeque;

use arbitrary::Arbitrary;
use exonet_proto::half::{Answer, Ask, Bound, Clock, Proof, Receiver, Sender, State};
use exonet_proto::{Incarnation, Slot, Stamp};

use crate::ops::ops;

/// The largest number of datagrams that the network keeps.
const KEPT: usize = 256;

#[derive(Debug, Arbitrary)]
enum Op {
    Send {
        at: bool,
    },
    /// A datagram, counted from the newest; `grant` is the number of slots that its receiver may grant.
    Deliver {
        which: u8,
        grant: u8,
    },
    Ask {
        at: bool,
        standby: u8,
    },
    Resend {
        at: bool,
    },
    PushState {
        at: bool,
        skip: u8,
        cut: u8,
    },
    Retry {
        at: bool,
        grant: u8,
    },
    Close {
        at: bool,
    },
    Abandon {
        at: bool,
    },
    Drop {
        at: bool,
    },
    Evict {
        at: bool,
    },
    Persist {
        at: bool,
    },
    Crash {
        at: bool,
    },
}

#[derive(Clone, Debug)]
enum Datagram {
    Ask(Ask),
    Token(Slot, Incarnation, usize),
    State(State),
}

/// The true state of a message.
#[derive(Clone, Copy, Debug, Default)]
struct Truth {
    slot: Option<Slot>,
    delivered: bool,
    settled: bool,
}

struct Node {
    clock: Clock,
    sender: Option<Sender<usize>>,
    queue: VecDeque<usize>,
    record: Option<Receiver>,
    /// `ck` as it was last seen: it never decreases.
    ck: u64,
    /// The amnesia frontier, computed from the records that were forgotten.
    forgotten: u64,
}

struct Pair {
    nodes: [Node; 2],
    network: VecDeque<(usize, Datagram)>,
    truth: Vec<Truth>,
    block: u64,
}

/// A schedule; the first byte is the block of `D`.
pub fn half(data: &[u8]) {
    let Some((block, rest)) = data.split_first() else { return };
    let block = u64::from(*block) + 1;
    let mut pair = Pair {
        nodes: [Node::new(block), Node::new(block)],
        network: VecDeque::new(),
        truth: Vec::new(),
        block,
    };
    for op in ops::<Op>(rest, 400) {
        pair.apply(op);
        pair.check();
    }
    pair.rest();
}

impl Node {
    fn new(block: u64) -> Self {
        let mut clock = Clock::boot(0, Stamp::NONE, block);
        clock.persisted(block);
        let ck = clock.ck();
        Self { clock, sender: None, queue: VecDeque::new(), record: None, ck, forgotten: 0 }
    }
}

impl Pair {
    fn apply(&mut self, op: Op) {
        match op {
            Op::Send { at } => self.send(at.into()),
            Op::Deliver { which, grant } => {
                let which = usize::from(which);
                let at = self.network.len().checked_sub(which + 1);
                if let Some((to, datagram)) = at.and_then(|at| self.network.get(at)).cloned() {
                    self.deliver(to, datagram, grant.into());
                }
            }
            Op::Ask { at, standby } => self.pump(at.into(), standby.into()),
            Op::Resend { at } => self.resend(at.into()),
            Op::PushState { at, skip, cut } => self.push_state(at.into(), skip.into(), cut.into()),
            Op::Retry { at, grant } => self.retry(at.into(), grant.into()),
            Op::Close { at } => self.close(at.into()),
            Op::Abandon { at } => self.abandon(at.into()),
            Op::Drop { at } => {
                let record = &mut self.nodes[usize::from(at)].record;
                record.take_if(|record| record.is_drained());
            }
            Op::Evict { at } => {
                let node = &mut self.nodes[usize::from(at)];
                if let Some(record) = node.record.take() {
                    node.forgotten = node.forgotten.max(record.incarnation().0 + 1);
                    record.evict(&mut Bound::default(), &mut node.clock);
                }
            }
            Op::Persist { at } => {
                let clock = &mut self.nodes[usize::from(at)].clock;
                if let Some(durable) = clock.wanted() {
                    clock.persisted(durable);
                }
            }
            Op::Crash { at } => self.crash(at.into()),
        }
    }

    fn post(&mut self, from: usize, datagram: Datagram) {
        self.network.push_back((1 - from, datagram));
        if self.network.len() > KEPT {
            self.network.pop_front();
        }
    }

    fn send(&mut self, at: usize) {
        self.truth.push(Truth::default());
        let node = &mut self.nodes[at];
        node.queue.push_back(self.truth.len() - 1);
        node.sender.get_or_insert_with(|| Sender::open(&node.clock));
        self.pump(at, 0);
    }

    /// Binds the messages that can be bound, then asks for slots.
    fn pump(&mut self, at: usize, standby: u64) {
        let node = &mut self.nodes[at];
        let Some(sender) = &mut node.sender else { return };
        let mut out = Vec::new();
        while let Some(m) = node.queue.pop_front() {
            match sender.bind(m) {
                Ok((s, r)) => {
                    let slot = &mut self.truth[m].slot;
                    assert!(slot.replace(s).is_none(), "bound twice");
                    out.push(Datagram::Token(s, r, m));
                }
                Err(m) => {
                    node.queue.push_front(m);
                    break;
                }
            }
        }
        if let Some(ask) = sender.ask(&mut node.clock, node.queue.len() as u64, standby) {
            assert!(ask.end() <= Some(node.clock.limit()), "asked for what is not durable");
            out.push(Datagram::Ask(ask));
        }
        out.into_iter().for_each(|datagram| self.post(at, datagram));
    }

    fn resend(&mut self, at: usize) {
        let tokens = self.nodes[at].sender.iter().flat_map(Sender::tokens);
        let tokens: Vec<_> = tokens.map(|(s, r, m)| Datagram::Token(s, r, *m)).collect();
        tokens.into_iter().for_each(|token| self.post(at, token));
    }

    /// Sends a STATE of the record, or of a part of it.
    fn push_state(&mut self, at: usize, skip: u64, cut: u64) {
        let node = &self.nodes[at];
        let mut state = State::of(node.record.as_ref(), &Bound::default(), &node.clock, Stamp::NONE);
        if let Some(claim) = &mut state.live {
            let lo = claim.lo;
            claim.lo.0 = (claim.lo.0 + skip).min(claim.up.0);
            claim.part = claim.lo > lo;
            claim.up.0 = claim.up.0.saturating_sub(cut).max(claim.lo.0);
            claim.free.remove_below(claim.lo.0);
            claim.free.remove_range(claim.up.0..u64::MAX);
        }
        self.post(at, Datagram::State(state));
    }

    fn deliver(&mut self, at: usize, datagram: Datagram, grant: u64) {
        let node = &mut self.nodes[at];
        match datagram {
            Datagram::Ask(ask) => {
                let _: Answer =
                    Receiver::on_ask(&mut node.record, &mut Bound::default(), &mut node.clock, ask, grant);
                if ask.n > 0 {
                    self.push_state(at, 0, 0);
                }
            }
            Datagram::Token(s, r, m) => {
                if node.record.as_mut().is_some_and(|record| record.take(s, r)) {
                    let truth = &mut self.truth[m];
                    assert!(
                        !std::mem::replace(&mut truth.delivered, true),
                        "message {m} was delivered twice"
                    );
                }
                self.push_state(at, 0, 0);
            }
            Datagram::State(state) => self.on_state(at, &state),
        }
    }

    fn on_state(&mut self, at: usize, state: &State) {
        let forgotten = self.nodes[1 - at].forgotten;
        let node = &mut self.nodes[at];
        let Some(sender) = &mut node.sender else {
            if state.live.is_some() {
                let farewell = Ask::farewell(&node.clock);
                self.post(at, Datagram::Ask(farewell));
            }
            return;
        };
        let truth = &mut self.truth;
        sender.on_state(state, |_, r, m, verdict| {
            assert!(
                verdict != Proof::NotTaken,
                "message {m} is said not to be taken, and no record was closed"
            );
            let truth = &mut truth[m];
            assert!(!std::mem::replace(&mut truth.settled, true), "message {m} was settled twice");
            match verdict {
                Proof::Delivered => assert!(truth.delivered, "message {m} is said to be delivered"),
                Proof::NotTaken | Proof::Unknown => {
                    assert!(r.is_some_and(|r| r.0 < forgotten), "message {m} is unknown for no reason");
                }
            }
        });
        self.pump(at, 0);
    }

    fn retry(&mut self, at: usize, grant: u64) {
        let node = &mut self.nodes[at];
        if Receiver::retry(&mut node.record, &mut Bound::default(), &mut node.clock, grant) {
            self.push_state(at, 0, 0);
        }
    }

    fn close(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if node.queue.is_empty()
            && let Some(farewell) = Sender::close(&mut node.sender, &mut node.clock)
        {
            self.post(at, Datagram::Ask(farewell));
        }
    }

    fn abandon(&mut self, at: usize) {
        let Some(sender) = &mut self.nodes[at].sender else { return };
        let oldest = sender.tokens().next().map(|(s, ..)| s);
        if let Some(m) = oldest.and_then(|s| sender.abandon(s)) {
            self.truth[m].settled = true;
        }
    }

    fn crash(&mut self, at: usize) {
        let block = self.block;
        let node = &mut self.nodes[at];
        let dead = node
            .sender
            .take()
            .into_iter()
            .flat_map(|sender| sender.tokens().map(|(_, _, m)| *m).collect::<Vec<_>>());
        dead.chain(node.queue.drain(..)).for_each(|m| self.truth[m].settled = true);
        node.record = None;
        let durable = node.clock.limit().0;
        node.forgotten = durable;
        node.clock = Clock::boot(durable, Stamp::NONE, block);
    }

    fn check(&mut self) {
        for node in &mut self.nodes {
            let ck = node.clock.ck();
            assert!(node.ck <= ck && ck <= node.clock.limit().0, "ck went back, or beyond D");
            assert_eq!(node.clock.b().0, node.forgotten);
            node.ck = ck;
            if let Some(record) = &node.record {
                assert!(record.incarnation().0 < ck, "an incarnation that was not handed out");
            }
            if let Some(sender) = &node.sender {
                assert!(sender.tokens().all(|(s, ..)| s >= sender.frontier()));
            }
        }
    }

    /// Delivers over a fair network until everything is at rest: everything that was not forgotten must be delivered.
    fn rest(&mut self) {
        for _ in 0..64 {
            for at in [0, 1] {
                self.apply(Op::Persist { at: at == 1 });
                self.pump(at, 0);
                self.resend(at);
                self.push_state(at, 0, 0);
                let network: Vec<_> = self.network.drain(..).collect();
                network.into_iter().for_each(|(to, datagram)| self.deliver(to, datagram, 64));
                self.check();
            }
            if self.truth.iter().all(|truth| truth.settled) {
                return;
            }
        }
        let open = self.truth.iter().position(|truth| !truth.settled);
        panic!("message {open:?} never ends");
    }
}
