//! Who reads which stream: the engine's table of handles, and the streams that wait for one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::node::{Gap, InStream, Node as Core, StreamEnd, Verdict, Word};
use exonet_proto::{MessageId, NodeId, Now};
use tokio::sync::Notify;

use crate::after::{After, Chore};

/// A stream: the peer at its other end, and its name.
pub(crate) type StreamId = (NodeId, Bytes);

/// What the names of streams begin with that carry sessions: an application's own do not.
pub(crate) const SESSION: u8 = 0;

/// Bytes between that and the name of the session: its number.
const NUMBER: usize = 8;

/// Whom a stream is for: what a task waits at that accepts streams.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entrance {
    /// Streams of names that have no listener.
    Streams,
    /// Streams of one name.
    Stream(Bytes),
    /// Sessions of names that have no listener.
    Sessions,
    /// Sessions of one name.
    Session(Bytes),
}

impl Entrance {
    /// The one of this stream, if its name has a listener, and the one if it has none.
    fn of(name: &Bytes) -> (Self, Self) {
        match name.split_first() {
            Some((&SESSION, _)) => {
                let session = if name.len() > NUMBER { name.slice(1 + NUMBER..) } else { Bytes::new() };
                (Self::Session(session), Self::Sessions)
            }
            _ => (Self::Stream(name.clone()), Self::Streams),
        }
    }
}

/// The streams of a node.
#[derive(Default)]
pub(crate) struct Streams {
    /// Those that the application has a handle on, and what its reader waits for.
    held: BTreeMap<StreamId, Arc<Notify>>,
    /// How many of these carry sessions.
    sessions: usize,
    /// Those that nobody has a handle on. The entrances for what has no listener are made when they are needed.
    doors: BTreeMap<Entrance, Door>,
    /// Those whose reader wants nothing more: what comes is rejected until they end.
    stopped: BTreeMap<StreamId, Stopped>,
}

/// A stream whose reader wants nothing more.
struct Stopped {
    /// Why.
    reason: Box<str>,
    /// What was handed out last of it: a message behind that which opens a stream of this name is of another one.
    last: Option<MessageId>,
}

/// Streams of which a message can be taken, and that nobody has a handle on.
#[derive(Default)]
struct Door {
    /// In the order in which they came.
    waiting: VecDeque<StreamId>,
    /// The same, to be found.
    known: BTreeSet<StreamId>,
    /// Wakes one task of those that accept.
    accepted: Arc<Notify>,
}

impl Door {
    fn wait(&mut self, id: StreamId, after: &mut After) {
        if self.known.insert(id.clone()) {
            self.waiting.push_back(id);
            self.wake_one(after);
        }
    }

    fn next(&mut self) -> Option<StreamId> {
        let id = self.waiting.pop_front()?;
        self.known.remove(&id);
        Some(id)
    }

    /// Somebody has come for this one.
    fn leave(&mut self, id: &StreamId) {
        if self.known.remove(id) {
            self.waiting.retain(|waiting| waiting != id);
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
        let (listened, open) = Entrance::of(name);
        let entrance = if self.doors.contains_key(&listened) { listened } else { open };
        self.doors.entry(entrance).or_default()
    }

    /// What is for this entrance waits for its listener from now on. False: it has one.
    pub(crate) fn listen(&mut self, entrance: &Entrance) -> bool {
        if self.doors.contains_key(entrance) {
            return false;
        }
        let waiting: Vec<_> = self.doors.values().flat_map(|door| &door.waiting).cloned().collect();
        let mut listened = Door::default();
        for id in waiting.into_iter().filter(|id| Entrance::of(&id.1).0 == *entrance) {
            self.doors.values_mut().for_each(|door| door.leave(&id));
            listened.known.insert(id.clone());
            listened.waiting.push_back(id);
        }
        self.doors.insert(entrance.clone(), listened);
        true
    }

    /// A listener is gone. What waits for it waits with all other names.
    pub(crate) fn unlisten(&mut self, entrance: &Entrance, after: &mut After) {
        let left = self.doors.remove(entrance);
        left.into_iter().flat_map(|door| door.waiting).for_each(|id| self.wait(id, after));
    }

    /// What is told when a stream waits at this entrance.
    pub(crate) fn accepted(&mut self, entrance: &Entrance) -> Arc<Notify> {
        Arc::clone(&self.doors.entry(entrance.clone()).or_default().accepted)
    }

    /// How many sessions the application has a handle on: with this peer, and with all.
    pub(crate) fn sessions(&self, peer: &NodeId) -> (usize, usize) {
        let from = (*peer, Bytes::from_static(&[SESSION]));
        let to = (*peer, Bytes::from_static(&[SESSION + 1]));
        (self.held.range(from..to).count(), self.sessions)
    }

    /// Rejects what comes of a stream whose reader has stopped, until it ends.
    fn reject(&mut self, core: &mut Core, now: Now, id: StreamId, after: &mut After) {
        while let Some(stopped) = self.stopped.get_mut(&id)
            && let Some(said) = core.take_stream(now, &id.0, &id.1)
        {
            let verdict = Verdict::new(Word::Rejected, 0, &stopped.reason);
            let last = stopped.last.replace(said.message.id).filter(|last| *last != said.message.id);
            if last.is_some() && matches!(said.gap, Gap::Opens | Gap::Breaks) {
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
        self.door_of(&id.1).leave(&id);
        let readable = Arc::new(Notify::new());
        self.sessions += usize::from(carries_session(&id));
        self.held.insert(id, Arc::clone(&readable));
        Some(readable)
    }

    /// The next stream at an entrance.
    pub(crate) fn next(&mut self, entrance: &Entrance, after: &mut After) -> Option<(StreamId, Arc<Notify>)> {
        let door = self.doors.get_mut(entrance)?;
        let id = door.next()?;
        if !door.waiting.is_empty() {
            door.wake_one(after);
        }
        let readable = self.hold(id.clone())?;
        Some((id, readable))
    }

    /// A handle is gone. What waits of the stream waits for another.
    pub(crate) fn leave(&mut self, core: &Core, id: StreamId, after: &mut After) {
        if self.held.remove(&id).is_some() {
            self.sessions -= usize::from(carries_session(&id));
        }
        if core.waiting_streams(&id.0).contains(&id.1) {
            self.wait(id, after);
        }
    }

    /// The reader of a stream wants nothing more of it, for a reason; with what it has had last.
    pub(crate) fn stop(
        &mut self,
        core: &mut Core,
        now: Now,
        id: StreamId,
        (reason, last): (&str, Option<MessageId>),
        after: &mut After,
    ) {
        self.stopped.insert(id.clone(), Stopped { reason: reason.into(), last });
        self.reject(core, now, id, after);
    }

    /// Lets all that wait see that the node is ending.
    pub(crate) fn wake_all(&self, after: &mut After) {
        let doors = self.doors.values().map(|door| &door.accepted);
        let readers = self.held.values().chain(doors);
        after.chores.extend(readers.map(|notify| Chore::All(Arc::clone(notify))));
        // One that is about to wait finds this.
        after.chores.extend(self.held.values().map(|notify| Chore::Next(Arc::clone(notify))));
    }
}

fn carries_session(id: &StreamId) -> bool {
    id.1.first() == Some(&SESSION)
}

/// The next message of a stream, as far as it is known whether more follow.
pub(crate) enum Taken {
    Message(Box<InStream>),
    Nothing,
    Closed,
}
