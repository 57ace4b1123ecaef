//! Streams to groups of live nodes, over real sockets: every member takes the messages in order, and no member waits
//! for another.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::common::{builder, cautious, nobody, node, within};
use bytes::Bytes;
use exonet::error::{GroupError, SendError};
use exonet::group::{
    Cause, GroupReceipt, GroupStream, MemberLine, MemberState, Mode, Remove, Verdict, WhenFull, Why,
};
use exonet::stream::{MAX_STREAM_BODY, OpenError, StreamError, StreamReceiver};
use exonet::{Message, Node, NodeId, Outcome, PeerAddr};

fn state<'a>(lines: &'a [MemberLine], id: &NodeId) -> &'a MemberState {
    &lines.iter().find(|line| line.id == *id).expect("each member has a line").state
}

fn outcome(lines: &[MemberLine], id: &NodeId) -> Outcome {
    match state(lines, id) {
        MemberState::Settled(settled) => settled.outcome,
        other => panic!("{other:?}"),
    }
}

async fn nodes<const N: usize>() -> [Node; N] {
    let mut all = Vec::new();
    for _ in 0..N {
        all.push(node().await);
    }
    all.try_into().unwrap()
}

/// The receiver of the next stream that begins at a member.
async fn reader(member: &Node) -> StreamReceiver {
    member.accept_stream().await.unwrap().split().1
}

async fn read(lines: &mut StreamReceiver) -> Bytes {
    let mut line = lines.recv_at_most_once().await.unwrap().expect("more was sent");
    line.body.bytes(1_000).await.unwrap()
}

/// Everything that a member reads until the stream ends, and how it ended.
async fn read_all(lines: &mut StreamReceiver) -> (Vec<String>, Result<(), StreamError>) {
    let mut all = Vec::new();
    loop {
        match lines.recv_at_most_once().await {
            Ok(Some(mut line)) => {
                let body = line.body.bytes(1_000).await.unwrap();
                all.push(String::from_utf8(body.to_vec()).unwrap());
            }
            Ok(None) => return (all, Ok(())),
            Err(error) => return (all, Err(error)),
        }
    }
}

fn numbers(range: core::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

async fn send(stream: &GroupStream, range: core::ops::Range<usize>) -> Vec<GroupReceipt> {
    let mut receipts = Vec::new();
    for n in range {
        receipts.push(stream.send(Mode::All, n.to_string()).await.unwrap());
    }
    receipts
}

/// The next member that leaves the stream, and the cause.
async fn gone(stream: &GroupStream) -> (NodeId, Cause) {
    let departure = stream.departed().await.expect("one has left");
    (departure.id, departure.cause)
}

/// Whether a new future waits.
async fn waits(future: impl Future) -> bool {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn every_member_takes_every_message_in_order() {
    const COUNT: usize = 300;
    let (alice, members) = (node().await, nodes::<5>().await);
    let group = alice.group(members.iter().map(Node::peer_addr)).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let say = async {
            let receipts = send(&stream, 0..COUNT).await;
            let mut end = stream.close().await.unwrap();
            for receipt in receipts {
                assert_eq!(receipt.await, Verdict::Reached { good: 5 });
            }
            assert_eq!(end.decided().await, Verdict::Reached { good: 5 });
            assert!(end.ended().await.iter().all(|line| line.state.has_it()));
        };
        let hear = async {
            for member in &members {
                let mut lines = reader(member).await;
                assert_eq!(lines.name(), "s");
                assert_eq!(read_all(&mut lines).await, (numbers(0..COUNT), Ok(())));
            }
        };
        tokio::join!(say, hear);
        assert_eq!(stream.departed().await, None);
    })
    .await;
}

