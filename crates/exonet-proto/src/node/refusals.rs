//! Openings that the policy refuses, and how their senders are told (PROTOCOL.md "Refusals").

use super::Node;
use super::openings::{again, stamp_of};
use crate::crypto::{self, Opened, OpeningMac};
use crate::event::{Arrival, Event};
use crate::half::Receiver;
use crate::id::{NodeId, Stamp};
use crate::opening::prefix::Prefix;
use crate::opening::stamping::Memo;
use crate::peer::handshake::ANSWER_ROOM;
use crate::time::Now;
use crate::wire::{self, Bases, ChannelIndex, Datagram, Params, Writer, close};

impl Node {
    /// The policy refuses this opening. Its sender is told if the owner of this node wants that.
    pub(super) fn refuse_opening(
        &mut self,
        now: Now,
        arrival: Arrival,
        opening: &wire::Opening<'_>,
        opened: Opened,
        payload: &[u8],
    ) {
        let id = opened.peer();
        self.cx.stats.openings_refused += 1;
        if id == self.cx.id {
            return;
        }
        if self.refusals.note(now.mono, id) {
            self.cx.events.push_back(Event::Refused { peer: id, remote: arrival.remote });
        }
        let prefix = Prefix::told(arrival.remote.ip());
        if !self.cx.config.tell_refused || !self.refusals.admit(now.mono, prefix) {
            return;
        }
        let Some(certain) = self.refuse_stamp(now, id, stamp_of(payload)) else {
            self.cx.stamping.defer(arrival, again(opening));
            return;
        };
        self.cx.stats.refusals_told += 1;
        self.tell_refused(arrival, opening.index, opened, certain);
    }

    /// The application has refused the sender of this opening.
    pub(super) fn refuse_waiting(&mut self, now: Now, arrival: Arrival, datagram: &mut [u8]) {
        let Ok(Datagram::Opening(opening)) = Datagram::parse(datagram) else { return };
        let (mut payload, seed) = ([0; wire::MAX_OPENING_PAYLOAD], self.cx.seed());
        if let Ok(opened) = Opened::read(&self.cx.key, opening.header, opening.noise, seed, &mut payload) {
            let payload = payload.get(..opened.payload_len()).unwrap_or_default();
            self.refuse_opening(now, arrival, &opening, opened, payload);
        }
    }

    /// Whether the node may say that nothing was taken under this stamp, and that nothing will be. None: the node cannot say so
    /// before `latest` is on the disk. A stamp that is far ahead is neither answered for nor written down: otherwise strangers
    /// could raise `latest`.
    fn refuse_stamp(&mut self, now: Now, id: NodeId, ts: Stamp) -> Option<bool> {
        if !ts.is_some() || self.refusals.has_refused(&id, ts) {
            return Some(ts.is_some());
        }
        if self.cx.stamping.is_near(now, ts) && !self.admit_stamp(now, id, ts) {
            return None;
        }
        let Self { peers, cx, .. } = self;
        let certain = match peers.find(&id).and_then(|place| peers.get_mut(place)) {
            Some(peer) => Receiver::refuse(&mut peer.inbound.bound, &mut cx.clock, ts),
            None => {
                let mut bound = cx.stamping.memo_of(&id);
                let certain = Receiver::refuse(&mut bound, &mut cx.clock, ts);
                if certain {
                    let told = cx.stamping.told_of(&id);
                    cx.stamping.remember(now, cx.clock.stamps_mut(), id, Memo { bound, told });
                }
                certain
            }
        };
        if certain {
            self.refusals.refused(&id, ts);
        }
        Some(certain)
    }

    /// An ANSWER that begins no channel. It is shorter than a twelfth of the opening that it answers.
    fn tell_refused(&mut self, arrival: Arrival, to: ChannelIndex, opened: Opened, certain: bool) {
        let id = opened.peer();
        let header = wire::answer_header(opened.suite().as_u8(), to, ChannelIndex(0));
        let mut frames = [0; ANSWER_ROOM];
        let mut writer = Writer::new(&mut frames, Bases::default());
        // No parameter is declared: no channel follows, and a stranger learns no more than it must.
        writer.params(&Params { stay: self.cx.config.stay, ..Params::default() });
        writer.close(if certain { close::REFUSED } else { close::REFUSED_IN_DOUBT });
        let len = writer.len();
        let frames = frames.get(..len).unwrap_or_default();
        let mut datagram = vec![0; header.len() + len + crypto::ANSWER_OVERHEAD];
        let (clear, noise) = datagram.split_at_mut(header.len());
        clear.copy_from_slice(&header);
        if opened.answer(&header, frames, noise).is_ok() {
            datagram.extend_from_slice(&OpeningMac::new(&id).mac1(&datagram));
            self.cx.push_loose(arrival, datagram.into());
        }
    }
}
