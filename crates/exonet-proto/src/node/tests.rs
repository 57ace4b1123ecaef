//! Rules whose bounds no test can reach by sending alone, or that only the inside of a node shows.

use core::net::SocketAddr;
use core::time::Duration;

use bytes::Bytes;

use super::*;
use crate::channel::PacketInfo;
use crate::crypto::SecretKey;
use crate::id::Slot;
use crate::node::inbound::Inbound;
use crate::time::{Mono, Now, Wall};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn address(end: usize) -> SocketAddr {
    ([127, 0, 0, 1], 1 + u16::try_from(end).unwrap()).into()
}

/// Two nodes joined without delay: `ends[0]` has the smaller id.
struct Pair {
    ends: [Node; 2],
    now: Now,
    /// The largest datagram so far.
    largest: usize,
    /// What `ends[1]` would have got, while it is cut off.
    withheld: Option<Vec<Vec<u8>>>,
    /// Outcomes at `ends[0]`.
    outcomes: Vec<(MessageKey, Outcome)>,
}

impl Pair {
    fn new(configs: [Config; 2]) -> Self {
        let now = Now { mono: Mono(1_000_000_000), wall: Wall(0) };
        let mut keys = [1, 2].map(|seed| SecretKey::from_bytes([seed; 32]));
        if keys[0].node_id() > keys[1].node_id() {
            keys.swap(0, 1);
        }
        let [a, b] = keys;
        let [for_a, for_b] = configs;
        let ends = [
            Node::new(for_a, a, Boot::Ephemeral, [1; 32], now),
            Node::new(for_b, b, Boot::Ephemeral, [2; 32], now),
        ];
        Self { ends, now, largest: 0, withheld: None, outcomes: Vec::new() }
    }

    fn open() -> Self {
        Self::new([config(), config()])
    }

    fn send_as(&mut self, from: usize, size: usize, priority: Priority) -> MessageKey {
        let (id, at) = (self.ends[1 - from].id(), address(1 - from));
        let message = Outgoing { body: Bytes::from(vec![7; size]), priority, ..Outgoing::default() };
        self.ends[from].send(self.now, id, &[at], message).unwrap()
    }

    fn send(&mut self, from: usize, size: usize) -> MessageKey {
        self.send_as(from, size, Priority::Normal)
    }

    /// What is ready goes over, until nothing is.
    fn pump(&mut self) {
        let mut buffer = Vec::new();
        loop {
            let mut busy = false;
            for from in 0..2 {
                while let Some(transmit) = self.ends[from].poll_transmit(self.now, 16, &mut buffer) {
                    busy = true;
                    for datagram in buffer.chunks_mut(transmit.segment) {
                        self.largest = self.largest.max(datagram.len());
                        if let (0, Some(withheld)) = (from, &mut self.withheld) {
                            withheld.push(datagram.to_vec());
                            continue;
                        }
                        let arrival = Arrival { remote: address(from), local_ip: None, ecn: 0 };
                        self.ends[1 - from].handle_datagram(self.now, arrival, datagram);
                    }
                }
            }
            while let Some(event) = self.ends[0].poll_event() {
                if let Event::Outcome { key, outcome, .. } = event {
                    self.outcomes.push((key, outcome));
                }
            }
            if !busy {
                return;
            }
        }
    }

    /// Time passes; the receivers do not take anything.
    fn pass(&mut self, span: Duration) {
        let until = self.now.mono + span;
        self.pump();
        while let Some(at) = self.ends.iter().filter_map(Node::poll_timeout).min().filter(|at| *at <= until) {
            self.now.mono = self.now.mono.max(at);
            for end in &mut self.ends {
                if end.poll_timeout().is_some_and(|at| at <= self.now.mono) {
                    end.handle_timeout(self.now);
                }
            }
            self.pump();
        }
        self.now.mono = until;
    }

    /// A message goes from `from` and is taken: there is a channel, begun by `from` if there was none.
    fn talk(&mut self, from: usize) {
        self.send(from, 100);
        self.pass(SECOND);
        assert!(self.ends[1 - from].recv(self.now).is_some());
        self.pass(SECOND);
    }

    fn peer(&mut self, end: usize) -> &mut Peer {
        self.ends[end].peers.get_mut(0).unwrap()
    }

    fn epoch(&mut self, end: usize) -> &mut epoch::Epoch {
        self.peer(end).link.current.as_deref_mut().unwrap()
    }

    fn handshakes(&self, end: usize) -> u64 {
        self.ends[end].counts().handshakes
    }

    /// `end` renews its keys now.
    fn renew(&mut self, end: usize) {
        self.peer(end).link.reopen = true;
        let now = self.now;
        self.ends[end].touch(now, 0);
        self.pump();
    }
}

fn config() -> Config {
    Config::new(Policy::Anyone)
}

fn limited(limits: Limits) -> Config {
    Config { limits, ..config() }
}

