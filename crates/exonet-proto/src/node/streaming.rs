//! Requests of the application: streams.

use core::borrow::BorrowMut;
use core::net::SocketAddr;

use bytes::Bytes;

use super::Node;
use crate::event::SendError;
use crate::half::Gap;
use crate::id::{MessageId, NodeId};
use crate::message::arrived::Arrived;
use crate::message::{InStream, Incoming, MessageKey, Outgoing};
use crate::peer::{Context, Lent, Peer, Turn};
use crate::time::Now;
use crate::wire::{Role, StreamEnd, StreamMark};

/// How a peer gives a message to the application: [`Peer::hand_out`], or [`Peer::hand_over`].
type Give = fn(&mut Peer, &mut Context, Now, Arrived) -> Option<Incoming>;

impl Node {
    /// Queues a message of the stream `message.tag` to `peer`. The peer takes it after all messages that were queued before it in
    /// this stream; it waits for no other messages. A stream begins with its first message, and ends with a message that is its
    /// `end`; the next message begins another stream. All messages of a stream should have one priority. None of them leaves
    /// beside the opening of a channel.
    ///
    /// `more`: the stream goes on behind this message.
    ///
    /// # Errors
    /// As [`Node::send`]; [`SendError::TooLarge`] above [`MAX_STREAM_BODY`](super::MAX_STREAM_BODY); [`SendError::NoName`] for an empty tag.
    pub fn send_in_stream(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        message: Outgoing,
        end: StreamEnd,
        more: bool,
    ) -> Result<MessageKey, SendError> {
        let mut message = message;
        let source = self.cx.store.body(core::mem::take(&mut message.body));
        let mark = StreamMark { end, more, ..StreamMark::default() };
        self.submit(now, peer, hints, message, source, Role::Stream(mark))
    }

    /// As [`Node::send_in_stream`], for several messages of streams that go on behind each of them: see [`Node::send_each`].
    ///
    /// # Errors
    /// As [`Node::send_each`] and [`Node::send_in_stream`].
    pub fn send_each_in_stream(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        messages: &mut impl Iterator<Item = impl BorrowMut<Outgoing>>,
        queued: impl FnMut(MessageKey, u32),
    ) -> Result<(), SendError> {
        let lent = |message| Lent { message, in_stream: true };
        self.send_all(now, peer, hints, &mut messages.map(lent), Role::Stream(StreamMark::OPEN), queued)
    }

    /// Cancels the messages of the stream `name` to `peer` that have not left. If an earlier stream of this name has ended and
    /// still waits to leave, its messages stay.
    pub fn cancel_stream(&mut self, now: Now, peer: &NodeId, name: &Bytes) {
        let Some(place) = self.peers.find(peer) else { return };
        if let Some((peer, cx)) = self.at(place) {
            peer.cancel_stream(cx, now, name);
            self.after(now, place);
        }
    }

    /// The next message of the stream `name` from `peer`, handed out and not yet taken. [`Node::done`] takes it, [`Node::judge`]
    /// gives a verdict on it, and [`Node::release`] gives it back. Until one of them is called, no other message of the stream is
    /// handed out.
    ///
    /// None: none can be taken now; [`crate::event::Event::Stream`] says when one can.
    pub fn take_stream(&mut self, now: Now, peer: &NodeId, name: &Bytes) -> Option<InStream> {
        let give: Give = |peer, cx, now, arrived| Some(peer.hand_out(cx, now.mono, arrived));
        self.next_of(now, peer, name, give, |_, _| true)
    }

    /// As [`Node::take_stream`], but the message is taken at once.
    pub fn recv_stream(&mut self, now: Now, peer: &NodeId, name: &Bytes) -> Option<InStream> {
        self.next_of(now, peer, name, Peer::hand_over, |_, _| true)
    }

    /// As [`Node::recv_stream`], if the next message is what the caller `wants`. The caller decides by what lies before the
    /// message and by whether the stream goes on behind it.
    pub fn recv_stream_if(
        &mut self,
        now: Now,
        peer: &NodeId,
        name: &Bytes,
        wants: impl Fn(Gap, StreamEnd) -> bool,
    ) -> Option<InStream> {
        self.next_of(now, peer, name, Peer::hand_over, wants)
    }

    fn next_of(
        &mut self,
        now: Now,
        peer: &NodeId,
        name: &Bytes,
        give: Give,
        wants: impl Fn(Gap, StreamEnd) -> bool,
    ) -> Option<InStream> {
        loop {
            let place = self.peers.find(peer)?;
            let (peer, cx) = self.at(place)?;
            peer.keep_record(cx);
            let first = cx.inbox.first_of(place, name)?;
            let (turn, (_, mark)) = (peer.turn_of(cx, first), first.stream()?);
            if turn == Turn::Later {
                cx.inbox.say_of(place, name, false);
                return None;
            }
            if let Turn::Now(gap) = turn
                && !wants(gap, mark.end)
            {
                return None;
            }
            let arrived = cx.inbox.pop_of(place, name)?;
            let found = match turn {
                Turn::Now(gap) => give(peer, cx, now, arrived).map(|message| (gap, message)),
                Turn::Never => {
                    peer.drop_passed(cx, &arrived);
                    None
                }
                _ => {
                    peer.drop_stale(cx, &arrived);
                    None
                }
            };
            self.after(now, place);
            if let Some((gap, message)) = found {
                let StreamMark { n, end, more, .. } = mark;
                return Some(InStream { message, n, gap, end, more });
            }
        }
    }

    /// The application has heard that the stream of this name breaks before the message `next` ([`Gap::Breaks`]), which it gives back
    /// or has given back: the message comes again, as one of another stream.
    pub fn break_stream(&mut self, peer: &NodeId, name: &Bytes, next: MessageId) {
        if let Some(place) = self.peers.find(peer)
            && let Some((peer, cx)) = self.at(place)
        {
            peer.stream_broke(cx, name, next);
        }
    }

    /// A message of a stream is not at the application any more: the next message, or the same one again, may be taken.
    pub(super) fn stream_moved(&mut self, place: u32, role: Role, name: &Bytes) {
        if let Role::Stream(_) = role
            && let Some((peer, cx)) = self.at(place)
        {
            peer.tell_stream(cx, name);
        }
    }

    /// The streams to a peer that have begun and have not ended.
    pub fn begun_streams(&self, peer: &NodeId) -> Vec<Bytes> {
        let peer = self.peers.find(peer).and_then(|place| self.peers.get(place));
        let writers = peer.map(|peer| &peer.outbound.writers);
        writers.map(|writers| writers.begun().map(|(name, ..)| name.clone()).collect()).unwrap_or_default()
    }

    /// Whether the stream `name` to a peer has begun and has not ended.
    pub fn has_begun_stream(&self, peer: &NodeId, name: &Bytes) -> bool {
        let peer = self.peers.find(peer).and_then(|place| self.peers.get(place));
        peer.is_some_and(|peer| peer.outbound.writers.begun_of(name).is_some())
    }

    /// The streams from a peer that have messages waiting here, whether these can be taken now or not.
    pub fn waiting_streams(&self, peer: &NodeId) -> Vec<Bytes> {
        let place = self.peers.find(peer);
        place.map(|place| self.cx.inbox.streams_of(place).cloned().collect()).unwrap_or_default()
    }
}
