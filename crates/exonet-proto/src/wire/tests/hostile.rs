//! Bytes from an adversary.

use super::*;

/// What holds for every frame that is accepted, from whatever bytes.
fn check(spec: &Spec) {
    let ascending = |ranges: &[Range<u64>], bounds: Range<u64>| {
        let mut at = bounds.start;
        for range in ranges {
            assert!(at <= range.start && range.start < range.end && range.end <= bounds.end, "{spec:?}");
            at = range.end;
        }
    };
    match spec {
        Spec::Ack { ranges, .. } => {
            assert!(ranges[0].end <= MAX_NUMBER + 1);
            assert!(ranges.iter().all(|range| range.start < range.end));
            assert!(ranges.windows(2).all(|pair| pair[1].end < pair[0].start), "{spec:?}");
        }
        Spec::Ask(Ask { s, n, l, .. }) => assert!(s.0 + n <= MAX_NUMBER && l.0 <= MAX_NUMBER),
        Spec::Live { b, r, claim, free, .. } => {
            assert!(b.0.max(r.0).max(claim.hi.0).max(claim.up.0) <= MAX_NUMBER);
            ascending(free, claim.lo.0..claim.up.0);
        }
        Spec::Messages { s, entries, .. } => {
            assert!(!entries.is_empty() && entries.iter().all(|entry| !entry.is_empty()));
            assert!(s.0 + entries.len() as u64 - 1 <= MAX_NUMBER);
        }
        Spec::Fragment { total, offset, data, .. } => {
            assert!(!data.is_empty() && offset + data.len() as u64 <= *total);
        }
        Spec::Open { offset, data, ends, .. } => {
            assert!(*ends || !data.is_empty());
            assert!((1..=MAX_NUMBER).contains(&(offset + data.len() as u64)));
        }
        Spec::Have { prefix, ranges, .. } => {
            assert!(ranges.len() <= MAX_HAVE_RANGES);
            ascending(ranges, *prefix..MAX_NUMBER);
        }
        _ => {}
    }
}

/// Reads `payload` as far as possible. Accepted frames are sound, and are read again when written again.
fn survive(payload: &[u8], bases: Bases) {
    for frame in Frames::new(payload, bases) {
        let Ok(frame) = frame else { continue };
        for spec in own(&frame) {
            check(&spec);
            let writable = match &spec {
                Spec::Unknown { .. } => false,
                Spec::Ack { ranges, .. } => ranges.len() <= MAX_ACK_RANGES,
                _ => true,
            };
            if writable {
                assert_eq!(read(&spec.bytes(bases), bases), Ok(vec![spec]));
            }
        }
    }
}

/// Small bytes are frame types, small counts and short lengths: they reach more code than uniform ones.
fn telling_byte() -> impl Strategy<Value = u8> {
    prop_oneof![6 => 0_u8..44, 1 => any::<u8>(), 1 => Just(0xff)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_payloads_are_survived(payload in vec(telling_byte(), 0..200), bases in bases()) {
        survive(&payload, bases);
    }

    #[test]
    fn random_bodies_are_survived(kind in 0_u8..44, rest in vec(telling_byte(), 0..60), bases in bases()) {
        survive(&[&[kind], &rest[..]].concat(), bases);
    }

    #[test]
    fn a_changed_byte_is_survived(spec in spec(), bases in bases(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut payload = spec.bytes(bases);
        let at = at.index(payload.len());
        payload[at] = byte;
        survive(&payload, bases);
    }

    #[test]
    fn random_datagrams_are_survived(kind in prop_oneof![0x10_u8..0x16, any::<u8>()], rest in vec(any::<u8>(), 0..1300)) {
        let mut datagram = [&[kind], &rest[..]].concat();
        let _ = version_answer(&datagram);
        let _ = Datagram::parse(&mut datagram);
    }
}

#[test]
fn a_count_without_its_elements_ends_at_once() {
    let most = [0xff; 8];
    for head in [&[0x02, 0, 9, 0, 0][..], &[0x11, 1, 0, 0, 0, 0, 9], &[0x15, 0, 0, 0, 0]] {
        let payload = [head, &most].concat();
        assert_eq!(error(&payload), Some(Malformed::Truncated));
    }
}
