//! The receiving application's verdicts on messages, through real sockets.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use crate::common::{builder, pair, within};
use exonet::{Allow, Confirm, Message, MessageId, Node, Outcome};

const LATE: Duration = Duration::from_secs(30);

#[allow(clippy::unwrap_used)] // a helper of tests
async fn stored(home: &Path, attempts: Option<u32>) -> Node {
    let mut builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home);
    if let Some(most) = attempts.and_then(NonZeroU32::new) {
        builder = builder.attempts(most);
    }
    builder.build().await.unwrap()
}

fn confirmed(text: &'static str) -> Message {
    Message::new(text).confirm(Confirm::Processed)
}

#[tokio::test]
async fn a_sender_that_asks_is_told_that_its_message_was_processed() {
    let (alice, bob) = pair().await;
    within(async {
        let to = alice.peer(bob.peer_addr());
        for (status, expected) in [(0, 0), (7, 7)] {
            let receipt = to.send(confirmed("order")).await.unwrap();
            bob.recv().await.unwrap().ack_with(status).unwrap();
            assert_eq!(receipt.await.outcome, Outcome::Processed { status: expected });
        }
        let receipt = to.send(confirmed("order")).await.unwrap();
        bob.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Processed { status: 0 });
    })
    .await;
}

#[tokio::test]
async fn what_was_taken_at_most_once_does_not_count_as_processed() {
    let (alice, bob) = pair().await;
    within(async {
        let to = alice.peer(bob.peer_addr());
        let receipt = to.send(confirmed("order")).await.unwrap();
        bob.at_most_once().recv().await.unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);

        let routed = bob.receiver(exonet::receive::Filter::any().tag("a")).at_most_once();
        let receipt = to.send(confirmed("order").tag("a")).await.unwrap();
        routed.recv().await.unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    })
    .await;
}

#[tokio::test]
async fn what_is_rejected_is_a_dead_letter_of_the_identity() {
    let home = tempfile::tempdir().unwrap();
    let bob = stored(home.path(), None).await;
    let alice = builder().build().await.unwrap();
    let id: MessageId = within(async {
        let mut receipt = alice.peer(bob.peer_addr()).send(Message::new("pay").tag("order")).await.unwrap();
        bob.recv().await.unwrap().reject_with(4, "no such account");
        let settled = receipt.outcome().await;
        assert_eq!(settled.outcome, Outcome::Rejected { status: 4, attempts: 1 });
        assert_eq!(receipt.reason().as_deref(), Some("no such account"));
        assert_eq!(bob.dead_letters().list().unwrap().len(), 1, "it is kept before its sender is told");
        bob.close(LATE).await;
        settled.id.unwrap()
    })
    .await;
    let bob = stored(home.path(), None).await;
    let letter = bob.dead_letters().take(&id).unwrap().unwrap();
    assert_eq!((letter.from, &letter.tag[..], letter.status), (alice.id(), &b"order"[..], 4));
    assert_eq!((letter.body.as_deref(), letter.len), (Some(&b"pay"[..]), Some(3)));
    assert_eq!(bob.dead_letters().list().unwrap(), []);
}

