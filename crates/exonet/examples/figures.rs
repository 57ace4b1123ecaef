//! What an application can observe of its messages and calls: histograms, spans with the ids that both ends know, and
//! figures.
//!
//! `cargo run -p exonet --example figures`

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use exonet::call::Request;
use exonet::stats::Stats;
use exonet::{Allow, Node};
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

/// Times by the name of their histogram. A real application uses the recorder of a crate, for example for Prometheus.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

/// A single histogram.
struct Time {
    all: Times,
    name: String,
}

impl HistogramFn for Time {
    fn record(&self, seconds: f64) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(self.name.clone()).or_default().push(seconds);
    }
}

impl Recorder for Times {
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
        Histogram::from_arc(Arc::new(Time { all: self.clone(), name: key.name().to_owned() }))
    }
}

/// Prints the spans of calls. A real application uses `tracing-subscriber`.
struct Spans;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("exonet")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(format!("span {}:", span.metadata().name()));
        span.record(&mut line);
        println!("{}", line.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line("  is told more:".to_owned());
        values.record(&mut line);
        println!("{}", line.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Before the nodes are made: without a recorder, metrics are lost.
    let times = Times::default();
    metrics::set_global_recorder(times.clone()).map_err(|_| "there is a recorder already")?;
    tracing::subscriber::set_global_default(Spans)?;
    let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;

    let _serving =
        bob.serve("echo", |mut request: Request| async move { request.body.bytes(100).await }).start()?;
    let to_bob = alice.peer(bob.peer_addr());
    for text in ["one", "two"] {
        let reply = to_bob.call("echo", text).await?;
        println!("the call {} has its reply", reply.id);
    }
    let receipt = to_bob.send("hello").await?;
    let delivery = bob.recv().await?;
    let span = delivery.span();
    // Log lines here can be found by the message's id at both ends.
    span.in_scope(|| println!("bob has the message {}", delivery.id()));
    delivery.ack()?;
    receipt.await;

    alice.close(Duration::from_secs(1)).await;
    for (name, seconds) in times.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("{name}: {} times, {:.0} us on average", seconds.len(), mean(seconds) * 1e6);
    }
    let stats = bob.stats();
    for figure in Stats::FIGURES.iter().filter(|figure| (figure.of)(&stats) > 0) {
        println!("{}: {}", figure.metric, (figure.of)(&stats));
    }
    Ok(())
}

fn mean(seconds: &[f64]) -> f64 {
    seconds.iter().sum::<f64>() / seconds.len().max(1) as f64
}
