//! Makes the system drop most openings of a flood before they cost the node any time.
//!
//! An opening that finds no place in the queue ([`Openings`](crate::openings::Openings)) has already cost the node a
//! system call's work, and has taken room in the socket that channels need. So the sieve lets the system drop
//! openings from the networks whose openings most often find no place. Only a random part passes, about as many as
//! the node can handle. Networks share 32 buckets; openings with a mac2 have 32 buckets of their own. From a network
//! whose bucket is not flooded, all openings pass. A node whose opening was dropped sends it again, as after any
//! loss.

use core::net::IpAddr;

use exonet_proto::Mono;

/// For this many nanoseconds the sieve counts openings before it changes anything.
const PERIOD: u64 = 20_000_000;

/// After this many periods without a dropped opening, the sieve lets more pass.
const PATIENCE: u32 = 10;

/// The sieve lets at least one opening in this many pass.
const FINEST: u32 = 256;

/// With at most this many dropped openings in a period, a bucket does not count as flooded.
const FEW: u32 = 16;

/// A set of buckets.
type Buckets = u32;

/// From these buckets, one in `of` openings passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mesh {
    pub(crate) buckets: Buckets,
    /// A power of two.
    pub(crate) of: u32,
}

impl Mesh {
    pub(crate) const OPEN: Self = Self { buckets: 0, of: 1 };
}

/// How many openings of one kind came and were dropped in this period, and the mesh for them.
#[derive(Debug)]
struct Count {
    came: [u32; 32],
    dropped: [u32; 32],
    mesh: Mesh,
    calm: u32,
}

impl Default for Count {
    fn default() -> Self {
        Self { came: [0; 32], dropped: [0; 32], mesh: Mesh::OPEN, calm: 0 }
    }
}

impl Count {
    /// Ends the period, and adapts the mesh.
    fn review(&mut self) {
        let counts = (0..).zip(self.came.iter().zip(&self.dropped));
        let flooded = counts.filter(|(_, (came, dropped))| **dropped > FEW && **dropped > **came / 2);
        // In total: the openings that came to flooded buckets, and those of them that were dropped.
        let none = (0, 0, 0);
        let (flooded, came, dropped) = flooded.fold(none, |(set, of, lost), (bucket, (came, dropped))| {
            (set | 1_u32 << bucket, of + came, lost + dropped)
        });
        let Mesh { buckets, of } = self.mesh;
        if flooded != 0 {
            // Lets at most twice as many pass as found a place.
            let times = came / (came - dropped).max(1) / 2;
            let finer =
                if flooded & buckets != 0 || buckets == 0 { of * floor(times.min(FINEST)) } else { of };
            self.mesh = Mesh { buckets: buckets | flooded, of: finer.min(FINEST) };
            self.calm = 0;
        } else if buckets != 0 && self.dropped.iter().sum::<u32>() == 0 {
            self.calm += 1;
            if self.calm >= PATIENCE {
                self.calm = 0;
                self.mesh = if of > 2 { Mesh { of: of / 2, ..self.mesh } } else { Mesh::OPEN };
            }
        }
        (self.came, self.dropped) = ([0; 32], [0; 32]);
    }
}

/// Counts which openings found a place, and decides which ones the system drops.
#[derive(Debug, Default)]
pub(crate) struct Sieve {
    /// The counts for openings without a mac2, and with one.
    counts: [Count; 2],
    /// The meshes that the socket has now.
    set: Option<[Mesh; 2]>,
    until: Mono,
    /// Whether an opening was counted in this period.
    stirred: bool,
}

impl Sieve {
    /// Counts an opening. `placed` says whether it found a place.
    pub(crate) fn note(&mut self, from: IpAddr, proves: bool, placed: bool) {
        self.stirred = true;
        let (bucket, [plain, proving]) = (bucket(from), &mut self.counts);
        let count = if proves { proving } else { plain };
        for (row, more) in [(&mut count.came, true), (&mut count.dropped, !placed)] {
            if let Some(cell) = row.get_mut(bucket) {
                *cell = cell.saturating_add(u32::from(more));
            }
        }
    }

