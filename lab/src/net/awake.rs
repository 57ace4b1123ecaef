//! Processors that do not fall asleep.

use std::fs::{File, OpenOptions};
use std::io::Write as _;

/// While this lives, an idle processor waits awake. To wake one that sleeps takes tens of microseconds, on a virtual machine
/// more, for each thread that a message passes through: it would be the machine that is measured, and all peers
/// would seem alike.
#[derive(Debug)]
pub(crate) struct Awake {
    _request: File,
}

impl Awake {
    /// The kernel keeps the request as long as its file is open. None: the system does not let this user ask.
    pub(crate) fn ask() -> Option<Self> {
        let mut request = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
        request.write_all(&0_i32.to_ne_bytes()).ok()?;
        Some(Self { _request: request })
    }
}
