//! The pseudo-code of PROTOCOL.md "Half-connection", "A node that ends", "Early messages" and "Refusals", transcribed line by
//! line from the text and not from the code, and searched. The text once had two mistakes that a second implementation would
//! have copied; the search finds both when they are put back. So it finds what would follow from leaving out a condition of the
//! rules about ends and refusals.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

const PROTOCOL: &str = include_str!("../../../PROTOCOL.md");

/// The lines of the text whose earlier wording lost messages.
const STEP_2: &str = "if the record's r < dead:   e = max(e, sck)";
const STEP_3_H: &str = "h = min(hi, the record's hi, the least open early number)";
const STEP_1_FINAL: &str =
    "lo <= s < min(hi, up) and final          ->  back to the head of the queue, unbound";
const STEP_2_FINAL: &str = "if final:  dead = max(dead, r + 1);   if r >= the record's r (or it has none):";
const STEP_2_PASSES: &str =
    "sck = max(sck, min(hi, the record's hi, the least open early number));   e = max(e, sck)";
const EARLY_FINAL: &str =
    "else claimed, final          back to the head of the queue, unbound, if tb is said; else it stays";
const CLOSED_GOES: &str = "if closed and l >= hi:        the record goes";
const CLOSED_GRANTS: &str = "if the record is closed:  answer STATE;  stop";
const CLOSED_TAKES: &str =
    "if there is a record, not closed, its r = r, and s in free:   free -= s;   m is delivered";
const REFUSE: &str = "refuse(i, ts)   if T[i] < ts <= latest:   T[i] = ts;   CLOSE(1)     else:   CLOSE(2)";
const ON_REFUSED: &str = "on CLOSE(1) in answer to an opening that bore ts:   each early message of the stamp ts ends NotDelivered";
const STEP_3_E: &str = "if h > sck:   if r differs:  e = max(e, sck).     record's r = r;  sck = h";

/// The text as it is, or with one of the mistakes that it once had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    AsWritten,
    /// Steps 2 and 3 said `e = sck`.
    EnvelopesFallBack,
    /// Step 3 said `h = min(hi, the record's hi)`.
    GrantPassesEarly,
    /// A closed record goes on delivering.
    ClosedTakes,
    /// A final STATE gives back what is claimed, taken or not.
    FinalGivesBackAll,
    /// Refused with certainty, though the stamp was not new.
    RefusesTheKnown,
    /// A stamp that was refused may be new again.
    RefusedStaysNew,
}

