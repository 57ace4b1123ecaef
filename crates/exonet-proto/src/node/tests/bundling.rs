//! Messages that are queued together are kept together; each still has its own slot and its own outcome.

use super::filling::Gives;
use super::*;

const SMALL: usize = 60;

impl Pair {
    /// Sends `bodies` to the other end, as far as there is room. Returns the reported keys of those that are accepted.
    fn send_together(&mut self, messages: Vec<Outgoing>) -> (Vec<(MessageKey, u32)>, Result<(), SendError>) {
        let (id, mut keys) = (self.ends[1].id(), Vec::new());
        let (now, to) = (self.now, [address(1)]);
        let sent =
            self.ends[0].send_each(now, id, &to, &mut messages.into_iter(), |key, n| keys.push((key, n)));
        (keys, sent)
    }

    /// Queues `count` messages that are alike. The body of each is one byte, which is its number. They make one bundle.
    fn bundle(&mut self, count: u8) -> MessageKey {
        let (keys, sent) = self.send_together((0..count).map(numbered).collect());
        assert_eq!(sent, Ok(()));
        assert_eq!(keys.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [u32::from(count)]);
        keys[0].0
    }

    /// The bodies of the messages that the other end takes now.
    fn taken(&mut self) -> Vec<u8> {
        let now = self.now;
        let bodies = core::iter::from_fn(|| self.ends[1].recv(now)).map(|incoming| match incoming.body {
            IncomingBody::Whole(body) => {
                assert!(body.len() == SMALL && body.iter().all(|byte| *byte == body[0]));
                body[0]
            }
            body => panic!("{body:?}"),
        });
        bodies.collect()
    }

    /// The outcomes of the messages of a bundle, one by one.
    fn ends_of(&self, key: MessageKey) -> Vec<(u32, Outcome, Option<Slot>)> {
        let mut all = Vec::new();
        for event in &self.events {
            if let Event::Outcome { key: first, count, outcome, id, .. } = event
                && first.first() == key
            {
                let slot = |n: u32| id.map(|id| Slot(id.s.0 + u64::from(n)));
                all.extend((0..*count).map(|n| (first.nth(n).at, *outcome, slot(n))));
            }
        }
        all.sort_by_key(|(at, ..)| *at);
        all
    }

    fn is_sound(&self) -> bool {
        let mut sound = true;
        self.ends.iter().for_each(|end| end.audit(|holding| sound &= holding.is_sound()));
        sound
    }
}

fn numbered(number: u8) -> Outgoing {
    Outgoing { body: Bytes::from(vec![number; SMALL]), ..Outgoing::default() }
}

fn joined() -> Pair {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.events.clear();
    pair
}

#[test]
fn each_message_has_a_slot_and_an_outcome_of_its_own() {
    let mut pair = joined();
    let key = pair.bundle(200);
    let before = pair.ends[0].stats();
    assert_eq!((before.open_messages, before.sent), (200, 201));
    pair.pump();
    assert!((0..200).all(|n| matches!(pair.ends[0].status(key.nth(n)), Status::InDoubt { .. })));
    let names: Vec<_> = (0..200).map(|n| pair.ends[0].status(key.nth(n))).collect();
    assert_eq!(pair.taken(), (0..200).collect::<Vec<_>>());
    pair.pass(SECOND);
    let ends = pair.ends_of(key);
    assert_eq!(ends.len(), 200);
    for ((at, outcome, slot), status) in ends.into_iter().zip(names) {
        let Status::InDoubt { id, .. } = status else { panic!("{status:?}") };
        assert_eq!((outcome, slot), (Outcome::Delivered, Some(id.s)), "{at}");
    }
    assert!((0..201).all(|n| pair.ends[0].status(key.nth(n)) == Status::Settled));
    assert_eq!((pair.ends[0].stats().open_messages, pair.ends[0].counts().delivered), (0, 201));
    assert!(pair.is_sound());
}

