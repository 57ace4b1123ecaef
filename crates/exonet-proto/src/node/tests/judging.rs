//! Verdicts of the receiving application on messages, and how the sender hears of them.

use super::*;
use crate::journal::{Durability, Recovered};
use crate::message::IncomingBody;

/// A message of `ends[0]` to be confirmed as `confirm` demands.
fn send(pair: &mut Pair, confirm: Confirm) -> MessageKey {
    let (now, id, at) = (pair.now, pair.ends[1].id(), address(1));
    let message = Outgoing { body: Bytes::from_static(b"order"), confirm, ..Outgoing::default() };
    pair.ends[0].send(now, id, &[at], message).unwrap()
}

/// The next message of `ends[1]`, under a guard.
fn accept(pair: &mut Pair) -> Incoming {
    pair.ends[1].accept(pair.now).unwrap()
}

fn reject(pair: &mut Pair, key: DeliveryKey) {
    let verdict = Verdict::new(Word::Rejected, 7, "no such account");
    assert!(pair.ends[1].judge(pair.now, key, verdict));
}

fn outcome(pair: &Pair, key: MessageKey) -> Option<Outcome> {
    pair.events.iter().find_map(|event| match event {
        Event::Outcome { key: first, count, outcome, .. } => {
            (0..*count).any(|n| first.nth(n) == key).then_some(*outcome)
        }
        _ => None,
    })
}

/// Whether nothing of the message is kept at the receiver.
fn is_over(pair: &mut Pair) -> bool {
    let Some(Peer { inbound, .. }) = pair.ends[1].peers.get(0) else { return true };
    let marked = inbound.receiver.as_ref().is_some_and(|record| !record.marks().is_empty());
    !marked && inbound.verdicts.said().count() == 0 && inbound.verdicts.attempts().count() == 0
}

#[test]
fn a_sender_hears_that_its_message_is_rejected_and_why() {
    for confirm in [Confirm::Delivered, Confirm::Processed] {
        let mut pair = Pair::open();
        pair.talk(0);
        let key = send(&mut pair, confirm);
        pair.pass(SECOND);
        let incoming = accept(&mut pair);
        reject(&mut pair, incoming.key);
        pair.pass(SECOND);
        assert_eq!(outcome(&pair, key), Some(Outcome::Rejected { status: 7, attempts: 1 }));
        let why = Event::Reason { id: incoming.id, reason: "no such account".into() };
        assert!(pair.events.contains(&why), "{:?}", pair.events);
        assert!(is_over(&mut pair), "the frontier has passed it");
        assert_eq!(pair.ends[1].counts().rejected, 1);
        pair.talk(0);
        assert!(pair.ends[1].accept(pair.now).is_none());
    }
}

#[test]
fn what_was_processed_is_told_from_what_was_only_taken() {
    type Take = fn(&mut Pair);
    let ways: [(Confirm, Take, Outcome); 6] = [
        (Confirm::Delivered, |pair| drop(pair.ends[1].recv(pair.now).unwrap()), Outcome::Delivered),
        (Confirm::Processed, |pair| drop(pair.ends[1].recv(pair.now).unwrap()), Outcome::Delivered),
        (Confirm::Delivered, |pair| done(pair), Outcome::Delivered),
        (Confirm::Processed, |pair| done(pair), Outcome::Processed { status: 0 }),
        (Confirm::Processed, |pair| processed(pair), Outcome::Processed { status: 9 }),
        (Confirm::Processed, |pair| drop(pair.ends[1].recv_run(pair.now, 9).unwrap()), Outcome::Delivered),
    ];
    for (confirm, take, expected) in ways {
        let mut pair = Pair::open();
        pair.talk(0);
        let key = send(&mut pair, confirm);
        pair.pass(SECOND);
        take(&mut pair);
        pair.pass(SECOND);
        assert_eq!(outcome(&pair, key), Some(expected));
        assert!(is_over(&mut pair));
    }
}

