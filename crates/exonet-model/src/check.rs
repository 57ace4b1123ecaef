//! Invariants A to C, and other conditions that hold in every state of the nodes. D, E and F are checked where they could
//! be broken: when a token leaves, when a message is delivered, and when an outcome is reported.

use crate::config::{Config, Grants};
use crate::datagram::name;
use crate::half::{Receiver, Sender, Taken};
use crate::id::{Incarnation, Slot};
use crate::ledger::Fate;
use crate::node::{Node, Peer};
use crate::violation::{Checked, Kind, ensure};
use crate::world::World;

impl World {
    /// All conditions that depend only on the nodes.
    pub(crate) fn check(&self, config: &Config) -> Checked {
        for at in 0..self.nodes.len() {
            for to in (0..self.nodes.len()).filter(|to| *to != at) {
                self.check_pair(config, at, to)?;
                self.check_stamps(at, to)?;
                self.check_calls(config, at, to)?;
                if config.grants == Grants::Any {
                    self.check_unmet(at, to)?;
                }
            }
        }
        self.check_replies(config)?;
        for (letter, at, to) in config.letters() {
            let peer = &self.nodes[at].peers[to];
            let held = || peer.sender.iter().flat_map(Sender::tokens).any(|(.., held)| *held == letter);
            let early = || peer.sender.iter().flat_map(Sender::early).any(|(_, held)| *held == letter);
            let open = self.ledger.fate(letter) == Fate::Open;
            let waits = || self.calls(config, at, to).any(|(_, call)| call == letter);
            let kept = !open || peer.queue.contains(&letter) || held() || early() || waits();
            ensure(kept, Kind::Vanished, || format!("m{letter} is with nobody, and nothing was told"))?;
        }
        Ok(())
    }

    /// The half-connection from node `at` to node `to`.
    fn check_pair(&self, config: &Config, at: usize, to: usize) -> Checked {
        let (node, other) = (&self.nodes[at], &self.nodes[to]);
        let sender = node.peers[to].sender.as_ref();
        let record = other.peers[at].record.as_ref();
        let ck = Slot(node.clock.ck());
        let (sck, asked) = sender.map_or((ck, ck), |sender| (sender.sck(), sender.hi()));
        let e = sender.map_or(ck, Sender::e);
        let pair = format_args!("{} to {}", name(at), name(to)).to_string();
        if let Some(record) = record {
            let (hi, _, free) = record.parts();
            let from = sck.max(e);
            let backed = hi <= from || free.covers(from.0..hi.0);
            ensure(backed, Kind::A, || format!("{pair}: {}..{} is not free in {free:?}", from.0, hi.0))?;
            ensure(hi <= asked, Kind::C, || format!("{pair}: up to {} granted, {} asked", hi.0, asked.0))?;
            let end = free.end().unwrap_or(0);
            let astray = record.marks().keys().find(|s| !free.contains(s.0));
            ensure(astray.is_none(), Kind::Marks, || format!("{pair}: {astray:?} is marked, and not free"))?;
            let marked = |s: &u64| record.marks().contains_key(&Slot(*s));
            let withdrawn = record.withdrawn();
            let astray = withdrawn.iter().flatten().find(|s| !free.contains(*s) || marked(s));
            ensure(astray.is_none(), Kind::Marks, || {
                format!("{pair}: {astray:?} is withdrawn, and not free")
            })?;
            ensure(end <= hi.0, Kind::C, || format!("{pair}: {end} is free above {}", hi.0))?;
        }
        let Some(sender) = sender else { return Ok(()) };
        let ordered = (e <= sck || config.stamps > 0) && sck.max(e) <= asked && asked.0 <= node.disk;
        ensure(ordered, Kind::Reserve, || {
            format!("{pair}: e {} sck {} hi {} durable {}", e.0, sck.0, asked.0, node.disk)
        })?;
        let free = |s: Slot, r| {
            let of = |record: &&Receiver| record.incarnation() == r && record.parts().2.contains(s.0);
            record.as_ref().is_some_and(of)
        };
        let holds = |s, r| free(s, r) || other.has_forgotten(at, r);
        for s in (e.0..sck.0).map(Slot) {
            let r = sender.incarnation().unwrap_or(Incarnation(u64::MAX));
            ensure(holds(s, r), Kind::B, || format!("{pair}: no slot behind envelope {} of {}", s.0, r.0))?;
        }
        let mut bound = sender.tokens().map(|(s, ..)| s).chain(sender.early().map(|(s, _)| s));
        let again = bound.find(|s| *s >= e);
        ensure(again.is_none(), Kind::D, || format!("{pair}: {again:?} is bound, and next is {}", e.0))?;
        let rising = sender.tokens().zip(sender.tokens().skip(1)).all(|(a, b)| a.0 < b.0 && a.1 <= b.1);
        ensure(rising, Kind::Reserve, || format!("{pair}: tokens out of order"))?;
        for (s, r, letter) in sender.tokens() {
            let backed = self.ledger.is_delivered(*letter) || holds(s, r);
            ensure(backed, Kind::B, || format!("{pair}: no slot behind m{letter} at {} of {}", s.0, r.0))?;
        }
        Ok(())
    }

