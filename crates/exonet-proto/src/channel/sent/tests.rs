#![allow(clippy::single_range_in_vec_init, clippy::cast_possible_truncation)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const RULE: LossThreshold = LossThreshold { packets: 3, time: Duration::from_micros(500) };
const MEMORY: Duration = Duration::from_micros(2_000);

fn at(micros: u64) -> Mono {
    Mono(micros * 1_000)
}

fn send(space: &mut Sent<u64>, now: Mono, items: impl IntoIterator<Item = u64>) -> u64 {
    for item in items {
        space.carry(item);
    }
    space.on_sent(now, PacketInfo::data(1_200), 0, 0, Snapshot::default())
}

fn ack(space: &mut Sent<u64>, ranges: &[Range<u64>]) -> Result<Vec<(u64, bool)>, AckOfUnsent> {
    let mut acked = Vec::new();
    space.on_ack(ranges.iter().cloned(), |resolved| {
        acked.push((resolved.number, resolved.was_lost));
    })?;
    acked.sort_unstable();
    Ok(acked)
}

fn lost(space: &mut Sent<u64>, now: Mono) -> Vec<u64> {
    let mut lost = Vec::new();
    space.detect_lost(now, RULE, |resolved| lost.push(resolved.number));
    lost
}

/// The items of the oldest outstanding packet.
fn oldest(space: &Sent<u64>) -> Vec<u64> {
    space.outstanding().next().into_iter().flatten().collect()
}

/// The naive model of a packet.
#[derive(Clone, Debug)]
struct Model {
    sent: u64,
    fates: Vec<(u64, Fate)>,
}

#[derive(Clone, Debug)]
enum Step {
    Send(u8),
    Discard(u8),
    /// A packet this far back arrives at the peer; then an ACK of everything that arrived comes.
    Arrive(u64),
    Ack,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4_u8).prop_map(Step::Send),
        1 => (0..3_u8).prop_map(Step::Discard),
        6 => (0..12_u64).prop_map(Step::Arrive),
        4 => Just(Step::Ack),
        3 => (1..700_u64).prop_map(Step::Wait),
    ]
}

fn ranges_of(arrived: &BTreeMap<u64, ()>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for number in arrived.keys().rev() {
        match ranges.last_mut() {
            Some(last) if last.start == number + 1 => last.start = *number,
            _ => ranges.push(*number..number + 1),
        }
    }
    ranges
}

proptest! {
    /// Compares with a list of all packets: each ends once, by RFC 9002's rule, with exactly its own items; late acknowledgements
    /// are recognised while they are remembered; the ring holds only packets that are unresolved or remembered.
    #[test]
    fn every_packet_has_one_fate(steps in prop::collection::vec(step(), 1..300)) {
        let mut space = Sent::new();
        let mut model: Vec<Model> = Vec::new();
        let mut arrived = BTreeMap::new();
        let (mut now, mut item) = (0, 0);
        let mut items: Vec<Vec<u64>> = Vec::new();
        for step in steps {
            match step {
                Step::Send(count) => {
                    let carried: Vec<u64> = (item..item + u64::from(count)).collect();
                    item += u64::from(count);
                    prop_assert_eq!(send(&mut space, at(now), carried.clone()), model.len() as u64);
                    model.push(Model { sent: now, fates: vec![] });
                    items.push(carried);
                }
                Step::Discard(count) => {
                    for _ in 0..count {
                        space.carry(u64::MAX);
                    }
                    prop_assert_eq!(space.carried(), u32::from(count));
                    space.discard();
                }
                Step::Arrive(back) => {
                    if let Some(number) = (model.len() as u64).checked_sub(1 + back) {
                        arrived.insert(number, ());
                    }
                }
                Step::Wait(micros) => now += micros,
                Step::Ack => {}
            }
            let acking = matches!(step, Step::Ack);
            if acking {
                let mut told = Vec::new();
                space.on_ack(ranges_of(&arrived).into_iter(), |resolved| {
                    told.push((resolved.number, resolved.was_lost, resolved.items().collect::<Vec<_>>()));
                }).unwrap();
                for (number, was_lost, carried) in told {
                    let packet = &mut model[number as usize];
                    let before = packet.fates.last().copied();
                    prop_assert_eq!(was_lost, matches!(before, Some((_, Fate::Lost))));
                    prop_assert!(before.is_none() || was_lost, "{number}: {before:?}");
                    packet.fates.push((now, if was_lost { Fate::Late } else { Fate::Acked }));
                    prop_assert_eq!(&carried, &items[number as usize]);
                }
                for number in arrived.keys() {
                    let fates = &model[*number as usize].fates;
                    prop_assert!(!fates.is_empty(), "{number} arrived unnoticed");
                    if let [(when, Fate::Lost)] = fates[..] {
                        prop_assert!(now - when >= 2_000, "{number} forgotten too soon");
                    }
                }
            }
            let mut told = Vec::new();
            space.detect_lost(at(now), RULE, |resolved| {
                told.push((resolved.number, resolved.items().collect::<Vec<_>>()));
            });
            space.retire(at(now), MEMORY);
            let largest = space.largest_acked();
            let expected: Vec<(u64, Vec<u64>)> = (0..model.len() as u64)
                .filter(|number| {
                    let packet = &model[*number as usize];
                    packet.fates.is_empty()
                        && largest.is_some_and(|largest| {
                            *number < largest && (largest - number >= 3 || now - packet.sent >= 500)
                        })
                })
                .map(|number| (number, items[number as usize].clone()))
                .collect();
            prop_assert_eq!(&told, &expected);
            for (number, _) in told {
                model[number as usize].fates.push((now, Fate::Lost));
            }
            let open = |packet: &Model| match packet.fates.last() {
                None => true,
                Some((when, Fate::Lost)) => now - when < 2_000,
                Some(_) => false,
            };
            let first = model.iter().position(open).unwrap_or(model.len());
            prop_assert_eq!(space.span(), model.len() - first);
            let outstanding = model.iter().filter(|packet| packet.fates.is_empty()).count();
            prop_assert_eq!(space.is_settled(), outstanding == 0);
            let waiting = model.iter().zip(0..).filter(|(packet, number)| {
                packet.fates.is_empty() && largest.is_some_and(|largest| *number < largest)
            });
            let next = waiting.map(|(packet, _)| at(packet.sent + 500)).min();
            prop_assert_eq!(space.loss_time(), next);
        }
        let mut gone = Vec::new();
        space.drain(|resolved| gone.push(resolved.number));
        let expected: Vec<u64> =
            (0..).zip(&model).filter(|(_, packet)| packet.fates.is_empty()).map(|(number, _)| number).collect();
        prop_assert_eq!(gone, expected);
        prop_assert_eq!(space.span(), 0);
        prop_assert_eq!(send(&mut space, at(now), [1]), model.len() as u64);
        prop_assert_eq!(oldest(&space), vec![1]);
    }
}

