//! Openings that the policy refuses, and how their senders react.

use super::*;
use crate::node::Refusal;

const KIND: Outcome = Outcome::Refused(Refusal::Kind);
const REFUSED: Outcome = Outcome::Refused(Refusal::Policy);

fn only(ids: impl IntoIterator<Item = crate::NodeId>) -> Config {
    Config { early: true, ..Config { policy: Policy::Only(ids.into_iter().collect()), ..config() } }
}

/// Two nodes whose clocks show the present; the second lets no peer in.
fn closed() -> Pair {
    let mut pair = Pair::new([Config { early: true, ..config() }, only([])]);
    pair.now.wall = Wall(1_800_000_000_000_000_000);
    pair
}

fn refusals_seen(pair: &mut Pair) -> usize {
    core::iter::from_fn(|| pair.ends[1].poll_event())
        .filter(|event| matches!(event, Event::Refused { .. }))
        .count()
}

#[test]
fn who_is_refused_knows_it_at_once_whether_a_message_has_left_or_not() {
    let mut pair = closed();
    let early = pair.send(0, 100);
    let large = pair.send(0, 100_000);
    pair.pump();
    assert_eq!(pair.ends[0].counts().early_sent, 1);
    assert_eq!(pair.outcomes(), [(early, REFUSED, false), (large, REFUSED, false)]);
    assert_eq!(pair.ends[1].peers(), [], "nothing is held for who is refused");
    assert!(pair.ends[1].recv(pair.now).is_none());
    pair.pass(60 * SECOND);
    assert_eq!(pair.ends[1].counts().refusals_told, 1, "and nothing more is asked");
    assert_eq!(pair.ends[0].peers(), []);
}

#[test]
fn nothing_is_said_where_the_owner_does_not_want_it() {
    let mut pair = closed();
    pair.ends[1].cx.config.tell_refused = false;
    pair.send(0, 100);
    pair.pass(60 * SECOND);
    assert_eq!((pair.outcomes().len(), pair.ends[1].counts().datagrams_out), (0, 0));
    assert!(pair.ends[1].counts().openings_refused > 10);
}

/// A refusal says nothing about messages that were taken before the policy changed.
#[test]
fn what_may_have_been_taken_stays_in_doubt() {
    let mut pair = closed();
    pair.ends[1].cx.config.policy = Policy::Anyone;
    pair.cut(1);
    pair.send(0, 100);
    pair.pump();
    assert!(pair.ends[1].recv(pair.now).is_some(), "it was delivered, and its sender does not know");
    pair.ends[1].cx.config.policy = only([]).policy;
    // The answer under way is forgotten.
    pair.pass(12 * SECOND);
    pair.mend(1);
    pair.pass(6 * SECOND);
    assert!(pair.ends[1].counts().refusals_told > 0);
    assert_eq!(pair.outcomes(), []);
    let told = pair.ends[1].counts().refusals_told;
    pair.pass(20 * SECOND);
    assert!(pair.ends[1].counts().refusals_told <= told + 6, "and it is asked for seldom");
    // Messages that are sent now do not wait for that.
    let new = pair.send(0, 100);
    pair.pump();
    assert_eq!(pair.outcomes(), [(new, REFUSED, false)]);
    pair.ends[1].cx.config.policy = Policy::Anyone;
    pair.pass(6 * SECOND);
    assert!(matches!(pair.outcomes()[..], [_, (_, Outcome::Delivered, _)]), "{:?}", pair.outcomes());
}

/// The first answer was lost. The second says the same, since the node remembers that nothing was taken.
#[test]
fn a_refusal_is_as_certain_when_it_is_repeated() {
    let mut pair = closed();
    pair.cut(1);
    let key = pair.send(0, 100);
    pair.pump();
    assert_eq!(pair.mend(1).len(), 1);
    pair.pass(SECOND);
    assert_eq!(pair.outcomes(), [(key, REFUSED, false)]);
}

