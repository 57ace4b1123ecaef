//! Messages between live nodes, over real sockets.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Poll;

use crate::common::{builder, bytes, cautious, nobody, node, pair, within};
use exonet::error::{BodyError, SendError};
use exonet::send::{CancelError, Status};
use exonet::{Message, Outcome, Priority};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn two_nodes_talk() {
    let (alice, bob) = pair().await;
    within(async {
        let message = Message::new("hello").tag("greeting").priority(Priority::Urgent);
        let mut receipt = alice.peer(bob.peer_addr()).send(message).await.unwrap();
        let mut received = bob.at_most_once().recv().await.unwrap();
        assert_eq!(received.from, alice.id());
        assert_eq!(received.id.sender, alice.id());
        assert_eq!(received.tag, "greeting");
        assert_eq!(received.priority, Priority::Urgent);
        assert_eq!(received.body.bytes(5).await.unwrap(), "hello");

        let settled = receipt.outcome().await;
        assert_eq!(settled.outcome, Outcome::Delivered);
        assert_eq!(settled.id, Some(received.id));
        assert_eq!(receipt.outcome().await, settled, "the same answer every time");
        assert_eq!(receipt.settled(), Some(settled));
        assert_eq!(receipt.status(), Status::Settled);
        assert_eq!(receipt.cancel(), Err(CancelError::Settled));

        // In the other direction, to the address from which it was heard.
        let receipt = bob.peer(alice.id()).send("hello yourself").await.unwrap();
        assert_eq!(alice.at_most_once().recv().await.unwrap().from, bob.id());
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    })
    .await;
}

#[tokio::test]
async fn each_of_a_crowd_is_heard_and_answered() {
    const ROUNDS: usize = 10;
    const CROWD: usize = 48;
    let server = node().await;
    let to = server.peer_addr();
    within(async {
        let mut crowd = Vec::new();
        for _ in 0..CROWD {
            crowd.push(node().await);
        }
        let clients = async {
            for round in 0..ROUNDS {
                // All of them before the server gets to receive: its driver handles them in one turn.
                let mut receipts = Vec::new();
                for client in &crowd {
                    receipts.push(client.peer(&to).send(format!("{round}")).await.unwrap());
                }
                for receipt in receipts {
                    assert_eq!(receipt.await.outcome, Outcome::Delivered);
                }
            }
        };
        let listens = async {
            let mut heard = BTreeSet::new();
            while heard.len() < ROUNDS * CROWD {
                for message in server.at_most_once().recv_batch(64).await.unwrap().views() {
                    let body = message.body.unwrap().to_vec();
                    assert!(heard.insert((message.id.sender, body)), "it came twice");
                }
            }
        };
        tokio::join!(clients, listens);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_messages_goes_to_one_of_many_receivers() {
    const SENDERS: usize = 4;
    const EACH: usize = 2_000;
    let (alice, bob) = pair().await;
    let to = bob.peer_addr();
    within(async {
        let receivers: Vec<_> = (0..8)
            .map(|_| {
                let bob = bob.clone();
                tokio::spawn(async move {
                    let mut got = Vec::new();
                    while let Ok(mut received) = bob.at_most_once().recv().await {
                        got.push(received.body.bytes(64).await.unwrap());
                    }
                    got
                })
            })
            .collect();
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let (alice, to) = (alice.clone(), to.clone());
                tokio::spawn(async move {
                    let mut receipts = Vec::new();
                    for i in 0..EACH {
                        receipts.push(alice.peer(&to).send(format!("{sender}/{i}")).await.unwrap());
                    }
                    for receipt in receipts {
                        assert_eq!(receipt.await.outcome, Outcome::Delivered);
                    }
                })
            })
            .collect();
        for sender in senders {
            sender.await.unwrap();
        }
        assert!(bob.close(std::time::Duration::from_secs(10)).await.is_empty());
        let mut all = Vec::new();
        for receiver in receivers {
            all.extend(receiver.await.unwrap());
        }
        assert_eq!(all.len(), SENDERS * EACH, "none lost, none twice");
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), SENDERS * EACH);
    })
    .await;
}