/// The node's own queue to each member has two places: the other messages wait in the stream's queue, and keep their
/// order.
#[tokio::test]
async fn what_waits_for_room_keeps_its_order() {
    let alice =
        builder().early(false).config(|config| config.limits.queued_messages = 2).build().await.unwrap();
    let members = nodes::<3>().await;
    let group = alice.group(members.iter().map(Node::peer_addr)).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let receipts = send(&stream, 0..100).await;
        assert_eq!(stream.backlog(&members[0].id()), Some(100));
        // All handles are dropped: messages that were sent are still delivered, and so is the end.
        let mut end = stream.close().await.unwrap();
        drop((stream, group));
        for member in &members {
            assert_eq!(read_all(&mut reader(member).await).await, (numbers(0..100), Ok(())));
        }
        for receipt in receipts {
            assert_eq!(receipt.await, Verdict::Reached { good: 3 });
        }
        assert!(end.decided().await.is_reached());
        // The name is free again.
        drop(alice.peer(members[0].id()).stream("s").unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_dead_member_falls_out_and_holds_up_nobody() {
    let (alice, bob, dead) = (cautious().await, node().await, nobody().await);
    let group = alice.group([dead.clone(), bob.peer_addr()]).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap().queue(8);
        let mut receipts = Vec::new();
        let mut lines = None;
        for n in 0..30 {
            let receipt = stream.send(Mode::Any, n.to_string()).await.unwrap();
            if lines.is_none() {
                lines = Some(reader(&bob).await);
            }
            assert_eq!(read(lines.as_mut().unwrap()).await, n.to_string());
            receipts.push(receipt);
        }
        assert_eq!(gone(&stream).await, (dead.id, Cause::Full));
        assert_eq!((stream.members(), group.members().len()), (vec![bob.id()], 2), "it stays in the group");
        for (n, receipt) in receipts.iter_mut().enumerate() {
            assert_eq!(receipt.decided().await, Verdict::Reached { good: 1 });
            let lines = receipt.ended().await;
            // The member was sent as many messages as it may have open; then the stream continued without it.
            assert_eq!(lines.len(), if n < 8 { 2 } else { 1 }, "{n}");
            if n < 8 {
                assert_eq!(outcome(&lines, &dead.id), Outcome::Cancelled);
                assert!(state(&lines, &dead.id).is_certainly_not());
            }
        }
        // The member is no longer part of the stream, and nothing of it is left behind.
        assert!(alice.flush(Duration::ZERO).await.is_empty());
        assert_eq!(stream.remove(&dead.id, Remove::Now), Err(GroupError::Unknown(dead.id)));
    })
    .await;
}

/// The member runs, but does not read: it is removed from the stream, and is told so after the messages that it was
/// sent.
#[tokio::test]
async fn a_slow_member_hears_that_it_has_fallen_out() {
    let (alice, [bob, slow]) = (node().await, nodes::<2>().await);
    let group = alice.group([bob.peer_addr(), slow.peer_addr()]).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap().queue(16);
        let receipts = send(&stream, 0..1).await;
        let (mut lines, mut slow_lines) = (reader(&bob).await, reader(&slow).await);
        assert_eq!(read(&mut lines).await, "0");
        drop(receipts);
        let rest = async {
            let receipts = send(&stream, 1..60).await;
            drop(stream.close().await.unwrap());
            receipts
        };
        let (receipts, (heard, end)) = tokio::join!(rest, read_all(&mut lines));
        assert_eq!((heard, end), (numbers(1..60), Ok(())));

        let (heard, end) = read_all(&mut slow_lines).await;
        assert_eq!(end, Err(StreamError::Reset));
        assert_eq!(heard, numbers(0..heard.len()), "without a gap, up to where it fell out");
        assert!(heard.len() <= 16, "{}", heard.len());
        for (n, mut receipt) in (1..).zip(receipts) {
            let table = receipt.ended().await;
            assert_eq!(outcome(&table, &bob.id()), Outcome::Delivered);
            let has_it = table.iter().any(|line| line.id == slow.id() && line.state.has_it());
            assert_eq!(has_it, n < heard.len(), "{n}");
            assert_eq!(receipt.verdict().unwrap().is_reached(), n < heard.len() || table.len() == 1);
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_waits_for_all_goes_on_when_the_slow_one_is_removed() {
    let (alice, bob, dead) = (cautious().await, node().await, nobody().await);
    let group = alice.group([dead.clone(), bob.peer_addr()]).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap().queue(2).when_full(WhenFull::Wait);
        drop(send(&stream, 0..2).await);
        let mut lines = reader(&bob).await;
        assert_eq!((read(&mut lines).await, read(&mut lines).await), ("0".into(), "1".into()));
        assert_eq!(stream.try_send(Mode::All, "2").unwrap_err(), GroupError::Full);
        assert!(waits(stream.send(Mode::All, "2")).await);
        let third = tokio::spawn({
            let stream = stream.clone();
            async move { stream.send(Mode::All, "2").await }
        });
        stream.remove(&dead.id, Remove::Now).unwrap();
        assert_eq!(read(&mut lines).await, "2");
        assert_eq!(third.await.unwrap().unwrap().await, Verdict::Reached { good: 1 });
        assert_eq!(gone(&stream).await, (dead.id, Cause::Removed(Remove::Now)));
    })
    .await;
}

