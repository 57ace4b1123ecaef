#![allow(clippy::single_range_in_vec_init)]

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::channel::congestion::{Cubic, Fixed, minimum_window};
use crate::channel::mtu::ETHERNET;
use crate::channel::units::{SECOND, mul_div};

mod link;
mod marks;
mod sizes;

fn us(micros: u64) -> Mono {
    Mono(micros * 1_000)
}

fn ms(millis: u64) -> Mono {
    us(millis * 1_000)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A call that a controller received.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Ack {
        bytes: u64,
        in_flight: u64,
        rtt: Option<Duration>,
        delay: Duration,
        forward: Option<Duration>,
        ce: u64,
        packets: [u32; TAGS],
        app_limited: bool,
    },
    Loss {
        bytes: u64,
        tag: u8,
        in_flight: u64,
    },
    Spurious,
    Persistent,
    Idle(Duration),
    Mtu(u16),
}

/// A wide-open controller that records its calls, and marks packets in turn.
#[derive(Clone, Debug)]
struct Scribe {
    window: u64,
    told: Arc<Mutex<Vec<Told>>>,
    sent: u8,
}

impl Scribe {
    fn new(window: u64) -> Self {
        Self { window, told: Arc::default(), sent: 0 }
    }

    fn say(&self, what: Told) {
        self.told.lock().unwrap().push(what);
    }

    fn told(&self) -> Vec<Told> {
        core::mem::take(&mut self.told.lock().unwrap())
    }
}

impl CongestionControl for Scribe {
    fn on_sent(&mut self, sent: SentInfo) {
        assert_eq!(sent.tag, self.sent % 4);
        self.sent = self.sent.wrapping_add(1);
    }

    fn on_ack(&mut self, ack: AckInfo<'_>) {
        let AckInfo { bytes, in_flight, rtt, ack_delay, forward, ce, packets, app_limited, .. } = ack;
        self.say(Told::Ack { bytes, in_flight, rtt, delay: ack_delay, forward, ce, packets, app_limited });
    }

    fn on_loss(&mut self, loss: LossInfo) {
        self.say(Told::Loss { bytes: loss.bytes, tag: loss.tag, in_flight: loss.in_flight });
    }

    fn on_spurious_loss(&mut self, _loss: LossInfo) {
        self.say(Told::Spurious);
    }

    fn on_persistent_congestion(&mut self, _now: Mono) {
        self.say(Told::Persistent);
    }

    fn on_idle_restart(&mut self, _now: Mono, idle: Duration) {
        self.say(Told::Idle(idle));
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.say(Told::Mtu(mtu));
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn tag_for_next_packet(&self) -> u8 {
        self.sent % 4
    }
}

/// One path, one epoch.
struct End {
    path: Recovery,
    sent: Sent<u64>,
    scribe: Scribe,
    fates: Vec<(Fate, u64)>,
    items: u64,
}

impl End {
    fn new(config: Config) -> Self {
        Self::under(Scribe::new(1 << 40), config)
    }

    fn under(scribe: Scribe, config: Config) -> Self {
        let path = Recovery::new(ms(0), config, Box::new(scribe.clone()));
        Self { path, sent: Sent::new(), scribe, fates: Vec::new(), items: 0 }
    }

    fn send_as(&mut self, now: Mono, info: PacketInfo) -> u64 {
        self.sent.carry(self.items);
        self.items += 1;
        self.path.on_sent(now, &mut self.sent, info)
    }

    /// Sends a packet of 1,000 bytes; its item is its number.
    fn send(&mut self, now: Mono) -> u64 {
        self.send_as(now, PacketInfo::data(1_000))
    }

    fn ack_with(&mut self, now: Mono, ranges: &[Range<u64>], delay: Duration, arrival: Duration) -> Report {
        let ack = Ack { ranges: ranges.iter().cloned(), delay, arrival, ecn: None };
        self.path
            .on_ack(now, &mut self.sent, ack, |fate, item| {
                self.fates.push((fate, item));
            })
            .unwrap()
    }

