//! Exo's rules, tested with one acknowledgement per round of a path that numbers describe. The simulator tests how Exo performs
//! on links.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use super::bytes as bytes_of;
use super::phase::{LEAP, STARTUP_EXCESS};
use super::*;
use crate::channel::Rtt;
use crate::channel::congestion::TAGS;
use crate::channel::congestion::tests::ack;

const MTU: u16 = 1_200;
/// The rate and the propagation time of the path.
const RATE: f64 = 1_000_000.0;
const BASE: f64 = 0.1;
const PIPE: f64 = RATE * BASE;

struct Flow {
    exo: Exo,
    path: Rtt,
    now: f64,
    delivered: u64,
}

/// One round trip.
#[derive(Clone, Copy)]
struct Trip {
    rate: f64,
    /// Seconds in the queue.
    queue: f64,
    app_limited: bool,
    in_flight: f64,
    ce: u64,
    /// Seconds since the round before.
    span: f64,
    /// The rate of the narrowest link that a train of packets has shown.
    train: Option<u64>,
}

const TRIP: Trip =
    Trip { rate: RATE, queue: 0.0, app_limited: false, in_flight: PIPE, ce: 0, span: BASE, train: None };

impl Flow {
    fn new() -> Self {
        Self { exo: Exo::new(MTU), path: Rtt::default(), now: 1.0, delivered: 0 }
    }

    /// A flow after start-up, which knows the path.
    fn known() -> Self {
        let mut flow = Self::new();
        for _ in 0..6 {
            flow.trip(TRIP);
        }
        assert!(matches!(flow.exo.phase, Phase::Cruise { .. }), "{:?}", flow.exo.phase);
        flow
    }

    fn trip(&mut self, trip: Trip) {
        self.now += trip.span;
        let now = Mono((self.now * 1e9) as u64);
        let forward = Duration::from_secs_f64(BASE + trip.queue);
        self.path.on_sample(now, forward, Duration::ZERO);
        let bytes = (trip.rate * trip.span) as u64;
        let prior = self.delivered;
        self.delivered += bytes;
        let interval = Duration::from_secs_f64(trip.span);
        let mut packets = [0; TAGS];
        packets[usize::from(self.exo.tag_for_next_packet())] = (bytes / u64::from(MTU)) as u32;
        self.exo.on_ack(AckInfo {
            packets,
            in_flight: trip.in_flight as u64,
            app_limited: trip.app_limited,
            rtt: Some(forward),
            forward: Some(forward),
            rate: Some(Sample {
                delivered: bytes,
                interval,
                send_interval: interval,
                ack_interval: interval,
                prior_delivered: prior,
                app_limited: trip.app_limited,
            }),
            delivered: self.delivered,
            ce: trip.ce,
            train: trip.train,
            ..ack(now, bytes, &self.path)
        });
        let (window, pace) = (bytes_of(self.exo.limit().max(self.exo.floor())), bytes_of(self.exo.pace()));
        assert_eq!(
            (self.exo.window(), self.exo.pacing_rate()),
            (window, Some(pace.max(1))),
            "it is outdated"
        );
    }

    fn trips(&mut self, count: u32, trip: Trip) {
        (0..count).for_each(|_| self.trip(trip));
    }

    fn lose(&mut self, packets: u32, tag: Tag) {
        for _ in 0..packets {
            let now = Mono((self.now * 1e9) as u64);
            let loss = LossInfo { now, bytes: 1_200, sent_at: now, tag: tag as u8, in_flight: 0 };
            self.exo.on_loss(loss);
        }
    }

    fn rate(&self) -> f64 {
        self.exo.rate.get()
    }
}

#[test]
fn it_begins_with_the_initial_window_and_a_pace() {
    let exo = Exo::new(MTU);
    assert_eq!(exo.window(), initial_window(MTU));
    assert!(exo.pacing_rate().unwrap() > 0);
}

