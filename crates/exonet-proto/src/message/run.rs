//! Messages of consecutive slots that came one behind the other: they wait together, and are taken together.

use core::ops::Range;

use bytes::{Buf, Bytes, BytesMut};

use super::arrived::{ARRIVED, Arrived, ArrivedBody, Front};
use super::lane::Lane;
use super::{Incoming, IncomingBody};
use crate::id::{MessageId, NodeId, Slot};
use crate::message::{DeliveryKey, Priority};
use crate::wire::Traceparent;
use crate::wire::{self, ALIKE_HEAD, Entries, Head, Role, StreamMark};

/// What messages that wait together have in common, if they have more than a body and a priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Common {
    pub(crate) tag: Bytes,
    pub(crate) priority: Priority,
    /// The sender wants to be told that they were processed.
    pub(crate) confirm: bool,
    /// The place of the first message in its stream; the places of the others follow from it.
    pub(crate) mark: Option<StreamMark>,
}

impl Common {
    /// For messages of which the first has this head and this role. None: a message of this role, or with a trace, is kept by
    /// itself.
    pub(crate) fn of(head: &Head<'_>, role: Role) -> Option<Self> {
        let mark = match role {
            Role::Plain => None,
            Role::Stream(mark) => Some(mark),
            Role::Call | Role::Reply { .. } => return None,
        };
        if Traceparent::of(head.extensions).is_some() {
            return None;
        }
        let (tag, priority) = (Bytes::copy_from_slice(head.tag), head.priority.into());
        Some(Self { tag, priority, confirm: head.confirm, mark })
    }

    pub(crate) fn lane(&self) -> Lane {
        if self.mark.is_some() { Lane::Stream(self.tag.clone()) } else { Lane::Plain }
    }

    /// What the `n`th message and those behind it have in common.
    pub(crate) fn from(&self, n: usize) -> Self {
        Self { mark: self.mark_of(n), ..self.clone() }
    }

    fn mark_of(&self, n: usize) -> Option<StreamMark> {
        self.mark.and_then(|mark| mark.nth(n as u64))
    }

    fn role_of(&self, n: usize) -> Role {
        self.mark_of(n).map_or(Role::Plain, Role::Stream)
    }

    /// The first `n` messages are gone.
    fn advance(&mut self, n: usize) {
        self.mark = self.mark_of(n);
    }

    /// Whether the `n`th message and those behind it continue with `next`.
    fn goes_on(&self, n: usize, next: &Self) -> bool {
        self.mark_of(n) == next.mark
            && (&self.tag, self.priority, self.confirm) == (&next.tag, next.priority, next.confirm)
    }
}

/// Where the body of a message begins whose head is shared: the head stands there, or the message says that it is alike.
fn body_at(message: &[u8]) -> usize {
    if message.first() == ALIKE_HEAD.first() {
        return ALIKE_HEAD.len();
    }
    // The head was read when the message came.
    Head::parse(message).map_or(message.len(), |(_, at)| at)
}

/// Whole messages of one sender under one incarnation: plain ones, or messages that have everything but their bodies in common.
#[derive(Debug)]
pub(crate) struct Run {
    /// The sender's place.
    pub(crate) peer: u32,
    /// The id of the first message.
    id: MessageId,
    left: usize,
    /// The bytes of the remaining messages in wire form, without their lengths.
    bytes: u64,
    /// The remaining messages, each behind its length. Their heads are well-formed.
    entries: BytesMut,
    /// None: each head is plain and complete.
    common: Option<Box<Common>>,
}

impl Default for Run {
    fn default() -> Self {
        let id = MessageId { sender: NodeId([0; 32]), r: Default::default(), s: Default::default() };
        Self { peer: 0, id, left: 0, bytes: 0, entries: BytesMut::new(), common: None }
    }
}

impl Run {
    /// The messages of `entries`, `bytes` in wire form. The first has the name `id`. `copy` stores them.
    pub(crate) fn new(
        peer: u32,
        id: MessageId,
        entries: Entries<'_>,
        bytes: u64,
        copy: impl FnOnce(&[u8]) -> BytesMut,
    ) -> Self {
        Self { peer, id, left: entries.len(), bytes, entries: copy(entries.as_bytes()), common: None }
    }

