//! Answers: a message is acknowledged and another is sent, both or neither.

use crate::common::{node, pair, within};
use exonet::error::{NotDelivered, SendError};
use exonet::receive::AnswerError;
use exonet::session::SessionSendError;
use exonet::stream::{MAX_STREAM_BODY, StreamSendError};
use exonet::{Confirm, Delivery, Message, Node, Outcome};

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

#[tokio::test]
async fn an_answer_that_is_not_accepted_acknowledges_nothing() {
    within(async {
        let (alice, bob) = pair().await;
        drop(alice.peer(bob.peer_addr()).send("question").await.unwrap());
        let delivery = bob.recv().await.unwrap();
        let id = delivery.id();
        let refused = delivery.answer(Message::new("answer").tag(vec![0; 300])).await.unwrap_err();
        assert_eq!(refused, AnswerError::Send(SendError::TagTooLong(300)));
        let delivery = again(&bob, id).await;
        let elsewhere = delivery.ack_and_send(&alice.peer(bob.peer_addr()), "x").await.unwrap_err();
        assert_eq!(elsewhere, AnswerError::OtherNode);
        assert_eq!(bob.recv().await.unwrap().attempt(), 3);
        assert_eq!(bob.stats().received, 0);
        assert!(alice.try_recv().is_none());
    })
    .await;
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
            let refused = delivery.answer("answer").await.unwrap_err();
            assert_eq!(refused, AnswerError::NotDelivered(NotDelivered));
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
        let refused = sender.ack_and_send(question, long).await.unwrap_err();
        assert!(matches!(refused, AnswerError::Send(StreamSendError::Send(SendError::TooLarge { .. }))));
        let question = receiver.recv().await.unwrap().unwrap();
        drop(sender.ack_and_send(question, "answer").await.unwrap());
        assert_eq!(text(answers.recv().await.unwrap().unwrap()).await, "answer");
        assert_eq!(sent.await.outcome, Outcome::Delivered);
        drop(ask.send("one more").await.unwrap());
        drop(sender.close().await.unwrap());
        let question = receiver.recv().await.unwrap().unwrap();
        let ended = sender.ack_and_send(question, "late").await.unwrap_err();
        assert_eq!(ended, AnswerError::Send(StreamSendError::Ended));
        assert_eq!(text(receiver.recv().await.unwrap().unwrap()).await, "one more");
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
            drop(there.answer(question, answer.clone()).await.unwrap());
            assert!(here.recv().await.unwrap().unwrap().take().unwrap() == answer);
            drop(here.send("question").await.unwrap());
        }
        assert_eq!(asked.await.outcome, Outcome::Delivered);
        let (mut sender, mut receiver) = there.split();
        drop(sender.close().await.unwrap());
        let question = receiver.recv().await.unwrap().unwrap();
        let closed = sender.answer(question, "late").await.unwrap_err();
        assert_eq!(closed, AnswerError::Send(SessionSendError::Closing));
        assert!(receiver.recv().await.unwrap().unwrap().is_redelivered());
    })
    .await;
}
