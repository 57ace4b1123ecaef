//! How the engine handles streams.

use core::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::node::{Gap, InStream, SendError as CoreError, StreamEnd};
use exonet_proto::{MessageId, NodeId, Now};
use tokio::sync::Notify;

use super::{Engine, Phase};
use crate::error::Closed;
use crate::send::message::Message;
use crate::send::receipts::SlotIndex;
use crate::stream::desk::{Entrance, StreamId, Taken};

impl Engine {
    /// Queues a message of the stream that its tag names. If the queue is full, returns Full and leaves the message.
    pub(crate) fn send_in_stream(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        message: &mut Option<Message>,
        end: StreamEnd,
    ) -> Result<SlotIndex, CoreError> {
        if self.phase != Phase::Open {
            return Err(CoreError::Closed);
        }
        if !self.room.has(&mut self.core, &peer) {
            return Err(CoreError::Full);
        }
        self.reserve_for(|| message.as_ref().map_or(0, Message::len))?;
        let outgoing = message.take().ok_or(CoreError::Closed)?.into_outgoing(now.mono);
        let key = self.core.send_in_stream(now, peer, hints, outgoing, end, false)?;
        if !self.write_journal(now) {
            return Err(self.unwritten());
        }
        Ok(self.queued(now, key, &peer, false))
    }

    /// Withdraws the messages of a stream that have not left.
    pub(crate) fn cancel_stream(&mut self, now: Now, peer: &NodeId, name: &Bytes) {
        if self.phase < Phase::Stopped {
            self.core.cancel_stream(now, peer, name);
        }
    }

    /// Hands out the next message of a stream.
    pub(crate) fn take_in_stream(&mut self, now: Now, peer: &NodeId, name: &Bytes) -> Taken {
        if self.phase >= Phase::Stopped {
            return Taken::Closed;
        }
        match self.core.take_stream(now, peer, name) {
            Some(_) if !self.write_journal(now) => Taken::Closed,
            Some(said) => Taken::Message(Box::new(said)),
            None if self.phase >= Phase::Closing => Taken::Closed,
            None => Taken::Nothing,
        }
    }

    /// Notes that a reader has been told that its stream breaks before `next`.
    pub(crate) fn break_stream(&mut self, now: Now, peer: &NodeId, name: &Bytes, next: MessageId) {
        if self.phase < Phase::Stopped {
            self.core.break_stream(peer, name, next);
            self.write_journal(now);
        }
    }

    /// Takes the next message of a stream, if `wants` accepts it. If the node forces its journal to the disk, it
    /// hands the message out first, and waits for the disk.
    pub(crate) fn take_next_in_stream(
        &mut self,
        now: Now,
        peer: &NodeId,
        name: &Bytes,
        wants: impl Fn(Gap, StreamEnd) -> bool,
    ) -> Option<InStream> {
        if self.phase >= Phase::Stopped || self.is_forced() {
            return None;
        }
        let taken = self.core.recv_stream_if(now, peer, name, wants);
        taken.filter(|_| self.write_journal(now))
    }

    /// Like [`Self::take_next_in_stream`], for up to `most` consecutive messages. The last argument of `wants` is
    /// whether a message is the first of them.
    pub(crate) fn take_many_in_stream(
        &mut self,
        now: Now,
        (peer, name): (&NodeId, &Bytes),
        most: usize,
        wants: impl Fn(Gap, StreamEnd, bool) -> bool,
    ) -> Vec<InStream> {
        let mut taken = Vec::new();
        if self.phase >= Phase::Stopped || self.is_forced() {
            return taken;
        }
        while taken.len() < most {
            let first = taken.is_empty();
            let next = self.core.recv_stream_if(now, peer, name, |gap, end| wants(gap, end, first));
            let Some(next) = next else { break };
            taken.push(next);
        }
        if !taken.is_empty() && !self.write_journal(now) {
            taken.clear();
        }
        taken
    }

    /// Returns the next stream that waits at an entrance for a handle.
    pub(crate) fn accept_stream(
        &mut self,
        entrance: &Entrance,
    ) -> Result<Option<(StreamId, Arc<Notify>)>, Closed> {
        let next = self.streams.next(entrance, &mut self.after);
        if next.is_none() && self.phase >= Phase::Closing { Err(Closed) } else { Ok(next) }
    }

    /// Notes that a handle on a stream was dropped.
    pub(crate) fn leave_stream(&mut self, id: StreamId) {
        self.streams.leave(&self.core, id, &mut self.after);
    }

    /// Notes that a listener was dropped.
    pub(crate) fn unlisten(&mut self, entrance: &Entrance) {
        self.streams.unlisten(entrance, &mut self.after);
    }

    /// Stops reading a stream, and tells the peer the reason. `last` is the last message that the reader got.
    pub(crate) fn stop_stream(&mut self, now: Now, id: StreamId, reason: &str, last: Option<MessageId>) {
        if self.phase < Phase::Stopped {
            self.streams.stop(&mut self.core, now, id, (reason, last), &mut self.after);
        }
    }
}
