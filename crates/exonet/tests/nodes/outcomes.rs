//! A node reports the outcomes of all messages that it sends, whichever task holds the receipts.

use std::time::Duration;

use crate::common::{builder, node, pair, within};
use exonet::blocking;
use exonet::send::Fate;
use exonet::{Outcome, PeerAddr};

const LATE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn all_outcomes_are_told_with_their_peer_and_remembered() {
    let (alice, bob) = pair().await;
    let carol = node().await;
    within(async {
        let mut outcomes = alice.outcomes();
        // Names are unique only between two nodes: these two messages may have the same name.
        let (to_bob, to_carol) = (alice.peer(bob.peer_addr()), alice.peer(carol.peer_addr()));
        // An early message has no name until its opening is answered.
        assert!(to_bob.ping(LATE).await.unwrap().is_some());
        drop(to_bob.send("pay 3").await.unwrap());
        let held = bob.recv().await.unwrap();
        let id = held.id();
        assert_eq!(to_bob.status(&id), Some(Fate::InDoubt { late: false }));
        drop(to_carol.send("hello").await.unwrap());
        let hello = carol.recv().await.unwrap();
        let hers = hello.id();
        hello.ack().unwrap();
        let told = outcomes.recv().await.unwrap();
        assert_eq!((told.peer, told.id, told.outcome), (carol.id(), Some(hers), Outcome::Delivered));
        held.reject("no such account");
        let told = outcomes.recv().await.unwrap();
        assert_eq!((told.peer, told.id, told.missed), (bob.id(), Some(id), 0));
        assert_eq!(told.reason.as_deref(), Some("no such account"));
        assert_eq!(to_bob.status(&id), Some(Fate::Ended(told)));
        assert!(to_carol.status(&hers).is_some() && outcomes.try_recv().is_none());
        if id != hers {
            assert_eq!(to_carol.status(&id), None);
        }

        // Outcomes that arrive together are reported one by one.
        let batch = to_bob.send_bodies((0..40).map(|n| n.to_string())).await.unwrap();
        let all = bob.at_most_once();
        let mut seen = Vec::new();
        while seen.len() < 40 {
            seen.extend(all.recv_batch(50).await.unwrap().map(|received| received.id));
        }
        let mut told = Vec::new();
        while told.len() < 40 {
            told.push(outcomes.recv().await.unwrap().id.unwrap());
        }
        seen.sort();
        told.sort();
        assert_eq!(told, seen);
        assert!(seen.iter().all(|id| to_bob.status(id).is_some()));
        assert_eq!(batch.await.delivered, 40);
    })
    .await;
}

#[tokio::test]
async fn what_a_former_life_has_sent_is_told_of_and_so_is_what_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let bob = node().await;
    within(async {
        let alice = builder().state_dir(home.path()).build().await.unwrap();
        let mut outcomes = alice.outcomes();
        let nowhere = std::net::SocketAddr::from((bob.local_addr().ip(), 9));
        drop(alice.peer(PeerAddr::from((bob.id(), nowhere))).send("not yet").await.unwrap());
        alice.close(Duration::ZERO).await;
        let told = outcomes.recv().await.unwrap();
        assert_eq!((told.peer, told.outcome, told.id), (bob.id(), Outcome::Kept, None));
        assert!(outcomes.recv().await.is_err());

        let alice = builder().state_dir(home.path()).build().await.unwrap();
        let to = alice.peer(bob.peer_addr());
        assert!(to.ping(LATE).await.unwrap().is_some());
        bob.recv().await.unwrap().ack().unwrap();
        alice.flush(LATE).await;
        // The receipt is not held, and this receiver starts late: it begins with the remembered outcomes.
        let told = alice.outcomes().recv().await.unwrap();
        assert_eq!((told.peer, told.outcome), (bob.id(), Outcome::Delivered));
        alice.close(LATE).await;
    })
    .await;
}

#[test]
fn a_thread_that_blocks_is_told_too() {
    let node = || blocking::Node::build(builder()).unwrap();
    let (alice, bob) = (node(), node());
    let mut outcomes = alice.outcomes();
    assert_eq!(outcomes.recv_timeout(Duration::from_millis(1)).unwrap(), None);
    drop(alice.peer(bob.get_ref().peer_addr()).send("hello").unwrap());
    bob.recv().unwrap().ack().unwrap();
    assert_eq!(outcomes.recv().unwrap().outcome, Outcome::Delivered);
    alice.close(LATE);
    assert_eq!(outcomes.count(), 0);
}