fn done(pair: &mut Pair) {
    let key = accept(pair).key;
    assert!(pair.ends[1].done(pair.now, key));
}

fn processed(pair: &mut Pair) {
    let key = accept(pair).key;
    assert!(pair.ends[1].judge(pair.now, key, Verdict::new(Word::Processed, 9, "")));
}

#[test]
fn messages_that_come_together_are_confirmed_each() {
    let mut pair = Pair::open();
    pair.talk(0);
    let confirms = [Confirm::Delivered, Confirm::Processed, Confirm::Processed, Confirm::Delivered];
    let keys = confirms.map(|confirm| send(&mut pair, confirm));
    pair.pass(SECOND);
    let mut taken = 0;
    while let Some(run) = pair.ends[1].recv_run(pair.now, 9) {
        taken += run.count();
    }
    pair.pass(SECOND);
    assert_eq!(taken, 4);
    assert!(keys.iter().all(|key| outcome(&pair, *key) == Some(Outcome::Delivered)), "{:?}", pair.outcomes());
    assert!(is_over(&mut pair));
}

/// For some messages, the sender wants to know only whether they were delivered.
#[test]
fn messages_that_come_together_are_judged_each() {
    let mut pair = Pair::open();
    pair.talk(0);
    let confirms = [Confirm::Delivered, Confirm::Processed, Confirm::Processed, Confirm::Delivered];
    let keys = confirms.map(|confirm| send(&mut pair, confirm));
    pair.pass(SECOND);
    confirms.iter().for_each(|_| done(&mut pair));
    pair.pass(SECOND);
    for (confirm, key) in confirms.iter().zip(keys) {
        let said = match confirm {
            Confirm::Processed => Outcome::Processed { status: 0 },
            _ => Outcome::Delivered,
        };
        assert_eq!(outcome(&pair, key), Some(said));
    }
    assert!(is_over(&mut pair));
}

#[test]
fn a_verdict_that_is_lost_is_told_again() {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = send(&mut pair, Confirm::Delivered);
    pair.pass(SECOND);
    let incoming = accept(&mut pair);
    pair.cut(1);
    reject(&mut pair, incoming.key);
    pair.pump();
    assert!(!pair.mend(1).is_empty());
    assert_eq!(outcome(&pair, key), None);
    pair.pass(5 * SECOND);
    assert_eq!(outcome(&pair, key), Some(Outcome::Rejected { status: 7, attempts: 1 }));
    assert!(is_over(&mut pair));
}

/// A message that was rejected, which its sender does not know.
fn judged() -> (Pair, MessageKey, Slot, Incarnation) {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = send(&mut pair, Confirm::Delivered);
    pair.pass(SECOND);
    let incoming = accept(&mut pair);
    reject(&mut pair, incoming.key);
    let (s, r) = (incoming.id.s, incoming.id.r);
    (pair, key, s, r)
}

#[test]
fn a_probe_of_a_judged_message_is_answered_by_its_verdict() {
    let (mut pair, _, s, r) = judged();
    let inbound = &mut pair.peer(1).inbound;
    assert!(inbound.verdicts.next(|_| true).is_some() && !inbound.verdicts.owes(|_| true));
    inbound.on_probe(Mono(0), s, Incarnation(r.0 + 1));
    assert!(!inbound.verdicts.owes(|_| true), "of another record");
    inbound.on_probe(Mono(0), s, r);
    assert!(inbound.verdicts.owes(|_| true) && !inbound.owes_have());
}

#[test]
fn a_verdict_whose_packet_is_lost_is_owed_again() {
    let (mut pair, _, s, _) = judged();
    assert!(pair.peer(1).inbound.verdicts.next(|_| true).is_some());
    for (fate, owed) in [(Fate::Acked, false), (Fate::Lost, true)] {
        pair.apply(1, &mut vec![(Carried::Verdict { s }, fate)]);
        assert_eq!(pair.peer(1).inbound.verdicts.owes(|_| true), owed);
    }
}