    fn ack(&mut self, now: Mono, ranges: &[Range<u64>]) -> Report {
        self.ack_with(now, ranges, Duration::ZERO, Duration::ZERO)
    }

    fn loss_timeout(&mut self, now: Mono) -> Report {
        self.path.on_loss_timeout(now, &mut self.sent, |fate, item| {
            self.fates.push((fate, item));
        })
    }

    fn fates(&mut self) -> Vec<(Fate, u64)> {
        core::mem::take(&mut self.fates)
    }

    /// An end with a round-trip time of 100 ms, measured by packet 0.
    fn measured() -> Self {
        let mut end = Self::new(Config { max_datagram: 1_472, ..Config::default() });
        end.send(ms(0));
        end.ack(ms(100), &[0..1]);
        end.fates();
        end.scribe.told();
        end
    }
}

#[test]
fn a_sample_takes_the_largest_if_it_is_new_and_elicited_the_ack() {
    let mut end = End::new(Config::default());
    for now in 0..4 {
        end.send(ms(now));
    }
    assert_eq!(end.ack(ms(50), &[1..2]).rtt, Some(millis(49)));
    assert_eq!(end.ack(ms(60), &[0..2]).rtt, None, "0 is new, but not the largest");
    assert_eq!(end.ack(ms(61), &[1..2]).rtt, None, "nothing is new");
    end.send_as(ms(62), PacketInfo { ack_eliciting: false, ..PacketInfo::data(100) });
    assert_eq!(end.ack(ms(70), &[2..5]).rtt, None, "the largest elicited nothing");
    assert_eq!(end.path.rtt().latest(), millis(49));
}

#[test]
fn the_peers_delay_counts_up_to_its_promise() {
    let mut end = End::measured();
    end.path.set_max_ack_delay(millis(20));
    end.send(ms(200));
    end.ack_with(ms(500), &[1..2], millis(200), Duration::ZERO);
    // 300 less 20, not less 200.
    assert_eq!(end.path.rtt().smoothed(), (millis(100) * 7 + millis(280)) / 8);
    assert!(matches!(end.scribe.told()[..], [Told::Ack { delay, .. }] if delay == millis(20)));
}

#[test]
fn three_packets_later_is_lost() {
    let mut end = End::measured();
    for _ in 0..4 {
        end.send(ms(100));
    }
    assert_eq!(end.ack(ms(200), &[3..4]).lost, 0);
    assert_eq!(end.fates(), vec![(Fate::Acked, 3)]);
    let report = end.ack(ms(200), &[3..5]);
    assert_eq!((report.acked, report.lost), (1, 1));
    assert_eq!(end.fates(), vec![(Fate::Acked, 4), (Fate::Lost, 1)]);
}

#[test]
fn nine_eighths_of_a_round_trip_later_is_lost() {
    let mut end = End::measured();
    end.send(ms(100));
    end.send(ms(110));
    end.ack(ms(210), &[2..3]);
    assert_eq!(end.sent.loss_time(), Some(us(212_500)));
    assert_eq!(end.loss_timeout(us(212_499)).lost, 0);
    assert_eq!(end.loss_timeout(us(212_500)).lost, 1);
    assert_eq!(end.sent.loss_time(), None);
    assert_eq!(end.fates(), vec![(Fate::Acked, 2), (Fate::Lost, 1)]);
}

#[test]
fn nothing_newer_acknowledged_is_never_lost() {
    let mut end = End::measured();
    end.send(ms(100));
    assert_eq!(end.sent.loss_time(), None);
    assert_eq!(end.loss_timeout(ms(60_000)).lost, 0);
    assert_eq!(end.path.on_pto(ms(60_000)).count, 1);
    assert_eq!(end.fates(), vec![], "a probe timeout declares nothing lost");
}

#[test]
fn a_late_acknowledgement_is_recognised_and_learnt_from() {
    let mut end = End::measured();
    for _ in 1..=9 {
        end.send(ms(100));
    }
    end.ack(ms(200), &[6..10]);
    assert_eq!(end.fates().iter().filter(|(fate, _)| *fate == Fate::Lost).count(), 5);
    let report = end.ack(ms(201), &[6..10, 2..3]);
    assert_eq!((report.acked, report.spurious), (1, 1));
    assert_eq!(end.fates(), vec![(Fate::Late, 2)]);
    assert!(end.scribe.told().contains(&Told::Spurious));
    // The packet was seven packets late: from now on only the eighth is lost.
    for _ in 10..=18 {
        end.send(ms(210));
    }
    end.ack(ms(310), &[17..18]);
    assert_eq!(end.fates(), vec![(Fate::Acked, 17)]);
    end.ack(ms(310), &[18..19]);
    assert_eq!(end.fates(), vec![(Fate::Acked, 18), (Fate::Lost, 10)]);
}

#[test]
fn a_lost_packet_is_remembered_for_two_probe_timeouts() {
    let mut end = End::measured();
    for _ in 1..=4 {
        end.send(ms(100));
    }
    end.ack(ms(200), &[4..5]);
    let memory = end.path.pto_interval() * 2;
    end.loss_timeout(ms(200) + memory - Duration::from_nanos(1));
    assert_eq!(end.sent.span(), 4);
    end.loss_timeout(ms(200) + memory);
    assert_eq!(end.sent.span(), 3, "2 was lost by time just now, and holds the ring");
    assert_eq!(end.ack(ms(900), &[1..2]).spurious, 0);
}

#[test]
fn what_the_handshake_took_is_assumed_until_something_is_measured() {
    let mut end = End::new(Config::default());
    let before = end.path.pto_interval();
    end.path.assume_rtt(millis(20));
    assert_eq!(end.path.pto_interval(), before - 3 * (INITIAL_RTT - millis(20)));
    assert!(!end.path.rtt().is_measured());
    end.path.rtt.on_sample(ms(50), millis(40), Duration::ZERO);
    end.path.assume_rtt(millis(20));
    assert_eq!(end.path.rtt().smoothed(), millis(40));
}

#[test]
fn a_probe_is_due_only_while_an_answer_is() {
    let mut end = End::measured();
    assert_eq!(end.path.pto_at(), None);
    end.send_as(ms(100), PacketInfo::ack(50));
    assert_eq!(end.path.pto_at(), None);
    end.send(ms(110));
    // 100 + 4 x 50 + 1.
    assert_eq!(end.path.pto_interval(), millis(301));
    assert_eq!(end.path.pto_at(), Some(ms(411)));
    // The first probe is early if an application waits: 100 + 50 + 1.
    end.path.set_awaited();
    assert_eq!(end.path.pto_at(), Some(ms(261)));
    end.send(ms(150));
    assert_eq!(end.path.pto_at(), Some(ms(301)));
    end.ack(ms(250), &[1..4]);
    assert_eq!(end.path.pto_at(), None);
    end.send(ms(300));
    assert_eq!(end.path.pto_at(), Some(ms(300) + end.path.pto_interval()), "nobody waits any more");
}

#[test]
fn probes_in_vain_make_the_next_first_one_later_until_one_was_needed() {
    let mut end = End::measured();
    // Sends a packet at `at`, whose probe is due `tail` later, and then a probe.
    let probe = |end: &mut End, at: u64| {
        let first = end.send(ms(at));
        end.path.set_awaited();
        let due = end.path.pto_at().unwrap();
        end.path.on_pto(due);
        end.send(due);
        let beyond = due.since(ms(at)) - end.path.config.max_ack_delay - end.path.rtt.smoothed();
        (first, due, beyond.as_micros() / end.path.rtt.variance().as_micros())
    };
    let mut at = 1_000;
    for expected in [1, 2, 4, 4] {
        let (first, due, deviations) = probe(&mut end, at);
        assert_eq!(deviations, expected);
        // The acknowledgement of the packet was late.
        end.ack(due + millis(1), &[first..first + 1]);
        end.ack(due + millis(100), &[first + 1..first + 2]);
        at += 1_000;
    }
    for expected in [4, 1] {
        // A path without loss.
        end.path.loss = Loss::default();
        let (first, due, deviations) = probe(&mut end, at);
        assert_eq!(deviations, expected);
        // Only the probe arrived.
        end.ack(due + millis(100), &[first + 1..first + 2]);
        at += 1_000;
    }
    let (first, due, _) = probe(&mut end, at);
    end.ack(due + millis(1), &[first..first + 1]);
    end.ack(due + millis(100), &[first + 1..first + 2]);
    end.path.loss.on_fates(99, 1);
    assert_eq!(probe(&mut end, at + 1_000).2, 1, "where packets are lost, an early probe pays");
}

#[test]
fn probes_back_off_until_progress() {
    let mut end = End::measured();
    end.send(ms(100));
    assert_eq!(end.path.on_pto(ms(401)), Probe { count: 1, packets: 1 });
    assert_eq!(end.path.pto_at(), Some(ms(401 + 301)));
    assert_eq!(end.path.on_pto(ms(1_003)), Probe { count: 2, packets: 1 });
    assert_eq!(end.path.pto_at(), Some(ms(1_003 + 602)));
    // An ACK of nothing new is no progress.
    end.ack(ms(1_010), &[0..1]);
    assert_eq!(end.path.pto_count(), 2);
    end.ack(ms(1_011), &[1..2]);
    assert_eq!(end.path.pto_count(), 0);
}

#[test]
fn probes_are_more_and_sooner_where_loss_is_random() {
    let mut end = End::measured();
    end.path.loss.on_fates(99, 1);
    end.send(ms(100));
    end.path.on_pto(ms(401));
    assert_eq!(end.path.on_pto(ms(702)), Probe { count: 2, packets: 2 });
    assert_eq!(end.path.pto_at(), Some(ms(702) + millis(301) * 3 / 2));
}

#[test]
fn who_has_more_than_it_can_take_gets_no_more_than_that() {
    let mut end = End::measured();
    (0..2).for_each(|_| end.path.loss.on_delay(millis(200), millis(100)));
    (0..9).for_each(|_| end.path.loss.on_fates(0, 1));
    end.send(ms(100));
    end.path.set_awaited();
    assert_eq!(end.path.pto_at(), Some(ms(401)), "the first probe is not early");
    end.path.on_pto(ms(401));
    assert_eq!(end.path.on_pto(ms(702)), Probe { count: 2, packets: 1 });
    assert_eq!(end.path.pto_at(), Some(ms(702 + 602)));
    assert_eq!(end.path.hedge(ms(702), true), None);
}

#[test]
fn a_sender_of_many_packets_probes_soon_though_it_saw_a_queue() {
    for (packets, wait) in [(15, millis(301 * 16)), (16, millis(602))] {
        let mut end = End::measured();
        (0..2).for_each(|_| end.path.loss.on_delay(millis(200), millis(100)));
        (0..9).for_each(|_| end.path.loss.on_fates(0, 1));
        (0..packets).for_each(|_| _ = end.send(ms(100)));
        end.path.set_awaited();
        let mut last = ms(100);
        for _ in 0..5 {
            last = end.path.pto_at().unwrap();
            end.path.on_pto(last);
        }
        assert_eq!(end.path.pto_at(), Some(last + wait), "{packets}");
    }
}

#[test]
fn delays_of_packets_tell_overload_from_chance() {
    for late in [false, true] {
        let mut end = End::new(Config::default());
        for round in 0..20 {
            let now = ms(1_000 * (round + 1));
            let first = (0..10).map(|_| end.send(now)).min().unwrap();
            // The last of ten packets arrives.
            let there = millis(if late && round > 0 { 150 } else { 50 });
            let arrival = Duration::from_nanos((now + there).0);
            end.ack_with(now + there + millis(50), &[first + 9..first + 10], Duration::ZERO, arrival);
            end.loss_timeout(now + millis(500));
        }
        assert_eq!(end.path.is_random(), !late);
    }
}

#[test]
fn what_a_handshake_took_is_assumed_until_a_packet_was_acknowledged() {
    let mut end = End::new(Config::default());
    end.path.assume_rtt(millis(20));
    assert_eq!((end.path.rtt().smoothed(), end.path.rtt().is_measured()), (millis(20), false));
    end.path.assume_rtt(Duration::ZERO);
    assert_eq!(end.path.rtt().smoothed(), millis(1));
    end.send(ms(0));
    end.ack(ms(100), &[0..1]);
    end.path.assume_rtt(millis(20));
    assert_eq!(end.path.rtt().smoothed(), millis(100));
}

#[test]
fn only_silence_is_persistent_congestion() {
    let mut end = End::measured();
    end.send(ms(100));
    for count in 1..=6 {
        end.path.on_pto(ms(100 + 1_000 * count));
        let persistent = end.scribe.told().contains(&Told::Persistent);
        assert_eq!(persistent, count == 5, "{count}");
    }
    // Losses are not persistent congestion, however many and however long.
    let mut end = End::measured();
    for round in 1..200 {
        for _ in 0..10 {
            end.send(ms(round * 100));
        }
        let last = end.sent.next_number();
        end.ack(ms(round * 100 + 100), &[last - 1..last]);
    }
    assert!(!end.scribe.told().contains(&Told::Persistent));
}

#[test]
fn cubic_falls_to_its_floor_by_silence() {
    let mut sent: Sent<()> = Sent::new();
    let mut path = Recovery::new(ms(0), Config::default(), Box::new(Cubic::new(BASE)));
    path.on_sent(ms(0), &mut sent, PacketInfo::data(1_200));
    for _ in 0..5 {
        path.on_pto(path.pto_at().unwrap());
    }
    assert_eq!(path.congestion().window(), minimum_window(BASE));
}

#[test]
fn the_controller_is_told_everything() {
    let mut end = End::measured();
    for now in 100..105 {
        end.send_as(ms(now), PacketInfo { marked: true, ..PacketInfo::data(1_000) });
    }
    let ack = Ack {
        ranges: [2..6].into_iter(),
        delay: Duration::ZERO,
        arrival: millis(7_000),
        ecn: Some(EcnCounts { ect0: 2, ce: 2, ..EcnCounts::default() }),
    };
    end.path.on_ack(ms(204), &mut end.sent, ack, |_, _| {}).unwrap();
    assert_eq!(
        end.scribe.told(),
        vec![
            Told::Ack {
                bytes: 4_000,
                in_flight: 1_000,
                rtt: Some(millis(100)),
                delay: Duration::ZERO,
                forward: Some(millis(100)),
                ce: 2,
                packets: [1, 1, 1, 1],
                app_limited: false,
            },
            Told::Loss { bytes: 1_000, tag: 1, in_flight: 0 },
        ]
    );
}

#[test]
fn epochs_share_the_path() {
    let mut end = End::measured();
    let mut next: Sent<u64> = Sent::new();
    end.send(ms(100));
    end.path.on_sent(ms(100), &mut next, PacketInfo::data(500));
    assert_eq!(end.path.in_flight(), 1_500);
    // The same number in the other epoch names another packet.
    let ack = Ack { ranges: [0..1].into_iter(), delay: Duration::ZERO, arrival: Duration::ZERO, ecn: None };
    end.path.on_ack(ms(150), &mut next, ack, |_, _| {}).unwrap();
    assert_eq!(end.path.rtt().latest(), millis(50));
    assert_eq!(end.path.in_flight(), 1_000);
    assert!(end.path.pto_at().is_some());
    end.path.on_gone(&mut end.sent, |fate, item| {
        end.fates.push((fate, item));
    });
    assert_eq!(end.fates(), vec![(Fate::Gone, 1)]);
    assert_eq!((end.path.in_flight(), end.path.pto_at()), (0, None));
}

#[test]
fn packets_of_the_old_path_do_not_bear_on_the_new() {
    let mut end = End::measured();
    for _ in 0..4 {
        end.send(ms(100));
    }
    let scribe = Scribe::new(1 << 40);
    end.path.on_path_change(ms(110), 1_472, Box::new(scribe.clone()));
    assert_eq!((end.path.in_flight(), end.path.rtt().is_measured()), (0, false));
    assert!(end.path.pto_at().is_some(), "they still want an answer");
    end.send(ms(120));
    let report = end.ack(ms(200), &[4..5]);
    assert_eq!((report.acked, report.lost, report.rtt), (1, 1, None));
    assert_eq!(end.fates(), vec![(Fate::Acked, 4), (Fate::Lost, 1)]);
    assert_eq!((end.path.in_flight(), scribe.told()), (1_000, vec![]));
    // A late acknowledgement of a packet of the old path does not raise the thresholds of this path.
    end.ack(ms(201), &[4..5, 1..2]);
    assert_eq!(scribe.told(), vec![]);
    assert!(!end.path.is_lossy(), "nor does what it lost");
    assert_eq!(end.ack(ms(220), &[5..6]).rtt, Some(millis(100)));
    assert_eq!((end.path.in_flight(), scribe.told().len()), (0, 1));
}

#[test]
fn packets_off_the_path_say_nothing_about_it() {
    let mut end = End::measured();
    end.send_as(ms(100), PacketInfo { off_path: true, ..PacketInfo::data(1_000) });
    assert_eq!(end.path.in_flight(), 0);
    assert_eq!(end.ack(ms(900), &[1..2]).rtt, None);
    assert_eq!((end.fates(), end.scribe.told()), (vec![(Fate::Acked, 1)], vec![]));
    assert_eq!(end.path.rtt().latest(), millis(100));
}

#[test]
fn a_full_window_blocks_and_an_empty_one_does_not() {
    let mut sent: Sent<()> = Sent::new();
    let mut path = Recovery::new(ms(0), Config::default(), Box::new(Fixed::new(3_000)));
    assert_eq!(path.allowance(ms(0), 1_200, u64::MAX), Allowance::Bytes(3_000));
    path.on_sent(ms(0), &mut sent, PacketInfo::data(1_200));
    path.on_sent(ms(0), &mut sent, PacketInfo::data(1_200));
    assert_eq!(path.allowance(ms(0), 1_200, u64::MAX), Allowance::Blocked);
    assert_eq!(path.allowance(ms(0), 600, u64::MAX), Allowance::Bytes(600));
    path.on_sent(ms(0), &mut sent, PacketInfo::ack(900));
    assert_eq!(path.in_flight(), 2_400, "ACKs do not count");
}

#[test]
fn without_a_rate_the_window_is_spread_over_the_round_trip() {
    let mut sent: Sent<()> = Sent::new();
    let mut path = Recovery::new(ms(0), Config::default(), Box::new(Cubic::new(BASE)));
    let mut now = ms(0);
    let mut last = None;
    // The initial window passes at once.
    for _ in 0..10 {
        assert!(matches!(path.allowance(now, 1_200, u64::MAX), Allowance::Bytes(_)));
        last = Some(path.on_sent(now, &mut sent, PacketInfo::data(1_200)));
    }
    assert_eq!(path.allowance(now, 1_200, u64::MAX), Allowance::Blocked);
    // A second window follows, 200 % of it spread over a round trip: 24,000 bytes over 100 ms in trains.
    now = ms(100);
    let ranges = [0..last.map_or(0, |last| last + 1)].into_iter();
    let ack = Ack { ranges, delay: Duration::ZERO, arrival: Duration::ZERO, ecn: None };
    path.on_ack(now, &mut sent, ack, |_, ()| {}).unwrap();
    assert_eq!(path.congestion().window(), 24_000);
    let mut times = Vec::new();
    while path.allowance(now, 1_200, u64::MAX) != Allowance::Blocked {
        match path.allowance(now, 1_200, u64::MAX) {
            Allowance::At(at) => now = at,
            _ => {
                path.on_sent(now, &mut sent, PacketInfo::data(1_200));
                times.push(now.since(ms(100)).as_micros());
            }
        }
    }
    // Six at once: what the rate of an unmeasured path, 12,000 x 200 % over 333 ms, gave in these 100 ms.
    assert_eq!(times[..6], [0; 6]);
    assert_eq!(times.len(), 20);
    for pair in times[6..].windows(2) {
        assert_eq!(pair[1] - pair[0], 2_500);
    }
}

#[test]
fn only_an_open_window_makes_the_application_the_limit() {
    for (window, limited) in [(1_000, false), (1_001, true)] {
        let mut end = End::under(Scribe::new(window), Config::default());
        end.send(ms(0));
        end.path.on_app_limited();
        end.send(ms(1));
        end.ack(ms(100), &[0..2]);
        assert!(matches!(end.scribe.told()[..], [Told::Ack { app_limited, .. }] if app_limited == limited));
    }
}

#[test]
fn a_late_mtu_probe_is_no_spurious_congestion() {
    let mut end = End::measured();
    let size = end.path.mtu_probe(ms(100), usize::MAX).unwrap();
    end.send_as(ms(100), PacketInfo { mtu_probe: true, ..PacketInfo::data(size) });
    for _ in 0..3 {
        end.send(ms(100));
    }
    assert_eq!(end.ack(ms(200), &[2..5]).lost, 1);
    let report = end.ack(ms(201), &[1..5]);
    assert_eq!((report.spurious, report.mtu_changed), (1, true));
    assert!(!end.scribe.told().contains(&Told::Spurious));
}

#[test]
fn idling_is_told() {
    let mut end = End::measured();
    end.send(ms(350));
    assert_eq!(end.scribe.told(), vec![Told::Idle(millis(350))]);
    end.ack(ms(450), &[1..2]);
    end.scribe.told();
    end.send(ms(460));
    assert_eq!(end.scribe.told(), vec![]);
}

#[test]
fn a_reliable_carrier_is_left_alone() {
    let mut end = End::new(Config { reliable: true, max_datagram: 9_000, ..Config::default() });
    for _ in 0..10 {
        end.send(ms(0));
    }
    assert_eq!(end.ack(ms(100), &[9..10]).lost, 0);
    assert_eq!((end.path.pto_at(), end.sent.loss_time()), (None, None));
    assert_eq!(end.path.allowance(ms(0), 1_200, u64::MAX), Allowance::Bytes(u64::MAX));
    assert_eq!((end.path.datagram_size(), end.path.mtu_probe(ms(100), usize::MAX)), (9_000, None));
    assert_eq!(end.path.rtt().latest(), millis(100));
}

#[test]
fn an_ack_of_what_was_never_sent_is_refused() {
    let mut end = End::measured();
    let ack = Ack { ranges: [0..2].into_iter(), delay: Duration::ZERO, arrival: Duration::ZERO, ecn: None };
    let result = end.path.on_ack(ms(100), &mut end.sent, ack, |_, _| {});
    assert_eq!(result, Err(AckOfUnsent { number: 1 }));
}

#[derive(Clone, Debug)]
enum Step {
    Send { epoch: usize, kind: u8, bytes: u16 },
    Ack { epoch: usize, back: u64, count: u64 },
    Wait(u64),
    Gone(usize),
    Move,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3_usize, 0..5_u8, 20..1_500_u16).prop_map(|(epoch, kind, bytes)| Step::Send { epoch, kind, bytes }),
        6 => (0..3_usize, 0..8_u64, 1..5_u64).prop_map(|(epoch, back, count)| Step::Ack { epoch, back, count }),
        3 => (1..400_u64).prop_map(Step::Wait),
        1 => (0..3_usize).prop_map(Step::Gone),
        1 => Just(Step::Move),
    ]
}

