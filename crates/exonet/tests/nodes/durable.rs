//! The guarantees of nodes with a journal, at each durability.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use crate::common::{builder, node, within};
use exonet::call::{Failure, Request};
use exonet::error::BuildError;
use exonet::receive::Filter;
use exonet::{Durability, DurabilityLevel, Message, Node, Outcome, PeerAddr};

const LATE: Duration = Duration::from_secs(5);
const LATE_ENOUGH: Duration = Duration::from_millis(50);

const ALL: [Durability; 4] = [
    Durability::Memory,
    Durability::Process,
    Durability::Batched(Duration::from_millis(2)),
    Durability::Sync,
];

async fn stored(state: &Path, durability: Durability) -> Node {
    builder().state_dir(state).durability(durability).build().await.unwrap()
}

/// Runs a test for a pair of nodes at each durability.
async fn each<F: Future<Output = ()>>(test: impl Fn(Node, Node) -> F) {
    for durability in ALL {
        let home = tempfile::tempdir().unwrap();
        let (here, there) = (home.path().join("here"), home.path().join("there"));
        let nodes = (stored(&here, durability).await, stored(&there, durability).await);
        within(test(nodes.0.clone(), nodes.1.clone())).await;
        assert!(nodes.0.close(LATE).await.is_empty(), "{durability:?}");
        assert!(nodes.1.close(LATE).await.is_empty(), "{durability:?}");
    }
}

#[tokio::test]
async fn messages_are_sent_and_received_in_every_way() {
    each(|alice, bob| async move {
        let to = alice.peer(bob.peer_addr());
        let text = |n: usize| format!("message {n}");
        let receipts = [to.send(text(0)).await.unwrap(), to.send(text(1)).await.unwrap()];
        let batch = to.send_bodies((2..300).map(text)).await.unwrap();
        let tagged = to.send(Message::from(text(300)).tag("special")).await.unwrap();

        let special = bob.receiver(Filter::any().tag("special")).at_most_once();
        let mut seen = vec![special.recv().await.unwrap().body.as_whole().unwrap().clone()];
        let delivery = bob.recv().await.unwrap();
        seen.push(delivery.body().as_whole().unwrap().clone());
        delivery.ack().unwrap();
        let all = bob.at_most_once();
        seen.push(all.recv().await.unwrap().body.as_whole().unwrap().clone());
        while seen.len() < 301 {
            let taken = all.recv_batch(50).await.unwrap();
            seen.extend(taken.map(|received| received.body.as_whole().unwrap().clone()));
        }
        let mut wanted: Vec<_> = (0..301).map(text).collect();
        wanted.sort();
        seen.sort();
        assert_eq!(seen, wanted);
        for receipt in receipts.into_iter().chain([tagged]) {
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        }
        assert_eq!(batch.await.delivered, 298);
    })
    .await;
}

#[tokio::test]
async fn an_outcome_says_how_durable_the_receiver_is() {
    const LEVELS: [DurabilityLevel; 4] =
        [DurabilityLevel::Memory, DurabilityLevel::Process, DurabilityLevel::Batched, DurabilityLevel::Sync];
    let home = tempfile::tempdir().unwrap();
    let alice = node().await;
    for (durability, level) in ALL.into_iter().zip(LEVELS) {
        let bob = stored(&home.path().join(level.name()), durability).await;
        let to = alice.peer(bob.peer_addr());
        let mut outcomes = alice.outcomes();
        let receipt = to.send("kept").await.unwrap();
        bob.recv().await.unwrap().ack().unwrap();
        let settled = within(receipt).await;
        assert_eq!((settled.outcome, settled.receiver_durability), (Outcome::Delivered, Some(level)));
        // The outcomes of messages to the other receivers come first.
        let ended = loop {
            let ended = within(outcomes.recv()).await.unwrap();
            if ended.peer == bob.id() {
                break ended;
            }
        };
        assert_eq!((ended.outcome, ended.receiver_durability), (Outcome::Delivered, Some(level)));
        assert!(bob.close(LATE).await.is_empty());
        let lost = to.send(Message::from("lost").early(false)).await.unwrap();
        lost.abandon();
        assert_eq!(within(lost).await.receiver_durability, None, "{level}: the receiver has said nothing");
    }
}