    /// The same messages, which have `common` in common.
    pub(crate) fn with(self, common: Common) -> Self {
        Self { common: Some(Box::new(common)), ..self }
    }

    /// One message of `len` bytes, behind its length.
    pub(crate) const fn one(peer: u32, id: MessageId, len: u64, entry: BytesMut) -> Self {
        Self { peer, id, left: 1, bytes: len, entries: entry, common: None }
    }

    /// Takes in `next` if it continues this run, both by slots and in memory. Otherwise gives it back.
    pub(crate) fn join(&mut self, next: Self) -> Option<Self> {
        let MessageId { sender, r, s } = next.id;
        let same = (self.peer, self.id.sender, self.id.r) == (next.peer, sender, r);
        let behind = self.entries.as_ptr_range().end == next.entries.as_ptr();
        let alike = match (&self.common, &next.common) {
            (None, None) => true,
            (Some(common), Some(next)) => common.goes_on(self.left, next),
            _ => false,
        };
        if !same || !behind || self.slots().end != s.0 || self.left == 0 || !alike {
            return Some(next);
        }
        self.left += next.left;
        self.bytes += next.bytes;
        self.entries.unsplit(next.entries);
        None
    }

    pub(crate) const fn len(&self) -> usize {
        self.left
    }

    pub(crate) const fn id(&self) -> MessageId {
        self.id
    }

    /// The bytes of all messages in wire form.
    pub(crate) const fn wire_len(&self) -> u64 {
        self.bytes
    }

    /// Bytes of memory.
    pub(crate) const fn held(&self) -> u64 {
        self.bytes + self.left as u64 * ARRIVED
    }

    pub(crate) fn slots(&self) -> Range<u64> {
        self.id.s.0..self.id.s.0 + self.left as u64
    }

    pub(crate) fn front(&self, most: usize) -> Front {
        let s = self.id.s.0;
        let slots = s..s + self.left.min(most) as u64;
        Front { peer: self.peer, sender: self.id.sender, r: self.id.r, slots, whole: true }
    }

    /// Whether the sender wants to be told that they were processed, and so wants the outcome of each.
    pub(crate) fn confirms(&self) -> bool {
        self.common.as_ref().is_some_and(|common| common.confirm)
    }

    /// The stream that they belong to, and the place of the first.
    pub(crate) fn stream(&self) -> Option<(&Bytes, StreamMark)> {
        let common = self.common.as_ref()?;
        Some((&common.tag, common.mark?))
    }

    /// Takes the first message out.
    pub(crate) fn pop(&mut self) -> Option<Arrived> {
        let (id, message) = self.next()?;
        let role = self.common.as_ref().map_or(Role::Plain, |common| common.role_of(0));
        let confirm = self.confirms();
        let (tag, priority, trace, at) = self.head_of(&message)?;
        let (peer, wire_len) = (self.peer, message.len() as u64);
        let mut body = message;
        body.advance(at);
        let body = ArrivedBody::Whole(body);
        Some(Arrived { peer, id, tag, priority, confirm, trace, role, body, wire_len })
    }

    /// Takes the first `most` messages out.
    pub(crate) fn split_to(&mut self, most: usize) -> Option<Self> {
        let (id, before, mut end, mut bytes) = (self.id, self.left, 0, 0);
        let left = most.min(before);
        for _ in 0..left {
            let message = wire::split_entry(self.entries.get(end..)?)?;
            bytes += message.len() as u64;
            end += message.end;
        }
        self.id.s = Slot(id.s.0 + left as u64);
        self.left -= left;
        self.bytes -= bytes;
        let common = self.common.clone();
        if let Some(common) = &mut self.common {
            common.advance(left);
        }
        Some(Self { peer: self.peer, id, left, bytes, entries: self.entries.split_to(end), common })
    }

    /// The role of each message, in order.
    pub(crate) fn roles(&self) -> impl Iterator<Item = Role> {
        let role = |n| self.common.as_ref().map_or(Role::Plain, |common| common.role_of(n));
        (0..self.left).map(role)
    }

