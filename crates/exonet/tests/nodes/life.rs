//! How nodes begin, move and end, and what happens to messages meanwhile.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{builder, cautious, nobody, node, pair, skipped, within};
use exonet::error::{BuildError, CallError, Closed, SendError};
use exonet::send::{CancelError, Refusal, Status};
use exonet::{Allow, Message, Node, Outcome};

const SOON: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn cancelled_before_it_leaves_is_certain() {
    let (alice, to) = (cautious().await, nobody().await);
    within(async {
        let receipt = alice.peer(&to).send("never mind").await.unwrap();
        assert_eq!(receipt.status(), Status::Queued);
        assert_eq!(receipt.id(), None);
        receipt.cancel().unwrap();
        assert_eq!(receipt.cancel(), Err(CancelError::Settled));
        let settled = receipt.await;
        assert_eq!((settled.outcome, settled.id), (Outcome::Cancelled, None));
    })
    .await;
}

#[tokio::test]
async fn a_deadline_expires_what_has_not_left() {
    let (alice, to) = (node().await, nobody().await);
    within(async {
        let receipt = alice.peer(&to).send(Message::new("too late").deadline(SOON)).await.unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Expired);
    })
    .await;
}

#[tokio::test]
async fn dropping_a_receipt_cancels_nothing() {
    let (alice, bob) = pair().await;
    within(async {
        drop(alice.peer(bob.peer_addr()).send("still coming").await.unwrap());
        assert_eq!(bob.at_most_once().recv().await.unwrap().body.as_whole().unwrap(), "still coming");
        assert!(alice.close(LATE).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_permit_holds_a_place_and_gives_it_back() {
    let alice =
        builder().early(false).config(|config| config.limits.queued_messages = 2).build().await.unwrap();
    let to = nobody().await;
    within(async {
        let (first, second) =
            (alice.peer(&to).reserve().await.unwrap(), alice.peer(&to).reserve().await.unwrap());
        assert_eq!(alice.peer(&to).try_send("x").unwrap_err(), SendError::Full, "both places are promised");
        drop(second);
        assert_eq!(alice.stats().open_messages, 0, "a dropped permit queues nothing");
        let waited = alice.peer(&to).reserve().await.unwrap();
        let receipt = first.send("y").unwrap();
        assert_eq!(receipt.status(), Status::Queued);
        assert_eq!(alice.peer(&to).try_send("x").unwrap_err(), SendError::Full);
        drop(waited);
        drop(alice.peer(&to).try_send("x").unwrap());
    })
    .await;
}

#[tokio::test]
async fn room_goes_to_those_who_wait_in_their_order() {
    let alice =
        builder().early(false).config(|config| config.limits.queued_messages = 1).build().await.unwrap();
    let to = nobody().await;
    within(async {
        let first = alice.peer(&to).send("0").await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for name in 1..=3 {
            let (alice, to, order) = (alice.clone(), to.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let receipt = alice.peer(&to).send("x").await.unwrap();
                order.lock().unwrap().push(name);
                receipt.cancel().unwrap();
            }));
            // On this runtime with one thread, the task is now queued.
            tokio::task::yield_now().await;
        }
        first.cancel().unwrap();
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
    })
    .await;
}

#[tokio::test]
async fn close_returns_what_is_open_when_the_peer_does_not_exist() {
    let (alice, to) = (cautious().await, nobody().await);
    within(async {
        let mut receipt = alice.peer(&to).send("anyone?").await.unwrap();
        let open = alice.close(SOON).await;
        assert_eq!(open.len(), 1);
        assert_eq!((open[0].peer, open[0].size), (to.id, 7));
        assert_eq!(receipt.outcome().await.outcome, Outcome::Cancelled, "it never left");
        assert_eq!(alice.peer(&to).send("more").await.unwrap_err(), SendError::Closed);
        assert_eq!(alice.at_most_once().recv().await.unwrap_err(), Closed);
        assert!(alice.close(SOON).await.is_empty(), "once is enough");
    })
    .await;
}

#[tokio::test]
async fn close_waits_for_the_other_side() {
    let (alice, bob) = pair().await;
    within(async {
        let receipt = alice.peer(bob.peer_addr()).send("last words").await.unwrap();
        let (open, received) = tokio::join!(alice.close(LATE), async { bob.recv().await.unwrap().take() });
        assert!(open.is_empty());
        assert_eq!(received.unwrap().from, alice.id());
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    })
    .await;
}

#[tokio::test]
async fn what_has_arrived_can_be_taken_after_close() {
    let (alice, bob) = pair().await;
    within(async {
        let to = bob.peer_addr();
        drop(alice.peer(&to).send_batch(["a", "b", "c"]).await.unwrap());
        let first = bob.at_most_once().recv().await.unwrap();
        let mut rest = Vec::new();
        while rest.len() < 2 {
            let delivery = bob.recv().await.unwrap();
            rest.push(delivery);
        }
        drop(rest);
        let waiting = {
            let bob = bob.clone();
            tokio::spawn(async move {
                let mut taken = 0;
                while bob.at_most_once().recv().await.is_ok() {
                    taken += 1;
                }
                taken
            })
        };
        bob.close(LATE).await;
        assert_eq!(waiting.await.unwrap(), 2);
        assert_eq!(first.from, alice.id());
    })
    .await;
}

#[tokio::test]
async fn the_last_handle_settles_every_receipt() {
    let (alice, to) = (cautious().await, nobody().await);
    within(async {
        let receipt = alice.peer(&to).send("?").await.unwrap();
        let permit = alice.peer(&to).reserve().await.unwrap();
        let other = alice.clone();
        drop(alice);
        assert_eq!(receipt.status(), Status::Queued, "a handle is left");
        drop(other);
        assert_eq!(receipt.await.outcome, Outcome::Cancelled);
        assert_eq!(permit.send("late").unwrap_err(), SendError::Closed);
    })
    .await;
}

#[test]
fn a_runtime_that_ends_settles_every_receipt() {
    let start = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runtime = start();
    let (alice, mut receipt) = runtime.block_on(async {
        let (alice, to) = (cautious().await, nobody().await);
        let receipt = alice.peer(&to).send("?").await.unwrap();
        (alice, receipt)
    });
    drop(runtime);
    start().block_on(within(async {
        assert_eq!(receipt.outcome().await.outcome, Outcome::Cancelled);
        assert_eq!(alice.at_most_once().recv().await.unwrap_err(), Closed);
        assert!(alice.close(LATE).await.is_empty());
    }));
}

#[tokio::test]
async fn a_port_in_use_and_a_bad_address_are_named() {
    let taken = node().await;
    let error = builder().bind(taken.local_addr()).build().await.unwrap_err();
    assert!(matches!(error, BuildError::AddressInUse(address) if address == taken.local_addr()), "{error}");
    let error = builder().bind("here:there").build().await.unwrap_err();
    assert!(matches!(&error, BuildError::Address(text) if text == "here:there"), "{error}");
    // TEST-NET-1: an address that no interface has.
    let error = builder().bind("192.0.2.1:0").build().await.unwrap_err();
    assert!(matches!(error, BuildError::Bind { .. }), "{error}");
}

#[tokio::test]
async fn close_frees_the_port() {
    let first = node().await;
    let address = first.local_addr();
    first.close(SOON).await;
    let second = builder().bind(address).build().await.unwrap();
    assert_eq!(second.local_addr(), address);
}

#[tokio::test]
async fn policies_decide_who_gets_in() {
    let (alice, mallory) = pair().await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (friend, notes) = (alice.id(), Arc::clone(&asked));
    let bob = Node::builder(Allow::ask(move |id, remote| {
        notes.lock().unwrap().push((id, remote));
        id == friend
    }))
    .bind("127.0.0.1:0")
    .build()
    .await
    .unwrap();
    let carol = Node::builder(Allow::only([alice.id()])).bind("127.0.0.1:0").build().await.unwrap();
    within(async {
        for host in [&bob, &carol] {
            let refused = mallory.peer(host.peer_addr()).send("let me in").await.unwrap();
            let receipt = alice.peer(host.peer_addr()).send("hello").await.unwrap();
            assert_eq!(host.at_most_once().recv().await.unwrap().from, alice.id());
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
            assert_eq!(refused.await.outcome, Outcome::Refused(Refusal::Policy));
        }
        assert!(asked.lock().unwrap().contains(&(alice.id(), alice.local_addr())));
        assert!(mallory.close(SOON).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn an_identity_in_a_directory_lives_on() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("bob");
    let alice = node().await;
    within(async {
        let bob = builder().state_dir(&path).build().await.unwrap();
        let id = bob.id();
        let error = builder().state_dir(&path).build().await.unwrap_err();
        assert!(matches!(error, BuildError::State(_)), "one process, one identity: {error}");
        let receipt = alice.peer(bob.peer_addr()).send("one").await.unwrap();
        let first = bob.at_most_once().recv().await.unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        let address = bob.local_addr();
        bob.close(LATE).await;

        let bob = builder().state_dir(&path).bind(address).build().await.unwrap();
        assert_eq!(bob.id(), id);
        let serving = tokio::spawn(async move { bob.at_most_once().recv().await.unwrap() });
        let to = exonet::PeerAddr::from((id, address));
        // A message that alice sends with envelopes from bob's former life ends Unknown.
        let delivered = loop {
            let settled = alice.peer(&to).send("two").await.unwrap().await;
            match settled.outcome {
                Outcome::Delivered => break settled,
                outcome => assert_eq!(outcome, Outcome::Unknown),
            }
        };
        let second = serving.await.unwrap();
        assert_eq!(second.body.as_whole().unwrap(), "two");
        assert_eq!(Some(second.id), delivered.id);
        assert!(second.id.r > first.id.r, "a later life never uses an earlier number");
    })
    .await;
}

#[tokio::test]
async fn a_node_that_moves_is_followed() {
    let (alice, bob) = pair().await;
    within(async {
        let talk = async |text: &'static str| {
            let receipt = alice.peer(bob.peer_addr()).send(text).await.unwrap();
            assert_eq!(bob.at_most_once().recv().await.unwrap().body.as_whole().unwrap(), text);
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        };
        talk("before").await;
        let old = alice.local_addr();
        let new = alice.rebind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        assert_ne!(old, new);
        assert_eq!(alice.local_addr(), new);
        talk("after").await;
        // And back in the other direction, without a hint.
        let receipt = bob.peer(alice.id()).send("found you").await.unwrap();
        assert_eq!(alice.at_most_once().recv().await.unwrap().from, bob.id());
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        assert_eq!(bob.peer(alice.id()).stats().unwrap().remote, Some(new));
    })
    .await;
}

#[tokio::test]
async fn ping_measures_or_says_that_nobody_answers() {
    let (alice, bob) = pair().await;
    within(async {
        let rtt = alice.peer(bob.peer_addr()).ping(LATE).await.unwrap();
        assert!(rtt.is_some_and(|rtt| rtt > Duration::ZERO));
        assert_eq!(alice.peer(&nobody().await).ping(SOON).await.unwrap(), None);
        assert!(alice.peers().contains(&bob.id()));
    })
    .await;
}

#[tokio::test]
async fn an_unspecified_address_serves_both_families() {
    let bob = match Node::builder(Allow::anyone()).bind("[::]:0").build().await {
        Ok(bob) => bob,
        Err(error) => {
            // No IPv6 on this machine: the default must still come up.
            skipped(error);
            Node::builder(Allow::anyone()).build().await.unwrap();
            return;
        }
    };
    let port = bob.local_addr().port();
    within(async {
        for (own, address) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]")] {
            let alice = Node::builder(Allow::anyone()).bind(own).build().await.unwrap();
            let to = exonet::PeerAddr::new(bob.id(), [format!("{address}:{port}")]).unwrap();
            let receipt = alice.peer(&to).send(Message::new("hello").early(false)).await.unwrap();
            assert_eq!(bob.at_most_once().recv().await.unwrap().from, alice.id());
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
            assert_eq!(bob.peer(alice.id()).stats().unwrap().remote, Some(alice.local_addr()));
        }
    })
    .await;
}

/// A sink whose content can be read.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.0.lock().map_err(|_| std::io::ErrorKind::Other)?.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_event_trace_tells_the_story() {
    let sink = Sink::default();
    let alice = builder().event_trace(sink.clone()).build().await.unwrap();
    let bob = node().await;
    within(async {
        let receipt = alice.peer(bob.peer_addr()).send("hello").await.unwrap();
        bob.at_most_once().recv().await.unwrap();
        receipt.await;
        alice.close(LATE).await;
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        for name in ["started", "connected", "outcome", "stats"] {
            assert!(text.contains(&format!(r#""name":"exonet:{name}""#)), "no {name} in:\n{text}");
        }
        assert!(text.lines().all(|line| line.starts_with('{') && line.ends_with("}}")), "{text}");
    })
    .await;
}

/// A sink that accepts nothing before it is told to.
struct Stuck(Arc<Mutex<std::sync::mpsc::Receiver<()>>>);

impl Write for Stuck {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        // An error means that it was told so already.
        let _ = self.0.lock().map_err(|_| std::io::ErrorKind::Other)?.recv();
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_event_trace_that_is_stuck_holds_no_message_up() {
    let (go_on, stuck) = std::sync::mpsc::channel();
    let alice = builder().event_trace(Stuck(Arc::new(Mutex::new(stuck)))).build().await.unwrap();
    let bob = node().await;
    within(async {
        for _ in 0..3 {
            let receipt = alice.peer(bob.peer_addr()).send("hello").await.unwrap();
            bob.recv().await.unwrap().ack().unwrap();
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        }
        drop(go_on);
        alice.close(LATE).await;
    })
    .await;
}

/// An ephemeral identity ends with its node: messages that wait for it will never be taken.
#[tokio::test]
async fn what_waits_for_an_ephemeral_node_that_ends_is_certainly_not_delivered() {
    let (alice, bob) = pair().await;
    within(async {
        let to = bob.peer_addr();
        // The second message arrives in a data packet: so bob has a channel, on which he can tell that he ends.
        for text in ["first", "second"] {
            let taken = alice.peer(&to).send(text).await.unwrap();
            bob.at_most_once().recv().await.unwrap();
            assert_eq!(taken.await.outcome, Outcome::Delivered);
        }
        let waiting = alice.peer(&to).send("not taken").await.unwrap();
        bob.close(SOON).await;
        assert_eq!(waiting.await.outcome, Outcome::Refused(Refusal::Ended));
    })
    .await;
}

#[tokio::test]
async fn who_is_not_let_in_is_told() {
    let alice = node().await;
    let bob = Node::builder(Allow::only([])).bind("127.0.0.1:0").build().await.unwrap();
    within(async {
        let sent = alice.peer(bob.peer_addr()).send("let me in").await.unwrap();
        assert_eq!(sent.await.outcome, Outcome::Refused(Refusal::Policy));
        let called = alice.peer(bob.peer_addr()).call("anything", "").await;
        assert!(matches!(&called, Err(CallError::NotTaken(Refusal::Policy))), "{called:?}");
        assert_eq!((bob.stats().peers, bob.stats().refusals_told), (0, 2));
    })
    .await;
}
