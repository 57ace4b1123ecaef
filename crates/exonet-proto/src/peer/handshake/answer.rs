//! The answer to an opening: made at once, or when the messages that came with the opening have been taken.

use core::time::Duration;

use super::{ANSWER_ROOM, HALF_OPEN_FOR};
use crate::crypto::{self, Opened, OpeningMac};
use crate::event::Arrival;
use crate::opening::answer::Held;
use crate::opening::prefix::Prefix;
use crate::peer::epoch::{Agreed, Epoch, Pending};
use crate::peer::filling::write_answer_state;
use crate::peer::link::MAX_PENDING;
use crate::peer::{Context, Peer};
use crate::time::Now;
use crate::wire::{self, Bases, Params, Writer};

/// How long an answer waits for what it could say about the messages that came with the opening.
const HOLD_ANSWER: Duration = Duration::from_millis(2);

impl Peer {
    /// Takes in the frames of an opening that may be answered. The answer is made at once, or when the messages that came with
    /// the opening have been taken.
    pub(crate) fn take_in(
        &mut self,
        cx: &mut Context,
        now: Now,
        arrival: Arrival,
        opening: &wire::Opening<'_>,
        opened: Opened,
        (theirs, payload): (Params, &[u8]),
    ) {
        self.note_time(now.wall, theirs.time);
        // The initiator could not know this node's base: numbers of this node are relative to zero there.
        if !self.is_odd(&theirs) {
            self.link.lives.hear(&theirs, now.mono);
            self.on_handshake_frames(cx, now, payload, Bases { sender: theirs.base, receiver: 0 });
        }
        let (index, prefix) = (cx.new_index(), Prefix::told(arrival.remote.ip()));
        cx.gate.enter(prefix, *opening.mac1, index.0);
        cx.routes.insert(index.0, self.place);
        let (remote, mac1) = (opening.index, *opening.mac1);
        let (since, until) = (now.mono, now.mono + HOLD_ANSWER);
        let held = Held { opened, arrival, theirs, index, remote, mac1, prefix, since, until };
        self.link.held.reserve_exact(1);
        self.link.held.push(held);
        if self.link.held.len() > MAX_PENDING {
            let oldest = self.link.held.remove(0);
            self.answer(cx, now, oldest);
        }
        self.answer_held(cx, now);
    }

    /// Answers the openings that need not wait any longer, since the messages that came with them have been taken.
    pub(in crate::peer) fn answer_held(&mut self, cx: &mut Context, now: Now) {
        if self.link.held.is_empty() {
            return;
        }
        let waits = self.inbound.has_pending();
        let server = &self.inbound.server;
        let may_wait = |held: &Held| waits || server.computes_since(held.since);
        let (waiting, due) = std::mem::take(&mut self.link.held)
            .into_iter()
            .partition(|held| held.until > now.mono && may_wait(held));
        self.link.held = waiting;
        for held in due {
            self.answer(cx, now, held);
        }
    }

    fn answer(&mut self, cx: &mut Context, now: Now, held: Held) {
        self.journal_record(cx);
        let Held { opened, arrival, theirs, index, remote, mac1, prefix, .. } = held;
        let (id, suite) = (opened.peer(), opened.suite());
        let ours = self.params(cx, now, index);
        let bases = Bases { sender: ours.base, receiver: theirs.base };
        let header = wire::answer_header(suite.as_u8(), remote, index);
        let mut frames = [0; ANSWER_ROOM];
        let odd = self.is_odd(&theirs);
        let (frames, state) = self.answer_frames(cx, now, &ours, bases, odd, &mut frames);
        let mut datagram = vec![0; header.len() + frames.len() + crypto::ANSWER_OVERHEAD];
        let (clear, noise) = datagram.split_at_mut(header.len());
        clear.copy_from_slice(&header);
        let Ok((keys, _)) = opened.answer(&header, frames, noise) else {
            cx.gate.leave(prefix, &mac1);
            cx.routes.remove(&index.0);
            return;
        };
        datagram.extend_from_slice(&OpeningMac::new(&id).mac1(&datagram));
        let keys = Agreed { keys, suite, index, remote, bases, params: theirs };
        let epoch = Epoch::new(now.mono, keys, false, cx.skips.fork(), cx.config.max_ack_delay);
        let answer: Box<[u8]> = datagram.into();
        cx.push_loose(arrival, answer.clone());
        let expires = now.mono + HALF_OPEN_FOR;
        let (answered, answered_at) = ((arrival.remote, arrival.pipe), now.mono);
        let (again, scattered) = (false, false);
        let pending =
            Pending { epoch, answer, state, mac1, prefix, expires, answered_at, again, answered, scattered };
        // There is one entry, unless the peer opens again. A Vec that grows would begin with four.
        self.link.pending.reserve_exact(1);
        self.link.pending.push(pending);
        if self.link.pending.len() > MAX_PENDING {
            let oldest = self.link.pending.remove(0);
            Self::forget_pending(cx, &oldest);
        }
    }

    /// PARAMS, the STATE that the opening's ASK is owed, and this node's own ASK; for an `odd` opening PARAMS alone. Also returns
    /// the number of the STATE, if any.
    fn answer_frames<'a>(
        &mut self,
        cx: &mut Context,
        now: Now,
        ours: &Params,
        bases: Bases,
        odd: bool,
        room: &'a mut [u8; ANSWER_ROOM],
    ) -> (&'a [u8], Option<u64>) {
        let mut writer = Writer::new(room, bases);
        writer.params(ours);
        let mut state = None;
        if !odd {
            if self.inbound.state_owed() && write_answer_state(&mut writer, &self.inbound, &cx.clock) {
                self.inbound.state_sent();
                state = Some(self.inbound.states());
            }
            let (window, pto) = (self.link.recovery.congestion().window(), self.link.pto());
            if self.outbound.ask_due
                && let Some(ask) = self.outbound.ask(now.mono, &mut cx.clock, window, pto)
            {
                writer.ask(ask.into());
            }
            if let Some((ts, time)) = self.inbound.rejection.take() {
                writer.stamp_rejected(ts, time);
            }
            while let Some((s, status, body)) = self.inbound.server.next_reply()
                && writer.reply(wire::Reply { s, status, body })
            {
                self.inbound.server.sent(now.mono, s, pto);
            }
        }
        let len = writer.len();
        (room.get(..len).unwrap_or_default(), state)
    }
}
