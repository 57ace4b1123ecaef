//! Datagrams and packet numbers.

use super::*;

const INDEX: ChannelIndex = ChannelIndex(0x0102_0304);
const TO: ChannelIndex = ChannelIndex(0x0506_0708);

fn parse_error(datagram: &[u8]) -> Option<Malformed> {
    Datagram::parse(&mut datagram.to_vec()).err()
}

/// `head`, then zeros up to `len` bytes.
fn of_length(head: &[u8], len: usize) -> Vec<u8> {
    let mut datagram = head.to_vec();
    datagram.resize(len, 0);
    datagram
}

proptest! {
    #[test]
    fn openings_come_back(suite: u8, index: u32, noise in vec(any::<u8>(), 1160..=1192), mac1: [u8; MAC], mac2: [u8; MAC]) {
        let index = ChannelIndex(index);
        let header = opening_header(suite, index);
        let mac1_input = [&header[..], &noise].concat();
        let mac2_input = [&mac1_input[..], &mac1].concat();
        let mut datagram = [&mac2_input[..], &mac2].concat();
        let expected = Opening {
            suite, index, header: &header, noise: &noise, mac1: &mac1, mac2: &mac2,
            mac1_input: &mac1_input, mac2_input: &mac2_input,
        };
                prop_assert_eq!(Datagram::parse(&mut datagram), Ok(Datagram::Opening(expected)));
    }

    #[test]
    fn answers_come_back(suite: u8, to: u32, index: u32, noise in vec(any::<u8>(), 60..=1204), mac1: [u8; MAC]) {
        let (to, index) = (ChannelIndex(to), ChannelIndex(index));
        let header = answer_header(suite, to, index);
        let mac1_input = [&header[..], &noise].concat();
        let mut datagram = [&mac1_input[..], &mac1].concat();
        let expected = Answer { suite, to, index, header: &header, noise: &noise, mac1: &mac1, mac1_input: &mac1_input };
                prop_assert_eq!(Datagram::parse(&mut datagram), Ok(Datagram::Answer(expected)));
    }

    #[test]
    fn retries_come_back(to: u32, nonce: [u8; 24], cookie: [[u8; 20]; 2]) {
        let sealed: [u8; 40] = cookie.concat().try_into().unwrap();
        let mut datagram = retry(ChannelIndex(to), &nonce, &sealed);
        let expected = Retry { to: ChannelIndex(to), nonce: &nonce, sealed: &sealed };
        prop_assert_eq!(Datagram::parse(&mut datagram), Ok(Datagram::Retry(expected)));
    }

    #[test]
    fn resets_come_back(index: u32, token: [u8; 16]) {
        let mut datagram = reset(ChannelIndex(index), &token);
        let expected = Reset { index: ChannelIndex(index), token: &token };
        prop_assert_eq!(Datagram::parse(&mut datagram), Ok(Datagram::Reset(expected)));
    }

    #[test]
    fn data_comes_back(index: u32, number in number(), sealed in vec(any::<u8>(), TAG..100)) {
        let header = data_header(ChannelIndex(index), number);
        let mut datagram = [&header[..], &sealed].concat();
        let Ok(Datagram::Data(data)) = Datagram::parse(&mut datagram) else { panic!() };
        prop_assert_eq!((data.index, data.header, &*data.sealed), (ChannelIndex(index), &header, &sealed[..]));
        prop_assert_eq!(expand(data.number, Some(number.saturating_sub(1))), number);
    }

    #[test]
    fn version_answers_come_back(nibble in 0_u8..16, echo: [u8; 7], versions in vec(any::<u8>(), 1..=255)) {
        let head = [&[nibble << 4 | 0xf][..], &echo, &[versions.len() as u8]].concat();
        let mut datagram = [&head[..], &versions].concat();
        let expected = version::VersionAnswer { echo: &echo, versions: &versions };
                prop_assert_eq!(Datagram::parse(&mut datagram), Ok(Datagram::Version(expected)));
        for cut in 1..datagram.len() {
            prop_assert_eq!(parse_error(&datagram[..cut]), Some(Malformed::Truncated));
        }
        prop_assert_eq!(parse_error(&[&datagram[..], &[0]].concat()), Some(Malformed::Length));
    }

    /// RFC 9000, appendix A.3: the number is the one closest to the next expected.
    #[test]
    fn packet_numbers_within_half_a_window_come_back(number in number(), distance in -0x7fff_ffff_i64..=0x8000_0000) {
        if let Some(expected) = number.checked_add_signed(-distance).filter(|x| (1..=MAX_NUMBER).contains(x)) {
            prop_assert_eq!(expand(number as u32, Some(expected - 1)), number);
        }
    }

    #[test]
    fn packet_numbers_stay_within_62_bits(truncated: u32, largest in option::of(number())) {
        let number = expand(truncated, largest);
        prop_assert!(number <= MAX_NUMBER);
        prop_assert_eq!(number as u32, truncated);
    }
}

