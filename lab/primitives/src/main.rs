//! What an opening costs most, by implementation: X25519, of a point that is given (DH) and of the base point (a new
//! key), and BLAKE2s over a whole opening. The fastest of many short batches counts: what else the machine does only
//! adds. `cargo run --release`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aws_lc_rs::agreement as aws;
use blake2::digest::Mac;
use blake2::digest::consts::U16;
use ring::agreement as ring;
use x25519_dalek as dalek;

/// Of one kind, at once: shorter than a time slice.
const BATCH: u32 = 8;
/// All of one kind.
const SPAN: Duration = Duration::from_millis(800);
/// Bytes of an opening under mac1.
const OPENING: usize = 1_168;
const SECRET: [u8; 32] = [0x42; 32];
/// The public key of RFC 7748, section 6.1: Bob.
const PEER: [u8; 32] = [
    0xde, 0x9e, 0xdb, 0x7d, 0x7b, 0x7d, 0xc1, 0xb4, 0xd3, 0x5b, 0x61, 0xc2, 0xec, 0xe4, 0x35, 0x37, 0x3f, 0x83,
    0x43, 0xc8, 0x5b, 0x78, 0x67, 0x4d, 0xad, 0xfc, 0x7e, 0x14, 0x6f, 0x88, 0x2b, 0x4f,
];

/// Nanoseconds of one, in the fastest batch.
fn measure<T>(name: &str, mut prepare: impl FnMut() -> T, mut one: impl FnMut(T)) {
    let (begun, mut best) = (Instant::now(), Duration::MAX);
    while begun.elapsed() < SPAN {
        let batch: Vec<T> = (0..BATCH).map(|_| prepare()).collect();
        let started = Instant::now();
        batch.into_iter().for_each(&mut one);
        best = best.min(started.elapsed());
    }
    println!("{name:44} {:9.2} us", best.as_secs_f64() * 1e6 / f64::from(BATCH));
}

fn main() {
    let key = || aws::PrivateKey::from_private_key(&aws::X25519, &SECRET);
    if let Ok(key) = key() {
        measure("X25519 DH, aws-lc-rs", || (), |()| {
            let peer = aws::UnparsedPublicKey::new(&aws::X25519, black_box(&PEER));
            let _ = black_box(aws::agree(&key, peer, (), |shared| Ok::<_, ()>(shared[0])));
        });
    }
    measure("X25519 new key, aws-lc-rs", || (), |()| {
        let _ = black_box(key().map(|key| key.compute_public_key()));
    });
    let random = ring_random();
    let fresh = || ring::EphemeralPrivateKey::generate(&ring::X25519, &random).ok();
    measure("X25519 DH, ring", fresh, |key| {
        let peer = ring::UnparsedPublicKey::new(&ring::X25519, black_box(&PEER));
        let _ = black_box(key.map(|key| ring::agree_ephemeral(key, &peer, |shared| shared[0])));
    });
    measure("X25519 new key, ring", fresh, |key| {
        let _ = black_box(key.map(|key| key.compute_public_key()));
    });
    let key = graviola::key_agreement::x25519::StaticPrivateKey::from_array(&SECRET);
    let peer = graviola::key_agreement::x25519::PublicKey::from_array(&PEER);
    measure("X25519 DH, graviola", || (), |()| {
        let _ = black_box(key.diffie_hellman(black_box(&peer)));
    });
    measure("X25519 new key, graviola", || (), |()| {
        black_box(graviola::key_agreement::x25519::StaticPrivateKey::from_array(black_box(&SECRET)).public_key());
    });
    let (key, peer) = (dalek::StaticSecret::from(SECRET), dalek::PublicKey::from(PEER));
    measure("X25519 DH, x25519-dalek", || (), |()| {
        black_box(key.diffie_hellman(black_box(&peer)));
    });
    measure("X25519 new key, x25519-dalek", || (), |()| {
        black_box(dalek::PublicKey::from(&dalek::StaticSecret::from(black_box(SECRET))));
    });
    let opening = [7; OPENING];
    measure("BLAKE2s of an opening, blake2", || (), |()| {
        let mut state = <blake2::Blake2sMac<U16> as Mac>::new((&SECRET).into());
        state.update(black_box(&opening));
        black_box(state.finalize().into_bytes());
    });
    measure("BLAKE2s of an opening, blake2s_simd", || (), |()| {
        let mut params = blake2s_simd::Params::new();
        black_box(params.hash_length(16).key(&SECRET).hash(black_box(&opening)));
    });
}

fn ring_random() -> impl ::ring::rand::SecureRandom {
    ::ring::rand::SystemRandom::new()
}
