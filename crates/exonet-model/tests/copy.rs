//! What is searched is the code of `exonet-proto`, and the list of mutants says what it means.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::fs;
use std::path::Path;

use exonet_model::schemata::{self, CALLS, Entry, FILES};

const LISTS: [&str; 2] = [include_str!("../mutants/half.txt"), include_str!("../mutants/calls.txt")];
const COPY: &str = include_str!(concat!(env!("OUT_DIR"), "/half.rs"));

const CALLS_COPY: &str = include_str!(concat!(env!("OUT_DIR"), "/calls.rs"));

fn mutants() -> Vec<Entry> {
    LISTS.iter().flat_map(|list| schemata::parse(list).unwrap()).collect()
}

fn sources() -> Vec<(&'static str, String)> {
    let half = Path::new(env!("CARGO_MANIFEST_DIR")).join("../exonet-proto/src/half");
    FILES.iter().map(|name| (*name, fs::read_to_string(half.join(name)).unwrap())).collect()
}

/// Takes every branch of a mutant out again.
fn unplant(mut text: String) -> String {
    while let Some(at) = text.find("if crate::mutant::active(") {
        let matching = |from: usize| {
            let mut depth = 0;
            let end = text[from..].char_indices().find(|(_, c)| {
                depth += i32::from(*c == '{') - i32::from(*c == '}');
                *c == '}' && depth == 0
            });
            from + end.unwrap().0
        };
        let branch_end = matching(at + text[at..].find('{').unwrap());
        let rest = branch_end + "} else ".len();
        if text[rest..].starts_with("if crate::mutant") {
            text.replace_range(at..rest, "");
            continue;
        }
        let end = matching(rest);
        let original = text[rest + 2..end - 1].to_string();
        let expression = !original.trim_end().ends_with([';', '}']);
        let (from, to) = if expression { (at - 1, end + 2) } else { (at, end + 1) };
        text.replace_range(from..to, &original);
    }
    text
}

#[test]
fn without_its_mutants_the_copy_is_the_code() {
    let mutants = mutants();
    assert_eq!(schemata::plant(&sources(), &mutants).unwrap(), COPY, "the copy is made of what is here");
    assert_eq!(unplant(COPY.to_string()), schemata::plant(&sources(), &[]).unwrap());
    for (name, source) in sources() {
        let planted = schemata::plant_file(name, &source, &mutants).unwrap();
        assert_eq!(unplant(planted), source, "{name}");
    }
}

#[test]
fn without_its_mutants_the_copy_of_the_calls_is_the_code() {
    let (mutants, node) = (mutants(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../exonet-proto/src/node"));
    let read = |name: &&'static str| (*name, fs::read_to_string(node.join(name)).unwrap());
    let sources: Vec<_> = CALLS.iter().map(read).collect();
    assert_eq!(schemata::plant_calls(&sources, &mutants).unwrap(), CALLS_COPY, "made of what is here");
    for (name, source) in &sources {
        let planted = schemata::plant_file(name, source, &mutants).unwrap();
        assert_eq!(unplant(planted), *source, "{name}");
    }
}

#[test]
fn an_edit_that_does_not_fit_does_not_build() {
    let entry = "mutant: x\nrule: y\nfrom: z\nequivalent: w\nedit: a.rs\n<<<\nF\n===\nG\n>>>\n";
    let mutants = schemata::parse(entry).unwrap();
    let plant = |source: &str| schemata::plant_file("a.rs", source, &mutants);
    assert_eq!(plant("a F b").unwrap(), "a (if crate::mutant::active(1) { G } else { F }) b");
    assert!(plant("a b").is_err(), "gone");
    assert!(plant("F F").is_err(), "twice");
    assert!(schemata::plant(&[("mod.rs", String::new())], &mutants).is_err(), "no such file");
    assert!(schemata::parse("mutant: x\nrule: y\nfrom: z\n").is_err(), "neither found nor equivalent");
}

#[test]
fn only_the_marked_part_is_replaced() {
    let entry = "mutant: x\nrule: y\nfrom: z\nequivalent: w\nedit: a.rs\n<<<\nf(«F;»)\n===\n>>>\n";
    let planted = schemata::plant_file("a.rs", "F; f(F;)", &schemata::parse(entry).unwrap());
    assert_eq!(planted.unwrap(), "F; f(if crate::mutant::active(1) {  } else { F; })");
}
