//! Streams: order, ends, breaks, bytes.

use std::future::{Future as _, poll_fn};
use std::path::Path;
use std::task::Poll;
use std::time::Duration;

use crate::common::{builder, node, within};
use exonet::error::SendError;
use exonet::send::Cancel;
use exonet::stream::{MAX_STREAM_BODY, OpenError, StreamError, StreamReceiver, StreamSendError};
use exonet::{Confirm, Delivery, Durability, Message, Node, Outcome};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const LATE: Duration = Duration::from_secs(5);

fn text(delivery: &Delivery) -> String {
    String::from_utf8_lossy(delivery.body().as_whole().unwrap()).into_owned()
}

async fn next(receiver: &mut StreamReceiver) -> Option<String> {
    let delivery = receiver.recv().await.unwrap()?;
    let text = text(&delivery);
    delivery.ack().unwrap();
    Some(text)
}

async fn stored(state: &Path, durability: Durability) -> Node {
    builder().state_dir(state).durability(durability).build().await.unwrap()
}

#[tokio::test]
async fn messages_come_in_order_both_ways_under_one_name() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (mut out, mut back) = alice.peer(bob.peer_addr()).stream("talk").unwrap().split();
        let mut receipts = Vec::new();
        for n in 0..500 {
            receipts.push(out.send(n.to_string()).await.unwrap());
        }
        let end = out.close().await.unwrap();
        assert_eq!(out.send("late").await.unwrap_err(), StreamSendError::Ended);
        let stream = bob.accept_stream().await.unwrap();
        assert_eq!((stream.name().as_ref(), stream.peer().id()), (&b"talk"[..], alice.id()));
        let (mut answers, mut lines) = stream.split();
        for n in 0..500 {
            assert_eq!(next(&mut lines).await, Some(n.to_string()));
        }
        assert_eq!(next(&mut lines).await, None);
        assert_eq!(next(&mut lines).await, None, "and so it stays");
        for receipt in receipts.into_iter().chain([end]) {
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        }
        drop(answers.send(Message::new("done").confirm(Confirm::Processed)).await.unwrap());
        assert_eq!(next(&mut back).await.unwrap(), "done");
        assert!(bob.try_recv().is_none(), "none of it is a message beside");
    })
    .await;
}

#[tokio::test]
async fn a_batch_keeps_its_place_in_the_stream_and_ends_before_a_message_that_does_not_fit() {
    for durability in [Durability::Memory, Durability::Process, Durability::Sync] {
        within(async {
            let homes = [(); 2].map(|()| tempfile::tempdir().unwrap());
            let (alice, bob) =
                (stored(homes[0].path(), durability).await, stored(homes[1].path(), durability).await);
            let (mut out, _) = alice.peer(bob.peer_addr()).stream("rows").unwrap().split();
            drop(out.send("first").await.unwrap());
            // More than the node queues at once, of several lengths.
            let rows = || (0..1_000).map(|n| "x".repeat(n % 3) + &n.to_string());
            let sent = out.send_batch(rows()).await.unwrap();
            let some = ["a", "b", "tagged", "c"].map(|text| {
                let message = Message::new(text);
                if text == "tagged" { message.tag("t") } else { message }
            });
            let error = out.send_batch(some).await.unwrap_err();
            assert_eq!((error.sent.len(), error.source), (2, StreamSendError::Tagged));
            let long =
                out.send_batch([vec![0; 3], vec![0; MAX_STREAM_BODY + 1], vec![0; 3]]).await.unwrap_err();
            assert_eq!(long.sent.len(), 1);
            assert!(matches!(long.source, StreamSendError::Send(SendError::TooLarge { .. })), "{long}");
            assert!(out.send_batch(Vec::<Message>::new()).await.unwrap().is_empty());
            drop(out.send("last").await.unwrap());
            drop(out.close().await.unwrap());
            let late = out.send_batch(["late"]).await.unwrap_err();
            assert_eq!((late.sent.len(), late.source), (0, StreamSendError::Ended));

            let (_, mut lines) = bob.accept_stream().await.unwrap().split();
            assert_eq!(next(&mut lines).await.unwrap(), "first");
            for row in rows() {
                assert_eq!(next(&mut lines).await, Some(row));
            }
            for line in ["a", "b", "\0\0\0", "last"] {
                assert_eq!(next(&mut lines).await.unwrap(), line);
            }
            assert_eq!(next(&mut lines).await, None);
            assert_eq!(sent.await.delivered, 1_000);
        })
        .await;
    }
}