#[test]
fn a_node_is_not_quiet_before_its_verdicts_have_arrived() {
    let (mut pair, key, ..) = judged();
    pair.cut(1);
    pair.pass(SECOND);
    assert!(!pair.ends[1].is_quiet());
    pair.mend(1);
    pair.pass(10 * SECOND);
    assert!(pair.ends[1].is_quiet());
    assert_eq!(outcome(&pair, key), Some(Outcome::Rejected { status: 7, attempts: 1 }));
}

#[test]
fn a_node_that_ends_says_what_it_has_said_of_messages() {
    let (mut pair, _, s, r) = judged();
    let now = pair.now;
    pair.ends[1].finish(now);
    let inbound = &mut pair.peer(1).inbound;
    inbound.on_probe(Mono(0), s, r);
    assert!(inbound.verdicts.owes(|_| true));
}

#[test]
fn a_message_behind_an_open_one_keeps_its_verdict_until_the_frontier_passes() {
    let mut pair = Pair::open();
    pair.talk(0);
    let first = send(&mut pair, Confirm::Delivered);
    let second = send(&mut pair, Confirm::Delivered);
    pair.pass(SECOND);
    let (held, judged) = (accept(&mut pair), accept(&mut pair));
    reject(&mut pair, judged.key);
    pair.pass(60 * SECOND);
    assert_eq!(outcome(&pair, second), Some(Outcome::Rejected { status: 7, attempts: 1 }));
    assert!(!is_over(&mut pair));
    assert!(pair.ends[1].done(pair.now, held.key));
    pair.pass(SECOND);
    assert_eq!(outcome(&pair, first), Some(Outcome::Delivered));
    pair.pass(60 * SECOND);
    assert!(is_over(&mut pair));
}

#[test]
fn a_message_that_comes_back_is_handed_out_as_the_next_attempt() {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = send(&mut pair, Confirm::Delivered);
    pair.pass(SECOND);
    for attempt in 1..4 {
        let incoming = accept(&mut pair);
        assert_eq!(incoming.attempt, attempt);
        pair.ends[1].release(pair.now, incoming.key);
    }
    let last = accept(&mut pair);
    reject(&mut pair, last.key);
    pair.pass(SECOND);
    assert_eq!(outcome(&pair, key), Some(Outcome::Rejected { status: 7, attempts: 4 }));
    assert!(is_over(&mut pair));
}

#[test]
fn attempts_are_forgotten_with_the_message() {
    let mut pair = Pair::open();
    pair.talk(0);
    send(&mut pair, Confirm::Delivered);
    pair.pass(SECOND);
    let incoming = accept(&mut pair);
    pair.ends[1].release(pair.now, incoming.key);
    assert!(!is_over(&mut pair));
    done(&mut pair);
    assert!(is_over(&mut pair));
}

#[test]
fn a_message_that_is_put_off_comes_back_in_its_time() {
    let mut pair = Pair::open();
    pair.talk(0);
    send(&mut pair, Confirm::Delivered);
    pair.pass(SECOND);
    let incoming = accept(&mut pair);
    pair.ends[1].release_at(incoming.key, pair.now.mono + 30 * SECOND);
    pair.pass(29 * SECOND);
    assert!(pair.ends[1].accept(pair.now).is_none());
    pair.pass(2 * SECOND);
    assert_eq!(accept(&mut pair).attempt, 2);
}

#[test]
fn a_large_message_is_rejected_before_all_of_it_is_there() {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = pair.send(0, 3_000_000);
    pair.pass(SECOND);
    let incoming = accept(&mut pair);
    assert!(matches!(incoming.body, IncomingBody::Stream { .. }));
    reject(&mut pair, incoming.key);
    pair.pass(5 * SECOND);
    assert_eq!(outcome(&pair, key), Some(Outcome::Rejected { status: 7, attempts: 1 }));
    assert!(is_over(&mut pair));
    let inbound = &pair.peer(1).inbound;
    assert_eq!((inbound.promised(), inbound.parts(), inbound.large), (0, 0, 0));
}

