//! Keys: how long they serve, and which ones are used.

use super::*;

#[test]
fn keys_on_which_too_much_was_forged_are_not_used_again() {
    let mut pair = Pair::open();
    pair.talk(0);
    let epoch = pair.epoch(1);
    let limit = epoch.suite.forgery_limit(65_527);
    epoch.forged = limit - 2;
    let mut forged = crate::wire::data_header(epoch.index, 1_000).to_vec();
    forged.resize(100, 7);
    pair.deliver(1, 0, &forged);
    assert!(pair.peer(1).link.is_connected(), "one below");
    pair.deliver(1, 0, &forged);
    assert!(!pair.peer(1).link.is_connected());
}

#[test]
fn keys_that_have_sealed_all_they_may_seal_nothing_more() {
    let mut pair = Pair::open();
    pair.talk(0);
    let limit = pair.epoch(0).suite.seal_limit(65_527);
    pair.epoch(0).sealed = limit;
    pair.send(0, 100);
    let mut first = Vec::new();
    pair.ends[0].poll_transmit(pair.now, 1, &mut first).unwrap();
    assert_eq!(first[0] & 0xf, 1, "an opening");
    assert!(!pair.peer(0).link.is_connected());
}

#[test]
fn keys_are_renewed_when_they_have_sealed_half_of_what_they_may() {
    let mut pair = Pair::open();
    pair.talk(0);
    let limit = pair.epoch(0).suite.seal_limit(65_527);
    pair.epoch(0).sealed = limit / 2 - 1_000;
    pair.talk(0);
    assert_eq!(pair.handshakes(0), 1, "not yet");
    pair.epoch(0).sealed = limit / 2;
    pair.talk(0);
    assert_eq!(pair.handshakes(0), 2);
    assert!(pair.epoch(0).sealed < 1_000);
}

#[test]
fn no_number_is_used_twice_under_a_key() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.cut(0);
    for _ in 0..4 {
        pair.send(0, 100);
        pair.pass(MS);
    }
    let said = pair.mend(0);
    let numbers: BTreeSet<_> = said.iter().filter(|one| one[0] & 0xf == 4).map(|one| &one[5..9]).collect();
    assert!(numbers.len() >= 4 && numbers.len() == said.len(), "{numbers:?} of {} packets", said.len());
}

#[test]
fn who_acknowledges_nothing_is_not_talked_to_for_ever() {
    let mut pair = Pair::open();
    pair.talk(0);
    let now = pair.now.mono;
    let link = &mut pair.peer(0).link;
    let epoch = link.current.as_deref_mut().unwrap();
    while epoch.sent.remembered() <= crate::peer::MAX_REMEMBERED {
        link.recovery.on_sent(now, &mut epoch.sent, PacketInfo::ack(30));
    }
    pair.send(0, 100);
    let mut first = Vec::new();
    pair.ends[0].poll_transmit(pair.now, 1, &mut first).unwrap();
    assert_eq!(first[0] & 0xf, 1, "an opening");
}

#[test]
fn who_began_the_keys_renews_them_first() {
    let mut pair = Pair::open();
    pair.talk(0);
    let ages = [0, 1].map(|end| {
        let config = config();
        let link = &mut pair.peer(end).link;
        let born = link.current.as_ref().unwrap().born;
        link.used_at = born + MS;
        link.rekey_at(&config).since(born)
    });
    assert_eq!(ages, [120 * SECOND, 150 * SECOND]);
}

/// The larger id opens `apart` after the smaller one has. Returns whether each end began the epoch that both use in the end.
fn crossed(apart: Duration) -> [bool; 2] {
    let mut pair = Pair::open();
    pair.talk(0);
    let idle = 2 * SECOND;
    pair.pass(apart.saturating_sub(idle));
    pair.renew(1);
    assert_eq!(pair.handshakes(1), 2);
    let (ours, theirs) = (pair.epoch(0).index, pair.epoch(1).remote);
    assert_eq!(ours, theirs, "both use the same keys");
    [0, 1].map(|end| pair.epoch(end).initiator)
}

