//! Patterns that are built from messages: calls.

pub(crate) mod call;