#[test]
fn of_two_packet_numbers_as_close_the_later_is_taken() {
    const HALF: u64 = 1 << 31;
    for expected in [1 << 40, (1 << 40) + HALF, (1 << 40) + HALF + 1, (1 << 40) + HALF - 1] {
        let (far, too_far) = (expected + HALF, expected + HALF + 1);
        assert_eq!(expand(far as u32, Some(expected - 1)), far);
        assert_eq!(expand(too_far as u32, Some(expected - 1)), too_far - 2 * HALF);
    }
}

#[test]
fn the_first_packet_number_is_small() {
    assert_eq!(expand(0, None), 0);
    assert_eq!(expand(u32::MAX, None), u64::from(u32::MAX), "there is nothing below");
    assert_eq!(expand(0, Some(MAX_NUMBER)), MAX_NUMBER - u64::from(u32::MAX), "there is nothing above");
}

#[test]
fn lengths_have_bounds() {
    for (head, least, most) in [
        (&opening_header(1, INDEX)[..], 1200, 1232),
        (&answer_header(1, TO, INDEX)[..], 88, 1232),
        (&retry(TO, &[0; 24], &[0; 40])[..8], 72, 72),
        (&reset(TO, &[0; 16])[..5], 21, 21),
    ] {
        for len in 1..1300 {
            let result = parse_error(&of_length(&head[..head.len().min(len)], len));
            let expected = if (least..=most).contains(&len) { None } else { Some(Malformed::Length) };
            assert_eq!(result, expected, "{len} bytes of kind {:x}", head[0]);
        }
    }
    assert_eq!(parse_error(&of_length(&data_header(INDEX, 0), 25)), None);
    assert_eq!(parse_error(&data_header(INDEX, 0)), Some(Malformed::Truncated));
    assert_eq!(parse_error(&of_length(&data_header(INDEX, 0), 24)), Some(Malformed::Truncated));
}

#[test]
fn reserved_bytes_are_zero() {
    for (head, len, reserved) in [
        (&opening_header(1, INDEX)[..], 1200, 2..4),
        (&answer_header(1, TO, INDEX)[..], 88, 2..4),
        (&retry(TO, &[0; 24], &[0; 40])[..], 72, 1..4),
    ] {
        for at in reserved {
            let mut datagram = of_length(head, len);
            datagram[at] = 1;
            assert_eq!(parse_error(&datagram), Some(Malformed::Reserved));
        }
    }
}

#[test]
fn other_kinds_and_versions_are_named() {
    assert_eq!(parse_error(&[]), Some(Malformed::Empty));
    assert_eq!(parse_error(&[0x10; 100]), Some(Malformed::Kind(0)));
    assert_eq!(parse_error(&[0x15; 100]), Some(Malformed::Length));
    assert_eq!(parse_error(&[0x16; 100]), Some(Malformed::Kind(6)));
    assert_eq!(parse_error(&[0x01; 100]), Some(Malformed::Version(0)));
    assert_eq!(parse_error(&[0x24; 100]), Some(Malformed::Version(2)));
    assert_eq!(parse_error(&of_length(&[0x1f], 20)), Some(Malformed::Count), "no version");
}

#[test]
fn a_version_is_answered_only_where_that_cannot_be_abused() {
    let question = of_length(&[0x21, 1, 2, 3, 4, 5, 6, 7, 8], MIN_OPENING);
    let mut answer = version_answer(&question).unwrap();
    let expected = version::VersionAnswer { echo: &[1, 2, 3, 4, 5, 6, 7], versions: &[VERSION] };
    assert_eq!(answer[0], 0x1f);
    assert_eq!(Datagram::parse(&mut answer), Ok(Datagram::Version(expected)));

    assert_eq!(version_answer(&question[..MIN_OPENING - 1]), None, "too short a question");
    assert_eq!(version_answer(&of_length(&[0x2f], MIN_OPENING)), None, "an answer is not answered");
    assert_eq!(version_answer(&of_length(&[0x16], MIN_OPENING)), None, "a version that is known");
    assert_eq!(version_answer(&[]), None);
}

#[test]
fn the_sizes_are_those_of_the_document() {
    assert_eq!((MIN_OPENING_PAYLOAD, MAX_OPENING_PAYLOAD), (1064, 1096));
    assert_eq!((MIN_ANSWER, MAX_ANSWER_PAYLOAD, RETRY, MIN_DATA, RESET), (88, 1144, 72, 25, 21));
}

#[test]
fn what_may_be_an_opening_is_strange() {
    let kinds = (0..=255).filter(|kind| is_strange(&[*kind; MIN_OPENING]));
    assert!(kinds.eq((0..=255).filter(|kind| *kind == 0x11 || kind >> 4 != 1)));
    assert!(!is_strange(&[0x11; MIN_OPENING - 1]));
}
