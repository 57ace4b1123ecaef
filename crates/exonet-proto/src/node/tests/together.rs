//! Messages that were queued together: their deadlines, their sender's patience, and what a crash leaves of them.

use super::*;
use crate::half::Gap;
use crate::id::{Incarnation, Slot};
use crate::journal::{Durability, Placed, Recovered};
use crate::message::IncomingBody;

fn joined(own: Config, limits: Limits) -> Pair {
    let mut pair = Pair::new([own, limited(limits)]);
    pair.talk(0);
    pair.events.clear();
    pair
}

/// The window of the second end has room for about 40 small messages: its application holds a message that fills the rest.
fn tight(patience: Option<Duration>) -> Pair {
    let own = Config { doubt_timeout: patience, ..config() };
    let mut pair = joined(own, Limits { pool_window: 64 << 10, ..Limits::default() });
    pair.send(0, 56_000);
    pair.pass(SECOND);
    assert!(pair.ends[1].accept(pair.now).is_some());
    pair
}

/// A stream of the second end has room for about 40 small messages.
fn tight_streams() -> Pair {
    joined(config(), Limits { lane_window: 8_000, lane_pool: 0, ..Limits::default() })
}

/// `numbers` leave as one bundle; the body of each begins with its number. `like` has the rest.
fn send(pair: &mut Pair, numbers: core::ops::Range<u8>, like: &Outgoing, in_stream: bool) -> MessageKey {
    let (now, to, id, mut keys) = (pair.now, [address(1)], pair.ends[1].id(), Vec::new());
    let body = |n: u8| Bytes::from(vec![n; 40]);
    let mut messages = numbers.clone().map(|n| Outgoing { body: body(n), ..like.clone() });
    let queued = |key, n| keys.push((key, n));
    let sent = if in_stream {
        pair.ends[0].send_each_in_stream(now, id, &to, &mut messages, queued)
    } else {
        pair.ends[0].send_each(now, id, &to, &mut messages, queued)
    };
    assert_eq!((sent, keys.len()), (Ok(()), 1));
    assert_eq!(keys[0].1 as usize, numbers.len());
    keys[0].0
}

fn by(at: Mono) -> Outgoing {
    Outgoing { deadline: Some(at), ..Outgoing::default() }
}

fn number(body: &IncomingBody) -> u8 {
    let IncomingBody::Whole(body) = body else { panic!("{body:?}") };
    body[0]
}

fn take(pair: &mut Pair, most: usize) -> Vec<u8> {
    let now = pair.now;
    (0..most).map_while(|_| pair.ends[1].recv(now)).map(|incoming| number(&incoming.body)).collect()
}

fn is_sound(pair: &Pair) -> bool {
    let mut sound = true;
    pair.ends.iter().for_each(|end| end.audit(|holding| sound &= holding.is_sound()));
    sound
}

/// For each message of a bundle that has ended: its outcome, whether it had left, and whether it is late.
fn ends(pair: &Pair, key: MessageKey) -> Vec<(u32, Outcome, bool, bool)> {
    let mut all = Vec::new();
    for event in &pair.events {
        if let Event::Outcome { key: first, count, outcome, id, late, .. } = event
            && first.first() == key
        {
            all.extend((0..*count).map(|n| (first.nth(n).at, *outcome, id.is_some(), *late)));
        }
    }
    all.sort_by_key(|(at, ..)| *at);
    all
}

fn states(pair: &Pair, key: MessageKey, count: u32) -> [usize; 3] {
    let mut seen = [0; 3];
    for n in 0..count {
        seen[match pair.ends[0].status(key.nth(n)) {
            Status::Queued => 0,
            Status::InDoubt { .. } => 1,
            Status::Settled => 2,
        }] += 1;
    }
    seen
}