    /// Views of all messages where they lie.
    pub(crate) fn views(&self) -> impl Iterator<Item = View<'_>> {
        let (mut rest, MessageId { sender, r, s }) = (&*self.entries, self.id);
        (s.0..).take(self.left).map_while(move |s| {
            let at = wire::split_entry(rest)?;
            let (message, behind) = (rest.get(at.clone())?, rest.get(at.end..)?);
            rest = behind;
            let id = MessageId { sender, r, s: Slot(s) };
            if let Some(Common { tag, priority, .. }) = self.common.as_deref() {
                return Some(View { id, tag, priority: *priority, body: message.get(body_at(message)..) });
            }
            let (head, at) = Head::parse(message).ok()?;
            Some(View { id, tag: head.tag, priority: head.priority.into(), body: message.get(at..) })
        })
    }

    /// The head of the first message, which has been taken out: its tag, its priority, its trace, and its length.
    #[inline]
    fn head_of(&mut self, message: &Bytes) -> Option<(Bytes, Priority, Option<Box<Traceparent>>, usize)> {
        if let Some(common) = self.common.as_mut() {
            common.advance(1);
            return Some((common.tag.clone(), common.priority, None, body_at(message)));
        }
        let (head, at) = Head::parse(message).ok()?;
        let trace = if head.extensions.is_empty() { None } else { Traceparent::of(head.extensions) };
        Some((part(message, head.tag), Priority::from(head.priority), trace.map(Box::new), at))
    }

    /// Takes out the first message: its name and its wire form.
    #[inline]
    fn next(&mut self) -> Option<(MessageId, Bytes)> {
        self.left = self.left.checked_sub(1)?;
        let at = wire::split_entry(&self.entries)?;
        let id = self.id;
        self.id.s = Slot(id.s.0 + 1);
        self.bytes -= at.len() as u64;
        let mut message = if self.left == 0 {
            let mut last = std::mem::take(&mut self.entries);
            last.truncate(at.end);
            last.freeze()
        } else {
            self.entries.split_to(at.end).freeze()
        };
        message.advance(at.start);
        Some((id, message))
    }
}

/// `within`, which lies in `message`, without a copy.
fn part(message: &Bytes, within: &[u8]) -> Bytes {
    if within.is_empty() { Bytes::new() } else { message.slice_ref(within) }
}

/// Messages that were taken together, in the order of sending.
#[derive(Debug)]
pub struct IncomingRun(Content);

#[derive(Debug)]
enum Content {
    One(Option<Incoming>),
    Run(Run),
}

impl IncomingRun {
    pub(crate) const fn one(incoming: Incoming) -> Self {
        Self(Content::One(Some(incoming)))
    }

    pub(crate) const fn run(run: Run) -> Self {
        Self(Content::Run(run))
    }
}

/// A message of an [`IncomingRun`], viewed where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    /// The name of the message at both ends.
    pub id: MessageId,
    /// For dispatch.
    pub tag: &'a [u8],
    /// As the sender set it.
    pub priority: Priority,
    /// The content; None if it is streamed.
    pub body: Option<&'a [u8]>,
}

impl IncomingRun {
    /// The delivery of a remaining streamed message, which waits for [`crate::node::Node::done`] or
    /// [`crate::node::Node::release`]. Such a message has a run of its own.
    pub fn handed_out(&self) -> Option<DeliveryKey> {
        match &self.0 {
            Content::One(one) => one.as_ref().map(|one| one.key).filter(|key| *key != DeliveryKey::NONE),
            Content::Run(_) => None,
        }
    }

    /// Views of the remaining messages, which stay: nothing is counted or copied for each.
    pub fn views(&self) -> impl Iterator<Item = View<'_>> {
        let (one, run) = match &self.0 {
            Content::One(one) => (one.as_ref(), None),
            Content::Run(run) => (None, Some(run)),
        };
        let one = one.map(|Incoming { id, tag, priority, body, .. }| {
            let body = match body {
                IncomingBody::Whole(body) => Some(&**body),
                IncomingBody::Stream { .. } => None,
            };
            View { id: *id, tag, priority: *priority, body }
        });
        one.into_iter().chain(run.into_iter().flat_map(Run::views))
    }
}

impl Iterator for IncomingRun {
    type Item = Incoming;

