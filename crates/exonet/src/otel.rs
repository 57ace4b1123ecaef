//! OpenTelemetry: calls continue the trace of the span that makes them. Requires the feature `opentelemetry`.
//!
//! A call, or a message to a peer, that is made while a span of [`opentelemetry`] is current has that span as its
//! parent, unless it was given its own [`Traceparent`]. While a handler runs, the context of the call is current: spans
//! that the handler begins are children of the caller's span, and calls that it makes continue from there. A receiver
//! of messages does the same with [`context`] and [`Delivery::traceparent`](crate::Delivery::traceparent).
//!
//! Tasks of the library send messages to groups: such a message has the trace that
//! [`Message::traceparent`](crate::Message::traceparent) gives it. A message with a trace is not bundled with others,
//! and is 28 bytes longer.
//!
//! With `tracing`, a layer of `tracing-opentelemetry` that activates contexts makes the spans of `tracing` current,
//! including the library's spans `call` and `serve`. `cargo run -p exonet --features opentelemetry --example traced`
//! shows a chain of calls.

use exonet_proto::Traceparent;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};

/// The span of a context, in the form of a message. None: the context has no valid span.
pub fn traceparent(context: &Context) -> Option<Traceparent> {
    if !context.has_active_span() {
        return None;
    }
    let span = context.span();
    let span = span.span_context();
    Traceparent::new(span.trace_id().to_bytes(), span.span_id().to_bytes(), span.trace_flags().to_u8())
}

/// A context whose span is that of another node: the parent of spans that are begun in the context.
pub fn context(parent: Traceparent) -> Context {
    let (trace, span) = (TraceId::from_bytes(parent.trace_id()), SpanId::from_bytes(parent.parent_id()));
    let flags = TraceFlags::new(parent.flags());
    let remote = SpanContext::new(trace, span, flags, true, TraceState::default());
    Context::current().with_remote_span_context(remote)
}

/// The span of the current context.
pub(crate) fn current() -> Option<Traceparent> {
    Context::map_current(traceparent)
}