#[test]
fn openings_cross_for_five_seconds_and_then_the_smaller_id_wins() {
    assert_eq!(crossed(4 * SECOND), [true, false]);
    assert_eq!(crossed(6 * SECOND), [false, true]);
}

#[test]
fn under_older_keys_nothing_is_new() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.cut(0);
    pair.send(0, 100);
    pair.pump();
    let late = pair.mend(0);
    assert_eq!(late[0][0] & 0xf, 4, "a packet under the old keys");
    pair.renew(0);
    assert_eq!(pair.handshakes(1), 2);
    assert!(pair.peer(1).link.previous.is_some());
    pair.deliver(1, 7, &late[0]);
    assert!(pair.peer(1).link.roaming.as_ref().unwrap().mirror().is_none(), "a copy from elsewhere");
}

#[test]
fn new_keys_are_confirmed_though_there_is_nothing_to_say() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.pass(SECOND);
    pair.renew(0);
    assert_eq!(pair.handshakes(1), 2);
}

#[test]
fn a_restart_crosses_nothing_and_ends_what_was_before() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.restart(1, config());
    pair.send(1, 100);
    pair.pump();
    assert!(!pair.epoch(0).initiator, "the new keys are used");
    assert!(pair.peer(0).link.previous.is_none(), "who had the old ones is gone");
}

#[test]
fn a_packet_that_comes_twice_is_taken_once() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.cut(0);
    pair.send(0, 100);
    pair.pump();
    let packet = pair.mend(0).remove(0);
    let before = *pair.ends[1].counts();
    (0..3).for_each(|_| pair.deliver(1, 0, &packet));
    let after = pair.ends[1].counts();
    assert_eq!(after.replayed - before.replayed, 2);
    assert_eq!(after.duplicates_suppressed, before.duplicates_suppressed, "no frame of a copy is looked at");
}

#[test]
fn each_end_begins_under_its_own_suite_and_takes_the_others() {
    use crate::crypto::Suite::{Aes128Gcm, ChaCha20Poly1305};
    let chacha = Config { suite: ChaCha20Poly1305, ..config() };
    let aes = Config { suite: Aes128Gcm, ..config() };
    for (from, suite) in [(0, ChaCha20Poly1305), (1, Aes128Gcm)] {
        let mut pair = Pair::new([chacha.clone(), aes.clone()]);
        pair.send(from, 100);
        assert_eq!(pair.says(from)[0].1[1], suite.as_u8());
        pair.pass(SECOND * 2);
        assert!(pair.ends[1 - from].recv(pair.now).is_some());
        assert_eq!([0, 1].map(|end| pair.epoch(end).suite), [suite; 2]);
    }
}

#[test]
fn whoever_acknowledges_a_number_that_was_skipped_loses_the_channel() {
    for honest in [true, false] {
        let mut pair = Pair::open();
        pair.talk(0);
        let gap = loop {
            pair.send(0, 100);
            pair.pass(20 * MS);
            assert!(pair.ends[1].recv(pair.now).is_some());
            let received = &pair.epoch(1).received;
            let newest = received.largest().unwrap().number;
            let fresh = |number: &u64| received.check(*number) == crate::channel::received::Arrival::Fresh;
            if let Some(gap) = (0..newest).find(fresh) {
                break gap;
            }
            assert!(newest < 2_000, "none was skipped");
        };
        assert!(gap >= 128, "too early: {gap}");
        assert_eq!(pair.peer(0).link.packets_lost, 0, "what was skipped is not lost");
        let newest = pair.epoch(1).received.largest().unwrap().number;
        let from = if honest { gap + 1 } else { 0 };
        let ranges = std::iter::once(from..newest + 1).chain(honest.then_some(0..gap));
        let (epoch, mut packet) = (pair.epoch(1), Vec::new());
        let size = epoch.seal(&mut packet, 1_200, |_, writer| {
            writer.ack(Duration::ZERO, Duration::ZERO, None, ranges);
        });
        epoch.sent.discard();
        assert_eq!(size, Some(packet.len()));
        pair.deliver(0, 1, &packet);
        let found = (pair.peer(0).link.is_connected(), pair.ends[0].counts().malformed);
        assert_eq!(found, if honest { (true, 0) } else { (false, 1) });
    }
}