#[test]
fn an_ack_of_what_was_never_sent_is_a_violation() {
    let mut space = Sent::new();
    assert_eq!(ack(&mut space, &[0..1]), Err(AckOfUnsent { number: 0 }));
    send(&mut space, at(0), [1]);
    assert_eq!(ack(&mut space, &[0..2]), Err(AckOfUnsent { number: 1 }));
    assert_eq!(space.largest_acked(), None);
    assert_eq!(ack(&mut space, &[0..1]), Ok(vec![(0, false)]));
    // A packet that was resolved long ago does not count as unsent.
    space.retire(at(0), MEMORY);
    assert_eq!(ack(&mut space, &[0..1]), Ok(vec![]));
}

/// A space that has skipped a number, that number, and the packets that were sent above it.
fn skipped(above: u64) -> (Sent<u64>, u64) {
    let mut space = Sent::skipping(SkipSeed::new([5; 32]));
    let gap = (0..).find(|number| send(&mut space, at(0), [*number]) > *number).unwrap();
    (1..above).for_each(|_| _ = send(&mut space, at(0), []));
    (space, gap)
}

#[test]
fn a_number_is_skipped_only_below_one_that_is_used() {
    let mut space: Sent<u64> = Sent::skipping(SkipSeed::new([5; 32]));
    let (mut expected, mut gaps) = (0, Vec::new());
    for _ in 0..20_000 {
        let (end, next) = (space.end(), space.next_number());
        // Everything above the used numbers is refused, including the number that is about to be skipped.
        assert_eq!(ack(&mut space, &[end..end + 1]), Err(AckOfUnsent { number: end }));
        assert_eq!(send(&mut space, at(0), []), next);
        gaps.extend((next > expected).then_some(expected));
        assert!(next - expected <= 1);
        expected = next + 1;
    }
    assert!((4..=16).contains(&gaps.len()), "{gaps:?}");
    assert_eq!(space.span() as u64, expected);
    assert_eq!(space.outstanding, 20_000);
}

#[test]
fn an_ack_of_a_skipped_number_is_a_violation() {
    let (mut space, gap) = skipped(2);
    for range in [gap..gap + 1, 0..gap + 1, gap..gap + 2, 0..gap + 3] {
        // Also behind another range: nothing of either is taken.
        assert_eq!(ack(&mut space, &[gap + 2..gap + 3, range]), Err(AckOfUnsent { number: gap }));
    }
    assert_eq!((space.largest_acked(), space.outstanding), (None, gap + 2));
    assert_eq!(ack(&mut space, &[gap + 1..gap + 3, 0..gap]).unwrap().len() as u64, gap + 2);
    space.retire(at(0), MEMORY);
    assert_eq!(ack(&mut space, &[0..gap + 3]), Err(AckOfUnsent { number: gap }), "though long resolved");
}

