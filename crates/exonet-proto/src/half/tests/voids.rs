//! The order of streams against withdrawals: real records over a network that delivers anything ever sent, at any time and any number of
//! times, with messages given up, records evicted and closed, and readers that forget. Each step is checked, and at last all come to rest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use super::world::Random;
use super::*;
use crate::half::{Gap, KeptPlace, Readers, Returned, Void, Voids, Writers, may_follow};
use crate::wire::StreamMark;

#[derive(Clone, Debug)]
enum Datagram {
    Ask(Ask),
    State(State),
    Revoke(Token),
    Withdrawn(Slot, Incarnation),
}

/// A message under the name that it was bound to, and at the place that it has in its stream.
#[derive(Clone, Copy, Debug)]
struct Token {
    s: Slot,
    r: Incarnation,
    m: usize,
    mark: Option<StreamMark>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Delivered,
    Unknown,
    Cancelled,
}

#[derive(Debug, Default)]
struct Message {
    stream: Option<&'static str>,
    end: Option<End>,
    taken: bool,
    /// Its receiver has withdrawn it.
    void: bool,
}

/// What may happen besides.
#[derive(Clone, Copy)]
struct Mishaps {
    /// Messages are given up, and records evicted.
    doubt: bool,
    /// Records are closed, and readers forget what they have had.
    ends: bool,
}

struct World {
    random: Random,
    mishaps: Mishaps,
    clocks: [Clock; 2],
    sender: Option<Sender<usize>>,
    writers: Writers,
    queue: VecDeque<usize>,
    kept: BTreeMap<usize, KeptPlace>,
    revoked: BTreeSet<Slot>,
    record: Option<Receiver>,
    bound: Bound,
    readers: Readers,
    tokens: Vec<Token>,
    net: Vec<Datagram>,
    messages: Vec<Message>,
    /// The last message that was taken of each stream.
    last: BTreeMap<&'static str, usize>,
    /// Streams whose reader has forgotten what it had, and has had nothing since.
    forgot: BTreeSet<&'static str>,
}

impl World {
    fn new(seed: u64, mishaps: Mishaps) -> Self {
        Self {
            random: Random(seed),
            mishaps,
            clocks: [Clock::ephemeral(), Clock::ephemeral()],
            sender: None,
            writers: Writers::default(),
            queue: VecDeque::new(),
            kept: BTreeMap::new(),
            revoked: BTreeSet::new(),
            record: None,
            bound: Bound::default(),
            readers: Readers::default(),
            tokens: Vec::new(),
            net: Vec::new(),
            messages: Vec::new(),
            last: BTreeMap::new(),
            forgot: BTreeSet::new(),
        }
    }

    fn name(&self, m: usize) -> Option<Bytes> {
        self.messages[m].stream.map(Bytes::from)
    }

    fn submit(&mut self) {
        let stream = [Some("a"), Some("a"), Some("b"), None][self.random.index(4)];
        self.queue.push_back(self.messages.len());
        self.messages.push(Message { stream, ..Message::default() });
        self.sender.get_or_insert_with(|| Sender::open(&self.clocks[0]));
    }

    fn bind(&mut self) {
        while let Some(m) = self.queue.front().copied()
            && let Some(sender) = self.sender.as_mut()
            && let Ok((s, r)) = sender.bind(m)
        {
            self.queue.pop_front();
            let mark = self.name(m).map(|name| {
                let kept = self.kept.get(&m).copied();
                let mark = self.writers.mark(&name, s, kept, StreamMark::OPEN.end, false);
                self.writers.bind(&name, s, 1, mark, kept.is_some());
                mark
            });
            self.tokens.push(Token { s, r, m, mark });
        }
    }

    fn ask(&mut self) {
        let queued = self.queue.len() as u64;
        let ask = self.sender.as_mut().and_then(|sender| sender.ask(&mut self.clocks[0], queued, 1));
        self.net.extend(ask.map(Datagram::Ask));
    }

