//! Which peer sends next.

use super::Node;
use crate::event::Transmit;
use crate::time::Now;

impl Node {
    /// The next datagrams to send: `buf` is cleared and filled with up to `max_segments` datagrams of equal size
    /// for one peer, 65,507 bytes at most. None when nothing is to be sent now.
    pub fn poll_transmit(&mut self, now: Now, max_segments: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        buf.clear();
        self.last_poll = now.mono;
        self.last_sent = None;
        if self.cx.stopped {
            return None;
        }
        if let Some(transmit) = self.cx.pop_loose(buf) {
            return Some(transmit);
        }
        if !self.cx.may_speak() {
            return None;
        }
        while let Some(place) = self.ready.pop_front() {
            if let Some(schedule) = self.peers.schedule(place) {
                schedule.ready = false;
            }
            if let Some(transmit) = self.transmit_peer(now, place, max_segments.max(1), buf) {
                // The peer's next turn comes behind the others.
                self.touch(place);
                return Some(transmit);
            }
            self.rest(now, place);
        }
        None
    }

    fn transmit_peer(
        &mut self,
        now: Now,
        place: u32,
        segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let ends = self.cx.closing && self.peers.len() == 1;
        let (peer, cx) = self.at(place)?;
        peer.wind_up(cx, now);
        if let Some(transmit) = cx.pop_loose(buf) {
            return Some(transmit);
        }
        let transmit = peer.poll_transmit(cx, now, segments, ends, buf)?;
        cx.count_out(transmit.len.div_ceil(transmit.segment.max(1)), transmit.len);
        cx.followers.stamp(now.mono);
        self.last_sent = Some(place);
        Some(transmit)
    }

    /// The system refused the datagrams that the last [`poll_transmit`](Self::poll_transmit) gave as too large for the first
    /// link: none of them has left. Their content is sent again in smaller datagrams, unless they were of the least size.
    pub fn handle_refused(&mut self, now: Now) {
        let Some(place) = self.last_sent.take() else { return };
        let Some((peer, cx)) = self.at(place) else { return };
        peer.on_refused_train(cx, now);
        self.after(now, place);
    }
}
