//! Tests that this machine cannot run.

use std::io::Write;

/// Reports that the calling test is skipped, bypassing the capture of test output. Where no test may be skipped, as in
/// the gate, which sets `EXONET_NO_SKIPS`, the test fails.
#[allow(clippy::panic)]
pub(crate) fn skipped(why: impl std::fmt::Display) {
    let thread = std::thread::current();
    let line = format!("SKIPPED: {}: {why}\n", thread.name().unwrap_or("a test"));
    // If the report cannot be written, the test is skipped all the same.
    let _ = std::io::stderr().write_all(line.as_bytes());
    assert!(std::env::var_os("EXONET_NO_SKIPS").is_none(), "no test may be skipped here: {why}");
}
