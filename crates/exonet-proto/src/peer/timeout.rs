//! What the passing of time changes on the link to a peer.

use core::time::Duration;

use super::epoch::{Carried, Pending};
use super::{Context, Peer};
use crate::event::Event;
use crate::follow::Again;
use crate::time::{Mono, Now};

/// How long a record is kept that an opening has made and no data packet has confirmed: the network may have gone down right
/// behind the answer.
const TENTATIVE_FOR: Duration = Duration::from_secs(3_600);

impl Peer {
    /// Acts on the passing of time on a link.
    pub(super) fn link_timeout(&mut self, cx: &mut Context, now: Now) {
        self.expire_pending(cx, now);
        self.answer_held(cx, now);
        self.detect_losses(cx, now);
        if let Some(roaming) = self.link.roaming.as_mut() {
            roaming.on_timeout(now.mono);
        }
        if self.link.pto_at().is_some_and(|at| at <= now.mono) {
            if let Some(epoch) = self.link.current.as_ref() {
                self.follow_copies(cx, epoch, None, Again::Probe);
            }
            let link = &mut self.link;
            let probe = link.recovery.on_pto(now.mono);
            link.probes = probe.packets;
            let packets = link.current.iter().flat_map(|epoch| epoch.sent.outstanding());
            self.outbound.probe(&mut cx.store, packets, probe.packets);
            if link.recovery.is_random() {
                self.outbound.ask_again(now.mono);
            }
            self.note_timeouts(now, probe.count);
        }
        if self.link.take_doubt(now.mono) {
            let since = self.link.goes_away();
            cx.events.extend(since.map(|since| Event::Away { peer: self.id, since }));
            self.link.reopen |= self.wants_channel(now.mono) || self.link.is_kept(&cx.config);
        }
        // A connection that brings nothing is no better than none.
        if let Some((pipe, _)) = self.link.numb_at().filter(|(_, at)| *at <= now.mono) {
            self.on_pipe_broken(cx, now, pipe);
        }
        self.try_datagrams(cx, now);
        self.copy_lone(cx, now);
        let (link, config) = (&mut self.link, &cx.config);
        let wears_out = link.current.as_ref().is_some_and(|epoch| epoch.wears_out());
        if link.opening.is_none() && (wears_out || link.rekey_at(config) <= now.mono) {
            link.reopen = true;
        }
        if link.keepalive_at(config) <= now.mono {
            link.confirm = true;
            link.used_at = now.mono;
        }
        if link.refused_until <= now.mono {
            link.refused_until = Mono(0);
        }
        let idle = link.idle_at(config) <= now.mono;
        if link.previous.as_ref().is_some_and(|(_, until)| *until <= now.mono) {
            self.end_previous(cx, now);
        }
        if idle {
            self.leave(cx, now);
        }
    }

    /// Whether the peer has left probes or an opening unanswered, or its connection brings nothing.
    pub(crate) fn is_silent(&self, now: Mono) -> bool {
        let link = &self.link;
        link.recovery.pto_count() > 0 || link.opening.is_some() || self.silent_pipe(now).is_some()
    }

    /// The network may be back, and the peer is silent: all that waits longer and longer is repeated at once.
    pub(crate) fn hasten(&mut self, cx: &mut Context, now: Now) {
        if let Some(pipe) = self.silent_pipe(now.mono) {
            self.on_pipe_broken(cx, now, pipe);
        }
        if let Some(opening) = self.link.opening.as_mut() {
            opening.hasten(now.mono);
        }
        self.link.recovery.hasten(now.mono);
        self.outbound.hasten(now.mono);
    }

    fn expire_pending(&mut self, cx: &mut Context, now: Now) {
        let expired: Vec<Pending> =
            self.link.pending.extract_if(.., |pending| pending.expires <= now.mono).collect();
        for pending in &expired {
            Self::forget_pending(cx, pending);
        }
    }

    /// An opening has come, which may be a replay. True if it is the first that this node hears of the peer: then the peer is
    /// kept for a while, or longer if it proves that it is there.
    pub(crate) fn note_tentative(&mut self, now: Now) -> bool {
        let known = self.link.lives.is_known() || self.link.is_connected() || self.outbound.has_messages();
        if known || self.link.tentative.is_some() {
            return false;
        }
        self.link.tentative = Some(now.mono + TENTATIVE_FOR);
        true
    }

    /// Gives up a peer that has not proved to be there when its time has passed, or when there is no record that it could miss.
    pub(super) fn doubt(&mut self, cx: &mut Context, now: Now) {
        let empty = self.link.pending.is_empty() && self.inbound.receiver.is_none();
        if self.link.tentative.is_some_and(|until| until <= now.mono || empty) {
            self.renounce(cx);
        }
    }

    /// If a peer has never proved to be there, drops what the node holds for it.
    pub(crate) fn renounce(&mut self, cx: &mut Context) {
        if self.link.tentative.take().is_some() {
            cx.stats.evictions += u64::from(self.inbound.renounce(&mut cx.clock));
        }
    }

    fn detect_losses(&mut self, cx: &mut Context, now: Now) {
        let mut fates = std::mem::take(&mut cx.scratch.fates);
        let link = &mut self.link;
        let current = link.current.as_deref_mut();
        let previous = link.previous.as_mut().map(|(epoch, _)| &mut **epoch);
        for epoch in current.into_iter().chain(previous) {
            if epoch.sent.loss_time().is_some_and(|at| at <= now.mono) {
                let keep = |fate, item| fates.push((item, fate));
                let report = link.recovery.on_loss_timeout(now.mono, &mut epoch.sent, keep);
                link.packets_lost += report.lost;
                cx.stats.packets_lost += report.lost;
            }
        }
        self.apply(cx, now, &mut fates);
        cx.scratch.fates = fates;
    }

    /// Sends a copy of packets that had nothing behind them and of which nothing was heard yet.
    fn copy_lone(&mut self, cx: &mut Context, now: Now) {
        while let Some((_, index, number)) =
            self.link.hedges.front().copied().filter(|(at, ..)| *at <= now.mono)
        {
            self.link.hedges.pop_front();
            let Some(epoch) = self.link.current.as_ref().filter(|epoch| epoch.index == index) else {
                continue;
            };
            let Some((bytes, items)) = epoch.sent.still_out(number) else { continue };
            if self.link.recovery.has_room(bytes) {
                self.outbound.send_again(&mut cx.store, items.filter(|item| *item != Carried::Ask));
                self.follow_copies(cx, epoch, Some(number), Again::Copy);
                self.link.copies.push_back(number);
            }
        }
    }
}
