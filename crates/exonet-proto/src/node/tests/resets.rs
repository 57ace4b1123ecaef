//! RESET: what a restarted node says, and to whom; what a RESET ends, and what it does not end.

use super::*;
use crate::opening::resets::Resets;
use crate::wire::{ChannelIndex, Datagram, MIN_DATA, RESET, ResetToken, data_header, reset};

const RESET_KIND: u8 = 0x15;

/// Two stored nodes with a channel between them, each in its second life.
fn stored() -> Pair {
    let mut pair = Pair::open();
    for end in [0, 1, 0, 1] {
        pair.restart(end, config());
    }
    pair.talk(0);
    pair
}

/// A data packet for the channel whose index `end` has chosen, with any content.
fn stray(index: ChannelIndex) -> Vec<u8> {
    [&data_header(index, 7)[..], &[0; 16]].concat()
}

/// The RESET that `pair.ends[1]`, which has just restarted, sends about its former channel. It does not arrive.
fn said_by_restarted(pair: &mut Pair) -> Vec<u8> {
    let index = pair.epoch(1).index;
    pair.restart(1, config());
    pair.deliver(1, 0, &stray(index));
    let mut said = pair.says(1);
    assert_eq!(said.len(), 1);
    said.remove(0).1
}

#[test]
fn a_restart_is_found_within_a_round_trip() {
    let mut pair = stored();
    pair.restart(1, config());
    let key = pair.send(0, 100);
    pair.pass(5 * MS);
    assert_eq!(pair.ends[0].counts().resets_heeded, 1);
    assert!(pair.outcomes().contains(&(key, Outcome::Unknown, false)));
    let next = pair.send(0, 100);
    pair.pass(5 * MS);
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(5 * MS);
    assert!(pair.outcomes().contains(&(next, Outcome::Delivered, false)));
}

#[test]
fn what_is_known_of_the_path_outlives_a_reset() {
    let mut pair = stored();
    // One acknowledgement is late.
    pair.cut(1);
    pair.send(0, 100);
    pair.pass(40 * MS);
    for late in pair.mend(1) {
        pair.deliver(0, 1, &late);
    }
    pair.pass(5 * MS);
    let said = said_by_restarted(&mut pair);
    let before = pair.peer(0).link.recovery.rtt().smoothed();
    assert!(before > 4 * MS, "{before:?}");
    pair.deliver(0, 1, &said);
    pair.send(0, 100);
    pair.pass(5 * MS);
    assert_eq!((pair.ends[0].counts().resets_heeded, pair.handshakes(1)), (1, 1));
    let rtt = pair.peer(0).link.recovery.rtt().smoothed();
    assert!(rtt > before / 2, "{before:?}, then {rtt:?}");
}

#[test]
fn a_reset_is_shorter_than_what_it_answers_and_repeats_its_index() {
    let mut pair = stored();
    let index = pair.epoch(1).index;
    let mut said = said_by_restarted(&mut pair);
    assert!(said.len() == RESET && RESET < MIN_DATA);
    let Ok(Datagram::Reset(parsed)) = Datagram::parse(&mut said) else { panic!("{said:?}") };
    assert_eq!(parsed.index, index);
}

#[test]
fn a_reset_that_bears_another_token_or_index_ends_nothing() {
    let mut pair = stored();
    let said = said_by_restarted(&mut pair);
    for bit in 0..8 * (RESET - 1) {
        let mut forged = said.clone();
        forged[1 + bit / 8] ^= 1 << (bit % 8);
        pair.deliver(0, 1, &forged);
        assert!(pair.peer(0).link.is_connected(), "bit {bit}");
    }
    assert_eq!((pair.says(0), pair.ends[0].counts().resets_heeded), (Vec::new(), 0));
    pair.deliver(0, 1, &said);
    assert!(!pair.peer(0).link.is_connected());
}

