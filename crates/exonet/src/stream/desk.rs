//! The engine's table of the handles on streams, and of the streams that wait for a handle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::node::{Gap, InStream, Node as Core, StreamEnd, Verdict, Word};
use exonet_proto::{MessageId, NodeId, Now};
use tokio::sync::Notify;

use super::stops::Stops;
use crate::after::{After, Chore};

/// A stream: the peer at its other end, and its name.
pub(crate) type StreamId = (NodeId, Bytes);

/// The first byte of the names of streams that carry sessions. No name of an application begins with it.
pub(crate) const SESSION: u8 = 0;

/// The length of the session's number, between that byte and the session's name.
const NUMBER: usize = 8;

/// Where a task waits to accept streams or sessions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entrance {
    /// Streams whose names have no listener.
    Streams,
    /// Streams of one name.
    Stream(Bytes),
    /// Sessions whose names have no listener.
    Sessions,
    /// Sessions of one name.
    Session(Bytes),
}

impl Entrance {
    /// The entrances of a stream: if its name has a listener, and if it has none.
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
    /// The streams on which the application has a handle, each with the notification for which its reader waits.
    held: BTreeMap<StreamId, Arc<Notify>>,
    /// How many of these carry sessions.
    sessions: usize,
    /// The streams without a handle. Doors for names without a listener are made when they are needed.
    doors: BTreeMap<Entrance, Door>,
    /// The streams whose readers have stopped. Until such a stream ends, its messages are rejected.
    stopped: Stops,
}

/// Streams that have a message to take, but no handle.
#[derive(Default)]
struct Door {
    /// The streams in order of arrival.
    waiting: VecDeque<StreamId>,
    /// The same streams, to look them up.
    known: BTreeSet<StreamId>,
    /// Wakes one of the tasks that accept.
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

    /// Removes this stream, for which a handle was made.
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
    /// Notes that a message of a stream can be taken.
    pub(crate) fn come(&mut self, core: &mut Core, now: Now, id: StreamId, after: &mut After) {
        if self.stopped.contains(&id) {
            return self.reject(core, now, id, after);
        }
        self.give(id, after);
    }

    /// Tells the reader of a stream that a message can be taken, or lets the stream wait for one.
    fn give(&mut self, id: StreamId, after: &mut After) {
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

    /// Lets the streams of this entrance wait for its listener from now on. Returns false if it already has one.
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

    /// Notes that a listener was dropped. The streams that wait for it now wait with those of all other names.
    pub(crate) fn unlisten(&mut self, entrance: &Entrance, after: &mut After) {
        let left = self.doors.remove(entrance);
        left.into_iter().flat_map(|door| door.waiting).for_each(|id| self.wait(id, after));
    }

    /// The notification for streams that wait at this entrance.
    pub(crate) fn accepted(&mut self, entrance: &Entrance) -> Arc<Notify> {
        Arc::clone(&self.doors.entry(entrance.clone()).or_default().accepted)
    }

    /// The number of sessions on which the application has a handle: with this peer, and with all peers.
    pub(crate) fn sessions(&self, peer: &NodeId) -> (usize, usize) {
        let from = (*peer, Bytes::from_static(&[SESSION]));
        let to = (*peer, Bytes::from_static(&[SESSION + 1]));
        (self.held.range(from..to).count(), self.sessions)
    }

    /// Rejects the messages of a stream whose reader has stopped, until the stream ends.
    fn reject(&mut self, core: &mut Core, now: Now, id: StreamId, after: &mut After) {
        while let Some(stopped) = self.stopped.get_mut(&id)
            && let Some(said) = core.take_stream(now, &id.0, &id.1)
        {
            let verdict = Verdict::new(Word::Rejected, 0, &stopped.reason);
            let last = stopped.last.replace(said.message.id).filter(|last| *last != said.message.id);
            if last.is_some() && matches!(said.gap, Gap::Opens | Gap::Breaks) {
                // The message belongs to another stream of the same name.
                if said.gap == Gap::Breaks {
                    core.break_stream(&id.0, &id.1, said.message.id);
                }
                core.release(now, said.message.key);
                self.stopped.remove(&id);
                return self.give(id, after);
            }
            core.judge(now, said.message.key, verdict);
            if said.end != StreamEnd::Open {
                self.stopped.remove(&id);
            }
        }
    }

    /// Makes a handle on a stream. None: there is already one.
    pub(crate) fn hold(&mut self, id: StreamId) -> Option<Arc<Notify>> {
        if self.held.contains_key(&id) {
            return None;
        }
        // The reader that has stopped had got no message, so nothing tells its stream from the next one of this name.
        if self.stopped.get_mut(&id).is_some_and(|stopped| stopped.last.is_none()) {
            self.stopped.remove(&id);
        }
        self.door_of(&id.1).leave(&id);
        let readable = Arc::new(Notify::new());
        self.sessions += usize::from(carries_session(&id));
        self.held.insert(id, Arc::clone(&readable));
        Some(readable)
    }

    /// Takes the next stream at an entrance.
    pub(crate) fn next(&mut self, entrance: &Entrance, after: &mut After) -> Option<(StreamId, Arc<Notify>)> {
        let door = self.doors.get_mut(entrance)?;
        let id = door.next()?;
        if !door.waiting.is_empty() {
            door.wake_one(after);
        }
        let readable = self.hold(id.clone())?;
        Some((id, readable))
    }

    /// Notes that a handle was dropped. If messages of its stream wait, the stream waits for another handle.
    pub(crate) fn leave(&mut self, core: &Core, id: StreamId, after: &mut After) {
        if self.held.remove(&id).is_some() {
            self.sessions -= usize::from(carries_session(&id));
        }
        if !self.stopped.contains(&id) && core.waiting_streams(&id.0).contains(&id.1) {
            self.wait(id, after);
        }
    }

    /// Notes that the reader of a stream has stopped, with a reason. `last` is the last message that the reader got.
    pub(crate) fn stop(
        &mut self,
        core: &mut Core,
        now: Now,
        id: StreamId,
        (reason, last): (&str, Option<MessageId>),
        after: &mut After,
    ) {
        self.stopped.add(id.clone(), reason, last);
        self.reject(core, now, id, after);
    }

    /// Wakes all tasks that wait, so that they notice that the node is ending.
    pub(crate) fn wake_all(&self, after: &mut After) {
        let doors = self.doors.values().map(|door| &door.accepted);
        let readers = self.held.values().chain(doors);
        after.chores.extend(readers.map(|notify| Chore::All(Arc::clone(notify))));
        // This is for a task that is just about to wait.
        after.chores.extend(self.held.values().map(|notify| Chore::Next(Arc::clone(notify))));
    }
}

fn carries_session(id: &StreamId) -> bool {
    id.1.first() == Some(&SESSION)
}

/// The next message of a stream, or the state of the stream if there is none.
pub(crate) enum Taken {
    Message(Box<InStream>),
    Nothing,
    Closed,
}
