//! The address at which a peer is reached: a path moves only by the rules, and unproven addresses get few bytes.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use exonet_proto::Mono;
use exonet_proto::channel::path::{AMPLIFICATION, Path};
use exonet_proto::channel::roaming::{CHALLENGE_LEN, Timing};
use exonet_proto::channel::{PathAddr, Roaming};

use crate::ops::ops;

/// One of eight paths: four remote addresses, two of them on one host; the node's own address is given or not.
#[derive(Clone, Copy, Debug, Arbitrary)]
struct Place(u8);

#[derive(Debug, Arbitrary)]
enum Op {
    Packet {
        from: Place,
        bytes: u16,
        newest: bool,
    },
    Received {
        from: Place,
        bytes: u16,
    },
    /// The response to a challenge that was sent, or another one.
    Response {
        from: Place,
        which: u8,
        forged: bool,
    },
    Challenge,
    Send {
        to: Place,
        bytes: u16,
    },
    Wait {
        micros: u32,
    },
    Ring,
    Choose(Place),
    ValidateActive,
}

/// Packets, challenges and responses of one peer; the first byte chooses the start.
#[expect(clippy::too_many_lines, reason = "one arm for each kind of input")]
pub fn roaming(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let timing = Timing { rtt: Duration::from_millis(20), pto: Duration::from_millis(70) };
    let mut now = Mono(1 << 40);
    let mut random = 0_u64;
    let start = Place(choice >> 2).addr();
    let mut roaming = match choice & 1 {
        0 => Roaming::new(Path::proven(start)),
        _ => Roaming::unproven(now, start, timing, [0xff; 8]),
    };
    let (mut challenges, mut received, mut given) = (BTreeSet::new(), 0_u64, 0_u64);
    let mut proven = choice & 1 == 0;
    for op in ops::<Op>(rest, 256) {
        let active = roaming.active().addr();
        match op {
            Op::Packet { from, bytes, newest } => {
                received += u64::from(bytes);
                let moved =
                    roaming.on_packet_from(now, from.addr(), bytes.into(), newest, timing, &mut || {
                        random += 1;
                        random.to_be_bytes()
                    });
                assert!(moved.is_none_or(|moved| moved.back && newest), "only a way back needs no challenge");
                assert!(moved.is_some() || roaming.active().addr() == active);
            }
            Op::Received { from, bytes } => {
                received += u64::from(bytes);
                roaming.on_received(&from.addr(), bytes.into());
                assert_eq!(roaming.active().addr(), active);
            }
            Op::Response { from, which, forged } => {
                let known = challenges.iter().nth(usize::from(which)).copied();
                let data = if forged { Some([0xee; 8]) } else { known };
                let Some(data) = data else { continue };
                let moved = roaming.on_response(now, &from.addr(), data, timing);
                assert!(moved.is_none() || !forged, "a response to no challenge moved the path");
                assert!(moved.is_some() || roaming.active().addr() == active);
                proven |= !forged;
            }
            Op::Challenge => {
                if let Some((to, data)) = roaming.challenge(now) {
                    assert!(roaming.allowance(&to) >= CHALLENGE_LEN);
                    challenges.insert(data);
                    roaming.on_challenge_sent(now, &to);
                    roaming.on_sent(&to, CHALLENGE_LEN);
                    given += CHALLENGE_LEN;
                }
            }
            Op::Send { to, bytes } => {
                let to = to.addr();
                if roaming.allowance(&to) >= u64::from(bytes) {
                    roaming.on_sent(&to, bytes.into());
                    given += u64::from(bytes);
                }
            }
            Op::Wait { micros } => now += Duration::from_micros(micros.into()),
            Op::Ring => {
                if let Some(at) = roaming.timeout() {
                    now = now.max(at);
                    roaming.on_timeout(now);
                    let due = roaming.challenge(now).is_some();
                    assert!(due || roaming.timeout().is_none_or(|next| next > now), "a timer rings for ever");
                }
            }
            Op::Choose(to) => {
                roaming.set_active(Path::proven(to.addr()));
                proven = true;
            }
            Op::ValidateActive => {
                roaming.validate_active();
                proven = true;
            }
        }
        assert!(
            proven || given <= AMPLIFICATION * received,
            "{given} bytes for {received} to who proved nothing"
        );
        assert!(roaming.mirror().is_none_or(|mirror| !mirror.same(&roaming.active().addr())));
    }
}

impl Place {
    fn addr(self) -> PathAddr {
        let host = Ipv4Addr::new(10, 0, 0, 1 + (self.0 >> 1 & 1));
        let local = (self.0 & 4 != 0).then_some(IpAddr::V4(Ipv4Addr::new(10, 9, 9, 9)));
        PathAddr { remote: SocketAddr::from((host, 7_000 + u16::from(self.0 & 1))), local, pipe: None }
    }
}
