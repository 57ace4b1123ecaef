//! The trace that a command is part of: W3C Trace Context, from an option or the environment.

use exonet::Traceparent;

/// The variable with which programs pass the trace to the processes that they start.
pub(crate) const VARIABLE: &str = "TRACEPARENT";
/// The variable that accompanies it, and must not be passed on with another trace.
const STATE: &str = "TRACESTATE";

/// The trace of the option, or else of the environment. An invalid `traceparent` in the environment is ignored, as
/// W3C Trace Context requires.
pub(crate) fn given(option: Option<Traceparent>) -> Option<Traceparent> {
    option.or_else(|| std::env::var(VARIABLE).ok()?.parse().ok())
}

/// Removes the trace of this process: a process for a message has the trace of the message, or none.
pub(crate) fn pass_on(command: &mut tokio::process::Command) {
    command.env_remove(VARIABLE).env_remove(STATE);
}

/// The variable for a process that handles a message.
pub(crate) fn variable(parent: Option<Traceparent>) -> Option<(&'static str, String)> {
    parent.map(|parent| (VARIABLE, parent.to_string()))
}
