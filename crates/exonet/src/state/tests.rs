mod damage;
mod files;
mod process;

use std::fs;
use std::path::Path;

use super::*;

const SECRET: [u8; 32] = *b"not a secret, but 32 bytes long.";

fn record(d: u64) -> ClockRecord {
    ClockRecord { d, life: 0, latest: 0 }
}

/// Makes an identity that has been used: its clock is at `d`.
fn identity(path: &Path, d: u64) {
    StateDir::create(path, &SECRET).unwrap().store(record(d)).unwrap();
}

/// The files that matter, each with its name and content.
fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap_or_default()))
        .filter(|(name, _)| name != "lock")
        .collect();
    files.sort();
    files
}

fn names(path: &Path) -> Vec<String> {
    contents(path).into_iter().map(|(name, _)| name).collect()
}
