use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::*;
use crate::crypto::hex;

const OPENING: [u8; 8] = [0x11, 1, 0, 0, 0xaa, 0xbb, 0xcc, 0xdd];
const ANSWER: [u8; 12] = [0x12, 1, 0, 0, 0xaa, 0xbb, 0xcc, 0xdd, 0x11, 0x22, 0x33, 0x44];
const SEEDS: [[u8; 32]; 2] = [[0x51; 32], [0x52; 32]];

fn alice() -> SecretKey {
    SecretKey::from_bytes([0xa1; 32])
}

fn bob() -> SecretKey {
    SecretKey::from_bytes([0xb0; 32])
}

/// An initiator that has written an opening with `payload`, and that opening.
fn opening(header: &[u8; 8], payload: &[u8]) -> (Initiator, Vec<u8>) {
    let mut initiator = Initiator::new(&alice(), &bob().node_id(), header, SEEDS[0]).unwrap();
    let mut out = vec![0; payload.len() + OPENING_OVERHEAD];
    assert_eq!(initiator.write_opening(payload, &mut out), Ok(out.len()));
    (initiator, out)
}

fn read(header: &[u8; 8], message: &[u8]) -> Result<(Opened, Vec<u8>), HandshakeError> {
    let mut payload = vec![0; message.len()];
    let opened = Opened::read(&bob(), header, message, SEEDS[1], &mut payload)?;
    payload.truncate(opened.payload_len());
    Ok((opened, payload))
}

fn answer(opened: Opened, payload: &[u8]) -> (Keys, Vec<u8>) {
    let mut out = vec![0; payload.len() + ANSWER_OVERHEAD];
    let (keys, length) = opened.answer(&ANSWER, payload, &mut out).unwrap();
    assert_eq!(length, out.len());
    (keys, out)
}

fn read_answer(
    initiator: &mut Initiator,
    header: &[u8; 12],
    message: &[u8],
) -> Result<(Keys, Vec<u8>), HandshakeError> {
    let mut payload = vec![0; message.len()];
    let (keys, length) = initiator.read_answer(header, message, &mut payload)?;
    payload.truncate(length);
    Ok((keys, payload))
}

