//! A short run of the laboratory; a long one is `cargo run --release -p exonet-crash -- --worlds 300`.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // a failure here is the failure of a test

use std::process::Command;

fn every_message_arrives_once(args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_exonet-crash"));
    let output = command.args(["--worlds", "8", "--seed", "1"]).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("8 worlds"), "{said}");
}

#[test]
fn every_message_arrives_once_whatever_crashes() {
    every_message_arrives_once(&[]);
}

#[test]
fn what_is_sent_after_a_lie_of_a_disk_arrives_once() {
    every_message_arrives_once(&["--lies"]);
}

#[test]
fn nor_does_a_journal_in_sqlite_lose_or_double_one() {
    every_message_arrives_once(&["--store", "sqlite"]);
}
