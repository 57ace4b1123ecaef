//! A peer, as a node holds it.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a failure here is the failure of a test

mod common;

use std::time::Duration;

use common::{cautious, nobody, node, pair, within};
use exonet::Outcome;
use exonet::error::SendError;

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
