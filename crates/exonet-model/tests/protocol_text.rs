//! The pseudo-code of PROTOCOL.md "Half-connection" and "Early messages", transcribed line by line from the text and not from
//! the code, and searched. The text once had two mistakes that a second implementation would have copied; the search finds
//! both when they are put back.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

const PROTOCOL: &str = include_str!("../../../PROTOCOL.md");

/// The lines of the text whose earlier wording lost messages.
const STEP_2: &str = "if the record's r < dead:   e = max(e, sck)";
const STEP_3_H: &str = "h = min(hi, the record's hi, the least open early number)";
const STEP_3_E: &str = "if h > sck:   if r differs:  e = max(e, sck).     record's r = r;  sck = h";

/// The text as it is, or with one of the mistakes that it once had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    AsWritten,
    /// Steps 2 and 3 said `e = sck`.
    EnvelopesFallBack,
    /// Step 3 said `h = min(hi, the record's hi)`.
    GrantPassesEarly,
}

/// What was looked at: numbers are small.
const MESSAGES: u8 = 3;
const NUMBERS: u8 = 5;
const STAMP: u8 = 1;

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Datagram {
    Ask { s: u8, n: u8, l: u8, ts: u8 },
    Early { ts: u8, s: u8, m: u8 },
    Token { s: u8, r: u8, m: u8 },
    State { b: u8, r: u8, live: Option<Claim>, tb: Option<u8> },
}

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Claim {
    hi: u8,
    lo: u8,
    free: BTreeSet<u8>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Sender {
    sck: u8,
    hi: u8,
    e: u8,
    r: Option<u8>,
    dead: u8,
    tokens: BTreeMap<u8, (u8, u8)>,
    early: BTreeMap<u8, u8>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Receiver {
    r: u8,
    hi: u8,
    free: BTreeSet<u8>,
    l: u8,
    ets: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    Queued,
    Open,
    Delivered,
    Unknown,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    /// The sender's clock, its record, and the next message of its queue.
    ck: u8,
    sender: Option<Sender>,
    next: u8,
    fates: [Fate; MESSAGES as usize],
    /// The receiver's clock, frontiers, bound of this sender, and record.
    receiver_ck: u8,
    b: u8,
    tb: u8,
    bound: u8,
    receiver: Option<Receiver>,
    taken: [u8; MESSAGES as usize],
    evictions: u8,
    network: BTreeSet<Datagram>,
}

impl World {
    fn new() -> Self {
        Self {
            ck: 0,
            sender: None,
            next: 0,
            fates: [Fate::Queued; MESSAGES as usize],
            receiver_ck: 0,
            b: 0,
            tb: 0,
            bound: 0,
            receiver: None,
            taken: [0; MESSAGES as usize],
            evictions: 0,
            network: BTreeSet::new(),
        }
    }

    /// `open early`, with `k` messages; `open`, with none.
    fn open(&mut self, k: u8) {
        let (ck, early) = (self.ck, (0..k).map(|i| (self.ck + i, self.next + i)).collect());
        (0..k).for_each(|i| self.fates[usize::from(self.next + i)] = Fate::Open);
        self.next += k;
        self.sender =
            Some(Sender { sck: ck, hi: ck + k, e: ck + k, r: None, dead: 0, tokens: BTreeMap::new(), early });
    }

    /// `bind(m)`.
    fn bind(&mut self) {
        let Some(sender) = self.sender.as_mut() else { return };
        if let Some(r) = sender.r.filter(|_| sender.e < sender.sck && self.next < MESSAGES) {
            let (s, m) = (sender.e, self.next);
            sender.e += 1;
            sender.tokens.insert(s, (r, m));
            self.fates[usize::from(m)] = Fate::Open;
            self.next += 1;
        }
    }

    /// `ask`, and what a timer sends again.
    fn send_again(&mut self) {
        let Some(sender) = self.sender.as_mut() else { return };
        sender.hi = sender.hi.max((sender.e + MESSAGES - self.next).min(NUMBERS));
        let ts = if sender.early.is_empty() { 0 } else { STAMP };
        if sender.sck < sender.hi {
            let l = sender.tokens.keys().chain(sender.early.keys()).copied().min();
            let l = l.unwrap_or(sender.e).min(sender.e).min(sender.sck);
            self.network.insert(Datagram::Ask { s: sender.sck, n: sender.hi - sender.sck, l, ts });
        }
        for (&s, &m) in &sender.early {
            self.network.insert(Datagram::Early { ts, s, m });
        }
        for (&s, &(r, m)) in &sender.tokens {
            self.network.insert(Datagram::Token { s, r, m });
        }
    }

    /// `close`.
    fn close(&mut self) {
        let idle = |sender: &mut Sender| sender.tokens.is_empty() && sender.early.is_empty();
        if self.next == MESSAGES
            && let Some(sender) = self.sender.take_if(idle)
        {
            self.ck = self.ck.max(sender.hi);
            self.network.insert(Datagram::Ask { s: self.ck, n: 0, l: self.ck, ts: 0 });
        }
    }

    /// `on STATE`.
    fn on_state(&mut self, text: Text, b: u8, r: u8, live: Option<&Claim>, tb: Option<u8>) {
        let Some(sender) = self.sender.as_mut() else {
            if live.is_some() {
                self.network.insert(Datagram::Ask { s: self.ck, n: 0, l: self.ck, ts: 0 });
            }
            return;
        };
        let claimed = |s: u8| live.filter(|claim| claim.lo <= s && s < claim.hi);
        // 1.
        for (s, (r1, m)) in sender.tokens.clone() {
            let used = claimed(s).is_some_and(|claim| !claim.free.contains(&s));
            let fate = match live {
                Some(_) if r1 == r => used.then_some(Fate::Delivered),
                _ if r1 < b => Some(Fate::Unknown),
                _ if r1 < r => Some(Fate::Delivered),
                _ => None,
            };
            if let Some(fate) = fate {
                sender.tokens.remove(&s);
                self.fates[usize::from(m)] = fate;
            }
        }
        // "Early messages", on STATE.
        for (s, m) in sender.early.clone() {
            if claimed(s).is_some_and(|claim| !claim.free.contains(&s)) {
                self.fates[usize::from(m)] = Fate::Delivered;
            } else if tb.is_some_and(|tb| tb >= STAMP) {
                self.fates[usize::from(m)] = Fate::Unknown;
            } else if claimed(s).is_some() && tb.is_some() {
                sender.tokens.insert(s, (r, m));
            } else {
                continue;
            }
            sender.early.remove(&s);
        }
        // 2.
        let fallen = |sender: &Sender| match text {
            Text::EnvelopesFallBack => sender.sck,
            _ => sender.e.max(sender.sck),
        };
        sender.dead = sender.dead.max(if live.is_some() { b.min(r) } else { b });
        if sender.r.is_some_and(|own| own < sender.dead) {
            sender.e = fallen(sender);
        }
        // 3.
        if let Some(claim) = live.filter(|_| sender.r.is_none_or(|own| r >= own) && r >= sender.dead) {
            let mut h = claim.hi.min(sender.hi);
            if text != Text::GrantPassesEarly {
                h = sender.early.keys().next().map_or(h, |first| h.min(*first));
            }
            if h > sender.sck {
                if sender.r != Some(r) {
                    sender.e = fallen(sender);
                }
                (sender.r, sender.sck) = (Some(r), h);
            }
        }
        // 4. `bind` is a step of its own, and `ask` follows every step.
    }

    /// `on ASK`, granting at most `g` slots.
    fn on_ask(&mut self, (s, n, l, ts): (u8, u8, u8, u8), g: u8) {
        if let Some(record) = &mut self.receiver {
            record.free = record.free.split_off(&l);
            record.l = record.l.max(l);
            if l >= record.hi {
                record.ets = 0;
            }
        }
        if n == 0 {
            return;
        }
        let new = ts > self.bound;
        if self.receiver.is_none() && g > 0 {
            self.receiver = Some(Receiver { r: self.receiver_ck, hi: s, free: BTreeSet::new(), l, ets: 0 });
            self.receiver_ck += 1;
        }
        if let Some(record) = &mut self.receiver {
            record.hi = record.hi.max(if g > 0 { s } else { 0 });
            let h = (s + n).min(record.hi + g);
            record.free.extend(record.hi..h);
            record.hi = record.hi.max(h);
            self.bound = self.bound.max(ts);
            if new {
                record.ets = ts;
            }
        }
    }

    /// STATE.
    fn answer(&mut self) {
        let live = self.receiver.as_ref().map(|record| Claim {
            hi: record.hi,
            lo: record.l.min(record.hi),
            free: record.free.clone(),
        });
        let r = self.receiver.as_ref().map_or(self.receiver_ck, |record| record.r);
        // It says `tb` whenever it likes.
        for tb in [None, Some(self.tb)] {
            self.network.insert(Datagram::State { b: self.b, r, live: live.clone(), tb });
        }
    }

    fn take(&mut self, s: u8, r: u8, m: u8) {
        if let Some(record) = self.receiver.as_mut().filter(|record| record.r == r)
            && record.free.remove(&s)
        {
            self.taken[usize::from(m)] += 1;
        }
    }

    fn drop_record(&mut self) {
        self.receiver.take_if(|record| record.free.is_empty() && record.ets == 0);
    }

    /// `evict`.
    fn evict(&mut self) {
        if let Some(record) = self.receiver.take_if(|_| self.evictions == 0) {
            (self.b, self.tb) = (self.b.max(record.r + 1), self.tb.max(self.bound));
            self.evictions = 1;
        }
    }

    /// The worlds that one step leads to: a step of either node, or the arrival of any datagram that was ever sent.
    fn steps(&self, text: Text) -> Vec<Self> {
        let mut reached = Vec::new();
        let mut step = |take: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            take(&mut world);
            // What a timer could send now is in the network at once: it need not arrive.
            world.send_again();
            world.answer();
            if world != *self {
                reached.push(world);
            }
        };
        if self.sender.is_none() && self.next < MESSAGES {
            let most = if self.ck == 0 { 2 } else { 0 }; // one stamp, which no other record may bear
            (0..=most.min(MESSAGES - self.next)).for_each(|k| step(&move |world| world.open(k)));
        }
        step(&Self::bind);
        step(&Self::close);
        step(&Self::drop_record);
        step(&Self::evict);
        for datagram in &self.network {
            match datagram.clone() {
                Datagram::Ask { s, n, l, ts } => [1, NUMBERS].into_iter().for_each(|g| {
                    step(&move |world| world.on_ask((s, n, l, ts), g));
                }),
                Datagram::Token { s, r, m } => step(&move |world| world.take(s, r, m)),
                Datagram::Early { ts, s, m } => {
                    let named =
                        self.receiver.as_ref().filter(|record| record.ets == ts).map(|record| record.r);
                    step(&move |world| world.take(s, named.unwrap_or(u8::MAX), m));
                }
                Datagram::State { b, r, live, tb } => {
                    step(&move |world| world.on_state(text, b, r, live.as_ref(), tb));
                }
            }
        }
        reached
    }

    /// What is promised, if it is broken.
    fn broken(&self) -> Option<String> {
        for m in 0..usize::from(MESSAGES) {
            match (self.fates[m], self.taken[m]) {
                (_, 2..) => return Some(format!("message {m} was delivered twice")),
                (Fate::Delivered, 0) => return Some(format!("message {m} is called Delivered and was not")),
                (Fate::Unknown, _) if self.evictions == 0 => return Some(format!("message {m} is Unknown")),
                _ => {}
            }
        }
        let sender = self.sender.as_ref()?;
        let both = sender.tokens.keys().find(|s| sender.early.contains_key(s))?;
        Some(format!("slot {both} names two messages"))
    }
}

/// Searches breadth first, through at most `most` worlds.
fn search(text: Text, most: usize) -> Result<usize, String> {
    let (mut seen, mut queue) = (HashSet::new(), VecDeque::from([World::new()]));
    while let Some(world) = queue.pop_front() {
        for reached in world.steps(text) {
            reached.broken().map_or(Ok(()), Err)?;
            if seen.len() < most && seen.insert(fingerprint(&reached)) {
                queue.push_back(reached);
            }
        }
    }
    Ok(seen.len())
}

fn fingerprint(world: &World) -> (u64, u64) {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, world).hash(&mut hasher);
        hasher.finish()
    };
    (half(1), half(2))
}

/// Walks at random, `walks` times from the start, as deep as no complete search comes.
fn walk(text: Text, walks: u64) -> Result<(), String> {
    for seed in 1..=walks {
        let (mut world, mut random) = (World::new(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..40 {
            let mut reached = world.steps(text);
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let Some(next) = random.checked_rem(reached.len() as u64) else { break };
            world = reached.swap_remove(usize::try_from(next).unwrap());
            world.broken().map_or(Ok(()), |broken| Err(format!("walk {seed}: {broken}")))?;
        }
    }
    Ok(())
}

#[test]
fn the_transcribed_lines_are_those_of_the_text() {
    for line in [STEP_2, STEP_3_H, STEP_3_E] {
        assert!(PROTOCOL.contains(line), "PROTOCOL.md does not say any more: {line}");
    }
}

#[test]
fn nothing_is_found_in_the_text() {
    let seen = search(Text::AsWritten, 30_000).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(seen, 30_000);
    walk(Text::AsWritten, 2_000).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn the_mistakes_that_the_text_once_had_are_found() {
    for text in [Text::EnvelopesFallBack, Text::GrantPassesEarly] {
        let broken = walk(text, 2_000).unwrap_err();
        println!("{broken}");
    }
}