#[tokio::test]
async fn calls_are_served() {
    each(|alice, bob| async move {
        let serving = bob
            .serve("echo", |mut request: Request| async move {
                request.body.bytes(100).await.map_err(Failure::error)
            })
            .start()
            .unwrap();
        let to = alice.peer(bob.peer_addr());
        let calls: Vec<_> = (0..40).map(|n| to.call("echo", format!("{n}"))).collect();
        for (n, call) in calls.into_iter().enumerate() {
            let mut reply = call.await.unwrap();
            assert_eq!(reply.body.bytes(100).await.unwrap(), n.to_string());
        }
        assert_eq!(serving.stop(LATE).await, 0);
    })
    .await;
}

/// A number is the same in every life, and messages can be looked at without their receipts.
#[tokio::test]
async fn what_a_node_has_not_sent_is_seen_from_outside_and_given_up() {
    for durability in ALL {
        let home = tempfile::tempdir().unwrap();
        let bob = node().await;
        let away = PeerAddr::from((bob.id(), std::net::SocketAddr::from((bob.local_addr().ip(), 9))));
        within(async {
            let alice = stored(home.path(), durability).await;
            let to = alice.peer(&away);
            for n in 0..300 {
                drop(to.try_send(Message::from(format!("message {n}")).tag("t")).unwrap());
            }
            let batch = to.send_bodies((300..400).map(|n| format!("message {n}"))).await.unwrap();
            alice.journaled().await.unwrap();
            let mut outbox = alice.outbox(9);
            assert_eq!(outbox.len(), 400);
            let kept = durability != Durability::Memory;
            assert!(outbox.iter().all(|waiting| waiting.number.is_some() == kept));
            outbox.sort_by_key(|waiting| (waiting.number, waiting.tag.is_empty()));
            for (n, waiting) in outbox.iter().enumerate() {
                assert_eq!(&waiting.body[..], &format!("message {n}").as_bytes()[..9]);
                assert_eq!((waiting.message.peer, waiting.tag.is_empty()), (away.id, n >= 300));
                assert!(waiting.addresses.contains(&std::net::SocketAddr::from((bob.local_addr().ip(), 9))));
            }
            let whole = alice.waiting(&outbox[399].message, usize::MAX).unwrap();
            assert_eq!(whole.body, "message 399");
            for waiting in &outbox[1..] {
                assert!(matches!(
                    alice.give_up(&waiting.message),
                    Some(Outcome::Cancelled | Outcome::Unknown)
                ));
                assert_eq!(alice.give_up(&waiting.message), None);
                assert_eq!(alice.waiting(&waiting.message, 0), None);
            }
            let settled = batch.await;
            assert_eq!(settled.cancelled + settled.unknown, 100);
            let first = outbox[0].number;
            assert_eq!(alice.outbox(0).iter().map(|waiting| waiting.number).collect::<Vec<_>>(), [first]);
            alice.journaled().await.unwrap();
            alice.close(Duration::ZERO).await;
            assert!(alice.outbox(0).is_empty() && alice.give_up(&outbox[0].message).is_none());
            drop((alice, to));
            let alice = stored(home.path(), durability).await;
            let next: Vec<_> = alice.outbox(0).iter().map(|waiting| waiting.number).collect();
            assert_eq!(next, if kept { vec![first] } else { Vec::new() });
        })
        .await;
    }
}

