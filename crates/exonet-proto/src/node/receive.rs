//! Datagrams come in here, and go to the peers that they belong to.

use super::Node;
use crate::config::Carrier;
use crate::event::Arrival;
use crate::opening::prefix::Prefix;
use crate::time::Now;
use crate::wire::{self, ChannelIndex, Data, Datagram, Malformed};

impl Node {
    /// A datagram has arrived. It is decrypted in place.
    pub fn handle_datagram(&mut self, now: Now, arrival: Arrival, data: &mut [u8]) {
        self.cx.stats.datagrams_in += 1;
        self.cx.stats.bytes_in += data.len() as u64;
        if self.cx.stopped || (arrival.pipe.is_none() && self.cx.config.carrier == Carrier::Tcp) {
            return;
        }
        let len = data.len();
        match Datagram::parse(data) {
            Ok(Datagram::Data(packet)) => self.on_data(now, arrival, len, packet),
            Ok(Datagram::Opening(opening)) => self.on_opening(now, arrival, &opening),
            Ok(Datagram::Answer(answer)) => self.on_answer(now, arrival, &answer),
            Ok(Datagram::Retry(retry)) => self.on_retry(now, &retry),
            Ok(Datagram::Reset(reset)) => self.on_reset(now, &reset),
            // At best a hint: this release speaks one version.
            Ok(Datagram::Version(_)) => self.cx.stats.strays += 1,
            Err(malformed) => {
                self.cx.stats.malformed += 1;
                if let (Malformed::Version(_), Some(hint)) = (malformed, wire::version_answer(data)) {
                    self.cx.push_loose(arrival, Box::new(hint));
                }
            }
        }
    }

    /// The peer that a channel index of this node belongs to.
    fn route(&self, index: ChannelIndex) -> Option<u32> {
        self.cx.routes.get(&index.0).copied()
    }

    fn on_data(&mut self, now: Now, arrival: Arrival, len: usize, packet: Data<'_>) {
        let Some(place) = self.route(packet.index) else {
            return self.on_stray(now, arrival, packet.index);
        };
        // The pipe belongs to another peer, so this peer would not be told when it ends.
        if arrival.pipe.is_some_and(|pipe| self.cx.pipes.owner(pipe).is_none_or(|owner| owner != place)) {
            self.cx.stats.strays += 1;
            return;
        }
        let heard = self.at(place).is_some_and(|(peer, cx)| peer.on_packet(cx, now, arrival, len, packet));
        if heard {
            self.after(now, place);
        }
    }

    fn on_answer(&mut self, now: Now, arrival: Arrival, answer: &wire::Answer<'_>) {
        if !self.mac.verify_mac1(answer.mac1_input, answer.mac1) {
            self.cx.stats.unauthentic += 1;
            return;
        }
        let Some(place) = self.route(answer.to) else {
            self.cx.stats.strays += 1;
            return;
        };
        if let Some((peer, cx)) = self.at(place) {
            peer.on_answer(cx, now, arrival, answer);
        }
        self.after(now, place);
    }

    fn on_retry(&mut self, now: Now, retry: &wire::Retry<'_>) {
        let Some(place) = self.route(retry.to) else {
            self.cx.stats.strays += 1;
            return;
        };
        if let Some((peer, cx)) = self.at(place) {
            peer.on_retry(cx, now, retry);
        }
        self.after(now, place);
    }

    /// A data packet bears an index that no channel of this node has. If a former life chose the index, the peer is told. No
    /// other node learns anything: the answer is shorter than the packet, and is never answered.
    fn on_stray(&mut self, now: Now, arrival: Arrival, index: ChannelIndex) {
        let cx = &mut self.cx;
        cx.stats.strays += 1;
        let life = cx.life.as_ref().filter(|_| cx.may_speak());
        let Some(token) = life.and_then(|life| life.former_token(index)) else { return };
        if cx.resets.admit(now.mono, index, Prefix::told(arrival.remote.ip())) {
            cx.stats.resets_sent += 1;
            cx.push_loose(arrival, Box::new(wire::reset(index, &token)));
        }
    }

    /// Only the peer that chose `reset.index`, or a holder of its secret, can know the token. So that peer has restarted, and the
    /// channel is gone. This is the only effect, wherever the datagram comes from, and a copy of the datagram has none.
    fn on_reset(&mut self, now: Now, reset: &wire::Reset<'_>) {
        let index = self.cx.resets.find(reset.token);
        let place = index.and_then(|index| self.route(index));
        let heeded = place.zip(index).is_some_and(|(place, index)| {
            self.at(place).is_some_and(|(peer, cx)| peer.on_reset(cx, now, index, reset.index))
        });
        if let Some(place) = place.filter(|_| heeded) {
            self.cx.stats.resets_heeded += 1;
            self.after(now, place);
        } else {
            self.cx.stats.strays += 1;
        }
    }
}