proptest! {
    /// Three epochs, moving paths, losses and reordering: every item ends once, and the bytes in flight and the probe timer match
    /// those of a plain list.
    #[test]
    fn the_account_is_always_right(steps in prop::collection::vec(step(), 1..300)) {
        let mut path = Recovery::new(ms(0), Config::default(), Box::new(Fixed::new(1 << 30)));
        let mut epochs: [Sent<usize>; 3] = Default::default();
        // By item: its packet, the path it left on, and its fates.
        let mut model: Vec<(PacketInfo, u32, Vec<Fate>)> = Vec::new();
        let (mut now, mut moves) = (ms(0), 0);
        for step in steps {
            let mut told = Vec::new();
            match step {
                Step::Send { epoch, kind, bytes } => {
                    let data = PacketInfo::data(bytes);
                    let info = match kind {
                        0 => PacketInfo::ack(bytes),
                        1 => PacketInfo { off_path: true, ..data },
                        2 => PacketInfo { ack_eliciting: false, ..data },
                        _ => data,
                    };
                    epochs[epoch].carry(model.len());
                    path.on_sent(now, &mut epochs[epoch], info);
                    model.push((info, moves, vec![]));
                }
                Step::Ack { epoch, back, count } => {
                    let end = epochs[epoch].next_number().saturating_sub(back);
                    let ranges = [end.saturating_sub(count)..end].into_iter();
                    let ack = Ack { ranges, delay: Duration::ZERO, arrival: Duration::ZERO, ecn: None };
                    path.on_ack(now, &mut epochs[epoch], ack, |fate, item| told.push((fate, item))).unwrap();
                }
                Step::Wait(millis) => {
                    now += Duration::from_millis(millis);
                    for epoch in &mut epochs {
                        path.on_loss_timeout(now, epoch, |fate, item| told.push((fate, item)));
                    }
                    if path.pto_at().is_some_and(|at| at <= now) {
                        path.on_pto(now);
                        prop_assert!(path.pto_at().is_none_or(|at| at > now), "the timer must not spin");
                    }
                }
                Step::Gone(epoch) => path.on_gone(&mut epochs[epoch], |fate, item| told.push((fate, item))),
                Step::Move => {
                    moves += 1;
                    path.on_path_change(now, BASE, Box::new(Fixed::new(1 << 30)));
                }
            }
            for (fate, item) in told {
                let fates = &mut model[item].2;
                match fate {
                    Fate::Late => prop_assert_eq!(&fates[..], &[Fate::Lost]),
                    _ => prop_assert_eq!(&fates[..], &[]),
                }
                fates.push(fate);
            }
            let open = || model.iter().filter(|(_, _, fates)| fates.is_empty());
            let in_flight: u64 = open()
                .filter(|(info, on, _)| info.in_flight && !info.off_path && *on == moves)
                .map(|(info, ..)| u64::from(info.bytes))
                .sum();
            prop_assert_eq!(path.in_flight(), in_flight);
            prop_assert_eq!(path.pto_at().is_some(), open().any(|(info, ..)| info.ack_eliciting));
        }
        for epoch in &mut epochs {
            path.on_gone(epoch, |fate, item| model[item].2.push(fate));
        }
        for (_, _, fates) in model {
            prop_assert!(matches!(fates[..], [_] | [Fate::Lost, Fate::Late]), "{fates:?}");
        }
        prop_assert_eq!((path.in_flight(), path.pto_at()), (0, None));
    }
}
