//! Nodes whose journal is in SQLite.
#![allow(clippy::unwrap_used, clippy::panic)] // a failure here is the failure of a test

use std::path::Path;
use std::time::Duration;

use exonet::error::BuildError;
use exonet::send::Fate;
use exonet::state::{StateDir, StateError};
use exonet::{Allow, Builder, Durability, Message, Node, Outcome};
use exonet_store::StoreError;
use exonet_store_sqlite::SqliteStore;

const LATE: Duration = Duration::from_secs(10);
const LEVELS: [Durability; 3] =
    [Durability::Process, Durability::Batched(Duration::from_millis(2)), Durability::Sync];

fn stored(state: &Path, durability: Durability) -> Builder {
    let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0");
    builder.state_dir(state).durability(durability).store(SqliteStore)
}

#[tokio::test]
async fn what_a_node_has_not_sent_its_next_life_goes_on_with() {
    for durability in LEVELS {
        let home = tempfile::tempdir().unwrap();
        let (here, there) = (home.path().join("here"), home.path().join("there"));
        let bob = stored(&there, durability).build().await.unwrap();
        let address = bob.peer_addr();
        let id = bob.id();
        assert!(bob.close(LATE).await.is_empty());
        drop(bob);

        let alice = stored(&here, durability).build().await.unwrap();
        let to = alice.peer(address);
        for n in 0..50 {
            drop(to.send(Message::from(format!("message {n}")).early(false)).await.unwrap());
        }
        // The node does not end in order: only the journal has the messages.
        drop((to, alice));
        let alice = until_free(&here, durability).await;
        let recovered = alice.recovered();
        assert_eq!(recovered.len(), 50, "{durability:?}");

        let bob = stored(&there, durability).build().await.unwrap();
        assert_eq!(bob.id(), id);
        drop(alice.peer(bob.peer_addr()).send("the last one").await.unwrap());
        let mut seen = Vec::new();
        for _ in 0..51 {
            let delivery = bob.recv().await.unwrap();
            seen.push(String::from_utf8(delivery.body().as_whole().unwrap().to_vec()).unwrap());
            delivery.ack().unwrap();
        }
        seen.sort();
        let mut wanted: Vec<_> = (0..50).map(|n| format!("message {n}")).collect();
        wanted.push("the last one".to_owned());
        wanted.sort();
        assert_eq!(seen, wanted, "{durability:?}");
        for (_, receipt) in recovered {
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        }
        assert!(alice.close(LATE).await.is_empty());
        assert!(bob.close(LATE).await.is_empty());
    }
}

#[tokio::test]
async fn its_next_lives_know_the_outcomes_that_it_was_told() {
    for durability in LEVELS {
        let home = tempfile::tempdir().unwrap();
        let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let alice = stored(home.path(), durability).build().await.unwrap();
        let receipt = alice.peer(bob.peer_addr()).send("pay 3").await.unwrap();
        bob.recv().await.unwrap().reject_with(7, "no such account");
        let settled = receipt.await;
        let id = settled.id.unwrap();
        // The node does not end in order: only the journal has the outcome.
        drop(alice);
        for _ in 0..2 {
            let alice = until_free(home.path(), durability).await;
            let (_, told) = alice.past_outcomes().await.unwrap().by_id(&id).unwrap();
            assert_eq!((told.outcome, told.reason.as_deref()), (settled.outcome, Some("no such account")));
            assert_eq!(alice.peer(bob.id()).status(&id), Some(Fate::Ended(told)));
            assert!(alice.close(LATE).await.is_empty());
        }
    }
}

/// Starts the next life of the identity when the former one has released the lock.
async fn until_free(state: &Path, durability: Durability) -> Node {
    loop {
        match stored(state, durability).build().await {
            Err(BuildError::State(StateError::Locked { .. })) => tokio::task::yield_now().await,
            built => return built.unwrap(),
        }
    }
}

#[tokio::test]
async fn an_identity_stays_with_the_store_that_has_its_journal() {
    let home = tempfile::tempdir().unwrap();
    let (sqlite, log) = (home.path().join("sqlite"), home.path().join("log"));
    assert!(stored(&sqlite, Durability::Sync).build().await.unwrap().close(LATE).await.is_empty());
    let with_log = |state: &Path| Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(state);
    let other = |error: Option<BuildError>, name: &str| match error {
        Some(BuildError::State(StateError::Journal(StoreError::OtherStore { store, .. }))) => {
            assert_eq!(store, name);
        }
        error => panic!("{error:?}"),
    };
    other(with_log(&sqlite).build().await.err(), "sqlite");
    assert!(with_log(&log).build().await.unwrap().close(LATE).await.is_empty());
    other(stored(&log, Durability::Sync).build().await.err(), "log");
    let outbox = StateDir::open(&sqlite).unwrap().outbox();
    assert!(matches!(outbox, Err(StateError::Journal(StoreError::OtherStore { .. }))), "{outbox:?}");
}