/// Some of the messages were queued together, others were not.
#[test]
fn open_messages_are_looked_at_part_by_part() {
    let mut pair = joined();
    let (id, now) = (pair.ends[1].id(), pair.now);
    let bundled = pair.bundle(40);
    let tagged = |number: u8| Outgoing { tag: Bytes::from_static(b"tag"), ..numbered(number) };
    for n in 40..45 {
        pair.ends[0].send(now, id, &[address(1)], tagged(n)).unwrap();
    }
    let node = &pair.ends[0];
    let (mut seen, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let (part, next) = node.open_messages_from(at, 1);
        assert!(part.len() <= 40, "one place");
        seen.extend(part);
        from = next;
    }
    assert_eq!(seen, node.open_messages());
    assert_eq!(seen.len(), 45);
    for (at, open) in seen.iter().enumerate() {
        let given = node.content(open.key, 2).unwrap();
        assert_eq!(given.body, vec![u8::try_from(at).unwrap(); 2]);
        assert_eq!(given.tag.is_empty(), at < 40);
    }
    assert_eq!(node.content(bundled, usize::MAX).unwrap().body.len(), SMALL);
    assert_eq!(node.open_messages_from(1_000, 1), (Vec::new(), None));
    pair.pump();
    pair.taken();
    pair.pass(SECOND);
    assert_eq!(pair.ends[0].content(bundled, 1), None);
    assert_eq!(pair.ends[0].hints(&id), [address(1)]);
}

/// Of the packets of 120 messages, which are sent together or one by one, every other packet is lost. Returns which messages
/// arrive at once, which arrive later, and how often a message came that had been there.
fn half_lost(together: bool) -> (Vec<u8>, Vec<u8>, u64) {
    let mut pair = joined();
    let keys: Vec<_> = if together {
        let key = pair.bundle(120);
        (0..120).map(|n| key.nth(n)).collect()
    } else {
        let (id, now) = (pair.ends[1].id(), pair.now);
        (0..120).map(|n| pair.ends[0].send(now, id, &[address(1)], numbered(n)).unwrap()).collect()
    };
    pair.cut(0);
    pair.pump();
    for datagram in pair.mend(0).iter().step_by(2) {
        pair.deliver(1, 0, datagram);
    }
    let (now, mut later) = (pair.taken(), Vec::new());
    for _ in 0..5 {
        assert!(pair.is_sound());
        pair.pass(SECOND);
        later.extend(pair.taken());
    }
    assert!(keys.iter().all(|key| pair.ends[0].status(*key) == Status::Settled));
    assert_eq!((pair.ends[0].counts().delivered, pair.ends[0].stats().open_messages), (121, 0));
    (now, later, pair.ends[1].counts().duplicates_suppressed)
}

#[test]
fn a_bundle_of_which_packets_are_lost_is_sent_again_as_its_messages_would_be() {
    let (now, later, again) = half_lost(true);
    let mut all = [now.clone(), later.clone()].concat();
    all.sort_unstable();
    assert_eq!(all, (0..120).collect::<Vec<_>>(), "each once");
    assert!(now.len() > 30 && later.len() > 30);
    assert_eq!(half_lost(false), (now, later, again));
}

#[test]
fn what_is_acknowledged_of_a_bundle_is_what_the_packet_carried() {
    let mut pair = joined();
    let key = pair.bundle(120);
    pair.cut(0);
    pair.pump();
    let first = pair.mend(0).swap_remove(0);
    pair.deliver(1, 0, &first);
    let arrived = u32::try_from(pair.taken().len()).unwrap();
    assert!((10..60).contains(&arrived));
    // Only the acknowledgement arrives: a STATE would settle the messages. Nothing else comes from this end.
    let now = pair.now.mono;
    let (outbound, store) =
        (&mut pair.ends[0].peers.get_mut(0).unwrap().outbound, &mut pair.ends[0].cx.store);
    let (s, r) = store.get(key).unwrap().slot_of(key).unwrap();
    outbound.on_acked(now, store, r, s, u64::from(arrived), SECOND);
    let acked = |n: &u32| store.get(key.nth(*n)).is_some_and(|letter| letter.is_acked(key.nth(*n)));
    assert_eq!((0..120).filter(acked).collect::<Vec<_>>(), (0..arrived).collect::<Vec<_>>());
}

