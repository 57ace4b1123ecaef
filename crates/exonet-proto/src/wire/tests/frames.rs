//! Frames are read as they were written.

use std::collections::BTreeSet;

use super::*;

proptest! {
    #[test]
    fn any_sequence_of_frames_comes_back(specs in vec(spec(), 0..8), bases in bases(), pad in 0_usize..5) {
        let mut buf = vec![0xee; 512 * 1024];
        let mut writer = Writer::new(&mut buf, bases);
        for spec in &specs {
            prop_assert!(writer.padding(pad));
            let before = writer.len();
            prop_assert!(spec.write(&mut writer));
            prop_assert!(writer.len() > before);
            let behind = usize::from(matches!(spec, Spec::Messages { .. }));
            prop_assert_eq!(writer.remaining(), 512 * 1024 - writer.len() - behind);
        }
        prop_assert!(writer.padding(pad));
        prop_assert_eq!(read(writer.written(), bases), Ok(specs));
    }

    /// A frame is written whole or not at all, wherever the room ends, and never past its end.
    #[test]
    fn a_writer_keeps_to_its_room(spec in spec(), bases in bases(), cut in any::<prop::sample::Index>()) {
        let whole = spec.bytes(bases);
        let room = cut.index(whole.len() + 1);
        let mut buf = vec![0xee; room];
        let mut writer = Writer::new(&mut buf, bases);
        let done = spec.write(&mut writer);
        // A claim may need more room while it is written than it takes in the end.
        if !matches!(spec, Spec::Live { .. } | Spec::Have { .. }) {
            prop_assert_eq!(done, room == whole.len());
        }
        if done && !matches!(spec, Spec::Have { .. }) {
            prop_assert_eq!(writer.written(), &whole[..]);
        }
        // If a part of a frame was written and has a meaning, it is a frame of the same kind.
        match read(writer.written(), bases) {
            Ok(frames) if writer.is_empty() => prop_assert!(frames.is_empty()),
            Ok(frames) => {
                prop_assert_eq!(frames.len(), 1);
                prop_assert_eq!(core::mem::discriminant(&frames[0]), core::mem::discriminant(&spec));
                let in_parts = matches!(
                    spec,
                    Spec::Ack { .. } | Spec::Live { .. } | Spec::Have { .. } | Spec::Messages { .. } | Spec::Early { .. } | Spec::Fragment { .. } | Spec::Open { .. }
                );
                prop_assert!(done || in_parts);
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn every_frame_cut_short_is_truncated(spec in bounded(), bases in bases(), cut in any::<prop::sample::Index>()) {
        let whole = spec.bytes(bases);
        let cut = cut.index(whole.len());
        let expected = if cut == 0 { Ok(vec![]) } else { Err(Malformed::Truncated) };
        prop_assert_eq!(read(&whole[..cut], bases), expected);
    }

    #[test]
    fn a_payload_cut_short_has_fewer_frames(specs in vec(bounded(), 1..5), bases in bases(), cut in any::<prop::sample::Index>()) {
        let payload: Vec<u8> = specs.iter().flat_map(|spec| spec.bytes(bases)).collect();
        let cut = cut.index(payload.len());
        let frames: Vec<_> = Frames::new(&payload[..cut], bases).map(|frame| frame.map(|frame| own(&frame))).collect();
        let whole = frames.iter().take_while(|frame| frame.is_ok()).count();
        prop_assert!(whole < specs.len() && frames.len() - whole <= 1, "nothing follows an error");
        for (frame, spec) in frames.iter().zip(&specs[..whole]) {
            prop_assert_eq!(frame.as_ref(), Ok(&vec![spec.clone()]));
        }
    }

    /// The claim of a STATE stays true however little of it fits, and covers as much as it can.
    #[test]
    fn a_shortened_claim_is_true(
        free in prop::collection::btree_set(0_u64..300, 0..120),
        (lo, span, part) in (0_u64..300, 0_u64..300, any::<bool>()),
        base in number(),
        max_ranges in prop_oneof![0_u16..80, Just(u16::MAX)],
        room in 8_usize..160,
    ) {
        let bases = Bases { sender: 3, receiver: base.min(MAX_NUMBER - 1000) };
        let at = |s: u64| bases.receiver + s;
        let claim = Claim { hi: Slot(at(5)), lo: Slot(at(lo)), up: Slot(at(lo + span)), closed: false, part };
        let mut buf = vec![0xee; room];
        let mut writer = Writer::new(&mut buf, bases);
        let intervals = intervals(&free, bases.receiver);
        let claimed = writer.state_live(Incarnation(4), Incarnation(9), None, claim, intervals, max_ranges);
        let Some(up) = claimed else {
            prop_assert!(writer.is_empty() && room < 24);
            return Ok(());
        };
        let frames = read(writer.written(), bases).unwrap();
        let [Spec::Live { claim: got, free: told, .. }] = &frames[..] else { panic!("{frames:?}") };
        prop_assert_eq!(*got, Claim { up, ..claim });
        prop_assert!(told.len() <= usize::from(max_ranges));
        for s in got.lo.0..got.up.0 {
            let is_free = told.iter().any(|range| range.contains(&s));
            prop_assert_eq!(is_free, free.contains(&(s - bases.receiver)), "slot {}", s);
        }
        if up < claim.up {
            prop_assert!(free.contains(&(up.0 - bases.receiver)), "the claim ends before a free slot that is left out");
            let next = told.len() + 1;
            prop_assert!(next > usize::from(max_ranges) || writer.remaining() < 24, "it ends for a reason");
        }
    }
}

fn intervals(set: &BTreeSet<u64>, base: u64) -> Vec<Range<u64>> {
    let mut intervals: Vec<Range<u64>> = Vec::new();
    for s in set {
        match intervals.last_mut() {
            Some(last) if last.end == base + s => last.end += 1,
            _ => intervals.push(base + s..base + s + 1),
        }
    }
    intervals
}

#[test]
fn varints_are_the_shortest_and_any_length_is_read() {
    for (value, bytes) in [
        (37, vec![0x25]),
        (15_293, vec![0x7b, 0xbd]),
        (494_878_333, vec![0x9d, 0x7f, 0x3e, 0x7d]),
        (151_288_809_941_952_652, vec![0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
    ] {
        let mut frame = vec![0x03];
        frame.extend(&bytes);
        assert_eq!(Spec::Close(value).bytes(NO_BASES), frame);
        assert_eq!(read(&frame, NO_BASES), Ok(vec![Spec::Close(value)]));
    }
    assert_eq!(read(&[0x03, 0x40, 0x25], NO_BASES), Ok(vec![Spec::Close(37)]));
    for beyond in [MAX_NUMBER + 1, u64::MAX] {
        assert_eq!(Spec::Close(beyond).bytes(NO_BASES), Spec::Close(MAX_NUMBER).bytes(NO_BASES));
    }
}
