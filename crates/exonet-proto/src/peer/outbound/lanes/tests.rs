use super::*;

const MIB: u64 = 1 << 20;
const WINDOW: u64 = 16 << 10;
const ROUND_TRIP: Duration = Duration::from_millis(10);
/// The bytes of a message, and what it counts.
const LEN: u64 = 864;
const COUNTS: u64 = 1_024;

fn lanes() -> Lanes {
    let mut lanes = Lanes::default();
    lanes.set_limits(LaneLimits::new(WINDOW, 16 * MIB, 16_384));
    lanes.tick(Mono(0), ROUND_TRIP);
    lanes
}

fn begin(lanes: &mut Lanes, name: u64) -> LaneKey {
    lanes.enter(Lane::Method(name.to_be_bytes().to_vec().into()))
}

/// Binds messages while they may be bound. Returns what they count.
fn fill(lanes: &mut Lanes, now: Mono, key: LaneKey) -> u64 {
    let mut open = 0;
    while lanes.may_open(now, key, LEN) {
        lanes.open(key, Load::one(LEN));
        open += COUNTS;
    }
    is_sound(lanes);
    open
}

/// A STATE settles this many messages of the lane.
fn settle(lanes: &mut Lanes, now: Mono, key: LaneKey, messages: u64) {
    lanes.tick(now, ROUND_TRIP);
    lanes.close(key, Load { messages, bytes: messages * LEN });
    is_sound(lanes);
}

fn is_sound(lanes: &Lanes) {
    let [(shares, recounted), (unproven, of_unproven)] = lanes.shares();
    assert_eq!((shares, unproven), (recounted, of_unproven));
    assert!(shares <= 16 * MIB);
    let (open, counted) = lanes.count();
    assert_eq!(open, counted);
}

/// Equal to within a 20th.
fn about(bytes: u64, expected: u64) -> bool {
    bytes.abs_diff(expected) <= expected / 20
}

/// Settles what is open, fills again, and so on. Returns what each round trip takes.
fn rounds(lanes: &mut Lanes, key: LaneKey, rounds: u64) -> Vec<u64> {
    let mut now = lanes.now;
    (0..rounds)
        .map(|_| {
            let open = fill(lanes, now, key);
            now += ROUND_TRIP;
            settle(lanes, now, key, open / COUNTS);
            open
        })
        .collect()
}

#[test]
fn a_lane_that_is_read_has_half_of_what_is_left_from_the_second_trip_on() {
    let mut all = lanes();
    let (unread, read) = (begin(&mut all, 0), begin(&mut all, 1));
    assert!(about(fill(&mut all, Mono(0), unread), MIB + WINDOW), "an eighth of half");
    let taken = rounds(&mut all, read, 4);
    assert!(about(taken[0], 7 * MIB / 8 + WINDOW), "{taken:?}");
    assert!(taken[1..].iter().all(|bytes| about(*bytes, 15 * MIB / 2 + WINDOW)), "{taken:?}");
}

#[test]
fn any_number_of_unread_lanes_leave_half_of_the_pool() {
    let mut all = lanes();
    for name in 0..10_000 {
        let unread = begin(&mut all, name);
        fill(&mut all, Mono(0), unread);
    }
    assert!(all.shares()[0].0 <= 8 * MIB && about(all.shares()[0].0, 8 * MIB));
    let read = begin(&mut all, 10_000);
    let taken = rounds(&mut all, read, 4);
    assert_eq!(taken[0], WINDOW);
    assert!(taken[1..].iter().all(|bytes| about(*bytes, 4 * MIB + WINDOW)), "{taken:?}");
}

#[test]
fn what_was_settled_late_proves_nothing() {
    for (trips, proven) in [(8, true), (12, false)] {
        let mut all = lanes();
        let lane = begin(&mut all, 0);
        let first = fill(&mut all, Mono(0), lane);
        settle(&mut all, Mono(0) + ROUND_TRIP * trips, lane, first / COUNTS);
        let now = all.now;
        assert_eq!(fill(&mut all, now, lane) > 2 * first, proven, "{trips}");
    }
}

#[test]
fn a_lane_that_is_read_no_more_is_proven_no_longer() {
    let mut all = lanes();
    let lane = begin(&mut all, 0);
    rounds(&mut all, lane, 2);
    let now = all.now;
    let open = fill(&mut all, now, lane);
    assert!(about(open, 8 * MIB + WINDOW));
    assert_eq!(all.shares()[1].0, 0);
    assert!(!all.may_open(all.now + ROUND_TRIP * 12, lane, LEN));
    assert_eq!(all.shares()[1].0, open - WINDOW);
    is_sound(&all);
}

/// The application gives up messages that are not taken, and queues more: this does not show that anything reads them.
#[test]
fn what_is_given_up_proves_nothing() {
    let mut all = lanes();
    let lane = begin(&mut all, 0);
    let first = fill(&mut all, Mono(0), lane);
    for _ in 0..first / COUNTS {
        all.give_up(lane, Load::one(LEN));
        all.close(lane, Load::one(LEN));
    }
    assert_eq!(fill(&mut all, Mono(0), lane), 0, "it is open still");
    settle(&mut all, Mono(0) + ROUND_TRIP, lane, first / COUNTS);
    let now = all.now;
    assert!(fill(&mut all, now, lane) <= 2 * first);
}

#[test]
fn a_lane_ends_with_its_last_message_and_what_it_has_open() {
    let mut all = lanes();
    let lane = begin(&mut all, 0);
    assert_eq!(begin(&mut all, 0), lane);
    all.open(lane, Load::one(LEN));
    all.leave(lane);
    all.leave(lane);
    assert_ne!(begin(&mut all, 1), lane, "something is open");
    all.close(lane, Load::one(LEN));
    assert_eq!(begin(&mut all, 2), lane, "its place is free");
    assert_eq!(all.count(), (0, 0));
    is_sound(&all);
}

#[test]
fn lanes_beyond_the_limit_wait_until_another_has_nothing_open() {
    let mut all = lanes();
    all.set_limits(LaneLimits::new(WINDOW, 16 * MIB, 2));
    let keys: Vec<_> = (0..4).map(|name| begin(&mut all, name)).collect();
    let open = |all: &mut Lanes, at: usize| all.may_open(Mono(0), keys[at], LEN);
    for key in &keys[..2] {
        assert!(all.may_open(Mono(0), *key, LEN));
        all.open(*key, Load::one(LEN));
    }
    assert!(!open(&mut all, 2) && !open(&mut all, 3) && !open(&mut all, 2));
    assert!(open(&mut all, 0), "one that has something open goes on");
    all.close(keys[0], Load::one(LEN));
    assert_eq!((all.woken(), all.woken()), (Some(keys[2]), None));
    assert!(open(&mut all, 2));
}