#[test]
fn bodies_alone_are_kept_together_as_messages_are() {
    let lengths = [60, 60, 60, 60, 300, 10, 20, 20];
    let bodies: Vec<_> = (0..8).zip(lengths).map(|(n, len)| vec![n; len]).collect();
    // Messages that may leave with the opening are kept by themselves.
    for (mut pair, counts) in [(joined(), vec![4, 1, 1, 2]), (Pair::open(), vec![1; 8])] {
        let (id, now, mut keys) = (pair.ends[1].id(), pair.now, Vec::new());
        let mut all = bodies.iter();
        let sent = pair.ends[0]
            .send_bodies(now, id, &[address(1)], &Alike::default(), &mut all, |_, n| keys.push(n));
        assert_eq!((sent, keys), (Ok(()), counts));
        pair.pass(SECOND);
        let now = pair.now;
        let mut got: Vec<_> = core::iter::from_fn(|| pair.ends[1].recv(now))
            .map(|incoming| match incoming.body {
                IncomingBody::Whole(body) => (incoming.tag, incoming.priority, body.to_vec()),
                body => panic!("{body:?}"),
            })
            .collect();
        got.sort_by_key(|(.., body)| body[0]);
        let wanted = bodies.iter().map(|body| (Bytes::new(), Priority::Normal, body.clone()));
        assert_eq!(got, wanted.collect::<Vec<_>>());
        assert!(pair.is_sound());
    }
}

/// A body whose length changes after it was looked at this many times.
struct Fickle(core::cell::Cell<u32>);

impl AsRef<[u8]> for Fickle {
    fn as_ref(&self) -> &[u8] {
        let looks = self.0.get();
        self.0.set(looks.saturating_sub(1));
        if looks == 0 { &[7; 2_000] } else { &[7; 20] }
    }
}

#[test]
fn a_body_that_changes_while_it_is_queued_is_not_lost() {
    for looks in 0..8 {
        let mut pair = joined();
        let (id, now, mut queued) = (pair.ends[1].id(), pair.now, 0);
        let mut all = [looks, 9, looks, 9].into_iter().map(|looks| Fickle(looks.into()));
        let sent =
            pair.ends[0].send_bodies(now, id, &[address(1)], &Alike::default(), &mut all, |_, n| queued += n);
        assert_eq!((sent, queued), (Ok(()), 4), "{looks}");
        pair.pass(SECOND);
        let now = pair.now;
        assert_eq!(core::iter::from_fn(|| pair.ends[1].recv(now)).count(), 4, "{looks}");
        assert!(pair.is_sound());
    }
}

#[test]
fn one_can_be_cancelled_among_the_others_before_it_leaves() {
    let mut pair = joined();
    let key = pair.bundle(50);
    for n in [0, 7, 8, 49] {
        assert_eq!(pair.ends[0].cancel(pair.now, key.nth(n)), Ok(Cancel::Done));
        assert_eq!(pair.ends[0].cancel(pair.now, key.nth(n)), Err(CancelError::Settled));
        assert_eq!(pair.ends[0].status(key.nth(n)), Status::Settled);
        assert!(pair.is_sound());
    }
    assert_eq!(pair.ends[0].status(key.nth(48)), Status::Queued);
    pair.pump();
    let status = pair.ends[0].status(key.nth(9));
    assert!(matches!(status, Status::InDoubt { withdrawing: false, .. }), "{status:?}");
    let rest: Vec<u8> = (0..50).filter(|n| ![0, 7, 8, 49].contains(n)).collect();
    assert_eq!(pair.taken(), rest);
    pair.pass(SECOND);
    for (at, outcome, slot) in pair.ends_of(key) {
        let cancelled = [0, 7, 8, 49].contains(&at);
        assert_eq!(outcome == Outcome::Cancelled, cancelled, "{at}");
        assert_eq!(slot.is_none(), cancelled, "{at}");
    }
    assert_eq!(pair.ends_of(key).len(), 50);
    assert_eq!(pair.ends[0].stats().open_messages, 0);
}