#[tokio::test]
async fn a_batch_goes_on_in_order_after_the_process_of_its_sender() {
    within(async {
        let homes = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut alice = stored(homes[0].path(), Durability::Process).await;
        let bob = stored(homes[1].path(), Durability::Process).await;
        let rows = || (0..600).map(|n| n.to_string());
        let (mut out, _) = alice.peer(bob.peer_addr()).stream("rows").unwrap().split();
        drop(out.send_batch(rows().take(300)).await.unwrap());
        drop(out);
        alice.close(Duration::ZERO).await;
        drop(alice);
        alice = stored(homes[0].path(), Durability::Process).await;
        let (mut out, _) = alice.peer(bob.peer_addr()).stream("rows").unwrap().split();
        drop(out.send_batch(rows().skip(300)).await.unwrap());
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        for row in rows() {
            assert_eq!(next(&mut lines).await, Some(row));
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_not_acknowledged_comes_again_before_all_else() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (mut out, _) = alice.peer(bob.peer_addr()).stream("a").unwrap().split();
        let rejected = out.send("1").await.unwrap();
        drop(out.send("2").await.unwrap());
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        drop(lines.recv().await.unwrap());
        let again = lines.recv().await.unwrap().unwrap();
        assert_eq!((text(&again).as_str(), again.attempt()), ("1", 2));
        again.reject("no");
        assert_eq!(next(&mut lines).await.unwrap(), "2");
        assert!(matches!(rejected.await.outcome, Outcome::Rejected { attempts: 2, .. }));
    })
    .await;
}

#[tokio::test]
async fn a_message_that_has_left_is_withdrawn_and_leaves_no_gap() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (mut out, _) = alice.peer(bob.peer_addr()).stream("a").unwrap().split();
        let first = out.send("1").await.unwrap();
        // The message is there.
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        let late = out.send(Message::new("2").deadline(Duration::from_millis(20))).await.unwrap();
        assert_eq!(first.cancel().unwrap(), Cancel::Asked);
        assert_eq!(first.await.outcome, Outcome::Cancelled);
        assert_eq!(late.await.outcome, Outcome::Expired);
        drop(out.send("3").await.unwrap());
        assert_eq!(next(&mut lines).await.unwrap(), "3", "and none is missing");
        let end = out.close().await.unwrap();
        assert_eq!(next(&mut lines).await, None);
        assert_eq!(end.await.outcome, Outcome::Delivered);
    })
    .await;
}

#[tokio::test]
async fn a_stream_has_one_handle_and_its_name_is_free_again() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let to = alice.peer(bob.peer_addr());
        assert_eq!(to.stream("").unwrap_err(), OpenError::Name(0));
        assert_eq!(to.stream(vec![1; 256]).unwrap_err(), OpenError::Name(256));
        let first = to.stream("a").unwrap();
        assert_eq!(to.stream("a").unwrap_err(), OpenError::InUse);
        let (mut out, back) = first.split();
        drop(back);
        assert_eq!(to.stream("a").unwrap_err(), OpenError::InUse, "one half is there");
        drop(out.send("1").await.unwrap());
        drop(out);
        let (mut out, _) = to.stream("a").unwrap().split();
        drop(out.send("2").await.unwrap());
        let tagged = out.send(Message::new("x").tag("t")).await.unwrap_err();
        assert_eq!(tagged, StreamSendError::Tagged);
        let long = out.send(vec![0; MAX_STREAM_BODY + 1]).await.unwrap_err();
        assert!(long.to_string().contains(&MAX_STREAM_BODY.to_string()), "{long}");
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        assert_eq!(next(&mut lines).await.unwrap(), "1");
        drop(lines);
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        assert_eq!(next(&mut lines).await.unwrap(), "2", "another handle goes on");
    })
    .await;
}

