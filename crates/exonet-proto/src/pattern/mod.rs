//! What is made of messages: calls.

pub(crate) mod call;