#[test]
fn start_up_doubles_until_the_rate_grows_no_more() {
    let mut flow = Flow::new();
    for doubling in 0..5 {
        flow.trip(Trip { rate: 10_000.0 * f64::from(1 << doubling), ..TRIP });
        assert!(matches!(flow.exo.phase, Phase::Startup(_)));
        assert!(flow.exo.pace() > 2.7 * flow.rate());
    }
    flow.trips(2, Trip { rate: 170_000.0, ..TRIP });
    assert!(matches!(flow.exo.phase, Phase::Startup(_)), "two rounds may be chance");
    flow.trips(2, Trip { rate: 170_000.0, in_flight: PIPE, ..TRIP });
    assert!(matches!(flow.exo.phase, Phase::Drain));
    assert!(flow.exo.pace() < 0.5 * flow.rate());
}

/// The rate of the path that a train has shown; the path gives `rate`.
const SHOWN: f64 = 0.7 * RATE;

fn shown(rate: f64) -> Trip {
    Trip { rate, train: Some(SHOWN as u64), ..TRIP }
}

#[test]
fn start_up_leaps_to_what_a_train_has_shown() {
    let mut flow = Flow::new();
    flow.trip(shown(10_000.0));
    assert!((flow.exo.pace() - SHOWN).abs() < 1.0, "{}", flow.exo.pace());
    assert!(flow.exo.limit() > 1.2 * SHOWN * BASE);
    let mut flow = Flow::new();
    flow.trip(Trip { train: Some(1_000_000_000), ..shown(10_000.0) });
    assert!(flow.exo.limit() < LEAP + 50_000.0, "whatever it shows: {}", flow.exo.limit());
}

#[test]
fn start_up_exceeds_the_link_by_little_until_that_is_refuted() {
    let mut flow = Flow::new();
    flow.trip(shown(SHOWN));
    assert!((flow.exo.pace() - STARTUP_EXCESS * SHOWN).abs() < 2.0, "{}", flow.exo.pace());
    flow.trip(shown(1.3 * SHOWN));
    assert!(flow.exo.pace() > 2.7 * flow.rate());
    assert!(matches!(flow.exo.phase, Phase::Startup(_)));
}

#[test]
fn start_up_on_a_known_link_ends_as_the_queue_begins() {
    for (train, ended) in [(Some(RATE as u64), true), (None, false)] {
        let mut flow = Flow::new();
        flow.trip(Trip { rate: 0.3 * RATE, train, ..TRIP });
        for rate in [0.45, 0.65] {
            flow.trip(Trip { rate: rate * RATE, train, queue: 0.035, ..TRIP });
        }
        assert!(flow.exo.over(0.25) > 0.0);
        assert!(matches!(flow.exo.phase, Phase::Startup(_)), "the link is not full yet");
        flow.trip(Trip { train, queue: 0.035, in_flight: 4.0 * PIPE, ..TRIP });
        assert_eq!(matches!(flow.exo.phase, Phase::Drain), ended, "{:?}", flow.exo.phase);
    }
}

#[test]
fn start_up_ends_with_a_queue_even_if_the_application_limits_it() {
    let mut flow = Flow::new();
    flow.trip(TRIP);
    flow.trip(Trip { rate: 4.0 * RATE, queue: 0.06, app_limited: true, in_flight: 5.0 * PIPE, ..TRIP });
    assert!(matches!(flow.exo.phase, Phase::Drain));
}

#[test]
fn losses_alone_take_nothing_away() {
    let mut flow = Flow::known();
    let (window, pace) = (flow.exo.window(), flow.exo.pacing_rate());
    assert!(!flow.exo.delay.stands(flow.exo.now));
    flow.lose(1_000, Tag::Cruise);
    assert_eq!((flow.exo.window(), flow.exo.pacing_rate()), (window, pace));
    flow.exo.on_persistent_congestion(Mono(9_000_000_000));
    assert_eq!((flow.exo.window(), flow.exo.pacing_rate()), (window, pace));
}

