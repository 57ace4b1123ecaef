//! Tests that this machine cannot run.

use std::io::Write;

/// Says that the calling test is skipped, past what captures the output of tests. Where none may be, as in the gate, which
/// sets `EXONET_NO_SKIPS`, the test fails.
#[allow(clippy::panic)]
pub(crate) fn skipped(why: impl std::fmt::Display) {
    let thread = std::thread::current();
    let line = format!("SKIPPED: {}: {why}\n", thread.name().unwrap_or("a test"));
    // A test that cannot say so is skipped all the same.
    let _ = std::io::stderr().write_all(line.as_bytes());
    assert!(std::env::var_os("EXONET_NO_SKIPS").is_none(), "no test may be skipped here: {why}");
}
