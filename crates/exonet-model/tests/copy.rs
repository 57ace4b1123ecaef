//! What is searched is the code of `exonet-proto`, and the list of mutants says what it means.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::fs;
use std::path::Path;

use exonet_model::schemata::{self, CALLS, Entry, FILES};

const LISTS: [&str; 3] = [
    include_str!("../mutants/half.txt"),
    include_str!("../mutants/calls.txt"),
    include_str!("../mutants/streams.txt"),
];
const COPY: &str = include_str!(concat!(env!("OUT_DIR"), "/half.rs"));
const CALLS_COPY: &str = include_str!(concat!(env!("OUT_DIR"), "/calls.rs"));

fn mutants() -> Vec<Entry> {
    LISTS.iter().flat_map(|list| schemata::parse(list).unwrap()).collect()
}

fn sources() -> Vec<(&'static str, String)> {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../exonet-proto/src");
    let read =
        |folder: &str, name: &'static str| (name, fs::read_to_string(core.join(folder).join(name)).unwrap());
    let half = FILES.iter().map(|name| read("half", name));
    half.chain(CALLS.iter().map(|name| read("pattern", name))).collect()
}

/// One file with one entry planted.
fn planted(entry: &str, source: &str) -> Result<String, String> {
    let files = [("a.rs", source.to_string())];
    Ok(schemata::plant(&files, &schemata::parse(entry)?)?.remove(0).1)
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
    let sources = sources();
    let planted = schemata::plant(&sources, &mutants()).unwrap();
    let (half, calls) = planted.split_at(FILES.len());
    assert_eq!(schemata::half(half).unwrap(), COPY, "the copy is made of what is here");
    assert_eq!(schemata::calls(calls), CALLS_COPY, "the copy is made of what is here");
    for ((name, planted), (_, source)) in planted.into_iter().zip(sources) {
        assert_eq!(unplant(planted), source, "{name}");
    }
}

#[test]
fn an_edit_that_does_not_fit_does_not_build() {
    let entry = "mutant: x\nrule: y\nfrom: z\nequivalent: w\nedit: S::f\n<<<\ng(F)\n===\nG\n>>>\n";
    let within = |body: &str| planted(entry, &format!("impl S {{ fn f() {{ {body} }} fn g() {{ g(F) }} }}"));
    let whole = within("a g(F,) b").unwrap();
    assert!(whole.contains("fn f() { a (if crate::mutant::active(1) { G } else { g(F,) }) b }"), "{whole}");
    assert!(within("a b").is_err(), "gone");
    assert!(within("g(F) g( F )").is_err(), "twice");
    assert!(planted(entry, "impl T { fn f() { g(F) } }").is_err(), "no such item");
    assert!(planted(entry, "impl S { const fn f() { g(F) } }").is_err(), "it would not build");
    assert!(schemata::parse("mutant: x\nrule: y\nfrom: z\n").is_err(), "neither found nor equivalent");
}

#[test]
fn only_the_marked_part_is_replaced() {
    let entry = "mutant: x\nrule: y\nfrom: z\nequivalent: w\nedit: f\n<<<\nf(«F;»)\n===\n>>>\n";
    let planted = planted(entry, "fn f() { F; f( // why\n F; ) }").unwrap();
    assert_eq!(planted, "fn f() { F; f( // why\n if crate::mutant::active(1) {  } else { F; } ) }");
}
