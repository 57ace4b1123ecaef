//! The rules of PROTOCOL.md "Half-connection", read from the page and searched. What a second implementation would do that
//! follows the page is what is searched here; no rule is written down a second time.
//!
//! Each wrong wording below must be found: some the page once had, some leave out a condition.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![allow(clippy::cast_sign_loss, unreachable_pub)]

mod language;
mod run;
mod trace;
mod world;
mod wrong;

use world::{Rules, Scope};

const PROTOCOL: &str = include_str!("../../../../PROTOCOL.md");

/// For a complete search: what can happen in few steps.
const NEAR: Scope = Scope {
    limits: &[
        ("receiver evict", 1),
        ("receiver end", 1),
        ("receiver start", 0),
        ("receiver restart", 0),
        ("receiver full", 0),
        ("receiver reserve", 0),
        ("sender start", 0),
        ("sender reserve", 0),
        ("sender abandon", 0),
        ("sender revoke", 0),
        ("sender renounce", 0),
    ],
    domains: &[
        ("k", &[0, 2]),
        ("stamp", &[1, 2]),
        ("g", &[1, 5]),
        ("way", &[1]),
        ("first", &[0]),
        ("cut", &[0]),
        ("ts", &[0, 1, 2]),
    ],
    constants: &[("block", 5), ("last", 12), ("N", 0)],
};

/// For walks: all that the page allows.
const FAR: Scope = Scope {
    limits: &[
        ("receiver evict", 1),
        ("receiver end", 1),
        ("receiver start", 1),
        ("receiver restart", 1),
        ("receiver full", 1),
        ("receiver reserve", 2),
        ("sender start", 1),
        ("sender reserve", 2),
        ("sender abandon", 1),
        ("sender revoke", 1),
        ("sender renounce", 1),
    ],
    domains: &[
        ("k", &[0, 1, 2]),
        ("stamp", &[1, 2, 3]),
        ("m", &[0, 1, 2]),
        ("g", &[0, 1, 5]),
        ("way", &[0, 1, 2]),
        ("ts", &[0, 1, 2, 3]),
    ],
    constants: &[("block", 5), ("last", 20), ("N", 1)],
};

/// For a complete search: nodes that start anew.
const ANEW: Scope = Scope {
    limits: &[
        ("receiver evict", 0),
        ("receiver end", 0),
        ("receiver start", 1),
        ("receiver restart", 1),
        ("receiver full", 1),
        ("receiver reserve", 2),
        ("receiver caught_up", 0),
        ("receiver forget", 1),
        ("sender start", 0),
        ("sender reserve", 2),
        ("sender abandon", 0),
        ("sender revoke", 0),
        ("sender renounce", 0),
    ],
    domains: &[
        ("k", &[0, 1]),
        ("stamp", &[1, 2]),
        ("g", &[5]),
        ("way", &[1]),
        ("first", &[0]),
        ("cut", &[0]),
        ("ts", &[0, 1, 2]),
    ],
    constants: &[("block", 2), ("last", 20), ("N", 0)],
};

/// For a complete search: a sender that starts anew, with few numbers at hand.
const SCARCE: Scope = Scope {
    limits: &[
        ("receiver evict", 0),
        ("receiver end", 0),
        ("receiver start", 0),
        ("receiver restart", 0),
        ("receiver full", 0),
        ("receiver reserve", 0),
        ("receiver caught_up", 0),
        ("receiver forget", 0),
        ("sender start", 1),
        ("sender reserve", 3),
        ("sender abandon", 0),
        ("sender revoke", 0),
        ("sender renounce", 0),
    ],
    domains: &[
        ("k", &[0]),
        ("stamp", &[1]),
        ("g", &[5]),
        ("way", &[1]),
        ("first", &[0]),
        ("cut", &[0]),
        ("ts", &[0]),
    ],
    constants: &[("block", 1), ("last", 20), ("N", 0)],
};

/// For walks: senders whose clocks are ahead.
const AHEAD: Scope = Scope {
    limits: &[
        ("receiver evict", 1),
        ("receiver end", 0),
        ("receiver start", 1),
        ("receiver restart", 1),
        ("receiver full", 1),
        ("receiver reserve", 1),
        ("receiver caught_up", 9),
        ("receiver forget", 0),
        ("sender start", 1),
        ("sender reserve", 1),
        ("sender abandon", 0),
        ("sender revoke", 0),
        ("sender renounce", 0),
    ],
    domains: &[
        ("k", &[1, 2]),
        ("stamp", &[1, 2]),
        ("g", &[5]),
        ("way", &[1, 2]),
        ("first", &[0]),
        ("cut", &[0]),
        ("ts", &[0, 1, 2]),
    ],
    constants: &[("block", 5), ("last", 12), ("N", 0)],
};

/// For walks: nothing is forgotten, so that all ends well.
const CALM: Scope = Scope {
    limits: &[
        ("receiver evict", 0),
        ("receiver end", 0),
        ("receiver start", 0),
        ("receiver restart", 0),
        ("receiver full", 0),
        ("sender start", 0),
        ("sender abandon", 0),
        ("sender revoke", 0),
        ("sender renounce", 0),
    ],
    ..FAR
};

/// For a complete search: messages that are withdrawn.
const WITHDRAWN: Scope = Scope {
    limits: &[
        ("receiver evict", 1),
        ("receiver end", 1),
        ("receiver start", 0),
        ("receiver restart", 0),
        ("receiver full", 0),
        ("receiver reserve", 0),
        ("receiver caught_up", 0),
        ("receiver forget", 0),
        ("sender start", 0),
        ("sender reserve", 0),
        ("sender abandon", 0),
        ("sender renounce", 0),
        ("sender revoke", 2),
    ],
    domains: &[
        ("k", &[1]),
        ("stamp", &[1]),
        ("m", &[0, 1]),
        ("g", &[5]),
        ("way", &[1]),
        ("first", &[0]),
        ("cut", &[0]),
        ("ts", &[0, 1]),
    ],
    constants: &[("block", 5), ("last", 12), ("N", 0)],
};