    fn say_state(&mut self) {
        self.net.push(Datagram::State(state_of(self.record.as_ref(), &self.clocks[1])));
    }

    fn end(&mut self, s: Slot, m: usize, end: End) {
        let message = &mut self.messages[m];
        match end {
            End::Delivered => assert!(message.taken, "m{m} is said to be delivered"),
            End::Cancelled => assert!(!message.taken, "m{m} was taken, and is said to be cancelled"),
            End::Unknown => {}
        }
        assert_eq!(message.end.replace(end), None, "m{m} has one end");
        self.revoked.remove(&s);
        if let Some(name) = self.name(m) {
            self.writers.settle(&name, s.0..s.0 + 1);
        }
    }

    fn token_at(&self, s: Slot, r: Incarnation) -> Token {
        *self.tokens.iter().find(|token| (token.s, token.r) == (s, r)).unwrap()
    }

    fn on_state(&mut self, state: &State) {
        let Some(sender) = self.sender.as_mut() else { return };
        let mut settled = Vec::new();
        sender.on_state(state, |s, r, m, proof| settled.push((s, r.unwrap(), m, proof)));
        let mut back = Vec::new();
        for (s, r, m, proof) in settled {
            match proof {
                Proof::Delivered => self.end(s, m, End::Delivered),
                Proof::Unknown => self.end(s, m, End::Unknown),
                Proof::NotTaken => back.push(self.token_at(s, r)),
            }
        }
        back.sort_by_key(|token| token.s);
        for Token { s, m, mark, .. } in back.into_iter().rev() {
            let withdrawn = self.revoked.contains(&s);
            if let Some((name, mark)) = self.name(m).zip(mark) {
                let why = match (withdrawn, self.kept.remove(&m)) {
                    (true, _) => Returned::Withdrawn,
                    (false, Some(_)) => Returned::Kept,
                    (false, None) => Returned::Again,
                };
                let kept = self.writers.give_back(&name, s, mark, why);
                self.kept.extend(kept.map(|kept| (m, kept)));
            }
            if withdrawn {
                self.end(s, m, End::Cancelled);
            } else {
                // A final STATE may give back some, and a later one those behind them.
                self.queue.push_front(m);
                self.queue.make_contiguous().sort_unstable();
            }
        }
    }

    fn on_ask(&mut self, ask: Ask) {
        let before = self.record.as_ref().map(Receiver::incarnation);
        let grant = self.random.below(4);
        let _: Answer = Receiver::on_ask(&mut self.record, &mut self.bound, &mut self.clocks[1], ask, grant);
        self.record.take_if(|record| record.is_passed());
        if before != self.record.as_ref().map(Receiver::incarnation) {
            self.readers.forget_ended();
        }
        self.readers.pass(ask.l);
        self.say_state();
    }

    fn on_revoke(&mut self, Token { s, r, m, mark }: Token) {
        let Some(record) = self.record.as_mut() else { return };
        let gone = !record.withdraw(s.0..s.0 + 1, r).is_empty();
        if record.incarnation() == r && record.withdrawn().contains(s.0) {
            self.net.push(Datagram::Withdrawn(s, r));
        }
        self.messages[m].void |= gone;
        if let Some((name, mark)) = self.name(m).zip(mark).filter(|_| gone) {
            assert!(!self.messages[m].taken);
            self.readers.voids.insert(&name, s, 1, mark);
        }
        self.say_state();
    }

    fn deliver(&mut self, datagram: Datagram) {
        match datagram {
            Datagram::Ask(ask) => self.on_ask(ask),
            Datagram::State(state) => self.on_state(&state),
            Datagram::Revoke(token) => self.on_revoke(token),
            Datagram::Withdrawn(s, r) => {
                let mut ended = Vec::new();
                if let Some(sender) = self.sender.as_mut() {
                    sender.on_withdrawn(s.0..s.0 + 1, r, |s, m| ended.push((s, m)));
                }
                ended.into_iter().for_each(|(s, m)| self.end(s, m, End::Cancelled));
            }
        }
    }