#[tokio::test]
async fn an_unread_stream_holds_up_no_other_and_a_reset_gives_up_what_has_not_left() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let to = alice.peer(bob.peer_addr());
        let (mut unread, _) = to.stream("unread").unwrap().split();
        let mut receipts = Vec::new();
        for _ in 0..300 {
            receipts.push(unread.send(vec![7; 60_000]).await.unwrap());
        }
        let (mut read, _) = to.stream("read").unwrap().split();
        let idle = bob.accept_stream().await.unwrap();
        drop(read.send("1").await.unwrap());
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        assert_eq!(next(&mut lines).await.unwrap(), "1");
        drop(unread.reset().await.unwrap());
        let (_, mut slow) = idle.split();
        let mut taken = 0;
        let end = loop {
            match slow.recv_at_most_once().await {
                Ok(Some(_)) => taken += 1,
                end => break end,
            }
        };
        assert_eq!(end.unwrap_err(), StreamError::Reset);
        let mut outcomes = Vec::new();
        for receipt in receipts {
            outcomes.push(receipt.await.outcome);
        }
        let cancelled = outcomes.iter().position(|outcome| *outcome == Outcome::Cancelled).unwrap();
        assert_eq!(cancelled, taken, "what was taken came first");
        assert!(outcomes[..cancelled].iter().all(|outcome| *outcome == Outcome::Delivered));
        assert!(outcomes[cancelled..].iter().all(|outcome| *outcome == Outcome::Cancelled));
    })
    .await;
}

#[tokio::test]
async fn a_reader_that_stops_lets_the_sender_know() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (mut out, _) = alice.peer(bob.peer_addr()).stream("a").unwrap().split();
        drop(out.send("1").await.unwrap());
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        assert_eq!(next(&mut lines).await.unwrap(), "1");
        let before = out.send("2").await.unwrap();
        lines.stop("enough");
        let after = out.send("3").await.unwrap();
        let (before, after) = (before.await, after.await);
        assert!(matches!(before.outcome, Outcome::Rejected { .. }), "{before:?}");
        assert!(matches!(after.outcome, Outcome::Rejected { .. }), "{after:?}");
        let end = out.close().await.unwrap();
        assert!(matches!(end.await.outcome, Outcome::Rejected { .. }));
        let (mut anew, _) = {
            drop(out);
            alice.peer(bob.peer_addr()).stream("a").unwrap().split()
        };
        drop(anew.send("4").await.unwrap());
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        assert_eq!(next(&mut lines).await.unwrap(), "4", "it is another stream");
    })
    .await;
}

#[tokio::test]
async fn bytes_go_both_ways_and_each_way_ends_by_itself() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let mut here = alice.peer(bob.peer_addr()).stream("pipe").unwrap().into_bytes();
        let echo = tokio::spawn(async move {
            let there = bob.accept_stream().await.unwrap().into_bytes();
            let (mut read, mut write) = tokio::io::split(there);
            let copied = tokio::io::copy(&mut read, &mut write).await.unwrap();
            write.write_all(b"and the end").await.unwrap();
            write.shutdown().await.unwrap();
            // Messages that were sent leave as long as the node is open.
            (copied, read, write, bob)
        });
        let whole = sent.clone();
        let (mut read, mut write) = tokio::io::split(&mut here);
        let writes = async {
            write.write_all(&whole).await.unwrap();
            write.shutdown().await.unwrap();
        };
        let reads = async {
            let mut all = Vec::new();
            read.read_to_end(&mut all).await.unwrap();
            all
        };
        let ((), all) = tokio::join!(writes, reads);
        assert_eq!(all.len(), sent.len() + 11);
        assert!(all.starts_with(&sent) && all.ends_with(b"and the end"));
        assert_eq!(here.settled().await.unwrap().outcome, Outcome::Delivered);
        assert_eq!(echo.await.unwrap().0, sent.len() as u64);
        let more = here.write_all(b"x").await.unwrap_err();
        assert_eq!(more.kind(), std::io::ErrorKind::BrokenPipe);
    })
    .await;
}

