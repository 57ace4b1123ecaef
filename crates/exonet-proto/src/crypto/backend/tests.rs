use proptest::prelude::*;

use super::{aws, pure};

proptest! {
    #[test]
    fn both_backends_seal_the_same_bytes(
        key: [u8; 32],
        nonce: [u8; 12],
        aad in proptest::collection::vec(any::<u8>(), 0..40),
        text in proptest::collection::vec(any::<u8>(), 0..1500),
        aes: bool,
    ) {
        let half: [u8; 16] = key[..16].try_into().unwrap();
        let (ours, theirs) = if aes {
            (aws::Aead::aes_128_gcm(&half), pure::Aead::aes_128_gcm(&half))
        } else {
            (aws::Aead::chacha20_poly1305(&key), pure::Aead::chacha20_poly1305(&key))
        };
        let (mut a, mut b) = (text.clone(), text.clone());
        let tag = ours.seal(nonce, &aad, &mut a).unwrap();
        prop_assert_eq!(theirs.seal(nonce, &aad, &mut b).unwrap(), tag);
        prop_assert_eq!(&a, &b);
        ours.open(nonce, &aad, &mut b, &tag).unwrap();
        theirs.open(nonce, &aad, &mut a, &tag).unwrap();
        prop_assert!(a == text && b == text);
    }

    #[test]
    fn both_backends_agree_on_the_same_secret(mine: [u8; 32], yours: [u8; 32]) {
        let (a, b) = (aws::X25519::new(&mine).unwrap(), pure::X25519::new(&yours).unwrap());
        let (mut ab, mut ba) = ([0; 32], [0; 32]);
        a.agree(b.public(), &mut ab).unwrap();
        b.agree(a.public(), &mut ba).unwrap();
        prop_assert_eq!(ab, ba);
        let twin = pure::X25519::new(&mine).unwrap();
        prop_assert_eq!(a.public(), twin.public());
    }
}