    /// The application takes a message if it may.
    fn take(&mut self, Token { s, r, m, mark }: Token) {
        if !self.record.as_ref().is_some_and(|record| record.accepts(s, r)) {
            return;
        }
        if let Some((name, mark)) = self.name(m).zip(mark) {
            let Some(gap) = self.readers.gap(&name, s, mark) else { return };
            if !may_follow(self.record.as_ref(), &self.readers.voids, &name, s, mark) {
                return;
            }
            self.check_place(m, gap);
            self.readers.take(&name, s, mark);
        }
        assert!(self.record.as_mut().unwrap().take(s, r));
        assert!(!std::mem::replace(&mut self.messages[m].taken, true), "m{m} is taken once");
        assert_ne!(self.messages[m].end, Some(End::Cancelled), "m{m} was withdrawn");
    }

    /// What is taken of a stream rises, and what lies between is told: neither less nor more than what was not withdrawn.
    fn check_place(&mut self, m: usize, gap: Gap) {
        let Some(stream) = self.messages[m].stream else { return };
        let before = self.last.insert(stream, m);
        assert!(before.is_none_or(|last| last < m), "m{m} after {before:?}");
        if self.forgot.remove(stream) || self.mishaps.ends {
            return;
        }
        let between = before.map_or(0, |last| last + 1)..m;
        let missed = |message: &&Message| message.stream == Some(stream) && !message.void;
        let missed = self.messages[between].iter().filter(missed).count() as u64;
        let told = match gap {
            Gap::None => (before.is_some(), 0),
            Gap::Opens => (before.is_none(), 0),
            Gap::Missing(n) => (before.is_some(), n),
            Gap::Continues(n) => (before.is_none(), n),
            Gap::Breaks => (false, 0),
        };
        assert_eq!(told, (true, missed), "m{m} comes with {gap:?}");
    }

    fn open_token(&mut self) -> Option<Token> {
        let open: Vec<_> = self.sender.iter().flat_map(Sender::tokens).map(|(s, r, _)| (s, r)).collect();
        let some = (!open.is_empty()).then(|| self.random.index(open.len()));
        some.map(|nth| self.token_at(open[nth].0, open[nth].1))
    }

    fn step(&mut self) {
        match self.random.below(32) {
            0..4 => self.submit(),
            4..8 => self.bind(),
            8..11 => self.ask(),
            11..13 => self.say_state(),
            13..15 => {
                if let Some(token) = self.open_token() {
                    self.revoked.insert(token.s);
                    self.net.push(Datagram::Revoke(token));
                }
            }
            15 if self.mishaps.doubt && self.random.chance(3) => {
                if let Some(Token { s, m, .. }) = self.open_token() {
                    self.sender.as_mut().and_then(|sender| sender.abandon(s));
                    self.end(s, m, End::Unknown);
                }
            }
            16 if self.mishaps.doubt && self.random.chance(4) => {
                if let Some(record) = self.record.take() {
                    record.evict(&mut self.bound, &mut self.clocks[1]);
                }
            }
            17 if self.mishaps.ends && self.random.chance(2) => {
                self.record.iter_mut().for_each(Receiver::close);
            }
            18 if self.mishaps.doubt && self.random.chance(8) => {
                // The process dies that has it all in memory.
                if let Some(record) = self.record.take() {
                    record.evict(&mut self.bound, &mut self.clocks[1]);
                }
                self.readers = Readers::default();
                self.forgot.extend(["a", "b"]);
            }
            19 if self.queue.is_empty() => {
                let farewell = Sender::close(&mut self.sender, &mut self.clocks[0]);
                self.net.extend(farewell.map(Datagram::Ask));
            }
            20..26 if !self.tokens.is_empty() => {
                let recent = self.tokens.len().min(if self.random.chance(3) { 99 } else { 5 });
                let token = self.tokens[self.tokens.len() - 1 - self.random.index(recent)];
                self.take(token);
            }
            _ if !self.net.is_empty() => {
                let recent = self.net.len().min(if self.random.chance(4) { 99 } else { 5 });
                let datagram = self.net[self.net.len() - 1 - self.random.index(recent)].clone();
                self.deliver(datagram);
            }
            _ => {}
        }
        let open: BTreeSet<_> = self.sender.iter().flat_map(Sender::tokens).map(|(s, ..)| s).collect();
        self.revoked.retain(|s| open.contains(s));
    }

