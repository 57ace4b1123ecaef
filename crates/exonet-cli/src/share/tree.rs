//! The hash tree of a file above its pieces, and the proof that a piece is a part of it.
//!
//! The tree is BLAKE3's own: a node at each level covers a power of two of pieces, and a node without a right child
//! equals its left child. So the root is the ordinary BLAKE3 hash of the file. A piece is proven by its sibling and
//! the siblings of the nodes above it. The proof covers the offset and length of the piece, since the chunks that
//! BLAKE3 hashes are numbered. The proof of the last piece also covers the size of the file.

use std::fs::File;
use std::io;

use blake3::hazmat::{Mode, merge_subtrees_non_root, merge_subtrees_root};

use super::Shape;
use crate::copy::{ChainingValue, Hex32, chaining_value};
use crate::store::read_at;

/// The number of bytes of a hash.
const HASH_LEN: usize = 32;

/// The tree of one file, without its data.
#[derive(Debug)]
pub(crate) struct Outline {
    /// From the chaining values of the pieces to the two children of the root.
    levels: Vec<Vec<ChainingValue>>,
    root: Hex32,
}

impl Outline {
    /// Reads the whole file.
    ///
    /// # Errors
    /// Those of the disk, and `UnexpectedEof` if the file has become shorter.
    pub(crate) fn read(file: &File, shape: Shape) -> io::Result<Self> {
        let mut data = vec![0; shape.piece as usize];
        let (mut pieces, mut whole) = (Vec::new(), blake3::hash(b""));
        for index in 0..shape.pieces() {
            let data = data.get_mut(..shape.len(index) as usize).unwrap_or_default();
            if read_at(file, data, shape.at(index))? < data.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            pieces.push(chaining_value(shape.at(index), data));
            if shape.pieces() == 1 {
                whole = blake3::hash(data);
            }
        }
        Ok(Self::new(pieces, whole))
    }

    /// Builds the tree. `whole` is the hash of a file of less than two pieces.
    fn new(pieces: Vec<ChainingValue>, whole: blake3::Hash) -> Self {
        let mut levels = vec![pieces];
        while let Some(below) = levels.last().filter(|below| below.len() > 2) {
            let above = below.chunks(2).filter_map(|pair| match pair {
                [left, right] => Some(merge_subtrees_non_root(left, right, Mode::Hash)),
                // There is no right child.
                [only] => Some(*only),
                _ => None,
            });
            levels.push(above.collect());
        }
        let root = match levels.last().map(Vec::as_slice) {
            Some([left, right]) => merge_subtrees_root(left, right, Mode::Hash),
            _ => whole,
        };
        Self { levels, root: Hex32(root.into()) }
    }

    /// BLAKE3 of the file.
    pub(crate) fn root(&self) -> Hex32 {
        self.root
    }

    /// Whether this is the data of a piece.
    pub(super) fn is_piece(&self, at: u64, index: u32, data: &[u8]) -> bool {
        let piece = self.levels.first().and_then(|pieces| pieces.get(index as usize));
        piece.is_some_and(|piece| *piece == chaining_value(at, data))
    }

    /// The siblings of a piece and of the nodes above it, from the piece up.
    pub(crate) fn siblings(&self, index: u32) -> impl Iterator<Item = &ChainingValue> {
        let place = move |level: usize| ((index as usize) >> level) ^ 1;
        self.levels.iter().enumerate().filter_map(move |(level, nodes)| nodes.get(place(level)))
    }

    /// The approximate memory of the tree, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.levels.iter().map(|nodes| nodes.len() * HASH_LEN).sum()
    }
}