#[tokio::test]
async fn bytes_without_an_end_are_an_error() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let mut here = alice.peer(bob.peer_addr()).stream("pipe").unwrap().into_bytes();
        here.write_all(b"half").await.unwrap();
        let mut there = bob.accept_stream().await.unwrap().into_bytes();
        let mut four = [0; 4];
        there.read_exact(&mut four).await.unwrap();
        drop(here);
        let error = there.read(&mut four).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    })
    .await;
}

/// `accept_stream` does not return unread bytes as a new stream.
#[tokio::test]
async fn bytes_that_are_dropped_unread_do_not_come_again() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        for (name, waits) in [("pipe", false), ("another", true)] {
            let mut here = alice.peer(bob.peer_addr()).stream(name).unwrap().into_bytes();
            here.write_all(b"one").await.unwrap();
            let mut there = bob.accept_stream().await.unwrap().into_bytes();
            assert_eq!(there.name(), name);
            there.read_exact(&mut [0; 3]).await.unwrap();
            if waits {
                assert_eq!(here.settled().await.unwrap().outcome, Outcome::Delivered);
            }
            here.write_all(b"two").await.unwrap();
            drop(there);
            // The direction of the other end is reset, before anything was written in it.
            let error = here.read(&mut [0]).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
            // A later write fails, since the reader has stopped, whether the writer looks at outcomes or not.
            let error = loop {
                if waits {
                    _ = here.settled().await;
                } else {
                    tokio::task::yield_now().await;
                }
                if let Err(error) = here.write_all(b"more").await {
                    break error;
                }
            };
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
        }
        // Bob has all packets of the others before this stream begins.
        let (mut last, _) = alice.peer(bob.peer_addr()).stream("last").unwrap().split();
        drop(last.send("x").await.unwrap());
        assert_eq!(bob.accept_stream().await.unwrap().name(), "last");
    })
    .await;
}

/// Messages that cannot be taken yet when the reader stops are rejected as well.
#[tokio::test]
async fn a_stream_that_was_stopped_waits_for_no_other_handle() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (mut out, _) = alice.peer(bob.peer_addr()).stream("a").unwrap().split();
        let mut receipts = out.send_batch(["1", "2"]).await.unwrap();
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        let first = lines.recv().await.unwrap().unwrap();
        // The second one waits for the first.
        lines.stop("enough");
        first.ack().unwrap();
        let tally = receipts.outcomes().await;
        assert_eq!((tally.delivered, tally.rejected), (1, 1));
        let (mut last, _) = alice.peer(bob.peer_addr()).stream("last").unwrap().split();
        drop(last.send("x").await.unwrap());
        assert_eq!(bob.accept_stream().await.unwrap().name(), "last");
    })
    .await;
}

/// A reader that stops before anything has come does not speak for the next handle on the name.
#[tokio::test]
async fn a_name_that_is_taken_again_has_what_comes() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let mut here = alice.peer(bob.peer_addr()).stream("pipe").unwrap().into_bytes();
        here.write_all(b"x").await.unwrap();
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        assert_eq!(next(&mut lines).await.unwrap(), "x");
        drop(here);
        assert_eq!(lines.recv().await.unwrap_err(), StreamError::Reset);
        drop(lines);
        let (mut out, mut back) = alice.peer(bob.peer_addr()).stream("pipe").unwrap().split();
        drop(out.send("again").await.unwrap());
        let (mut answers, mut lines) = bob.accept_stream().await.unwrap().split();
        assert_eq!(next(&mut lines).await.unwrap(), "again");
        drop(answers.send("answer").await.unwrap());
        assert_eq!(next(&mut back).await.unwrap(), "answer");
    })
    .await;
}

/// If a handle is dropped while a write waits for room, its direction is reset.
#[tokio::test]
async fn bytes_that_wait_for_room_when_they_are_dropped_are_reset() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let mut here = alice.peer(bob.peer_addr()).stream("pipe").unwrap().into_bytes();
        here.write_all(b"begin").await.unwrap();
        let mut there = bob.accept_stream().await.unwrap().into_bytes();
        there.read_exact(&mut [0; 5]).await.unwrap();
        let much = vec![7; 1 << 20];
        // Nobody reads, so the queue becomes full, and a write waits.
        let mut writes = Box::pin(async { while here.write_all(&much).await.is_ok() {} });
        assert!(poll_fn(|cx| Poll::Ready(writes.as_mut().poll(cx).is_pending())).await);
        drop(writes);
        drop(here);
        let error = tokio::io::copy(&mut there, &mut tokio::io::sink()).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    })
    .await;
}