/// A refused stamp is old for good: its messages are not taken, even if their sender is let in a moment later.
#[test]
fn a_copy_of_what_was_refused_is_not_taken_later() {
    let mut pair = closed();
    pair.cut(0);
    let key = pair.send(0, 100);
    pair.pump();
    let opening = pair.mend(0).remove(0);
    pair.deliver(1, 0, &opening);
    pair.pump();
    assert_eq!(pair.outcomes(), [(key, REFUSED, false)]);
    let id = pair.ends[0].id();
    assert!(pair.ends[1].bound(&id).known().is_some());
    pair.ends[1].cx.config.policy = Policy::Anyone;
    pair.deliver(1, 0, &opening);
    pair.pass(SECOND);
    assert!(pair.ends[1].recv(pair.now).is_none());
}

/// A stamp far ahead is not written down for strangers, and nothing is said about early messages.
#[test]
fn a_stamp_far_ahead_is_refused_in_doubt_and_drags_nothing_along() {
    let mut pair = closed();
    let ahead = Now { wall: Wall(pair.now.wall.0 + 5_000_000_000), ..pair.now };
    let (id, at) = (pair.ends[1].id(), address(1));
    let message = Outgoing { body: Bytes::from_static(b"early"), ..Outgoing::default() };
    pair.ends[0].send(ahead, id, &[at], message).unwrap();
    let mut buffer = Vec::new();
    pair.ends[0].poll_transmit(ahead, 16, &mut buffer).unwrap();
    pair.deliver(1, 0, &buffer);
    pair.pump();
    assert_eq!((pair.ends[1].counts().refusals_told, pair.outcomes().len()), (1, 0));
    assert!(pair.ends[1].clock().stamps().latest().0 <= pair.now.wall.0);
    // Once the clock has reached the stamp, the refusal is certain.
    pair.now.wall = Wall(ahead.wall.0 + 1);
    pair.pass(6 * SECOND);
    assert!(matches!(pair.outcomes()[..], [(_, REFUSED, _)]), "{:?}", pair.outcomes());
}

#[test]
fn a_no_of_the_application_is_told_too() {
    let mut pair = closed();
    pair.ends[1].cx.config.policy = Policy::Ask;
    let key = pair.send(0, 100);
    pair.pump();
    assert_eq!(pair.outcomes(), []);
    let (id, now) = (pair.ends[0].id(), pair.now);
    pair.ends[1].admit(now, id, false);
    pair.pump();
    assert_eq!(pair.outcomes(), [(key, REFUSED, false)]);
}

#[test]
fn the_application_hears_of_a_refused_peer_once_a_minute() {
    let mut pair = closed();
    for seen in [1, 0, 0] {
        pair.send(0, 100);
        pair.pump();
        assert_eq!(refusals_seen(&mut pair), seen);
    }
    pair.pass(60 * SECOND);
    pair.send(0, 100);
    pair.pump();
    assert_eq!(refusals_seen(&mut pair), 1);
}

/// Each refusal is less than a twelfth of the opening, and one network gets no more than this number.
#[test]
fn refusals_are_rationed_and_small() {
    let mut pair = closed();
    let far = |n: u16| Arrival { remote: ([192, 0, 2, 7], n).into(), local_ip: None, ecn: 0, pipe: None };
    for n in 0..40_u8 {
        let mut stranger = Node::new(
            Config { early: true, ..config() },
            SecretKey::from_bytes([40 + n; 32]),
            Boot::Ephemeral,
            [n; 32],
            pair.now,
        );
        let mut buffer = Vec::new();
        stranger.send(pair.now, pair.ends[1].id(), &[address(1)], Outgoing::default()).unwrap();
        stranger.poll_transmit(pair.now, 16, &mut buffer).unwrap();
        pair.ends[1].handle_datagram(pair.now, far(n.into()), &mut buffer);
    }
    let said = pair.says(1);
    assert_eq!(said.len(), 16);
    assert!(said.iter().all(|(_, datagram)| datagram.len() * 12 <= crate::wire::MIN_OPENING));
}

