//! Messages to groups of live nodes, over real sockets.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::common::{builder, cautious, nobody, node, within};
use bytes::Bytes;
use exonet::error::{GroupError, SendError};
use exonet::group::{Ended, Load, MemberLine, MemberState, Mode, Path, Remove, Verdict, Why};
use exonet::{Confirm, Message, Node, NodeId, Outcome, PeerAddr};

/// A load metric that orders members by this list, the first being the cheapest.
struct Listed(Vec<NodeId>);

impl Load for Listed {
    fn cost(&mut self, _: Duration, member: &NodeId, _: Path) -> f64 {
        let at = self.0.iter().position(|id| id == member).expect("a member");
        f64::from(u32::try_from(at).unwrap())
    }
    fn sent(&mut self, _: Duration, _: &NodeId) {}
    fn ended(&mut self, _: Duration, _: &NodeId, _: Duration, _: Ended) {}
    fn removed(&mut self, _: &NodeId) {}
}

fn listed(members: &[PeerAddr]) -> Listed {
    Listed(members.iter().map(|member| member.id).collect())
}

fn line<'a>(lines: &'a [MemberLine], id: &NodeId) -> &'a MemberState {
    &lines.iter().find(|line| line.id == *id).expect("each member has a line").state
}

fn ended(lines: &[MemberLine], id: &NodeId) -> Outcome {
    match line(lines, id) {
        MemberState::Settled(settled) => settled.outcome,
        other => panic!("{other:?}"),
    }
}

/// Takes one message and returns its body.
async fn take(node: &Node) -> Bytes {
    node.at_most_once().recv().await.unwrap().body.bytes(1_000).await.unwrap()
}

/// Makes both nodes know each other and have a channel, so that messages leave at once.
async fn acquaint(alice: &Node, bob: &Node) {
    let receipt = alice.peer(bob.peer_addr()).send("hello").await.unwrap();
    assert_eq!(take(bob).await, "hello");
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
}

#[tokio::test]
async fn fifty_members_have_each_message_once() {
    const ROUNDS: usize = 4;
    let alice = node().await;
    let mut members = Vec::new();
    for _ in 0..50 {
        members.push(node().await);
    }
    let group = alice.group(members.iter().map(Node::peer_addr)).build().unwrap();
    within(async {
        let mut receipts = Vec::new();
        for round in 0..ROUNDS {
            receipts.push(group.send(Mode::All, format!("{round}")).await.unwrap());
        }
        for member in &members {
            let mut got = Vec::new();
            for _ in 0..ROUNDS {
                got.push(take(member).await);
            }
            got.sort();
            assert_eq!(got, ["0", "1", "2", "3"]);
        }
        for mut receipt in receipts {
            assert_eq!(receipt.decided().await, Verdict::Reached { good: 50 });
            let lines = receipt.ended().await;
            assert!(lines.len() == 50 && lines.iter().all(|line| line.state.has_it()));
            assert_eq!(receipt.verdict(), Some(Verdict::Reached { good: 50 }), "for ever");
            assert_eq!(receipt.clone().ended().await, lines, "a clone is of the same message");
        }
    })
    .await;
}

#[tokio::test]
async fn one_answer_is_enough_for_any_and_surplus_copies_are_withdrawn() {
    let (alice, bob, dead) = (cautious().await, node().await, nobody().await);
    let members = [dead.clone(), bob.peer_addr()];
    let group = alice.group(members).build().unwrap();
    within(async {
        let mut receipt = group.send(Mode::Any, "anybody?").await.unwrap();
        assert_eq!(take(&bob).await, "anybody?");
        assert_eq!(receipt.decided().await, Verdict::Reached { good: 1 });
        let lines = receipt.ended().await;
        assert_eq!(ended(&lines, &dead.id), Outcome::Cancelled);
        assert!(line(&lines, &dead.id).is_certainly_not());
        assert_eq!(ended(&lines, &bob.id()), Outcome::Delivered);
        assert!(alice.flush(Duration::ZERO).await.is_empty(), "nothing is left behind");
    })
    .await;
}

