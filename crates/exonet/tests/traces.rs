//! A trace continues through calls and messages, over real sockets: W3C Trace Context, and OpenTelemetry.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use bytes::Bytes;
use exonet::call::{Failure, Request};
use exonet::{Allow, Confirm, Message, Node, Traceparent};
use opentelemetry::Context;
use opentelemetry::context::FutureExt;
use opentelemetry::trace::{SpanId, TraceContextExt, Tracer, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracer, SdkTracerProvider, SpanData};

async fn node() -> Node {
    Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap()
}

async fn within<T>(tracer: &SdkTracer, name: &'static str, work: impl Future<Output = T>) -> T {
    let context = Context::current_with_span(tracer.start(name));
    let done = work.with_context(context.clone()).await;
    context.span().end();
    done
}

fn tracer() -> (SdkTracer, InMemorySpanExporter, SdkTracerProvider) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    (provider.tracer("test"), exporter, provider)
}

fn named(exporter: &InMemorySpanExporter, name: &str) -> SpanData {
    exporter.get_finished_spans().unwrap().into_iter().find(|span| span.name == name).unwrap()
}

#[tokio::test]
async fn a_call_that_makes_a_call_is_one_trace() {
    let (tracer, exporter, _provider) = tracer();
    let (a, b, c) = (node().await, node().await, node().await);
    let own = tracer.clone();
    let leaf = c.serve("leaf", move |request: Request| {
        let tracer = own.clone();
        async move {
            let parent = request.traceparent;
            within(&tracer, "c", async move {
                Ok::<_, Failure>(parent.map(|it| it.to_string()).unwrap_or_default())
            })
            .await
        }
    });
    let _leaf = leaf.start().unwrap();
    let (own, to_c) = (tracer.clone(), b.peer(c.peer_addr()));
    let relay = b.serve("relay", move |_: Request| {
        let (tracer, to_c) = (own.clone(), to_c.clone());
        async move {
            let call = async {
                to_c.call("leaf", "")
                    .await
                    .map_err(Failure::error)?
                    .body
                    .bytes(100)
                    .await
                    .map_err(Failure::error)
            };
            within(&tracer, "b", call).await
        }
    });
    let _relay = relay.start().unwrap();

    let to_b = a.peer(b.peer_addr());
    let call = async { to_b.call("relay", "").await.unwrap().body.bytes(100).await.unwrap() };
    let told = within(&tracer, "a", call).await;

    let [a, b, c] = ["a", "b", "c"].map(|name| named(&exporter, name));
    let trace = a.span_context.trace_id();
    assert!([&b, &c].iter().all(|span| span.span_context.trace_id() == trace));
    assert_eq!(a.parent_span_id, SpanId::INVALID);
    assert_eq!((b.parent_span_id, b.parent_span_is_remote), (a.span_context.span_id(), true));
    assert_eq!((c.parent_span_id, c.parent_span_is_remote), (b.span_context.span_id(), true));
    let told: Traceparent = String::from_utf8_lossy(&told).parse().unwrap();
    assert_eq!(told.trace_id(), trace.to_bytes());
    assert_eq!((told.parent_id(), told.is_sampled()), (b.span_context.span_id().to_bytes(), true));
}

#[tokio::test]
async fn a_call_without_a_span_has_no_trace_and_inherits_none() {
    let (tracer, exporter, _provider) = tracer();
    let (a, b) = (node().await, node().await);
    let own = tracer.clone();
    let echo = b.serve("echo", move |request: Request| {
        let tracer = own.clone();
        async move {
            assert_eq!(request.traceparent, None);
            within(&tracer, "alone", async { Ok::<_, Failure>(Bytes::new()) }).await
        }
    });
    // The server is started within a span, which does not belong to any of its calls.
    let serving = within(&tracer, "start", async move { echo.start() }).await.unwrap();
    a.peer(b.peer_addr()).call("echo", "").await.unwrap();
    assert_eq!(named(&exporter, "alone").parent_span_id, SpanId::INVALID);
    drop(serving);
}

#[tokio::test]
async fn messages_have_the_trace_that_they_are_given_or_that_of_the_span_that_sends_them() {
    let (tracer, exporter, _provider) = tracer();
    let (a, b) = (node().await, node().await);
    let to_b = a.peer(b.peer_addr());
    let given = Traceparent::new([7; 16], [8; 8], 0).unwrap();
    for confirm in [Confirm::Delivered, Confirm::Processed] {
        let receipt = to_b.send(Message::new("given").confirm(confirm).traceparent(given)).await.unwrap();
        let delivery = b.recv().await.unwrap();
        assert_eq!(delivery.traceparent(), Some(given));
        delivery.ack().unwrap();
        receipt.await;
    }
    let both = async {
        drop(to_b.send("taken").await.unwrap());
        drop(to_b.send(Message::new("given").traceparent(given)).await.unwrap());
    };
    within(&tracer, "sender", both).await;
    let span = named(&exporter, "sender").span_context;
    let mut parents = Vec::new();
    for _ in 0..2 {
        let delivery = b.recv().await.unwrap();
        parents.extend(delivery.traceparent());
        let context = exonet::otel::context(delivery.traceparent().unwrap());
        async { within(&tracer, "receiver", async {}).await }.with_context(context).await;
        delivery.ack().unwrap();
    }
    assert_eq!(
        (parents[0].trace_id(), parents[0].parent_id()),
        (span.trace_id().to_bytes(), span.span_id().to_bytes())
    );
    assert_eq!(parents[1], given);
    assert_eq!(named(&exporter, "receiver").parent_span_id, span.span_id());
    // Without a trace at the sender there is none at the receiver, and many messages at once stay together.
    let batch = to_b.send_batch((0..50).map(|n| n.to_string())).await.unwrap();
    for _ in 0..50 {
        let delivery = b.recv().await.unwrap();
        assert_eq!(delivery.traceparent(), None);
        delivery.ack().unwrap();
    }
    drop(batch);
}