#[test]
fn a_reset_comes_from_anywhere_and_once() {
    let mut pair = stored();
    let said = said_by_restarted(&mut pair);
    pair.deliver(0, 7, &said);
    assert_eq!(pair.ends[0].counts().resets_heeded, 1, "who has restarted may be elsewhere");
    pair.talk(0);
    for _ in 0..3 {
        pair.deliver(0, 1, &said);
        assert!(pair.peer(0).link.is_connected());
        assert_eq!(pair.says(0), []);
    }
    assert_eq!(pair.ends[0].counts().resets_heeded, 1);
}

#[test]
fn a_reset_is_never_answered() {
    let mut pair = stored();
    let said = said_by_restarted(&mut pair);
    for end in [1, 0] {
        pair.deliver(end, 1 - end, &said);
        assert_eq!(pair.says(end), [], "nothing is to be said, so no opening leaves either");
    }
}

#[test]
fn two_nodes_that_have_both_restarted_end_in_silence() {
    let mut pair = stored();
    let indices = [pair.epoch(0).index, pair.epoch(1).index];
    pair.restart(0, config());
    pair.restart(1, config());
    for (end, index) in indices.into_iter().enumerate() {
        pair.deliver(end, 1 - end, &stray(index));
    }
    pair.cut(0);
    pair.pump();
    assert_eq!(pair.mend(0).iter().map(Vec::len).collect::<Vec<_>>(), [RESET]);
    pair.pump();
    assert_eq!([0, 1].map(|end| pair.ends[end].counts().datagrams_out), [1, 1]);
}

#[test]
fn a_node_says_nothing_of_indices_of_this_life() {
    let mut pair = stored();
    let index = pair.epoch(1).index.0;
    for other in (0..4_000).map(|n| index.wrapping_add(4 * n)) {
        pair.deliver(1, 0, &stray(ChannelIndex(other)));
        pair.now.mono += MS;
    }
    assert_eq!((pair.says(1), pair.ends[1].counts().resets_sent), (Vec::new(), 0));
}

#[test]
fn a_node_answers_of_other_lives_whether_or_not_they_had_the_index() {
    let mut pair = stored();
    pair.restart(1, config());
    let mut answered = 0;
    for n in 0..400_u32 {
        pair.deliver(1, 0, &stray(ChannelIndex(n.wrapping_mul(0x9e37_79b9))));
        pair.now.mono += MS;
        answered += pair.says(1).len();
    }
    // The third life speaks for the first two. There was no life before these.
    assert!((150..250).contains(&answered), "{answered}");
}

#[test]
fn an_ephemeral_node_announces_no_token_and_says_nothing() {
    let mut pair = Pair::open();
    pair.talk(0);
    assert!(pair.epoch(0).reset_tag.is_none() && pair.epoch(1).reset_tag.is_none());
    for n in 0..64_u32 {
        pair.deliver(1, 0, &stray(ChannelIndex(n.wrapping_mul(0x0fff_ffff))));
    }
    assert_eq!(pair.says(1), []);
}

#[test]
fn nothing_is_said_before_the_life_is_on_the_disk() {
    let mut pair = stored();
    let index = pair.epoch(1).index;
    let key = SecretKey::from_bytes(*pair.ends[1].cx.key.expose());
    let boot = Boot::Stored {
        clock: 1 << 50,
        life: 2,
        latest: crate::id::Stamp::NONE,
        strays: Vec::new(),
        notes: None,
        journal: None,
    };
    pair.ends[1] = Node::new(config(), key, boot, [9; 32], pair.now);
    pair.deliver(1, 0, &stray(index));
    assert_eq!(pair.says(1), []);
    let batch = pair.ends[1].poll_persist().unwrap();
    assert_eq!(batch.life, 3);
    pair.ends[1].handle_persisted(pair.now, batch.lsn);
    pair.deliver(1, 0, &stray(index));
    assert_eq!(pair.says(1).len(), 1);
}

