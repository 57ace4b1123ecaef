//! Receivers of some peers or tags, and the fate of their messages.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use crate::common::{node, pair, within};
use exonet::receive::{Filter, Received, Receiver, Standing};
use exonet::{Delivery, Message, Node, Outcome};
use futures_core::Stream;

fn text(delivery: &Delivery) -> String {
    String::from_utf8_lossy(delivery.body().as_whole().unwrap()).into_owned()
}

fn said(received: Received) -> String {
    String::from_utf8_lossy(received.body.as_whole().unwrap()).into_owned()
}

async fn next<S: Stream>(mut stream: Pin<&mut S>) -> Option<S::Item> {
    std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}

/// Sends each of `messages`, a tag and a body, and waits until the last has arrived at `bob`.
async fn send(from: &Node, to: &Node, messages: &[(&'static str, &'static str)]) {
    let to = from.peer(to.peer_addr());
    for (tag, body) in messages {
        drop(to.send(Message::new(*body).tag(*tag)).await.unwrap());
    }
}

#[tokio::test]
async fn a_tag_has_a_queue_of_its_own() {
    let (alice, bob) = pair().await;
    within(async {
        let orders = bob.receiver(Filter::any().tag("order"));
        send(&alice, &bob, &[("", "a letter"), ("order", "tea"), ("orders", "another tag")]).await;
        let order = orders.recv().await.unwrap();
        assert_eq!(text(&order), "tea");
        order.ack().unwrap();
        assert!(orders.try_recv().is_none());
        let others = bob.at_most_once();
        let mut rest = [said(others.recv().await.unwrap()), said(others.recv().await.unwrap())];
        rest.sort();
        assert_eq!(rest, ["a letter", "another tag"]);
    })
    .await;
}

#[tokio::test]
async fn a_peer_has_a_queue_of_its_own_and_the_first_receiver_wins() {
    let (alice, bob, carol) = (node().await, node().await, node().await);
    within(async {
        let of_alice = bob.peer(alice.id()).receiver();
        let orders = bob.receiver(Filter::any().tag("order"));
        send(&carol, &bob, &[("order", "of carol"), ("", "carol's letter")]).await;
        send(&alice, &bob, &[("order", "of alice")]).await;
        assert_eq!(text(&of_alice.recv().await.unwrap()), "of alice");
        assert_eq!(text(&orders.recv().await.unwrap()), "of carol");
        assert_eq!(text(&bob.recv().await.unwrap()), "carol's letter");
    })
    .await;
}

#[tokio::test]
async fn what_waits_already_goes_to_a_new_receiver_and_from_one_that_ends_to_the_others() {
    let (alice, bob) = pair().await;
    within(async {
        send(&alice, &bob, &[("order", "tea"), ("", "last")]).await;
        let all = bob.receiver(Filter::any().peer(alice.id()));
        let first = all.recv().await.unwrap();
        assert_eq!(text(&first), "tea");
        // Both messages wait again, for the receiver that gets everything.
        drop(first);
        drop(all);
        let mut rest = [said(bob.at_most_once().recv().await.unwrap()), {
            let last = bob.recv().await.unwrap();
            let last = last.take().unwrap();
            said(last)
        }];
        rest.sort();
        assert_eq!(rest, ["last", "tea"]);
    })
    .await;
}

#[tokio::test]
async fn a_dropped_delivery_comes_back_to_the_same_receiver() {
    let (alice, bob) = pair().await;
    within(async {
        let orders = bob.receiver(Filter::any().tag("order"));
        let receipt = alice.peer(bob.peer_addr()).send(Message::new("tea").tag("order")).await.unwrap();
        drop(orders.recv().await.unwrap());
        assert!(bob.try_recv().is_none());
        orders.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        assert!(orders.try_recv().is_none());
    })
    .await;
}

#[tokio::test]
async fn without_a_guard_a_message_of_a_tag_is_delivered_as_it_is_returned() {
    let (alice, bob) = pair().await;
    within(async {
        let orders = bob.receiver(Filter::any().tag("order")).at_most_once();
        let to_bob = alice.peer(bob.peer_addr());
        let receipt = to_bob.send(Message::new("tea").tag("order")).await.unwrap();
        assert_eq!(said(orders.recv().await.unwrap()), "tea");
        assert_eq!(receipt.await.outcome, Outcome::Delivered);

        let batch = to_bob.send_batch((0..100).map(|_| Message::new("tea").tag("order"))).await.unwrap();
        let mut got = 0;
        while got < 100 {
            let some = orders.recv_batch(60).await.unwrap();
            assert!(some.len() <= 60 && some.views().all(|view| view.body == Some(b"tea")));
            got += some.count();
        }
        assert_eq!(batch.await.delivered, 100);
    })
    .await;
}

#[tokio::test]
async fn a_body_that_is_still_coming_goes_to_its_receiver() {
    let (alice, bob) = pair().await;
    within(async {
        const LEN: u64 = 3 << 20;
        let files = bob.receiver(Filter::any().tag("file")).at_most_once();
        let sent = alice.peer(bob.peer_addr());
        let send = sent.send_from(Message::default().tag("file"), LEN, tokio::io::repeat(7));
        let read = async {
            let mut file = files.recv().await.unwrap();
            assert!(file.body.is_stream());
            file.body.bytes(LEN).await.unwrap().len()
        };
        let (receipt, len) = tokio::join!(send, read);
        assert_eq!(len as u64, LEN);
        assert_eq!(receipt.unwrap().await.outcome, Outcome::Delivered);
    })
    .await;
}