#[test]
fn an_application_that_sends_little_makes_the_path_no_slower() {
    let mut flow = Flow::known();
    flow.trips(100, Trip { rate: RATE / 10.0, app_limited: true, in_flight: 0.0, ..TRIP });
    assert!(flow.rate() >= RATE);
    flow.trip(Trip { rate: 2.0 * RATE, app_limited: true, in_flight: 0.0, ..TRIP });
    assert!(flow.rate() >= 2.0 * RATE, "but it may show that it is faster");
}

#[test]
fn the_window_bounds_what_is_under_way() {
    let mut flow = Flow::known();
    for i in 0..200_u32 {
        flow.trip(Trip { queue: f64::from(i % 5) * 0.004, in_flight: 0.9 * PIPE, ..TRIP });
        let beside = 2.0 * 1_200.0 + 54_000.0 + RATE * 0.3;
        assert!(float(flow.exo.window()) <= 2.25 * flow.exo.pipe() + beside);
        assert!(flow.exo.pace() <= 2.5 * flow.rate());
    }
}

#[test]
fn it_looks_upwards_only_with_a_short_queue_and_then_down() {
    let mut flow = Flow::known();
    let mut ups = 0;
    for _ in 0..40 {
        flow.trip(Trip { in_flight: 0.9 * PIPE, ..TRIP });
        let up = matches!(flow.exo.phase, Phase::Up { .. });
        ups += u32::from(up);
        if up {
            assert_eq!(flow.exo.tag_for_next_packet(), Tag::Up as u8);
        }
    }
    assert!((4..=20).contains(&ups), "{ups}");
    let mut flow = Flow::known();
    for _ in 0..40 {
        flow.trip(Trip { queue: 0.025, ..TRIP });
        assert!(!matches!(flow.exo.phase, Phase::Up { .. }));
    }
}

#[test]
fn growth_upwards_is_followed() {
    let mut flow = Flow::known();
    let mut rate = RATE;
    for _ in 0..60 {
        if matches!(flow.exo.phase, Phase::Up { .. }) {
            rate = (rate * 1.3).min(20.0 * RATE);
        }
        flow.trip(Trip { rate, in_flight: 0.9 * flow.exo.pipe(), ..TRIP });
    }
    assert!(flow.rate() > 15.0 * RATE, "{}", flow.rate() / RATE);
}

#[test]
fn a_queue_slows_the_cruise() {
    let mut flow = Flow::known();
    let free = flow.exo.pace();
    flow.trips(2, Trip { queue: 0.028, ..TRIP });
    assert!(flow.exo.pace() < 0.95 * free, "{} of {free}", flow.exo.pace());
}

#[test]
fn a_path_that_has_become_slow_is_believed_at_once() {
    let mut flow = Flow::known();
    flow.trips(2, Trip { rate: RATE / 10.0, queue: 0.2, in_flight: 2.0 * PIPE, ..TRIP });
    assert!(flow.rate() < 0.2 * RATE, "{}", flow.rate());
}

#[test]
fn a_moment_is_no_round_however_short_the_path_is() {
    let mut flow = Flow::known();
    let rounds = flow.exo.rounds.count();
    flow.trips(60, Trip { queue: 0.05, in_flight: 1.5 * PIPE, span: 0.000_05, ..TRIP });
    assert_eq!(flow.exo.rounds.count(), rounds, "of three milliseconds");
    assert!(matches!(flow.exo.phase, Phase::Cruise { .. }), "{:?}", flow.exo.phase);
    flow.trips(60, Trip { queue: 0.05, in_flight: 1.5 * PIPE, span: 0.000_05, ..TRIP });
    assert_eq!(flow.exo.rounds.count(), rounds + 1);
}