    /// The network is fair from here on, and the application takes what it may: every message has its end.
    fn come_to_rest(&mut self) {
        for _ in 0..60 {
            self.bind();
            self.ask();
            for token in self.tokens.clone() {
                self.take(token);
            }
            for s in self.revoked.clone() {
                let r = self.sender.as_ref().and_then(|sender| sender.token(s)).map(|(r, _)| r);
                self.net.extend(r.map(|r| Datagram::Revoke(self.token_at(s, r))));
            }
            self.say_state();
            let fresh = self.net.len().saturating_sub(40);
            for datagram in self.net.split_off(fresh) {
                self.deliver(datagram);
            }
            self.record.take_if(|record| record.is_closed() && record.is_passed());
            if self.messages.iter().all(|message| message.end.is_some()) {
                return;
            }
        }
        let stuck: Vec<_> = (0..self.messages.len()).filter(|m| self.messages[*m].end.is_none()).collect();
        panic!("{stuck:?} never end: {:?} {:?}", self.record, self.readers);
    }
}

fn walk(walks: u64, mishaps: Mishaps) {
    for seed in 0..walks {
        let mut world = World::new(seed, mishaps);
        let run = std::panic::AssertUnwindSafe(|| {
            (0..150).for_each(|_| world.step());
            world.come_to_rest();
        });
        if let Err(why) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(why);
        }
    }
}

#[test]
fn order_and_gaps_hold_while_messages_are_withdrawn() {
    walk(4_000, Mishaps { doubt: false, ends: false });
}

#[test]
fn order_and_gaps_hold_while_messages_are_withdrawn_and_given_up() {
    walk(4_000, Mishaps { doubt: true, ends: false });
}

#[test]
fn streams_go_on_while_messages_are_withdrawn_and_records_close() {
    walk(4_000, Mishaps { doubt: false, ends: true });
    walk(4_000, Mishaps { doubt: true, ends: true });
}

const A: Bytes = Bytes::from_static(b"a");

fn mark(age: u64, n: u64, link: u64) -> StreamMark {
    StreamMark { age, n, link, ..StreamMark::OPEN }
}

#[test]
fn runs_that_lie_one_behind_the_other_are_one() {
    let mut voids = Voids::default();
    voids.insert(b"a", Slot(7), 1, mark(2, 1, 2));
    voids.insert(b"a", Slot(8), 2, mark(3, 2, 1));
    voids.insert(b"a", Slot(12), 1, mark(7, 4, 2));
    voids.insert(b"b", Slot(13), 1, mark(7, 4, 2));
    assert_eq!(voids.len(), 3);
    assert_eq!(voids.iter().next(), Some((&A, Slot(7), Void { len: 3, mark: mark(2, 1, 2) })));
    let before = [6, 7, 9, 10, 12].map(|s| voids.before(&A, Slot(s)));
    assert_eq!(before, [None, Some(Slot(5)), Some(Slot(5)), None, Some(Slot(10))]);
    assert_eq!(voids.count(&A, Slot(5), Slot(20), 0, 9), 4);
    assert_eq!(voids.count(&A, Slot(5), Slot(12), 2, 9), 2);
    assert_eq!(voids.count(&A, Slot(4), Slot(20), 0, 9), 0, "of another stream of this name");
    voids.pass(&A, Slot(5), 4);
    assert_eq!(voids.len(), 2);
    voids.pass(&A, Slot(6), 0);
    assert_eq!(voids.len(), 1);
}

