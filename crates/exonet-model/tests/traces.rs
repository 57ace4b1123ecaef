//! The traces of `docs/traces`: what happens without a rule, step by step, as short as it can be. They are made by
//! `EXONET_TRACES=write cargo test -p exonet-model --test traces`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::path::Path;
use std::{env, fs};

use exonet_model::{Bound, Limits, Space, explore, find_config, find_mutant, trace, with_mutant};

/// Mutants that teach something, and the smallest configuration that shows it.
const TRACES: [(&str, &str); 12] = [
    ("ask-ignores-tokens", "two"),
    ("any-incarnation", "two"),
    ("boot-without-amnesia", "crash-both"),
    ("drop-not-durable", "journal"),
    ("outcome-not-durable", "journal"),
    ("any-stamp", "early"),
    ("named-dropped", "early"),
    ("silence-converts", "early-cuts"),
    ("copy-draws-newest", "calls"),
    ("reply-ack-without-id", "calls"),
    ("probe-before-delivery", "calls"),
    ("entry-after-delivery", "calls"),
];

fn text(mutant: &str, config: &str) -> String {
    let (mutant, config) = (find_mutant(mutant).unwrap(), find_config(config, Bound::Quick).unwrap());
    let (name, about) = (config.name, config.about);
    let mut space = Space::new(config, 1);
    let traced = with_mutant(Some(mutant), || {
        let finding = explore(&mut space, Limits::default(), &mut |_, _| {}).finding.unwrap();
        trace(&mut space, &finding)
    });
    format!(
        "{}: what happens without one rule\n\nThe rule: {}\nwritten in {}.\nThe world: {name}, {about}.\n\n{traced}",
        mutant.name, mutant.rule, mutant.from
    )
}

#[test]
fn the_kept_traces_are_what_the_search_finds() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/traces");
    for (mutant, config) in TRACES {
        let (path, text) = (kept.join(format!("{mutant}.txt")), text(mutant, config));
        if env::var_os("EXONET_TRACES").is_some() {
            fs::write(&path, &text).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{mutant}");
    }
}
