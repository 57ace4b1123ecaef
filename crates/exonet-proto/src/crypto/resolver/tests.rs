use snow::Builder;

use super::*;
use crate::crypto::hex;

/// The vector "Noise_IK_25519_ChaChaPoly_BLAKE2s" of the Cacophony test suite.
mod cacophony {
    pub(super) const PROLOGUE: &str = "4a6f686e2047616c74";
    pub(super) const INIT_STATIC: &str = "e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1";
    pub(super) const INIT_EPHEMERAL: &str =
        "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a";
    pub(super) const RESP_STATIC: &str = "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893";
    pub(super) const RESP_PUBLIC: &str = "31e0303fd6418d2f8c0e78b91f22e8caed0fbe48656dcf4767e4834f701b8f62";
    pub(super) const RESP_EPHEMERAL: &str =
        "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b";
    pub(super) const HASH: &str = "48f3cb8bc9319da4ba1e9933991b1c4ed4034f1f126a76d3a1fbcfd7f94248d4";
    pub(super) const PAYLOADS: [&str; 4] = [
        "4c756477696720766f6e204d69736573",
        "4d757272617920526f746862617264",
        "462e20412e20486179656b",
        "4361726c204d656e676572",
    ];
    pub(super) const MESSAGES: [&str; 4] = [
        "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79440b03ddc7aac5123d06a1b23b71670e32\
         e76c28239a7ca4ac8f784de7e44c1adbfc6e83fef7352a58d9d56157400c0a737b1d171ce368229c7b752ac25b8faf4e\
         ca690f6d896f543be02c996ab2b86b76",
        "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843d9b5a8927f0ac9655ef76833bc7e5561\
         f42e691ac8404efd6fbd6308b6a27c",
        "2c256ed08fcd08c2980f954ee4beaccb61c9581340f5dd2fd1cf3b",
        "d6033f70eee20945c7c9dba304e397ee3b284ff5e00fd9efb095d3",
    ];
}

fn builder<'a>(local: &'a [u8; 32], ephemeral: &'a [u8; 32], prologue: &'a [u8]) -> Builder<'a> {
    let private = Arc::new(Private::new(Zeroizing::new(*local)));
    let params = "Noise_IK_25519_ChaChaPoly_BLAKE2s".parse().unwrap();
    Builder::with_resolver(params, Box::new(Resolver::new([0; 32], &private)))
        .local_private_key(local)
        .unwrap()
        .prologue(prologue)
        .unwrap()
        .fixed_ephemeral_key_for_testing_only(ephemeral)
}

#[test]
fn the_resolver_reproduces_the_cacophony_vector() {
    let prologue = hex::decode(cacophony::PROLOGUE);
    let (local, ephemeral) = (hex::array(cacophony::INIT_STATIC), hex::array(cacophony::INIT_EPHEMERAL));
    let remote: [u8; 32] = hex::array(cacophony::RESP_PUBLIC);
    let initiator = builder(&local, &ephemeral, &prologue).remote_public_key(&remote).unwrap();
    let (local, ephemeral) = (hex::array(cacophony::RESP_STATIC), hex::array(cacophony::RESP_EPHEMERAL));
    let responder = builder(&local, &ephemeral, &prologue);
    let (mut initiator, mut responder) =
        (initiator.build_initiator().unwrap(), responder.build_responder().unwrap());

    let payloads = cacophony::PAYLOADS.map(hex::decode);
    let (mut message, mut payload) = ([0; 200], [0; 200]);
    let length = initiator.write_message(&payloads[0], &mut message).unwrap();
    assert_eq!(hex::encode(&message[..length]), cacophony::MESSAGES[0]);
    let length = responder.read_message(&message[..length], &mut payload).unwrap();
    assert_eq!(payload[..length], payloads[0]);
    let length = responder.write_message(&payloads[1], &mut message).unwrap();
    assert_eq!(hex::encode(&message[..length]), cacophony::MESSAGES[1]);
    let length = initiator.read_message(&message[..length], &mut payload).unwrap();
    assert_eq!(payload[..length], payloads[1]);
    assert_eq!(hex::encode(initiator.get_handshake_hash()), cacophony::HASH);
    assert_eq!(hex::encode(responder.get_handshake_hash()), cacophony::HASH);

    let (first, second) = initiator.dangerously_get_raw_split();
    assert_eq!(responder.dangerously_get_raw_split(), (first, second));
    for (key, at) in [(first, 2), (second, 3)] {
        let mut text = payloads[at].clone();
        let tag = Aead::chacha20_poly1305(&key).seal(noise_nonce(0), b"", &mut text).unwrap();
        assert_eq!(hex::encode(&[text.as_slice(), &tag].concat()), cacophony::MESSAGES[at]);
    }
}

#[test]
fn a_point_of_low_order_gives_no_secret() {
    let pair = KeyPair(Arc::new(Private::new(Zeroizing::new([9; 32]))));
    let mut out = [0; 56];
    for point in [
        // 0, 1, the two of order 8, and p - 1.
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ] {
        assert!(matches!(pair.dh(&hex::decode(point), &mut out), Err(Error::Dh)), "{point}");
    }
    assert!(pair.dh(&hex::decode(cacophony::RESP_PUBLIC), &mut out).is_ok());
}

#[test]
fn a_second_name_of_a_key_is_refused() {
    let pair = KeyPair(Arc::new(Private::new(Zeroizing::new([9; 32]))));
    let mut name = hex::decode(cacophony::RESP_PUBLIC);
    name[31] |= 0x80;
    assert!(matches!(pair.dh(&name, &mut [0; 56]), Err(Error::Dh)));
}

#[test]
fn a_cipher_without_key_lets_no_plaintext_out() {
    let mut out = [7; 21];
    assert_eq!(ChaChaPoly(None).encrypt(0, b"", b"plain", &mut out), 21);
    assert_eq!(out, [0; 21]);
}
