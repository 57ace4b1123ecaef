//! The outcomes that a node with a journal remembers over its lives.

use std::sync::Arc;

use super::streams::Journaled;
use super::*;
use crate::journal::Recovered;
use crate::node::PastOutcome;

fn send(both: &mut Journaled, confirm: Confirm) -> MessageKey {
    let (now, id, at) = (both.pair.now, both.pair.ends[1].id(), address(1));
    let message = Outgoing { body: Bytes::from_static(b"order"), confirm, ..Outgoing::default() };
    both.pair.ends[0].send(now, id, &[at], message).unwrap()
}

/// The receiver gives its verdict on its next message.
fn judge(both: &mut Journaled, word: Word, status: u32, reason: &str) {
    let now = both.pair.now;
    let key = both.pair.ends[1].accept(now).unwrap().key;
    assert!(both.pair.ends[1].judge(now, key, Verdict::new(word, status, reason)));
}

/// The outcomes that the node was told, in their order. An event has no number: it is that of the journal.
fn told(both: &Journaled) -> Vec<PastOutcome> {
    let reason = |of| {
        both.pair.events.iter().find_map(|event| match event {
            Event::Reason { id, reason } if *id == of => Some(Arc::from(reason.as_ref())),
            _ => None,
        })
    };
    let mut numbers = both.pair.ends[0].past_outcomes().map(|past| past.letter);
    let outcomes = both.pair.events.iter().filter_map(|event| match *event {
        Event::Outcome { peer, count, outcome, id, late, receiver_durability, .. } => {
            let (letter, bound) = (numbers.next()?, id.map(|id| (id.s, id.r)));
            let reason = id.and_then(reason);
            Some(PastOutcome { letter, peer, bound, count, outcome, late, receiver_durability, reason })
        }
        _ => None,
    });
    outcomes.collect()
}

/// The node, its journal and a snapshot remember what was told.
fn check(both: &mut Journaled) -> Vec<PastOutcome> {
    both.pass(SECOND);
    let told = told(both);
    let node = &both.pair.ends[0];
    assert!(node.past_outcomes().eq(&told), "{told:?}\n{:?}", node.past_outcomes().collect::<Vec<_>>());
    let written = Recovered::read(&both.written[0]).unwrap();
    // It has no peers that are forgotten.
    let snapshot = Recovered::read(&node.snapshot(both.pair.now)).unwrap();
    assert!(written.past_outcomes().eq(&told) && snapshot.past_outcomes().eq(&told));
    told
}

#[test]
fn outcomes_outlive_the_process_that_was_told_them() {
    let mut both = Journaled::new();
    send(&mut both, Confirm::Delivered);
    both.pass(SECOND);
    both.pair.ends[1].recv(both.pair.now).unwrap();
    assert_eq!(check(&mut both)[0].outcome, Outcome::Delivered);
    for (word, status, reason) in [(Word::Processed, 9, "done"), (Word::Rejected, 7, "no such account")] {
        send(&mut both, Confirm::Processed);
        both.pass(SECOND);
        judge(&mut both, word, status, reason);
        check(&mut both);
    }
    let cancelled = send(&mut both, Confirm::Delivered);
    both.pass(SECOND);
    both.pair.ends[0].cancel(both.pair.now, cancelled).unwrap();
    check(&mut both);
    for _ in 0..9 {
        send(&mut both, Confirm::Delivered);
    }
    both.pass(SECOND);
    while both.pair.ends[1].recv_run(both.pair.now, 9).is_some() {}
    check(&mut both);
    // The receiver loses all that it has.
    both.pair.cut(1);
    send(&mut both, Confirm::Delivered);
    both.pass(SECOND);
    both.written[1].clear();
    both.crash(1);
    both.written[1].clear();
    both.pair.mend(1);
    both.pass(60 * SECOND);
    let all = check(&mut both);
    let outcomes: Vec<_> = all.iter().map(|past| (past.outcome, past.reason.as_deref())).collect();
    assert_eq!(outcomes[1], (Outcome::Processed { status: 9 }, Some("done")));
    assert_eq!(outcomes[2], (Outcome::Rejected { status: 7, attempts: 1 }, Some("no such account")));
    assert_eq!(outcomes[3], (Outcome::Cancelled, None));
    assert_eq!(outcomes.last(), Some(&(Outcome::Unknown, None)));
    assert!(all[..3].iter().all(|past| past.receiver_durability.is_some()));

    for snapshots in [false, true] {
        if snapshots {
            both.snapshot(0);
        }
        both.crash(0);
        assert!(both.pair.ends[0].past_outcomes().eq(&all), "{snapshots}");
    }
}

/// Such a message has no id, and its number is all by which it can be asked for.
#[test]
fn the_outcome_of_a_message_that_never_left_is_remembered() {
    let mut both = Journaled::new();
    let cancelled = send(&mut both, Confirm::Delivered);
    both.pair.ends[0].cancel(both.pair.now, cancelled).unwrap();
    let all = check(&mut both);
    assert_eq!((all[0].outcome, all[0].bound, all[0].letter.get()), (Outcome::Cancelled, None, 1));
    for snapshots in [false, true] {
        if snapshots {
            both.snapshot(0);
        }
        both.crash(0);
        assert!(both.pair.ends[0].past_outcomes().eq(&all), "{snapshots}");
    }
}

/// The journal has an early message under its stamp, and its receiver knows it under an incarnation.
#[test]
fn the_journal_learns_the_id_of_an_early_message_with_its_outcome() {
    for by_verdict in [false, true] {
        let mut both = Journaled::new();
        both.pair.ends[0].cx.config.early = true;
        both.pair.now.wall = Wall(1_700_000_000_000_000_000);
        send(&mut both, Confirm::Delivered);
        both.pair.pass(Duration::ZERO);
        both.write();
        if by_verdict {
            both.pair.cut(1);
        }
        both.pair.pass(Duration::ZERO);
        let now = both.pair.now;
        let incoming = both.pair.ends[1].accept(now).unwrap();
        if by_verdict {
            let crate::id::MessageId { r, s, .. } = incoming.id;
            let (word, status, attempts, reason) = (Word::Rejected as u8, 7, 1, "no such account");
            let verdict = crate::wire::Verdict { r, s, word, status, attempts, reason };
            both.pair.with(0, |peer, cx, now| peer.on_verdict(cx, now, &verdict));
            both.pair.pump();
            both.write();
        } else {
            assert!(both.pair.ends[1].done(now, incoming.key));
        }
        let all = check(&mut both);
        assert_eq!(all[0].bound, Some((incoming.id.s, incoming.id.r)), "{by_verdict}");
    }
}

#[test]
fn a_node_without_a_journal_remembers_nothing() {
    let mut pair = Pair::open();
    pair.talk(0);
    assert!(!pair.outcomes().is_empty());
    assert_eq!(pair.ends[0].past_outcomes().count(), 0);
}