#[tokio::test]
async fn a_message_that_is_never_acknowledged_is_rejected_after_its_attempts_and_others_go_on() {
    let home = tempfile::tempdir().unwrap();
    let bob = stored(home.path(), Some(3)).await;
    let alice = builder().build().await.unwrap();
    within(async {
        let to = alice.peer(bob.peer_addr());
        let poison = to.send("poison").await.unwrap();
        let good = to.send("good").await.unwrap();
        let mut attempts = Vec::new();
        loop {
            let delivery = bob.recv().await.unwrap();
            if delivery.body().as_whole().unwrap() == "good" {
                assert!(!delivery.is_redelivered());
                delivery.ack().unwrap();
                break;
            }
            attempts.push(delivery.attempt());
        }
        assert_eq!(attempts, [1, 2, 3]);
        assert_eq!(poison.await.outcome, Outcome::Rejected { status: 0, attempts: 3 });
        assert_eq!(good.await.outcome, Outcome::Delivered);
        assert_eq!(bob.dead_letters().list().unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_message_that_is_put_off_comes_again() {
    let (alice, bob) = pair().await;
    within(async {
        let to = alice.peer(bob.peer_addr());
        let later = to.send("later").await.unwrap();
        bob.recv().await.unwrap().retry_after(Duration::from_millis(50));
        let soon = to.send("soon").await.unwrap();
        let delivery = bob.recv().await.unwrap();
        assert_eq!(delivery.body().as_whole().unwrap(), "soon");
        delivery.ack().unwrap();
        let delivery = bob.recv().await.unwrap();
        assert_eq!((delivery.body().as_whole().unwrap().as_ref(), delivery.attempt()), (&b"later"[..], 2));
        delivery.ack().unwrap();
        assert_eq!((later.await.outcome, soon.await.outcome), (Outcome::Delivered, Outcome::Delivered));
    })
    .await;
}

#[tokio::test]
async fn a_letter_that_cannot_be_written_is_repeated_and_its_message_is_not_handed_out() {
    let home = tempfile::tempdir().unwrap();
    let bob = stored(home.path(), None).await;
    let folder = home.path().join("dead");
    std::fs::write(&folder, "a file where the folder should be").unwrap();
    let alice = builder().build().await.unwrap();
    within(async {
        let to = alice.peer(bob.peer_addr());
        let receipt = to.send("order").await.unwrap();
        bob.recv().await.unwrap().reject("no");
        let second = to.send("another").await.unwrap();
        let delivery = bob.recv().await.unwrap();
        assert_eq!((delivery.body().as_whole().unwrap().as_ref(), delivery.attempt()), (&b"another"[..], 1));
        delivery.reject("no");
        let last = to.send("last").await.unwrap();
        let delivery = bob.recv().await.unwrap();
        assert_eq!(delivery.body().as_whole().unwrap(), "last");
        delivery.ack().unwrap();
        assert_eq!(last.await.outcome, Outcome::Delivered);
        std::fs::remove_file(&folder).unwrap();
        for receipt in [receipt, second] {
            assert_eq!(receipt.await.outcome, Outcome::Rejected { status: 0, attempts: 1 });
        }
        assert_eq!(letter_count(&bob), 2);
    })
    .await;
}

#[tokio::test]
async fn a_node_that_is_closed_has_told_what_it_rejected() {
    let home = tempfile::tempdir().unwrap();
    let bob = stored(home.path(), None).await;
    let alice = builder().build().await.unwrap();
    within(async {
        let receipt = alice.peer(bob.peer_addr()).send("pay").await.unwrap();
        bob.recv().await.unwrap().reject("no");
        bob.close(LATE).await;
        assert_eq!(receipt.await.outcome, Outcome::Rejected { status: 0, attempts: 1 });
    })
    .await;
}

#[tokio::test]
async fn a_dead_letter_has_the_body_if_it_is_still_here_or_says_why_not() {
    use exonet::dead::NotKept;
    let (alice, bob) = pair().await;
    within(async {
        let to = alice.peer(bob.peer_addr());
        let letter = || {
            let dead = bob.dead_letters();
            let id = dead.list().unwrap().remove(0).id;
            dead.take(&id).unwrap().unwrap()
        };
        // A small message, read before it is rejected.
        drop(to.send("pay 3").await.unwrap());
        let mut small = bob.recv().await.unwrap();
        assert_eq!(small.body_mut().bytes(9).await.unwrap(), "pay 3");
        small.reject("no");
        assert_eq!((letter().body.as_deref(), letter_count(&bob)), (Some(&b"pay 3"[..]), 0));
        // A large message, read in part.
        let large = crate::common::bytes(3 << 20);
        let receipt = to.send(large.clone()).await.unwrap();
        let mut read = bob.recv().await.unwrap();
        assert!(read.body().is_stream() && read.body_mut().chunk().await.unwrap().is_some());
        read.reject("no");
        let kept = letter();
        assert_eq!((kept.body, kept.not_kept, kept.len), (None, Some(NotKept::Read), Some(3 << 20)));
        assert!(matches!(receipt.await.outcome, Outcome::Rejected { .. }));
        // A message whose sender has not written the end.
        let (receipt, mut writer) = to.send_stream("", None).await.unwrap();
        writer.write_chunk(crate::common::bytes(100_000).into()).await.unwrap();
        bob.recv().await.unwrap().reject("no");
        let kept = letter();
        assert_eq!((kept.body, kept.not_kept), (None, Some(NotKept::Incomplete)));
        drop((writer, receipt));
        // A message that has arrived completely, and was not read.
        let body = crate::common::bytes(100_000);
        loop {
            let (receipt, mut writer) = to.send_stream("", None).await.unwrap();
            writer.write_chunk(body.clone().into()).await.unwrap();
            let unread = bob.recv().await.unwrap();
            assert!(unread.body().is_stream());
            writer.finish().unwrap();
            assert!(to.ping(LATE).await.unwrap().is_some());
            unread.reject("no");
            let kept = letter();
            drop(receipt);
            if kept.not_kept.is_none() {
                assert_eq!(kept.body.as_deref(), Some(&body[..]));
                break;
            }
        }
    })
    .await;
}

#[allow(clippy::unwrap_used)] // a helper of tests
fn letter_count(node: &Node) -> usize {
    node.dead_letters().list().unwrap().len()
}
