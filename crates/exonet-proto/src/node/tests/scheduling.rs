//! The application's own schedulers, and what they cannot do.

use std::sync::{Arc, Mutex};

use super::*;
use crate::parts::{Kind, MOST_WAITING, Parts, Scheduler, Waiting};

/// How a scheduler chooses a message.
type Choose = fn(&[Waiting]) -> Option<usize>;

/// What was sent of the chosen messages: the name or, without one, the length of the message, and how many bytes.
type Sent = Arc<Mutex<Vec<(String, u64)>>>;

#[derive(Debug)]
struct Own {
    choose: Choose,
    sent: Sent,
}

impl Scheduler for Own {
    fn next(&mut self, _: Mono, waiting: &[Waiting]) -> Option<usize> {
        assert!((2..=MOST_WAITING).contains(&waiting.len()));
        (self.choose)(waiting)
    }

    fn on_sent(&mut self, _: Mono, sent: &Waiting, bytes: u64) {
        let name = String::from_utf8_lossy(&sent.name).into_owned();
        let name = if name.is_empty() { format!("{:?}", sent.priority) } else { name };
        self.sent.lock().unwrap().push((name, bytes));
    }
}

/// A pair whose first end uses `choose`, and what its scheduler is told.
fn pair_that_chooses(choose: Choose, other: Config) -> (Pair, Sent) {
    let sent = Sent::default();
    let for_peers = Arc::clone(&sent);
    let mut parts = Parts::default();
    parts.set_scheduler(move || Own { choose, sent: Arc::clone(&for_peers) });
    let own = Config { parts, ..config() };
    (Pair::new([own, other]), sent)
}

/// The lowest priority, then the last name.
fn upside_down(waiting: &[Waiting]) -> Option<usize> {
    (0..waiting.len()).max_by_key(|at| (waiting[*at].priority, waiting[*at].name.clone()))
}

fn say(pair: &mut Pair, name: &'static str, size: usize) -> MessageKey {
    let (id, at) = (pair.ends[1].id(), address(1));
    let message = Outgoing { tag: name.into(), body: vec![7; size].into(), ..Outgoing::default() };
    pair.ends[0].send_in_stream(pair.now, id, &[at], message, crate::wire::StreamEnd::Open, false).unwrap()
}

fn names(sent: &Sent) -> Vec<String> {
    sent.lock().unwrap().drain(..).map(|(name, _)| name).collect()
}

/// The oldest message, of any kind.
fn oldest(waiting: &[Waiting]) -> Option<usize> {
    (0..waiting.len()).min_by_key(|at| waiting[*at].order)
}

#[test]
fn a_scheduler_may_choose_another_behind_each_message() {
    let (mut pair, sent) = pair_that_chooses(oldest, config());
    pair.talk(0);
    names(&sent);
    for _ in 0..8 {
        pair.send_as(0, 20, Priority::Urgent);
        pair.send_as(0, 20, Priority::Normal);
    }
    pair.pass(50 * MS);
    // The queue chooses the first message, as it does from time to time; the last message has no other beside it.
    assert_eq!(names(&sent), [["Urgent", "Normal"]; 8].concat()[1..15]);
}

#[test]
fn a_scheduler_chooses_each_message() {
    let (mut pair, sent) = pair_that_chooses(upside_down, config());
    for _ in 0..20 {
        for priority in [Priority::Urgent, Priority::Normal, Priority::Bulk] {
            pair.send_as(0, 100, priority);
        }
    }
    pair.pass(50 * MS);
    // Only the last kind is left: there is no choice any more.
    let expected = [["Bulk"; 20], ["Normal"; 20]].concat();
    assert_eq!(names(&sent)[..40], expected);
    for _ in 0..60 {
        assert!(pair.ends[1].recv(pair.now).is_some());
    }
}

#[test]
fn a_scheduler_chooses_each_message_of_a_bundle() {
    let (mut pair, sent) = pair_that_chooses(upside_down, config());
    pair.talk(0);
    let (now, id, to) = (pair.now, pair.ends[1].id(), [address(1)]);
    let alike = |_| Outgoing { body: vec![7; 60].into(), ..Outgoing::default() };
    pair.ends[0].send_each(now, id, &to, &mut (0..40).map(alike), |_, _| {}).unwrap();
    (0..20).for_each(|_| _ = pair.send_as(0, 100, Priority::Urgent));
    pair.pass(50 * MS);
    assert_eq!(names(&sent), ["Normal"; 40]);
    assert!((0..60).all(|_| pair.ends[1].recv(pair.now).is_some()));
}