#[test]
fn a_bundle_that_is_cancelled_leaves_nothing_behind() {
    let mut pair = joined();
    let key = pair.bundle(30);
    assert!((0..30).all(|n| pair.ends[0].cancel(pair.now, key.nth(n)).is_ok()));
    assert!(pair.is_sound() && pair.ends[0].stats().open_messages == 0);
    let next = pair.bundle(3);
    pair.pass(SECOND);
    assert_eq!(pair.taken(), [0, 1, 2]);
    pair.pass(SECOND);
    assert_eq!(pair.ends_of(next).len(), 3);
}

#[test]
fn one_can_be_given_up_in_doubt_and_the_peer_keeps_nothing_of_it() {
    let mut pair = joined();
    let key = pair.bundle(100);
    pair.cut(0);
    pair.pump();
    for n in [3, 4, 60] {
        pair.ends[0].abandon(pair.now, key.nth(n));
        pair.ends[0].abandon(pair.now, key.nth(n));
        assert!(pair.is_sound());
    }
    pair.mend(0);
    let mut got = Vec::new();
    for _ in 0..5 {
        pair.pass(SECOND);
        got.extend(pair.taken());
    }
    got.sort_unstable();
    assert_eq!(got, (0..100).filter(|n| ![3, 4, 60].contains(n)).collect::<Vec<_>>());
    for (at, outcome, slot) in pair.ends_of(key) {
        let wanted = if [3, 4, 60].contains(&at) { Outcome::Unknown } else { Outcome::Delivered };
        assert!(outcome == wanted && slot.is_some(), "{at}: {outcome:?}");
    }
    assert_eq!(pair.ends_of(key).len(), 100);
    assert!(pair.is_sound());
    assert_eq!(pair.peer(1).inbound.held.bytes(), 0, "the pool does not leak");
}

#[test]
fn all_to_a_peer_can_be_given_up_bound_or_not() {
    let mut pair = joined();
    let gone = pair.bundle(40);
    pair.cut(0);
    pair.pump();
    let kept = pair.bundle(40);
    let id = pair.ends[1].id();
    pair.ends[0].abandon_peer(pair.now, &id);
    pair.pump();
    assert!(pair.ends_of(gone).iter().all(|(_, outcome, _)| *outcome == Outcome::Unknown));
    assert!(pair.ends_of(kept).iter().all(|(_, outcome, _)| *outcome == Outcome::Cancelled));
    assert_eq!((pair.ends_of(gone).len(), pair.ends_of(kept).len()), (40, 40));
    assert!(pair.is_sound() && pair.ends[0].stats().open_messages == 0);
}

#[test]
fn what_a_peer_had_not_taken_when_it_died_is_unknown_and_the_rest_goes_to_its_successor() {
    let mut pair = joined();
    let key = pair.bundle(100);
    pair.pump();
    let now = pair.now;
    assert_eq!((0..30).map_while(|_| pair.ends[1].recv(now)).count(), 30);
    pair.pass(SECOND);
    pair.restart(1, config());
    let later = pair.bundle(20);
    for _ in 0..10 {
        pair.pass(SECOND);
        pair.taken();
    }
    let outcomes: Vec<_> = pair.ends_of(key).into_iter().map(|(_, outcome, _)| outcome).collect();
    assert_eq!(outcomes, [vec![Outcome::Delivered; 30], vec![Outcome::Unknown; 70]].concat());
    assert_eq!(pair.ends_of(later).len(), 20);
    assert!(pair.is_sound());
}

