//! Turns bytes into a bounded sequence of operations.

use arbitrary::{Arbitrary, Unstructured};

/// The operations that `data` encodes, at most `most`.
pub(crate) fn ops<'a, T: Arbitrary<'a> + 'a>(data: &'a [u8], most: usize) -> impl Iterator<Item = T> + 'a {
    let mut input = Unstructured::new(data);
    std::iter::from_fn(move || if input.is_empty() { None } else { T::arbitrary(&mut input).ok() }).take(most)
}