#[test]
fn messages_of_one_deadline_end_by_it_each_as_far_as_it_has_come() {
    let mut pair = tight(None);
    let like = by(pair.now.mono + 2 * SECOND);
    let key = send(&mut pair, 0..100, &like, false);
    pair.pass(SECOND);
    let [queued, left, _] = states(&pair, key, 100);
    assert!(queued > 20 && left > 20, "{queued} {left}");
    assert_eq!(take(&mut pair, 10), (0..10).collect::<Vec<_>>());
    pair.pass(SECOND / 2);
    assert_eq!(states(&pair, key, 100), [queued - 10, left, 10]);
    assert!(pair.ends[0].cancel(pair.now, key.nth(99)).is_ok() && is_sound(&pair));
    pair.pass(SECOND);
    assert_eq!((take(&mut pair, 100), states(&pair, key, 100)), (vec![], [0, 0, 100]));
    let left = u32::try_from(left).unwrap() + 10;
    for (at, outcome, has_left, late) in ends(&pair, key) {
        let expected = match at {
            0..10 => (Outcome::Delivered, true, false),
            at if at < left => (Outcome::Expired, true, true),
            at if at < 99 => (Outcome::Expired, false, false),
            _ => (Outcome::Cancelled, false, false),
        };
        assert_eq!((outcome, has_left, late), expected, "{at}");
    }
    assert_eq!(ends(&pair, key).len(), 100);
    assert!(pair.ends[0].cx.deadlines.is_empty() && is_sound(&pair));
}

#[test]
fn a_deadline_is_nobodys_once_all_of_its_messages_have_ended() {
    let mut pair = joined(config(), Limits::default());
    let like = by(pair.now.mono + 2 * SECOND);
    let key = send(&mut pair, 0..100, &like, false);
    pair.pass(SECOND);
    assert_eq!(take(&mut pair, 100).len(), 100);
    assert_eq!(pair.ends[0].cx.deadlines.len(), 1);
    pair.pass(SECOND / 2);
    assert!(pair.ends[0].cx.deadlines.is_empty());
    let delivered =
        |(_, outcome, _, late): &(u32, Outcome, bool, bool)| *outcome == Outcome::Delivered && !late;
    assert!(ends(&pair, key).iter().all(delivered) && ends(&pair, key).len() == 100);
}

#[test]
fn messages_of_a_stream_that_have_left_are_withdrawn_at_their_deadline() {
    let mut pair = tight_streams();
    let like = Outgoing { tag: "s".into(), ..by(pair.now.mono + SECOND) };
    let key = send(&mut pair, 0..100, &like, true);
    pair.pass(SECOND / 2);
    let [queued, left, _] = states(&pair, key, 100);
    assert!(queued > 20 && left > 20, "{queued} {left}");
    pair.pass(2 * SECOND);
    let id = pair.ends[0].id();
    let now = pair.now;
    assert!(pair.ends[1].recv_stream(now, &id, &"s".into()).is_none());
    pair.pass(SECOND);
    for (at, outcome, has_left, late) in ends(&pair, key) {
        let had_left = (at as usize) < left;
        assert_eq!((outcome, has_left, late), (Outcome::Expired, had_left, had_left), "{at}");
    }
    assert!(ends(&pair, key).len() == 100 && is_sound(&pair));
}

#[test]
fn patience_is_counted_from_when_each_has_left() {
    let mut pair = tight(Some(10 * SECOND));
    let key = send(&mut pair, 0..100, &Outgoing::default(), false);
    pair.pass(5 * SECOND);
    let [queued, left, _] = states(&pair, key, 100);
    assert_eq!(take(&mut pair, 10).len(), 10);
    pair.pass(3 * SECOND);
    assert_eq!(states(&pair, key, 100), [queued - 10, left, 10]);
    let unknown = |pair: &Pair| {
        let ended = ends(pair, key).into_iter().filter(|(_, outcome, ..)| *outcome == Outcome::Unknown);
        ended.map(|(at, ..)| at as usize).collect::<Vec<_>>()
    };
    pair.pass(3 * SECOND);
    assert_eq!(unknown(&pair), (10..left).collect::<Vec<_>>(), "they left first");
    pair.pass(3 * SECOND);
    assert_eq!(unknown(&pair), (10..left).collect::<Vec<_>>());
    pair.pass(2 * SECOND);
    assert_eq!(unknown(&pair), (10..left + 10).collect::<Vec<_>>());
    assert!(is_sound(&pair));
}

#[test]
fn what_no_message_may_have_is_refused_however_many_have_it() {
    let mut pair = joined(config(), Limits::default());
    let (now, id, to) = (pair.now, pair.ends[1].id(), [address(1)]);
    let long = Outgoing { tag: vec![b'x'; 256].into(), ..Outgoing::default() };
    let sent = pair.ends[0].send_each(now, id, &to, &mut vec![long; 3].into_iter(), |_, _| panic!("taken"));
    assert_eq!(sent, Err(SendError::TagTooLong(256)));
    let nameless = vec![Outgoing::default(); 3];
    let sent =
        pair.ends[0].send_each_in_stream(now, id, &to, &mut nameless.into_iter(), |_, _| panic!("taken"));
    assert_eq!(sent, Err(SendError::NoName));
}