/// Splits the reply to a question for a piece. Returns the data and its chaining value, if the hashes before the data
/// prove that it is this piece of a file with this shape and BLAKE3 hash.
pub(crate) fn proven<'a>(
    root: &Hex32,
    shape: Shape,
    index: u32,
    reply: &'a [u8],
) -> Option<(&'a [u8], ChainingValue)> {
    let at = reply.len().checked_sub(shape.len(index) as usize)?;
    let (hashes, data) = reply.split_at(at);
    if data.is_empty() {
        return None;
    }
    let own = chaining_value(shape.at(index), data);
    let (siblings, rest) = hashes.as_chunks::<HASH_LEN>();
    if !rest.is_empty() {
        return None;
    }
    let mut siblings = siblings.iter();
    let (mut node, mut place, mut nodes) = (own, index, shape.pieces());
    let mut top = (nodes == 1).then(|| blake3::hash(data));
    while nodes > 1 {
        // The last of an odd number of nodes has no sibling, and equals its parent.
        if place ^ 1 < nodes {
            let sibling = siblings.next()?;
            let (left, right) = if place.is_multiple_of(2) { (&node, sibling) } else { (sibling, &node) };
            if nodes == 2 {
                top = Some(merge_subtrees_root(left, right, Mode::Hash));
            } else {
                node = merge_subtrees_non_root(left, right, Mode::Hash);
            }
        }
        (place, nodes) = (place / 2, nodes.div_ceil(2));
    }
    (top?.as_bytes() == &root.0 && siblings.next().is_none()).then_some((data, own))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    /// Pieces smaller than those of any file; the tree is the same.
    const PIECE: u32 = 1 << 10;

    fn outline(content: &[u8]) -> (Outline, Shape) {
        let shape = Shape { size: content.len() as u64, piece: PIECE };
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        (Outline::read(&file, shape).unwrap(), shape)
    }

    fn reply(outline: &Outline, content: &[u8], index: u32) -> Vec<u8> {
        let siblings: Vec<_> = outline.siblings(index).copied().collect();
        let data = content.chunks(PIECE as usize).nth(index as usize).unwrap();
        [&siblings.concat(), data].concat()
    }

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from(at / 3 % 251).unwrap()).collect()
    }

    #[test]
    fn every_piece_is_proven_against_the_hash_that_everybody_computes() {
        for pieces in (1..=17).chain([31, 32, 33]) {
            for len in [pieces * PIECE as usize, pieces * PIECE as usize - 1_000] {
                let content = content(len);
                let (outline, shape) = outline(&content);
                assert_eq!(outline.root(), Hex32(blake3::hash(&content).into()));
                for index in 0..shape.pieces() {
                    let reply = reply(&outline, &content, index);
                    let data = proven(&outline.root(), shape, index, &reply).map(|(data, _)| data);
                    assert_eq!(data, content.chunks(PIECE as usize).nth(index as usize));
                    assert!(outline.is_piece(shape.at(index), index, data.unwrap()));
                }
            }
        }
        assert_eq!(outline(b"").0.root(), Hex32(blake3::hash(b"").into()));
    }

    #[test]
    fn a_piece_needs_few_hashes() {
        let pieces = vec![[0; HASH_LEN]; 65_536];
        let outline = Outline::new(pieces, blake3::hash(b""));
        assert_eq!(outline.siblings(40_000).count() * HASH_LEN, 512);
        assert!(outline.weight() < 65_536 * 2 * HASH_LEN);
    }

    #[test]
    fn the_last_piece_proves_the_size() {
        let content = content(5 * PIECE as usize - 10);
        let (outline, shape) = outline(&content);
        let last = reply(&outline, &content, 4);
        assert!(proven(&outline.root(), shape, 4, &last).is_some());
        for size in [shape.size - 1, shape.size + 1, shape.size + 10, shape.size + u64::from(PIECE)] {
            let lie = Shape { size, ..shape };
            let end = lie.pieces() - 1;
            assert!(proven(&outline.root(), lie, end, &last).is_none(), "{size}");
        }
    }

    proptest! {
        #[test]
        fn no_other_bytes_are_a_piece(
            pieces in 1_u32..12,
            index in 0_u32..12,
            bit in 0_usize..9_000,
            other in 0_u32..12,
        ) {
            let content = content(pieces as usize * PIECE as usize - 7);
            let (outline, shape) = outline(&content);
            let index = index % pieces;
            let good = reply(&outline, &content, index);
            let mut bad = good.clone();
            let bit = bit % (bad.len() * 8);
            bad[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(proven(&outline.root(), shape, index, &bad).is_none());
            // At another index, with more or fewer hashes, cut off, or under another root.
            let other = other % (pieces + 1);
            prop_assert_eq!(proven(&outline.root(), shape, other, &good).is_some(), other == index);
            prop_assert!(proven(&outline.root(), shape, index, &good[1..]).is_none());
            prop_assert!(proven(&outline.root(), shape, index, &[&[0; HASH_LEN][..], &good].concat()).is_none());
            prop_assert!(proven(&Hex32([0; 32]), shape, index, &good).is_none());
        }

        #[test]
        fn foreign_bytes_never_upset_the_reader(size: u64, index: u32, reply: Vec<u8>) {
            let shape = Shape { size, piece: PIECE };
            let _ = proven(&Hex32([0; 32]), shape, index, &reply);
        }
    }
}
