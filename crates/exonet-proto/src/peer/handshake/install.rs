//! Installs new keys.

use rand_core::RngCore;

use super::CROSSING;
use crate::channel::Roaming;
use crate::channel::path::Path;
use crate::event::{Arrival, Conflict, Event};
use crate::opening::answer::Held;
use crate::opening::initiate::round_trip;
use crate::opening::lives::Seen;
use crate::peer::epoch::{Epoch, Pending};
use crate::peer::outbound::PeerLimits;
use crate::peer::{Context, Peer};
use crate::time::{Mono, Now};
use crate::wire::{ChannelIndex, Params};

impl Peer {
    /// Forgets an opening that was about to be answered.
    pub(super) fn forget_held(cx: &mut Context, held: &Held) {
        cx.gate.leave(held.prefix, &held.mac1);
        cx.routes.remove(&held.index.0);
    }

    /// Forgets an opening that was answered.
    pub(in crate::peer) fn forget_pending(cx: &mut Context, pending: &Pending) {
        cx.gate.leave(pending.prefix, &pending.mac1);
        cx.routes.remove(&pending.epoch.index.0);
    }

    /// A data packet has opened under `index`, which confirms a pending epoch. False: nothing may come under this index.
    pub(in crate::peer) fn promote(
        &mut self,
        cx: &mut Context,
        now: Now,
        index: ChannelIndex,
        arrival: Arrival,
    ) -> bool {
        let Some(at) = self.link.pending.iter().position(|pending| pending.epoch.index == index) else {
            return true;
        };
        let pending = self.link.pending.remove(at);
        if self.link.pending.is_empty() {
            // The list will stay empty for long.
            self.link.pending = Vec::new();
        }
        cx.gate.leave(pending.prefix, &pending.mac1);
        // Only message 2 could give the peer these keys, and message 2 went to one address only: the peer is there.
        let proven = !pending.scattered && pending.answered == (arrival.remote, arrival.pipe);
        // The keys follow from what this node drew for the answer.
        let begun = pending.epoch.born;
        if !self.install(cx, now, pending.epoch, begun, arrival, proven) {
            return false;
        }
        let waited = now.mono.since(pending.answered_at);
        self.link.recovery.assume_rtt(round_trip(waited, pending.again));
        if let Some(nth) = pending.state {
            self.inbound.state_arrived(now.mono, nth, &cx.config);
        }
        true
    }

    /// Uses new keys from now on. The old keys still open packets for a while.
    ///
    /// `proven`: the peer is at the address of `arrival`. Otherwise a copy may have come from there, and a path that stands is
    /// kept. `begun`: the peer has lived since then, since its keys follow from what this node drew at that time. False: the keys
    /// are not used, because they belong to a process that is gone, or to a node whose identity another node also has.
    pub(super) fn install(
        &mut self,
        cx: &mut Context,
        now: Now,
        mut epoch: Epoch,
        begun: Mono,
        arrival: Arrival,
        proven: bool,
    ) -> bool {
        cx.stats.handshakes += 1;
        let seen = self.link.lives.judge(&epoch.params, begun);
        if self.conflict.is_some() || seen == Seen::Twice {
            self.part(cx, now, Conflict::Theirs, Some((epoch, arrival)));
            return false;
        }
        if seen == Seen::Superseded {
            cx.stats.strays += 1;
            self.send_away(cx, epoch, arrival);
            return false;
        }
        if seen == Seen::Stale {
            cx.stats.strays += 1;
            cx.routes.remove(&epoch.index.0);
            return false;
        }
        if epoch.params.stay.generation > self.link.lives.stay().generation {
            // An opening under way may carry early messages, and may go to where the peer was before.
            self.abort_opening(cx);
        }
        self.link.lives.enter(&epoch.params, now.mono);
        let (params, restarted) = (epoch.params, seen == Seen::Restarted);
        epoch.reset_tag = epoch.params.reset.take().map(|token| cx.resets.expect(&token, epoch.index));
        if self.link.tentative.take().is_some() {
            // What the peer's opening asked for is certainly wanted now. The peer is reminded of it, even if it never sends
            // anything again.
            self.inbound.engaged(now.mono, self.link.pto() * 3);
        }
        let own = cx.config.limits.of_lanes();
        let limits = PeerLimits::of(&params, own.is_some());
        self.inbound.held.set_limits(own.filter(|_| limits.lanes.is_some()));
        self.outbound.set_limits(limits);
        // All that is under way was sent into this silence.
        let (index, silent) = (epoch.index, self.link.silent_since());
        let unheard = silent.is_some_and(|since| now.mono.since(since) >= self.link.pto() * 3);
        if self.link.hear(now.mono) {
            cx.events.push_back(Event::Back { peer: self.id });
        }
        let replaced = self.use_keys(cx, now, epoch, restarted);
        let moved = self.link.current.as_ref().is_some_and(|current| current.index == index);
        self.use_path(cx, now, &params, arrival, proven);
        if self.outbound.largest > self.outbound.limits.message {
            self.withdraw_oversized(cx, now);
        }
        self.withdraw_untaken(cx, now);
        if let Some(gone) = replaced {
            self.end_epoch(cx, now, *gone);
        }
        if restarted {
            self.end_previous(cx, now);
            self.outbound.on_restart(now.mono, &mut cx.store);
        } else if unheard && moved {
            // The peer may use the old keys until it hears of the new ones.
            self.lose_all(cx, now);
        }
        cx.events.push_back(Event::Connected { peer: self.id, remote: arrival.remote, restarted });
        true
    }