#[test]
fn a_bundle_may_lose_one_of_its_messages_to_a_verdict() {
    let mut pair = Pair::open();
    pair.talk(0);
    let (now, id, at) = (pair.now, pair.ends[1].id(), address(1));
    let mut keys = Vec::new();
    let queued = |key: MessageKey, n| keys.extend((0..n).map(|i| key.nth(i)));
    pair.ends[0]
        .send_bodies(now, id, &[at], &Alike::default(), &mut (0..9).map(|_| [7; 30]), queued)
        .unwrap();
    pair.pass(SECOND);
    for n in 0..9 {
        let incoming = accept(&mut pair);
        if n == 4 {
            reject(&mut pair, incoming.key);
        } else {
            assert!(pair.ends[1].done(pair.now, incoming.key));
        }
    }
    pair.pass(SECOND);
    for (n, key) in keys.into_iter().enumerate() {
        let rejected = Outcome::Rejected { status: 7, attempts: 1 };
        assert_eq!(outcome(&pair, key), Some(if n == 4 { rejected } else { Outcome::Delivered }));
    }
    assert!(is_over(&mut pair));
}

/// `ends[1]` writes a journal: what it has written so far, and its next life.
pub(super) struct Lives {
    pub(super) pair: Pair,
    written: Vec<u8>,
    clock: u64,
    durability: Durability,
}

impl Lives {
    pub(super) fn new(durability: Durability) -> Self {
        let mut this = Self { pair: Pair::open(), written: Vec::new(), clock: 1 << 40, durability };
        this.start();
        this
    }

    fn start(&mut self) {
        let secret = self.pair.ends[1].cx.key.expose().to_owned();
        let journal = Some((self.durability, Box::new(Recovered::read(&self.written).unwrap())));
        let boot = Boot::Stored {
            clock: self.clock,
            life: self.clock >> 40,
            latest: crate::id::Stamp::NONE,
            strays: Vec::new(),
            notes: None,
            journal,
        };
        let now = self.pair.now;
        // Each life draws another `boot_id`.
        let seed = [8 + u8::try_from(self.clock >> 40).unwrap(); 32];
        self.pair.ends[1] = Node::new(config(), SecretKey::from_bytes(secret), boot, seed, now);
        self.write();
        let batch = self.pair.ends[1].poll_persist().unwrap();
        self.pair.ends[1].handle_persisted(now, batch.lsn);
        self.clock += 1 << 40;
    }

    /// Writes everything that there is to write, and makes it safe.
    pub(super) fn write(&mut self) {
        while let Some(append) = self.pair.ends[1].poll_journal() {
            self.written.extend(append.to_vec());
            let through = append.through;
            self.pair.ends[1].handle_journaled(self.pair.now, through);
        }
    }

    /// The process dies; what it has written is kept.
    pub(super) fn die(&mut self) {
        self.start();
    }
}

#[test]
fn a_verdict_outlives_the_process_that_gave_it() {
    let mut lives = Lives::new(Durability::Written);
    lives.pair.talk(0);
    let key = send(&mut lives.pair, Confirm::Delivered);
    lives.pair.pass(SECOND);
    let incoming = accept(&mut lives.pair);
    lives.pair.cut(1);
    reject(&mut lives.pair, incoming.key);
    lives.write();
    lives.die();
    lives.pair.mend(1);
    lives.pair.pass(60 * SECOND);
    assert!(lives.pair.ends[1].accept(lives.pair.now).is_none(), "it is not handed out again");
    assert_eq!(outcome(&lives.pair, key), Some(Outcome::Rejected { status: 7, attempts: 1 }));
    assert!(is_over(&mut lives.pair));
}