    /// At the end of a period, returns the new meshes for the socket if they have changed: for openings without a
    /// mac2, and with one.
    pub(crate) fn review(&mut self, now: Mono) -> Option<[Mesh; 2]> {
        let still = !self.stirred && self.set == Some([Mesh::OPEN; 2]);
        if now < self.until || still {
            return None;
        }
        self.stirred = false;
        self.until = Mono(now.0 + PERIOD);
        self.counts.iter_mut().for_each(Count::review);
        let wanted = self.counts.each_ref().map(|count| count.mesh);
        let set = self.set.unwrap_or([Mesh::OPEN; 2]);
        self.set = Some(wanted);
        (wanted != set).then_some(wanted)
    }

    /// Whether some openings without a mac2 are dropped.
    pub(crate) fn sifts_plain(&self) -> bool {
        let [plain, _] = &self.counts;
        plain.mesh != Mesh::OPEN
    }

    /// When to call [`Self::review`] next even if nothing comes, so that the sieve opens again.
    pub(crate) fn wake_at(&self) -> Mono {
        let sifts = self.counts.iter().any(|count| count.mesh != Mesh::OPEN);
        if sifts { self.until } else { Mono::NEVER }
    }

    /// Notes that the node has a new socket, which drops nothing yet.
    pub(crate) fn socket_changed(&mut self) {
        self.set = None;
    }
}

/// The greatest power of two up to `times`, but at least 2.
const fn floor(times: u32) -> u32 {
    1 << if times < 4 { 1 } else { times.ilog2() }
}

/// The bucket of a network, from the last byte of its prefix.
fn bucket(from: IpAddr) -> usize {
    let byte = match from.to_canonical() {
        IpAddr::V4(ip) => ip.octets()[2],
        IpAddr::V6(ip) => ip.octets()[5],
    };
    usize::from(byte % 32)
}

#[cfg(target_os = "linux")]
pub(crate) use self::program::program;

/// Turns the meshes into a program for the system: a classic packet filter. In it, a datagram begins with the UDP
/// header.
#[cfg(target_os = "linux")]
mod program {
    use exonet_proto::wire;
    use socket2::SockFilter;

    use super::Mesh;

    const LOAD_WORD: u16 = 0x20;
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_WORD_AT_X: u16 = 0x40;
    const LOAD_CONSTANT: u16 = 0x00;
    const LOAD_LEN: u16 = 0x80;
    const SUBTRACT: u16 = 0x14;
    const AND: u16 = 0x54;
    const SHIFT_RIGHT: u16 = 0x74;
    const SHIFT_RIGHT_BY_X: u16 = 0x7c;
    const TO_X: u16 = 0x07;
    const IF_EQUAL: u16 = 0x15;
    const IF_AT_LEAST: u16 = 0x35;
    const IF_ANY_BIT: u16 = 0x45;
    const JUMP: u16 = 0x05;
    const RETURN: u16 = 0x06;

    /// Negative offsets, as the system defines them: where the IP header begins, and a random number.
    const IP: u32 = 0xfff0_0000;
    const RANDOM: u32 = 0xffff_f000 + 56;
    const UDP_HEADER: u32 = 8;
    /// The length of a mac2 in words of 32 bits. It is at the end of an opening.
    const MAC2_WORDS: u32 = 4;

    const ALL: u32 = u32::MAX;

    fn op(code: u16, k: u32) -> SockFilter {
        SockFilter::new(code, 0, 0, k)
    }

    /// Skips `yes` instructions if the condition is true, else `no`.
    fn branch(code: u16, k: u32, yes: u8, no: u8) -> SockFilter {
        SockFilter::new(code, yes, no, k)
    }

