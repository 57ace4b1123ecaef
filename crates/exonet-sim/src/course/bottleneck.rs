//! One direction of a course: a drop-tail queue before a link of fixed rate, which loses datagrams at random after the
//! queue.

use core::time::Duration;

use exonet_proto::Mono;

use crate::{Bursts, Codel, Dice, Signal};

/// The bytes that IPv4 and UDP add to a payload.
const HEADERS: u64 = 28;

/// How long a random delay lasts.
const WOBBLE: Duration = Duration::from_millis(10);

/// The mark of congestion: both ECN bits.
const CE: u8 = 0b11;

/// One direction between the two sides of a course.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Bytes per second, including the headers of IP and UDP.
    pub rate: u64,
    /// The delay from one side to the other, without queueing.
    pub delay: Duration,
    /// The largest additional delay. Datagrams stay in order. The delay changes every 10 ms.
    pub jitter: Duration,
    /// The capacity of the queue in bytes; datagrams that do not fit are dropped.
    pub queue: u64,
    /// The probability that a datagram is lost after the queue.
    pub loss: f64,
    /// Additional losses in bursts.
    pub bursts: Option<Bursts>,
    /// When the queue holds more bytes than this, datagrams marked ECT are marked CE as they leave.
    pub marks_above: Option<u64>,
    /// How CoDel signals a standing queue, if at all.
    pub codel: Option<Signal>,
    /// What happens to the marks of arriving datagrams.
    pub marks: Marks,
}

/// What a link does to datagrams that are marked ECT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// The mark stays.
    #[default]
    Kept,
    /// The mark is removed.
    Bleached,
    /// The datagram is lost.
    Lost,
}

impl Way {
    /// Makes a direction with `megabits` per second and half of a round trip of `rtt`. Its queue holds one
    /// bandwidth-delay product, and at least ten packets.
    pub fn new(megabits: f64, rtt: Duration) -> Self {
        let rate = whole(megabits * 125_000.0);
        let queue = whole(megabits * 125_000.0 * rtt.as_secs_f64()).max(15_000);
        Self {
            rate,
            delay: rtt / 2,
            jitter: Duration::ZERO,
            queue,
            loss: 0.0,
            bursts: None,
            marks_above: None,
            codel: None,
            marks: Marks::Kept,
        }
    }

    /// Like this direction, with this jitter.
    #[must_use]
    pub fn jittering(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// Like this direction, with this random loss rate.
    #[must_use]
    pub fn losing(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    /// Like this direction, but marks datagrams while the queue holds more than `bytes`.
    #[must_use]
    pub fn marking_above(self, bytes: u64) -> Self {
        Self { marks_above: Some(bytes), ..self }
    }

    /// Like this direction, with CoDel, and a queue four times as long.
    #[must_use]
    pub fn with_codel(self, signal: Signal) -> Self {
        Self { codel: Some(signal), queue: 4 * self.queue, ..self }
    }

    /// The share of datagrams that are not lost at random.
    pub fn kept(&self) -> f64 {
        (1.0 - self.loss) * self.bursts.map_or(1.0, |it| it.leave / (it.leave + it.enter))
    }

    /// Like this direction, but loses this share in bursts of `length` datagrams on average.
    #[must_use]
    pub fn bursting(self, loss: f64, length: f64) -> Self {
        let leave = 1.0 / length;
        let bursts = Bursts { enter: loss / (1.0 - loss) * leave, leave, loss: 1.0 };
        Self { bursts: Some(bursts), ..self }
    }
}

/// The traffic in one direction since the last call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Datagrams that arrived at the queue.
    pub datagrams: u64,
    /// Their bytes, including the headers of IP and UDP.
    pub bytes: u64,
    /// Datagrams for which there was no room in the queue, or that CoDel dropped.
    pub dropped: u64,
    /// Datagrams that arrived with the mark ECT.
    pub ect: u64,
    /// Datagrams that were marked CE.
    pub ce: u64,
    /// How long each datagram waited in the queue, in nanoseconds.
    waits: Vec<u64>,
}

impl Traffic {
    /// The median wait in the queue.
    pub fn median_wait(&self) -> Duration {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        Duration::from_nanos(waits.get(waits.len() / 2).copied().unwrap_or_default())
    }

