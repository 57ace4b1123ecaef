//! All parts together over an emulated link: a rate, a delay, a drop-tail queue, and random loss.

use std::collections::{BTreeSet, VecDeque};

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::*;
use crate::channel::Received;
use crate::channel::received::Arrival;

const SIZE: u16 = 1_200;

/// A bottleneck towards the receiver; the way back has the same delay and is never full.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// Bytes per second.
    rate: u64,
    delay: Duration,
    /// Bytes.
    queue: u64,
    /// Lost packets in a thousand.
    loss: u32,
}

/// An ACK frame on its way.
struct Told {
    at: Mono,
    ranges: Vec<Range<u64>>,
    delay: Duration,
}

/// A sender that always has data and resends what is lost, and its receiver.
struct World {
    link: Link,
    random: ChaCha8Rng,
    now: Mono,
    path: Recovery,
    sent: Sent<u64>,
    again: VecDeque<u64>,
    fresh: u64,
    probes: u32,
    /// The bottleneck is busy until then.
    busy: Mono,
    forward: VecDeque<(Mono, u64, u64)>,
    back: VecDeque<Told>,
    received: Received,
    delivered: BTreeSet<u64>,
    packets: u64,
    overflown: u64,
    spurious: u64,
}

impl World {
    fn new(link: Link) -> Self {
        Self {
            link,
            random: ChaCha8Rng::seed_from_u64(7),
            now: ms(0),
            path: Recovery::new(ms(0), Config::default(), Box::new(Cubic::new(SIZE))),
            sent: Sent::new(),
            again: VecDeque::new(),
            fresh: 0,
            probes: 0,
            busy: ms(0),
            forward: VecDeque::new(),
            back: VecDeque::new(),
            received: Received::default(),
            delivered: BTreeSet::new(),
            packets: 0,
            overflown: 0,
            spurious: 0,
        }
    }

    /// Runs for `span`.
    fn run(mut self, span: Duration) -> Self {
        let end = ms(0) + span;
        while self.now < end {
            self.receive();
            self.acknowledge();
            self.timers();
            let wake = self.send();
            let times = [
                wake,
                self.forward.front().map(|(at, ..)| *at),
                self.back.front().map(|told| told.at),
                self.received.ack_due(),
                self.sent.loss_time(),
                self.path.pto_at(),
            ];
            let next = times.into_iter().flatten().min().unwrap();
            assert!(next > self.now, "a timer spins at {:?}: {times:?}", self.now);
            self.now = next;
        }
        self
    }

    fn receive(&mut self) {
        while let Some((at, number, item)) = self.forward.front().copied() {
            if at > self.now {
                break;
            }
            self.forward.pop_front();
            if self.received.on_packet(self.now, number, true, 0) == Arrival::Fresh {
                self.delivered.insert(item);
            }
        }
        if self.received.ack_due().is_some_and(|due| due <= self.now) {
            let ranges = self.received.ranges().collect();
            let delay = self.received.delay(self.now);
            self.back.push_back(Told { at: self.now + self.link.delay, ranges, delay });
            self.received.on_ack_sent();
        }
    }

    fn acknowledge(&mut self) {
        while self.back.front().is_some_and(|told| told.at <= self.now) {
            let Told { ranges, delay, .. } = self.back.pop_front().unwrap();
            let ack = Ack { ranges: ranges.into_iter(), delay, arrival: Duration::ZERO, ecn: None };
            let report = self.path.on_ack(self.now, &mut self.sent, ack, |fate, item| {
                if fate == Fate::Lost {
                    self.again.push_back(item);
                }
            });
            self.spurious += report.unwrap().spurious;
        }
    }

    fn timers(&mut self) {
        if self.sent.loss_time().is_some_and(|at| at <= self.now) {
            self.path.on_loss_timeout(self.now, &mut self.sent, |_, item| self.again.push_back(item));
        }
        if self.path.pto_at().is_some_and(|at| at <= self.now) {
            self.probes = self.path.on_pto(self.now).packets;
            self.again.extend(self.sent.outstanding().next().into_iter().flatten());
        }
    }

    /// Sends what may leave. Returns when pacing lets more.
    fn send(&mut self) -> Option<Mono> {
        loop {
            if self.probes > 0 {
                self.probes -= 1;
            } else {
                match self.path.allowance(self.now, SIZE, u64::MAX) {
                    Allowance::Bytes(_) => {}
                    Allowance::At(at) => return Some(at),
                    Allowance::Blocked => return None,
                }
            }
            let item = self.again.pop_front().unwrap_or_else(|| {
                self.fresh += 1;
                self.fresh
            });
            self.sent.carry(item);
            let number = self.path.on_sent(self.now, &mut self.sent, PacketInfo::data(SIZE));
            self.transmit(number, item);
        }
    }

    fn transmit(&mut self, number: u64, item: u64) {
        self.packets += 1;
        let waiting = crate::channel::units::bytes_in(self.link.rate, self.busy.since(self.now));
        if waiting > self.link.queue {
            self.overflown += 1;
            return;
        }
        let time = mul_div(u64::from(SIZE), SECOND, self.link.rate);
        self.busy = self.busy.max(self.now) + Duration::from_nanos(time);
        if self.random.next_u32() % 1_000 >= self.link.loss {
            self.forward.push_back((self.busy + self.link.delay, number, item));
        }
    }

    /// Distinct items delivered, in percent of what the link could carry so far.
    fn utilisation(&self) -> u64 {
        let passed = mul_div(self.link.rate, self.now.0, SECOND) * u64::from(1_000 - self.link.loss) / 1_000;
        self.delivered.len() as u64 * u64::from(SIZE) * 100 / passed
    }
}

#[test]
fn cubic_fills_a_clean_link() {
    for (rate, delay) in [(1_250_000, 10), (12_500_000, 5), (12_500_000, 40)] {
        let queue = (rate * 2 * delay / 1_000).max(15_000);
        let world = World::new(Link { rate, delay: millis(delay), queue, loss: 0 }).run(millis(20_000));
        assert!(world.utilisation() >= 93, "{:?}: {} %", world.link, world.utilisation());
        let overflown = world.overflown * 1_000 / world.packets;
        assert!(overflown <= 10, "{:?}: {overflown} of 1000 dropped", world.link);
        assert_eq!(world.spurious, 0, "{:?}", world.link);
    }
}

#[test]
fn random_loss_slows_cubic_but_stalls_nothing() {
    for (loss, least) in [(10, 60), (50, 30), (200, 15)] {
        let link = Link { rate: 1_250_000, delay: millis(5), queue: 15_000, loss };
        let world = World::new(link).run(millis(20_000));
        assert!(world.utilisation() >= least, "{link:?}: {} %", world.utilisation());
        assert!(world.spurious * 1_000 <= world.packets, "{link:?}: {}", world.spurious);
    }
}
