//! Nothing is found in the code as it is: every configuration, at the quick bounds.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use exonet_model::{Bound, Limits, Space, configs, search, trace, walk};

fn holds(names: &[&str]) {
    for config in configs(Bound::Quick).into_iter().filter(|config| names.contains(&config.name)) {
        let mut space = Space::new(config, 1);
        let seen = search(&mut space, Limits::default(), &mut |_, _| {});
        if let Some(finding) = &seen.finding {
            let trace = trace(&mut space, finding);
            panic!("{}:\n{trace}", space.config.name);
        }
        assert!(seen.complete, "{} is cut", space.config.name);
        assert_eq!(seen.rests, seen.nodes, "{}: from every state there is a way to rest", space.config.name);
    }
}

const HEAVY: [&str; 2] = ["both", "crash-receiver"];

#[test]
fn nothing_is_found_where_both_send() {
    holds(&HEAVY[..1]);
}

#[test]
fn nothing_is_found_where_the_receiver_crashes() {
    holds(&HEAVY[1..]);
}

/// Tries every `of`th of the other configurations, from the `from`th on. So several threads can share them.
fn holds_elsewhere(from: usize, of: usize) {
    let names = configs(Bound::Quick).into_iter().map(|config| config.name);
    let rest: Vec<_> = names.filter(|name| !HEAVY.contains(name)).skip(from).step_by(of).collect();
    assert!(rest.len() > 12);
    holds(&rest);
}

#[test]
fn nothing_is_found_elsewhere() {
    holds_elsewhere(0, 2);
}

#[test]
fn nothing_is_found_in_any_other_either() {
    holds_elsewhere(1, 2);
}

#[test]
fn nothing_is_found_on_a_walk_through_the_deep_bounds() {
    for config in configs(Bound::Deep) {
        let mut space = Space::new(config, 0);
        let walked = walk(&mut space, 1, 1_200);
        let found = walked.finding.map(|finding| trace(&mut space, &finding));
        assert_eq!(found, None, "{}", space.config.name);
    }
}
