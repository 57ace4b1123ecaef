//! Generated worlds from the command line.
use crate::support::World;
use serde_json::Value;

fn summary(lines: &[Value]) -> Value {
    let last = lines.last().unwrap().clone();
    assert_eq!(last["type"], "summary");
    for field in
        ["seeds", "messages", "calls", "crashes", "partitions", "virtual_hours", "seconds", "violations"]
    {
        assert!(last[field].is_number(), "{field}: {last}");
    }
    last
}

#[test]
fn sound_worlds_end_well() {
    let args = ["sim", "--seeds", "3", "--first-seed", "5", "--profile", "all", "--jobs", "2", "--json"];
    let last = summary(&World::new().run(&args).expect(0).lines());
    assert_eq!((&last["seeds"], &last["violations"], &last["end"]), (&3.into(), &0.into(), &"done".into()));
    assert!(last["messages"].as_u64().unwrap() > 1_000, "{last}");
    assert!(last["coverage"]["delivered"].as_u64().unwrap() > 1_000, "{last}");
    assert!(last["calls"].as_u64().unwrap() > 10, "{last}");
}

#[test]
fn a_violation_is_told_and_comes_again() {
    let args = ["sim", "--seed", "2", "--profile", "rollback", "--json"];
    let ended = World::new().run(&args).expect(1);
    let violation = ended.of_type("violation").pop().unwrap();
    assert_eq!(summary(&ended.lines())["violations"], 1);
    let told = violation["violation"].as_str().unwrap();
    assert!(told.starts_with(&format!("step {}, 0:", violation["step"])), "{told}");
    assert!(told.contains(" from n") && told.contains(" to n"), "nodes as in the trace: {told}");
    let schedule = violation["schedule"].as_str().unwrap();
    assert!(schedule.lines().count() < 14 && schedule.contains("forgets D"), "{schedule}");

    let world = World::new();
    let file = world.file("schedule", schedule.as_bytes());
    let again = world.run(&["sim", "--replay", crate::support::arg(&file), "--trace"]).expect(1);
    for word in ["* n4 crashes", "says opening", "takes m0", "VIOLATION"] {
        assert!(again.stdout.contains(word), "{word}: {}", again.stdout);
    }
}

#[test]
fn the_last_seed_is_followed_by_the_first() {
    let last = u64::MAX.to_string();
    let args = ["sim", "--seeds", "2", "--first-seed", &last, "--profile", "calm", "--jobs", "1", "--json"];
    assert_eq!(summary(&World::new().run(&args).expect(0).lines())["seeds"], 2);
}

#[test]
fn profiles_are_listed() {
    let listed = World::new().run(&["sim", "--profile", "list"]).expect(0).stdout;
    for name in ["default", "lossy", "slow-apps", "calm", "rollback", "all"] {
        assert!(listed.contains(&format!("  {name} ")), "{name}: {listed}");
    }
}

/// As `head` does when it has enough.
#[test]
fn a_trace_that_is_read_no_further_ends_without_a_word() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let world = World::new();
    let mut command = world.command(&["sim", "--seed", "1", "--profile", "calm", "--trace"]);
    let ended = command.stdout(writer).output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(1), ""));
}

#[test]
fn a_trace_for_a_script_has_a_line_of_json_for_each_line() {
    let args = ["sim", "--seed", "1", "--profile", "calm", "--trace"];
    let text = World::new().run(&args).expect(0).stdout;
    let lines = World::new().run(&[&args[..], &["--json"]].concat()).expect(0).of_type("trace");
    assert!(lines.len() > 100);
    assert!(lines.iter().zip(text.lines()).all(|(line, text)| line["line"] == text));
}
