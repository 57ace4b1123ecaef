//! An identity that moves: every state, and each rule taken away.

use exonet_model::exhaust::Found;
use exonet_model::moving::{RULES, SCENES, search};

#[test]
fn one_place_speaks_and_has_all() {
    for scene in SCENES {
        let found = search(&scene, None);
        assert!(matches!(found, Found::Nothing { states } if states > 200), "{}: {found:#?}", scene.name);
    }
}

#[test]
fn each_rule_is_needed() {
    let noticed = |rule| SCENES.iter().any(|scene| search(scene, Some(rule)).is_noticed());
    let unnoticed: Vec<_> = RULES.into_iter().filter(|rule| !noticed(*rule)).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
