//! Outbox and inbox in databases: every state, and each rule taken away.

use exonet_model::exhaust::Found;
use exonet_model::sql::{RESTORED_LATE, RULES, Rule, SCENES, search};

#[test]
fn every_row_is_processed_once_and_nothing_is_kept() {
    for scene in SCENES {
        let found = search(&scene, None);
        assert!(matches!(found, Found::Nothing { states } if states > 200), "{}: {found:#?}", scene.name);
    }
}

#[test]
fn each_rule_is_needed() {
    let noticed = |rule: &Rule| SCENES.iter().any(|scene| search(scene, Some(*rule)).is_noticed());
    let unnoticed: Vec<_> = RULES.iter().filter(|rule| !noticed(rule)).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}

#[test]
fn a_backup_that_is_older_than_what_is_kept_doubles() {
    assert!(matches!(search(&RESTORED_LATE, None), Found::Broken { what: "processed twice", .. }));
}
