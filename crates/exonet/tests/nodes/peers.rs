//! A node's handle on a peer.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::common::{builder, cautious, nobody, node, pair, within};
use exonet::error::SendError;
use exonet::send::Refusal;
use exonet::{Allow, Message, Node, Outcome};
use futures_sink::Sink;

#[tokio::test]
async fn a_peer_that_is_closed_has_nothing_open_and_others_go_on() {
    let (alice, bob) = (cautious().await, node().await);
    within(async {
        let (to_bob, away) = (alice.peer(bob.peer_addr()), alice.peer(nobody().await));
        let open = away.send("x").await.unwrap();
        let receipt = to_bob.send("hello").await.unwrap();
        let close = async { to_bob.close(Duration::from_secs(50)).await };
        let take = async { bob.recv().await.unwrap().ack().unwrap() };
        let (given_up, ()) = tokio::join!(close, take);
        assert!(given_up.is_empty(), "it is delivered");
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        assert_eq!(open.settled(), None, "of another peer");

        let given_up = away.close(Duration::ZERO).await;
        assert_eq!(given_up.iter().map(|message| message.peer).collect::<Vec<_>>(), [away.id()]);
        assert_eq!(open.await.outcome, Outcome::Cancelled, "it has not left");
        assert!(to_bob.try_send("again").is_ok(), "a peer is not closed for good");
    })
    .await;
}

#[tokio::test]
async fn a_handle_keeps_the_node_going() {
    let (alice, bob) = pair().await;
    within(async {
        let to_bob = alice.peer(bob.peer_addr());
        drop(alice);
        let receipt = to_bob.send("still here").await.unwrap();
        bob.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        drop(to_bob.node().close(Duration::from_secs(5)).await);
        assert_eq!(to_bob.send("x").await.unwrap_err(), SendError::Closed);
    })
    .await;
}

#[tokio::test]
async fn a_sink_hands_over_what_was_fed_and_counts_what_became_of_it() {
    let alice = builder().config(|config| config.limits.queued_messages = 50).build().await.unwrap();
    let bob = node().await;
    within(async {
        let mut sink = alice.peer(bob.peer_addr()).sink();
        for n in 0..5 {
            sink.feed(format!("{n}")).await.unwrap();
        }
        assert!(bob.try_recv().is_none() && alice.stats().open_messages == 0, "fed, not flushed");
        let receiver = bob.clone();
        let take = tokio::spawn(async move {
            let bob = receiver;
            for _ in 0..1_000 {
                bob.recv().await.unwrap().ack().unwrap();
            }
        });
        for n in 5..1_000 {
            // More than the queue holds, and more than is collected.
            sink.feed(format!("{n}")).await.unwrap();
        }
        assert_eq!(sink.settled().await.unwrap().delivered, 1_000);
        take.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_message_that_a_sink_refuses_is_dropped_and_the_others_go_on() {
    let (alice, bob) = pair().await;
    within(async {
        let mut sink = pin!(alice.peer(bob.peer_addr()).sink());
        let mut feed = |message| Sink::<Message>::start_send(sink.as_mut(), message).unwrap();
        feed(Message::new("first"));
        feed(Message::new("bad").tag(vec![0; 256]));
        feed(Message::new("last"));
        assert_eq!(sink.flush().await.unwrap_err(), SendError::TagTooLong(256));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Sink::<Message>::poll_close(sink.as_mut(), &mut cx).is_pending(), "they are not settled");
        for _ in 0..2 {
            bob.recv().await.unwrap().ack().unwrap();
        }
        std::future::poll_fn(|cx| Sink::<Message>::poll_close(sink.as_mut(), cx)).await.unwrap();
        assert_eq!(sink.tally().delivered, 2);
    })
    .await;
}

#[tokio::test]
async fn who_may_talk_to_a_node_changes_while_it_runs() {
    let (alice, carol) = pair().await;
    let bob = Node::builder(Allow::only([])).bind("127.0.0.1:0").build().await.unwrap();
    within(async {
        let refused = async |from: &Node| from.peer(bob.peer_addr()).send("x").await.unwrap().await.outcome;
        assert_eq!(refused(&alice).await, Outcome::Refused(Refusal::Policy));
        bob.set_allow(Allow::only([alice.id()]));
        let receipt = alice.peer(bob.peer_addr()).send("now").await.unwrap();
        bob.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        assert_eq!(refused(&carol).await, Outcome::Refused(Refusal::Policy));

        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        bob.set_allow(Allow::ask(move |_, _| count.fetch_add(1, Ordering::Relaxed) == 0));
        let receipt = carol.peer(bob.peer_addr()).send("and me").await.unwrap();
        bob.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    })
    .await;
}

#[tokio::test]
async fn a_yes_of_a_question_ends_with_the_question() {
    let bob = Node::builder(Allow::ask(|_, _| true)).bind("127.0.0.1:0").build().await.unwrap();
    let alice = builder().idle_timeout(Duration::from_millis(50)).build().await.unwrap();
    within(async {
        let to_bob = alice.peer(bob.peer_addr());
        let receipt = to_bob.send("hello").await.unwrap();
        bob.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        bob.set_allow(Allow::only([]));
        // The next opening is refused.
        alice.rebind(([127, 0, 0, 1], 0).into()).await.unwrap();
        while to_bob.stats().is_some_and(|stats| stats.remote.is_some()) {
            tokio::task::yield_now().await;
        }
        let outcome = to_bob.send("again").await.unwrap().await.outcome;
        assert_eq!(outcome, Outcome::Refused(Refusal::Policy));
    })
    .await;
}
