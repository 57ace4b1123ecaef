//! What an operator can observe: spans with the ids of calls and messages, and durations. The tests have their own
//! file because subscribers and recorders belong to a whole process.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a failure here is the failure of a test

mod common;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{pair, within};
use exonet::call::Request;
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

type Fields = BTreeMap<String, String>;

/// The spans so far: name and fields. The id of each is its index plus one.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(&'static str, Fields)>>>);

struct Noted<'a>(&'a mut Fields);

impl Visit for Noted<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl tracing::Subscriber for Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut spans = self.0.lock().unwrap();
        let mut fields = Fields::new();
        span.record(&mut Noted(&mut fields));
        spans.push((span.metadata().name(), fields));
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let index = usize::try_from(span.into_u64()).unwrap() - 1;
        values.record(&mut Noted(&mut self.0.lock().unwrap().get_mut(index).unwrap().1));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Spans {
    /// The fields of the only span of this name.
    fn only(&self, name: &str) -> Fields {
        let spans = self.0.lock().unwrap();
        let own: Vec<_> = spans.iter().filter(|(other, _)| *other == name).collect();
        assert_eq!(own.len(), 1, "{name}: {own:?}");
        own.first().unwrap().1.clone()
    }
}

/// How often each histogram received a value.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<BTreeMap<String, u64>>>);

struct Time(Times, String);

impl HistogramFn for Time {
    fn record(&self, value: f64) {
        assert!((0.0..60.0).contains(&value), "seconds");
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += 1;
    }
}

impl metrics::Recorder for Times {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Time(self.clone(), key.name().to_owned())))
    }
}

#[tokio::test]
async fn calls_and_messages_have_spans_with_their_ids_and_their_times_are_counted() {
    let (spans, times) = (Spans::default(), Times::default());
    tracing::subscriber::set_global_default(spans.clone()).unwrap();
    metrics::set_global_recorder(times.clone()).unwrap();
    let (alice, bob) = pair().await;
    within(async {
        let _serving =
            bob.serve("echo", |mut request: Request| async move { request.body.bytes(9).await }).start();
        let to_bob = alice.peer(bob.peer_addr());
        let reply = to_bob.call("echo", "hello").await.unwrap();
        let (call, serve) = (spans.only("call"), spans.only("serve"));
        assert_eq!(call.get("id"), Some(&reply.id.to_string()));
        assert_eq!(serve.get("id"), call.get("id"), "it is found at both ends");
        assert_eq!((&call["method"][..], &serve["method"][..]), ("echo", "echo"));
        assert_eq!((&call["peer"], &serve["caller"]), (&bob.id().short(), &alice.id().short()));

        let batch = to_bob.send_batch(["one", "two", "three"]).await.unwrap();
        for n in 0..3 {
            let delivery = bob.recv().await.unwrap();
            if n == 0 {
                let id = delivery.id().to_string();
                drop(delivery.span());
                assert_eq!(spans.only("message")["id"], id);
            }
            delivery.ack().unwrap();
        }
        assert_eq!(batch.await.delivered, 3);
        alice.close(Duration::from_secs(5)).await;
        let of = |name: &str| times.0.lock().unwrap().get(name).copied();
        assert_eq!(of("exonet_message_seconds"), Some(3));
        assert_eq!((of("exonet_call_seconds"), of("exonet_serve_seconds")), (Some(1), Some(1)));
    })
    .await;
}
