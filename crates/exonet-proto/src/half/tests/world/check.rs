//! Invariants A, B and C, and that nothing vanishes: checked on every step.

use super::*;

impl World {
    pub(super) fn check(&self) -> Checked {
        for (i, node) in self.nodes.iter().enumerate() {
            ensure(node.clock.b().0 == node.b, || format!("{i}: b is not {}", node.b))?;
            for (j, peer) in node.peers.iter().enumerate().filter(|(j, _)| *j != i) {
                let checked = self.check_pair(node, peer, &self.nodes[j], i);
                checked.map_err(|what| format!("{i}->{j}: {what}"))?;
            }
        }
        for (m, letter) in self.ledger.letters.iter().enumerate() {
            let peer = &self.nodes[letter.from].peers[letter.to];
            let held = || peer.sender.iter().flat_map(Sender::tokens).any(|(_, _, held)| *held == m);
            let early = || peer.sender.iter().flat_map(Sender::early).any(|(_, held)| *held == m);
            let kept = letter.outcome.is_some() || peer.queue.contains(&m) || held() || early();
            ensure(kept, || format!("{m} vanished"))?;
        }
        Ok(())
    }

    /// Invariants A, B and C of the half-connection from node `i`.
    fn check_pair(&self, node: &Node, peer: &Peer, other: &Node, i: usize) -> Checked {
        let (record, bound) = (other.peers[i].record.as_ref(), &other.peers[i].bound);
        let ck = Slot(node.clock.ck());
        let sender = peer.sender.as_ref();
        let (sck, asked) = sender.map_or((ck, ck), |sender| (sender.sck().max(sender.e()), sender.hi()));
        let known = other.clock.stamps().bound(bound);
        if let Some(record) = record {
            let (hi, _, free) = record.parts();
            let backed = hi <= sck || free.covers(sck.0..hi.0);
            ensure(backed, || format!("A: [{sck:?}, {hi:?}) not free in {free:?}"))?;
            ensure(hi <= asked, || format!("C: {hi:?} granted, {asked:?} asked for"))?;
            let end = free.end().unwrap_or(0);
            ensure(end <= hi.0, || format!("{end} free above {hi:?}"))?;
        }
        let durable =
            bound.far().is_none_or(|far| other.peers[i].far.is_some_and(|disk| disk.join(far) == disk));
        ensure(durable && known.0 <= other.latest, || {
            format!("{bound:?} above the durable {}", other.latest)
        })?;
        let upper = other.clock.stamps().upper();
        ensure(upper.0 <= other.latest, || format!("{upper:?} {}", other.latest))?;
        let Some(sender) = sender else { return Ok(()) };
        let (e, sck) = (sender.e(), sender.sck());
        let ordered =
            sck <= asked && e <= asked && asked.0 <= node.disk && (e <= sck || sender.stamp().is_some());
        ensure(ordered || e > sck, || format!("{e:?} {sck:?} {asked:?} {}", node.disk))?;
        for (s, m) in sender.early() {
            ensure(sck <= s, || format!("sck {sck:?} has passed the early {s:?}"))?;
            let (ts, free) = (sender.stamp(), record.is_some_and(|record| record.parts().2.contains(s.0)));
            let new = other.clock.stamps().is_new(bound, ts);
            ensure(!free || !new, || format!("{s:?} is held, and {ts:?} is new"))?;
            let granted = record.is_some_and(|record| s < record.parts().0);
            let said = Taken::of(record, bound, &other.clock, ts);
            let told = (granted && !free) || said.is_some_and(|said| s < said.end);
            ensure(!self.ledger.is_delivered(*m) || told, || {
                format!("{s:?} was delivered, and nobody knows")
            })?;
        }
        let of = |record: &Receiver, s: Slot, r| record.incarnation() == r && record.parts().2.contains(s.0);
        let holds = |s, r| record.is_some_and(|record| of(record, s, r)) || other.has_forgotten(i, r);
        for s in (e.0..sck.0).map(Slot) {
            let r = sender.incarnation().unwrap_or_default();
            ensure(holds(s, r), || format!("B: envelope {s:?} of {r:?}"))?;
        }
        for (s, r, m) in sender.tokens() {
            let backed = self.ledger.is_delivered(*m) || holds(s, r);
            ensure(backed, || format!("B: token {s:?} of {r:?}"))?;
        }
        Ok(())
    }
}
