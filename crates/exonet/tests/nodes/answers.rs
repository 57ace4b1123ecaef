//! Answers: a message is acknowledged and another is sent, both or neither.

use std::future::ready;
use std::pin::pin;
use std::time::Duration;

use crate::common::{builder, node, pair, within};
use exonet::error::{NotDelivered, SendError};
use exonet::receive::{AnswerError, NotAnswered};
use exonet::session::{SessionMessage, SessionSendError};
use exonet::stream::{MAX_STREAM_BODY, StreamSendError};
use exonet::{Confirm, Delivery, Message, Node, Outcome, PeerAddr};

async fn text(delivery: Delivery) -> String {
    let body = delivery.take().unwrap().body.bytes(1 << 20).await.unwrap();
    String::from_utf8_lossy(&body).into_owned()
}

#[tokio::test]
async fn both_happen() {
    within(async {
        let (alice, bob) = pair().await;
        for round in 1..=50_u64 {
            let question = Message::new("question").confirm(Confirm::Processed);
            let question = alice.peer(bob.peer_addr()).send(question).await.unwrap();
            let answer = bob.recv().await.unwrap().answer(round.to_string()).await.unwrap();
            assert_eq!(text(alice.recv().await.unwrap()).await, round.to_string());
            assert!(matches!(question.await.outcome, Outcome::Processed { status: 0, .. }));
            assert_eq!(answer.await.outcome, Outcome::Delivered);
            assert_eq!((alice.stats().received, bob.stats().received), (round, round));
        }
        assert!(alice.try_recv().is_none() && bob.try_recv().is_none());
    })
    .await;
}

#[tokio::test]
async fn another_peer_gets_the_message() {
    within(async {
        let ((alice, bob), carol) = (pair().await, node().await);
        let sent = alice.peer(bob.peer_addr()).send("on").await.unwrap();
        let next = bob.peer(carol.peer_addr());
        let on = bob.recv().await.unwrap().ack_and_send(&next, "and on").await.unwrap();
        assert_eq!(text(carol.recv().await.unwrap()).await, "and on");
        assert_eq!((sent.await.outcome, on.await.outcome), (Outcome::Delivered, Outcome::Delivered));
        assert!(bob.try_recv().is_none());
    })
    .await;
}

/// The message that is handed out again, which is the one of `id`.
async fn again(bob: &Node, id: exonet::MessageId) -> Delivery {
    let delivery = bob.recv().await.unwrap();
    assert_eq!((delivery.id(), delivery.attempt()), (id, 2));
    delivery
}

/// An answer that no node accepts.
fn refused() -> Message {
    Message::new("answer").tag(vec![0; 300])
}