#[tokio::test]
async fn how_many_must_have_it_is_chosen_for_each_message() {
    let (alice, [bob, carol, dave]) = (node().await, nodes::<3>().await);
    let group = alice.group([&bob, &carol, &dave].map(Node::peer_addr)).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let mut any = stream.send(Mode::Any, "any").await.unwrap();
        let mut two = stream.send(Mode::Quorum { send: 3, acks: 2 }, "two").await.unwrap();
        let mut all = stream.send(Mode::All, "all").await.unwrap();
        let mut of_bob = reader(&bob).await;
        assert_eq!(read(&mut of_bob).await, "any");
        assert_eq!(any.decided().await, Verdict::Reached { good: 1 });
        assert_eq!(read(&mut of_bob).await, "two");
        // After the verdict, the message is not withdrawn: each member sees the same stream.
        let mut of_carol = reader(&carol).await;
        assert_eq!((read(&mut of_carol).await, read(&mut of_carol).await), ("any".into(), "two".into()));
        assert_eq!(two.decided().await, Verdict::Reached { good: 2 });
        assert_eq!((read(&mut of_bob).await, read(&mut of_carol).await), ("all".into(), "all".into()));
        let mut of_dave = reader(&dave).await;
        assert_eq!((read(&mut of_dave).await, read(&mut of_dave).await), ("any".into(), "two".into()));
        assert_eq!(all.verdict(), None);
        assert_eq!(read(&mut of_dave).await, "all");
        assert_eq!(all.decided().await, Verdict::Reached { good: 3 });
        for receipt in [&mut any, &mut two, &mut all] {
            assert!(receipt.ended().await.iter().all(|line| line.state.has_it()));
        }
    })
    .await;
}

#[tokio::test]
async fn one_that_rejects_fails_the_message_and_the_stream_goes_on() {
    let (alice, [bob, carol]) = (node().await, nodes::<2>().await);
    let group = alice.group([&bob, &carol].map(Node::peer_addr)).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let mut receipts = send(&stream, 0..2).await;
        let (mut of_bob, mut of_carol) = (reader(&bob).await, reader(&carol).await);
        of_bob.recv().await.unwrap().unwrap().reject("not this");
        assert_eq!(receipts[0].decided().await, Verdict::Failed { good: 0, need: 2, why: Why::TooFew });
        assert_eq!((read(&mut of_bob).await, read(&mut of_carol).await), ("1".into(), "0".into()));
        assert_eq!(read(&mut of_carol).await, "1");
        assert!(receipts[1].decided().await.is_reached());
        let table = receipts[0].ended().await;
        let line = table.iter().find(|line| line.id == bob.id()).unwrap();
        assert_eq!(line.reason.as_deref(), Some("not this"));
        assert!(state(&table, &carol.id()).has_it());
    })
    .await;
}