/// A stream outlives both processes if they keep journals, and gaps are reported if the reader's process keeps none.
#[tokio::test]
async fn a_stream_goes_on_after_either_process() {
    for durability in [Durability::Process, Durability::Sync] {
        let home = tempfile::tempdir().unwrap();
        let (here, there) = (home.path().join("here"), home.path().join("there"));
        within(async {
            let mut bob = stored(&there, durability).await;
            let address = bob.peer_addr();
            for round in 0..3 {
                let alice = stored(&here, durability).await;
                let (mut out, _) = alice.peer(bob.peer_addr()).stream("a").unwrap().split();
                for n in 0..3 {
                    drop(out.send(format!("{round}.{n}")).await.unwrap());
                }
                let (_, mut lines) = bob.accept_stream().await.unwrap().split();
                for n in 0..3 {
                    assert_eq!(next(&mut lines).await.unwrap(), format!("{round}.{n}"), "{durability:?}");
                }
                drop((out, lines));
                if round == 1 {
                    bob.close(LATE).await;
                    drop(bob);
                    let bind = address.hints().next().unwrap();
                    bob =
                        builder().state_dir(&there).durability(durability).bind(bind).build().await.unwrap();
                }
                alice.close(LATE).await;
            }
            bob.close(LATE).await;
        })
        .await;
    }
}

/// A process of the sender ends without a journal in the middle of a stream, and its next process begins another of that name.
#[tokio::test]
async fn a_reader_hears_of_a_break_once_and_the_next_handle_has_the_other_stream() {
    within(async {
        let state = tempfile::tempdir().unwrap();
        let bob = node().await;
        let sends = async |text: &str| {
            let alice = stored(state.path(), Durability::Memory).await;
            let mut out = alice.peer(bob.peer_addr()).stream("log").unwrap().split().0;
            let receipt = out.send(text.to_owned()).await.unwrap();
            (alice, receipt)
        };
        let (alice, receipt) = sends("first").await;
        let (_, mut log) = bob.accept_stream().await.unwrap().split();
        assert_eq!(next(&mut log).await.unwrap(), "first");
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        alice.close(LATE).await;

        let (alice, receipt) = sends("second").await;
        assert_eq!(log.recv().await.unwrap_err(), StreamError::Broken);
        assert_eq!(log.recv().await.unwrap_err(), StreamError::Broken, "and so it stays");
        drop(log);
        let (_, mut log) = bob.accept_stream().await.unwrap().split();
        assert_eq!(next(&mut log).await.unwrap(), "second");
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        alice.close(LATE).await;
    })
    .await;
}

#[tokio::test]
async fn a_reader_may_stop_before_it_has_read_anything() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (mut out, _) = alice.peer(bob.peer_addr()).stream("a").unwrap().split();
        let sent = [out.send("1").await.unwrap(), out.send("2").await.unwrap()];
        let end = out.close().await.unwrap();
        bob.accept_stream().await.unwrap().split().1.stop("not today");
        for receipt in sent.into_iter().chain([end]) {
            let reason = receipt.await.outcome;
            assert!(matches!(reason, Outcome::Rejected { .. }), "{reason:?}");
        }
        // The name is free for another stream.
        let (mut out, _) = alice.peer(bob.peer_addr()).stream("b").unwrap().split();
        drop(out.send("3").await.unwrap());
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        assert_eq!(next(&mut lines).await.unwrap(), "3");
    })
    .await;
}

#[tokio::test]
async fn what_waits_sees_that_the_node_closes() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (_, mut lines) = alice.peer(bob.peer_addr()).stream("a").unwrap().split();
        let other = alice.clone();
        let accepts = tokio::spawn(async move { other.accept_stream().await.map(drop) });
        let reads = tokio::spawn(async move { lines.recv().await.map(drop) });
        tokio::task::yield_now().await;
        alice.close(LATE).await;
        assert!(accepts.await.unwrap().is_err());
        assert_eq!(reads.await.unwrap(), Err(StreamError::Closed));
    })
    .await;
}