#[test]
fn what_is_of_another_kind_is_kept_by_itself() {
    let mut pair = joined();
    let other = [
        Outgoing { early: Early::Yes, ..numbered(1) },
        Outgoing { body: Bytes::from(vec![1; 300]), ..numbered(1) },
    ];
    for one in other {
        let (keys, _) = pair.send_together(vec![one; 3]);
        assert_eq!(keys.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [1, 1, 1]);
    }
    let urgent = |number| Outgoing { priority: Priority::Urgent, ..numbered(number) };
    let soon = |seconds| Outgoing { deadline: Some(pair.now.mono + seconds * SECOND), ..numbered(1) };
    let mixed = vec![soon(1), soon(1), soon(2), soon(2), numbered(1), numbered(2)];
    let (keys, _) = pair.send_together(mixed);
    assert_eq!(keys.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [2, 2, 2]);
    let tagged = |tag: &'static str| Outgoing { tag: tag.into(), ..numbered(1) };
    let confirmed = || Outgoing { confirm: Confirm::Processed, ..tagged("a") };
    let mixed =
        vec![tagged("a"), tagged("a"), tagged("b"), confirmed(), confirmed(), numbered(1), numbered(2)];
    let (keys, _) = pair.send_together(mixed);
    assert_eq!(keys.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [2, 1, 2, 2]);
    let longer = Outgoing { body: Bytes::from(vec![1; SMALL + 1]), ..numbered(1) };
    let mixed =
        vec![numbered(0), numbered(1), urgent(2), urgent(3), numbered(4), longer, numbered(5), numbered(6)];
    let (keys, _) = pair.send_together(mixed);
    assert_eq!(keys.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [2, 2, 1, 1, 2]);
    assert!(pair.is_sound());
}

#[test]
fn messages_with_a_tag_or_a_confirmation_are_kept_together() {
    let mut pair = joined();
    let tagged = |tag: &'static str, n: u8| Outgoing { tag: tag.into(), ..numbered(n) };
    let confirmed = |n: u8| Outgoing { confirm: Confirm::Processed, ..tagged("c", n) };
    let mixed =
        (0..4).map(|n| tagged("a", n)).chain((4..8).map(|n| tagged("b", n))).chain((8..12).map(confirmed));
    let (keys, _) = pair.send_together(mixed.collect());
    assert_eq!(keys.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [4, 4, 4]);
    pair.pump();
    let now = pair.now;
    let first = pair.ends[1].accept(now).unwrap();
    assert!(pair.ends[1].done(now, first.key));
    let mut got = vec![first];
    while got.len() < 10 {
        got.extend(pair.ends[1].recv_run(now, 10 - got.len()).unwrap());
    }
    while let Some(message) = pair.ends[1].accept(now) {
        assert!(pair.ends[1].done(now, message.key));
        got.push(message);
    }
    let tags: Vec<_> = got.iter().map(|message| message.tag[0]).collect();
    assert_eq!(tags, *b"aaaabbbbcccc");
    assert!(
        got.iter().zip(0..).all(|(message, n)| message.body == IncomingBody::Whole(vec![n; SMALL].into()))
    );
    pair.pass(SECOND);
    let ends = pair.ends_of(keys[2].0);
    let outcomes: Vec<_> = ends.into_iter().map(|(_, outcome, _)| outcome).collect();
    let processed = Outcome::Processed { status: 0 };
    assert_eq!(
        outcomes,
        [Outcome::Delivered, Outcome::Delivered, processed, processed],
        "two were taken at once"
    );
    assert!([keys[0].0, keys[1].0].iter().all(|key| pair.ends_of(*key).len() == 4) && pair.is_sound());
}

#[test]
fn before_anything_is_granted_each_is_kept_by_itself() {
    let mut pair = Pair::open();
    let (keys, _) = pair.send_together((0..3).map(numbered).collect());
    assert_eq!(keys.len(), 3);
}

