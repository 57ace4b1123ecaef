//! Replay protection and acknowledgement of one packet number space, compared with a plain set.

use core::time::Duration;
use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use exonet_proto::Mono;
use exonet_proto::channel::Received;
use exonet_proto::channel::received::{Arrival, MAX_RANGES, WINDOW};

use crate::memory;
use crate::number::Number;
use crate::ops::ops;

#[derive(Debug, Arbitrary)]
enum Op {
    /// A packet with this number, relative to the newest.
    Packet {
        number: Number,
        eliciting: bool,
        ecn: u8,
    },
    /// Consecutive packets after the newest.
    Run(u8),
    AckSent,
    AckAtOnce,
    Forget(Number),
    Wait(u16),
}

/// Packet numbers in the order in which their packets are authenticated.
pub fn received(data: &[u8]) {
    let mut now = Mono(1 << 40);
    let mut received = Received::default();
    let mut seen = BTreeSet::new();
    for op in ops::<Op>(data, 512) {
        let newest = received.largest().map_or(0, |largest| largest.number);
        match op {
            Op::Packet { number, eliciting, ecn } => {
                arrive(&mut received, &mut seen, now, number.at(newest), eliciting, ecn);
            }
            Op::Run(count) => {
                for number in (newest + 1..).take(count.into()).filter(|n| *n <= exonet_proto::MAX_NUMBER) {
                    arrive(&mut received, &mut seen, now, number, true, 0);
                }
            }
            Op::AckSent => {
                received.on_ack_sent();
                assert!(!received.owes_ack() && received.ack_due().is_none());
            }
            Op::AckAtOnce => {
                received.ack_at_once(now);
                assert!(received.ack_due() <= Some(now));
            }
            Op::Forget(number) => received.forget_below(number.at(newest)),
            Op::Wait(millis) => now += Duration::from_millis(millis.into()),
        }
        tells_what_was_seen(&received, &seen);
    }
    // 2 KiB of bits, and room to double.
    let before = memory::held();
    let copy = received.clone();
    memory::bounded(before, 4_200, "a packet number space");
    drop(copy);
}

fn arrive(
    received: &mut Received,
    seen: &mut BTreeSet<u64>,
    now: Mono,
    number: u64,
    eliciting: bool,
    ecn: u8,
) {
    let newest = received.largest().map(|largest| largest.number);
    let told = received.check(number);
    let arrival = received.on_packet(now, number, eliciting, ecn);
    assert_eq!(told, arrival);
    match arrival {
        Arrival::Fresh => {
            assert!(seen.insert(number), "packet {number} was taken twice");
            assert!(!eliciting || received.owes_ack());
        }
        Arrival::Duplicate => assert!(seen.contains(&number)),
        Arrival::TooOld => {
            let near = newest.is_some_and(|newest| number + WINDOW > newest);
            assert!(!near || seen.contains(&number), "packet {number} is within the window");
        }
    }
    assert_ne!(received.check(number), Arrival::Fresh);
}

/// Checks that the ranges are newest first, disjoint and not adjacent, and hold only numbers that were received.
fn tells_what_was_seen(received: &Received, seen: &BTreeSet<u64>) {
    let mut below = u64::MAX;
    for (count, range) in received.ranges().enumerate() {
        assert!(count < MAX_RANGES && range.start < range.end && range.end < below);
        assert_eq!(
            seen.range(range.clone()).count() as u64,
            range.end - range.start,
            "{range:?} was not seen"
        );
        below = range.start;
    }
}
