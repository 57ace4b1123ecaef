//! Who reads which stream: the engine's table of handles, and the streams that wait for one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::node::{Gap, InStream, Node as Core, StreamEnd, Verdict, Word};
use exonet_proto::{NodeId, Now};
use tokio::sync::Notify;

use crate::after::{After, Chore};

/// A stream: the peer at its other end, and its name.
pub(crate) type StreamId = (NodeId, Bytes);

/// The streams of a node.
#[derive(Default)]
pub(crate) struct Streams {
    /// Those that the application has a handle on, and what its reader waits for.
    held: BTreeMap<StreamId, Arc<Notify>>,
    /// Those of which a message can be taken, and that nobody has a handle on, in the order in which they came.
    waiting: VecDeque<StreamId>,
    /// Those whose reader wants nothing more, and why: what comes is rejected until they end.
    stopped: BTreeMap<StreamId, Box<str>>,
    /// A stream waits for a handle: wakes one task.
    pub(crate) accepted: Arc<Notify>,
}

impl Streams {
    /// A message of a stream can be taken.
    pub(crate) fn come(&mut self, core: &mut Core, now: Now, id: StreamId, after: &mut After) {
        if self.stopped.contains_key(&id) {
            return self.reject(core, now, id, after);
        }
        match self.held.get(&id) {
            Some(readable) => after.chores.push(Chore::Next(Arc::clone(readable))),
            None => self.wait(id, after),
        }
    }

    fn wait(&mut self, id: StreamId, after: &mut After) {
        if !self.waiting.contains(&id) {
            self.waiting.push_back(id);
            after.chores.push(Chore::Next(Arc::clone(&self.accepted)));
        }
    }

    /// Rejects what comes of a stream whose reader has stopped, until it ends.
    fn reject(&mut self, core: &mut Core, now: Now, id: StreamId, after: &mut After) {
        while let Some(reason) = self.stopped.get(&id)
            && let Some(said) = core.take_stream(now, &id.0, &id.1)
        {
            let verdict = Verdict::new(Word::Rejected, 0, reason);
            if matches!(said.gap, Gap::Opens | Gap::Breaks) {
                // It is another stream.
                core.release(now, said.message.key);
                self.stopped.remove(&id);
                return self.wait(id, after);
            }
            core.judge(now, said.message.key, verdict);
            if said.end != StreamEnd::Open {
                self.stopped.remove(&id);
            }
        }
    }

    /// Somebody takes a handle on a stream. None: somebody has one already.
    pub(crate) fn hold(&mut self, id: StreamId) -> Option<Arc<Notify>> {
        if self.held.contains_key(&id) {
            return None;
        }
        self.waiting.retain(|waiting| *waiting != id);
        let readable = Arc::new(Notify::new());
        self.held.insert(id, Arc::clone(&readable));
        Some(readable)
    }

    /// The next stream that nobody has a handle on.
    pub(crate) fn next(&mut self) -> Option<(StreamId, Arc<Notify>)> {
        let id = self.waiting.pop_front()?;
        let readable = self.hold(id.clone())?;
        Some((id, readable))
    }

    /// Whether more wait.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A handle is gone. What waits of the stream waits for another.
    pub(crate) fn leave(&mut self, core: &Core, id: StreamId, after: &mut After) {
        self.held.remove(&id);
        if core.waiting_streams(&id.0).contains(&id.1) {
            self.wait(id, after);
        }
    }

    /// The reader of a stream wants nothing more of it.
    pub(crate) fn stop(&mut self, core: &mut Core, now: Now, id: StreamId, reason: &str, after: &mut After) {
        self.stopped.insert(id.clone(), reason.into());
        self.reject(core, now, id, after);
    }

    /// Lets all that wait see that the node is ending.
    pub(crate) fn wake_all(&self, after: &mut After) {
        let readers = self.held.values().chain([&self.accepted]);
        after.chores.extend(readers.map(|notify| Chore::All(Arc::clone(notify))));
        // One that is about to wait finds this.
        after.chores.extend(self.held.values().map(|notify| Chore::Next(Arc::clone(notify))));
    }
}

/// The next message of a stream, as far as it is known whether more follow.
pub(crate) enum Taken {
    Message(Box<InStream>),
    Nothing,
    Closed,
}