#[test]
fn withdrawn_places_are_bounded() {
    let mut voids = Voids::default();
    for n in 1..=1_024_u64 {
        assert!(voids.make_room(Slot(0)));
        voids.insert(b"a", Slot(3 * n), 1, mark(3 * n, n, 3));
    }
    assert!(!voids.make_room(Slot(3)) && voids.len() == 1_024);
    assert!(voids.make_room(Slot(30)), "nothing waits for what lies below the frontier");
    assert_eq!(voids.len(), 1_024 - 9);
}

/// The messages in the slots 0 to 2 are bound, one behind the other.
fn three_bound() -> Writers {
    let mut writers = Writers::default();
    (0..3).for_each(|s| {
        let mark = writers.mark(&A, Slot(s), None, StreamMark::OPEN.end, false);
        writers.bind(&A, Slot(s), 1, mark, false);
    });
    writers
}

#[test]
fn no_place_is_used_again_before_one_that_was_given_up() {
    let mut writers = three_bound();
    writers.give_up(&A, Slot(1));
    writers.settle(&A, 1..2);
    let free = writers.give_back(&A, Slot(2), mark(2, 2, 1), Returned::Again);
    assert_eq!((free, writers.begun_of(&A)), (None, Some((Slot(0), 2))), "nothing behind it was");
    let kept = writers.give_back(&A, Slot(0), mark(0, 0, 0), Returned::Again);
    let place = KeptPlace { o: Slot(0), n: 0 };
    assert_eq!((kept, writers.begun_of(&A)), (Some(place), Some((Slot(0), 2))));
    let said = writers.mark(&A, Slot(5), kept, StreamMark::OPEN.end, false);
    assert_eq!(said, mark(5, 0, 0));
    writers.bind(&A, Slot(5), 1, said, true);
    assert_eq!(writers.mark(&A, Slot(6), None, StreamMark::OPEN.end, false), mark(6, 2, 1));
}

#[test]
fn no_place_is_used_again_before_one_that_a_process_before_may_have_given_up() {
    let mut writers = Writers::default();
    writers.recover(A, Slot(0), 3);
    [0, 2].into_iter().for_each(|s| writers.reopen(&A, Slot(s)));
    writers.give_back(&A, Slot(2), mark(2, 2, 1), Returned::Again);
    assert!(writers.give_back(&A, Slot(0), mark(0, 0, 0), Returned::Again).is_some());
    assert_eq!(writers.begun_of(&A), Some((Slot(0), 2)));
}

/// A STATE gives some back, and a later one those behind them. In between, one of those may be given up.
#[test]
fn no_place_is_used_again_before_one_that_is_open() {
    let mut writers = three_bound();
    let kept = writers.give_back(&A, Slot(0), mark(0, 0, 0), Returned::Again);
    assert_eq!(kept, Some(KeptPlace { o: Slot(0), n: 0 }));
    writers.give_up(&A, Slot(1));
    writers.settle(&A, 1..2);
    assert_eq!(writers.give_back(&A, Slot(2), mark(2, 2, 1), Returned::Again), None);
    assert_eq!(writers.begun_of(&A), Some((Slot(0), 2)));
}

#[test]
fn the_place_of_a_withdrawn_message_is_not_used_again_where_one_behind_it_has_its_outcome() {
    let mut writers = three_bound();
    writers.settle(&A, 2..3);
    writers.give_back(&A, Slot(1), mark(1, 1, 1), Returned::Withdrawn);
    assert_eq!(writers.begun_of(&A), Some((Slot(0), 3)));
}