#[tokio::test]
async fn a_group_shows_the_load_of_its_members() {
    let (alice, bob, dead) = (node().await, node().await, nobody().await);
    within(acquaint(&alice, &bob)).await;
    let members = [dead, bob.peer_addr()];
    let group = alice.group(members.clone()).load(listed(&members)).build().unwrap();
    let loads = group.loads();
    let costs: Vec<_> = loads.iter().map(|load| (load.id, load.cost)).collect();
    assert_eq!(costs, [(members[0].id, 0.0), (bob.id(), 1.0)], "the cheapest first, as the metric says");
    assert_eq!(
        loads[0].path,
        Path::default(),
        "nothing is known of the path to a member that never answered"
    );
    assert!(loads[1].path.rtt.is_some_and(|rtt| !rtt.is_zero()), "{loads:?}");
}

#[tokio::test]
async fn one_that_rejects_is_replaced_in_a_quorum() {
    let (alice, bob, carol) = (node().await, node().await, node().await);
    let members = [bob.peer_addr(), carol.peer_addr()];
    let group = alice.group(members.clone()).load(listed(&members)).build().unwrap();
    within(async {
        let mut receipt = group.send(Mode::Quorum { send: 1, acks: 1 }, "who takes it?").await.unwrap();
        assert_eq!(line(&receipt.members(), &carol.id()), &MemberState::Spare);
        bob.recv().await.unwrap().reject("no");
        carol.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.decided().await, Verdict::Reached { good: 1 });
        let lines = receipt.ended().await;
        assert!(matches!(ended(&lines, &bob.id()), Outcome::Rejected { .. }));
        assert_eq!(lines[0].reason.as_deref(), Some("no"));
        assert_eq!(ended(&lines, &carol.id()), Outcome::Delivered);
    })
    .await;
}

#[tokio::test]
async fn too_many_that_reject_make_it_fail() {
    let (alice, bob, carol) = (node().await, node().await, node().await);
    let group = alice.group([bob.peer_addr(), carol.peer_addr()]).build().unwrap();
    within(async {
        let mut receipt = group.send(Mode::All, "all of you").await.unwrap();
        bob.recv().await.unwrap().reject("no");
        let failed = Verdict::Failed { good: 0, need: 2, why: Why::TooFew };
        assert_eq!(receipt.decided().await, failed);
        // The others get the message all the same, and the verdict stays.
        assert_eq!(take(&carol).await, "all of you");
        assert_eq!(ended(&receipt.ended().await, &carol.id()), Outcome::Delivered);
        assert_eq!(receipt.await, failed);
    })
    .await;
}

#[tokio::test]
async fn a_balanced_message_passes_over_a_dead_member_for_certain() {
    let (alice, bob, dead) = (node().await, node().await, nobody().await);
    let members = [dead.clone(), bob.peer_addr()];
    let group = alice.group(members.clone()).load(listed(&members)).build().unwrap();
    within(async {
        let mut receipt = group.send(Mode::Balanced { k: 1 }, "job").await.unwrap();
        assert_eq!(line(&receipt.members(), &bob.id()), &MemberState::Spare);
        assert_eq!(take(&bob).await, "job");
        assert_eq!(receipt.decided().await, Verdict::Reached { good: 1 });
        assert_eq!(ended(&receipt.ended().await, &dead.id), Outcome::Cancelled);
    })
    .await;
}

/// The message has left for Bob and waits there: it is withdrawn, and then goes to Carol.
#[tokio::test]
async fn a_balanced_message_that_is_not_taken_goes_to_another_for_certain() {
    let (alice, bob, carol) = (node().await, node().await, node().await);
    let members = [bob.peer_addr(), carol.peer_addr()];
    let group = alice.group(members.clone()).load(listed(&members)).patience(Duration::ZERO).build().unwrap();
    within(async {
        acquaint(&alice, &bob).await;
        let mut receipt = group.send(Mode::Balanced { k: 1 }, "job").await.unwrap();
        assert_eq!(take(&carol).await, "job");
        assert_eq!(receipt.decided().await, Verdict::Reached { good: 1 });
        let lines = receipt.ended().await;
        assert_eq!(ended(&lines, &bob.id()), Outcome::Cancelled);
        assert!(line(&lines, &bob.id()).is_certainly_not());
        assert!(bob.at_most_once().try_recv().is_none(), "it is not there any more");
    })
    .await;
}