#[test]
fn a_skipped_number_is_neither_lost_nor_kept_nor_a_packet_that_came_later() {
    let (mut space, gap) = skipped(4);
    ack(&mut space, &[gap + 1..gap + 3, 0..gap - 1]).unwrap();
    assert_eq!(lost(&mut space, at(0)), Vec::<u64>::new(), "two have come later than the one below the gap");
    ack(&mut space, &[gap + 1..gap + 4]).unwrap();
    assert_eq!(lost(&mut space, at(0)), [gap - 1]);
    ack(&mut space, &[gap + 1..gap + 5, 0..gap]).unwrap();
    assert_eq!(lost(&mut space, at(0)), Vec::<u64>::new());
    space.retire(at(0), MEMORY);
    assert_eq!((space.span(), space.is_settled()), (0, true));
}

#[test]
fn an_ack_wholly_below_the_ring_touches_nothing_in_it() {
    let mut space = Sent::new();
    for item in 0..4 {
        send(&mut space, at(0), [item]);
    }
    ack(&mut space, &[0..2]).unwrap();
    space.retire(at(0), MEMORY);
    assert_eq!(ack(&mut space, &[0..1]), Ok(vec![]));
    assert_eq!(oldest(&space), vec![2]);
    assert_eq!(ack(&mut space, &[2..4]), Ok(vec![(2, false), (3, false)]));
}

#[test]
fn empty_ranges_are_passed_over() {
    let mut space = Sent::new();
    send(&mut space, at(0), [1]);
    assert_eq!(ack(&mut space, &[9..9, 0..0]), Ok(vec![]));
}

#[test]
fn a_rising_ack_visits_each_packet_once() {
    let mut space: Sent<u64> = Sent::new();
    // The first packet stays lost and remembered, so nothing retires.
    for _ in 0..1_000 {
        send(&mut space, at(0), []);
    }
    ack(&mut space, &[1..900]).unwrap();
    lost(&mut space, at(0));
    for end in 901..=1_000 {
        // Makes a packet look as if it had never been acknowledged: a walk that passed it would report it.
        space.packets[500].state = State::Outstanding;
        assert_eq!(ack(&mut space, &[1..end]), Ok(vec![(end - 1, false)]));
    }
}

#[test]
fn a_probe_copies_the_oldest_that_waits_for_an_answer() {
    let mut space = Sent::new();
    space.carry(9);
    space.on_sent(at(0), PacketInfo::ack(40), 0, 0, Snapshot::default());
    send(&mut space, at(0), [1, 2]);
    send(&mut space, at(0), [3]);
    assert_eq!(oldest(&space), vec![1, 2]);
    ack(&mut space, &[1..2]).unwrap();
    assert_eq!(oldest(&space), vec![3]);
    ack(&mut space, &[2..3]).unwrap();
    assert!(oldest(&space).is_empty());
}

#[test]
fn packets_that_nobody_acknowledges_are_counted() {
    let mut space: Sent<u64> = Sent::new();
    for count in 1..5 {
        space.on_sent(at(0), PacketInfo::ack(40), 0, 0, Snapshot::default());
        assert_eq!(space.quiet_run(), count);
    }
    send(&mut space, at(0), []);
    assert_eq!(space.quiet_run(), 0);
}

#[test]
fn counts_grow_and_are_of_what_left() {
    let mut space: Sent<u64> = Sent::new();
    for _ in 0..4 {
        space.on_sent(at(0), PacketInfo { marked: true, ..PacketInfo::data(100) }, 0, 0, Snapshot::default());
    }
    let counts = |ect0, ce| EcnCounts { ect0, ect1: 0, ce };
    assert_eq!(space.on_ecn(counts(1, 1)), Some(counts(1, 1)));
    assert_eq!(space.on_ecn(counts(1, 2)), Some(counts(0, 1)));
    assert_eq!(space.on_ecn(counts(2, 1)), None, "fewer than before");
    assert_eq!(space.on_ecn(counts(2, 3)), None, "more than left");
}

#[test]
fn a_steady_flow_allocates_nothing() {
    let mut space = Sent::new();
    let mut capacity = (0, 0);
    for round in 0..1_000_u64 {
        for item in 0..100 {
            send(&mut space, at(round), [item; 3]);
        }
        let last = space.next_number();
        // Each tenth packet is lost and remembered for a while.
        let ranges = (1..10).rev().map(|ten| last - 10 * (10 - ten) + 1..last - 10 * (9 - ten));
        space.on_ack(ranges, |_| {}).unwrap();
        lost(&mut space, at(round));
        space.retire(at(round), Duration::from_micros(10));
        if round == 100 {
            capacity = (space.packets.capacity(), space.items.capacity());
        }
    }
    assert_eq!((space.packets.capacity(), space.items.capacity()), capacity);
}

#[test]
fn a_packet_takes_little_memory() {
    assert!(size_of::<Packet>() <= 96, "{}", size_of::<Packet>());
}