#[test]
fn a_verdict_is_told_once_it_is_safe() {
    let mut lives = Lives::new(Durability::Forced);
    lives.write();
    let key = send(&mut lives.pair, Confirm::Delivered);
    for _ in 0..9 {
        lives.pair.pass(SECOND);
        lives.write();
    }
    let incoming = accept(&mut lives.pair);
    reject(&mut lives.pair, incoming.key);
    lives.pair.pass(10 * SECOND);
    assert_eq!(outcome(&lives.pair, key), None);
    lives.write();
    lives.pair.pass(SECOND);
    assert_eq!(outcome(&lives.pair, key), Some(Outcome::Rejected { status: 7, attempts: 1 }));
}

/// The outcome of a message that its sender withdrew.
fn withdraw(lives: &mut Lives, key: MessageKey) {
    assert_eq!(lives.pair.ends[0].cancel(lives.pair.now, key), Ok(Cancel::Asked));
}

#[test]
fn a_withdrawal_outlives_the_process_that_said_it() {
    let mut lives = Lives::new(Durability::Written);
    lives.pair.talk(0);
    let key = send(&mut lives.pair, Confirm::Delivered);
    lives.pair.pass(SECOND);
    lives.pair.cut(1);
    withdraw(&mut lives, key);
    lives.pair.pass(100 * MS);
    lives.write();
    let snapshot = lives.pair.ends[1].snapshot(lives.pair.now);
    assert_eq!(Recovered::read(&lives.written).unwrap(), Recovered::read(&snapshot).unwrap());
    lives.die();
    let record = lives.pair.peer(1).inbound.receiver.as_ref();
    assert_eq!(record.map(|record| record.withdrawn().count()), Some(1));
    lives.pair.mend(1);
    lives.pair.pass(60 * SECOND);
    assert!(lives.pair.ends[1].accept(lives.pair.now).is_none(), "it is not handed out");
    assert_eq!(outcome(&lives.pair, key), Some(Outcome::Cancelled));
}

#[test]
fn a_withdrawal_is_told_once_it_is_safe() {
    let mut lives = Lives::new(Durability::Forced);
    lives.write();
    let key = send(&mut lives.pair, Confirm::Delivered);
    for _ in 0..9 {
        lives.pair.pass(SECOND);
        lives.write();
    }
    withdraw(&mut lives, key);
    lives.pair.pass(10 * SECOND);
    assert!(lives.pair.ends[1].accept(lives.pair.now).is_none());
    assert_eq!(outcome(&lives.pair, key), None);
    lives.write();
    lives.pair.pass(5 * SECOND);
    assert_eq!(outcome(&lives.pair, key), Some(Outcome::Cancelled));
}

#[test]
fn a_message_that_kills_its_process_is_counted() {
    let mut lives = Lives::new(Durability::Written);
    lives.pair.talk(0);
    send(&mut lives.pair, Confirm::Delivered);
    for attempt in 1..5 {
        lives.pair.pass(20 * SECOND);
        assert_eq!(accept(&mut lives.pair).attempt, attempt);
        lives.write();
        lives.die();
    }
}

#[test]
fn a_snapshot_has_verdicts_and_attempts() {
    let mut lives = Lives::new(Durability::Written);
    lives.pair.talk(0);
    send(&mut lives.pair, Confirm::Delivered);
    send(&mut lives.pair, Confirm::Delivered);
    send(&mut lives.pair, Confirm::Delivered);
    lives.pair.pass(SECOND);
    lives.pair.cut(1);
    let (again, judged) = (accept(&mut lives.pair), accept(&mut lives.pair));
    lives.pair.ends[1].release(lives.pair.now, again.key);
    let again = accept(&mut lives.pair);
    assert_eq!(again.attempt, 2);
    lives.pair.ends[1].release(lives.pair.now, again.key);
    reject(&mut lives.pair, judged.key);
    lives.write();
    let snapshot = lives.pair.ends[1].snapshot(lives.pair.now);
    let (written, snapshot) = (Recovered::read(&lives.written).unwrap(), Recovered::read(&snapshot).unwrap());
    assert_eq!(written, snapshot);
    assert_eq!(written.known.values().map(|known| known.verdicts.len()).sum::<usize>(), 1);
    assert_eq!(written.known.values().map(|known| known.attempts.len()).sum::<usize>(), 1);
}

