//! The demo keeps its promises, and shows that the usual way does not.
use crate::support::World;
use serde_json::Value;

/// The last line, which has exactly these fields.
fn figures(lines: &[Value]) -> Value {
    let last = lines.last().unwrap().clone();
    let mut fields: Vec<&String> = last.as_object().unwrap().keys().collect();
    fields.sort();
    let wanted = [
        "delivered",
        "duplicates",
        "lost",
        "msgs_per_s",
        "records_left",
        "seconds",
        "seed",
        "sent",
        "unknown",
    ];
    assert_eq!(fields, wanted.iter().collect::<Vec<_>>());
    last
}

#[test]
fn without_a_crash_everything_arrives_once() {
    let args = ["demo", "--no-crash", "--json", "--messages", "2000", "--seed", "11"];
    let last = figures(&World::new().run(&args).expect(0).lines());
    for (name, value) in [("sent", 2_000), ("delivered", 2_000), ("seed", 11)] {
        assert_eq!(last[name], value, "{name}");
    }
    for name in ["duplicates", "lost", "unknown", "records_left"] {
        assert_eq!(last[name], 0, "{name}");
    }
}

#[test]
fn with_a_crash_nothing_is_lost_or_doubled() {
    let ended = World::new().run(&["demo", "--json", "--messages", "2000", "--seed", "12"]).expect(0);
    let last = figures(&ended.lines());
    for name in ["duplicates", "lost", "records_left"] {
        assert_eq!(last[name], 0, "{name}");
    }
    let count = |name: &str| last[name].as_u64().unwrap();
    assert_eq!(count("delivered") + count("unknown"), 2_000);
    let events: Vec<String> =
        ended.of_type("event").iter().map(|line| line["event"].as_str().unwrap().to_owned()).collect();
    for word in ["down", "back", "port", "killed", "moves"] {
        assert!(events.iter().any(|event| event.contains(word)), "{word}: {events:?}");
    }
    // Five in a hundred acknowledgements are lost: who does not remember takes those messages twice.
    let compared = ended.of_type("compared");
    let plain = compared.iter().find(|line| line["side"] == "retry").unwrap();
    assert!(plain["duplicates"].as_u64().unwrap() > 0, "{plain}");
    assert!(plain["lost"].as_u64().unwrap() > 0, "{plain}");
}

#[test]
fn where_nobody_watches_it_speaks_in_lines() {
    let args = ["demo", "--no-crash", "--messages", "500", "--outage", "0", "--seed", "13"];
    let ended = World::new().run(&args).expect(0);
    assert!(!ended.stdout.contains('\u{1b}'), "no escape sequences in a pipe");
    assert!(
        ended.stdout.contains("exon demo --seed 13 --messages 500 --outage 0ms --no-crash"),
        "{}",
        ended.stdout
    );
}

#[test]
fn with_journals_nothing_is_unknown_though_both_ends_are_killed() {
    let args = ["demo", "--journal", "--json", "--messages", "2000", "--seed", "14"];
    let ended = World::new().run(&args).expect(0);
    let last = ended.lines().pop().unwrap();
    for (name, value) in [("sent", 2_000), ("delivered", 2_000), ("crashes", 2), ("seed", 14)] {
        assert_eq!(last[name], value, "{name}: {last}");
    }
    for name in ["duplicates", "lost", "unknown", "records_left"] {
        assert_eq!(last[name], 0, "{name}: {last}");
    }
    assert_eq!(last.as_object().unwrap().len(), 10, "{last}");
    let compared = ended.of_type("compared");
    let sides: Vec<&str> = compared.iter().map(|line| line["side"].as_str().unwrap()).collect();
    assert_eq!(sides, ["exonet", "retry + dedup", "retry"]);
    let [delivered, unknown] = ["delivered", "unknown"].map(|name| compared[0][name].as_u64().unwrap());
    assert_eq!(delivered + unknown, 2_000);
    let events: Vec<String> =
        ended.of_type("event").iter().map(|line| line["event"].as_str().unwrap().to_owned()).collect();
    for words in ["receivers are killed", "sender with a journal is killed", "of its journal"] {
        assert!(events.iter().any(|event| event.contains(words)), "{words}: {events:?}");
    }
}