#[test]
fn the_queue_is_full_where_it_would_be_message_by_message() {
    let all = |queued_messages, queued_bytes| Limits { queued_messages, queued_bytes, ..Limits::default() };
    for (limits, fits) in [(all(10, 1 << 20), 10), (all(100, 10 * SMALL), 10), (all(100, 10 * SMALL + 1), 11)]
    {
        let mut pair = Pair::new([limited(limits), config()]);
        pair.talk(0);
        let peer = pair.ends[1].id();
        for sent in 1..3_u32 {
            assert_eq!(pair.ends[0].room_for(&peer, SMALL), fits as usize);
            let (keys, full) = pair.send_together((0..50).map(numbered).collect());
            assert_eq!((full, pair.ends[0].room_for(&peer, SMALL)), (Err(SendError::Full), 0));
            assert_eq!(keys.iter().map(|(_, n)| *n).sum::<u32>(), fits);
            pair.pass(SECOND);
            assert_eq!(pair.taken().len() as u64, u64::from(fits));
            pair.pass(SECOND);
            assert_eq!(pair.ends[0].counts().delivered, u64::from(sent * fits) + 1);
        }
    }
}

#[test]
fn there_is_room_only_for_what_is_certainly_taken() {
    let mut pair = Pair::new([limited(Limits { message: 1_000, ..Limits::default() }), config()]);
    let peer = pair.ends[1].id();
    assert_eq!(pair.ends[0].room_for(&peer, 1), 0, "nobody has said where it is");
    pair.talk(0);
    assert!(pair.ends[0].room_for(&peer, 1_000) > 0);
    assert_eq!(pair.ends[0].room_for(&peer, 1_001), 0, "too large");
    pair.ends[0].close(pair.now);
    assert_eq!(pair.ends[0].room_for(&peer, 1), 0);
}

#[test]
fn a_bundle_counts_as_what_it_keeps_while_one_of_it_is_open() {
    let limits = Limits { queued_bytes: 100 * SMALL, ..Limits::default() };
    let mut pair = Pair::new([limited(limits), config()]);
    pair.talk(0);
    let fills = |pair: &mut Pair| {
        let (keys, full) = pair.send_together((0..120).map(numbered).collect());
        assert_eq!((keys.iter().map(|(_, n)| *n).sum::<u32>(), full), (100, Err(SendError::Full)));
    };
    let told = |pair: &Pair| pair.events.iter().any(|event| matches!(event, Event::Sendable { .. }));
    fills(&mut pair);
    pair.pump();
    let now = pair.now;
    assert_eq!((0..99).map_while(|_| pair.ends[1].recv(now)).count(), 99);
    pair.pass(SECOND);
    assert_eq!((pair.ends[0].counts().delivered, pair.ends[0].stats().open_messages), (100, 1));
    assert_eq!(pair.send_together(vec![numbered(1); 10]), (Vec::new(), Err(SendError::Full)));
    assert!(pair.is_sound() && !told(&pair));
    pair.taken();
    pair.pass(SECOND);
    assert!(pair.is_sound() && told(&pair));
    fills(&mut pair);
}

/// The order in which messages of several classes arrive, sent together or one by one.
fn order(together: bool) -> Vec<u8> {
    let mut pair = joined();
    let classes = [(Priority::Bulk, 0..30), (Priority::Low, 30..70), (Priority::Normal, 70..200)];
    for (priority, numbers) in classes {
        let messages: Vec<_> = numbers.map(|number| Outgoing { priority, ..numbered(number) }).collect();
        let (id, now, count) = (pair.ends[1].id(), pair.now, messages.len());
        if together {
            assert_eq!(pair.send_together(messages).0.len(), 1);
        } else {
            let keys = messages.into_iter().map(|one| pair.ends[0].send(now, id, &[address(1)], one));
            assert_eq!(keys.filter(Result::is_ok).count(), count);
        }
    }
    pair.pump();
    pair.taken()
}

#[test]
fn messages_of_bundles_leave_in_the_order_in_which_they_would_one_by_one() {
    let order = order(true);
    assert_eq!(order.len(), 200);
    assert_eq!(order, self::order(false));
}