#[tokio::test]
async fn members_come_and_go_while_it_is_open() {
    let (alice, [bob, carol, dave, erin]) = (node().await, nodes::<4>().await);
    let group = alice.group([&bob, &carol].map(Node::peer_addr)).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let other = group.stream("other").unwrap();
        let mut receipts = send(&stream, 0..3).await;

        // A node that joins the group is not in the stream; a node that joins the stream sees it from there on.
        group.add(dave.peer_addr()).unwrap();
        assert_eq!(stream.add(&erin.id()), Err(GroupError::Unknown(erin.id())));
        assert_eq!(stream.add(&bob.id()), Err(GroupError::Double(bob.id())));
        receipts.extend(send(&stream, 3..4).await);
        stream.add(&dave.id()).unwrap();
        receipts.extend(send(&stream, 4..6).await);

        // Removed from one stream: the messages that it was sent are still delivered, and its stream is closed.
        stream.remove(&bob.id(), Remove::Drain).unwrap();
        assert_eq!(gone(&stream).await, (bob.id(), Cause::Removed(Remove::Drain)));
        assert_eq!((stream.members().len(), other.members().len()), (2, 2));
        receipts.extend(send(&stream, 6..8).await);
        assert_eq!(read_all(&mut reader(&bob).await).await, (numbers(0..6), Ok(())));

        // Removed from the group: the members leave both streams.
        group.remove(&dave.id(), Remove::Drain).unwrap();
        group.remove(&carol.id(), Remove::Drain).unwrap();
        assert_eq!((stream.members(), other.members()), (vec![], vec![bob.id()]));
        assert_eq!(read_all(&mut reader(&carol).await).await, (numbers(0..8), Ok(())));
        assert_eq!(read_all(&mut reader(&dave).await).await, (numbers(4..8), Ok(())));
        for (n, mut receipt) in receipts.into_iter().enumerate() {
            assert!(receipt.decided().await.is_reached(), "{n}: what drains counts");
            assert_eq!(receipt.ended().await.len(), if n == 4 || n == 5 { 3 } else { 2 }, "{n}");
        }

        // Bob joins again: this is a new stream for him.
        assert_eq!(stream.send(Mode::All, "x").await.unwrap_err(), GroupError::Empty);
        stream.add(&bob.id()).unwrap();
        drop(send(&stream, 8..9).await);
        drop(stream.close().await.unwrap());
        assert_eq!(read_all(&mut reader(&bob).await).await, (numbers(8..9), Ok(())));
    })
    .await;
}

#[tokio::test]
async fn the_last_member_may_be_removed_with_messages_under_way() {
    let (alice, bob, dead) = (cautious().await, node().await, nobody().await);
    let group = alice.group([dead.clone()]).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let receipts = send(&stream, 0..3).await;
        group.remove(&dead.id, Remove::Now).unwrap();
        for mut receipt in receipts {
            assert_eq!(receipt.decided().await, Verdict::Failed { good: 0, need: 1, why: Why::TooFew });
            assert_eq!(outcome(&receipt.ended().await, &dead.id), Outcome::Cancelled);
        }
        assert_eq!(stream.send(Mode::Any, "x").await.unwrap_err(), GroupError::Empty);
        assert_eq!(stream.close().await.unwrap_err(), GroupError::Empty);
        group.add(bob.peer_addr()).unwrap();
        stream.add(&bob.id()).unwrap();
        let receipts = send(&stream, 3..4).await;
        assert_eq!(read(&mut reader(&bob).await).await, "3");
        for receipt in receipts {
            assert!(receipt.await.is_reached());
        }
        assert!(alice.flush(Duration::ZERO).await.is_empty(), "no end is said of a stream that never began");
    })
    .await;
}