#[tokio::test]
async fn what_a_node_has_not_sent_its_next_life_goes_on_with() {
    for durability in ALL.into_iter().skip(1) {
        let home = tempfile::tempdir().unwrap();
        let bob = node().await;
        let (to, at) = (bob.peer_addr(), bob.local_addr());
        within(async {
            let alice = stored(home.path(), durability).await;
            // Bob receives nothing while there is no socket at his address.
            let away = PeerAddr::from((to.id, std::net::SocketAddr::from((at.ip(), 9))));
            let receipt = alice.peer(away).send("not yet").await.unwrap();
            assert_eq!(alice.close(Duration::ZERO).await.len(), 1);
            assert_eq!(receipt.await.outcome, Outcome::Kept);

            let alice = stored(home.path(), durability).await;
            let mut left = alice.recovered();
            assert_eq!(left.len(), 1);
            assert!(alice.recovered().is_empty());
            let (open, receipt) = left.remove(0);
            assert_eq!((open.peer, open.size), (to.id, 7));
            // A new hint leads to Bob.
            let hello = alice.peer(&to).send("hello").await.unwrap();
            let mut texts = Vec::new();
            for _ in 0..2 {
                let delivery = bob.recv().await.unwrap();
                texts.push(delivery.body().as_whole().unwrap().clone());
                delivery.ack().unwrap();
            }
            texts.sort();
            assert_eq!(texts, ["hello", "not yet"]);
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
            assert_eq!(hello.await.outcome, Outcome::Delivered);
            alice.close(LATE).await;
        })
        .await;
    }
}

/// More messages wait than memory may hold: on the disk, and in batches that were sent together.
#[tokio::test]
async fn what_waits_on_the_disk_arrives_once_after_a_restart() {
    let (home, bob) = (tempfile::tempdir().unwrap(), node().await);
    let (to, at) = (bob.peer_addr(), bob.local_addr());
    let small = || (0..2_000_u32).map(|n| [n.to_be_bytes(); 8].concat());
    let large = |n: u32| n.to_be_bytes().repeat(300);
    let open = async || {
        let builder = builder().state_dir(home.path()).limits(|limits| limits.queued_in_memory = 10_000);
        builder.build().await.unwrap()
    };
    within(async {
        let alice = open().await;
        let away = alice.peer(PeerAddr::from((to.id, std::net::SocketAddr::from((at.ip(), 9)))));
        drop(away.send_bodies(small()).await.unwrap());
        for n in 2_000..2_100 {
            drop(away.send(large(n)).await.unwrap());
        }
        assert_eq!(alice.close(Duration::ZERO).await.len(), 2_100);
        drop((alice, away));

        let alice = open().await;
        let recovered = alice.recovered();
        assert_eq!(recovered.len(), 2_100);
        drop(alice.peer(&to).send("").await.unwrap());
        let (all, mut seen) = (bob.at_most_once(), Vec::new());
        while seen.len() < 2_101 {
            let taken = all.recv_batch(256).await.unwrap();
            seen.extend(taken.map(|received| received.body.as_whole().unwrap().to_vec()));
        }
        for (_, receipt) in recovered {
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        }
        seen.sort();
        let mut expected: Vec<_> = small().chain((2_000..2_100).map(large)).chain([Vec::new()]).collect();
        expected.sort();
        assert!(seen == expected, "each once, with its own body");
        alice.close(LATE).await;
    })
    .await;
}

#[tokio::test]
async fn a_life_without_a_journal_ends_what_the_journal_knows() {
    let home = tempfile::tempdir().unwrap();
    let nobody = crate::common::nobody().await;
    within(async {
        let alice = stored(home.path(), Durability::Process).await;
        let receipt = alice.peer(&nobody).send("never").await.unwrap();
        alice.close(Duration::ZERO).await;
        assert_eq!(receipt.await.outcome, Outcome::Kept);
        let alice = stored(home.path(), Durability::Memory).await;
        assert!(alice.recovered().is_empty());
        alice.close(Duration::ZERO).await;
        // It used numbers that the journal does not know.
        let alice = stored(home.path(), Durability::Process).await;
        assert!(alice.recovered().is_empty());
        alice.close(Duration::ZERO).await;
    })
    .await;
}

#[tokio::test]
async fn an_identity_that_dies_with_its_node_keeps_no_journal() {
    let error = builder().durability(Durability::Process).build().await.unwrap_err();
    assert!(matches!(error, BuildError::NotStored), "{error}");
    builder().durability(Durability::Memory).build().await.unwrap();
}