    /// Seals packets under the keys of `epoch` from now on, unless its opening crossed an opening of the smaller id: then these
    /// keys only open packets. Returns the epoch whose keys open nothing any more.
    fn use_keys(&mut self, cx: &Context, now: Now, epoch: Epoch, restarted: bool) -> Option<Box<Epoch>> {
        let (link, smaller) = (&mut self.link, cx.id < self.id);
        let begun_by_smaller = epoch.initiator == smaller;
        let crossed = link.current.as_ref().is_some_and(|current| {
            let theirs = current.initiator == smaller;
            !restarted && theirs && !begun_by_smaller && now.mono.since(current.born) < CROSSING
        });
        let until = now.mono + link.pto() * 3;
        let replaced = if crossed {
            link.previous.replace((Box::new(epoch), until))
        } else {
            let old = link.current.replace(Box::new(epoch));
            let replaced = link.previous.take();
            link.previous = old.map(|old| (old, until));
            replaced
        };
        replaced.map(|(gone, _)| gone)
    }

    /// Uses the address of `arrival` for the peer, if it is `proven` or no other address is known.
    fn use_path(&mut self, cx: &mut Context, now: Now, params: &Params, arrival: Arrival, proven: bool) {
        let challenge = cx.rng.next_u64().to_be_bytes();
        let before = self.link.recovery.is_reliable();
        let (link, config) = (&mut self.link, &cx.config);
        let from = arrival.path();
        let same = link.roaming.as_ref().is_some_and(|roaming| roaming.active().addr().same(&from))
            || (link.roaming.is_some() && !proven);
        if !same {
            if link.roaming.is_some() || link.recovery.rtt().is_measured() {
                link.on_path_change(now.mono, config);
            }
            let timing = link.recovery.timing();
            link.roaming = Some(if proven {
                Roaming::new(Path::proven(from))
            } else {
                Roaming::unproven(now.mono, from, timing, challenge)
            });
        }
        link.cap_datagrams(now.mono, config, params.max_datagram, !same);
        link.recovery.set_max_ack_delay(params.max_ack_delay);
        // What an older path had under way does not end by the rules of this path.
        if !same && (before || link.recovery.is_reliable()) {
            self.lose_all(cx, now);
        }
        self.link.dialling.settle(now.mono, self.link.pipe().is_some());
        if proven && arrival.pipe.is_none() {
            self.add_hint(arrival.remote);
            self.journal_address(cx);
        }
    }
}
