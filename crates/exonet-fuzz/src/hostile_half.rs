//! One genuine node and a peer that sends any number: nothing overflows, and only the node changes its clock.

use arbitrary::Arbitrary;
use exonet_proto::half::{
    Answer, Ask, Bound, Claim, Clock, Far, IntervalSet, Receiver, Sender, State, Taken,
};
use exonet_proto::{Incarnation, Slot, Stamp};

use crate::number::Number;
use crate::ops::ops;

#[derive(Debug, Arbitrary)]
enum Op {
    Send,
    /// The node asks for slots.
    Ask {
        standby: Number,
    },
    Close,
    Abandon {
        s: Number,
    },
    OnAsk {
        s: Number,
        n: Number,
        l: Number,
        ts: u8,
        grant: Number,
    },
    /// A message arrives early.
    OnEarly {
        s: Number,
        ts: u8,
    },
    /// The node sends its first messages early.
    OpenEarly {
        ts: u8,
        count: u8,
    },
    /// A stamp that is far ahead is refused, or the node has no room for the stamps of lost records.
    Refuse {
        ts: u8,
    },
    Fold,
    OnToken {
        s: Number,
        r: Number,
    },
    OnState {
        b: Number,
        r: Number,
        live: Option<Said>,
        taken: Option<(u8, Number)>,
    },
    Retry {
        grant: Number,
    },
    Drop,
    Evict,
    Persist {
        durable: Option<Number>,
    },
    Reboot {
        block: Number,
    },
}

/// The claim in a STATE of a live record.
#[derive(Debug, Arbitrary)]
struct Said {
    hi: Number,
    lo: Number,
    up: Number,
    part: bool,
    free: Vec<(Number, u8)>,
}

struct Node {
    clock: Clock,
    sender: Option<Sender<usize>>,
    record: Option<Receiver>,
    bound: Bound,
    sent: usize,
    settled: Vec<bool>,
    /// The last slot that was taken under each incarnation must be taken only once.
    taken: std::collections::BTreeSet<(Incarnation, Slot)>,
}

/// Calls with anything that a peer may send.
pub fn hostile_half(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let clock = match choice % 3 {
        0 => Clock::ephemeral(),
        1 => Clock::boot(0, Stamp::NONE, 1 << 32),
        _ => Clock::boot(exonet_proto::MAX_NUMBER - 1_000, Stamp::NONE, 256),
    };
    let taken = std::collections::BTreeSet::new();
    let mut node = Node {
        clock,
        sender: None,
        record: None,
        bound: Bound::default(),
        sent: 0,
        settled: Vec::new(),
        taken,
    };
    for op in ops::<Op>(rest, 256) {
        let (ck, b, limit) = (node.clock.ck(), node.clock.b(), node.clock.limit());
        let asked = node.sender.as_ref().map_or(0, |sender| sender.ungranted() + sender.envelopes());
        let own = matches!(op, Op::Close | Op::Reboot { .. });
        let grants = matches!(op, Op::OnAsk { .. } | Op::Retry { .. });
        node.apply(op);
        assert!(node.clock.ck() >= ck && node.clock.b() >= b && node.clock.limit() >= limit, "it went back");
        assert!(node.clock.ck() <= node.clock.limit().0);
        let moved = node.clock.ck() - ck;
        assert!(own || moved <= u64::from(grants), "a peer's number moved ck by {moved}");
        let after = node.sender.as_ref().map_or(0, |sender| sender.ungranted() + sender.envelopes());
        assert!(after <= asked.max(node.clock.limit().0), "more envelopes than were asked for");
        if let Some(record) = &node.record {
            let (hi, lo, free) = record.parts();
            assert!(lo <= hi && free.end().is_none_or(|end| end <= hi.0), "free slots beyond the frontier");
            assert!(record.incarnation().0 < node.clock.ck());
            let taken = record.taken();
            assert!(
                taken.is_none_or(|taken| taken.ts.is_some() && taken.end <= hi),
                "{taken:?} was never there"
            );
        }
        for ts in (0..=u64::from(u8::MAX)).map(Stamp) {
            let said = State::of(node.record.as_ref(), &node.bound, &node.clock, ts).taken;
            assert!(said.is_none_or(|said| said.ts == ts && ts.is_some()));
        }
    }
}