type Look = fn(&Rules) -> Result<usize, String>;

/// Where a search looks, and how: what finds most comes first.
const LOOKS: [(Scope, Look); 6] = [
    (AHEAD, |rules| rules.walk(4_000, 100)),
    (NEAR, |rules| rules.search(10_000)),
    (WITHDRAWN, |rules| rules.search(10_000)),
    (ANEW, |rules| rules.search(30_000)),
    (SCARCE, |rules| rules.search(30_000)),
    (FAR, |rules| rules.walk(1_000, 200)),
];

fn read(page: &str, scope: Scope) -> Rules {
    Rules::read(page, scope).unwrap_or_else(|error| panic!("PROTOCOL.md: {error}"))
}

#[test]
fn nothing_is_found_in_the_page_and_every_statement_runs() {
    let mut idle = read(PROTOCOL, FAR).statements();
    let found = |broken| panic!("{broken}");
    for (scope, look) in LOOKS {
        let rules = read(PROTOCOL, scope);
        look(&rules).unwrap_or_else(found);
        idle.retain(|line| !rules.ran.borrow()[*line]);
    }
    // Numbers do not end in a small world, and no disk in it is put back to an earlier state.
    let lines: Vec<_> = PROTOCOL.lines().collect();
    let idle: Vec<_> =
        idle.into_iter().map(|line| (lines[line - 2].trim(), lines[line - 1].trim())).collect();
    let never = [
        ("if s in passed:", "remove (s, r1, m) from S.tokens"),
        ("remove (s, r1, m) from S.tokens", "report m Unknown"),
        ("if s in passed:", "remove (s, m) from S.early"),
        ("remove (s, m) from S.early", "report m Unknown"),
        ("if s + n > last:", "stop"),
    ];
    assert_eq!(idle, never, "never ran");
}

#[test]
fn all_messages_are_delivered_and_both_records_go() {
    let quiet = read(PROTOCOL, CALM).walk(500, 400).unwrap();
    assert!(quiet > 0);
}

/// Every `of`th wrong wording from the `from`th on: the threads of the test share them.
fn are_found(from: usize, of: usize) {
    let mut missed = Vec::new();
    for (what, pieces) in wrong::WRONG.iter().skip(from).step_by(of) {
        let page = pieces.iter().fold(PROTOCOL.to_owned(), |page, (right, wrong)| {
            assert_eq!(page.matches(right).count(), 1, "{what}: the page does not say any more: {right}");
            page.replace(right, wrong)
        });
        let found = LOOKS.iter().find_map(|(scope, look)| look(&read(&page, *scope)).err());
        match found {
            Some(found) => println!("{what}:\n{found}"),
            None => missed.push(what),
        }
    }
    assert!(missed.is_empty(), "nothing is found: {missed:#?}");
}

#[test]
fn each_wrong_wording_is_found() {
    are_found(0, 2);
}

#[test]
fn each_other_wrong_wording_is_found() {
    are_found(1, 2);
}

#[test]
fn the_traces_of_the_page_are_what_its_rules_do() {
    for name in ["loss", "early", "forgotten"] {
        let (written, played) = trace::play(PROTOCOL, name);
        assert_eq!(written, played, "wanted:\n{}", played.join("\n"));
    }
}

/// What the lists of mutants cite is a section.
#[test]
fn the_sections_that_are_cited_exist() {
    const IMPLEMENTATION: &str = include_str!("../../../../docs/implementation.md");
    const LISTS: [&str; 4] = [
        include_str!("../../mutants/half.txt"),
        include_str!("../../mutants/calls.txt"),
        include_str!("../../mutants/core.txt"),
        include_str!("../../mutants/streams.txt"),
    ];
    let lines = PROTOCOL.lines().chain(IMPLEMENTATION.lines()).filter(|line| line.starts_with('#'));
    let titles: Vec<_> = lines.map(|line| line.trim_start_matches('#').trim()).collect();
    for cited in LISTS.iter().flat_map(|list| list.split("\nfrom: PROTOCOL \"").skip(1)) {
        let title = cited.split('"').next().unwrap();
        assert!(titles.contains(&title), "no section: {title}");
    }
}

/// The prose of the norm can be read in one go: all words but those of fenced blocks, tables, and "Vectors and traces".
#[test]
fn the_prose_of_the_norm_is_short() {
    let norm = PROTOCOL.split("\n## Vectors and traces\n").next().unwrap();
    // Every second part lies within a fence.
    let words = norm
        .split("\n```")
        .step_by(2)
        .flat_map(str::lines)
        .filter(|line| !line.starts_with('|'))
        .flat_map(str::split_whitespace)
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .count();
    assert!((1..=9_000).contains(&words), "{words} words: move what is no rule to docs/implementation.md");
}

/// What the language does not have is an error, and is not passed over.
#[test]
fn what_cannot_be_read_is_an_error() {
    for wrong in ["x is 1", "if x", "send ASK", "add x", "y = x +", "y = z", "stop now, please"] {
        let page = format!("```exo sender\nstate x = 0\nevent e:\n  {wrong}\n```\n```exo receiver\n```\n");
        assert!(Rules::read(&page, NEAR).is_err(), "{wrong}");
    }
}
