//! One state of everything.

use std::rc::Rc;

use bytes::Bytes;

use super::Scene;
use super::ledger::{Ledger, Message};
use super::reader::Reader;
use super::writer::Writer;
use crate::half::{Ask, Clock, Mark, State};
use crate::id::{Incarnation, Slot};
use crate::wire::StreamMark;

/// The promise that a step breaks.
pub(super) type Wrong = &'static str;

/// The numbers that a clock makes durable at once: more than a scene uses in one life.
pub(super) const BLOCK: u64 = 64;

/// How many times a copy of an ASK may arrive. Each arrival may make a record.
const ASK_COMES: u8 = 2;

/// A message under a slot that it was bound to, and the frames ever sent about it. Each may arrive, more than once too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bound {
    pub(super) s: Slot,
    pub(super) r: Incarnation,
    pub(super) m: Message,
    pub(super) mark: StreamMark,
    /// REVOKE_STREAM has left.
    pub(super) revoked: bool,
    /// WITHDRAWN has left.
    pub(super) withdrawn: bool,
    /// VERDICT has left.
    pub(super) verdict: Option<Mark>,
}

impl Bound {
    pub(super) const fn new(s: Slot, r: Incarnation, m: Message, mark: StreamMark) -> Self {
        Self { s, r, m, mark, revoked: false, withdrawn: false, verdict: None }
    }
}

/// A datagram that the network has kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Copy {
    /// How many times the datagram may still arrive.
    Ask(Ask, u8),
    State(State),
}

impl Copy {
    pub(super) const fn of_ask(ask: Ask) -> Self {
        Self::Ask(ask, ASK_COMES)
    }
}

/// The events that may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) crashes: [u8; 2],
    pub(super) evictions: u8,
    pub(super) ends: u8,
    pub(super) cancels: u8,
    pub(super) gives_up: u8,
    pub(super) marks: u8,
    pub(super) copies: u8,
}

/// A state. States share the parts in which they do not differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(super) writer: Rc<Writer>,
    pub(super) reader: Rc<Reader>,
    pub(super) tokens: Rc<Vec<Bound>>,
    pub(super) copies: Rc<Vec<Copy>>,
    pub(super) ledger: Rc<Ledger>,
    pub(super) left: Left,
    pub(super) wrong: Option<Wrong>,
}

impl World {
    pub(super) fn new(scene: &Scene) -> Self {
        let Scene { crashes, evictions, ends, cancels, gives_up, marks, copies, .. } = *scene;
        Self {
            writer: Rc::new(Writer::new()),
            reader: Rc::new(Reader::new()),
            tokens: Rc::default(),
            copies: Rc::default(),
            ledger: Rc::new(Ledger::new(scene)),
            left: Left { crashes, evictions, ends, cancels, gives_up, marks, copies },
            wrong: None,
        }
    }

    pub(super) const fn wrong(&self) -> Option<Wrong> {
        self.wrong
    }

    /// Each message has its outcome, and no record is left.
    pub(super) fn is_settled(&self) -> bool {
        self.ledger.are_all_settled() && self.writer.sender.is_none() && self.reader.record.is_none()
    }
}

/// The name of a stream.
pub(super) fn name(stream: usize) -> Bytes {
    Bytes::from_static(if stream == 0 { b"a" } else { b"b" })
}

/// The disk has the next block at once.
pub(super) fn reserve(clock: &mut Clock, disk: &mut u64) {
    if let Some(durable) = clock.wanted() {
        *disk = durable;
        clock.persisted(durable);
    }
}