#[test]
fn keys_on_which_too_much_was_forged_are_not_used_again() {
    let mut pair = Pair::open();
    pair.talk(0);
    let epoch = pair.epoch(1);
    let limit = epoch.suite.forgery_limit(65_527);
    epoch.forged = limit - 2;
    let mut forged = crate::wire::data_header(epoch.index, 1_000).to_vec();
    forged.resize(100, 7);
    let arrival = Arrival { remote: address(0), local_ip: None, ecn: 0 };
    pair.ends[1].handle_datagram(pair.now, arrival, &mut forged.clone());
    assert!(pair.peer(1).link.is_connected(), "one below");
    pair.ends[1].handle_datagram(pair.now, arrival, &mut forged);
    assert!(!pair.peer(1).link.is_connected());
}

#[test]
fn keys_that_have_sealed_all_they_may_seal_nothing_more() {
    let mut pair = Pair::open();
    pair.talk(0);
    let limit = pair.epoch(0).suite.seal_limit(65_527);
    pair.epoch(0).sealed = limit;
    pair.send(0, 100);
    let mut first = Vec::new();
    pair.ends[0].poll_transmit(pair.now, 1, &mut first).unwrap();
    assert_eq!(first[0] & 0xf, 1, "an opening");
    assert!(!pair.peer(0).link.is_connected());
}

#[test]
fn keys_are_renewed_when_they_have_sealed_half_of_what_they_may() {
    let mut pair = Pair::open();
    pair.talk(0);
    let limit = pair.epoch(0).suite.seal_limit(65_527);
    pair.epoch(0).sealed = limit / 2 - 1_000;
    pair.talk(0);
    assert_eq!(pair.handshakes(0), 1, "not yet");
    pair.epoch(0).sealed = limit / 2;
    pair.talk(0);
    assert_eq!(pair.handshakes(0), 2);
    assert!(pair.epoch(0).sealed < 1_000);
}

#[test]
fn who_acknowledges_nothing_is_not_talked_to_for_ever() {
    let mut pair = Pair::open();
    pair.talk(0);
    let now = pair.now.mono;
    let link = &mut pair.peer(0).link;
    let epoch = link.current.as_deref_mut().unwrap();
    while epoch.sent.remembered() <= transmit::MAX_REMEMBERED {
        link.recovery.on_sent(now, &mut epoch.sent, PacketInfo::ack(30));
    }
    pair.send(0, 100);
    let mut first = Vec::new();
    pair.ends[0].poll_transmit(pair.now, 1, &mut first).unwrap();
    assert_eq!(first[0] & 0xf, 1, "an opening");
}

#[test]
fn who_began_the_keys_renews_them_first() {
    let mut pair = Pair::open();
    pair.talk(0);
    let ages = [0, 1].map(|end| {
        let config = config();
        let link = &mut pair.peer(end).link;
        let born = link.current.as_ref().unwrap().born;
        link.used_at = born + MS;
        link.rekey_at(&config).since(born)
    });
    assert_eq!(ages, [120 * SECOND, 150 * SECOND]);
}

#[test]
fn the_shorter_idle_timeout_holds_with_a_floor() {
    let mut pair = Pair::open();
    pair.talk(0);
    for (theirs, held) in [(0, 30_000), (5_000, 5_000), (1, 1_000), (60_000, 30_000)] {
        let config = config();
        pair.epoch(0).params.idle_timeout = theirs * MS;
        let link = &mut pair.peer(0).link;
        link.heard_at = Mono(50_000_000_000);
        assert_eq!(link.idle_at(&config).since(link.heard_at), held * MS, "{theirs}");
    }
}

#[test]
fn a_sign_of_life_keeps_the_channel() {
    for keepalive in [None, Some(10 * SECOND)] {
        let mut pair = Pair::new([Config { keepalive, ..config() }, config()]);
        pair.talk(0);
        pair.pass(100 * SECOND);
        let kept = pair.ends[0].peers.get(0).is_some_and(|peer| peer.link.is_connected());
        assert_eq!(kept, keepalive.is_some());
    }
}

/// The larger id opens `apart` after the smaller one has: whose keys are used by both in the end?
fn crossed(apart: Duration) -> [bool; 2] {
    let mut pair = Pair::open();
    pair.talk(0);
    let idle = 2 * SECOND;
    pair.pass(apart.saturating_sub(idle));
    pair.renew(1);
    assert_eq!(pair.handshakes(1), 2);
    let (ours, theirs) = (pair.epoch(0).index, pair.epoch(1).remote);
    assert_eq!(ours, theirs, "both use the same keys");
    [0, 1].map(|end| pair.epoch(end).initiator)
}

#[test]
fn openings_cross_for_five_seconds_and_then_the_smaller_id_wins() {
    assert_eq!(crossed(4 * SECOND), [true, false]);
    assert_eq!(crossed(6 * SECOND), [false, true]);
}

