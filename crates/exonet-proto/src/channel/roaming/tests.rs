use proptest::prelude::*;

use super::*;

const TIMING: Timing = Timing { rtt: Duration::from_millis(10), pto: Duration::from_millis(20) };

fn ms(ms: u64) -> Mono {
    Mono(ms * 1_000_000)
}

fn addr(text: &str) -> PathAddr {
    PathAddr { remote: text.parse().unwrap(), local: None, pipe: None }
}

/// A peer's addresses with everything that a test needs around them.
struct Peer {
    roaming: Roaming,
    random: u8,
}

impl Peer {
    fn at(text: &str) -> Self {
        Self { roaming: Roaming::new(Path::proven(addr(text))), random: 0 }
    }

    fn packet(&mut self, now: u64, from: &str, newest: bool) -> Option<Moved> {
        let random = &mut self.random;
        self.roaming.on_packet_from(ms(now), addr(from), 100, newest, TIMING, &mut || {
            *random += 1;
            [*random; 8]
        })
    }

    fn respond(&mut self, now: u64, from: &str, data: [u8; 8]) -> Option<Moved> {
        self.roaming.on_response(ms(now), &addr(from), data, TIMING)
    }

    /// Sends all challenges that are due.
    fn challenges(&mut self, now: u64) -> Vec<(PathAddr, [u8; 8])> {
        let mut sent = Vec::new();
        while let Some((to, data)) = self.roaming.challenge(ms(now)) {
            self.roaming.on_challenge_sent(ms(now), &to);
            self.roaming.on_sent(&to, 40);
            sent.push((to, data));
        }
        sent
    }

    /// The challenge that goes to `to` now.
    fn challenged(&mut self, now: u64, to: &str) -> [u8; 8] {
        self.challenges(now).into_iter().find(|(at, _)| *at == addr(to)).unwrap().1
    }

    fn active(&self) -> PathAddr {
        self.roaming.active().addr()
    }
}

const OLD: &str = "192.0.2.1:1000";
const PORT: &str = "192.0.2.1:2000";
const NEW: &str = "198.51.100.7:1000";

#[test]
fn a_new_port_moves_and_keeps_the_congestion_state() {
    let mut peer = Peer::at(OLD);
    assert_eq!(peer.packet(0, PORT, true), None);
    assert_eq!(peer.active(), addr(OLD), "bulk stays until the new path is proven");
    assert_eq!(peer.roaming.mirror(), Some(addr(PORT)));
    let challenges = peer.challenges(0);
    assert_eq!(challenges.len(), 2, "both paths are challenged");
    let data = challenges.iter().find(|(to, _)| *to == addr(PORT)).unwrap().1;
    assert_eq!(peer.respond(10, PORT, data), Some(Moved { keep_congestion: true, back: false }));
    assert_eq!(peer.active(), addr(PORT));
    assert!(peer.roaming.active().is_validated());
    assert_eq!(peer.roaming.mirror(), None);
}

#[test]
fn a_new_host_moves_and_starts_afresh() {
    let mut peer = Peer::at(OLD);
    peer.packet(0, NEW, true);
    let data = peer.challenged(0, NEW);
    assert_eq!(peer.respond(10, NEW, data), Some(Moved { keep_congestion: false, back: false }));
}

#[test]
fn a_connection_has_a_second_to_answer_whatever_the_round_trip_of_datagrams() {
    let piped = PathAddr { pipe: Some(crate::channel::path::Pipe(1)), ..addr(NEW) };
    for (old, new, stays) in
        [(addr(OLD), piped, true), (piped, addr(OLD), true), (addr(OLD), addr(NEW), false)]
    {
        let mut roaming = Roaming::new(Path::proven(old));
        roaming.on_packet_from(ms(0), new, 100, true, TIMING, &mut || [1; 8]);
        roaming.on_timeout(ms(900));
        assert_eq!(roaming.mirror(), stays.then_some(new), "{old:?} to {new:?}");
    }
}

#[test]
fn an_overtaken_packet_moves_nothing() {
    let mut peer = Peer::at(OLD);
    peer.packet(0, NEW, false);
    assert_eq!(peer.roaming.mirror(), None);
    assert_eq!(peer.roaming.timeout(), None);
}

#[test]
fn a_copy_from_elsewhere_moves_nothing_while_the_old_path_answers() {
    let mut peer = Peer::at(OLD);
    peer.packet(0, NEW, true);
    let data = peer.challenged(0, NEW);
    // The original is late, and therefore not newer; the next packet is.
    peer.packet(1, OLD, false);
    assert_eq!(peer.roaming.mirror(), Some(addr(NEW)));
    peer.packet(2, OLD, true);
    assert_eq!(peer.roaming.mirror(), None);
    // Even if the sender of the copy passes the challenge on.
    assert_eq!(peer.respond(3, NEW, data), None);
    assert_eq!(peer.active(), addr(OLD));
}

#[test]
fn the_old_path_answers_its_challenge_and_stays() {
    let mut peer = Peer::at(OLD);
    peer.packet(0, NEW, true);
    let data = peer.challenged(0, OLD);
    peer.packet(8, OLD, false);
    assert_eq!(peer.respond(8, OLD, data), None);
    assert_eq!((peer.active(), peer.roaming.mirror()), (addr(OLD), None));
}

#[test]
fn the_old_paths_challenge_answered_from_elsewhere_does_not_hold_the_peer() {
    let mut peer = Peer::at(OLD);
    peer.packet(0, NEW, true);
    let challenges = peer.challenges(0);
    let to = |at: &str| challenges.iter().find(|(to, _)| *to == addr(at)).unwrap().1;
    assert_eq!(peer.respond(5, NEW, to(OLD)), None);
    assert!(peer.respond(6, NEW, to(NEW)).is_some());
}

