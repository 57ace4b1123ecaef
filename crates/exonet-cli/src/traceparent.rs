//! The trace that a command is part of: W3C Trace Context, by an option or by the environment.

use exonet::Traceparent;

/// Where programs tell those that they start.
pub(crate) const VARIABLE: &str = "TRACEPARENT";
/// What goes with it, and belongs to another trace then.
const STATE: &str = "TRACESTATE";

/// What an option says, or else the environment; what is no `traceparent` there is passed over, as W3C wants it.
pub(crate) fn given(option: Option<Traceparent>) -> Option<Traceparent> {
    option.or_else(|| std::env::var(VARIABLE).ok()?.parse().ok())
}

/// A process that works on a message has the trace of that, or none, whatever this process was started with.
pub(crate) fn pass_on(command: &mut tokio::process::Command) {
    command.env_remove(VARIABLE).env_remove(STATE);
}

/// The variable of a process that works on a message.
pub(crate) fn variable(parent: Option<Traceparent>) -> Option<(&'static str, String)> {
    parent.map(|parent| (VARIABLE, parent.to_string()))
}
