//! The head of a message and its extensions.

use exonet_proto::wire::{Head, MAX_TAG, Tlvs};

use crate::memory;

/// A message, starting with its head; and the same bytes as a sequence of extensions.
pub fn head(data: &[u8]) {
    if let Ok((head, len)) = memory::none(|| Head::parse(data)) {
        assert!(len <= data.len() && head.encoded_len() <= len && head.tag.len() <= MAX_TAG);
        let mut again = Vec::new();
        assert!(head.encode(&mut again) && again.len() == head.encoded_len());
        assert_eq!(Head::parse(&again), Ok((head, again.len())));
        let mut room = &mut again[1..];
        assert!(!head.encode(&mut room), "a head was written where it does not fit");
    }
    if let Ok(values) = Tlvs::parse(data) {
        let mut again = Vec::new();
        for value in values {
            assert!(value.encode(&mut again));
            assert!(values.get(value.id).is_some());
        }
        assert!(again.len() <= data.len() && Tlvs::parse(&again).is_ok_and(|again| again.eq(values)));
    }
}