/// The receiver already has the last of the messages that come in one frame with one head.
#[test]
fn of_messages_alike_that_come_again_those_that_are_new_have_their_own_places() {
    let mut pair = joined(config(), Limits::default());
    let stream = Outgoing { tag: "s".into(), ..Outgoing::default() };
    pair.cut(0);
    send(&mut pair, 0..5, &stream, true);
    pair.pump();
    assert!(!pair.mend(0).is_empty());
    pair.cut(1);
    send(&mut pair, 5..9, &stream, true);
    pair.pass(5 * SECOND);
    pair.mend(1);
    assert!(pair.ends[1].counts().duplicates_suppressed >= 4, "they came again");
    let (now, id) = (pair.now, pair.ends[0].id());
    let heard: Vec<_> = core::iter::from_fn(|| pair.ends[1].recv_stream(now, &id, &"s".into()))
        .map(|said| (number(&said.message.body), said.gap))
        .collect();
    let gap = |n| if n == 0 { Gap::Opens } else { Gap::None };
    assert_eq!(heard, (0..9).map(|n| (n, gap(n))).collect::<Vec<_>>());
    assert!(is_sound(&pair));
}

#[test]
fn no_more_of_a_bundle_leaves_than_the_window_of_its_stream_takes() {
    let mut pair = tight_streams();
    let key = send(&mut pair, 0..200, &Outgoing { tag: "s".into(), ..Outgoing::default() }, true);
    pair.pass(SECOND);
    let [queued, in_doubt, _] = states(&pair, key, 200);
    assert!(queued > 100 && in_doubt > 10, "{queued} {in_doubt}");
    assert_eq!(pair.ends[1].counts().dropped_for_room, 0);
}

// --- with a journal ---

fn life(pair: &Pair, secret: [u8; 32], clock: u64, journal: &[u8]) -> Node {
    let found = Recovered::read(journal).unwrap();
    let journal = Some((Durability::Written, Box::new(found)));
    let latest = crate::Stamp(5);
    let boot = Boot::Stored { clock, life: 1, latest, strays: Vec::new(), notes: None, journal };
    let mut node = Node::new(config(), SecretKey::from_bytes(secret), boot, [9; 32], pair.now);
    let batch = node.poll_persist().unwrap();
    node.handle_persisted(pair.now, batch.lsn);
    node
}

/// From here on the first end writes a journal.
fn stored() -> (Pair, [u8; 32], Vec<Vec<u8>>) {
    let mut pair = Pair::open();
    let secret = pair.ends[0].cx.key.expose().to_owned();
    pair.ends[0] = life(&pair, secret, 1 << 40, &[]);
    pair.talk(0);
    let mut groups = Vec::new();
    write(&mut pair, &mut groups);
    pair.events.clear();
    (pair, secret, groups)
}

/// Appends what there is to write as another group.
fn write(pair: &mut Pair, groups: &mut Vec<Vec<u8>>) {
    groups.extend(pair.ends[0].poll_journal().map(|append| append.to_vec()));
}

fn open(groups: &[Vec<u8>]) -> Recovered {
    Recovered::read(&groups.concat()).unwrap()
}

fn names(found: &Recovered) -> Vec<Option<(Slot, Incarnation)>> {
    found.open_letters().map(|letter| letter.bound).collect()
}

/// How many messages have this outcome.
fn count(pair: &Pair, wanted: Outcome) -> u32 {
    let ended = pair.events.iter().map(|event| match event {
        Event::Outcome { outcome, count, .. } if *outcome == wanted => *count,
        _ => 0,
    });
    ended.sum()
}

/// Messages with a tag that are to be confirmed and have a deadline, and messages of a stream; two of each have been taken.
fn half_settled() -> (Pair, [u8; 32], Vec<Vec<u8>>) {
    let (mut pair, secret, mut groups) = stored();
    pair.now.wall = Wall(pair.now.mono.0);
    let confirm = Confirm::Processed;
    let tagged = Outgoing { tag: "t".into(), confirm, ..by(pair.now.mono + 50 * SECOND) };
    send(&mut pair, 0..20, &tagged, false);
    write(&mut pair, &mut groups);
    send(&mut pair, 20..40, &Outgoing { tag: "s".into(), ..Outgoing::default() }, true);
    write(&mut pair, &mut groups);
    pair.pass(SECOND);
    write(&mut pair, &mut groups);
    let (now, id) = (pair.now, pair.ends[0].id());
    for n in 0..2 {
        let first = pair.ends[1].accept(now).unwrap();
        assert_eq!((number(&first.body), &first.tag[..]), (n, &b"t"[..]));
        assert!(pair.ends[1].done(now, first.key));
        assert!(pair.ends[1].recv_stream(now, &id, &"s".into()).is_some());
    }
    pair.pass(SECOND);
    pair.now.wall = Wall(pair.now.mono.0);
    write(&mut pair, &mut groups);
    (pair, secret, groups)
}

