//! How a channel ends, and what the peer is told of it.

use core::time::Duration;

use super::LAST_RANGES;
use crate::half::Receiver;
use crate::node::Node;
use crate::node::epoch::Epoch;
use crate::node::event::Arrival;
use crate::node::filling::write_state;
use crate::node::peer::Peer;
use crate::time::Now;
use crate::wire::{self, close};

impl Node {
    /// An epoch is over: what it carried has a fate that nobody will know.
    pub(super) fn end_epoch(&mut self, now: Now, place: u32, mut epoch: Epoch) {
        self.routes.remove(&epoch.index.0);
        if let Some(tag) = &epoch.reset_tag {
            self.resets.forget(tag, epoch.index);
        }
        let mut fates = std::mem::take(&mut self.scratch.fates);
        if let Some(peer) = self.peers.get_mut(place) {
            peer.link.recovery.on_gone(&mut epoch.sent, |fate, item| fates.push((item, fate)));
        }
        self.apply(now, place, &mut fates);
        self.scratch.fates = fates;
    }

    pub(super) fn end_previous(&mut self, now: Now, place: u32) {
        let previous = self.peers.get_mut(place).and_then(|peer| peer.link.previous.take());
        if let Some((epoch, _)) = previous {
            self.end_epoch(now, place, *epoch);
        }
    }

    /// The channel ends here and now; the halves stay, and open another if they have something to say.
    pub(in crate::node) fn drop_channel(&mut self, now: Now, place: u32) {
        self.end_previous(now, place);
        let current = self.peers.get_mut(place).and_then(|peer| {
            peer.link.roaming = None;
            peer.link.confirm = false;
            peer.link.probes = 0;
            peer.link.copies.clear();
            peer.link.current.take()
        });
        if let Some(epoch) = current {
            self.end_epoch(now, place, *epoch);
        }
    }

    /// Everything of a link goes, without a word.
    pub(in crate::node) fn end_link(&mut self, now: Now, place: u32) {
        self.abort_opening(place);
        self.drop_channel(now, place);
        let pending = self.peers.get_mut(place).map(|peer| std::mem::take(&mut peer.link.pending));
        for pending in pending.iter().flatten() {
            self.forget_pending(pending);
        }
        let held = self.peers.get_mut(place).map(|peer| std::mem::take(&mut peer.link.held));
        for held in held.iter().flatten() {
            self.forget_held(held);
        }
    }

    /// An idle channel is dropped, and the peer is told so that it drops it too.
    pub(in crate::node) fn leave(&mut self, now: Now, place: u32) {
        self.say_close(place);
        self.drop_channel(now, place);
    }

    fn say_close(&mut self, place: u32) {
        let ends_for_good = self.ends_for_good();
        let Some(peer) = self.peers.get_mut(place) else { return };
        let to = peer.link.proven();
        let mut datagram = Vec::new();
        if let Some(epoch) = peer.link.current.as_deref_mut() {
            let (inbound, clock, config) = (&peer.inbound, &self.clock, &self.config);
            let short = |record: &Receiver| record.parts().2.intervals() <= LAST_RANGES;
            let last = inbound.receiver.as_ref().filter(|record| ends_for_good && short(record));
            epoch.seal(&mut datagram, wire::MIN_OPENING, |_, writer| {
                // Of what it does not settle, nobody will ever know more.
                if last.is_some() {
                    write_state(writer, inbound, clock, config);
                }
                writer.close(if ends_for_good { close::FOR_GOOD } else { close::DONE });
            });
        }
        if let (Some(to), false) = (to, datagram.is_empty()) {
            let arrival = Arrival { remote: to.remote, local_ip: to.local, ecn: 0 };
            self.push_loose(arrival, datagram.into());
        }
    }

    /// As [`Self::leave`] does, and the channel stays: the word may get lost. After how long to say it again; None: nobody waits
    /// for it.
    pub(in crate::node) fn foretell(&mut self, place: u32) -> Option<Duration> {
        let ends_for_good = self.ends_for_good();
        let waits = |peer: &&Peer| ends_for_good && peer.link.is_connected() && peer.inbound.was_closed();
        let pto = self.peers.get(place).filter(waits)?.link.pto();
        self.say_close(place);
        Some(pto)
    }

    /// Whether nothing can be delivered to this node any more: its identity ends with it.
    fn ends_for_good(&self) -> bool {
        self.life.is_none() && self.closing && self.config.limits.slots == 0
    }
}