#[test]
fn a_lossy_path_is_tried_slower_for_a_whole_round() {
    for (lost, phase) in [(9, true), (0, false)] {
        let mut flow = Flow::known();
        flow.lose(lost, Tag::Cruise);
        flow.trip(Trip { in_flight: 0.5 * PIPE, ..TRIP });
        flow.exo.enter(Phase::Down);
        flow.exo.advance(1_200.0);
        assert_eq!(matches!(flow.exo.phase, Phase::Down), phase, "{lost} lost");
    }
}

#[test]
fn random_loss_is_made_up_for() {
    let mut flow = Flow::known();
    for _ in 0..100 {
        let tag = flow.exo.tag_for_next_packet();
        let tag = [Tag::Cruise, Tag::Up, Tag::Down][usize::from(tag)];
        flow.lose(9, tag);
        let in_flight = if tag == Tag::Up { 1.3 * PIPE } else { 0.8 * PIPE };
        flow.trip(Trip { rate: 0.9 * RATE, in_flight, ..TRIP });
    }
    assert!((0.07..0.12).contains(&flow.exo.baseline.random()), "{}", flow.exo.baseline.random());
    assert!(flow.rate() > 0.97 * RATE, "{}", flow.rate());
}

/// A queue that does not go away: after half the rate for two rounds, the queue is `after`.
fn alarmed(after: f64) -> Flow {
    let mut flow = Flow::known();
    let mut trips = 0;
    while !matches!(flow.exo.phase, Phase::Alarm(_)) {
        flow.trip(Trip { queue: 0.05, ..TRIP });
        trips += 1;
        assert!(trips < 30);
    }
    assert!(flow.exo.pace() < 0.51 * flow.rate() && flow.exo.limit() < 1.3 * PIPE);
    flow.trips(2, Trip { queue: after, ..TRIP });
    flow
}

#[test]
fn an_alarm_tells_an_own_queue_a_longer_way_and_a_rival_apart() {
    let own = alarmed(0.01);
    assert!(own.exo.competition.is_none() && (own.exo.delay.base() - BASE).abs() < 0.001);
    let longer = alarmed(0.05);
    assert!(longer.exo.competition.is_none());
    assert!((longer.exo.delay.base() - BASE - 0.05).abs() < 0.001, "{}", longer.exo.delay.base());
    let rival = alarmed(0.04);
    assert!(rival.exo.competition.is_some());
    assert_eq!(rival.exo.tag_for_next_packet(), Tag::Up as u8);
}

#[test]
fn competition_ends_when_the_queue_has_been_empty_for_long() {
    let mut flow = alarmed(0.04);
    flow.trips(3, TRIP);
    assert!(flow.exo.competition.is_some());
    flow.trips(5, TRIP);
    assert!(flow.exo.competition.is_none());
}

#[test]
fn in_competition_a_loss_at_the_top_of_the_queue_counts_and_no_other() {
    let mut flow = alarmed(0.04);
    flow.trip(Trip { queue: 0.09, ..TRIP });
    let window = |flow: &Flow| flow.exo.competition.as_ref().unwrap().bytes();
    let before = window(&flow);
    flow.lose(1, Tag::Up);
    assert!(window(&flow) < 0.71 * before);
    let mut flow = alarmed(0.04);
    flow.trip(Trip { queue: 0.09, ..TRIP });
    flow.trips(2, Trip { queue: 0.03, ..TRIP });
    let before = window(&flow);
    flow.lose(1, Tag::Up);
    assert!((window(&flow) - before).abs() < 1.0);
}

#[test]
fn a_delay_that_has_risen_is_looked_at_with_a_short_queue() {
    let mut flow = Flow::known();
    let mut trips = 0;
    while !matches!(flow.exo.phase, Phase::ProbeRtt { .. }) {
        flow.trip(Trip { queue: 0.02, ..TRIP });
        trips += 1;
        assert!(trips < 200);
    }
    assert!(flow.exo.limit() < 0.51 * flow.exo.pipe());
    flow.trips(4, Trip { queue: 0.012, in_flight: 0.4 * PIPE, ..TRIP });
    assert!(matches!(flow.exo.phase, Phase::Cruise { .. }));
    assert!((flow.exo.delay.base() - BASE - 0.012).abs() < 0.001, "{}", flow.exo.delay.base());
}