/// Any: copies that have left for the others and wait there are withdrawn.
#[tokio::test]
async fn a_copy_that_is_not_needed_is_withdrawn_where_it_waits() {
    let (alice, bob, carol) = (node().await, node().await, node().await);
    let group = alice.group([bob.peer_addr(), carol.peer_addr()]).build().unwrap();
    within(async {
        acquaint(&alice, &bob).await;
        acquaint(&alice, &carol).await;
        let mut receipt = group.send(Mode::Any, "anybody?").await.unwrap();
        assert_eq!(take(&bob).await, "anybody?");
        assert_eq!(receipt.decided().await, Verdict::Reached { good: 1 });
        let lines = receipt.ended().await;
        assert_eq!(ended(&lines, &carol.id()), Outcome::Cancelled);
        assert!(carol.at_most_once().try_recv().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_balanced_message_that_one_may_have_goes_to_no_other() {
    let (alice, bob, carol) = (node().await, node().await, node().await);
    let members = [bob.peer_addr(), carol.peer_addr()];
    // Bob's application gets the message long before its copy is overdue.
    let patience = Duration::from_millis(200);
    let group = alice.group(members.clone()).load(listed(&members)).patience(patience).build().unwrap();
    within(async {
        acquaint(&alice, &bob).await;
        let job = Message::new("job").deadline(Duration::from_millis(500));
        let mut receipt = group.send(Mode::Balanced { k: 1 }, job).await.unwrap();
        // Bob's application has the message, and does not decide its fate.
        let held = bob.recv().await.unwrap();
        let failed = Verdict::Failed { good: 0, need: 1, why: Why::Deadline };
        assert_eq!(receipt.decided().await, failed);
        let lines = receipt.members();
        assert!(matches!(line(&lines, &bob.id()), MemberState::Bound(_)), "{lines:?}");
        assert_eq!(line(&lines, &carol.id()), &MemberState::Spare);
        assert!(!line(&lines, &bob.id()).is_certainly_not());
        // Failed does not say that no member has the message.
        held.ack().unwrap();
        let lines = receipt.ended().await;
        let of_bob = line(&lines, &bob.id());
        assert!(
            matches!(of_bob, MemberState::Settled(settled) if settled.outcome == Outcome::Delivered),
            "{of_bob:?}"
        );
        assert_eq!(line(&lines, &carol.id()), &MemberState::Spare, "nobody takes a place after the verdict");
        assert_eq!(receipt.verdict(), Some(failed));
    })
    .await;
}

#[tokio::test]
async fn a_dead_member_with_a_full_queue_holds_up_nobody() {
    let alice =
        builder().early(false).config(|config| config.limits.queued_messages = 2).build().await.unwrap();
    let (bob, dead) = (node().await, nobody().await);
    let group = alice.group([dead.clone(), bob.peer_addr()]).build().unwrap();
    within(async {
        let mut receipts = Vec::new();
        for i in 0..6 {
            let mut receipt = group.send(Mode::All, format!("{i}")).await.unwrap();
            assert_eq!(take(&bob).await, format!("{i}"));
            // A message counts as queued until it is acknowledged: Bob's queue is not to be full as well.
            while !line(&receipt.members(), &bob.id()).has_it() {
                receipt.changed().await.unwrap();
            }
            receipts.push(receipt);
        }
        // For a message that not all members need, a full queue makes a member one that certainly does not have it.
        let mut any = group.send(Mode::Any, "any").await.unwrap();
        assert_eq!(line(&any.members(), &dead.id), &MemberState::Skipped(SendError::Full));
        assert_eq!(take(&bob).await, "any");
        assert_eq!(any.decided().await, Verdict::Reached { good: 1 });

        for receipt in &mut receipts {
            assert_eq!((receipt.verdict(), line(&receipt.members(), &dead.id)), (None, &MemberState::Queued));
            receipt.abandon();
            assert!(!receipt.decided().await.is_reached());
            assert_eq!(ended(&receipt.ended().await, &dead.id), Outcome::Cancelled);
        }
    })
    .await;
}

#[tokio::test]
async fn what_waits_for_room_enters_when_there_is_some() {
    let alice =
        builder().early(false).config(|config| config.limits.queued_messages = 1).build().await.unwrap();
    let bob = node().await;
    let group = alice.group([bob.peer_addr()]).waiting(1).build().unwrap();
    within(async {
        let send = async {
            let mut receipts = Vec::new();
            // One of these is queued and one waits: `send` itself waits with the next.
            for i in 0..8 {
                receipts.push(group.send(Mode::All, format!("{i}")).await.unwrap());
            }
            for receipt in receipts {
                assert_eq!(receipt.await, Verdict::Reached { good: 1 });
            }
        };
        let receive = async {
            for _ in 0..8 {
                take(&bob).await;
            }
        };
        tokio::join!(send, receive);
    })
    .await;
}

#[tokio::test]
async fn what_waits_for_room_is_bounded() {
    let alice =
        builder().early(false).config(|config| config.limits.queued_messages = 1).build().await.unwrap();
    let group = alice.group([nobody().await]).waiting(1).build().unwrap();
    within(async {
        let _queued = group.send(Mode::All, "queued").await.unwrap();
        let waiting = group.send(Mode::All, "waits").await.unwrap();
        let mut third = pin!(group.send(Mode::All, "waits before it is sent"));
        assert!(poll_fn(|cx| Poll::Ready(third.as_mut().poll(cx).is_pending())).await);
        waiting.abandon();
        assert_eq!(third.await.unwrap().verdict(), None);
    })
    .await;
}

#[tokio::test]
async fn what_has_not_left_by_the_deadline_expires() {
    let alice =
        builder().early(false).config(|config| config.limits.queued_messages = 1).build().await.unwrap();
    let dead = nobody().await;
    let group = alice.group([dead.clone()]).build().unwrap();
    within(async {
        // The first is in the queue, the second waits for room.
        let both = [(); 2].map(|()| Message::new("soon").deadline(Duration::from_millis(100)));
        let [first, second] = both;
        let mut first = group.send(Mode::All, first).await.unwrap();
        let mut second = group.send(Mode::All, second).await.unwrap();
        for receipt in [&mut second, &mut first] {
            let failed = Verdict::Failed { good: 0, need: 1, why: Why::Deadline };
            assert_eq!(receipt.decided().await, failed);
            assert_eq!(ended(&receipt.ended().await, &dead.id), Outcome::Expired);
            assert!(line(&receipt.members(), &dead.id).is_certainly_not());
        }
    })
    .await;
}

#[tokio::test]
async fn a_member_that_is_removed_drains_or_is_withdrawn() {
    let (alice, bob, carol, dead) = (cautious().await, node().await, node().await, nobody().await);
    let group = alice.group([dead.clone(), bob.peer_addr()]).build().unwrap();
    within(async {
        let mut drained = group.send(Mode::All, "1").await.unwrap();
        assert_eq!(take(&bob).await, "1");
        group.remove(&dead.id, Remove::Drain).unwrap();
        assert_eq!(group.remove(&dead.id, Remove::Now), Err(GroupError::Unknown(dead.id)));
        assert_eq!(group.members(), [bob.id()]);

        // Added again, with a third member: messages in flight do not go to them.
        group.add(dead.clone()).unwrap();
        group.add(carol.peer_addr()).unwrap();
        assert_eq!(group.add(carol.peer_addr()), Err(GroupError::Double(carol.id())));
        let mut withdrawn = group.send(Mode::All, "2").await.unwrap();
        assert_eq!((take(&bob).await, take(&carol).await), ("2".into(), "2".into()));
        assert_eq!(drained.verdict(), None, "it goes on, and counts");

        group.remove(&dead.id, Remove::Now).unwrap();
        let failed = withdrawn.decided().await;
        assert!(matches!(failed, Verdict::Failed { need: 3, why: Why::TooFew, .. }), "{failed:?}");
        assert_eq!(ended(&withdrawn.ended().await, &dead.id), Outcome::Cancelled);
        // A member that is removed now has all messages in flight withdrawn.
        assert!(!drained.decided().await.is_reached());

        let three = group.send(Mode::All, "3").await.unwrap();
        assert_eq!((take(&bob).await, take(&carol).await), ("3".into(), "3".into()));
        assert_eq!(three.await, Verdict::Reached { good: 2 });
    })
    .await;
}

#[tokio::test]
async fn a_spare_that_is_removed_takes_no_place() {
    let (alice, bob, carol) = (node().await, node().await, node().await);
    let members = [bob.peer_addr(), carol.peer_addr()];
    let group = alice.group(members.clone()).load(listed(&members)).build().unwrap();
    within(async {
        let mut receipt = group.send(Mode::Quorum { send: 1, acks: 1 }, "job").await.unwrap();
        group.remove(&carol.id(), Remove::Drain).unwrap();
        bob.recv().await.unwrap().reject("no");
        assert!(!receipt.decided().await.is_reached());
        assert_eq!(line(&receipt.ended().await, &carol.id()), &MemberState::Spare);
    })
    .await;
}

#[tokio::test]
async fn processed_is_more_than_delivered() {
    let (alice, bob, carol) = (node().await, node().await, node().await);
    let members = [bob.peer_addr(), carol.peer_addr()];
    let group = alice.group(members).build().unwrap();
    within(async {
        let mut receipt =
            group.send(Mode::All, Message::new("pay").confirm(Confirm::Processed)).await.unwrap();
        carol.recv().await.unwrap().ack().unwrap();
        take(&bob).await; // at most once: it will not be reported as processed
        assert!(!receipt.decided().await.is_reached());
        let lines = receipt.ended().await;
        assert_eq!(ended(&lines, &bob.id()), Outcome::Delivered);
        assert_eq!(ended(&lines, &carol.id()), Outcome::Processed { status: 0 });
    })
    .await;
}

#[tokio::test]
async fn changes_are_told_one_by_one() {
    let (alice, bob, carol) = (node().await, node().await, node().await);
    let group = alice.group([bob.peer_addr(), carol.peer_addr()]).build().unwrap();
    within(async {
        let mut receipt = group.send(Mode::All, "news").await.unwrap();
        let mut queued = [receipt.changed().await.unwrap(), receipt.changed().await.unwrap()];
        queued.sort_by_key(|line| line.id);
        assert!(queued.iter().all(|line| line.state == MemberState::Queued));
        take(&carol).await;
        let first = receipt.changed().await.unwrap();
        assert!(first.id == carol.id() && first.state.has_it());
        take(&bob).await;
        let mut seen = Vec::new();
        while let Some(line) = receipt.changed().await {
            assert_eq!(line.id, bob.id());
            seen.push(line.state.has_it());
        }
        assert_eq!(seen.last(), Some(&true));
        assert!(receipt.changed().await.is_none());
        assert_eq!(receipt.await, Verdict::Reached { good: 2 });
    })
    .await;
}

#[tokio::test]
async fn a_message_goes_on_without_its_group_and_ends_with_its_node() {
    let (alice, bob, carol) = (node().await, node().await, node().await);
    let members = [bob.peer_addr(), carol.peer_addr()];
    let group = alice.group(members.clone()).load(listed(&members)).build().unwrap();
    within(async {
        let receipt = group.send(Mode::Quorum { send: 1, acks: 1 }, "job").await.unwrap();
        drop(group);
        bob.recv().await.unwrap().reject("no");
        assert_eq!(take(&carol).await, "job");
        assert_eq!(receipt.await, Verdict::Reached { good: 1 });

        let group = alice.group([nobody().await]).build().unwrap();
        let receipt = group.send(Mode::All, "never").await.unwrap();
        drop((group, alice));
        assert!(!receipt.await.is_reached());
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_asked_of_a_group_is_said_at_once() {
    let (alice, bob) = (node().await, node().await);
    let to = bob.peer_addr();
    let none = alice.group([] as [PeerAddr; 0]).build().unwrap();
    assert_eq!(none.send(Mode::All, "x").await.unwrap_err(), GroupError::Empty);
    assert_eq!(alice.group([&to, &to].map(Clone::clone)).build().unwrap_err(), GroupError::Double(to.id));
    assert_eq!(alice.group([alice.id()]).build().unwrap_err(), GroupError::Myself);

    let group = alice.group([to]).build().unwrap();
    let ask = async |mode| group.send(mode, "x").await.unwrap_err();
    assert_eq!(ask(Mode::Quorum { send: 1, acks: 0 }).await, GroupError::NoAcks);
    assert_eq!(ask(Mode::Balanced { k: 0 }).await, GroupError::NoAcks);
    let too_many = GroupError::TooManyAcks { acks: 2, send: 1 };
    assert_eq!(ask(Mode::Quorum { send: 1, acks: 2 }).await, too_many);
    let too_few = GroupError::TooFewMembers { send: 2, members: 1 };
    assert_eq!(ask(Mode::Quorum { send: 2, acks: 1 }).await, too_few);
    assert_eq!(ask(Mode::Balanced { k: 2 }).await, too_few);

    // A member without an address is skipped, which is reported in the member's line and is not an error.
    let stranger = NodeId([7; 32]);
    let group = alice.group([PeerAddr::from(stranger), bob.peer_addr()]).build().unwrap();
    within(async {
        let mut receipt = group.send(Mode::Any, "x").await.unwrap();
        take(&bob).await;
        assert_eq!(receipt.decided().await, Verdict::Reached { good: 1 });
        let lines = receipt.ended().await;
        assert_eq!(line(&lines, &stranger), &MemberState::Skipped(SendError::NoAddress(stranger)));
    })
    .await;
}
