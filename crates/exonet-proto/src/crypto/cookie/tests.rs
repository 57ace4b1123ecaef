use core::time::Duration;

use super::*;
use crate::crypto::{OpeningMac, hex};

const RECEIVER: NodeId = NodeId([7; 32]);
const DATAGRAM: &[u8] = b"an opening, mac1 included";
const NOON: Mono = Mono(EPOCH * 360);

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn mac2(jar: &CookieJar, now: Mono, from: &str) -> [u8; 16] {
    OpeningMac::mac2(&jar.cookie(now, address(from)), DATAGRAM)
}

#[test]
fn a_cookie_is_good_in_its_epoch_and_the_next() {
    let jar = CookieJar::new([3; 32]);
    let from = "192.0.2.1:4000";
    let mac = mac2(&jar, NOON, from);
    let accepted = |after| jar.verify_mac2(NOON + Duration::from_secs(after), address(from), DATAGRAM, &mac);
    assert!(accepted(0) && accepted(119) && accepted(120) && accepted(239));
    assert!(!accepted(240) && !accepted(100_000));
    assert!(
        !jar.verify_mac2(NOON - Duration::from_nanos(1), address(from), DATAGRAM, &mac),
        "not before it was made"
    );
}

#[test]
fn the_first_epoch_has_no_other_before_it() {
    let jar = CookieJar::new([3; 32]);
    let mac = mac2(&jar, Mono(0), "192.0.2.1:4000");
    assert!(jar.verify_mac2(Mono(0), address("192.0.2.1:4000"), DATAGRAM, &mac));
    let never = mac2(&jar, Mono::NEVER, "192.0.2.1:4000");
    assert!(!jar.verify_mac2(Mono(0), address("192.0.2.1:4000"), DATAGRAM, &never));
}

#[test]
fn a_cookie_is_bound_to_address_port_jar_and_datagram() {
    let jar = CookieJar::new([3; 32]);
    let mac = mac2(&jar, NOON, "192.0.2.1:4000");
    let accepted = |jar: &CookieJar, from, datagram| jar.verify_mac2(NOON, address(from), datagram, &mac);
    assert!(accepted(&jar, "192.0.2.1:4000", DATAGRAM));
    assert!(accepted(&jar, "[::ffff:192.0.2.1]:4000", DATAGRAM), "the same host on a dual-stack socket");
    assert!(!accepted(&jar, "192.0.2.2:4000", DATAGRAM));
    assert!(!accepted(&jar, "192.0.2.1:4001", DATAGRAM));
    assert!(!accepted(&jar, "[::192.0.2.1]:4000", DATAGRAM));
    assert!(!accepted(&jar, "192.0.2.1:4000", b"another opening"));
    assert!(!accepted(&CookieJar::new([4; 32]), "192.0.2.1:4000", DATAGRAM));
    for bit in 0..128 {
        let mut changed = mac;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(!jar.verify_mac2(NOON, address("192.0.2.1:4000"), DATAGRAM, &changed));
    }
}

#[test]
fn a_retry_opens_for_its_own_opening_only() {
    let jar = CookieJar::new([3; 32]);
    let (nonce, mac1) = ([9; RETRY_NONCE_LEN], [1; MAC_LEN]);
    let retry = Retry { cookie: jar.cookie(NOON, address("[2001:db8::1]:4000")), time: Wall(1_700_000_000) };
    let key = RetryKey::new(&RECEIVER);
    let sealed = key.seal(&nonce, &retry, &mac1);

    let opened = RetryKey::new(&RECEIVER).open(&nonce, &mac1, &sealed).unwrap();
    assert_eq!(opened.time, retry.time);
    let mac2 = OpeningMac::mac2(&opened.cookie, DATAGRAM);
    assert!(jar.verify_mac2(NOON, address("[2001:db8::1]:4000"), DATAGRAM, &mac2));

    assert!(key.open(&nonce, &[2; MAC_LEN], &sealed).is_err());
    assert!(key.open(&[8; RETRY_NONCE_LEN], &mac1, &sealed).is_err());
    assert!(RetryKey::new(&NodeId([8; 32])).open(&nonce, &mac1, &sealed).is_err());
    for at in 0..RETRY_LEN {
        let mut changed = sealed;
        changed[at] ^= 1;
        assert!(key.open(&nonce, &mac1, &changed).is_err(), "byte {at}");
    }
}

#[test]
fn retry_and_mac2_bytes_are_fixed_by_the_protocol() {
    let cookie = CookieJar::new([3; 32]).cookie(NOON, address("192.0.2.1:4000"));
    assert_eq!(hex::encode(&cookie.0), "48f940415eb369ce5d1ce06696c9b7d6");
    assert_eq!(hex::encode(&OpeningMac::mac2(&cookie, DATAGRAM)), "19888d6456595bb3709b8c53bf44bb15");
    let sealed =
        RetryKey::new(&RECEIVER).seal(&[9; 24], &Retry { cookie, time: Wall(0x0102_0304) }, &[1; 16]);
    assert_eq!(
        hex::encode(&sealed),
        "87c0d9991da3973c07fb4799efd2f276ab8bdc9e4eee9574905ea2475050a93f07ecae5dcafe8243"
    );
}

#[test]
fn debug_shows_no_cookie() {
    let cookie = Cookie([0xab; 16]);
    assert_eq!(format!("{cookie:?}"), "Cookie(..)");
}