#[test]
fn marks_end_a_look_upwards_and_cost_a_part_of_the_window() {
    let mut flow = Flow::known();
    while !matches!(flow.exo.phase, Phase::Up { .. }) {
        flow.trip(Trip { in_flight: 0.9 * PIPE, ..TRIP });
    }
    flow.trip(Trip { ce: 1, in_flight: 1.2 * PIPE, ..TRIP });
    assert!(matches!(flow.exo.phase, Phase::Down));
    let marked = flow.exo.limit();
    flow.exo.warned = None;
    assert!(marked < 0.86 * flow.exo.limit());
}

#[test]
fn after_marks_looks_upwards_are_small() {
    let mut flow = Flow::known();
    while !matches!(flow.exo.phase, Phase::Up { .. }) {
        flow.trip(Trip { in_flight: 0.9 * PIPE, ..TRIP });
    }
    assert!(matches!(flow.exo.phase, Phase::Up { gain, .. } if gain > 1.2));
    flow.trip(Trip { ce: 1, in_flight: 1.2 * PIPE, ..TRIP });
    while !matches!(flow.exo.phase, Phase::Up { .. }) {
        flow.trip(Trip { in_flight: 0.9 * PIPE, ..TRIP });
    }
    assert!(matches!(flow.exo.phase, Phase::Up { gain, .. } if gain < 1.1));
}

#[test]
fn marks_of_what_left_at_the_rate_lower_it_by_their_share() {
    let mut flow = Flow::known();
    while !matches!(flow.exo.phase, Phase::Cruise { .. }) || flow.exo.lasted() < 2 {
        flow.trip(Trip { in_flight: 0.9 * PIPE, ..TRIP });
    }
    let before = flow.exo.rate.get();
    flow.exo.packets = 10.0;
    flow.exo.ce = 4.0;
    flow.exo.heed_marks();
    assert!((flow.exo.rate.get() / before - 0.8).abs() < 0.001);
    flow.exo.ce = 10.0;
    flow.exo.heed_marks();
    assert!((flow.exo.rate.get() / before - 0.8 * 0.7).abs() < 0.001, "never by more than three tenths");
}

impl Flow {
    /// A flow in the second round of cruising.
    fn cruising() -> Self {
        let mut flow = Self::known();
        while !matches!(flow.exo.phase, Phase::Cruise { .. }) || flow.exo.lasted() < 1 {
            flow.trip(Trip { in_flight: 0.9 * PIPE, ..TRIP });
        }
        flow
    }

    /// Runs this many rounds with a queue this long; in the end a packet is lost. Returns the window after one more round.
    fn signal(&mut self, rounds: u32, queue: f64) -> f64 {
        (0..rounds).for_each(|_| self.trip(Trip { queue, ..TRIP }));
        assert!(matches!(self.exo.phase, Phase::Cruise { .. }), "{:?}", self.exo.phase);
        self.lose(1, Tag::Cruise);
        self.trip(Trip { queue, ..TRIP });
        self.exo.warned = None;
        self.exo.limit()
    }
}

#[test]
fn a_loss_from_a_queue_that_stands_makes_room_as_cubic_would() {
    let mut flow = Flow::cruising();
    let after = flow.signal(2, 0.008);
    assert!((after / (0.7 * 2.0 * PIPE) - 1.0).abs() < 0.01, "{after}");
    // No rival is left after some seconds.
    (0..150).for_each(|_| flow.trip(TRIP));
    assert!(flow.exo.yielding.is_none());
    // A queue that is too short, and one that has just begun.
    for (rounds, queue) in [(2, 0.003), (1, 0.008)] {
        let after = Flow::cruising().signal(rounds, queue);
        assert!(after > 1.45 * PIPE, "{rounds} rounds, {queue}: {after}");
    }
}