#[test]
fn after_a_suspend_every_channel_is_opened_anew() {
    for (gap, opens) in [(9 * SECOND, false), (11 * SECOND, true)] {
        let mut pair = Pair::open();
        pair.talk(0);
        let due = pair.ends[0].poll_timeout().unwrap();
        pair.now.mono = due + gap;
        pair.ends[0].handle_timeout(pair.now);
        assert_eq!(pair.peer(0).link.reopen, opens, "{gap:?}");
    }
}

#[test]
fn datagrams_are_no_larger_than_the_peer_takes() {
    let mut pair =
        Pair::new([Config { max_datagram: 9_000, ..config() }, Config { max_datagram: 1_300, ..config() }]);
    pair.send(0, 900_000);
    pair.pass(30 * SECOND);
    assert_eq!(pair.largest, 1_300);
}

#[test]
fn under_older_keys_nothing_is_new() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.withheld = Some(Vec::new());
    pair.send(0, 100);
    pair.pump();
    let mut late = pair.withheld.take().unwrap();
    assert_eq!(late[0][0] & 0xf, 4, "a packet under the old keys");
    pair.renew(1);
    assert_eq!(pair.handshakes(1), 2);
    let arrival = Arrival { remote: address(7), local_ip: None, ecn: 0 };
    pair.ends[1].handle_datagram(pair.now, arrival, &mut late[0]);
    assert!(pair.peer(1).link.roaming.as_ref().unwrap().mirror().is_none(), "a copy from elsewhere");
}

#[test]
fn nobody_takes_the_credit_from_under_the_message_whose_turn_it_is() {
    let small = limited(Limits { pool_window: 64 << 10, ..Limits::default() });
    let mut pair = Pair::new([config(), small]);
    pair.talk(0);
    pair.send(0, 50_000);
    pair.pass(SECOND);
    let [urgent, normal] = [(40_000, Priority::Urgent), (10_000, Priority::Normal)]
        .map(|(size, priority)| pair.send_as(0, size, priority));
    pair.pass(SECOND);
    let waits = |pair: &Pair, key| pair.ends[0].status(key) == Status::Queued;
    assert!(waits(&pair, urgent), "15,000 bytes of credit are left");
    assert!(waits(&pair, normal), "they are kept for it");
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(SECOND);
    assert!(!waits(&pair, urgent) && !waits(&pair, normal));
}

#[test]
fn older_credit_takes_nothing_back() {
    let small = limited(Limits { pool_window: 64 << 10, ..Limits::default() });
    let mut pair = Pair::new([config(), small]);
    pair.talk(0);
    let out = &mut pair.peer(0).outbound;
    let r = out.sender.as_ref().unwrap().incarnation().unwrap();
    out.on_credit(r, 200_000);
    out.on_credit(r, 70_000);
    let sent: Vec<_> = (0..3).map(|_| pair.send(0, 60_000)).collect();
    pair.pass(SECOND);
    assert!(sent.iter().all(|key| pair.ends[0].status(*key) != Status::Queued));
}

#[test]
fn what_a_claim_of_256_ranges_leaves_out_is_claimed_in_turn() {
    let mut pair = Pair::open();
    pair.talk(0);
    for _ in 0..1_500 {
        pair.send(0, 10);
    }
    pair.pass(SECOND);
    pair.outcomes.clear();
    let now = pair.now;
    let waiting: Vec<_> = core::iter::from_fn(|| pair.ends[1].accept(now)).collect();
    assert_eq!(waiting.len(), 1_500);
    for message in waiting.iter().step_by(2) {
        assert!(pair.ends[1].done(pair.now, message.key));
    }
    pair.pass(20 * SECOND);
    assert_eq!(pair.outcomes.len(), 750, "though no STATE can tell of all");
    assert!(pair.outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Delivered));
}

#[test]
fn a_claim_begins_at_the_token_that_was_probed_else_where_the_last_one_ended() {
    let mut inbound = Inbound::new(Mono(0));
    let mut clock = crate::half::Clock::ephemeral();
    let ask = crate::half::Ask { s: Slot(0), n: 1_000, l: Slot(0) };
    inbound.on_ask(Mono(0), &mut clock, &Limits::default(), ask);
    inbound.claimed(Slot(400));
    assert_eq!(inbound.claim_from(), Slot(400));
    let r = inbound.receiver.as_ref().unwrap().incarnation();
    inbound.on_probe(Mono(0), Slot(700), r);
    assert_eq!(inbound.claim_from(), Slot(700));
    inbound.claimed(Slot(1_000));
    assert_eq!(inbound.claim_from(), Slot(0), "all has been said");
}

#[test]
fn a_probe_waits_for_two_probe_timeouts() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.send(0, 100);
    pair.pump();
    let now = pair.now.mono;
    let wait = pair.peer(0).link.pto() * 2;
    let out = &pair.peer(0).outbound;
    assert_eq!(out.deadline(10 * SECOND).min(now + SECOND), now + wait);
}
