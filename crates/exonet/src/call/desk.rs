//! The engine's state for calls: the callers that wait for a reply, and the servers of methods.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::node::{
    CallId, DeliveryKey, Incoming, MessageKey, Outgoing, ReplyBody, SendError as CoreError,
};
use exonet_proto::{NodeId, Now};
use tokio::sync::{Notify, Semaphore};

use crate::after::{After, Chore};
use crate::call::status::ReplyStatus;
use crate::engine::{Engine, Phase};
use crate::error::ServeError;
use crate::send::receipts::SlotIndex;

/// The calls of one method, between the core and its server.
pub(crate) struct Line {
    pub(crate) method: Bytes,
    /// Notified when a call waits.
    pub(crate) called: Notify,
    /// Closed when no further call may be taken.
    pub(crate) ended: Semaphore,
}

/// The status and the body of a reply that has arrived.
pub(crate) type Replied = (u32, ReplyBody);

#[derive(Default)]
pub(crate) struct Calls {
    /// The calls whose callers wait, each with its reply if that has arrived and its caller has not taken it yet.
    pending: BTreeMap<MessageKey, Option<Replied>>,
    lines: BTreeMap<Bytes, Arc<Line>>,
    /// Whether the node takes no further calls, and asks callers to try again.
    pub(crate) draining: bool,
    /// Whether the node neither takes nor refuses calls: they wait for the next life of the identity.
    pub(crate) paused: bool,
}

impl Calls {
    /// Ends all methods: the node takes no more calls of them, and their servers refuse the calls that wait.
    pub(crate) fn end(&self, after: &mut After) {
        after.chores.extend(self.lines.values().map(|line| Chore::Ended(Arc::clone(line))));
    }

    /// Whether this line is the one that serves the method now.
    fn is_current(&self, line: &Arc<Line>) -> bool {
        self.lines.get(&line.method).is_some_and(|current| Arc::ptr_eq(current, line))
    }

    /// The status for calls of a method that nothing serves.
    fn refusal(&self) -> u32 {
        let refusal = if self.draining { ReplyStatus::DRAINING } else { ReplyStatus::NO_SUCH_METHOD };
        refusal.0
    }

    pub(crate) fn take_reply(&mut self, key: MessageKey) -> Option<Replied> {
        self.pending.remove(&key).flatten()
    }
}

impl Engine {
    // ---- calling

    /// Queues a call. If the queue is full, returns Full and leaves the call to the caller.
    pub(crate) fn call(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        head: &mut Option<Outgoing>,
        stream: Option<u64>,
    ) -> Result<(SlotIndex, MessageKey), CoreError> {
        if self.phase == Phase::Open && !self.room.has(&mut self.core, &peer) {
            return Err(CoreError::Full);
        }
        self.redeem_call(now, peer, hints, head, stream)
    }

    /// Queues a call in a place that was reserved. If the core refuses it, the caller gets it back, and drops it
    /// after it has released the lock.
    pub(crate) fn redeem_call(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        head: &mut Option<Outgoing>,
        stream: Option<u64>,
    ) -> Result<(SlotIndex, MessageKey), CoreError> {
        if self.phase != Phase::Open {
            return Err(CoreError::Closed);
        }
        let head = head.take().ok_or(CoreError::Closed)?;
        let key = match stream {
            None => self.core.call(now, peer, hints, head)?,
            Some(len) => self.core.call_stream(now, peer, hints, head, Some(len))?,
        };
        self.calls.pending.insert(key, None);
        Ok((self.queued(now, key, &peer, stream.is_some()), key))
    }

    /// Takes in a reply that has arrived. If no caller waits for it, drops it.
    pub(crate) fn replied(&mut self, now: Now, key: MessageKey, status: u32, body: ReplyBody) {
        match self.calls.pending.get_mut(&key) {
            Some(place) => *place = Some((status, body)),
            None => self.drop_reply(now, &body),
        }
    }

    fn drop_reply(&mut self, now: Now, body: &ReplyBody) {
        if let ReplyBody::Stream { delivery, .. } = body {
            self.core.cut(now, *delivery);
        }
    }

    /// Notes that the caller has gone: withdraws the call or gives it up, and drops its reply.
    pub(crate) fn leave_call(&mut self, now: Now, key: MessageKey) {
        self.withdraw(now, key);
        if let Some((_, body)) = self.calls.take_reply(key)
            && self.phase < Phase::Stopped
        {
            self.drop_reply(now, &body);
        }
    }

    // ---- serving

    /// Lets calls of this method wait from now on, instead of refusing them.
    pub(crate) fn serve(&mut self, method: &Bytes) -> Result<Arc<Line>, ServeError> {
        if self.phase != Phase::Open {
            return Err(ServeError::Closed);
        }
        if method.len() > 255 {
            return Err(ServeError::MethodTooLong(method.len()));
        }
        match self.calls.lines.entry(method.clone()) {
            Entry::Occupied(_) => Err(ServeError::Served(String::from_utf8_lossy(method).into_owned())),
            Entry::Vacant(place) => {
                let line = Line { method: method.clone(), called: Notify::new(), ended: Semaphore::new(0) };
                Ok(Arc::clone(place.insert(Arc::new(line))))
            }
        }
    }

    /// Refuses calls of this method from now on, including those that wait.
    pub(crate) fn unserve(&mut self, now: Now, line: &Arc<Line>) {
        self.after.chores.push(Chore::Ended(Arc::clone(line)));
        if self.calls.is_current(line) {
            self.calls.lines.remove(&line.method);
            if self.phase < Phase::Stopped {
                self.core.refuse_calls(now, &line.method, self.calls.refusal());
                self.fail_held(now, line);
            }
        }
    }

    /// Notes a call that has arrived. Returns whether its method is served.
    pub(crate) fn called(&mut self, now: Now, method: &Bytes) -> bool {
        match self.calls.lines.get(method) {
            Some(line) => self.after.chores.push(Chore::Called(Arc::clone(line))),
            None => self.core.refuse_calls(now, method, self.calls.refusal()),
        }
        self.calls.lines.contains_key(method)
    }

    /// Takes the next call. None: no call waits, or the node takes none now.
    pub(crate) fn take_call(&mut self, now: Now, line: &Arc<Line>) -> Option<Incoming> {
        if self.calls.paused {
            return None;
        }
        let open = self.phase == Phase::Open && self.calls.is_current(line);
        if self.is_forced() {
            return self.take_call_when_safe(now, line, open);
        }
        if !open {
            return None;
        }
        let call = self.core.take_call(now, &line.method)?;
        self.write_journal(now).then_some(call)
    }

    /// Discards the rest of the body of a call or a reply. Returns the waker of the task that waits for that body.
    pub(crate) fn cut(&mut self, now: Now, key: DeliveryKey) -> Option<core::task::Waker> {
        if self.phase < Phase::Stopped {
            self.core.cut(now, key);
        }
        self.leave_readable(key)
    }

    /// Answers a call, whether or not its body has been read.
    pub(crate) fn answer(&mut self, now: Now, key: DeliveryKey, call: CallId, status: u32, body: Bytes) {
        if self.phase < Phase::Stopped {
            self.core.cut(now, key);
            self.core.reply(now, call, status, body);
        }
    }
}
