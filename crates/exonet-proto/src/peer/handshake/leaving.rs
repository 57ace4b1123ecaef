//! How a channel ends, and what the peer is told about it.

use core::time::Duration;

use super::LAST_RANGES;
use crate::channel::Roaming;
use crate::channel::path::Path;
use crate::event::Arrival;
use crate::half::Receiver;
use crate::peer::epoch::Epoch;
use crate::peer::filling::write_state;
use crate::peer::{Context, Peer};
use crate::time::Now;
use crate::wire::{self, ChannelIndex, close};

impl Peer {
    /// Ends an epoch: the fate of what it carried stays unknown.
    pub(in crate::peer) fn end_epoch(&mut self, cx: &mut Context, now: Now, mut epoch: Epoch) {
        cx.routes.remove(&epoch.index.0);
        if let Some(tag) = &epoch.reset_tag {
            cx.resets.forget(tag, epoch.index);
        }
        let mut fates = std::mem::take(&mut cx.scratch.fates);
        self.link.recovery.on_gone(&mut epoch.sent, |fate, item| fates.push((item, fate)));
        self.apply(cx, now, &mut fates);
        cx.scratch.fates = fates;
    }

    pub(in crate::peer) fn end_previous(&mut self, cx: &mut Context, now: Now) {
        if let Some((epoch, _)) = self.link.previous.take() {
            self.end_epoch(cx, now, *epoch);
        }
    }

    /// Ends the channel at once. The halves stay, and open another channel if they have something to send.
    pub(crate) fn drop_channel(&mut self, cx: &mut Context, now: Now) {
        self.end_previous(cx, now);
        self.link.roaming = None;
        self.link.confirm = false;
        self.link.probes = 0;
        self.link.copies.clear();
        if let Some(epoch) = self.link.current.take() {
            self.end_epoch(cx, now, *epoch);
        }
    }

    /// Drops everything of a link, without telling the peer.
    pub(in crate::peer) fn end_link(&mut self, cx: &mut Context, now: Now) {
        self.abort_opening(cx);
        self.drop_channel(cx, now);
        for pending in std::mem::take(&mut self.link.pending) {
            Self::forget_pending(cx, &pending);
        }
        for held in std::mem::take(&mut self.link.held) {
            Self::forget_held(cx, &held);
        }
    }

    /// Drops an idle channel, and tells the peer so that it drops the channel too.
    pub(crate) fn leave(&mut self, cx: &mut Context, now: Now) {
        self.say_close(cx);
        self.drop_channel(cx, now);
    }

    fn say_close(&mut self, cx: &mut Context) {
        let ends_for_good = cx.ends_for_good();
        let to = self.link.proven();
        let mut datagram = Vec::new();
        if let Some(epoch) = self.link.current.as_deref_mut() {
            let (inbound, clock) = (&self.inbound, &cx.clock);
            let short = |record: &Receiver| record.parts().2.intervals() <= LAST_RANGES;
            let last = inbound.receiver.as_ref().filter(|record| ends_for_good && short(record));
            epoch.seal(&mut datagram, wire::MIN_OPENING, |_, writer| {
                // Messages that this STATE does not settle stay unknown for ever.
                if last.is_some() {
                    write_state(writer, inbound, clock);
                }
                writer.close(if ends_for_good { close::FOR_GOOD } else { close::DONE });
            });
        }
        if let (Some(to), false) = (to, datagram.is_empty()) {
            let arrival = Arrival { remote: to.remote, local_ip: to.local, ecn: 0, pipe: to.pipe };
            cx.push_loose(arrival, datagram.into());
        }
    }

    /// Tells the peer as [`Self::leave`] does, but keeps the channel, since the datagram may get lost. Returns after how long to
    /// tell the peer again. None: the peer does not wait for it.
    pub(crate) fn foretell(&mut self, cx: &mut Context) -> Option<Duration> {
        let waits = cx.ends_for_good() && self.link.is_connected() && self.inbound.was_closed();
        waits.then(|| {
            self.say_close(cx);
            self.link.pto()
        })
    }

    /// The peer says that it has restarted, and that the channel with `index` here and `remote` there is gone. False: there is no
    /// such channel.
    pub(crate) fn on_reset(
        &mut self,
        cx: &mut Context,
        now: Now,
        index: ChannelIndex,
        remote: ChannelIndex,
    ) -> bool {
        if self.link.epoch_mut(index).is_none_or(|epoch| epoch.remote != remote) {
            return false;
        }
        let path = self.link.proven();
        self.drop_channel(cx, now);
        self.outbound.renounce();
        // What is known of the path is kept, and the opening goes there.
        self.link.roaming = path.map(|path| Roaming::new(Path::proven(path)));
        self.link.recovery.on_peer_restart();
        self.link.reopen |= self.link.is_kept(&cx.config);
        if let Some(opening) = self.link.opening.as_mut() {
            opening.hurry(now.mono);
        }
        true
    }
}
