//! How many datagrams messages take, and how many bytes, each way: exactly, since nothing of it is left to chance. Packet numbers
//! that the nodes skip are counted in: each makes an ACK leave at once, and takes two bytes in it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

#[path = "../benches/pieces/pair.rs"]
mod pair;

use bytes::Bytes;
use pair::{Pair, Sent};

/// What 1,000 messages of `size` bytes take there, and their receipts back, on a path that is known: `batch` messages
/// are sent at once, `segments` datagrams leave before the other node has a turn.
fn thousand(size: usize, datagram: u16, batch: usize, segments: usize) -> [Sent; 2] {
    exchanged(Pair::new(datagram), size, batch, segments)
}

fn exchanged(mut pair: Pair, size: usize, batch: usize, segments: usize) -> [Sent; 2] {
    pair.segments = segments;
    let body = Bytes::from(vec![7; size]);
    let send =
        |pair: &mut Pair, times: usize| (0..times * 1_000 / batch).for_each(|_| pair.send(&body, batch, 64));
    send(&mut pair, 3);
    pair.sent = [Sent::default(); 2];
    send(&mut pair, 1);
    pair.sent
}

const fn sent(datagrams: usize, bytes: usize) -> Sent {
    Sent { datagrams, bytes }
}

#[test]
fn small_messages_share_datagrams_and_receipts() {
    assert_eq!(thousand(64, 1_452, 1_000, 64), [sent(48, 68_797), sent(3, 120)]);
}

#[test]
fn small_messages_share_large_datagrams() {
    assert_eq!(thousand(64, 65_000, 1_000, 64), [sent(2, 67_067), sent(2, 83)]);
}

#[test]
fn messages_one_by_one_take_a_datagram_each_way() {
    assert_eq!(thousand(64, 1_452, 1, 64), [sent(1_000, 104_372), sent(1_000, 56_043)]);
}

#[test]
fn messages_above_half_a_datagram_have_one_each() {
    assert_eq!(thousand(1_000, 1_452, 1_000, 64), [sent(1_000, 1_033_185), sent(17, 684)]);
}

#[test]
fn messages_that_have_to_wait_fill_datagrams() {
    let narrow = Pair::within(16 << 10, 1_452);
    assert_eq!(exchanged(narrow, 1_000, 1_000, 64), [sent(722, 1_028_106), sent(68, 2_690)]);
}

#[test]
fn datagrams_one_by_one_share_receipts_too() {
    assert_eq!(thousand(64, 1_452, 1_000, 1), [sent(48, 68_401), sent(24, 1_033)]);
    // One datagram for each round trip: its sender might wait for the receipt of just that message.
    assert_eq!(thousand(1_000, 1_452, 1_000, 1), [sent(1_000, 1_032_379), sent(1_000, 50_975)]);
}