/// Two nodes whose clocks show the present; the second takes only calls.
fn server() -> Pair {
    let takes = crate::node::Takes { messages: false, calls: true };
    let early = Config { early: true, ..config() };
    let mut pair = Pair::new([early.clone(), Config { takes, serves: true, ..early }]);
    pair.now.wall = Wall(1_800_000_000_000_000_000);
    pair
}

/// Early messages have left when the peer says what it takes: it closes the record that they have met.
#[test]
fn a_message_to_a_server_is_certainly_not_taken_whether_it_has_left_or_not() {
    let mut pair = server();
    let early = pair.send(0, 100);
    let large = pair.send(0, 100_000);
    pair.pump();
    assert_eq!(pair.ends[0].counts().early_sent, 1);
    let mut outcomes = pair.outcomes();
    outcomes.sort_by_key(|(key, ..)| *key);
    assert_eq!(outcomes, [(early, KIND, false), (large, KIND, false)]);
    // Now that the sender knows this, nothing leaves.
    let sent = pair.ends[0].counts().datagrams_out;
    let third = pair.send(0, 100);
    assert_eq!(pair.ends[0].status(third), Status::Settled);
    pair.pump();
    assert_eq!(pair.ends[0].counts().datagrams_out, sent);
    assert!(pair.ends[1].recv(pair.now).is_none());
}

#[test]
fn a_call_beside_a_message_that_is_not_taken_is_served() {
    let mut pair = server();
    let message = pair.send(0, 100);
    let call = pair.call(0);
    pair.pass(SECOND);
    assert!(pair.outcomes().contains(&(message, KIND, false)));
    assert!(pair.ends[1].take_call(pair.now, &Bytes::new()).is_some());
    pair.pass(SECOND);
    assert!(matches!(pair.ends[0].status(call), Status::InDoubt { .. }), "it waits for its reply");
    assert_eq!(pair.ends[1].counts().received, 1);
}

#[test]
fn a_call_to_a_node_that_takes_none_is_certainly_not_run() {
    let mut pair = server();
    pair.ends[1].cx.config.takes = crate::node::Takes { messages: true, calls: false };
    let (call, message) = (pair.call(0), pair.send(0, 100));
    pair.pass(SECOND);
    assert!(pair.outcomes().contains(&(call, KIND, false)), "{:?}", pair.outcomes());
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(SECOND);
    assert!(pair.outcomes().contains(&(message, Outcome::Delivered, false)));
}

/// Messages that are put together, or read as they come, have a kind too.
#[test]
fn parts_are_declined_once_their_kind_is_known() {
    for size in [60_000, 3 << 20] {
        let mut pair = server();
        // The kind is not known before.
        pair.ends[1].cx.config.takes = crate::node::Takes::default();
        pair.talk(0);
        pair.ends[1].cx.config.takes.messages = false;
        let key = pair.send(0, size);
        pair.pass(SECOND);
        assert!(pair.ends[1].counts().declined > 0);
        assert_ne!(pair.ends[0].status(key), Status::Settled, "the kind is not known yet");
        // This is long enough after the first handshake that the two did not cross.
        pair.pass(6 * SECOND);
        pair.renew(1);
        pair.pass(SECOND);
        assert!(pair.outcomes().contains(&(key, KIND, false)), "{:?}", pair.outcomes());
    }
}

#[test]
fn a_ping_of_who_does_not_let_us_in_is_told_why() {
    let mut pair = closed();
    let (now, id) = (pair.now, pair.ends[1].id());
    pair.ends[0].ping(now, id, &[address(1)], 5).unwrap();
    pair.pump();
    let refused = Some(Refusal::Policy);
    let told = Event::Pong { peer: id, cookie: 5, rtt: None, refused };
    assert!(pair.events.contains(&told), "{:?}", pair.events);
    assert_eq!(pair.ends[0].peers(), []);
}
