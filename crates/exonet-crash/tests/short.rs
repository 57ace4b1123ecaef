//! A short run of the laboratory; a long one is `cargo run --release -p exonet-crash -- --worlds 300`.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // a failure here is the failure of a test

use std::process::Command;

#[test]
fn every_message_arrives_once_whatever_crashes() {
    let output = Command::new(env!("CARGO_BIN_EXE_exonet-crash"))
        .args(["--worlds", "8", "--seed", "1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("8 worlds"), "{said}");
}
