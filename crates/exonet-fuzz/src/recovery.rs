//! Loss recovery of a path under arbitrary acknowledgements: every item has one fate, every packet is settled.

use core::ops::Range;
use core::time::Duration;

use arbitrary::Arbitrary;
use exonet_proto::Mono;
use exonet_proto::channel::congestion::{Cubic, Exo};
use exonet_proto::channel::recovery::{Ack, Config};
use exonet_proto::channel::{CongestionControl, EcnCounts, Fate, PacketInfo, Recovery, Sent};

use crate::number::Number;
use crate::ops::ops;

/// The number of epochs that share the path.
const EPOCHS: usize = 2;

#[derive(Debug, Arbitrary)]
enum Op {
    Send {
        epoch: bool,
        bytes: u16,
        eliciting: bool,
        in_flight: bool,
        probe: bool,
        off_path: bool,
        items: u8,
    },
    Train {
        epoch: bool,
        count: u8,
    },
    Discard {
        epoch: bool,
        items: u8,
    },
    /// Newest first, as on the wire: from `largest` down, each range after a gap.
    Ack {
        epoch: bool,
        largest: Number,
        delay: Number,
        arrival: Number,
        ecn: Option<[Number; 3]>,
        ranges: Vec<(u8, u8)>,
    },
    Wait {
        micros: u32,
    },
    /// Waits for the next timer.
    Ring,
    Move {
        max_datagram: u16,
    },
    AppLimited,
    Gone {
        epoch: bool,
    },
}

/// The fate of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    UnderWay,
    Lost,
    Over,
}

struct Bench {
    now: Mono,
    recovery: Recovery,
    sent: [Sent<usize>; EPOCHS],
    items: Vec<Item>,
    cubic: bool,
}

/// Operations on one path and two epochs; the first byte chooses the configuration.
pub fn recovery(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let now = Mono(1 << 50);
    let config = Config {
        reliable: choice & 2 != 0,
        max_datagram: if choice & 4 != 0 { 1_452 } else { 1_200 },
        ..Config::default()
    };
    let cubic = choice & 1 == 0;
    let mut bench = Bench {
        now,
        recovery: Recovery::new(now, config, congestion(cubic)),
        sent: [Sent::new(), Sent::new()],
        items: Vec::new(),
        cubic,
    };
    for op in ops::<Op>(rest, 256) {
        bench.apply(op);
        bench.check();
    }
    for epoch in 0..EPOCHS {
        bench.gone(epoch);
    }
    assert_eq!(bench.recovery.in_flight(), 0);
    assert_eq!(bench.recovery.pto_at(), None, "nothing is under way");
    assert!(bench.items.iter().all(|item| *item != Item::UnderWay), "an item was forgotten");
}

fn congestion(cubic: bool) -> Box<dyn CongestionControl> {
    if cubic { Box::new(Cubic::new(1_200)) } else { Box::new(Exo::new(1_200)) }
}

impl Bench {
    fn apply(&mut self, op: Op) {
        match op {
            Op::Send { epoch, bytes, eliciting, in_flight, probe, off_path, items } => {
                let info = PacketInfo {
                    bytes,
                    ack_eliciting: eliciting,
                    in_flight,
                    mtu_probe: probe,
                    off_path,
                    marked: self.recovery.marks(),
                };
                self.send(epoch.into(), info, items % 4);
            }
            Op::Train { epoch, count } => {
                for _ in 0..count % 64 {
                    let size = self.recovery.datagram_size();
                    self.send(epoch.into(), PacketInfo::data(size), 1);
                }
            }
            Op::Discard { epoch, items } => {
                let sent = &mut self.sent[usize::from(epoch)];
                (0..items).for_each(|_| sent.carry(usize::MAX));
                sent.discard();
            }
            Op::Ack { epoch, largest, delay, arrival, ecn, ranges } => {
                self.ack(epoch.into(), largest, [delay, arrival], ecn, &ranges);
            }
            Op::Wait { micros } => {
                self.now += Duration::from_micros(micros.into());
            }
            Op::Ring => self.ring(),
            Op::Move { max_datagram } => {
                let max_datagram = max_datagram.max(1_200);
                self.recovery.on_path_change(self.now, max_datagram, congestion(self.cubic));
                assert_eq!(self.recovery.in_flight(), 0);
            }
            Op::AppLimited => self.recovery.on_app_limited(),
            Op::Gone { epoch } => self.gone(epoch.into()),
        }
    }