/// What was looked at: numbers are small.
const MESSAGES: u8 = 3;
const NUMBERS: u8 = 5;
/// The first sender record that leaves early bears the first of these, the next the next.
const STAMPS: u8 = 2;

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Datagram {
    Ask {
        s: u8,
        n: u8,
        l: u8,
        ts: u8,
    },
    Early {
        ts: u8,
        s: u8,
        m: u8,
    },
    Token {
        s: u8,
        r: u8,
        m: u8,
    },
    State {
        b: u8,
        r: u8,
        live: Option<Claim>,
        tb: Option<u8>,
    },
    /// CLOSE with code 1, in answer to an opening that bore `ts`. Code 2 says nothing.
    Refused {
        ts: u8,
    },
}

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Claim {
    hi: u8,
    lo: u8,
    free: BTreeSet<u8>,
    closed: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Sender {
    sck: u8,
    hi: u8,
    e: u8,
    r: Option<u8>,
    dead: u8,
    tokens: BTreeMap<u8, (u8, u8)>,
    ts: u8,
    early: BTreeMap<u8, u8>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Receiver {
    r: u8,
    hi: u8,
    free: BTreeSet<u8>,
    l: u8,
    ets: u8,
    closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    Queued,
    Open,
    Delivered,
    NotDelivered,
    Unknown,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    /// The sender's clock, its record, and its queue.
    ck: u8,
    sender: Option<Sender>,
    queue: VecDeque<u8>,
    /// The stamp of the latest record that left early.
    stamped: u8,
    fates: [Fate; MESSAGES as usize],
    /// The receiver's clock, frontiers, bound of this sender, and record.
    receiver_ck: u8,
    b: u8,
    tb: u8,
    bound: u8,
    receiver: Option<Receiver>,
    taken: [u8; MESSAGES as usize],
    evictions: u8,
    closings: u8,
    network: BTreeSet<Datagram>,
}

impl World {
    fn new() -> Self {
        Self {
            ck: 0,
            sender: None,
            queue: (0..MESSAGES).collect(),
            stamped: 0,
            fates: [Fate::Queued; MESSAGES as usize],
            receiver_ck: 0,
            b: 0,
            tb: 0,
            bound: 0,
            receiver: None,
            taken: [0; MESSAGES as usize],
            evictions: 0,
            closings: 0,
            network: BTreeSet::new(),
        }
    }

    /// `open early`, with `k` messages; `open`, with none.
    fn open(&mut self, k: u8) {
        let (ck, tokens) = (self.ck, BTreeMap::new());
        let early: BTreeMap<_, _> = (ck..).zip(self.queue.drain(..usize::from(k))).collect();
        early.values().for_each(|m| self.fates[usize::from(*m)] = Fate::Open);
        self.stamped += u8::from(k > 0);
        let ts = self.stamped;
        self.sender = Some(Sender { sck: ck, hi: ck + k, e: ck + k, r: None, dead: 0, tokens, ts, early });
    }

    /// `bind(m)`.
    fn bind(&mut self) {
        let Some(sender) = self.sender.as_mut() else { return };
        if let Some(r) = sender.r.filter(|_| sender.e < sender.sck)
            && let Some(m) = self.queue.pop_front()
        {
            sender.tokens.insert(sender.e, (r, m));
            sender.e += 1;
            self.fates[usize::from(m)] = Fate::Open;
        }
    }

    /// `ask`, and what a timer sends again.
    fn send_again(&mut self) {
        let Some(sender) = self.sender.as_mut() else { return };
        let queued = u8::try_from(self.queue.len()).unwrap();
        sender.hi = sender.hi.max((sender.e + queued).min(NUMBERS));
        let ts = if sender.early.is_empty() { 0 } else { sender.ts };
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
        if self.queue.is_empty()
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
        let is_final = live.is_some_and(|claim| claim.closed);
        let mut returned = BTreeMap::new();
        // 1.
        for (s, (r1, m)) in sender.tokens.clone() {
            let all = text == Text::FinalGivesBackAll && is_final;
            let used = claimed(s).is_some_and(|claim| !claim.free.contains(&s) && !all);
            if r1 == r && !used && is_final && claimed(s).is_some() {
                sender.tokens.remove(&s);
                returned.insert(s, m);
                continue;
            }
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
            } else if tb.is_some_and(|tb| tb >= sender.ts) {
                self.fates[usize::from(m)] = Fate::Unknown;
            } else if claimed(s).is_some() && is_final {
                if tb.is_none() {
                    continue;
                }
                returned.insert(s, m);
            } else if claimed(s).is_some() && tb.is_some() {
                sender.tokens.insert(s, (r, m));
            } else {
                continue;
            }
            sender.early.remove(&s);
        }
        for (_, m) in returned.into_iter().rev() {
            self.fates[usize::from(m)] = Fate::Queued;
            self.queue.push_front(m);
        }
        // 2.
        let fallen = |sender: &Sender| match text {
            Text::EnvelopesFallBack => sender.sck,
            _ => sender.e.max(sender.sck),
        };
        sender.dead = sender.dead.max(if live.is_some() { b.min(r) } else { b });
        if let Some(claim) = live.filter(|claim| claim.closed) {
            sender.dead = sender.dead.max(r + 1);
            if sender.r.is_none_or(|own| r >= own) {
                let h = claim.hi.min(sender.hi);
                sender.sck = sender.sck.max(sender.early.keys().next().map_or(h, |first| h.min(*first)));
                sender.e = sender.e.max(sender.sck);
            }
        }
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
        self.receiver.take_if(|record| record.closed && l >= record.hi);
        if n == 0 || self.receiver.as_ref().is_some_and(|record| record.closed) {
            return;
        }
        let new = ts > self.bound;
        if self.receiver.is_none() && g > 0 {
            self.receiver = Some(Receiver {
                r: self.receiver_ck,
                hi: s,
                free: BTreeSet::new(),
                l,
                ets: 0,
                closed: false,
            });
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
            closed: record.closed,
        });
        let r = self.receiver.as_ref().map_or(self.receiver_ck, |record| record.r);
        // It says `tb` whenever it likes.
        for tb in [None, Some(self.tb)] {
            self.network.insert(Datagram::State { b: self.b, r, live: live.clone(), tb });
        }
    }

    fn take(&mut self, text: Text, s: u8, r: u8, m: u8) {
        let takes = |record: &&mut Receiver| record.r == r && (!record.closed || text == Text::ClosedTakes);
        if let Some(record) = self.receiver.as_mut().filter(takes)
            && record.free.remove(&s)
        {
            self.taken[usize::from(m)] += 1;
        }
    }

    fn drop_record(&mut self) {
        self.receiver.take_if(|record| record.free.is_empty() && record.ets == 0);
    }

    /// `close` of a record.
    fn end(&mut self) {
        if let Some(record) = self.receiver.as_mut().filter(|record| self.closings == 0 && !record.closed) {
            record.closed = true;
            self.closings = 1;
        }
    }

    /// `refuse`. `latest` is above all stamps.
    fn refuse(&mut self, text: Text, ts: u8) {
        if self.bound < ts || text == Text::RefusesTheKnown {
            if text != Text::RefusedStaysNew {
                self.bound = self.bound.max(ts);
            }
            self.network.insert(Datagram::Refused { ts });
        }
    }

    /// `on CLOSE(1)`.
    fn on_refused(&mut self, ts: u8) {
        let Some(sender) = self.sender.as_mut() else { return };
        if sender.ts == ts {
            for m in std::mem::take(&mut sender.early).into_values() {
                self.fates[usize::from(m)] = Fate::NotDelivered;
            }
        }
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
        let queued = u8::try_from(self.queue.len()).unwrap();
        if self.sender.is_none() && queued > 0 {
            let most = if self.stamped < STAMPS && self.ck + 2 <= NUMBERS { 2 } else { 0 };
            (0..=most.min(queued)).for_each(|k| step(&move |world| world.open(k)));
        }
        step(&Self::bind);
        step(&Self::end);
        step(&Self::close);
        step(&Self::drop_record);
        step(&Self::evict);
        for datagram in &self.network {
            match datagram.clone() {
                Datagram::Ask { s, n, l, ts } => {
                    [1, NUMBERS].into_iter().for_each(|g| {
                        step(&move |world| world.on_ask((s, n, l, ts), g));
                    });
                    if ts > 0 {
                        step(&move |world| world.refuse(text, ts));
                    }
                }
                Datagram::Refused { ts } => step(&move |world| world.on_refused(ts)),
                Datagram::Token { s, r, m } => step(&move |world| world.take(text, s, r, m)),
                Datagram::Early { ts, s, m } => {
                    let named =
                        self.receiver.as_ref().filter(|record| record.ets == ts).map(|record| record.r);
                    step(&move |world| world.take(text, s, named.unwrap_or(u8::MAX), m));
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
                (Fate::NotDelivered | Fate::Queued, 1..) => {
                    return Some(format!("message {m} was delivered, and is not called so"));
                }
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
    let of_ends =
        [STEP_1_FINAL, STEP_2_FINAL, STEP_2_PASSES, EARLY_FINAL, CLOSED_GOES, CLOSED_GRANTS, CLOSED_TAKES];
    let of_refusals = [REFUSE, ON_REFUSED];
    for line in [STEP_2, STEP_3_H, STEP_3_E].into_iter().chain(of_ends).chain(of_refusals) {
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
fn each_condition_of_ends_and_refusals_is_needed() {
    let texts = [Text::ClosedTakes, Text::FinalGivesBackAll, Text::RefusesTheKnown, Text::RefusedStaysNew];
    for text in texts {
        let broken = search(text, 30_000).and_then(|_| walk(text, 2_000)).unwrap_err();
        println!("{broken}");
    }
}

#[test]
fn the_mistakes_that_the_text_once_had_are_found() {
    for text in [Text::EnvelopesFallBack, Text::GrantPassesEarly] {
        let broken = walk(text, 2_000).unwrap_err();
        println!("{broken}");
    }
}
