//! A call that makes a call, as one trace of OpenTelemetry.
//!
//! ```text
//! cargo run -p exonet --features opentelemetry --example traced
//! ```
//!
//! The shop calls the till, whose handler calls the bank. Each has a span of its own; only the nodes carry the trace.
//! A real program gives its provider an exporter, such as `opentelemetry-otlp`; this one prints.

use std::error::Error;

use exonet::call::{Failure, Request};
use exonet::{Allow, Node, Peer};
use opentelemetry::Context;
use opentelemetry::context::FutureExt;
use opentelemetry::trace::{TraceContextExt, Tracer, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracer, SdkTracerProvider};

/// Does `work` within a span of this name, which is the current span meanwhile.
async fn within<T>(tracer: &SdkTracer, name: &'static str, work: impl Future<Output = T>) -> T {
    let context = Context::current_with_span(tracer.start(name));
    let done = work.with_context(context.clone()).await;
    context.span().end();
    done
}

async fn call(to: &Peer, method: &'static str, body: impl Into<Vec<u8>>) -> Result<Vec<u8>, Failure> {
    let mut reply = to.call(method, body.into()).await.map_err(Failure::error)?;
    Ok(reply.body.bytes(1_000).await.map_err(Failure::error)?.to_vec())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let spans = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
    let tracer = provider.tracer("traced");
    let node = || async { Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await };
    let (shop, till, bank) = (node().await?, node().await?, node().await?);

    let own = tracer.clone();
    let _bank = bank.serve("debit", move |mut request: Request| {
        let tracer = own.clone();
        async move {
            let debit = async { request.body.bytes(1_000).await.map_err(Failure::error) };
            within(&tracer, "debit an account", debit).await
        }
    });
    let _bank = _bank.start()?;
    let (own, to_bank) = (tracer.clone(), till.peer(bank.peer_addr()));
    let till_serves = till.serve("pay", move |mut request: Request| {
        let (tracer, to_bank) = (own.clone(), to_bank.clone());
        async move {
            let amount = request.body.bytes(1_000).await.map_err(Failure::error)?;
            within(&tracer, "pay at the till", call(&to_bank, "debit", amount.to_vec())).await
        }
    });
    let _till = till_serves.start()?;

    let paid = within(&tracer, "sell", call(&shop.peer(till.peer_addr()), "pay", "20")).await;
    println!("paid: {}", String::from_utf8_lossy(&paid.map_err(|_| "not paid")?));
    for span in spans.get_finished_spans()? {
        let (context, parent) = (&span.span_context, span.parent_span_id);
        println!("{} {} below {}: {}", context.trace_id(), context.span_id(), parent, span.name);
    }
    Ok(())
}