#[test]
fn a_scheduler_chooses_among_lanes_and_sees_what_waits() {
    fn last_name(waiting: &[Waiting]) -> Option<usize> {
        let plain = waiting.iter().find(|one| one.kind == Kind::Message);
        assert!(plain.is_none_or(|one| (one.name.len(), one.large) == (0, true) && one.bytes > 100_000));
        let streams = waiting.iter().filter(|one| one.kind == Kind::Stream);
        assert!(streams.clone().all(|one| !one.large && one.bytes > 1_000 && one.deadline.is_none()));
        upside_down(waiting)
    }
    let (mut pair, sent) = pair_that_chooses(last_name, config());
    for name in ["a", "b", "c"] {
        for _ in 0..5 {
            say(&mut pair, name, 1_000);
        }
    }
    pair.send(0, 100_000);
    pair.pass(50 * MS);
    let names = names(&sent);
    let first = |name: &str| names.iter().position(|sent| sent == name).unwrap();
    assert!(first("c") < first("b") && first("b") < first("a"), "{names:?}");
    let last = |name: &str| names.iter().rposition(|sent| sent == name).unwrap();
    assert!(last("c") < first("b") && last("b") < first("a"), "{names:?}");
    assert!(!names.contains(&"Normal".to_owned()), "in the end there is no choice: {names:?}");
}

#[test]
fn where_a_scheduler_names_nothing_the_queue_chooses() {
    fn none(_: &[Waiting]) -> Option<usize> {
        None
    }
    fn beyond(waiting: &[Waiting]) -> Option<usize> {
        Some(waiting.len())
    }
    for choose in [none as Choose, beyond] {
        let (mut pair, sent) = pair_that_chooses(choose, config());
        for priority in [Priority::Bulk, Priority::Urgent] {
            (0..10).for_each(|_| _ = pair.send_as(0, 1_000, priority));
        }
        (0..10).for_each(|_| _ = say(&mut pair, "a", 1_000));
        pair.pass(SECOND);
        assert!((0..20).all(|_| pair.ends[1].recv(pair.now).is_some()));
        pair.pass(SECOND);
        assert_eq!(pair.ends[0].stats().open_messages, 10, "the stream is not read");
        assert_eq!(names(&sent), [""; 0], "it chose nothing");
    }
}

#[test]
fn no_message_takes_the_window_from_the_one_that_a_scheduler_chose() {
    let small = limited(Limits { pool_window: 64 << 10, ..Limits::default() });
    let (mut pair, _) = pair_that_chooses(upside_down, small);
    pair.talk(0);
    pair.send(0, 50_000);
    pair.pass(10 * MS);
    let large = pair.send_as(0, 40_000, Priority::Low);
    let small = pair.send_as(0, 10_000, Priority::Normal);
    let apart = say(&mut pair, "a", 100);
    pair.pass(50 * MS);
    let waits = |pair: &Pair, key| pair.ends[0].status(key) == Status::Queued;
    assert!(waits(&pair, large), "15,000 bytes of the window are left");
    assert!(waits(&pair, small), "they are kept for it");
    assert!(!waits(&pair, apart), "a stream has a window of its own");
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(SECOND);
    assert!(!waits(&pair, large) && !waits(&pair, small));
}

#[test]
fn a_scheduler_opens_no_lane_that_has_no_room() {
    let limits = Limits { lane_window: 2_000, lane_pool: 2_000, ..Limits::default() };
    let (mut pair, sent) = pair_that_chooses(upside_down, limited(limits));
    pair.talk(0);
    names(&sent);
    let full: Vec<_> = (0..20).map(|_| say(&mut pair, "b", 1_000)).collect();
    let others: Vec<_> = (0..20).map(|_| pair.send(0, 1_000)).collect();
    pair.pass(50 * MS);
    let waiting = |pair: &Pair, keys: &[MessageKey]| {
        keys.iter().filter(|key| pair.ends[0].status(**key) == Status::Queued).count()
    };
    assert_eq!(waiting(&pair, &others), 0, "what has room goes");
    let before = waiting(&pair, &full);
    assert!(before >= 16, "the lane is full");
    let (now, id) = (pair.now, pair.ends[0].id());
    while pair.ends[1].recv_stream(now, &id, &"b".into()).is_some() {}
    pair.pass(SECOND);
    assert!(waiting(&pair, &full) < before, "there is room again");
}
