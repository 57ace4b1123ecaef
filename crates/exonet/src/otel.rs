//! OpenTelemetry: calls go on in the trace of the span that makes them. With the feature `opentelemetry`.
//!
//! A call, and a message to a peer, that is made while a span of [`opentelemetry`] is current takes that span with it as its parent, unless
//! it was given a [`Traceparent`] of its own. While a handler runs, what came with the call is the current context: spans that
//! it begins are children of the caller's span, and calls that it makes go on from there. A receiver of messages does the same by
//! [`context`] and [`Delivery::traceparent`](crate::Delivery::traceparent).
//!
//! Messages to groups are sent by tasks of the library: they have the trace that [`Message::traceparent`](crate::Message::traceparent)
//! gives them. A message of a trace is not kept together with others, and is 28 bytes longer.
//!
//! With `tracing`, a layer of `tracing-opentelemetry` that activates contexts makes the spans of `tracing` current ones; those of the library,
//! `call` and `serve`, are among them. `cargo run -p exonet --features opentelemetry --example traced` shows a chain of calls.

use exonet_proto::Traceparent;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};

/// What a context says of its span. None: it has no valid one.
pub fn traceparent(context: &Context) -> Option<Traceparent> {
    if !context.has_active_span() {
        return None;
    }
    let span = context.span();
    let span = span.span_context();
    Traceparent::new(span.trace_id().to_bytes(), span.span_id().to_bytes(), span.trace_flags().to_u8())
}

/// A context whose span is that of another node: the parent of spans that are begun in it.
pub fn context(parent: Traceparent) -> Context {
    let (trace, span) = (TraceId::from_bytes(parent.trace_id()), SpanId::from_bytes(parent.parent_id()));
    let flags = TraceFlags::new(parent.flags());
    let remote = SpanContext::new(trace, span, flags, true, TraceState::default());
    Context::current().with_remote_span_context(remote)
}

/// That of the context that is current now.
pub(crate) fn current() -> Option<Traceparent> {
    Context::map_current(traceparent)
}