/// A sender whose clock is set sends early.
fn early(durability: Durability) -> Lives {
    let mut lives = Lives::new(durability);
    lives.pair.ends[0].cx.config.early = true;
    lives.pair.now.wall = crate::time::Wall(1_700_000_000_000_000_000);
    send(&mut lives.pair, Confirm::Delivered);
    lives
}

/// Makes everything durable that must be before a stamp is accepted.
fn persist(lives: &mut Lives) {
    let node = &mut lives.pair.ends[1];
    while let Some(batch) = node.poll_persist() {
        node.handle_persisted(lives.pair.now, batch.lsn);
    }
}

#[test]
fn a_verdict_that_comes_before_the_state_ends_an_early_message() {
    let mut lives = early(Durability::Written);
    lives.pair.cut(1);
    lives.pair.pass(Duration::ZERO);
    persist(&mut lives);
    let incoming = accept(&mut lives.pair);
    let crate::id::MessageId { r, s, .. } = incoming.id;
    let (word, status, attempts, reason) = (Word::Rejected as u8, 7, 1, "no such account");
    let verdict = crate::wire::Verdict { r, s, word, status, attempts, reason };
    lives.pair.with(0, |peer, cx, now| peer.on_verdict(cx, now, &verdict));
    lives.pair.pump();
    let told = lives.pair.events.iter().find_map(|event| match event {
        Event::Outcome { outcome, id, .. } => Some((*outcome, *id)),
        _ => None,
    });
    let rejected = Outcome::Rejected { status: 7, attempts: 1 };
    assert_eq!(told, Some((rejected, Some(incoming.id))), "the reason is found by this id");
}

#[test]
fn an_early_message_is_handed_out_once_the_disk_has_its_record() {
    let mut lives = early(Durability::Forced);
    lives.pair.pass(Duration::ZERO);
    persist(&mut lives);
    assert!(lives.pair.ends[1].accept(lives.pair.now).is_none() && !lives.pair.ends[1].has_waiting());
    core::iter::from_fn(|| lives.pair.ends[1].poll_event()).for_each(drop);
    lives.write();
    let told: Vec<_> = core::iter::from_fn(|| lives.pair.ends[1].poll_event()).collect();
    assert!(told.contains(&Event::Readable), "{told:?}");
    let id = accept(&mut lives.pair).id;
    lives.die();
    lives.pair.pass(20 * SECOND);
    persist(&mut lives);
    lives.write();
    lives.pair.pass(20 * SECOND);
    let again = accept(&mut lives.pair);
    assert_eq!((again.id, again.attempt), (id, 2));
}

#[test]
fn a_node_is_not_quiet_before_its_peer_can_hear_what_it_took() {
    let mut lives = early(Durability::Forced);
    lives.pair.pass(Duration::ZERO);
    persist(&mut lives);
    assert!(lives.pair.ends[1].accept(lives.pair.now).is_none());
    lives.write();
    let key = accept(&mut lives.pair).key;
    assert!(lives.pair.ends[1].done(lives.pair.now, key));
    lives.pair.pass(SECOND);
    assert!(!lives.pair.ends[1].is_quiet(), "the disk does not have it, so no STATE has said it");
    lives.write();
    lives.pair.pass(SECOND);
    let delivered = |event: &Event| matches!(event, Event::Outcome { outcome: Outcome::Delivered, .. });
    assert!(lives.pair.ends[1].is_quiet() && lives.pair.events.iter().any(delivered));
}