#[test]
fn either_epoch_of_a_channel_shows_that_the_peer_has_restarted() {
    let mut pair = stored();
    let former = pair.epoch(1).index;
    pair.send(0, 100);
    pair.renew(0);
    assert!(pair.peer(0).link.previous.is_some() && pair.epoch(1).index != former);
    pair.restart(1, config());
    pair.deliver(1, 0, &stray(former));
    let said = pair.says(1).remove(0).1;
    pair.deliver(0, 1, &said);
    assert!(!pair.peer(0).link.is_connected());
    let mut known = 0;
    pair.ends[0].audit(|holding| known += if holding.what == "tokens of peers" { holding.held } else { 0 });
    assert_eq!(known, 0, "tokens go with their epochs");
}

#[test]
fn what_a_reset_ends_is_opened_again_at_once_where_the_peer_was() {
    let mut pair = stored();
    let said = said_by_restarted(&mut pair);
    pair.cut(0);
    pair.send(0, 100);
    pair.pump();
    pair.mend(0);
    pair.deliver(0, 1, &said);
    let said = pair.says(0);
    assert_eq!(said.iter().map(|(to, one)| (*to, one[0])).collect::<Vec<_>>(), [(address(1), 0x11)]);
}

#[test]
fn resets_have_a_rate_for_all_for_a_prefix_and_for_an_index() {
    let mut resets = Resets::new(&[0; 32]);
    let prefix = |n: u32| Prefix::told((0x0a00_0000 + (n << 8)).to_be_bytes().into());
    let mut index = (0..).map(ChannelIndex);
    let mut next = || index.next().unwrap();
    let mut admitted = |resets: &mut Resets, ms: u64, tries: u32, prefix: &dyn Fn(u32) -> Option<Prefix>| {
        (0..tries).filter(|n| resets.admit(Mono(ms * 1_000_000), next(), prefix(*n))).count()
    };
    assert_eq!(admitted(&mut resets, 0, 1_000, &|_| prefix(0)), 10);
    assert_eq!(admitted(&mut resets, 19, 1_000, &|_| prefix(0)), 0);
    assert_eq!(admitted(&mut resets, 20, 1_000, &|_| prefix(0)), 10);
    assert_eq!(admitted(&mut resets, 40, 1_000, &|_| None), 163, "of one machine, what there is");
    assert_eq!(admitted(&mut resets, 60, 1_000, &|n| prefix(n)), 163);
    let twice = ChannelIndex(1 << 30);
    assert!(resets.admit(Mono(80_000_000), twice, None));
    assert!(!resets.admit(Mono(99_000_000), twice, None));
    assert!(resets.admit(Mono(100_000_000), twice, None));
}

#[test]
fn a_peer_that_announces_one_token_twice_harms_itself_alone() {
    let mut resets = Resets::new(&[0; 32]);
    let (token, [one, two]) = (ResetToken([5; 16]), [1, 2].map(ChannelIndex));
    let tag = resets.expect(&token, one);
    assert_eq!(resets.expect(&token, two), tag);
    resets.forget(&tag, one);
    assert_eq!(resets.known(), 1, "it stands for the later epoch");
    resets.forget(&tag, two);
    assert_eq!(resets.known(), 0);
}

#[test]
fn nothing_more_is_bound_to_slots_of_the_former_life() {
    let mut pair = stored();
    // Many envelopes are wanted for small messages, and few for large ones: so no ASK leaves to get more.
    pair.send(0, 1);
    pair.pass(5 * MS);
    let said = said_by_restarted(&mut pair);
    assert!(pair.peer(0).outbound.sender.as_ref().unwrap().envelopes() > 100);
    pair.deliver(0, 1, &said);
    let keys: Vec<_> = (0..20).map(|_| pair.send(0, 1_000)).collect();
    pair.pass(5 * MS);
    while pair.ends[1].recv(pair.now).is_some() {}
    pair.pass(5 * MS);
    let outcomes = pair.outcomes();
    assert!(keys.iter().all(|key| outcomes.contains(&(*key, Outcome::Delivered, false))), "{outcomes:?}");
}

#[test]
fn a_reset_has_the_kind_that_the_document_says() {
    assert_eq!(reset(ChannelIndex(0x0bad_f00d), &[1; 16])[..5], [RESET_KIND, 0x0b, 0xad, 0xf0, 0x0d]);
}
