//! The processes of a peer: which one has its keys now, and whether two are alive at once (PROTOCOL.md "Two nodes of one
//! identity").

use std::collections::{BTreeMap, VecDeque};

use crate::event::Conflict;
use crate::id::{NodeId, Stay};
use crate::time::Mono;
use crate::wire::Params;

/// How many former processes of a peer are recognised.
const FORMER: usize = 4;
/// How many identities are kept as known to be in use twice. Beyond that the oldest is forgotten, and may be found out again.
const MAX_CONFLICTS: usize = 1_024;

/// What a handshake with a peer shows about its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The process that was there before, or the first process.
    Same,
    /// The former process is gone, and this is another one.
    Restarted,
    /// A process that was there before, and may be gone: the handshake may have been under way since.
    Stale,
    /// The process is alive, and so was another one after this one had started.
    Twice,
    /// The identity has moved since: what is left of it at its former place does not count.
    Superseded,
}

#[derive(Clone, Copy, Debug)]
struct Process {
    boot: [u8; 8],
    /// When the process first proved to be alive.
    since: Mono,
}

/// A process of a stored node, by everything that came from it, copies included. This does not show whether it is still alive.
#[derive(Clone, Copy, Debug)]
struct Heard {
    boot: [u8; 8],
    /// The process had begun by then.
    at: Mono,
    /// The highest base that it has declared. All bases of a later life are above it.
    base: u64,
}

/// The processes of one peer, as its handshakes have shown them.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    now: Option<Process>,
    /// The former processes, the latest last.
    former: Vec<[u8; 8]>,
    /// The process with the highest base.
    heard: Option<Heard>,
    /// The latest place that a process has proven.
    stay: Stay,
}

impl Lives {
    /// Whether a process of the peer has proven to be alive.
    pub(crate) const fn is_known(&self) -> bool {
        self.now.is_some()
    }

    /// The latest place that has proven to be alive.
    pub(crate) const fn stay(&self) -> Stay {
        self.stay
    }

    /// Whether a handshake, if it were fresh, would be from neither the known process nor a later life. Copies of handshakes of a
    /// dead process look the same.
    pub(crate) fn is_odd(&self, params: &Params) -> bool {
        self.is_superseded(params) || self.later(params).is_some() || self.is_former(params)
    }

    /// Whether a process of a later generation has proven to be alive, or one at another place of this generation.
    pub(crate) fn is_superseded(&self, params: &Params) -> bool {
        self.is_known() && params.stay.is_superseded_by(self.stay)
    }

    /// What a handshake shows whose secrets this end drew at `begun`: the other end was alive after that.
    pub(crate) fn judge(&self, params: &Params, begun: Mono) -> Seen {
        let later = self.later(params);
        match self.now {
            _ if self.is_superseded(params) => Seen::Superseded,
            // It begins where the former place has ended, whatever was heard from that place since.
            Some(_) if params.stay.generation > self.stay.generation => Seen::Restarted,
            _ if later.is_some_and(|heard| begun > heard.at) => Seen::Twice,
            Some(now) if now.boot == params.boot_id => Seen::Same,
            _ if later.is_some() => Seen::Stale,
            None => Seen::Same,
            Some(now) if begun <= now.since => Seen::Stale,
            Some(_) if self.is_former(params) => Seen::Twice,
            Some(_) => Seen::Restarted,
        }
    }

    /// Takes in what this opening says, though nothing shows that it is fresh.
    pub(crate) fn hear(&mut self, params: &Params, now: Mono) {
        let Some(base) = base_of(params).filter(|_| params.stay.generation <= self.stay.generation) else {
            return;
        };
        match &mut self.heard {
            Some(heard) if heard.boot == params.boot_id => heard.base = heard.base.max(base),
            Some(heard) if base <= heard.base => {}
            heard => *heard = Some(Heard { boot: params.boot_id, at: now, base }),
        }
    }

    /// The handshake is in use from now on.
    pub(crate) fn enter(&mut self, params: &Params, now: Mono) {
        if params.stay.generation > self.stay.generation {
            self.heard = None;
        }
        self.stay = params.stay;
        self.hear(params, now);
        if self.now.is_some_and(|known| known.boot == params.boot_id) {
            return;
        }
        if let Some(before) = self.now.replace(Process { boot: params.boot_id, since: now }) {
            if self.former.len() == FORMER {
                self.former.remove(0);
            }
            self.former.reserve_exact(1);
            self.former.push(before.boot);
        }
    }

    fn is_former(&self, params: &Params) -> bool {
        self.now.is_some_and(|now| now.boot != params.boot_id) && self.former.contains(&params.boot_id)
    }

    /// A process that cannot have begun before this one ended, unless their state was copied.
    fn later(&self, params: &Params) -> Option<Heard> {
        let base = base_of(params)?;
        self.heard.filter(|heard| heard.boot != params.boot_id && base <= heard.base)
    }
}

/// The base of a node with a stored identity. Such a node counts its lives, so that its indices bear tokens, and begins each life
/// above all numbers of the life before. The numbers of other nodes say nothing about their lives.
fn base_of(params: &Params) -> Option<u64> {
    params.reset.is_some().then_some(params.base)
}

/// The identities that are in use twice, for the rest of this life.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    known: BTreeMap<NodeId, Conflict>,
    /// In the order in which they were found out.
    order: VecDeque<NodeId>,
}

impl Conflicts {
    pub(crate) fn get(&self, peer: &NodeId) -> Option<Conflict> {
        self.known.get(peer).copied()
    }

