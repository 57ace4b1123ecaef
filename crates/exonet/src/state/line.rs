//! The form of every state file: one line `label-version hex(payload) hex(checksum)` of fixed length.
//!
//! It is text, so that a person can see what a file is and whether it is whole. It is strict: each content has
//! exactly one form, and anything else counts as damage.

use std::path::Path;

use blake2::{Blake2s256, Digest};
use zeroize::Zeroizing;

use super::disk;
use super::error::StateError;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Why a text is not the expected line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineError {
    /// The file has the right kind, but a version that this release does not know.
    Version,
    /// The text is anything else. The value says what is wrong.
    Malformed(&'static str),
}

impl LineError {
    /// The error about the file `path`. `corrupt` makes it from what is wrong.
    pub(super) fn of(self, path: &Path, corrupt: impl FnOnce(&'static str) -> StateError) -> StateError {
        match self {
            Self::Version => StateError::Version { path: path.into() },
            Self::Malformed(what) => corrupt(what),
        }
    }
}

/// Reads a file of one line, and returns its payload. `corrupt` makes the error from what is wrong with the line.
pub(super) fn read<const N: usize>(
    path: &Path,
    label: &str,
    corrupt: impl FnOnce(&'static str) -> StateError,
) -> Result<Zeroizing<[u8; N]>, StateError> {
    let text = disk::read(path, |_| Ok(()))?;
    decode(label, &text).map_err(|error| error.of(path, corrupt))
}

pub(super) fn encode(label: &str, payload: &[u8]) -> Zeroizing<Vec<u8>> {
    // The exact capacity, since a vector that grows would leave a copy of a secret in freed memory.
    let mut text = Zeroizing::new(Vec::with_capacity(length(label, payload.len())));
    text.extend_from_slice(label.as_bytes());
    text.push(b' ');
    push_hex(&mut text, payload);
    text.push(b' ');
    push_hex(&mut text, &checksum(label, payload));
    text.push(b'\n');
    text
}

pub(super) fn decode<const N: usize>(label: &str, text: &[u8]) -> Result<Zeroizing<[u8; N]>, LineError> {
    let Some(rest) = text.strip_prefix(label.as_bytes()) else {
        return Err(not_labelled(label, text));
    };
    if text.len() != length(label, N) {
        return Err(LineError::Malformed(if text.len() < length(label, N) {
            "cut short"
        } else {
            "too long"
        }));
    }
    let parts = rest.strip_prefix(b" ").and_then(|rest| rest.split_at_checked(2 * N));
    let (payload, rest) = parts.ok_or(LineError::Malformed("not in the form of a state file"))?;
    let sum = rest.strip_prefix(b" ").and_then(|rest| rest.strip_suffix(b"\n"));
    let payload = parse_hex::<N>(payload).ok_or(LineError::Malformed("a character is not hexadecimal"))?;
    let sum = sum.and_then(parse_hex::<4>).ok_or(LineError::Malformed("the checksum is not readable"))?;
    if *sum == checksum(label, payload.as_slice()) {
        Ok(payload)
    } else {
        Err(LineError::Malformed("the checksum does not match"))
    }
}

fn not_labelled(label: &str, text: &[u8]) -> LineError {
    let kind = label.trim_end_matches(|c: char| c.is_ascii_digit()).as_bytes();
    match text.strip_prefix(kind) {
        Some([b'0'..=b'9', ..]) => LineError::Version,
        _ if label.as_bytes().starts_with(text) => LineError::Malformed("cut short"),
        _ => LineError::Malformed("not in the form of a state file"),
    }
}

fn length(label: &str, payload: usize) -> usize {
    label.len() + 1 + 2 * payload + 1 + 8 + 1
}

/// Detects damage, but no attack. It covers the label, so that a key is not taken for a clock.
fn checksum(label: &str, payload: &[u8]) -> [u8; 4] {
    let digest = Blake2s256::new().chain_update(label).chain_update(b" ").chain_update(payload).finalize();
    let [a, b, c, d, ..] = <[u8; 32]>::from(digest);
    [a, b, c, d]
}

fn push_hex(text: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.extend(DIGITS.get(usize::from(digit)));
        }
    }
}

fn parse_hex<const N: usize>(text: &[u8]) -> Option<Zeroizing<[u8; N]>> {
    let (pairs, []) = text.as_chunks::<2>() else {
        return None;
    };
    let mut bytes = Zeroizing::new([0; N]);
    if pairs.len() != N {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn digit(c: u8) -> Option<u8> {
    match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LABEL: &str = "exonet-test-1";

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(payload: [u8; 20]) {
            prop_assert_eq!(*decode::<20>(LABEL, &encode(LABEL, &payload)).unwrap(), payload);
        }

        #[test]
        fn any_changed_byte_is_damage(payload: [u8; 20], at: prop::sample::Index, to: u8) {
            let mut text = encode(LABEL, &payload);
            let at = at.index(text.len());
            prop_assume!(text[at] != to);
            text[at] = to;
            prop_assert!(decode::<20>(LABEL, &text).is_err());
        }

        #[test]
        fn any_bytes_are_refused_without_panic(text: Vec<u8>) {
            prop_assert!(decode::<20>(LABEL, &text).is_err());
        }
    }

    #[test]
    fn encoding_never_reallocates() {
        let text = encode(LABEL, &[7; 32]);
        assert_eq!(text.len(), length(LABEL, 32));
        assert_eq!(text.capacity(), text.len());
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let text = encode("exonet-test-2", &[7; 20]);
        assert_eq!(decode::<20>(LABEL, &text).unwrap_err(), LineError::Version);
        let text = encode("exonet-other-1", &[7; 20]);
        assert!(matches!(decode::<20>(LABEL, &text).unwrap_err(), LineError::Malformed(_)));
    }

    #[test]
    fn the_checksum_covers_the_label() {
        let text = String::from_utf8(encode("exonet-tset-1", &[7; 20]).to_vec()).unwrap();
        let text = text.replace("tset", "test");
        let error = decode::<20>(LABEL, text.as_bytes()).unwrap_err();
        assert_eq!(error, LineError::Malformed("the checksum does not match"));
    }
}
