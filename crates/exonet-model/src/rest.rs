//! G: once the network is fair and there are no more faults, every message is settled, and both records are dropped.

use std::collections::VecDeque;

use crate::config::{Config, Drop};
use crate::half::Receiver;
use crate::ledger::Fate;
use crate::violation::{Checked, Kind, Violation, ensure};
use crate::world::{Out, World};

/// The most rounds of all timers. A correct run takes fewer than ten.
const ROUNDS: usize = 24;
/// The most datagrams in one round. More are a storm.
const STORM: usize = 2_000;

impl World {
    /// Runs all timers, and delivers in order all that is sent, until nothing more is sent. Earlier datagrams do not arrive:
    /// their arrival leads to another state, which is checked as well.
    pub(crate) fn come_to_rest(&self, config: &Config) -> Checked {
        let mut world = self.clone();
        let mut wire = VecDeque::new();
        for round in 0..ROUNDS {
            if world.is_quiet(config) {
                return Ok(());
            }
            let mut out = Out::new();
            world.run_timers(config, round, &mut out)?;
            wire.extend(out.drain(..));
            let mut heard = 0;
            while let Some(packet) = wire.pop_front() {
                world.hear(config, &packet, u64::from(u8::MAX), &mut out)?;
                wire.extend(out.drain(..));
                heard += 1;
                ensure(heard < STORM, Kind::G, || "a storm of datagrams".into())?;
            }
            world.check(config)?;
        }
        if world.is_quiet(config) {
            return Ok(());
        }
        let nodes: Vec<_> = world.nodes.iter().map(ToString::to_string).collect();
        Err(Violation { kind: Kind::G, what: format!("no rest: {}", nodes.join(" | ")) })
    }

    fn run_timers(&mut self, config: &Config, round: usize, out: &mut Out) -> Checked {
        for at in 0..self.nodes.len() {
            self.reserve(at);
            for to in (0..self.nodes.len()).filter(|to| *to != at) {
                self.pump(config, at, to, out)?;
                self.ask(at, to, 0, out)?;
                self.resend(config, at, to, out);
                self.retry(config, at, to, out)?;
                if self.nodes[at].peers[to].record.is_some() {
                    self.push_state(config, at, to, out);
                    self.push_verdicts(at, to, out);
                    self.push_withdrawn(at, to, out);
                }
                // A record lingers a little, so that the usual way to its end is taken first.
                if round > 0 {
                    self.close(at, to, out);
                }
                let lingers = config.drop == Drop::Drained && round % 4 != 3;
                let passed = self.nodes[at].peers[to].record.as_ref().is_some_and(Receiver::is_passed);
                if self.may_drop(config, at, to) && (passed || !lingers) {
                    self.drop_record(at, to);
                }
                self.push_calls(at, to, out);
                for (s, _) in self.nodes[at].peers[to].running.clone() {
                    self.answer(config, (at, to), s, out)?;
                }
            }
        }
        Ok(())
    }

    /// No node holds anything for another, and every message that was sent has its outcome.
    fn is_quiet(&self, config: &Config) -> bool {
        let mut peers = self.nodes.iter().flat_map(|node| &node.peers);
        config.letters().all(|(letter, ..)| self.ledger.fate(letter) != Fate::Open)
            && peers.all(|peer| peer.sender.is_none() && peer.record.is_none() && peer.holds_no_call())
    }
}