/// A message that has left for a member that is removed at once stays in doubt until it is settled, and the member
/// sees it.
#[tokio::test]
async fn one_that_is_removed_at_once_hears_a_reset_behind_what_has_left() {
    let (alice, [bob, carol]) = (node().await, nodes::<2>().await);
    let group = alice.group([&bob, &carol].map(Node::peer_addr)).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let mut receipts = send(&stream, 0..1).await;
        let (mut of_bob, mut of_carol) = (reader(&bob).await, reader(&carol).await);
        assert_eq!(read(&mut of_bob).await, "0");
        receipts.extend(send(&stream, 1..20).await);
        stream.remove(&bob.id(), Remove::Now).unwrap();
        receipts.extend(send(&stream, 20..25).await);
        drop(stream.close().await.unwrap());
        let (heard, end) = read_all(&mut of_bob).await;
        assert_eq!((heard.clone(), end), (numbers(1..heard.len() + 1), Err(StreamError::Reset)));
        assert_eq!(read_all(&mut of_carol).await, (numbers(0..25), Ok(())));
        for (n, mut receipt) in receipts.into_iter().enumerate() {
            let table = receipt.ended().await;
            assert!(state(&table, &carol.id()).has_it());
            if n < 20 {
                let expected = if n <= heard.len() { Outcome::Delivered } else { Outcome::Cancelled };
                assert_eq!(outcome(&table, &bob.id()), expected, "{n}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_reset_withdraws_what_has_not_left_at_every_member() {
    let (alice, dead, other) = (cautious().await, nobody().await, nobody().await);
    let group = alice.group([dead.clone(), other.clone()]).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let receipts = send(&stream, 0..3).await;
        let end = stream.reset().await.unwrap();
        for mut receipt in receipts {
            let table = receipt.ended().await;
            assert_eq!(outcome(&table, &dead.id), Outcome::Cancelled);
            assert_eq!(outcome(&table, &other.id), Outcome::Cancelled);
        }
        end.abandon();
        assert!(!end.await.is_reached());
        assert_eq!(stream.send(Mode::All, "x").await.unwrap_err(), GroupError::Ended);
        assert_eq!(stream.reset().await.unwrap_err(), GroupError::Ended);
        assert_eq!(stream.add(&dead.id), Err(GroupError::Ended));
    })
    .await;
}

/// Queued for a member that does not exist, and waiting in the stream's own queue: both messages expire, and leave no
/// gap.
#[tokio::test]
async fn what_has_not_left_by_its_deadline_leaves_no_gap() {
    let alice =
        builder().early(false).config(|config| config.limits.queued_messages = 1).build().await.unwrap();
    let dead = nobody().await;
    let group = alice.group([dead.clone()]).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let soon = |text: &'static str| Message::new(text).deadline(Duration::from_millis(100));
        let first = stream.send(Mode::All, soon("queued")).await.unwrap();
        let second = stream.send(Mode::All, soon("waits")).await.unwrap();
        let last = stream.send(Mode::All, "stays").await.unwrap();
        for mut receipt in [second, first] {
            assert_eq!(receipt.decided().await, Verdict::Failed { good: 0, need: 1, why: Why::Deadline });
            assert_eq!(outcome(&receipt.ended().await, &dead.id), Outcome::Expired);
        }
        assert_eq!((last.verdict(), stream.backlog(&dead.id)), (None, Some(1)));
        last.cancel();
        let mut last = last;
        assert_eq!(outcome(&last.ended().await, &dead.id), Outcome::Cancelled);
    })
    .await;
}

#[tokio::test]
async fn what_is_withdrawn_before_it_has_left_is_seen_by_nobody() {
    let alice =
        builder().early(false).config(|config| config.limits.queued_messages = 2).build().await.unwrap();
    let bob = node().await;
    let group = alice.group([bob.peer_addr()]).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let mut receipts = send(&stream, 0..6).await;
        // One message that is queued at the node, and one that waits in the stream's own queue.
        receipts[1].cancel();
        receipts[4].cancel();
        for n in [1, 4] {
            assert_eq!(outcome(&receipts[n].ended().await, &bob.id()), Outcome::Cancelled);
        }
        drop(stream.close().await.unwrap());
        let heard = read_all(&mut reader(&bob).await).await;
        assert_eq!(heard, (["0", "2", "3", "5"].map(str::to_owned).to_vec(), Ok(())));
    })
    .await;
}

