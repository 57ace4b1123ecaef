//! Runs every file of every corpus through its target, and checks that the programs of `fuzz/` are those of the
//! library.
//!
//! There is one test for all targets, because allocations are counted for the process.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use exonet_fuzz::TARGETS;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The names of the files in a directory, without their extensions.
fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn every_input_of_every_corpus_keeps_the_promises_and_every_target_is_driven() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&fuzz().join("fuzz_targets")), targets, "the programs of fuzz/ are the targets");
    assert_eq!(names(&fuzz().join("corpus")), targets, "the corpora of fuzz/ are those of the targets");
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for (name, target) in TARGETS {
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
            "{name} is in the manifest"
        );
        let program = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(program.contains(&format!("exonet_fuzz::{name}(data)")), "{name} calls its target");
        let mut count = 0;
        for entry in fs::read_dir(fuzz().join("corpus").join(name)).unwrap() {
            let path = entry.unwrap().path();
            let input = fs::read(&path).unwrap();
            assert!(catch_unwind(|| target(&input)).is_ok(), "{} breaks a promise", path.display());
            count += 1;
        }
        assert!(count > 0, "the corpus of {name} is empty");
    }
}
