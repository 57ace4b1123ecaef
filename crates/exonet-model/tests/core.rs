//! The list of the rules around the half-connection fits the code: each edit is found exactly once, in a test's name or
//! in a reason each mutant has its end. `exonet-model core` runs them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::collections::BTreeSet;

use exonet_model::schemata::{core_sources, parse, plant};

#[test]
fn the_list_fits_the_code() {
    let mutants = parse(include_str!("../mutants/core.txt")).unwrap();
    let names: BTreeSet<_> = mutants.iter().map(|mutant| &mutant.name).collect();
    assert_eq!(names.len(), mutants.len(), "a name comes twice");
    assert!(mutants.iter().all(|mutant| !mutant.edits.is_empty()));
    let core = concat!(env!("CARGO_MANIFEST_DIR"), "/../exonet-proto/src");
    plant(&core_sources(core.as_ref()).unwrap(), &mutants).unwrap();
}