#[tokio::test]
async fn a_journal_that_is_put_back_from_a_copy_is_not_believed() {
    let home = tempfile::tempdir().unwrap();
    let (journal, copy) = (home.path().join("journal"), home.path().join("copy"));
    let nobody = crate::common::nobody().await;
    within(async {
        let alice = stored(home.path(), Durability::Sync).await;
        let receipt = alice.peer(&nobody).send("old").await.unwrap();
        alice.close(LATE_ENOUGH).await;
        assert_eq!(receipt.await.outcome, Outcome::Kept);
        std::fs::create_dir(&copy).unwrap();
        for file in std::fs::read_dir(&journal).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
        // A life without the journal, like one of an older version, which has no journal.
        std::fs::remove_dir_all(&journal).unwrap();
        let alice = stored(home.path(), Durability::Sync).await;
        assert!(alice.recovered().is_empty());
        drop(alice.peer(&nobody).send("new").await.unwrap());
        alice.close(LATE_ENOUGH).await;
        std::fs::remove_dir_all(&journal).unwrap();
        std::fs::rename(&copy, &journal).unwrap();
        let alice = stored(home.path(), Durability::Sync).await;
        assert!(alice.recovered().is_empty(), "what it says is out of date");
        alice.close(Duration::ZERO).await;
    })
    .await;
}

/// The system goes on to write to files that were removed. Without a look at their names, the node would promise what
/// nobody finds.
#[cfg(unix)]
#[tokio::test]
async fn a_node_stops_when_its_journal_is_removed() {
    let nobody = crate::common::nobody().await;
    for durability in [Durability::Process, Durability::Batched(Duration::from_millis(2)), Durability::Sync] {
        let home = tempfile::tempdir().unwrap();
        within(async {
            let alice = stored(home.path(), durability).await;
            let open = alice.peer(&nobody).send("open").await.unwrap();
            std::fs::remove_dir_all(home.path().join("journal")).unwrap();
            while let Ok(receipt) = alice.peer(&nobody).send("more").await {
                receipt.abandon();
                tokio::task::yield_now().await;
            }
            assert_eq!(open.await.outcome, Outcome::Unknown, "{durability:?}");
            drop(alice);
        })
        .await;
    }
}

#[tokio::test]
async fn every_receipt_is_told_though_outcomes_wait_for_the_disk() {
    each(|alice, bob| async move {
        // While the outcomes of some wait for the disk, others are sent in their places.
        let to = alice.peer(bob.peer_addr());
        let sends = tokio::spawn(async move {
            let mut receipts = Vec::new();
            for n in 0..1_500 {
                let permit = to.reserve().await.unwrap();
                receipts.push(permit.send(format!("{n}")).unwrap());
                if n % 20 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            for receipt in receipts {
                assert_eq!(receipt.await.outcome, Outcome::Delivered);
            }
        });
        let messages = bob.at_most_once();
        let mut taken = 0;
        while taken < 1_500 {
            taken += messages.recv_batch(100).await.unwrap().len();
        }
        sends.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn messages_that_wait_outlive_many_snapshots() {
    for durability in [Durability::Process, Durability::Sync] {
        let home = tempfile::tempdir().unwrap();
        let away = PeerAddr::from((exonet::NodeId([9; 32]), "127.0.0.1:9".parse().unwrap()));
        let body = |n: usize| vec![u8::try_from(n % 251).unwrap(); 100_000 + n];
        let mut sent = Vec::new();
        for life in 0..3 {
            let node = stored(home.path(), durability).await;
            // Enough to cause snapshots, in each life.
            for n in (life * 100..).take(100) {
                drop(node.peer(away.clone()).send(body(n)).await.unwrap());
                sent.push(n);
            }
            for n in 0..150 {
                let receipt = node.peer(away.clone()).send(vec![7; 100_000 + n]).await.unwrap();
                receipt.cancel().unwrap();
            }
            node.close(Duration::ZERO).await;
            let outbox = exonet::state::StateDir::open(home.path()).unwrap().outbox().unwrap();
            let found: Vec<_> = outbox.messages.iter().map(|kept| &kept.body[..]).collect();
            assert!(found.iter().copied().eq(sent.iter().map(|n| body(*n))), "{} found", found.len());
        }
    }
}
