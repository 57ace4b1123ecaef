//! The messages of the demo: each has a number and a content that can be checked.

/// The shortest message: its number.
pub(super) const SHORTEST: usize = 8;

/// Message `n` of `size` bytes.
pub(super) fn payload(n: u64, size: usize) -> Vec<u8> {
    let number = n.to_be_bytes();
    let [.., low] = number;
    let filler = (0_u8..=u8::MAX).cycle().map(|i| i.wrapping_mul(31) ^ low);
    number.into_iter().chain(filler).take(size.max(SHORTEST)).collect()
}

/// The number of a message, if it is an intact message of the demo.
pub(super) fn number(body: &[u8], size: usize) -> Option<u64> {
    let n = u64::from_be_bytes(*body.first_chunk()?);
    (payload(n, size) == body).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn harm_is_seen(n: u64, size in 8_usize..300, at: prop::sample::Index, bit in 0_u32..8) {
            let mut body = payload(n, size);
            prop_assert_eq!(body.len(), size);
            prop_assert_eq!(number(&body, size), Some(n));
            let at = at.index(size);
            body[at] ^= 1_u8 << bit;
            // After a change of the number, the body is that of another message, unless the filler shows the change:
            // it shows any change of the last byte.
            let untold = at < SHORTEST - 1 || size == SHORTEST;
            prop_assert!(number(&body, size).is_none_or(|other| untold && other != n));
            body.push(0);
            prop_assert_eq!(number(&body, size), None);
        }
    }
}