    /// Passes every datagram that is not an opening, and the openings that the meshes let through.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn program([plain, proving]: [Mesh; 2]) -> Vec<SockFilter> {
        let (plain, proving) = (sift(plain), sift(proving));
        let mut all = vec![
            // The same condition as in `wire::is_strange`.
            op(LOAD_LEN, 0),
            branch(IF_AT_LEAST, wire::MIN_OPENING as u32 + UDP_HEADER, 1, 0),
            op(RETURN, ALL),
            op(LOAD_BYTE, UDP_HEADER),
            branch(IF_EQUAL, 0x11, 3, 0),
            op(AND, 0xf0),
            branch(IF_EQUAL, 0x10, 0, 1),
            op(RETURN, ALL),
            // The same condition as in `wire::bears_cookie`.
            op(LOAD_LEN, 0),
            op(SUBTRACT, MAC2_WORDS * 4),
            op(TO_X, 0),
        ];
        for word in 0..MAC2_WORDS {
            let left = (MAC2_WORDS - 1 - word) * 2;
            all.push(op(LOAD_WORD_AT_X, word * 4));
            all.push(branch(IF_EQUAL, 0, 0, (left + plain.len() as u32) as u8));
        }
        all.extend(plain);
        all.extend(proving);
        all
    }

    /// Decides about the datagram, and ends the program.
    fn sift(mesh: Mesh) -> Vec<SockFilter> {
        vec![
            op(LOAD_BYTE, IP),
            op(SHIFT_RIGHT, 4),
            branch(IF_EQUAL, 4, 0, 2),
            op(LOAD_BYTE, IP + 12 + 2),
            op(JUMP, 1),
            op(LOAD_BYTE, IP + 8 + 5),
            op(AND, 31),
            op(TO_X, 0),
            op(LOAD_CONSTANT, mesh.buckets),
            op(SHIFT_RIGHT_BY_X, 0),
            branch(IF_ANY_BIT, 1, 0, 2),
            op(LOAD_WORD, RANDOM),
            branch(IF_ANY_BIT, mesh.of - 1, 1, 0),
            op(RETURN, ALL),
            op(RETURN, 0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    #[cfg(target_os = "linux")]
    use exonet_proto::wire;

    fn network(n: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, n, 1).into()
    }

    /// Runs `n` periods. In each, `came` openings come, and `places` of them find a place.
    fn periods(sieve: &mut Sieve, n: u32, from: IpAddr, came: u32, places: u32) -> [Mesh; 2] {
        let mut meshes = sieve.set.unwrap_or([Mesh::OPEN; 2]);
        for _ in 0..n {
            (0..came).for_each(|i| sieve.note(from, false, i < places));
            meshes = sieve.review(sieve.until).unwrap_or(meshes);
        }
        meshes
    }

    #[test]
    fn a_flooded_network_is_sifted_until_about_as_many_come_as_find_a_place() {
        let mut sieve = Sieve::default();
        let mut of = 1;
        for _ in 0..2 {
            of = periods(&mut sieve, 1, network(3), 3_200 / of, 100)[0].of;
            assert_eq!(of, 16, "200 come, 100 find a place");
        }
        assert_eq!(sieve.set.unwrap(), [Mesh { buckets: 1 << 3, of: 16 }, Mesh::OPEN]);
        assert_eq!((sieve.wake_at(), sieve.sifts_plain()), (sieve.until, true));
        let [plain, _] = periods(&mut sieve, 1, network(4), 1_000, 100);
        assert_eq!(plain, Mesh { buckets: 1 << 3 | 1 << 4, of: 16 }, "another one, as much");
        assert_eq!(periods(&mut sieve, 4 * PATIENCE, network(4), 5, 5), [Mesh::OPEN; 2]);
        assert_eq!(sieve.wake_at(), Mono::NEVER);
    }

    #[test]
    fn who_finds_places_is_not_sifted() {
        let mut sieve = Sieve::default();
        assert_eq!(periods(&mut sieve, 50, network(3), 1_000, 600), [Mesh::OPEN; 2]);
        assert_eq!(periods(&mut sieve, 50, network(3), FEW, 0), [Mesh::OPEN; 2]);
    }

    #[test]
    fn nothing_is_reviewed_while_nothing_comes_and_a_flood_behind_it_is_sifted_at_once() {
        let mut sieve = Sieve::default();
        assert_eq!(sieve.review(Mono(0)), None);
        let until = sieve.until;
        assert_eq!((sieve.review(Mono(PERIOD * 9 + 1)), sieve.until), (None, until), "no period began");
        (0..1_000).for_each(|_| sieve.note(network(3), false, false));
        let [plain, _] = sieve.review(Mono(PERIOD * 9 + 2)).expect("that is no part of a period");
        assert_eq!(plain.buckets, 1 << 3);
    }

    #[test]
    fn another_socket_is_told_again() {
        let mut sieve = Sieve::default();
        let before = periods(&mut sieve, 20, network(3), 1_000, 0);
        sieve.socket_changed();
        assert_eq!(sieve.review(sieve.until), Some(before));
        assert_eq!(sieve.review(sieve.until), None);
    }

    /// Returns which of these datagrams, sent from `from` to this machine, pass the meshes.
    #[cfg(target_os = "linux")]
    fn through(meshes: [Mesh; 2], from: &str, datagrams: &[&[u8]]) -> Vec<Vec<u8>> {
        let (to, from) = (std::net::UdpSocket::bind("[::]:0"), std::net::UdpSocket::bind(from).unwrap());
        let to = to.unwrap_or_else(|_| std::net::UdpSocket::bind("0.0.0.0:0").unwrap());
        let to = socket2::Socket::from(to);
        to.attach_filter(&program(meshes)).unwrap();
        let to = std::net::UdpSocket::from(to);
        let ip = from.local_addr().unwrap().ip();
        let there = core::net::SocketAddr::new(ip, to.local_addr().unwrap().port());
        for datagram in datagrams.iter().copied().chain([&b"end"[..]]) {
            from.send_to(datagram, there).unwrap();
        }
        let mut got = Vec::new();
        loop {
            let mut buffer = [0; 2_048];
            let len = to.recv(&mut buffer).unwrap();
            if &buffer[..len] == b"end" {
                return got;
            }
            got.push(buffer[..len].to_vec());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_drops_openings_from_flooded_networks_and_nothing_else() {
        let opening = |kind: u8, mac2: u8| {
            let mut opening = vec![kind; wire::MIN_OPENING + 7];
            opening.last_chunk_mut::<16>().unwrap().fill(0);
            // A mac2 counts as present if any of its words is not zero.
            opening[wire::MIN_OPENING - 9 + usize::from(mac2 % 4) * 4] = mac2;
            opening
        };
        let (plain, strange, packet) = (opening(0x11, 0), opening(0x21, 0), opening(0x14, 0));
        let short = plain[..wire::MIN_OPENING - 1].to_vec();
        let proving: Vec<_> = (1..=4).map(|mac2| opening(0x11, mac2)).collect();
        let mut all: Vec<&[u8]> = vec![&plain, &strange, &packet, &short];
        all.extend(proving.iter().map(Vec::as_slice));
        // From one bucket almost nothing passes.
        let tight = |bucket: u32| Mesh { buckets: 1 << bucket, of: 1 << 31 };
        let from = "127.0.9.1:0";
        assert_eq!(through([Mesh::OPEN; 2], from, &all), all);
        assert_eq!(through([tight(8), tight(10)], from, &all), all, "other networks");
        assert_eq!(through([tight(9), Mesh::OPEN], from, &all), all[2..]);
        assert_eq!(through([Mesh::OPEN, tight(9)], from, &all), all[..4]);
        assert_eq!(through([tight(9); 2], from, &all), all[2..4]);
        if std::net::UdpSocket::bind("[::1]:0").is_ok() {
            assert_eq!(through([tight(0); 2], "[::1]:0", &all), all[2..4]);
        } else {
            crate::skip::skipped("no IPv6 on this machine");
        }
    }
}
