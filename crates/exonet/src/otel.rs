//! OpenTelemetry: a call continues the trace of the span in which it is made. Requires the feature `opentelemetry`.
//!
//! If the application makes a call, or sends a message to a peer, while a span of [`opentelemetry`] is current, that
//! span is the parent of the call or message, unless the application gave it a [`Traceparent`] of its own. While a
//! handler runs, the context of its call is current: spans that the handler begins are children of the caller's span,
//! and calls that it makes continue the trace. A receiver of messages does the same with [`context`] and
//! [`Delivery::traceparent`](crate::Delivery::traceparent).
//!
//! A message to a group is sent by a task of the library, so it has only the trace that
//! [`Message::traceparent`](crate::Message::traceparent) gives it. The node does not bundle a message that has a
//! trace, and such a message is 28 bytes longer.
//!
//! With `tracing`, a layer of `tracing-opentelemetry` that activates contexts makes the spans of `tracing` current,
//! including the library's spans `call` and `serve`. `cargo run -p exonet --features opentelemetry --example traced`
//! shows a chain of calls.

use exonet_proto::Traceparent;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};

/// The span of a context, in the form that a message carries. None: the context has no valid span.
pub fn traceparent(context: &Context) -> Option<Traceparent> {
    if !context.has_active_span() {
        return None;
    }
    let span = context.span();
    let span = span.span_context();
    Traceparent::new(span.trace_id().to_bytes(), span.span_id().to_bytes(), span.trace_flags().to_u8())
}

/// A context whose span belongs to another node. Spans that begin in this context have that span as their parent.
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
