//! BLAKE3 of a file from the hashes of its pieces, which arrive in any order.
//!
//! A piece is a whole subtree of BLAKE3's tree: its length is a power of two and its offset a multiple of its length.
//! So the chaining values of the pieces yield the hash of the file, and nothing is read twice.

use blake3::Hasher;
use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// The contribution of a piece to the hash of its file.
pub(crate) type ChainingValue = [u8; 32];

/// The chaining value of a piece at offset `at`, which must be a multiple of the length of pieces. Zeros for a piece
/// without data.
pub(crate) fn chaining_value(at: u64, data: &[u8]) -> ChainingValue {
    if data.is_empty() {
        return [0; 32];
    }
    let mut hasher = Hasher::new();
    hasher.set_input_offset(at);
    hasher.update(data);
    hasher.finalize_non_root()
}

/// BLAKE3 of a file of at least two pieces. None for fewer pieces, since their hash does not follow from chaining
/// values.
pub(crate) fn root(pieces: &[ChainingValue]) -> Option<blake3::Hash> {
    if pieces.len() < 2 {
        return None;
    }
    let (left, right) = split(pieces);
    Some(merge_subtrees_root(&merge(left)?, &merge(right)?, Mode::Hash))
}

fn merge(pieces: &[ChainingValue]) -> Option<ChainingValue> {
    match pieces {
        [] => None,
        [one] => Some(*one),
        more => {
            let (left, right) = split(more);
            Some(merge_subtrees_non_root(&merge(left)?, &merge(right)?, Mode::Hash))
        }
    }
}

/// Splits pieces into subtrees. The left one is the largest full subtree that leaves at least one piece to the right.
fn split(pieces: &[ChainingValue]) -> (&[ChainingValue], &[ChainingValue]) {
    pieces.split_at(pieces.len().div_ceil(2).next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_give_the_hash_of_the_file() {
        const PIECE: usize = 4_096;
        let content: Vec<u8> = (0..=255).cycle().take(PIECE * 9 + 17).collect();
        for len in [1, PIECE - 1, PIECE, PIECE + 1, PIECE * 2, PIECE * 3 + 5, PIECE * 8, PIECE * 9 + 17] {
            let content = &content[..len];
            let pieces: Vec<_> = content
                .chunks(PIECE)
                .enumerate()
                .map(|(n, data)| chaining_value((n * PIECE) as u64, data))
                .collect();
            let expected = (pieces.len() > 1).then(|| blake3::hash(content));
            assert_eq!(root(&pieces), expected, "{len}");
        }
        assert_eq!(root(&[]), None);
    }
}
