//! Each rule is needed: the search without it finds a violation, of the kind and where the list says.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use exonet_model::{
    Bound, Explored, Limits, MUTANTS, Mutant, Space, configs, find_config, search, with_mutant,
};

fn run(mutant: &Mutant, config: &str) -> Explored {
    let config = find_config(config, Bound::Quick).unwrap();
    with_mutant(Some(mutant), || search(&mut Space::new(config, 1), Limits::default(), &mut |_, _| {}))
}

/// Every `of`th mutant from the `from`th on: the threads of the test share them.
fn are_found(from: usize, of: usize) {
    let needed = MUTANTS.iter().filter(|mutant| mutant.equivalent.is_empty());
    let mut wrong = Vec::new();
    for mutant in needed.skip(from).step_by(of) {
        for config in mutant.found_in.split_whitespace() {
            let Some(finding) = run(mutant, config).finding else {
                wrong.push(format!("{} survives in {config}", mutant.name));
                continue;
            };
            let kind = finding.violation.kind.to_string();
            if !mutant.kinds.split_whitespace().any(|expected| expected == kind) {
                wrong.push(format!("{} in {config}: {}", mutant.name, finding.violation));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_is_needed() {
    are_found(0, 2);
}

#[test]
fn every_other_rule_is_needed_too() {
    are_found(1, 2);
}

/// Quick searches find no mutant that the list calls equivalent. Tries every `of`th of these mutants, from the `from`th on.
fn survive(from: usize, of: usize) {
    let swift = ["three", "cuts", "fragments", "journal-evict", "partial"];
    let early = ["early", "early-standby", "early-strangers", "early-journal"];
    let calls = ["calls", "calls-early", "calls-crash-server", "calls-crash-caller"];
    let withdrawal = ["withdraw-both", "withdraw-crash", "withdraw-journal", "withdraw-early-journal"];
    let equivalent = MUTANTS.iter().filter(|mutant| !mutant.equivalent.is_empty());
    for mutant in equivalent.skip(from).step_by(of) {
        let where_it_would_be = match mutant.from {
            from if from.contains("Withdrawal") => &withdrawal[..],
            from if from.contains("Early") => &early[..],
            from if from.contains("Calls") => &calls,
            _ => &swift,
        };
        for config in where_it_would_be {
            let seen = run(mutant, config);
            assert!(seen.finding.is_none(), "{} in {config}: {:?}", mutant.name, seen.finding);
            assert!(seen.complete, "{} in {config}", mutant.name);
        }
    }
}

#[test]
fn what_is_equivalent_survives() {
    survive(0, 2);
}

#[test]
fn all_else_that_is_equivalent_survives_too() {
    survive(1, 2);
}

#[test]
fn the_list_names_what_there_is() {
    let names: Vec<_> = configs(Bound::Quick).iter().map(|config| config.name).collect();
    for (place, mutant) in MUTANTS.iter().enumerate() {
        assert!(MUTANTS[..place].iter().all(|other| other.name != mutant.name), "{} twice", mutant.name);
        let known = mutant.found_in.split_whitespace().all(|config| names.contains(&config));
        assert!(known && !mutant.rule.is_empty() && !mutant.from.is_empty(), "{}", mutant.name);
    }
}
