//! Calls to groups of live nodes, over real sockets.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{nobody, node, within};
use exonet::call::{Failure, Reply, Request, Serving};
use exonet::error::{CallError, GatherError, GroupError};
use exonet::group::{Ended, Load, Path};
use exonet::{Node, NodeId, PeerAddr};
use tokio::sync::Notify;

/// A load metric by which this member is the cheapest.
struct Prefer(NodeId);

impl Load for Prefer {
    fn cost(&mut self, _: Duration, member: &NodeId, _: Path) -> f64 {
        if *member == self.0 { 0.0 } else { 1.0 }
    }
    fn sent(&mut self, _: Duration, _: &NodeId) {}
    fn ended(&mut self, _: Duration, _: &NodeId, _: Duration, _: Ended) {}
    fn removed(&mut self, _: &NodeId) {}
}

/// Answers with its own id.
fn echo(node: &Node) -> Serving {
    let name = node.id().to_string();
    let answer = move |_: Request| {
        let name = name.clone();
        async move { Ok::<_, Failure>(name) }
    };
    node.serve("who", answer).start().unwrap()
}

/// Never answers, and counts the calls that it has taken.
fn mute(node: &Node) -> (Serving, Arc<AtomicUsize>, Arc<Notify>) {
    let (taken, called) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (count, call) = (Arc::clone(&taken), Arc::clone(&called));
    let serving = node.serve("who", move |_: Request| {
        count.fetch_add(1, Ordering::AcqRel);
        call.notify_one();
        std::future::pending::<Result<String, Failure>>()
    });
    (serving.start().unwrap(), taken, called)
}

async fn name(mut reply: Reply) -> String {
    String::from_utf8(reply.body.bytes(100).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn the_first_reply_is_enough() {
    let (alice, bob, carol, dead) = (node().await, node().await, node().await, nobody().await);
    let (_bob, _carol) = (mute(&bob), echo(&carol));
    let group = alice.group([dead, bob.peer_addr(), carol.peer_addr()]).build().unwrap();
    within(async {
        let (who, reply) = group.call("who", "").first().await.unwrap();
        assert_eq!((who, name(reply).await), (carol.id(), carol.id().to_string()));
    })
    .await;
}

#[tokio::test]
async fn a_quorum_of_replies_is_gathered_or_cannot_be() {
    let nodes = [node().await, node().await, node().await];
    let alice = node().await;
    let _serving = [echo(&nodes[0]), echo(&nodes[1])];
    // The third serves nothing.
    let group = alice.group(nodes.iter().map(Node::peer_addr)).build().unwrap();
    within(async {
        let replies = group.call("who", "").quorum(2).await.unwrap();
        assert_eq!(replies.len(), 2);
        for (who, reply) in replies {
            assert_eq!(name(reply).await, who.to_string());
        }
        let GatherError::TooFew { need: 3, failures, .. } =
            group.call("who", "").quorum(3).await.unwrap_err()
        else {
            panic!()
        };
        assert!(failures.len() == 1 && failures[0].0 == nodes[2].id() && failures[0].1.has_not_run());
        let wrong = group.call("who", "").quorum(4).await.unwrap_err();
        assert!(matches!(wrong, GatherError::Group(GroupError::TooManyAcks { acks: 4, send: 3 })));
        let wrong = group.call("who", "").quorum(0).await.unwrap_err();
        assert!(matches!(wrong, GatherError::Group(GroupError::NoAcks)));
        let none = alice.group([] as [PeerAddr; 0]).build().unwrap();
        assert!(matches!(none.call("who", "").first().await, Err(GatherError::Group(GroupError::Empty))));
    })
    .await;
}

#[tokio::test]
async fn all_are_told_of_and_a_fold_may_end_early() {
    let (alice, bob, carol, dead) = (node().await, node().await, node().await, nobody().await);
    let _serving = [echo(&bob), echo(&carol)];
    let group = alice.group([dead.clone(), bob.peer_addr(), carol.peer_addr()]).build().unwrap();
    within(async {
        let all = group.call("who", "").deadline(Duration::from_millis(500)).all().await.unwrap();
        assert_eq!(all.len(), 3);
        let good = all.iter().filter(|(_, answer)| answer.is_ok()).count();
        assert_eq!(good, 2);
        assert!(all.iter().any(|(id, answer)| *id == dead.id && matches!(answer, Err(CallError::Expired))));
        let one = |count, _, answer: Result<_, _>| match answer {
            Ok(_) => ControlFlow::Break(count + 1),
            Err(_) => ControlFlow::Continue(count),
        };
        assert_eq!(group.call("who", "").fold(0, one).await, Ok(1));
    })
    .await;
}

#[tokio::test]
async fn another_is_called_only_if_it_has_certainly_not_run() {
    let (alice, bob, carol) = (node().await, node().await, node().await);
    let _carol = echo(&carol);
    let members = [bob.peer_addr(), carol.peer_addr()];
    let group = alice.group(members).load(Prefer(bob.id())).build().unwrap();
    within(async {
        // Bob does not serve the method.
        let (who, _) = group.call("who", "").cheapest().await.unwrap();
        assert_eq!(who, carol.id());

        // Bob has the call, and is gone before he has answered.
        let (serving, taken, called) = mute(&bob);
        let call = group.call("who", "").cheapest();
        let ends = async {
            called.notified().await;
            alice.peer(bob.id()).abandon();
        };
        let (failed, ()) = tokio::join!(call, ends);
        let GatherError::TooFew { failures, .. } = failed.unwrap_err() else { panic!() };
        assert!(failures.len() == 1 && !failures[0].1.has_not_run(), "{failures:?}");
        assert_eq!(taken.load(Ordering::Acquire), 1);
        drop(serving);
    })
    .await;
}
