//! No code of the application runs under the node's lock: wherever application code is called, it may call the node.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a failure of the helper is the failure of a test

mod common;

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use common::{builder, bytes, nobody, node, pair, within};
use exonet::send::Refusal;
use exonet::{Allow, Message, Node, NodeId, Outcome};

/// Runs `work` on a thread of its own. If it waits for itself, the test fails instead of hanging.
fn alone<F: Future<Output = ()>>(work: impl FnOnce() -> F + Send + 'static) {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work());
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("it waits for itself, or has failed");
}

/// A body whose owner calls the node when it is read and when it is dropped.
struct Owned {
    node: Node,
    body: Vec<u8>,
    dropped: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        self.node.stats();
        &self.body
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.node.stats();
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

fn owned(node: &Node, len: usize, dropped: &Arc<AtomicUsize>) -> Bytes {
    Bytes::from_owner(Owned { node: node.clone(), body: bytes(len), dropped: Arc::clone(dropped) })
}

#[test]
fn a_relay_may_drop_what_it_does_not_pass_on() {
    alone(|| async {
        let limits = |config: &mut exonet::config::Config| config.limits.stream_above = 100_000;
        let (alice, carol) = pair().await;
        let relay = builder().config(limits).build().await.unwrap();
        let (to_relay, to_carol) = (relay.peer_addr(), carol.peer_addr());
        let large = alice.peer(&to_relay).send(bytes(1_000_000)).await.unwrap();
        let small = alice.peer(&to_relay).send("small").await.unwrap();
        let mut passed = 0;
        while passed == 0 {
            let batch = relay.at_most_once().recv_batch(64).await.unwrap();
            let whole = batch.filter_map(|received| received.body.as_whole().cloned());
            passed += relay.peer(&to_carol).send_batch(whole).await.unwrap().len();
        }
        assert_eq!(carol.at_most_once().recv().await.unwrap().body.bytes(5).await.unwrap(), "small");
        assert_eq!(small.await.outcome, Outcome::Delivered);
        drop(large);
    });
}

#[test]
fn messages_and_bodies_of_a_batch_may_ask_the_node_as_they_are_made() {
    alone(|| async {
        let (alice, bob) = pair().await;
        let to = bob.peer_addr();
        let dropped = Arc::new(AtomicUsize::new(0));
        let made = (0..600).map(|_| owned(&alice, alice.id().0.len(), &dropped));
        let mut messages = alice.peer(&to).send_batch(made).await.unwrap();
        let made =
            (0..600).map(|_| Owned { node: alice.clone(), body: bytes(32), dropped: Arc::clone(&dropped) });
        let mut bodies = alice.peer(&to).send_bodies(made).await.unwrap();
        let mut got = 0;
        while got < 1_200 {
            got += bob.at_most_once().recv_batch(1_200).await.unwrap().count();
        }
        assert_eq!(messages.outcomes().await.delivered + bodies.outcomes().await.delivered, 1_200);
        assert_eq!(dropped.load(Ordering::Relaxed), 1_200, "what is not needed any more goes at once");
    });
}

#[test]
fn the_owner_of_a_body_may_ask_the_node_when_it_goes() {
    alone(|| async {
        let (alice, bob) = pair().await;
        let (to, nobody) = (bob.peer_addr(), nobody().await);
        let dropped = Arc::new(AtomicUsize::new(0));
        let gone = |n| assert_eq!(dropped.swap(0, Ordering::Relaxed), n);

        // Copied bodies, shared bodies, and tags.
        for len in [10, 1_000, 100_000] {
            let message = Message::new(owned(&alice, len, &dropped)).tag(owned(&alice, 9, &dropped));
            let receipt = alice.peer(&to).send(message).await.unwrap();
            assert_eq!(
                bob.at_most_once().recv().await.unwrap().body.bytes(200_000).await.unwrap().len(),
                len
            );
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
            gone(2);
        }
        // Withdrawn, and refused.
        let receipt = alice.peer(&nobody).send(owned(&alice, 1_000, &dropped)).await.unwrap();
        receipt.abandon();
        gone(1);
        let tag = owned(&alice, 256, &dropped);
        assert!(alice.peer(&to).try_send(Message::new(owned(&alice, 1_000, &dropped)).tag(tag)).is_err());
        assert!(alice.peer(NodeId([9; 32])).try_send(owned(&alice, 1_000, &dropped)).is_err());
        gone(3);
        // A body that is written in pieces.
        let (receipt, mut writer) = alice.peer(&to).send_stream(Message::default(), 300_000).await.unwrap();
        let write = async {
            for _ in 0..3 {
                writer.write_chunk(owned(&alice, 100_000, &dropped)).await.unwrap();
            }
        };
        let read = async { bob.at_most_once().recv().await.unwrap().body.bytes(300_000).await.unwrap() };
        assert_eq!(tokio::join!(write, read).1.len(), 300_000);
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        gone(3);
        // A call and its reply.
        for len in [100, 5_000] {
            let (server, count) = (bob.clone(), Arc::clone(&dropped));
            let answer = move |_| {
                let reply = owned(&server, len, &count);
                async move { Ok::<_, exonet::call::Failure>(reply) }
            };
            let serving = bob.serve("m", answer).start().unwrap();
            let mut reply = alice.peer(&to).call("m", owned(&alice, len, &dropped)).await.unwrap();
            assert_eq!(reply.body.bytes(5_000).await.unwrap().len(), len);
            serving.stop(Duration::from_secs(10)).await;
        }
        let _ = (alice.close(Duration::from_secs(10)).await, bob.close(Duration::from_secs(10)).await);
        gone(4);
    });
}

/// Calls the node whenever it is called.
#[derive(Default)]
struct Asks {
    node: OnceLock<Node>,
    asked: AtomicUsize,
}

impl Asks {
    fn ask(&self) {
        if let Some(node) = self.node.get() {
            node.stats();
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn count(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Wake for Asks {
    fn wake(self: Arc<Self>) {
        self.ask();
    }
}

#[test]
fn a_waker_may_ask_the_node_where_it_is_woken() {
    alone(|| async {
        let (alice, bob) = pair().await;
        let to = bob.peer_addr();
        let asks = Arc::new(Asks { node: alice.clone().into(), ..Asks::default() });
        let waker = Waker::from(Arc::clone(&asks));
        let to_bob = alice.peer(&to);
        let mut pong = pin!(to_bob.ping(Duration::from_secs(60)));
        assert!(pong.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let mut outcome = pin!(alice.peer(&to).try_send("x").unwrap());
        assert!(outcome.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let received = bob.at_most_once().recv().await.unwrap();
        assert_eq!(received.from, alice.id());
        while asks.count() < 2 {
            tokio::task::yield_now().await;
        }
        assert!(pong.await.unwrap().is_some());
        assert_eq!(outcome.await.outcome, Outcome::Delivered);
    });
}

/// A subscriber of logs.
struct Log(Arc<Asks>);

impl tracing::Subscriber for Log {
    fn enabled(&self, meta: &tracing::Metadata<'_>) -> bool {
        meta.target().starts_with("exonet")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.ask();
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// A recorder of metrics.
struct Metrics(Arc<Asks>);

/// A single metric.
struct Figure(Arc<Asks>);

impl metrics::CounterFn for Figure {
    fn increment(&self, _: u64) {
        self.0.ask();
    }

    fn absolute(&self, _: u64) {}
}

impl metrics::Recorder for Metrics {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn register_counter(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(Arc::new(Figure(Arc::clone(&self.0))))
    }

    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::noop()
    }

    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

#[test]
fn logs_and_metrics_may_ask_the_node() {
    alone(|| async {
        let (logs, figures) = (Arc::new(Asks::default()), Arc::new(Asks::default()));
        // Not for this thread only: whether an event is wanted is remembered for all threads.
        tracing::subscriber::set_global_default(Log(Arc::clone(&logs))).unwrap();
        let recorder = Metrics(Arc::clone(&figures));
        let _metrics = metrics::set_default_local_recorder(&recorder);
        let (alice, bob) = pair().await;
        assert!(logs.node.set(alice.clone()).is_ok() && figures.node.set(alice.clone()).is_ok());
        let receipt = alice.peer(bob.peer_addr()).send("x").await.unwrap();
        bob.at_most_once().recv().await.unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        alice.close(Duration::from_secs(10)).await;
        assert!(logs.count() > 0 && figures.count() > 0);
    });
}

#[tokio::test]
async fn a_question_that_panics_is_a_no_and_the_node_goes_on() {
    let (alice, carol) = pair().await;
    let bad = alice.id();
    let ask = Allow::ask(move |id, _| if id == bad { panic!("a question that panics") } else { true });
    let bob = Node::builder(ask).bind("127.0.0.1:0").build().await.unwrap();
    within(async {
        let refused = alice.peer(bob.peer_addr()).send("let me in").await.unwrap();
        let receipt = carol.peer(bob.peer_addr()).send("and me").await.unwrap();
        assert_eq!(bob.at_most_once().recv().await.unwrap().from, carol.id());
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        assert_eq!(refused.await.outcome, Outcome::Refused(Refusal::Policy));
        // It still receives.
        let other = node().await;
        assert_eq!(bob.at_most_once().try_recv().map(|received| received.from), None);
        assert!(other.peer(bob.peer_addr()).ping(Duration::from_secs(50)).await.unwrap().is_some());
    })
    .await;
}