impl Node {
    /// A number that is in use at the node.
    fn near(&self) -> u64 {
        let sender = self.sender.as_ref().map(|sender| sender.frontier().0);
        let record = self.record.as_ref().map(|record| record.parts().0.0);
        record.or(sender).unwrap_or(self.clock.ck())
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind of input")]
    fn apply(&mut self, op: Op) {
        let (near, ck) = (self.near(), self.clock.ck());
        match op {
            Op::Send => {
                let sender = self.sender.get_or_insert_with(|| Sender::open(&self.clock));
                if sender.bind(self.sent).is_ok() {
                    self.sent += 1;
                    self.settled.push(false);
                }
            }
            Op::Ask { standby } => {
                let limit = self.clock.limit();
                let clock = &mut self.clock;
                let ask = self.sender.as_mut().and_then(|sender| sender.ask(clock, 0, standby.wide(near)));
                assert!(ask.is_none_or(|ask| ask.end().is_some_and(|end| end <= limit)));
            }
            Op::Close => {
                let close = Sender::close(&mut self.sender, &mut self.clock);
                assert!(close.is_none_or(|ask| ask.n == 0 && ask.l.0 == self.clock.ck()));
            }
            Op::Abandon { s } => {
                let gone = self.sender.as_mut().and_then(|sender| sender.abandon(Slot(s.wide(near))));
                gone.into_iter().for_each(|m| self.settle(m));
            }
            Op::OnAsk { s, n, l, ts, grant } => {
                let (s, l, ts) = (Slot(s.wide(near)), Slot(l.wide(near)), Stamp(ts.into()));
                let ask = Ask { s, n: n.wide(1), l, ts };
                let free = self.record.as_ref().map_or(0, Receiver::free);
                let grant = grant.wide(8);
                let _: Answer =
                    Receiver::on_ask(&mut self.record, &mut self.bound, &mut self.clock, ask, grant);
                let now = self.record.as_ref().map_or(0, Receiver::free);
                assert!(now <= free.saturating_add(grant), "more was granted than the node would");
            }
            Op::OnToken { s, r } => {
                let r = Incarnation(r.wide(self.record.as_ref().map_or(ck, |record| record.incarnation().0)));
                let s = Slot(s.wide(near));
                if let Some(record) = &mut self.record {
                    let accepts = record.accepts(s, r);
                    assert_eq!(record.take(s, r), accepts);
                    assert!(!accepts || self.taken.insert((r, s)), "a slot was consumed twice");
                }
            }
            Op::OnEarly { s, ts } => {
                let s = Slot(s.wide(near));
                let name = self.record.as_mut().and_then(|record| record.name(s, Stamp(ts.into())));
                if let (Some(r), Some(record)) = (name, &mut self.record) {
                    assert!(record.take(s, r) && self.taken.insert((r, s)), "a slot was consumed twice");
                    assert!(record.taken().is_some_and(|taken| taken.end > s));
                }
            }
            Op::OpenEarly { ts, count } => {
                if self.sender.is_none() && ts > 0 {
                    let first = self.sent;
                    let messages = first..first + usize::from(count % 8);
                    self.sender = Sender::open_early(&mut self.clock, Stamp(ts.into()), messages.clone());
                    if self.sender.is_some() {
                        self.sent = messages.end;
                        self.settled.resize(self.sent, false);
                    }
                }
            }
            Op::Refuse { ts } => self.bound.refuse(Far::one(Stamp(ts.into()))),
            Op::Fold => self.clock.stamps_mut().fold(&mut self.bound),
            Op::OnState { b, r, live, taken } => self.on_state(b, r, live, taken),
            Op::Retry { grant } => {
                Receiver::retry(&mut self.record, &mut self.bound, &mut self.clock, grant.wide(8));
            }
            Op::Drop => {
                self.record.take_if(|record| record.is_drained());
            }
            Op::Evict => {
                if let Some(record) = self.record.take() {
                    record.evict(&mut self.bound, &mut self.clock);
                }
            }
            Op::Persist { durable } => {
                let wanted = durable.map(|durable| durable.wide(ck)).or(self.clock.wanted());
                wanted.into_iter().for_each(|durable| self.clock.persisted(durable));
                let latest = self.clock.stamps().latest().0 + 1;
                self.clock.stamps_mut().persisted(Stamp(latest));
            }
            Op::Reboot { block } => {
                self.clock = Clock::boot(self.clock.limit().0, Stamp::NONE, block.wide(1));
                (self.sender, self.record) = (None, None);
                self.settled.fill(true);
            }
        }
    }

    fn on_state(&mut self, b: Number, r: Number, live: Option<Said>, taken: Option<(u8, Number)>) {
        let Some(sender) = &mut self.sender else { return };
        let known = sender.incarnation().map_or(0, |r| r.0);
        let frontier = sender.frontier().0;
        let live = live.map(|said| {
            let mut free = IntervalSet::new();
            for (at, len) in said.free {
                let at = at.at(frontier);
                free.insert(at..at + u64::from(len));
            }
            let slot = |number: Number| Slot(number.wide(frontier));
            Claim {
                hi: slot(said.hi),
                lo: slot(said.lo),
                up: slot(said.up),
                free,
                closed: false,
                part: said.part,
            }
        });
        let end = |end: Number| Slot(end.wide(frontier));
        let taken = taken.map(|(ts, number)| Taken { ts: Stamp(ts.into()), end: end(number) });
        let state = State { b: Incarnation(b.wide(known)), r: Incarnation(r.wide(known)), live, taken };
        let (envelopes, ungranted) = (sender.envelopes(), sender.ungranted());
        let mut settled = Vec::new();
        let moved = sender.on_state(&state, |_, _, m, _| settled.push(m)).granted;
        assert!(sender.ungranted() <= ungranted && (moved || sender.envelopes() <= envelopes));
        assert!(sender.envelopes() <= envelopes + ungranted, "envelopes that were never asked for");
        settled.into_iter().for_each(|m| self.settle(m));
    }

    fn settle(&mut self, m: usize) {
        assert!(!std::mem::replace(&mut self.settled[m], true), "message {m} was settled twice");
    }
}