#[test]
fn a_bundle_that_is_half_settled_goes_on_after_a_crash() {
    let (mut pair, secret, groups) = half_settled();
    assert_eq!([count(&pair, Outcome::Processed { status: 0 }), count(&pair, Outcome::Delivered)], [2, 2]);
    pair.ends[0] = life(&pair, secret, 1 << 41, &groups.concat());
    pair.events.clear();
    pair.pass(SECOND);
    let (now, id) = (pair.now, pair.ends[0].id());
    let mut tagged = Vec::new();
    while let Some(message) = pair.ends[1].accept(now) {
        assert_eq!(&message.tag[..], b"t");
        tagged.push(number(&message.body));
        assert!(pair.ends[1].done(now, message.key));
    }
    tagged.sort_unstable();
    assert_eq!(tagged, (2..20).collect::<Vec<_>>());
    let heard = core::iter::from_fn(|| pair.ends[1].recv_stream(now, &id, &"s".into()));
    let heard: Vec<_> = heard.map(|said| (number(&said.message.body), said.gap)).collect();
    assert_eq!(heard, (22..40).map(|n| (n, Gap::None)).collect::<Vec<_>>());
    pair.pass(SECOND);
    assert_eq!([count(&pair, Outcome::Processed { status: 0 }), count(&pair, Outcome::Delivered)], [18, 18]);
    // The stream continues where it was.
    send_one(&mut pair, "s", 40);
    pair.pass(SECOND);
    let now = pair.now;
    let next = pair.ends[1].recv_stream(now, &id, &"s".into()).unwrap();
    assert_eq!((number(&next.message.body), next.gap), (40, Gap::None));
    assert!(is_sound(&pair));
}

fn send_one(pair: &mut Pair, name: &'static str, n: u8) {
    let (id, to) = (pair.ends[1].id(), [address(1)]);
    let message = Outgoing { tag: name.into(), body: vec![n; 40].into(), ..Outgoing::default() };
    let open = crate::wire::StreamEnd::Open;
    pair.ends[0].send_in_stream(pair.now, id, &to, message, open, false).unwrap();
}

#[test]
fn a_bundle_expires_after_a_crash_as_before() {
    let (mut pair, secret, groups) = half_settled();
    pair.cut(0);
    pair.ends[0] = life(&pair, secret, 1 << 41, &groups.concat());
    pair.mend(0);
    pair.events.clear();
    pair.pass(60 * SECOND);
    assert_eq!(count(&pair, Outcome::Expired), 18, "those with a deadline, and none of the stream");
}

#[test]
fn each_group_of_a_journal_is_whole_whatever_of_its_tail_is_lost() {
    let (pair, _, groups) = half_settled();
    // Accepted, bound, and settled one after the other.
    let names: Vec<_> = (0..=groups.len()).map(|n| names(&open(&groups[..n]))).collect();
    assert_eq!(names.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 20, 40, 40, 36]);
    assert!(names[3].iter().all(Option::is_none) && names[4].iter().all(Option::is_some));
    let places = |found: &Recovered| -> Vec<_> {
        found
            .open
            .each()
            .map(|(_, posted)| posted)
            .filter(|posted| posted.part.is_some())
            .map(|posted| posted.place)
            .collect()
    };
    let whole = open(&groups);
    assert_eq!(places(&whole), (2..20).map(|n| (n, n, 1)).collect::<Vec<_>>());
    let tag = |of_stream| if of_stream { &b"s"[..] } else { b"t" };
    assert!(whole.open.each().all(|(_, posted)| posted.tag[..] == *tag(posted.part.is_some())));
    assert!(whole.open.each().all(|(_, posted)| matches!(posted.placed, Placed::Bound(..))));
    // A snapshot has the same contents.
    let mut snapshot = Recovered::read(&pair.ends[0].snapshot(pair.now)).unwrap();
    snapshot.open.runs_mut().for_each(|posted| posted.group = 0);
    assert_eq!(snapshot.open, whole.open);
}