#[tokio::test]
async fn an_answer_that_is_not_accepted_acknowledges_nothing() {
    within(async {
        let (alice, bob) = pair().await;
        drop(alice.peer(bob.peer_addr()).send("question").await.unwrap());
        let delivery = bob.recv().await.unwrap();
        let id = delivery.id();
        let error = delivery.answer(refused()).await.unwrap_err();
        assert_eq!(error.why, NotAnswered::Send(SendError::TagTooLong(300)));
        drop(error);
        let delivery = again(&bob, id).await;
        let elsewhere = delivery.ack_and_send(&alice.peer(bob.peer_addr()), "x").await.unwrap_err();
        assert_eq!(elsewhere.why, NotAnswered::OtherNode);
        drop(elsewhere);
        assert_eq!(bob.recv().await.unwrap().attempt(), 3);
        assert_eq!(bob.stats().received, 0);
        assert!(alice.try_recv().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_message_that_was_not_answered_is_still_at_the_application() {
    within(async {
        let (alice, bob) = pair().await;
        let to_bob = alice.peer(bob.peer_addr());
        let asked = to_bob.send(Message::new("question").confirm(Confirm::Processed)).await.unwrap();
        let error = bob.recv().await.unwrap().answer(refused()).await.unwrap_err();
        assert!(bob.try_recv().is_none(), "it is handed out while the error has it");
        let error = error.into_delivery().unwrap().ack_and_send(&to_bob, "x").await.unwrap_err();
        assert_eq!((error.delivery().unwrap().attempt(), bob.try_recv().is_none()), (1, true));
        let lost = PeerAddr::new(node().await.id(), ["no-such-host.invalid:1"]).unwrap();
        let delivery = error.into_delivery().unwrap();
        let error = delivery.ack_and_send(&bob.peer(lost), "x").await.unwrap_err();
        assert!(matches!(error.why, NotAnswered::Send(SendError::Lookup { .. })));
        drop(error.into_delivery().unwrap().answer("another").await.unwrap());
        assert_eq!(text(alice.recv().await.unwrap()).await, "another");
        assert_eq!(asked.await.outcome, Outcome::Processed { status: 0 });

        let given_back =
            async |delivery: Delivery| delivery.answer(refused()).await.unwrap_err().into_delivery().unwrap();
        let asked = to_bob.send(Message::new("question").confirm(Confirm::Processed)).await.unwrap();
        given_back(bob.recv().await.unwrap()).await.retry_after(Duration::ZERO);
        let delivery = bob.recv().await.unwrap();
        assert_eq!(delivery.attempt(), 2);
        given_back(delivery).await.ack_with(7).unwrap();
        assert_eq!(asked.await.outcome, Outcome::Processed { status: 7 });
        let asked = to_bob.send("question").await.unwrap();
        given_back(bob.recv().await.unwrap()).await.reject_with(9, "no answer");
        assert!(matches!(asked.await.outcome, Outcome::Rejected { status: 9, .. }));
        assert!(bob.try_recv().is_none() && alice.try_recv().is_none());
    })
    .await;
}

/// A message whose answer fails each time, and is dropped each time, comes as often as any other.
#[tokio::test]
async fn an_error_that_is_dropped_ends_the_attempt() {
    within(async {
        let bob = builder().attempts(core::num::NonZeroU32::new(3).unwrap()).build().await.unwrap();
        let alice = node().await;
        let asked = alice.peer(bob.peer_addr()).send("question").await.unwrap();
        for attempt in 1..=3 {
            let delivery = bob.recv().await.unwrap();
            assert_eq!(delivery.attempt(), attempt);
            drop(delivery.answer(refused()).await);
        }
        assert!(matches!(asked.await.outcome, Outcome::Rejected { .. }));
        assert!(bob.try_recv().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_message_that_is_answered_at_its_last_attempt_is_no_dead_letter() {
    within(async {
        let bob = builder().attempts(core::num::NonZeroU32::new(1).unwrap()).build().await.unwrap();
        let alice = node().await;
        let asked = alice.peer(bob.peer_addr()).send("question").await.unwrap();
        drop(bob.recv().await.unwrap().answer("answer").await.unwrap());
        assert_eq!(asked.await.outcome, Outcome::Delivered);
        assert!(bob.dead_letters().list().unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_node_that_closes_gives_the_message_back_and_one_that_has_stopped_does_not() {
    within(async {
        let (alice, bob) = pair().await;
        let to_bob = alice.peer(bob.peer_addr());
        let (first, second) = (to_bob.send("first").await.unwrap(), to_bob.send("second").await.unwrap());
        let (one, two) = (bob.recv().await.unwrap(), bob.recv().await.unwrap());
        // Alice does not take this one, so that Bob waits for its outcome.
        drop(bob.peer(alice.id()).send("open").await.unwrap());
        let mut closing = pin!(bob.close(Duration::from_secs(50)));
        tokio::select! {
            biased;
            _ = &mut closing => panic!("a message is open"),
            () = ready(()) => {}
        }
        let error = one.answer("answer").await.unwrap_err();
        assert_eq!(error.why, NotAnswered::Send(SendError::Closed));
        error.into_delivery().expect("it can still be acknowledged").ack().unwrap();
        assert_eq!(first.await.outcome, Outcome::Delivered);
        alice.recv().await.unwrap().ack().unwrap();
        closing.await;
        let error = two.answer("answer").await.unwrap_err();
        assert_eq!(error.why, NotAnswered::Send(SendError::Closed));
        assert!(error.delivery().is_none() && error.into_parts().1.is_none());
        drop(second);
    })
    .await;
}

#[tokio::test]
async fn an_answer_takes_the_place_of_a_permit() {
    within(async {
        let small = builder().config(|config| {
            config.limits.queued_messages = 2;
            config.limits.queued_bytes = 100;
        });
        let (alice, bob) = (node().await, small.build().await.unwrap());
        let to_bob = alice.peer(bob.peer_addr());
        let asked = to_bob.send("question").await.unwrap();
        let delivery = bob.recv().await.unwrap();
        let to_alice = bob.peer(alice.id());
        let (first, second) = (to_alice.reserve().await.unwrap(), to_alice.reserve().await.unwrap());
        assert_eq!(to_alice.try_send("x").unwrap_err(), SendError::Full, "both places are reserved");
        drop(first.ack_and_send(delivery, "answer").await.unwrap());
        assert_eq!(asked.await.outcome, Outcome::Delivered);
        assert_eq!(text(alice.recv().await.unwrap()).await, "answer");

        // A permit reserves a place, but no bytes.
        drop(to_bob.send("question").await.unwrap());
        let delivery = bob.recv().await.unwrap();
        drop(to_alice.send(vec![b'x'; 100]).await.unwrap());
        let error = second.ack_and_send(delivery, "answer").await.unwrap_err();
        assert_eq!(error.why, NotAnswered::Send(SendError::Full));
        let delivery = error.into_delivery().unwrap();
        assert_eq!(text(alice.recv().await.unwrap()).await.len(), 100);
        let permit = to_alice.reserve().await.unwrap();
        let other = node().await.peer(alice.peer_addr()).reserve().await.unwrap();
        let error = other.ack_and_send(delivery, "answer").await.unwrap_err();
        assert_eq!(error.why, NotAnswered::OtherNode);
        drop(permit.ack_and_send(error.into_delivery().unwrap(), "answer").await.unwrap());
        assert_eq!(text(alice.recv().await.unwrap()).await, "answer");
        assert!(bob.try_recv().is_none() && alice.try_recv().is_none());
    })
    .await;
}

/// The errors can be passed on like any other.
#[test]
fn an_error_that_has_a_message_is_an_error() {
    const fn is_an_error<T: std::error::Error + Send + Sync + 'static>() {}
    is_an_error::<AnswerError>();
    is_an_error::<AnswerError<StreamSendError>>();
    is_an_error::<AnswerError<SessionSendError, SessionMessage>>();
    is_an_error::<AnswerError<SendError, exonet::blocking::Delivery>>();
}

#[tokio::test]
async fn a_message_that_is_not_delivered_is_not_answered() {
    within(async {
        let (alice, bob) = pair().await;
        let (to_bob, content) = (alice.peer(bob.peer_addr()), crate::common::bytes(300_000));
        let sent = to_bob.send_from(Message::default(), None, &content[..]);
        let answers = async {
            let delivery = bob.recv().await.unwrap();
            // Its body has not been read.
            let error = delivery.answer("answer").await.unwrap_err();
            assert_eq!(error.why, NotAnswered::NotDelivered(NotDelivered));
            assert!(error.into_delivery().is_none(), "its hand-out has ended");
            assert_eq!(bob.stats().sent, 0);
            let mut delivery = bob.recv().await.unwrap();
            assert!(delivery.body_mut().bytes(1 << 20).await.unwrap() == content);
            delivery.answer("answer").await.unwrap().await.outcome
        };
        let (sent, answered, got) =
            tokio::join!(sent, answers, async { text(alice.recv().await.unwrap()).await });
        assert_eq!((sent.unwrap().await.outcome, answered), (Outcome::Delivered, Outcome::Delivered));
        assert_eq!(got, "answer");
    })
    .await;
}

#[tokio::test]
async fn a_message_of_a_stream_is_answered_in_the_stream() {
    within(async {
        let (alice, bob) = pair().await;
        let (mut ask, mut answers) = alice.peer(bob.peer_addr()).stream("s").unwrap().split();
        let sent = ask.send("question").await.unwrap();
        let (mut sender, mut receiver) = bob.accept_stream().await.unwrap().split();
        let question = receiver.recv().await.unwrap().unwrap();
        let long = vec![0; MAX_STREAM_BODY + 1];
        let error = sender.ack_and_send(question, long).await.unwrap_err();
        assert!(matches!(error.why, NotAnswered::Send(StreamSendError::Send(SendError::TooLarge { .. }))));
        drop(error);
        let question = receiver.recv().await.unwrap().unwrap();
        assert_eq!(question.attempt(), 2);
        let error = sender.ack_and_send(question, refused()).await.unwrap_err();
        assert_eq!(error.why, NotAnswered::Send(StreamSendError::Tagged));
        let question = error.into_delivery().unwrap();
        drop(sender.ack_and_send(question, "answer").await.unwrap());
        assert_eq!(text(answers.recv().await.unwrap().unwrap()).await, "answer");
        assert_eq!(sent.await.outcome, Outcome::Delivered);
        drop(ask.send("one more").await.unwrap());
        drop(sender.close().await.unwrap());
        let question = receiver.recv().await.unwrap().unwrap();
        let ended = sender.ack_and_send(question, "late").await.unwrap_err();
        assert_eq!(ended.why, NotAnswered::Send(StreamSendError::Ended));
        assert_eq!(text(ended.into_delivery().unwrap()).await, "one more");
    })
    .await;
}

#[tokio::test]
async fn a_message_of_a_session_is_answered_in_the_session() {
    within(async {
        let (alice, bob) = pair().await;
        let mut here = alice.peer(bob.peer_addr()).session("s").unwrap().open().await.unwrap();
        let asked = here.send("question").await.unwrap();
        let mut there = bob.accept_session().await.unwrap();
        // The second answer goes in parts.
        let long = crate::common::bytes(300_000);
        for answer in [b"short".to_vec(), long] {
            let question = there.recv().await.unwrap().unwrap();
            // The last part of the longer one is what is refused.
            let tagged = Message::new(answer.clone()).tag("t");
            let error = there.answer(question, tagged).await.unwrap_err();
            assert_eq!(error.why, NotAnswered::Send(SessionSendError::Tagged));
            let question = error.into_delivery().unwrap();
            assert_eq!((question.body(), question.attempt()), (&"question".into(), 1));
            drop(there.answer(question, answer.clone()).await.unwrap());
            assert!(here.recv().await.unwrap().unwrap().take().unwrap() == answer);
            drop(here.send("question").await.unwrap());
        }
        assert_eq!(asked.await.outcome, Outcome::Delivered);
        let (mut sender, mut receiver) = there.split();
        drop(sender.close().await.unwrap());
        let question = receiver.recv().await.unwrap().unwrap();
        let closed = sender.answer(question, "late").await.unwrap_err();
        assert_eq!(closed.why, NotAnswered::Send(SessionSendError::Closing));
        drop(closed);
        let question = receiver.recv().await.unwrap().unwrap();
        assert!(question.is_redelivered());
        let closed = sender.answer(question, "late").await.unwrap_err();
        assert_eq!(closed.into_delivery().unwrap().take().unwrap(), "question");
    })
    .await;
}
