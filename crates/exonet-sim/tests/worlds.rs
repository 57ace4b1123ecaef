//! Worlds of real nodes on virtual time, one file for each subject.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod common;

mod calls;
mod clocks;
mod crash;
mod early;
mod ecn;
mod ends;
mod faults;
mod flow;
mod group_streams;
mod heavy;
mod hostile_bodies;
mod hostile_calls;
mod hostile_channel;
mod hostile_path;
mod hostile_slots;
mod hostile_streams;
mod journal;
mod keys;
mod lanes;
mod latency;
mod links;
mod many;
mod moves;
mod opening;
mod outage;
mod pair;
mod parts;
mod policy;
mod restart;
mod roam;
mod scenarios;
mod streams;
mod twins;
mod vanish;
mod watch;

/// A file that is not declared here would never run.
#[test]
fn every_file_is_declared() {
    let declared = include_str!("worlds.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("worlds.rs") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(declared.contains(&format!("\nmod {name};\n")), "tests/{name}.rs is not declared");
        }
    }
}