#[tokio::test]
async fn receivers_are_streams_that_end_with_the_node() {
    let (alice, bob) = pair().await;
    within(async {
        let mut orders = pin!(bob.receiver(Filter::any().tag("order")));
        let mut letters = pin!(bob.at_most_once());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(orders.as_mut().poll_next(&mut cx), Poll::Pending));
        send(&alice, &bob, &[("order", "tea"), ("", "a letter")]).await;
        let order = next(orders.as_mut()).await.unwrap();
        assert_eq!(text(&order), "tea");
        order.ack().unwrap();
        assert_eq!(said(next(letters.as_mut()).await.unwrap()), "a letter");
        let waits = async { tokio::join!(next(orders.as_mut()), next(letters.as_mut())) };
        let ((order, letter), _) = tokio::join!(waits, bob.close(std::time::Duration::from_secs(9)));
        assert!(order.is_none() && letter.is_none());
    })
    .await;
}

#[tokio::test]
async fn clones_of_a_receiver_share_its_queue_and_one_that_gives_up_passes_its_turn_on() {
    let (alice, bob) = pair().await;
    within(async {
        let orders: Receiver = bob.receiver(Filter::any().tag("order"));
        let other = orders.clone();
        let mut quitter = Box::pin(orders.recv());
        assert!(quitter.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let waits = tokio::spawn(async move { text(&other.recv().await.unwrap()) });
        send(&alice, &bob, &[("order", "tea")]).await;
        drop(quitter);
        assert_eq!(waits.await.unwrap(), "tea");
    })
    .await;
}

#[tokio::test]
async fn many_messages_wait_for_a_receiver_that_is_not_asked_and_none_is_lost() {
    let (alice, bob) = pair().await;
    within(async {
        const MANY: u32 = 5_000;
        let orders = bob.receiver(Filter::any().tag("order")).at_most_once();
        let messages = (0..MANY).map(|n| Message::new(format!("{n:100}")).tag("order"));
        let sent = alice.peer(bob.peer_addr()).send_batch(messages).await.unwrap();
        // The messages that have arrived by now wait in the queue of the receiver, which is swept meanwhile.
        while bob.stats().received_bytes < 300_000 {
            tokio::task::yield_now().await;
        }
        let mut got = Vec::new();
        while got.len() < MANY as usize {
            got.push(said(orders.recv().await.unwrap()).trim().parse::<u32>().unwrap());
        }
        got.sort_unstable();
        assert!(got.into_iter().eq(0..MANY));
        assert_eq!(sent.await.delivered, u64::from(MANY));
    })
    .await;
}

#[tokio::test]
async fn the_inbox_tells_what_waits_from_what_is_handed_out_and_put_off() {
    let (alice, bob) = pair().await;
    within(async {
        let seen = || {
            let inbox = bob.inbox(3);
            inbox.into_iter().map(|one| (one.body.unwrap(), one.attempts, one.stand)).collect::<Vec<_>>()
        };
        send(&alice, &bob, &[("", "letter")]).await;
        bob.recv().await.unwrap().retry_after(std::time::Duration::from_secs(1_000));
        let put_off = &seen()[0];
        assert_eq!((&put_off.0[..], put_off.1), (&b"let"[..], 1));
        assert!(matches!(put_off.2, Standing::PutOff { again } if !again.is_zero()));
        // A receiver for the tag has the orders in its queue until it is asked for them.
        let orders = bob.receiver(Filter::any().tag("order"));
        send(&alice, &bob, &[("order", "tea"), ("order", "pie")]).await;
        let tea = orders.recv().await.unwrap();
        while seen().len() < 3 {
            tokio::task::yield_now().await;
        }
        let all = seen();
        assert!(matches!(all[1], (_, 1, Standing::HandedOut { .. })), "{all:?}");
        assert_eq!((&all[2].0[..], all[2].1, all[2].2), (&b"pie"[..], 0, Standing::Waiting));
        assert_eq!(bob.inbox_body(&tea.id()).unwrap(), "tea");
        let id = tea.id();
        tea.ack().unwrap();
        assert!(bob.inbox_body(&id).is_none() && seen().len() == 2);
        drop(orders);
        // Without receivers the core holds it in a run.
        while bob.inbox(0).iter().filter(|one| one.stand == Standing::Waiting).count() != 1 {
            tokio::task::yield_now().await;
        }
        bob.recv().await.unwrap().ack().unwrap();
        send(&alice, &bob, &[("", "1"), ("", "2"), ("", "3")]).await;
        while bob.inbox(0).iter().filter(|one| one.stand == Standing::Waiting).count() != 3 {
            tokio::task::yield_now().await;
        }
        let last = bob.inbox(9).pop().unwrap();
        assert_eq!((last.body.unwrap(), last.attempts), ("3".into(), 0));
    })
    .await;
}
