//! Connections that outlive a process at either end.
#![allow(dead_code, reason = "no command uses it yet")]

mod frame;
mod machine;
mod way;