#[tokio::test]
async fn batches_arrive_whole_through_a_queue_that_is_smaller() {
    let alice = builder().config(|config| config.limits.queued_messages = 16).build().await.unwrap();
    let bob = node().await;
    let to = bob.peer_addr();
    within(async {
        let send = async {
            let mut receipt = alice.peer(&to).send_batch((0..1_000).map(|i| format!("{i}"))).await.unwrap();
            assert_eq!(receipt.len(), 1_000);
            assert_eq!(receipt.outcomes().await.delivered, 1_000);
            assert_eq!(receipt.await.settled(), 1_000, "and again");
        };
        let receive = async {
            let mut got = BTreeSet::new();
            while got.len() < 1_000 {
                for mut received in bob.at_most_once().recv_batch(64).await.unwrap() {
                    assert!(got.insert(received.body.bytes(8).await.unwrap()), "twice");
                }
            }
        };
        tokio::join!(send, receive);
        assert!(bob.at_most_once().try_recv().is_none());
    })
    .await;
}

#[tokio::test]
async fn who_sends_large_batches_lets_others_run() {
    let (alice, to) = (node().await, nobody().await);
    within(async {
        let send = async move {
            for _ in 0..32 {
                drop(alice.peer(&to).send_batch(vec![vec![0; 1_024]; 64]).await.unwrap());
            }
        };
        let sender = tokio::spawn(send).abort_handle();
        let mut turns = 0;
        let other = tokio::spawn(poll_fn(move |cx| {
            if sender.is_finished() {
                return Poll::Ready(turns);
            }
            turns += 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        }));
        assert!(other.await.unwrap() > 2, "two megabytes in one turn");
    })
    .await;
}