    #[inline]
    fn next(&mut self) -> Option<Incoming> {
        match &mut self.0 {
            Content::One(one) => one.take(),
            Content::Run(run) => {
                let (id, mut message) = run.next()?;
                let (tag, priority, trace, at) = run.head_of(&message)?;
                message.advance(at);
                let body = IncomingBody::Whole(message);
                let key = DeliveryKey::NONE;
                Some(Incoming { key, id, call: None, tag, priority, attempt: 1, trace, body })
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Content::One(one) => usize::from(one.is_some()),
            Content::Run(run) => run.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for IncomingRun {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Incarnation;
    use crate::wire::{Bases, Frame, Frames, Writer};

    fn run(bodies: &[&str]) -> Run {
        let (mut room, bases) = ([0; 4_096], Bases::default());
        let mut writer = Writer::new(&mut room, bases);
        let mut frame = writer.messages(Incarnation(5), Slot(7)).unwrap();
        assert!(bodies.iter().all(|body| frame.push(&[2], body.as_bytes())));
        let frame = Frames::new(writer.written(), bases).next().unwrap().unwrap();
        let Frame::Messages(messages) = frame else { panic!("{frame:?}") };
        let id = MessageId { sender: NodeId([1; 32]), r: messages.r, s: Slot(messages.whole.slots().start) };
        let bytes = messages.whole.map(|(_, message)| message.len() as u64).sum();
        Run::new(9, id, messages.whole, bytes, |bytes: &[u8]| bytes.into())
    }

    #[test]
    fn runs_join_where_slots_and_memory_go_on() {
        let mut block = BytesMut::from(&b"\x02\x02a\x02\x02b\x02\x02c"[..]);
        let mut one = |s, r| {
            let id = MessageId { sender: NodeId([1; 32]), r: Incarnation(r), s: Slot(s) };
            Run::one(9, id, 2, block.split_to(3))
        };
        let (mut first, second, gap) = (one(7, 5), one(8, 5), one(10, 5));
        assert!(first.join(second).is_none());
        assert_eq!((first.slots(), first.wire_len()), (7..9, 4));
        let gap = first.join(gap).expect("a slot is missing");
        let next = |r| Run { id: MessageId { r: Incarnation(r), s: Slot(9), ..gap.id }, ..Run::default() };
        let elsewhere =
            Run { peer: 9, left: 1, bytes: 2, entries: BytesMut::from(&b"\x02\x02c"[..]), ..next(5) };
        assert!(first.join(elsewhere).is_some());
        let other = Run { peer: 9, left: 1, bytes: 2, entries: gap.entries.clone(), ..next(6) };
        assert!(first.join(other).is_some());
        let last = Run { peer: 9, left: 1, bytes: 2, id: next(5).id, entries: gap.entries, common: None };
        assert!(first.join(last).is_none());
        let bodies: Vec<_> = first.views().map(|view| view.body.unwrap().to_vec()).collect();
        assert_eq!((first.slots(), bodies), (7..10, vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]));
    }

    #[test]
    fn messages_leave_one_by_one_or_together_and_the_rest_stays() {
        let bodies = ["a", "", "ccc", "dddd", "e"];
        let mut all = run(&bodies);
        assert_eq!((all.len(), all.wire_len(), all.slots()), (5, 14, 7..12));
        let first = all.pop().unwrap();
        assert_eq!((first.id.s, first.wire_len, first.priority), (Slot(7), 2, Priority::Low));
        assert!(matches!(first.body, ArrivedBody::Whole(body) if body == "a"));
        let seen: Vec<_> = all.views().map(|view| (view.id.s.0, view.body.unwrap())).collect();
        assert_eq!(seen, [(8, &b""[..]), (9, b"ccc"), (10, b"dddd"), (11, b"e")], "where they lie");
        assert!(all.views().all(|view| view.priority == Priority::Low && view.tag.is_empty()));
        let two = all.split_to(2).unwrap();
        assert_eq!((two.slots(), two.wire_len(), two.held()), (8..10, 5, 5 + 2 * ARRIVED));
        assert_eq!((all.slots(), all.wire_len(), all.front(1).slots), (10..12, 7, 10..11));
        let both = IncomingRun::run(two).chain(IncomingRun::run(all));
        let got: Vec<_> = both.map(|incoming| (incoming.id.s.0, incoming.body)).collect();
        let whole = |body: &'static str| IncomingBody::Whole(Bytes::from_static(body.as_bytes()));
        assert_eq!(got, [(8, whole("")), (9, whole("ccc")), (10, whole("dddd")), (11, whole("e"))]);
    }
}
