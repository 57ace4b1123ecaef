//! Generated worlds of every profile: no promise breaks, everything is forgotten, and faults are found.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::time::Duration;

use exonet_sim::scenario::{Coverage, Profile, Scenario, Schedule, Trim, What, run, run_traced, shrink};

/// Runs some seeds of a profile; returns the coverage.
fn sound(profile: Profile, seeds: core::ops::Range<u64>) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in seeds {
        let report = run(&Scenario::generate(seed, profile));
        assert!(report.findings.is_empty(), "{report}");
        coverage.merge(&report.coverage);
    }
    coverage
}

/// The world of a seed, with messages instead of calls.
fn without_calls(seed: u64, profile: Profile) -> Scenario {
    let mut scenario = Scenario::generate(seed, profile);
    for (_, action) in &mut scenario.actions {
        if let What::Send { call, .. } = &mut action.what {
            *call = false;
        }
    }
    scenario
}

#[test]
fn default() {
    for seed in 0..4 {
        let report = run(&Scenario::generate(seed, Profile::Default));
        assert!(report.findings.is_empty(), "{report}");
        assert!(report.totals.sent >= 1_000, "{report}");
        assert!(report.lasted >= Duration::from_secs(600), "{report}");
        assert!(report.totals.replies > 10, "{report}");
        assert!(report.coverage.0.len() > 10, "several kinds of fault: {:?}", report.coverage);
    }
}

#[test]
fn lossy() {
    sound(Profile::Lossy, 0..2);
}

#[test]
fn partitions() {
    sound(Profile::Partitions, 0..2);
}

/// Without the faults that are drawn separately: orderly ends, disks that are full or stuck.
fn without_further(mut scenario: Scenario) -> Scenario {
    let further = |what: &What| matches!(what, What::Leave(..) | What::FullDisk(_) | What::StuckDisk(..));
    scenario.actions.retain(|(_, action)| !further(&action.what));
    scenario
}

/// Each world in which a fault was once found ends without one.
#[test]
fn what_was_found_stays_mended() {
    let mut worlds = 0;
    for line in include_str!("found.txt").lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (profile, seed) = (words[0].parse().unwrap(), words[1].parse().unwrap());
        let calls = words[2] != "messages";
        let scenario = if calls { Scenario::generate(seed, profile) } else { without_calls(seed, profile) };
        for scenario in [without_further(scenario.clone()), scenario] {
            let report = run(&scenario);
            assert!(report.findings.is_empty(), "{line}\n{report}");
            worlds += 1;
        }
    }
    assert_eq!(worlds, 30);
}

/// An echo of an opening brings grants, the way back is cut for more than an hour, and the peer, which has not proven
/// that it is there, is given up while its node is polled: bound messages end Unknown, and rightly so.
#[test]
fn an_unproven_peer_is_given_up() {
    let report = run(&without_further(without_calls(2_774, Profile::Partitions)));
    assert!(report.findings.is_empty() && report.coverage.of("evictions") > 0, "{report}");
}

#[test]
fn crashes() {
    let mut coverage = sound(Profile::Crashes, 0..8);
    // Here many messages are queued for a node that ends for good.
    coverage.merge(&sound(Profile::Crashes, 72..73));
    for kind in ["crashes", "ends", "ends_heard", "ends_for_good", "went_on_elsewhere"] {
        assert!(coverage.of(kind) > 0, "{kind}: {coverage:?}");
    }
}

#[test]
fn roaming() {
    let coverage = sound(Profile::Roaming, 0..2);
    assert!(coverage.of("addresses_looked_up") > 0, "{coverage:?}");
}

#[test]
fn clocks() {
    sound(Profile::Clocks, 0..2);
}

#[test]
fn disks() {
    let coverage = sound(Profile::Disks, 0..3);
    for kind in ["full_disks", "stuck_disks", "writes_failed", "ends_heard"] {
        assert!(coverage.of(kind) > 0, "{kind}: {coverage:?}");
    }
}

#[test]
fn slow_apps() {
    sound(Profile::SlowApps, 0..2);
}