    fn send(&mut self, epoch: usize, info: PacketInfo, items: u8) {
        let sent = &mut self.sent[epoch];
        for _ in 0..items {
            sent.carry(self.items.len());
            self.items.push(Item::UnderWay);
        }
        let expected = sent.next_number();
        assert_eq!(self.recovery.on_sent(self.now, sent, info), expected);
    }

    fn ack(
        &mut self,
        epoch: usize,
        largest: Number,
        [delay, arrival]: [Number; 2],
        ecn: Option<[Number; 3]>,
        further: &[(u8, u8)],
    ) {
        let (sent, items) = (&mut self.sent[epoch], &mut self.items);
        let next = sent.next_number();
        let ranges = descending(largest.at(next.saturating_sub(1)), further);
        let unsent = ranges.first().is_some_and(|range| range.end > next);
        let counts = ecn.map(|[a, b, c]| EcnCounts { ect0: a.at(next), ect1: b.at(next), ce: c.at(next) });
        let micros = |number: Number| Duration::from_micros(number.at(1_000));
        let ack =
            Ack { ranges: ranges.into_iter(), delay: micros(delay), arrival: micros(arrival), ecn: counts };
        let report = self.recovery.on_ack(self.now, sent, ack, |fate, item| settle(items, fate, item));
        assert_eq!(report.is_err(), unsent, "what was never sent is an error, and nothing else");
    }

    fn ring(&mut self) {
        let timers = self.sent.iter().filter_map(Sent::loss_time).chain(self.recovery.pto_at());
        let Some(at) = timers.min() else { return };
        self.now = self.now.max(at);
        for sent in &mut self.sent {
            if sent.loss_time().is_some_and(|time| time <= self.now) {
                let items = &mut self.items;
                self.recovery.on_loss_timeout(self.now, sent, |fate, item| settle(items, fate, item));
            }
        }
        if self.recovery.pto_at().is_some_and(|time| time <= self.now) {
            let probe = self.recovery.on_pto(self.now);
            assert!((1..=3).contains(&probe.packets));
            assert!(self.recovery.pto_at().is_none_or(|time| time > self.now), "probes at once, for ever");
        }
    }

    fn gone(&mut self, epoch: usize) {
        let items = &mut self.items;
        self.recovery.on_gone(&mut self.sent[epoch], |fate, item| settle(items, fate, item));
        assert!(self.sent[epoch].is_settled() && self.sent[epoch].remembered() == 0);
    }

    fn check(&mut self) {
        let size = self.recovery.datagram_size();
        assert!(size >= 1_200);
        let _ = self.recovery.allowance(self.now, size, u64::MAX);
        assert!(self.recovery.mtu_probe(self.now, usize::MAX).is_none_or(|probe| probe > size));
        assert!(self.recovery.congestion().window() > 0);
        for sent in &self.sent {
            assert!(sent.outstanding().flatten().all(|item| self.items[item] == Item::UnderWay));
        }
    }
}

/// Ranges as an ACK holds them: disjoint, not adjacent, newest first.
fn descending(largest: u64, further: &[(u8, u8)]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for (gap, len) in further {
        let last = match ranges.last() {
            Some(range) => range.start.checked_sub(u64::from(*gap) + 2),
            None => Some(largest),
        };
        let Some(last) = last else { break };
        ranges.push(last.saturating_sub(u64::from(*len))..last + 1);
    }
    ranges
}

/// Checks that an item is acknowledged, lost or gone only once; only a lost item may be late, once.
fn settle(items: &mut [Item], fate: Fate, item: usize) {
    let was = items[item];
    let expected = if fate == Fate::Late { Item::Lost } else { Item::UnderWay };
    assert_eq!(was, expected, "item {item} is {fate:?}");
    items[item] = if fate == Fate::Lost { Item::Lost } else { Item::Over };
}
