//! Ordered streams: every state, and each rule taken away.

#![allow(clippy::indexing_slicing)]

use exonet_model::exhaust::Found;
use exonet_model::streaming::{Rule, SCENES, Scene, rules, search};

fn hold(scenes: &[Scene]) {
    for scene in scenes {
        let found = search(scene, None);
        assert!(matches!(found, Found::Nothing { states } if states > 200), "{}: {found:#?}", scene.name);
    }
}

#[test]
fn nothing_is_told_falsely_and_all_ends() {
    hold(&SCENES[..SCENES.len() / 2]);
}

#[test]
fn nor_where_records_close_and_journals_go_on() {
    hold(&SCENES[SCENES.len() / 2..]);
}

/// What the list says is broken is what is broken, where it says.
#[test]
fn each_rule_is_needed() {
    let missed = |rule: Rule, scene: &Scene| match search(scene, Some(rule)) {
        Found::Broken { what, .. } => what == rule.0.kinds,
        Found::Stuck { .. } => rule.0.kinds == "stuck",
        Found::Nothing { .. } | Found::Cut => false,
    };
    for rule in rules() {
        let places: Vec<_> = SCENES.iter().filter(|scene| rule.is_found_in(scene.name)).collect();
        assert!(!places.is_empty(), "{rule:?} has a scene");
        assert!(places.into_iter().all(|scene| missed(rule, scene)), "{rule:?} is missed");
    }
}

#[test]
fn no_name_stands_twice() {
    let twice = |names: Vec<&str>| (1..names.len()).find(|at| names[..*at].contains(&names[*at]));
    assert_eq!(twice(SCENES.iter().map(|scene| scene.name).collect()), None);
    assert_eq!(twice(rules().iter().map(|rule| rule.0.name).collect()), None);
}
