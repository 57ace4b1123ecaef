//! Datagrams: a datagram that parses is written again as the same bytes, and a version answer is always smaller than
//! its question.

use exonet_proto::MAX_NUMBER;
use exonet_proto::wire::{
    Datagram, MAX_ANSWER, MAX_OPENING, MIN_DATA, MIN_OPENING, RESET, RETRY, answer_header, data_header,
    expand, opening_header, reset, retry, version_answer,
};

use crate::memory;

/// A datagram from the network.
pub fn datagram(data: &[u8]) {
    let mut bytes = data.to_vec();
    match memory::none(|| Datagram::parse(&mut bytes)) {
        // The upper half of its first byte has no meaning.
        Ok(Datagram::Version(version)) => assert_eq!(again(&Datagram::Version(version))[1..], data[1..]),
        Ok(datagram) => assert_eq!(again(&datagram), data),
        Err(_) => answered(data),
    }
    numbered(data);
}

fn again(datagram: &Datagram<'_>) -> Vec<u8> {
    match datagram {
        Datagram::Opening(o) => {
            let again = [&opening_header(o.suite, o.index)[..], o.noise, o.mac1, o.mac2].concat();
            assert!((MIN_OPENING..=MAX_OPENING).contains(&again.len()));
            assert_eq!(o.mac1_input, &again[..again.len() - 32]);
            assert_eq!(o.mac2_input, &again[..again.len() - 16]);
            again
        }
        Datagram::Answer(a) => {
            let again = [&answer_header(a.suite, a.to, a.index)[..], a.noise, a.mac1].concat();
            assert!(again.len() <= MAX_ANSWER);
            assert_eq!(a.mac1_input, &again[..again.len() - 16]);
            again
        }
        Datagram::Retry(r) => {
            let again = retry(r.to, r.nonce, r.sealed).to_vec();
            assert_eq!(again.len(), RETRY);
            again
        }
        Datagram::Reset(r) => {
            let again = reset(r.index, r.token).to_vec();
            assert_eq!(again.len(), RESET);
            assert!(again.len() < MIN_DATA, "it is shorter than any question");
            again
        }
        Datagram::Data(d) => {
            assert_eq!(*d.header, data_header(d.index, u64::from(d.number)));
            [&d.header[..], d.sealed].concat()
        }
        Datagram::Version(v) => {
            assert!(!v.versions.is_empty());
            let mut again = vec![0x1f];
            again.extend_from_slice(v.echo);
            again.push(u8::try_from(v.versions.len()).unwrap());
            again.extend_from_slice(v.versions);
            assert_eq!(again.len(), 9 + v.versions.len());
            again
        }
    }
}

/// Checks that a version answer is smaller than its question, parses, and is never answered.
fn answered(data: &[u8]) {
    if let Some(mut answer) = version_answer(data) {
        assert!(answer.len() < data.len());
        assert_eq!(version_answer(&answer), None);
        assert!(matches!(Datagram::parse(&mut answer), Ok(Datagram::Version(_))));
    }
}

/// Checks that the packet number nearest to the expected one has the low bits from the wire (RFC 9000, appendix A.3).
fn numbered(data: &[u8]) {
    let Some(([a, b, c, d], rest)) = data.split_first_chunk() else { return };
    let largest = rest.first_chunk().map(|bytes| u64::from_be_bytes(*bytes) & MAX_NUMBER);
    let truncated = u32::from_be_bytes([*a, *b, *c, *d]);
    let number = expand(truncated, largest);
    assert!(number <= MAX_NUMBER);
    assert_eq!(number & 0xffff_ffff, u64::from(truncated));
    let expected = largest.map_or(0, |largest| (largest + 1).min(MAX_NUMBER));
    let inner = (1 << 32)..(MAX_NUMBER - (1 << 32));
    assert!(!inner.contains(&expected) || number.abs_diff(expected) <= 1 << 31);
}