    /// Adds a conflict. False: it was known already.
    pub(crate) fn insert(&mut self, peer: NodeId, whose: Conflict) -> bool {
        if self.known.contains_key(&peer) {
            return false;
        }
        if self.order.len() >= MAX_CONFLICTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(peer);
        self.known.insert(peer, whose);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Generation, Lineage};
    use crate::wire::ResetToken;

    /// The parameters of a node, which is stored if it has a base.
    fn params(boot: u8, base: Option<u64>) -> Params {
        let reset = base.map(|_| ResetToken([0; crate::wire::RESET_TOKEN]));
        Params { boot_id: [boot; 8], base: base.unwrap_or(0), reset, ..Params::default() }
    }

    #[test]
    fn copies_that_begin_at_once_are_told_apart() {
        let (first, second) = (params(1, Some(5)), params(2, Some(5)));
        let mut lives = Lives::default();
        assert!(!lives.is_odd(&first));
        lives.hear(&first, Mono(10));
        assert!(!lives.is_odd(&first));
        assert!(lives.is_odd(&second), "both may bind the same numbers");
        assert_eq!(lives.judge(&second, Mono(10)), Seen::Stale, "it may be of before");
        assert_eq!(lives.judge(&second, Mono(11)), Seen::Twice);
        lives.enter(&first, Mono(12));
        assert_eq!(lives.judge(&second, Mono(11)), Seen::Twice, "the first was there at 10");
    }

    #[test]
    fn a_dead_process_that_comes_late_is_stale() {
        let [first, second, third] = [1, 2, 3].map(|n| params(n, Some(u64::from(n))));
        let mut lives = Lives::default();
        lives.enter(&first, Mono(10));
        // The second one's answer is made at 20; the third one's opening comes at 30.
        lives.hear(&second, Mono(20));
        lives.hear(&third, Mono(30));
        assert!(lives.is_odd(&second));
        assert_eq!(lives.judge(&second, Mono(20)), Seen::Stale);
        assert_eq!(lives.judge(&third, Mono(30)), Seen::Restarted);
        lives.enter(&third, Mono(40));
        // A copy of an old opening, which is not taken in.
        lives.hear(&first, Mono(50));
        assert_eq!(lives.judge(&third, Mono(60)), Seen::Same);
        assert_eq!(lives.judge(&params(4, Some(4)), Mono(60)), Seen::Restarted);
    }

    #[test]
    fn what_an_identity_left_behind_counts_for_nothing() {
        let at = |generation, of: Params| {
            let stay = Stay { generation: Generation(generation), lineage: Lineage(7 * generation) };
            Params { stay, ..of }
        };
        let (old, new) = (params(1, Some(5)), at(1, params(2, Some(9))));
        let mut lives = Lives::default();
        lives.enter(&old, Mono(10));
        // The old place went on after the cut, so its base is above that of the new place.
        lives.hear(&params(1, Some(50)), Mono(12));
        lives.hear(&new, Mono(15));
        assert!(!lives.is_odd(&old), "what is only heard supersedes nobody");
        assert_eq!(lives.judge(&old, Mono(16)), Seen::Same);
        assert_eq!(lives.judge(&new, Mono(20)), Seen::Restarted);
        lives.enter(&new, Mono(20));
        // The place that was left behind goes on, as itself and as another process, with numbers of its own.
        for left in [old, params(3, Some(50))] {
            assert!(lives.is_odd(&left));
            assert_eq!(lives.judge(&left, Mono(30)), Seen::Superseded);
        }
        assert_eq!(lives.judge(&new, Mono(30)), Seen::Same);
        // The identity may move on, and two processes may claim the same place.
        assert_eq!(lives.judge(&at(2, params(4, Some(20))), Mono(40)), Seen::Restarted);
        assert_eq!(lives.judge(&at(1, params(5, Some(9))), Mono(40)), Seen::Twice);
    }

    #[test]
    fn of_two_places_of_one_generation_the_one_that_was_met_counts() {
        let at = |lineage, of: Params| Params {
            stay: Stay { generation: Generation(1), lineage: Lineage(lineage) },
            ..of
        };
        let (met, later) = (at(1, params(1, Some(5))), at(2, params(2, Some(50))));
        let mut lives = Lives::default();
        lives.enter(&met, Mono(10));
        // It has begun later, and would be the next life of one place.
        assert!(lives.is_odd(&later));
        assert_eq!(lives.judge(&later, Mono(20)), Seen::Superseded);
        assert_eq!(lives.judge(&at(1, params(3, Some(50))), Mono(20)), Seen::Restarted);
        // A node that has met neither takes either.
        assert_eq!(Lives::default().judge(&later, Mono(20)), Seen::Same);
    }

    #[test]
    fn who_comes_back_is_known_without_a_base() {
        let mut lives = Lives::default();
        for boot in 0..5 {
            assert_eq!(
                lives.judge(&params(boot, None), Mono(u64::from(boot) + 1)),
                match boot {
                    0 => Seen::Same,
                    _ => Seen::Restarted,
                }
            );
            lives.enter(&params(boot, None), Mono(u64::from(boot) + 1));
        }
        assert_eq!(lives.judge(&params(0, None), Mono(5)), Seen::Stale);
        assert_eq!(lives.judge(&params(0, None), Mono(6)), Seen::Twice);
        assert_eq!(lives.judge(&params(4, None), Mono(6)), Seen::Same);
    }
}