#[tokio::test]
async fn a_refused_message_of_a_batch_gives_the_receipts_of_those_before() {
    let (alice, bob) = pair().await;
    within(async {
        let messages = [Message::new("a"), Message::new("b").tag(vec![0; 256]), Message::new("c")];
        let error = alice.peer(bob.peer_addr()).send_batch(messages).await.unwrap_err();
        assert_eq!(error.source, SendError::TagTooLong(256));
        assert_eq!(error.sent.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_full_queue_says_so_or_waits() {
    let alice = builder().config(|config| config.limits.queued_messages = 4).build().await.unwrap();
    let bob = node().await;
    let to = alice.peer(bob.peer_addr());
    within(async {
        let mut receipts = Vec::new();
        let error = loop {
            match to.try_send("x") {
                Ok(receipt) => receipts.push(receipt),
                Err(error) => break error,
            }
        };
        assert_eq!(error, SendError::Full);
        assert_eq!(receipts.len(), 4);

        let waiting = to.send("waits");
        let take = async {
            for _ in 0..5 {
                bob.at_most_once().recv().await.unwrap();
            }
        };
        let (sent, ()) = tokio::join!(waiting, take);
        receipts.push(sent.unwrap());
        for receipt in receipts {
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        }
    })
    .await;
}

#[tokio::test]
async fn a_delivery_that_is_dropped_is_handed_out_again() {
    let (alice, bob) = pair().await;
    within(async {
        let mut receipt = alice.peer(bob.peer_addr()).send("again").await.unwrap();
        let first = bob.recv().await.unwrap();
        let id = first.id();
        assert!(bob.at_most_once().try_recv().is_none(), "it is out");
        drop(first);

        let second = bob.recv().await.unwrap();
        assert_eq!((second.id(), second.from()), (id, alice.id()));
        assert_eq!(second.body().as_whole().unwrap(), "again");
        assert_eq!(receipt.settled(), None, "nobody has taken it");
        second.ack().unwrap();
        assert_eq!(receipt.outcome().await.id, Some(id));
        assert!(bob.at_most_once().try_recv().is_none());
    })
    .await;
}

#[tokio::test]
async fn messages_that_come_together_wake_one_receiver_each() {
    let (alice, bob) = pair().await;
    within(async {
        let once = || {
            let bob = bob.clone();
            tokio::spawn(async move { bob.at_most_once().recv().await.unwrap().from })
        };
        let receivers = [once(), once(), once()];
        // On this runtime with one thread, all of them now wait.
        tokio::task::yield_now().await;
        drop(alice.peer(bob.peer_addr()).send_batch(["a", "b", "c"]).await.unwrap());
        for receiver in receivers {
            assert_eq!(receiver.await.unwrap(), alice.id());
        }
    })
    .await;
}

#[tokio::test]
async fn bodies_are_borrowed_and_messages_are_looked_at_where_they_lie() {
    let alice = builder().config(|config| config.limits.queued_messages = 16).build().await.unwrap();
    let bob = node().await;
    let to = bob.peer_addr();
    let bodies: Vec<_> = (0..1_000_u32).map(u32::to_be_bytes).collect();
    within(async {
        let send = async {
            let mut receipt = alice.peer(&to).send_bodies(&bodies).await.unwrap();
            assert_eq!(receipt.len(), 1_000);
            assert_eq!(receipt.outcomes().await.delivered, 1_000);
        };
        let receive = async {
            let mut got = BTreeSet::new();
            while got.len() < 1_000 {
                let mut batch = bob.at_most_once().recv_batch(64).await.unwrap();
                let seen: Vec<_> = batch.views().map(|view| (view.id, view.body.unwrap().to_vec())).collect();
                assert_eq!(batch.len(), seen.len(), "they are still there");
                let first = batch.next().unwrap();
                assert_eq!((first.id, first.body.as_whole().unwrap().to_vec()), seen[0]);
                assert!(batch.views().map(|view| view.id).eq(seen[1..].iter().map(|(id, _)| *id)));
                seen.into_iter().for_each(|(_, body)| assert!(got.insert(body), "twice"));
            }
            got
        };
        let ((), got) = tokio::join!(send, receive);
        assert!(got.iter().eq(bodies.iter()), "all of them");
    })
    .await;
}

#[tokio::test]
async fn a_waiting_receiver_that_gives_up_passes_its_turn_on() {
    let (alice, bob) = pair().await;
    within(async {
        let messages = bob.at_most_once();
        let mut quitter = Box::pin(messages.recv());
        assert!(futures_poll(quitter.as_mut()).is_pending());
        let other = {
            let bob = bob.clone();
            tokio::spawn(async move { bob.at_most_once().recv().await.unwrap().from })
        };
        let receipt = alice.peer(bob.peer_addr()).send("one").await.unwrap();
        drop(quitter);
        assert_eq!(other.await.unwrap(), alice.id());
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    })
    .await;
}

fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_body_streams_both_ways_at_once() {
    const LEN: usize = 32 << 20;
    let (alice, bob) = pair().await;
    let content = bytes(LEN);
    within(async {
        let to = bob.peer_addr();
        let send = async {
            let head = Message::default().tag("file");
            let receipt = alice.peer(&to).send_from(head, LEN as u64, &content[..]).await.unwrap();
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        };
        let receive = async {
            let mut received = bob.at_most_once().recv().await.unwrap();
            assert_eq!(received.tag, "file");
            assert!(received.body.is_stream());
            assert_eq!(received.body.len(), Some(LEN as u64));
            assert!(received.body.as_whole().is_none());
            let too_large = received.body.bytes(LEN as u64 - 1).await.unwrap_err();
            assert_eq!(too_large, BodyError::TooLarge { len: LEN as u64, limit: LEN as u64 - 1 });
            let mut got = Vec::new();
            received.body.read_to_end(&mut got).await.unwrap();
            assert!(got == content, "the body differs");
        };
        tokio::join!(send, receive);
        assert!(bob.at_most_once().try_recv().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_streamed_body_is_delivered_at_its_end_only() {
    const LEN: usize = 2 << 20;
    let (alice, bob) = pair().await;
    let content = bytes(LEN);
    within(async {
        let to = bob.peer_addr();
        let (mut receipt, mut writer) =
            alice.peer(&to).send_stream(Message::default(), LEN as u64).await.unwrap();
        let (first, second) = content.split_at(LEN / 2);
        writer.write_all(first).await.unwrap();
        let mut delivery = bob.recv().await.unwrap();
        let mut got = vec![0; LEN / 2];
        delivery.body_mut().read_exact(&mut got).await.unwrap();
        assert_eq!(receipt.settled(), None);
        assert_eq!(writer.remaining(), Some((LEN / 2) as u64));
        writer.write_all(second).await.unwrap();
        writer.shutdown().await.unwrap();
        let error = writer.write_all(b"x").await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        delivery.body_mut().read_to_end(&mut got).await.unwrap();
        assert!(got == content, "the body differs");
        assert_eq!(receipt.settled(), None, "read, not taken");
        delivery.ack().unwrap();
        assert_eq!(receipt.outcome().await.outcome, Outcome::Delivered);
    })
    .await;
}

#[tokio::test]
async fn a_body_of_unknown_length_is_delivered_at_its_end_only() {
    let (alice, bob) = pair().await;
    let content = bytes(300_000);
    within(async {
        let to = bob.peer_addr();
        let (mut receipt, mut writer) = alice.peer(&to).send_stream(Message::default(), None).await.unwrap();
        assert_eq!(writer.remaining(), None);
        writer.write_all(&content).await.unwrap();
        let mut delivery = bob.recv().await.unwrap();
        assert_eq!((delivery.body().len(), delivery.body().is_stream()), (None, true));
        let mut got = vec![0; content.len()];
        delivery.body_mut().read_exact(&mut got).await.unwrap();
        assert!(got == content, "the body differs");
        writer.finish().unwrap();
        assert_eq!(delivery.body_mut().read_to_end(&mut got).await.unwrap(), 0);
        assert_eq!(receipt.settled(), None, "read, not taken");
        delivery.ack().unwrap();
        assert_eq!(receipt.outcome().await.outcome, Outcome::Delivered);

        let (receipt, mut writer) = alice.peer(&to).send_stream(Message::default(), None).await.unwrap();
        writer.write_all(&content).await.unwrap();
        let mut delivery = bob.recv().await.unwrap();
        delivery.body_mut().read_exact(&mut got).await.unwrap();
        drop(writer);
        assert_eq!(delivery.body_mut().chunk().await, Err(BodyError::NotDelivered), "it has no end");
        assert_eq!(receipt.await.outcome, Outcome::Unknown);
    })
    .await;
}

#[tokio::test]
async fn all_that_a_reader_gives_is_sent_and_what_is_too_long_is_not_read_in_part() {
    let (alice, bob) = pair().await;
    let content = bytes(8 << 20);
    within(async {
        for limit in [8 << 20, 100_000] {
            let (from, peer) = (content.clone(), alice.peer(bob.peer_addr()));
            let sent = tokio::spawn(async move { peer.send_from(Message::default(), None, &from[..]).await });
            let mut delivery = bob.recv().await.unwrap();
            match delivery.body_mut().bytes(limit).await {
                Ok(body) => {
                    assert!(body == content, "the body differs");
                    delivery.ack().unwrap();
                }
                Err(error) => {
                    assert!(matches!(error, BodyError::TooLarge { limit: 100_000, .. }), "{error}");
                    assert_eq!(delivery.body_mut().chunk().await, Err(error), "its rest is not all of it");
                    delivery.reject("too long");
                }
            }
            let outcome = sent.await.unwrap().unwrap().await.outcome;
            assert!(matches!(
                (outcome, limit),
                (Outcome::Delivered, 8_388_608) | (Outcome::Rejected { .. }, 100_000)
            ));
        }
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_is_dropped_hands_out_again_what_streams() {
    let (alice, bob) = pair().await;
    let content = bytes(2 << 20);
    within(async {
        let receipt = alice.peer(bob.peer_addr()).send(content.clone()).await.unwrap();
        let batch = bob.at_most_once().recv_batch(8).await.unwrap();
        assert!(batch.len() == 1 && batch.views().all(|view| view.body.is_none()));
        drop(batch);
        let mut received = bob.at_most_once().recv().await.unwrap();
        assert!(received.body.bytes(u64::MAX).await.unwrap() == content, "the body differs");
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    })
    .await;
}

#[tokio::test]
async fn a_writer_that_is_dropped_early_withdraws_the_message() {
    let (alice, bob) = pair().await;
    within(async {
        let to = bob.peer_addr();
        let (receipt, mut writer) = alice.peer(&to).send_stream(Message::default(), 4 << 20).await.unwrap();
        writer.write_all(&bytes(1 << 20)).await.unwrap();
        drop(writer);
        let outcome = receipt.await.outcome;
        assert!(matches!(outcome, Outcome::Cancelled | Outcome::Unknown), "{outcome:?}");

        let short = alice.peer(&to).send_from(Message::default(), 10, &b"short"[..]).await.unwrap_err();
        assert!(matches!(short, exonet::error::SendFromError::Short { read: 5, len: 10 }), "{short}");

        // Other messages can now pass.
        let receipt = alice.peer(&to).send("after").await.unwrap();
        loop {
            let mut received = bob.at_most_once().recv().await.unwrap();
            if received.body.is_stream() {
                assert_eq!(received.body.bytes(u64::MAX).await, Err(BodyError::NotDelivered));
            } else {
                assert_eq!(received.body.bytes(5).await.unwrap(), "after");
                break;
            }
        }
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    })
    .await;
}

#[tokio::test]
async fn flush_waits_for_what_was_sent_before() {
    let (alice, bob) = pair().await;
    within(async {
        let to = bob.peer_addr();
        let receipt = alice.peer(&to).send_batch(vec!["x"; 100]).await.unwrap();
        let take = async {
            for _ in 0..100 {
                bob.at_most_once().recv().await.unwrap();
            }
        };
        let (open, ()) = tokio::join!(alice.flush(None), take);
        assert!(open.is_empty());
        assert_eq!(receipt.tally().delivered, 100);

        drop(alice.peer(&to).send("nobody takes this").await.unwrap());
        let open = alice.flush(std::time::Duration::from_millis(10)).await;
        assert_eq!(open.len(), 1);
        assert_eq!(open[0].peer, bob.id());
    })
    .await;
}

#[tokio::test]
async fn refusals_name_the_reason() {
    let (alice, bob) = pair().await;
    within(async {
        let to = bob.peer_addr();
        let error = alice.peer(&to).send(Message::new("x").tag(vec![0; 256])).await.unwrap_err();
        assert_eq!(error, SendError::TagTooLong(256));
        assert_eq!(alice.peer(alice.peer_addr()).send("x").await.unwrap_err(), SendError::Myself);
        assert_eq!(
            alice.peer(bob.id()).send("x").await.unwrap_err(),
            SendError::NoAddress(bob.id()),
            "it has not been heard of"
        );
        let lost = exonet::PeerAddr::new(bob.id(), ["no-such-host.invalid:1"]).unwrap();
        let error = alice.peer(&lost).send("x").await.unwrap_err();
        assert!(
            matches!(&error, SendError::Lookup { hint, .. } if hint == "no-such-host.invalid:1"),
            "{error}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_host_name_is_as_good_as_an_address() {
    let (alice, bob) = pair().await;
    within(async {
        let port = bob.local_addr().port();
        let to = exonet::PeerAddr::new(bob.id(), [format!("localhost:{port}")]).unwrap();
        assert_eq!(
            alice.peer(&to).try_send("x").unwrap_err(),
            SendError::NoAddress(bob.id()),
            "not looked up yet"
        );
        let receipt = alice.peer(&to).send("x").await.unwrap();
        bob.at_most_once().recv().await.unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        drop(alice.peer(&to).try_send("y").unwrap());
        bob.at_most_once().recv().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_batch_is_cancelled_or_given_up_as_far_as_it_has_not_left() {
    let (alice, bob) = (cautious().await, node().await);
    within(async {
        let to = bob.peer_addr();
        bob.close(std::time::Duration::ZERO).await;
        // The peer does not exist: it grants nothing, so nothing leaves.
        let mut receipt = alice.peer(&to).send_batch(["a", "b", "c"]).await.unwrap();
        assert_eq!((receipt.len(), receipt.tally().settled()), (3, 0));
        assert_eq!(receipt.cancel(), 3);
        assert_eq!(receipt.outcomes().await.cancelled, 3);
        assert_eq!(receipt.cancel(), 0, "it is over");
        let mut given_up = alice.peer(&to).send_batch(vec!["x"; 10]).await.unwrap();
        given_up.abandon();
        assert_eq!(given_up.outcomes().await.cancelled, 10);
        let empty = alice.peer(&to).send_batch(Vec::<Message>::new()).await.unwrap();
        assert!(empty.is_empty());
        assert_eq!(empty.await.settled(), 0);
        drop(alice.peer(&to).send_batch(["never asked after"]).await.unwrap());
        assert_eq!(alice.close(std::time::Duration::ZERO).await.len(), 1);
        assert_eq!(receipt.tally().cancelled, 3, "the same every time");
    })
    .await;
}