    /// What `to` knows of the stamps of `at`, and of the messages that `at` has sent early.
    fn check_stamps(&self, at: usize, to: usize) -> Checked {
        let other = &self.nodes[to];
        let (Peer { bound, record, .. }, stamps) = (&other.peers[at], other.clock.stamps());
        let upper = stamps.upper();
        ensure(upper.0 <= other.latest, Kind::Stamps, || {
            format!("{}: upper {} latest {}", name(to), upper.0, other.latest)
        })?;
        let on_disk = other.peers[at].far;
        let durable = bound.known().is_none_or(|ts| ts.0 <= other.latest)
            && bound.far().is_none_or(|far| on_disk.is_some_and(|disk| disk.join(far) == disk));
        ensure(durable, Kind::Stamps, || format!("{}: {bound:?}, latest {}", name(to), other.latest))?;
        let Some(sender) = &self.nodes[at].peers[to].sender else { return Ok(()) };
        let ts = sender.stamp();
        for (s, letter) in sender.early() {
            let pair =
                format_args!("{} to {}: m{letter} at {} early {}", name(at), name(to), s.0, ts.0).to_string();
            ensure(sender.sck() <= s, Kind::Passed, || format!("{pair} is passed"))?;
            let free = record.as_ref().is_some_and(|record| record.parts().2.contains(s.0));
            ensure(!free || !stamps.is_new(bound, ts), Kind::Bound, || {
                format!("{pair} has a slot, and is new")
            })?;
            let granted = record.as_ref().is_some_and(|record| s < record.parts().0);
            let marked = record.as_ref().is_some_and(|record| record.marked(s).is_some());
            let said = Taken::of(record.as_ref(), bound, &other.clock, ts);
            let told = granted && !free || marked || said.is_some_and(|said| s < said.end);
            ensure(told || !self.ledger.is_delivered(*letter), Kind::Told, || {
                format!("{pair} was delivered, and nobody knows")
            })?;
        }
        Ok(())
    }

    /// A record that was not recovered waits for the furthest ASK it heard, until that is met or passed.
    fn check_unmet(&self, at: usize, from: usize) -> Checked {
        let Node { clock, peers, .. } = &self.nodes[at];
        let (end, l) = peers[from].heard;
        let Some(record) = peers[from].record.as_ref().filter(|record| !record.is_closed()) else {
            return Ok(());
        };
        let waits = end > record.parts().0.max(l);
        ensure(record.wants_room() == waits, Kind::Unmet, || {
            format!("up to {} asked, {} granted, {} passed: waits {waits}", end.0, record.parts().0.0, l.0)
        })?;
        let (mut retried, mut bound, mut clock) = (Some(record.clone()), peers[from].bound, clock.clone());
        let granted = Receiver::retry(&mut retried, &mut bound, &mut clock, u64::from(u8::MAX));
        let met = retried.is_some_and(|record| record.parts().0 >= end);
        ensure(!waits || granted && met, Kind::Unmet, || format!("what is asked up to {} is not met", end.0))
    }
}