#[test]
fn the_path_left_leads_back_by_something_newer() {
    let mut peer = Peer::at(OLD);
    peer.packet(0, NEW, true);
    let data = peer.challenged(0, NEW);
    peer.respond(10, NEW, data);
    peer.packet(11, OLD, false);
    assert_eq!(peer.active(), addr(NEW), "overtaken");
    assert_eq!(peer.packet(12, OLD, true), Some(Moved { keep_congestion: false, back: true }));
    assert_eq!(peer.active(), addr(OLD));
    assert!(peer.roaming.active().is_validated());
    // After that, the path changes back only by a contest.
    assert_eq!(peer.packet(30, NEW, true), None);
    assert_eq!(peer.active(), addr(OLD));
}

#[test]
fn the_path_left_is_forgotten_after_three_timeouts() {
    let mut peer = Peer::at(OLD);
    peer.packet(0, NEW, true);
    let data = peer.challenged(0, NEW);
    peer.respond(10, NEW, data);
    assert_eq!(peer.packet(70, OLD, true), None);
    assert_eq!(peer.roaming.mirror(), Some(addr(OLD)));
}

#[test]
fn an_unproven_path_does_not_lead_back() {
    let mut peer = Peer::at(OLD);
    peer.roaming = Roaming::new(Path::unproven(addr(OLD)));
    peer.packet(0, NEW, true);
    let data = peer.challenged(0, NEW);
    peer.respond(10, NEW, data);
    assert_eq!(peer.packet(21, OLD, true), None);
    assert_eq!(peer.active(), addr(NEW));
}

#[test]
fn a_candidate_without_an_answer_is_forgotten() {
    let mut peer = Peer::at(OLD);
    peer.packet(0, NEW, true);
    let mut sent = 0;
    while let Some(at) = peer.roaming.timeout() {
        let now = at.0 / 1_000_000;
        sent += peer.challenges(now).iter().filter(|(to, _)| *to == addr(NEW)).count();
        peer.roaming.on_timeout(at);
        assert!(now <= 60);
    }
    assert_eq!(sent, 3);
    assert_eq!((peer.active(), peer.roaming.mirror()), (addr(OLD), None));
}

#[test]
fn an_exhausted_budget_does_not_make_the_timer_spin() {
    let mut peer = Peer::at(OLD);
    peer.packet(0, NEW, true);
    peer.roaming.on_sent(&addr(NEW), 300);
    assert_eq!(peer.challenges(0).len(), 1, "the old path's alone");
    assert_eq!(peer.roaming.timeout(), Some(ms(20)));
}

#[test]
fn one_contest_per_round_trip() {
    let mut peer = Peer::at(OLD);
    peer.packet(0, NEW, true);
    peer.packet(1, "203.0.113.1:5", true);
    assert_eq!(peer.roaming.mirror(), Some(addr(NEW)));
    let data = peer.challenged(1, NEW);
    peer.respond(5, NEW, data);
    peer.packet(6, "203.0.113.1:5", true);
    assert_eq!(peer.roaming.mirror(), None);
    peer.packet(15, "203.0.113.1:5", true);
    assert_eq!(peer.roaming.mirror(), Some(addr("203.0.113.1:5")));
}

#[test]
fn a_guess_is_no_answer() {
    let mut peer = Peer::at(OLD);
    assert_eq!(peer.respond(0, NEW, [1; 8]), None);
    peer.packet(0, NEW, true);
    peer.challenges(0);
    assert_eq!(peer.respond(1, NEW, [99; 8]), None);
    assert_eq!(peer.active(), addr(OLD));
}

proptest! {
    /// Whatever happens: the peer does not move without an answer to a challenge sent to that address (or back to a path that was
    /// proven before), a move between hosts does not keep the congestion state, nothing goes to unknown addresses, and an
    /// unproven address never gets more than three times what it sent.
    #[test]
    fn no_move_without_proof(steps in prop::collection::vec((0..3_usize, 0..5_u8, any::<bool>(), 0..40_u64), 1..200)) {
        let places = [OLD, PORT, NEW];
        let mut peer = Peer::at(OLD);
        let mut now = 0;
        // What the node at each address holds, which is the last challenge sent there; and the byte counts of each.
        let mut held: [Option<[u8; 8]>; 3] = [None; 3];
        let mut proven = [true, false, false];
        let mut received = [0; 3];
        let mut sent = [0; 3];
        for (place, what, flag, wait) in steps {
            now += wait;
            let before = peer.active();
            let moved = match what {
                0 | 1 => {
                    received[place] += 100;
                    peer.packet(now, places[place], flag)
                }
                2 => {
                    for (to, data) in peer.challenges(now) {
                        let at = places.iter().position(|place| addr(place) == to).unwrap();
                        held[at] = Some(data);
                        sent[at] += 40;
                    }
                    None
                }
                3 => held[place].and_then(|data| {
                    let moved = peer.respond(now, places[place], data);
                    proven[place] = true;
                    moved
                }),
                _ => {
                    peer.roaming.on_timeout(ms(now));
                    None
                }
            };
            let after = peer.active();
            prop_assert_eq!(moved.is_some(), before != after);
            if let Some(moved) = moved {
                let at = places.iter().position(|place| addr(place) == after).unwrap();
                prop_assert!(proven[at]);
                prop_assert_eq!(moved.keep_congestion, before.remote.ip() == after.remote.ip());
            }
            for at in 0..3 {
                prop_assert!(proven[at] || sent[at] <= 3 * received[at]);
            }
            prop_assert_eq!(peer.roaming.allowance(&addr("203.0.113.9:9")), 0);
        }
    }
}
