use proptest::prelude::*;

use super::*;
use crate::crypto::hex;

const SUITES: [Suite; 2] = [Suite::Aes128Gcm, Suite::ChaCha20Poly1305];

fn sealed(suite: Suite, key: &[u8; 32], number: u64, header: &[u8], text: &[u8]) -> Vec<u8> {
    let mut buf = [text, &[0; TAG_LEN]].concat();
    SealKey::new(suite, key).seal_in_place(number, header, &mut buf).unwrap();
    buf
}

fn opened(key: &OpenKey, number: u64, header: &[u8], packet: &[u8]) -> Result<Vec<u8>, Unauthentic> {
    key.open_in_place(number, header, &mut packet.to_vec()).map(|text| text.to_vec())
}

#[test]
fn sealed_bytes_are_fixed_by_the_protocol() {
    let seal = |suite| hex::encode(&sealed(suite, &[0x42; 32], 0x0102_0304_0506_0708, b"header", b"exonet"));
    assert_eq!(seal(Suite::Aes128Gcm), "18ab2f1fecfcc27c014985f278ae5f054413f044b2a4");
    assert_eq!(seal(Suite::ChaCha20Poly1305), "01d545e854abd7d0760a70c84dd07894dd778dd88c89");
}

#[test]
fn a_buffer_without_room_for_the_tag_is_not_sealed() {
    for suite in SUITES {
        let key = SealKey::new(suite, &[1; 32]);
        let mut short = [5; TAG_LEN - 1];
        assert_eq!(key.seal_in_place(0, b"", &mut short), Err(NoRoom));
        assert_eq!(key.seal_in_place(0, b"", &mut [0; TAG_LEN]), Ok(()));
        assert_eq!(OpenKey::new(suite, &[1; 32]).open_in_place(0, b"", &mut short), Err(Unauthentic));
    }
}

proptest! {
    #[test]
    fn what_was_sealed_opens_and_nothing_else(
        suite in prop::sample::select(&SUITES),
        key: [u8; 32],
        number: u64,
        header in proptest::collection::vec(any::<u8>(), 1..20),
        text in proptest::collection::vec(any::<u8>(), 0..1500),
        at: prop::sample::Index,
        bit in 0_u8..8,
    ) {
        let packet = sealed(suite, &key, number, &header, &text);
        let open = OpenKey::new(suite, &key);
        prop_assert_eq!(opened(&open, number, &header, &packet), Ok(text));

        let mut changed = packet.clone();
        changed[at.index(packet.len())] ^= 1 << bit;
        prop_assert_eq!(opened(&open, number, &header, &changed), Err(Unauthentic));

        let mut other = header.clone();
        other[at.index(header.len())] ^= 1 << bit;
        prop_assert_eq!(opened(&open, number, &other, &packet), Err(Unauthentic));

        let other = number ^ (1 << at.index(64));
        prop_assert_eq!(opened(&open, other, &header, &packet), Err(Unauthentic));

        let mut other = key;
        other[at.index(32)] ^= 1 << bit;
        prop_assert_eq!(opened(&OpenKey::new(suite, &other), number, &header, &packet), Err(Unauthentic));

        let cut = at.index(packet.len());
        prop_assert_eq!(opened(&open, number, &header, &packet[..cut]), Err(Unauthentic));
    }
}