#[test]
fn a_message_comes_again_under_its_id_though_no_state_has_left() {
    let mut lives = early(Durability::Written);
    lives.pair.pass(Duration::ZERO);
    persist(&mut lives);
    let id = accept(&mut lives.pair).id;
    lives.write();
    lives.die();
    lives.pair.pass(20 * SECOND);
    persist(&mut lives);
    lives.pair.pass(20 * SECOND);
    let again = accept(&mut lives.pair);
    assert_eq!((again.id, again.attempt), (id, 2));
}

/// The journal records what is taken early together with the message, so that the recovered record is not dropped too soon. What
/// an eviction forgets of it is in the hull.
#[test]
fn what_was_taken_early_outlives_the_process() {
    let mut lives = Lives::new(Durability::Written);
    let persist = |lives: &mut Lives| {
        while let Some(batch) = lives.pair.ends[1].poll_persist() {
            lives.pair.ends[1].handle_persisted(lives.pair.now, batch.lsn);
        }
    };
    lives.pair.now.wall = crate::time::Wall(1_700_000_000_000_000_000);
    lives.pair.ends[0].cx.config.early = true;
    [0, 1].iter().for_each(|end| lives.pair.cut(*end));
    lives.pair.send(0, 100);
    lives.pair.pump();
    let opening = lives.pair.mend(0).remove(0);
    lives.pair.cut(0);
    lives.pair.deliver(1, 0, &opening);
    persist(&mut lives);
    lives.pair.pump();
    lives.write();
    assert_eq!(lives.pair.ends[0].counts().early_sent, 1);
    assert!(lives.pair.ends[1].recv(lives.pair.now).is_some());
    lives.write();
    let taken = |lives: &Lives| {
        let id = lives.pair.ends[0].id();
        let records = lives.pair.ends[1].records(&id);
        records.and_then(|records| records.receiver?.taken())
    };
    let before = taken(&lives);
    assert!(before.is_some());
    lives.die();
    assert_eq!(taken(&lives), before);
    let snapshot = lives.pair.ends[1].snapshot(lives.pair.now);
    lives.write();
    lives.written = snapshot;
    lives.die();
    assert_eq!(taken(&lives), before, "so has a snapshot");
    lives.pair.ends[1].cx.config.dead_after = 60 * SECOND;
    lives.pair.pass(300 * SECOND);
    lives.write();
    assert_eq!(taken(&lives), None, "its sender is dead");
    lives.die();
    let hull = lives.pair.ends[1].clock().stamps().hull();
    assert!(before.is_some_and(|taken| hull.contains(taken.ts)), "{hull:?}");
}

#[test]
fn an_outcome_says_how_durable_the_receiver_is_that_tells_it() {
    use crate::DurabilityLevel::{Batched, Memory, Sync};
    let durable = |durability| Config { durability, ..config() };
    let told = |pair: &Pair| {
        let level = |event: &Event| match event {
            Event::Outcome { outcome, receiver_durability, .. } => Some((*outcome, *receiver_durability)),
            _ => None,
        };
        pair.events.iter().filter_map(level).last()
    };
    let mut pair = Pair::new([durable(Sync), durable(Batched)]);
    pair.talk(0);
    assert_eq!(told(&pair), Some((Outcome::Delivered, Some(Batched))));
    let key = pair.send(0, 100);
    pair.ends[0].cancel(pair.now, key).unwrap();
    pair.pump();
    assert_eq!(told(&pair), Some((Outcome::Cancelled, None)), "the receiver has said nothing");
    pair.restart(1, config());
    pair.send(0, 100);
    pair.pass(20 * SECOND);
    assert_eq!(told(&pair), Some((Outcome::Unknown, None)), "the receiver has forgotten that message");
    pair.talk(0);
    assert_eq!(told(&pair), Some((Outcome::Delivered, Some(Memory))), "the next life has its own level");
}
