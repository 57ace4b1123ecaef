//! The ECN field of an IP header (RFC 3168, section 5).

/// The field: CE, if all of it is set; not ECT, if none of it is.
const FIELD: u8 = 0b11;
/// The field within the second byte of an IPv6 header, which has the lower half of the traffic class in its upper half.
const FIELD_V6: u8 = FIELD << 4;

/// Marks a packet CE. False: its transport does not know marks, or it is no packet of IP.
pub(super) fn mark(packet: &mut [u8]) -> bool {
    match packet {
        [first, tos, _, _, _, _, _, _, _, _, high, low, ..] if *first >> 4 == 4 => {
            let before = u16::from_be_bytes([*first, *tos]);
            let capable = set(tos, FIELD);
            let after = u16::from_be_bytes([*first, *tos]);
            [*high, *low] = updated(u16::from_be_bytes([*high, *low]), before, after).to_be_bytes();
            capable
        }
        [first, class, ..] if *first >> 4 == 6 => set(class, FIELD_V6),
        _ => false,
    }
}

/// Sets all of the field in this byte, if any of it is set: whether it was.
const fn set(byte: &mut u8, field: u8) -> bool {
    let capable = *byte & field != 0;
    if capable {
        *byte |= field;
    }
    capable
}

/// The header's checksum when one of its words has changed (RFC 1624, equation 3).
fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    // Two carries at most: three words are less than 3 * 2^16.
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !u16::try_from(folded).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum of a header anew, its own field left out (RFC 791).
    fn checksum(header: &[u8]) -> u16 {
        let words = header.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]]));
        let others = words.enumerate().filter(|(at, _)| *at != 5);
        let mut sum: u32 = others.map(|(_, word)| u32::from(word)).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).unwrap()
    }

    /// A header of IPv4 with a checksum that is right.
    fn v4(tos: u8, id: u16) -> [u8; 20] {
        let [high, low] = id.to_be_bytes();
        let mut header =
            [0x45, tos, 0x05, 0xdc, high, low, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2];
        let sum = checksum(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        header
    }

    #[test]
    fn capable_packets_are_marked_and_others_left_alone() {
        for (ecn, capable) in [(0b00, false), (0b01, true), (0b10, true), (0b11, true)] {
            let before = v4(0xb8 | ecn, 1);
            let mut packet = before;
            assert_eq!(mark(&mut packet), capable);
            assert_eq!(packet, if capable { v4(0xbb, 1) } else { before });
        }
    }

    #[test]
    fn the_checksum_is_right_for_every_header() {
        for id in 0..=u16::MAX {
            for ecn in [0b01, 0b10] {
                let mut packet = v4(ecn, id);
                assert!(mark(&mut packet));
                assert_eq!(packet[10..12], checksum(&packet).to_be_bytes(), "{id}");
            }
        }
    }

    #[test]
    fn of_ipv6_it_is_in_the_traffic_class() {
        // Traffic class 0xb8 and flow 0xabcde.
        let packet = |ecn: u8| [0x6b, 0x8a | (ecn << 4), 0xbc, 0xde, 0, 0, 17, 64];
        for (ecn, capable) in [(0b00, false), (0b01, true), (0b10, true), (0b11, true)] {
            let mut marked = packet(ecn);
            assert_eq!(mark(&mut marked), capable);
            assert_eq!(marked, packet(if capable { 0b11 } else { 0b00 }));
        }
    }

    #[test]
    fn what_is_no_packet_is_left_alone() {
        for packet in [&mut [][..], &mut [0x45, 0b10], &mut [0x60], &mut [0xff; 40]] {
            let before = packet.to_vec();
            assert!(!mark(packet));
            assert_eq!(packet, before);
        }
    }
}