#[test]
fn bundles_keep_to_what_the_peer_has_room_for() {
    const WINDOW: u64 = 64 << 10;
    let mut pair = Pair::new([config(), limited(Limits { pool_window: WINDOW, ..Limits::default() })]);
    pair.talk(0);
    let body = Bytes::from(vec![5; 256]);
    let messages = vec![Outgoing { body, ..Outgoing::default() }; 600];
    assert!(pair.send_together(messages).0.len() < 10);
    let mut taken = 0;
    for _ in 0..20 {
        pair.pass(SECOND);
        assert!(pair.is_sound() && pair.peer(1).inbound.held.bytes() <= WINDOW);
        let now = pair.now;
        taken += core::iter::from_fn(|| pair.ends[1].recv(now)).count();
    }
    assert_eq!(
        (taken, pair.ends[1].counts().dropped_for_room, pair.ends[1].counts().violations),
        (600, 0, 0)
    );
    assert_eq!(pair.ends[0].stats().open_messages, 0);
}

#[test]
fn a_body_that_is_given_as_a_whole_has_a_limit_of_its_own() {
    let limits = Limits { message: 2_000, whole_message: 100, ..Limits::default() };
    let mut pair = Pair::new([limited(limits), config()]);
    let of = |len| Outgoing { body: Bytes::from(vec![7; len]), ..Outgoing::default() };
    for known in [false, true] {
        if known {
            pair.talk(0);
        }
        let (keys, sent) = pair.send_together(vec![of(100), of(100), of(101), of(100)]);
        assert_eq!(sent, Err(SendError::TooLarge { size: 101, limit: 100 }));
        assert_eq!(keys.iter().map(|(_, n)| *n).sum::<u32>(), 2, "those before it are queued");
    }
    let (now, id) = (pair.now, pair.ends[1].id());
    assert_eq!((pair.ends[0].room_for(&id, 100) > 0, pair.ends[0].room_for(&id, 101)), (true, 0));
    assert!(pair.ends[0].send_stream(now, id, &[], of(0), Some(2_000)).is_ok());
    let long = pair.ends[0].send_stream(now, id, &[], of(0), Some(2_001));
    assert_eq!(long, Err(SendError::TooLarge { size: 2_001, limit: 2_000 }));
}

#[test]
fn longer_ones_are_kept_together_where_nothing_is_cut() {
    let mut pair = joined();
    let ten =
        || (0..10).map(|_| Outgoing { body: Bytes::from(vec![7; 1_000]), ..Outgoing::default() }).collect();
    let counts = |keys: Vec<(MessageKey, u32)>| keys.into_iter().map(|(_, n)| n).collect::<Vec<_>>();
    for (rate, together) in [(125_000_000, vec![1; 10]), (250_000_000, vec![10])] {
        let now = pair.now.mono;
        pair.peer(0).link.recovery.on_path_change(now, 1_452, Box::new(Gives(rate)));
        assert_eq!(counts(pair.send_together(ten()).0), together);
    }
    pair.pass(SECOND);
    assert_eq!(core::iter::from_fn(|| pair.ends[1].recv(pair.now)).count(), 20);
}

#[test]
fn messages_of_several_packets_are_taken_together_and_make_room_for_others() {
    let mut pair = joined();
    (0..100).for_each(|_| _ = pair.send(0, 1_000));
    pair.pass(SECOND);
    let now = pair.now;
    assert_eq!(pair.ends[1].recv_run(now, 90).unwrap().len(), 90, "more than one pooled message may have");
    assert_eq!(pair.peer(1).inbound.held.bytes(), 10 * 1_001);
    assert_eq!(pair.ends[1].recv_run(now, 90).unwrap().len(), 10);
    assert_eq!(pair.peer(1).inbound.held.bytes(), 0);
    pair.pass(SECOND);
    assert_eq!(pair.peer(0).outbound.open.bytes, 0);
}
