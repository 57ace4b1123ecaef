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
    /// Of the names that have no listener.
    door: Door,
    /// Of each name that has a listener.
    doors: BTreeMap<Bytes, Door>,
    /// Those whose reader wants nothing more, and why: what comes is rejected until they end.
    stopped: BTreeMap<StreamId, Box<str>>,
}

/// Streams of which a message can be taken, and that nobody has a handle on.
#[derive(Default)]
struct Door {
    /// In the order in which they came.
    waiting: VecDeque<StreamId>,
    /// Wakes one task of those that accept.
    accepted: Arc<Notify>,
}

impl Door {
    fn wait(&mut self, id: StreamId, after: &mut After) {
        if !self.waiting.contains(&id) {
            self.waiting.push_back(id);
            self.wake_one(after);
        }
    }

    fn wake_one(&self, after: &mut After) {
        after.chores.push(Chore::Next(Arc::clone(&self.accepted)));
    }
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
        self.door_of(&id.1).wait(id, after);
    }

    fn door_of(&mut self, name: &Bytes) -> &mut Door {
        self.doors.get_mut(name).unwrap_or(&mut self.door)
    }

    /// The streams of this name wait for its listener from now on. False: the name has one.
    pub(crate) fn listen(&mut self, name: &Bytes) -> bool {
        if self.doors.contains_key(name) {
            return false;
        }
        let (named, others) = self.door.waiting.drain(..).partition(|id| id.1 == *name);
        self.door.waiting = others;
        self.doors.insert(name.clone(), Door { waiting: named, ..Door::default() });
        true
    }

    /// A listener is gone. What waits for it waits with all other names.
    pub(crate) fn unlisten(&mut self, name: &Bytes, after: &mut After) {
        let left = self.doors.remove(name);
        left.into_iter().flat_map(|door| door.waiting).for_each(|id| self.door.wait(id, after));
    }

    /// Where a task waits that accepts streams of the name of a listener, or those that have none.
    fn listened(&mut self, listener: Option<&Bytes>) -> Option<&mut Door> {
        match listener {
            None => Some(&mut self.door),
            Some(name) => self.doors.get_mut(name),
        }
    }

    /// What is told when a stream waits.
    pub(crate) fn accepted(&mut self, listener: Option<&Bytes>) -> Arc<Notify> {
        self.listened(listener).map(|door| Arc::clone(&door.accepted)).unwrap_or_default()
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
        self.door_of(&id.1).waiting.retain(|waiting| *waiting != id);
        let readable = Arc::new(Notify::new());
        self.held.insert(id, Arc::clone(&readable));
        Some(readable)
    }

    /// The next stream that nobody has a handle on, of the name of a listener or of those that have none.
    pub(crate) fn next(
        &mut self,
        listener: Option<&Bytes>,
        after: &mut After,
    ) -> Option<(StreamId, Arc<Notify>)> {
        let door = self.listened(listener)?;
        let id = door.waiting.pop_front()?;
        if !door.waiting.is_empty() {
            door.wake_one(after);
        }
        let readable = self.hold(id.clone())?;
        Some((id, readable))
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
        let doors = self.doors.values().chain([&self.door]).map(|door| &door.accepted);
        let readers = self.held.values().chain(doors);
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