    /// The longest wait in the queue.
    pub fn longest_wait(&self) -> Duration {
        Duration::from_nanos(self.waits.iter().copied().max().unwrap_or_default())
    }

    /// The share of datagrams that the queue dropped.
    #[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
    pub fn drop_rate(&self) -> f64 {
        self.dropped as f64 / self.datagrams.max(1) as f64
    }
}

#[derive(Debug)]
pub(super) struct Bottleneck {
    pub(super) way: Way,
    pub(super) traffic: Traffic,
    dice: Dice,
    /// When the last datagram of the queue leaves.
    busy: Mono,
    /// The additional delay, and until when it applies; then, when the last datagram arrives.
    wobble: (Duration, Mono),
    arrived: Mono,
    codel: Codel,
    bad: bool,
}

impl Bottleneck {
    pub(super) fn new(way: Way, dice: Dice) -> Self {
        Self {
            way,
            traffic: Traffic::default(),
            dice,
            busy: Mono(0),
            wobble: (Duration::ZERO, Mono(0)),
            arrived: Mono(0),
            codel: Codel::default(),
            bad: false,
        }
    }

    /// The arrival time and the mark of a datagram of `len` bytes that is sent at `now` with `ecn`; None: it is lost.
    pub(super) fn pass(&mut self, now: Mono, len: usize, ecn: u8) -> Option<(Mono, u8)> {
        let bytes = len as u64 + HEADERS;
        let wait = self.busy.since(now);
        self.traffic.datagrams += 1;
        self.traffic.bytes += bytes;
        self.traffic.waits.push(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        if wait + self.takes(bytes) > self.takes(self.way.queue) {
            self.traffic.dropped += 1;
            return None;
        }
        let begins = self.busy.max(now);
        let Some(ecn) = self.signal(begins, wait, ecn) else {
            self.traffic.dropped += 1;
            return None;
        };
        self.busy = begins + self.takes(bytes);
        let ecn = self.mark(wait, ecn)?;
        (!self.loses()).then(|| (self.arrival(), ecn))
    }

    fn arrival(&mut self) -> Mono {
        if !self.way.jitter.is_zero() && self.wobble.1 <= self.busy {
            self.wobble = (self.dice.span(Duration::ZERO, self.way.jitter), self.busy + WOBBLE);
        }
        self.arrived = self.arrived.max(self.busy + self.way.delay + self.wobble.0);
        self.arrived
    }

    /// The mark with which CoDel lets a datagram pass. None: CoDel drops it.
    fn signal(&mut self, begins: Mono, wait: Duration, ecn: u8) -> Option<u8> {
        let Some(signal) = self.way.codel else { return Some(ecn) };
        let sojourn = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        if !self.codel.dequeue(begins.0, sojourn) {
            return Some(ecn);
        }
        let marks = signal == Signal::Mark && ecn != 0 && self.way.marks == Marks::Kept;
        self.traffic.ce += u64::from(marks);
        marks.then_some(CE)
    }

    fn mark(&mut self, wait: Duration, ecn: u8) -> Option<u8> {
        if ecn == 0 {
            return Some(0);
        }
        self.traffic.ect += 1;
        match self.way.marks {
            Marks::Lost => None,
            Marks::Bleached => Some(0),
            Marks::Kept if self.way.marks_above.is_some_and(|bytes| wait > self.takes(bytes)) => {
                self.traffic.ce += 1;
                Some(CE)
            }
            Marks::Kept => Some(ecn),
        }
    }

    fn takes(&self, bytes: u64) -> Duration {
        Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / self.way.rate.max(1))
    }

    fn loses(&mut self) -> bool {
        let lost = self.dice.chance(self.way.loss);
        let Some(bursts) = self.way.bursts else { return lost };
        self.bad = if self.bad { !self.dice.chance(bursts.leave) } else { self.dice.chance(bursts.enter) };
        lost || self.bad && self.dice.chance(bursts.loss)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are small and positive")]
fn whole(x: f64) -> u64 {
    x as u64
}