fn assert_they_talk(a: &Keys, b: &Keys) {
    assert_eq!(a.binding, b.binding);
    for (from, to) in [(a, b), (b, a)] {
        let mut packet = *b"a packet________________";
        from.seal.seal_in_place(5, b"header", &mut packet).unwrap();
        let mut own = packet;
        assert_eq!(to.open.open_in_place(5, b"header", &mut packet).unwrap(), b"a packet");
        assert!(
            from.open.open_in_place(5, b"header", &mut own).is_err(),
            "a direction is not its own reflection"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn both_ends_get_the_payloads_each_other_and_one_pair_of_keys(
        suite in prop::sample::select(&[Suite::Aes128Gcm, Suite::ChaCha20Poly1305]),
        to_bob in proptest::collection::vec(any::<u8>(), 0..1200),
        to_alice in proptest::collection::vec(any::<u8>(), 0..1200),
        seed: [u8; 32],
    ) {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let (alice, bob) = (SecretKey::generate(&mut rng), SecretKey::generate(&mut rng));
        let mut header = OPENING;
        header[1] = suite.as_u8();
        let mut initiator = Initiator::new(&alice, &bob.node_id(), &header, seed).unwrap();
        let (mut message, mut payload) = ([0; 1300], [0; 1300]);
        let length = initiator.write_opening(&to_bob, &mut message).unwrap();
        let opened = Opened::read(&bob, &header, &message[..length], [9; 32], &mut payload).unwrap();
        prop_assert_eq!(opened.peer(), alice.node_id());
        prop_assert_eq!(opened.suite(), suite);
        prop_assert_eq!(&payload[..opened.payload_len()], &to_bob);
        let (bobs, length) = opened.answer(&ANSWER, &to_alice, &mut message).unwrap();
        let (alices, got) = read_answer(&mut initiator, &ANSWER, &message[..length]).unwrap();
        prop_assert_eq!(got, to_alice);
        assert_they_talk(&alices, &bobs);
    }
}

#[test]
fn the_same_seeds_give_the_bytes_fixed_by_the_protocol() {
    let (mut initiator, message1) = opening(&OPENING, b"early");
    assert_eq!(
        hex::encode(&message1),
        "b26c4dc974add2f9c537af4dcaaf2b69918b24ed166421315f5660effd4f573135b2c76066ea644b0fcc6607\
         8ccf57e27ac3efe506f6836679490644af5666abd43548d561db0c7db87a4a97a085a179dd090488430cd787\
         b3f09a235568a5d78979887675"
    );
    let (opened, _) = read(&OPENING, &message1).unwrap();
    let (bobs, message2) = answer(opened, b"state");
    assert_eq!(
        hex::encode(&message2),
        "224db70d0e8f2a10b5ab2bcf44d1a88bfb7b7bf6e0b5ceec16c3343d3705cf0aba0ca29123eb968ae77055fc\
         8305136e6da330839d530ea4e369e44c115f42ef15"
    );
    let (alices, _) = read_answer(&mut initiator, &ANSWER, &message2).unwrap();
    assert_eq!(
        hex::encode(&alices.binding),
        "432f5909e6ed8c8bc9cb9781d623b51458e933777c0ab595b2726f1cdd225ff6"
    );
    let mut packet = [0; 16];
    alices.seal.seal_in_place(0, b"", &mut packet).unwrap();
    assert_eq!(hex::encode(&packet), "af78419b31153cd880dd9cfebaca3e18");
    bobs.seal.seal_in_place(0, b"", &mut packet).unwrap();
    assert_eq!(hex::encode(&packet), "453fdd5cadbbda370cc852927e4c6ce1");
}

#[test]
fn another_seed_gives_another_ephemeral_key() {
    let (_, first) = opening(&OPENING, b"early");
    let mut initiator = Initiator::new(&alice(), &bob().node_id(), &OPENING, [0x99; 32]).unwrap();
    let mut second = vec![0; first.len()];
    initiator.write_opening(b"early", &mut second).unwrap();
    assert_ne!(first[..32], second[..32]);
}

#[test]
fn an_opening_for_another_is_not_read() {
    let (_, message) = opening(&OPENING, b"early");
    let eve = SecretKey::from_bytes([0xee; 32]);
    let read = Opened::read(&eve, &OPENING, &message, SEEDS[1], &mut [0; 100]);
    assert_eq!(read.unwrap_err(), HandshakeError::Unauthentic);
}

#[test]
fn an_answer_by_another_is_not_taken() {
    // Eve cannot read Bob's opening; the best that she can do is to answer one of her own.
    let (mut to_bob, _) = opening(&OPENING, b"early");
    let eve = SecretKey::from_bytes([0xee; 32]);
    let mut to_eve = Initiator::new(&alice(), &eve.node_id(), &OPENING, SEEDS[0]).unwrap();
    let mut message = [0; 200];
    let length = to_eve.write_opening(b"early", &mut message).unwrap();
    let opened = Opened::read(&eve, &OPENING, &message[..length], SEEDS[1], &mut [0; 100]).unwrap();
    let (_, forged) = answer(opened, b"state");
    assert_eq!(read_answer(&mut to_bob, &ANSWER, &forged).unwrap_err(), HandshakeError::Unauthentic);
    assert!(read_answer(&mut to_eve, &ANSWER, &forged).is_ok());
}

#[test]
fn every_byte_of_an_opening_counts() {
    let (_, message) = opening(&OPENING, b"early");
    for at in 0..message.len() {
        let mut changed = message.clone();
        changed[at] ^= 1;
        let error = read(&OPENING, &changed).unwrap_err();
        assert!(matches!(error, HandshakeError::Unauthentic | HandshakeError::WeakKey), "byte {at}: {error}");
    }
    for at in 0..OPENING.len() {
        for bit in 0..8 {
            let mut changed = OPENING;
            changed[at] ^= 1 << bit;
            assert!(read(&changed, &message).is_err(), "header byte {at}");
        }
    }
}

#[test]
fn every_byte_of_an_answer_counts_and_none_of_the_forgeries_spoils_the_true_one() {
    let (mut initiator, message1) = opening(&OPENING, b"early");
    let (opened, _) = read(&OPENING, &message1).unwrap();
    let (bobs, message2) = answer(opened, b"state");
    for at in 0..message2.len() {
        let mut forged = message2.clone();
        forged[at] ^= 1;
        assert!(read_answer(&mut initiator, &ANSWER, &forged).is_err(), "byte {at}");
    }
    let mut weak = message2.clone();
    weak[..32].fill(0);
    assert_eq!(read_answer(&mut initiator, &ANSWER, &weak).unwrap_err(), HandshakeError::WeakKey);
    for cut in [0, 31, 32, ANSWER_OVERHEAD - 1] {
        let error = read_answer(&mut initiator, &ANSWER, &message2[..cut]).unwrap_err();
        assert_eq!(error, HandshakeError::Malformed);
    }
    // From here on Noise has accepted the message, and only its clear header was forged.
    for at in 0..ANSWER.len() {
        let mut header = ANSWER;
        header[at] ^= 1;
        let error = read_answer(&mut initiator, &header, &message2).unwrap_err();
        assert_eq!(error, HandshakeError::Unauthentic, "header byte {at}");
    }
    let mut forged = message2.clone();
    forged[40] ^= 1;
    assert_eq!(read_answer(&mut initiator, &ANSWER, &forged).unwrap_err(), HandshakeError::Unauthentic);

    let (alices, payload) = read_answer(&mut initiator, &ANSWER, &message2).unwrap();
    assert_eq!(payload, b"state");
    assert_they_talk(&alices, &bobs);
}

#[test]
fn each_step_is_taken_once() {
    let (mut initiator, message1) = opening(&OPENING, b"early");
    assert_eq!(initiator.write_opening(b"more", &mut [0; 200]), Err(HandshakeError::OutOfOrder));
    let (opened, _) = read(&OPENING, &message1).unwrap();
    let (_, message2) = answer(opened, b"state");
    assert!(read_answer(&mut initiator, &ANSWER, &message2).is_ok());
    // A second pair of keys would seal a second packet 0.
    assert_eq!(read_answer(&mut initiator, &ANSWER, &message2).unwrap_err(), HandshakeError::OutOfOrder);

    let mut early = Initiator::new(&alice(), &bob().node_id(), &OPENING, SEEDS[0]).unwrap();
    assert_eq!(read_answer(&mut early, &ANSWER, &message2).unwrap_err(), HandshakeError::OutOfOrder);
    assert!(early.write_opening(b"", &mut [0; OPENING_OVERHEAD]).is_ok());
}

#[test]
fn a_short_buffer_is_refused_and_costs_nothing() {
    let mut initiator = Initiator::new(&alice(), &bob().node_id(), &OPENING, SEEDS[0]).unwrap();
    let mut message1 = [0; OPENING_OVERHEAD + 5];
    let short = &mut message1[1..];
    assert_eq!(initiator.write_opening(b"early", short), Err(HandshakeError::NoRoom));
    assert_eq!(initiator.write_opening(b"early", &mut message1), Ok(message1.len()));
    assert_eq!(
        Opened::read(&bob(), &OPENING, &message1, SEEDS[1], &mut [0; 4]).unwrap_err(),
        HandshakeError::NoRoom
    );
    let (opened, _) = read(&OPENING, &message1).unwrap();
    let refused = opened.answer(&ANSWER, b"state", &mut [0; ANSWER_OVERHEAD + 4]);
    assert_eq!(refused.unwrap_err(), HandshakeError::NoRoom);
    let (opened, _) = read(&OPENING, &message1).unwrap();
    let (_, message2) = answer(opened, b"state");
    let refused = initiator.read_answer(&ANSWER, &message2, &mut [0; 4]);
    assert_eq!(refused.unwrap_err(), HandshakeError::NoRoom);
    assert!(initiator.read_answer(&ANSWER, &message2, &mut [0; 5]).is_ok());
}

#[test]
fn bytes_that_are_no_message_are_malformed() {
    for length in [0, 1, OPENING_OVERHEAD - 1, MAX_MESSAGE + 1] {
        assert_eq!(read(&OPENING, &vec![0; length]).unwrap_err(), HandshakeError::Malformed);
    }
}

#[test]
fn a_weak_key_is_no_peer() {
    let mut second_name = bob().node_id();
    second_name.0[31] |= 0x80;
    for id in [NodeId([0; 32]), second_name] {
        let mut initiator = Initiator::new(&alice(), &id, &OPENING, SEEDS[0]).unwrap();
        assert_eq!(initiator.write_opening(b"", &mut [0; 200]), Err(HandshakeError::WeakKey));
    }
    let (_, mut message) = opening(&OPENING, b"early");
    message[..32].fill(0);
    assert_eq!(read(&OPENING, &message).unwrap_err(), HandshakeError::WeakKey);
}

#[test]
fn an_unknown_suite_is_named() {
    let mut header = OPENING;
    header[1] = 77;
    let unknown = HandshakeError::UnknownSuite(UnknownSuite(77));
    assert_eq!(Initiator::new(&alice(), &bob().node_id(), &header, SEEDS[0]).unwrap_err(), unknown);
    assert_eq!(read(&header, &[0; 200]).unwrap_err(), unknown);
}

#[test]
fn debug_shows_no_key() {
    let (mut initiator, message1) = opening(&OPENING, b"early");
    let (opened, _) = read(&OPENING, &message1).unwrap();
    let (keys, message2) = answer(opened, b"state");
    read_answer(&mut initiator, &ANSWER, &message2).unwrap();
    assert!(format!("{keys:?}").starts_with("Keys { seal: SealKey(..), open: OpenKey(..), binding"));
    assert!(format!("{initiator:?}").contains("Received(..)"));
}