#[test]
fn on_a_path_that_loses_by_chance_a_loss_tells_nothing() {
    let mut flow = Flow::cruising();
    flow.lose(1, Tag::Cruise);
    assert!(flow.signal(2, 0.008) > 1.45 * PIPE);
    // A later loss revokes that belief.
    let mut flow = Flow::cruising();
    assert!(flow.signal(2, 0.008) < 1.45 * PIPE);
    flow.trip(TRIP);
    let making_room = flow.exo.window();
    flow.exo.warned = None;
    flow.lose(1, Tag::Cruise);
    assert!(flow.exo.yielding.is_none());
    assert!(flow.exo.window() > making_room, "at once");
}

#[test]
fn signals_of_what_exo_does_itself_make_no_room() {
    // Marks from a short queue, though they lower the rate.
    let mut flow = Flow::cruising();
    flow.trips(2, Trip { queue: 0.003, ..TRIP });
    flow.trip(Trip { queue: 0.003, ce: 1, ..TRIP });
    assert!(flow.exo.yielding.is_none());
    // A loss before the packets acknowledged now left at the rate of the path; it says nothing about later rounds.
    let mut flow = Flow::known();
    while !matches!(flow.exo.phase, Phase::Up { .. }) {
        flow.trip(Trip { in_flight: 0.9 * PIPE, ..TRIP });
    }
    flow.trips(2, Trip { queue: 0.02, in_flight: 1.2 * PIPE, ..TRIP });
    flow.lose(1, Tag::Up);
    assert!(flow.exo.told.is_some());
    for _ in 0..4 {
        flow.trip(Trip { queue: 0.008, ..TRIP });
        assert!(flow.exo.yielding.is_none() && flow.exo.told.is_none(), "{:?}", flow.exo.phase);
    }
}

#[test]
fn losses_of_what_left_before_room_was_made_are_one_signal() {
    let mut flow = Flow::cruising();
    flow.trips(2, Trip { queue: 0.008, ..TRIP });
    let late = flow.now;
    flow.lose(1, Tag::Cruise);
    flow.trip(Trip { queue: 0.008, ..TRIP });
    let once = flow.exo.yielding.as_ref().unwrap().window();
    let [now, sent_at] = [flow.now + 0.5 * BASE, late].map(|at| Mono((at * 1e9) as u64));
    flow.exo.on_loss(LossInfo { now, bytes: 1_200, sent_at, tag: Tag::Cruise as u8, in_flight: 0 });
    flow.trip(Trip { queue: 0.008, ..TRIP });
    let twice = flow.exo.yielding.as_ref().unwrap().window();
    assert!(twice > 0.99 * once, "{once}, then {twice}");
}

#[test]
fn who_makes_room_is_paced_by_it_and_who_competes_makes_none() {
    let mut flow = Flow::cruising();
    flow.signal(2, 0.008);
    flow.exo.yielding = Some(Yielding::begin(MTU, 0.3 * PIPE));
    assert!(flow.exo.pace() < 0.4 * flow.rate(), "{} of {}", flow.exo.pace(), flow.rate());
    flow.exo.compete(PIPE);
    assert!(flow.exo.yielding.is_none());
}

#[test]
fn a_mark_is_no_chance() {
    let mut flow = Flow::cruising();
    flow.lose(1, Tag::Cruise);
    (0..2).for_each(|_| flow.trip(Trip { queue: 0.008, ..TRIP }));
    flow.trip(Trip { queue: 0.008, ce: 1, ..TRIP });
    flow.trip(TRIP);
    flow.lose(1, Tag::Cruise);
    assert!(flow.exo.yielding.is_some());
}

#[test]
fn nothing_divides_by_a_path_of_no_length() {
    let mut exo = Exo::new(MTU);
    exo.delay.on_sample(0.0, 0.0, 0.0);
    exo.conclude();
    assert!(exo.window() >= minimum_window(MTU) && exo.pacing_rate().unwrap() > 0);
}