#[test]
fn bulk() {
    sound(Profile::Bulk, 0..1);
}

#[test]
fn crowd() {
    sound(Profile::Crowd, 0..1);
}

#[test]
fn calls() {
    let coverage = sound(Profile::Calls, 106..110);
    for kind in ["calls_interrupted", "replies_forgotten", "crashes", "cancelled", "abandoned"] {
        assert!(coverage.of(kind) > 0, "{kind}: {coverage:?}");
    }
}

#[test]
fn moves() {
    let mut coverage = sound(Profile::Moves, 0..6);
    // Here an opening with an early message was in flight to the former place while the new one was met.
    coverage.merge(&sound(Profile::Moves, 17..18));
    for kind in [
        "moves",
        "moves_that_failed",
        "moves_into_a_crash",
        "moves_with_a_copy",
        "moves_to_two_places",
        "copies_told",
    ] {
        assert!(coverage.of(kind) > 0, "{kind}: {coverage:?}");
    }
}

/// Every call has its reply.
#[test]
fn calm() {
    for seed in 0..2 {
        let report = run(&Scenario::generate(seed, Profile::Calm));
        assert!(report.findings.is_empty(), "{report}");
        assert!(report.totals.calls > 10 && report.totals.replies == report.totals.calls, "{report}");
    }
}

fn story(seed: u64) -> (String, u64) {
    let mut story = String::new();
    let report = run_traced(&Scenario::generate(seed, Profile::Default), &mut |lines| story.push_str(lines));
    (story, report.fingerprint)
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let (first, fingerprint) = story(7);
    assert_eq!(story(7), (first.clone(), fingerprint), "to the byte");
    assert_eq!(run(&Scenario::generate(7, Profile::Default)).fingerprint, fingerprint, "told or not");
    for word in ["sends m0 ", "says opening", "gets data", "takes m0\n", "hears that m0 is Delivered", "* "] {
        assert!(first.contains(word), "{word}");
    }
    assert_ne!(story(8).1, fingerprint);
}

#[test]
fn a_disk_that_forgets_is_found_out_and_shrunk_to_little() {
    let broken = |seed| {
        let schedule = Schedule::full(seed, Profile::Rollback);
        (!run(&schedule.scenario()).findings.is_empty()).then_some(schedule)
    };
    let schedule = (0..50).find_map(broken).unwrap();
    let shrunk = shrink(&schedule, 1_000).unwrap();
    let text = shrunk.schedule.to_string();
    assert!(shrunk.schedule.kept.len() <= 5, "{text}{}", shrunk.report);
    assert!(text.contains("its disk forgets D"), "{text}");
    let again: Schedule = text.parse().unwrap();
    assert_eq!(again, shrunk.schedule);
    assert_eq!(run(&again.scenario()), shrunk.report, "{text}");
    // Each action is needed.
    for number in shrunk.schedule.kept.keys() {
        let mut less = shrunk.schedule.clone();
        less.kept.remove(number);
        let kinds: Vec<_> = run(&less.scenario()).findings.iter().map(|finding| finding.kind()).collect();
        assert!(kinds.first() != Some(&shrunk.report.findings[0].kind()), "{number} is not needed:\n{text}");
    }
}

#[test]
fn a_schedule_is_text() {
    let mut schedule = Schedule::full(3, Profile::Default);
    schedule.kept.retain(|number, _| number % 7 == 0);
    *schedule.kept.get_mut(&14).unwrap() =
        Trim { count: Some(2), size: Some(9), span: Some(Duration::from_micros(5)), plain: true };
    (schedule.plain_links, schedule.plain_nodes) = (true, true);
    let text = schedule.to_string();
    assert_eq!(text.parse(), Ok(schedule));
    for (from, to) in [("exonet", "exo"), ("\nseed", "\nseat"), ("scenario ", "scenario f"), ("\n7 ", "\nx ")]
    {
        assert!(text.replacen(from, to, 1).parse::<Schedule>().is_err(), "{from}");
    }
}