#[tokio::test]
async fn a_listener_has_the_streams_of_its_name_and_no_other() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        assert_eq!(bob.stream_listener("").unwrap_err(), OpenError::Name(0));
        let to = alice.peer(bob.peer_addr());
        let mut senders = Vec::new();
        for name in ["a", "b"] {
            let (mut out, _) = to.stream(name).unwrap().split();
            drop(out.send(name).await.unwrap());
            senders.push(out);
        }
        // Both streams wait when the listener is created, or begin later: it gets its own.
        let named = bob.stream_listener("b").unwrap();
        assert_eq!(bob.stream_listener("b").unwrap_err(), OpenError::Listened);
        let (_, mut b) = named.accept().await.unwrap().split();
        let (_, mut a) = bob.accept_stream().await.unwrap().split();
        assert_eq!((next(&mut a).await.unwrap(), next(&mut b).await.unwrap()), ("a".into(), "b".into()));
        // A dropped listener leaves its waiting streams to the accept calls without a name.
        drop((a, b));
        for out in &mut senders {
            drop(out.send("more").await.unwrap());
        }
        let stream = named.accept().await.unwrap();
        assert_eq!(stream.name(), "b");
        drop((stream, named));
        let mut names = Vec::new();
        let mut held = Vec::new();
        for _ in 0..2 {
            let stream = bob.accept_stream().await.unwrap();
            names.push(stream.name().clone());
            held.push(stream);
        }
        names.sort();
        assert_eq!(names, ["a", "b"]);
        let late = bob.stream_listener("c").unwrap();
        bob.close(LATE).await;
        assert!(late.accept().await.is_err());
    })
    .await;
}

/// A batch ends where an event must be reported, and the next call reports it.
#[tokio::test]
async fn a_listener_that_is_refused_takes_nothing_from_the_one_before() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let named = bob.stream_listener("named").unwrap();
        assert_eq!(bob.stream_listener("named").unwrap_err(), OpenError::Listened);
        let to = alice.peer(bob.peer_addr());
        let mut senders = Vec::new();
        for name in ["named", "other"] {
            let (mut out, _) = to.stream(name).unwrap().split();
            drop(out.send(name).await.unwrap());
            senders.push(out);
        }
        // The first to come is not for calls without a name.
        assert_eq!(bob.accept_stream().await.unwrap().name(), "other");
        assert_eq!(named.accept().await.unwrap().name(), "named");
    })
    .await;
}

#[tokio::test]
async fn messages_that_are_taken_together_keep_their_order_and_what_is_told() {
    let (alice, bob) = (node().await, node().await);
    within(async {
        let (mut out, _) = alice.peer(bob.peer_addr()).stream("s").unwrap().split();
        let mut receipts = Vec::new();
        for n in 0..200_u8 {
            receipts.push(out.send([n].as_slice()).await.unwrap());
        }
        drop(out.close().await.unwrap());
        drop(out);

        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        let mut heard = Vec::new();
        assert!(lines.recv_batch(0).await.unwrap().unwrap().len() == 0);
        while let Some(batch) = lines.recv_batch(9).await.unwrap() {
            assert!((1..=9).contains(&batch.len()));
            let seen: Vec<u8> = batch.views().map(|view| view.body.unwrap()[0]).collect();
            heard.extend(batch.map(|line| line.body.as_whole().unwrap()[0]));
            assert!(heard.ends_with(&seen));
        }
        assert_eq!(heard, (0..200).collect::<Vec<u8>>());
        assert!(lines.recv_batch(9).await.unwrap().is_none(), "from then on");
        for receipt in receipts {
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        }
        drop(lines);
        // An event is reported instead of a batch.
        let (mut out, _) = alice.peer(bob.id()).stream("s").unwrap().split();
        drop(out.send("of another").await.unwrap());
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        let one: Vec<_> = lines.recv_batch(9).await.unwrap().unwrap().collect();
        assert_eq!((one.len(), one[0].body.as_whole().unwrap()), (1, &"of another".into()));
        drop(out.reset().await.unwrap());
        assert_eq!(lines.recv_batch(9).await.unwrap_err(), StreamError::Reset);
    })
    .await;
}
