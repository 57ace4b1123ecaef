//! Exactly-once messages between machines over UDP: brokerless, encrypted, and honest about every outcome.

pub mod state;