#[tokio::test]
async fn members_answer_under_the_name_of_the_stream() {
    let (alice, [bob, carol]) = (node().await, nodes::<2>().await);
    let group = alice.group([&bob, &carol].map(Node::peer_addr)).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        drop(send(&stream, 0..1).await);
        for member in [&bob, &carol] {
            let (mut back, mut lines) = member.accept_stream().await.unwrap().split();
            assert_eq!(read(&mut lines).await, "0");
            drop(back.send("heard").await.unwrap());
            let mut answers = stream.answers(&member.id()).unwrap();
            assert!(stream.answers(&member.id()).is_none());
            assert_eq!((read(&mut answers).await, answers.peer().id()), ("heard".into(), member.id()));
        }
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_is_said() {
    let (alice, [bob, carol]) = (node().await, nodes::<2>().await);
    let group = alice.group(Vec::<PeerAddr>::new()).build().unwrap();
    assert_eq!(group.stream("s").unwrap_err(), GroupError::Empty);
    group.add(bob.peer_addr()).unwrap();
    assert_eq!(group.stream("").unwrap_err(), GroupError::Name(OpenError::Name(0)));
    assert_eq!(group.stream(vec![b'n'; 256]).unwrap_err(), GroupError::Name(OpenError::Name(256)));
    assert_eq!(group.stream("\0s").unwrap_err(), GroupError::Name(OpenError::Reserved));

    let held = alice.peer(bob.peer_addr()).stream("s").unwrap();
    let in_use = GroupError::Stream { member: bob.id(), error: OpenError::InUse };
    assert_eq!(group.stream("s").unwrap_err(), in_use);
    assert!(in_use.to_string().contains(&bob.id().to_string()));
    drop(held);
    let stream = group.stream("s").unwrap();
    assert_eq!(group.stream("s").unwrap_err(), in_use);

    let ask = async |mode| stream.send(mode, "x").await.unwrap_err();
    assert_eq!(ask(Mode::Balanced { k: 1 }).await, GroupError::Unordered);
    assert_eq!(ask(Mode::Quorum { send: 1, acks: 0 }).await, GroupError::NoAcks);
    assert_eq!(ask(Mode::Quorum { send: 1, acks: 2 }).await, GroupError::TooManyAcks { acks: 2, send: 1 });
    assert_eq!(
        ask(Mode::Quorum { send: 2, acks: 2 }).await,
        GroupError::TooFewMembers { send: 2, members: 1 }
    );
    let tagged = stream.send(Mode::All, Message::new("x").tag("t")).await.unwrap_err();
    assert_eq!(tagged, GroupError::Tagged);
    let long = stream.send(Mode::All, vec![0; MAX_STREAM_BODY + 1]).await.unwrap_err();
    assert_eq!(long, GroupError::TooLarge { size: MAX_STREAM_BODY + 1, limit: MAX_STREAM_BODY });
    assert_eq!(stream.remove(&carol.id(), Remove::Now), Err(GroupError::Unknown(carol.id())));

    // None of these messages was sent.
    within(async {
        drop(stream.close().await.unwrap());
        assert_eq!(stream.send(Mode::All, "x").await.unwrap_err(), GroupError::Ended);
        assert_eq!(stream.close().await.unwrap_err(), GroupError::Ended);
        assert_eq!(read_all(&mut reader(&bob).await).await, (vec![], Ok(())));
    })
    .await;
}

/// A member without an address can never have the message, nor any later one.
#[tokio::test]
async fn a_member_that_cannot_be_sent_to_falls_out() {
    let (alice, bob) = (node().await, node().await);
    let stranger = NodeId([7; 32]);
    let group = alice.group([PeerAddr::from(stranger), bob.peer_addr()]).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let mut first = stream.send(Mode::Any, "0").await.unwrap();
        drop(stream.send(Mode::All, "1").await.unwrap());
        assert_eq!(gone(&stream).await, (stranger, Cause::Failed(SendError::NoAddress(stranger))));
        let mut lines = reader(&bob).await;
        assert_eq!((read(&mut lines).await, read(&mut lines).await), ("0".into(), "1".into()));
        let table = first.ended().await;
        assert!(matches!(state(&table, &stranger), MemberState::Skipped(_)));
        assert_eq!(first.await, Verdict::Reached { good: 1 });
    })
    .await;
}

/// The node is closed with messages in flight: every line tells what is known.
#[tokio::test]
async fn a_node_that_closes_ends_every_message() {
    let (alice, dead) = (cautious().await, nobody().await);
    let group = alice.group([dead.clone()]).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let receipts = send(&stream, 0..3).await;
        alice.close(Duration::ZERO).await;
        for mut receipt in receipts {
            assert!(!receipt.decided().await.is_reached());
            assert_eq!(outcome(&receipt.ended().await, &dead.id), Outcome::Cancelled);
        }
    })
    .await;
}

/// All members share one body: it is freed when the last copy has ended.
#[tokio::test]
async fn all_members_share_one_body() {
    struct Body {
        bytes: Vec<u8>,
        _alive: std::sync::Arc<()>,
    }
    impl AsRef<[u8]> for Body {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    let alice = cautious().await;
    let mut members = Vec::new();
    for _ in 0..20 {
        members.push(nobody().await);
    }
    let group = alice.group(members).build().unwrap();
    within(async {
        let stream = group.stream("s").unwrap();
        let alive = std::sync::Arc::new(());
        let body = Bytes::from_owner(Body { bytes: vec![7; 10_000], _alive: std::sync::Arc::clone(&alive) });
        let mut receipt = stream.send(Mode::All, body).await.unwrap();
        assert_eq!(std::sync::Arc::strong_count(&alive), 2, "none has a copy of its own, so it is needed");
        receipt.cancel();
        receipt.ended().await;
        assert_eq!(std::sync::Arc::strong_count(&alive), 1);
    })
    .await;
}
