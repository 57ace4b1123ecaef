//! The writer: it binds and withdraws messages, and learns their outcomes.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::ledger::{Fate, Ledger, Message};
use super::world::{BLOCK, Bound as Token, Wrong, name, reserve};
use super::{Line, Scene};
use crate::half::{Ask, Clock, KeptPlace, Proof, Returned, Sender, State, Writers};
use crate::id::{Slot, Stamp};
use crate::mutant::{active, site};
use crate::wire::{StreamEnd, StreamMark};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Writer {
    clock: Clock,
    disk: u64,
    pub(super) sender: Option<Sender<Message>>,
    writers: Writers,
    /// Messages that have come back, in their order.
    queue: Vec<Message>,
    /// The places that messages have kept when they came back.
    kept: BTreeMap<Message, KeptPlace>,
    /// The messages that the application has cancelled, as bits.
    revoked: u8,
    /// The next line of the script.
    next: Message,
    /// The sender record has bound something.
    has_bound: bool,
    /// The process continues where one before it ended, and does not know what that one had given up.
    recovered: bool,
}

impl Writer {
    pub(super) fn new() -> Self {
        let mut disk = 0;
        let mut clock = Clock::boot(disk, Stamp::NONE, BLOCK);
        reserve(&mut clock, &mut disk);
        let (writers, queue, kept) = (Writers::default(), Vec::new(), BTreeMap::new());
        Self {
            clock,
            disk,
            sender: None,
            writers,
            queue,
            kept,
            revoked: 0,
            next: 0,
            has_bound: false,
            recovered: false,
        }
    }

    fn left(&self, scene: &Scene) -> u64 {
        scene.script.len() as u64 - u64::from(self.next) + self.queue.len() as u64
    }

    /// The ASK that may leave now. If no message waits or is open, it is a farewell.
    pub(super) fn ask(&mut self, scene: &Scene) -> Ask {
        let queued = self.left(scene);
        if self.sender.is_none() && queued > 0 {
            self.sender = Some(Sender::open(&self.clock));
            self.has_bound = false;
        }
        let asked = self.sender.as_mut().and_then(|sender| sender.ask(&mut self.clock, queued, 0));
        reserve(&mut self.clock, &mut self.disk);
        // Even without a need for slots, an ASK may tell the reader that it can forget state.
        let l = self.sender.as_ref().map(Sender::frontier);
        let passes = l.map(|l| Ask { s: l, n: 0, l, ts: Stamp::NONE });
        asked.or(passes).unwrap_or_else(|| Ask::farewell(&self.clock))
    }

    /// Drops the record if no message is open or waits.
    pub(super) fn may_close(&self) -> bool {
        let idle = self.sender.as_ref().is_some_and(Sender::is_idle);
        idle && self.queue.is_empty() && self.has_bound
    }

    pub(super) fn close(&mut self) {
        let _: Option<Ask> = Sender::close(&mut self.sender, &mut self.clock);
    }

    /// The message of a stream that is bound next.
    pub(super) fn next_of(&self, scene: &Scene, stream: usize) -> Option<Message> {
        self.sender.as_ref().filter(|sender| sender.envelopes() > 0)?;
        let of_it = |m: &Message| scene.script[usize::from(*m)].stream == stream;
        let fresh = || Some(self.next).filter(|m| usize::from(*m) < scene.script.len() && of_it(m));
        self.queue.iter().copied().find(of_it).or_else(fresh)
    }

    pub(super) fn bind(&mut self, scene: &Scene, ledger: &mut Ledger, m: Message) -> Option<Token> {
        let (s, r) = self.sender.as_mut()?.bind(m).ok()?;
        if self.next == m {
            self.next += 1;
            ledger.send(m);
        }
        self.queue.retain(|other| *other != m);
        self.has_bound = true;
        let Line { stream, end } = scene.script[usize::from(m)];
        let kept = self.kept.get(&m).copied();
        let mark = self.writers.mark(&name(stream), s, kept, end, false);
        self.writers.bind(&name(stream), s, 1, mark, kept.is_some());
        Some(Token::new(s, r, m, mark))
    }

    /// Whether the application may withdraw the message, or cancel it after it came back.
    pub(super) fn may_cancel(&self, scene: &Scene, m: Message) -> bool {
        let ends = scene.script[usize::from(m)].end != StreamEnd::Open;
        (!ends || active(site::END_WITHDRAWN)) && self.revoked & bit(m) == 0 && self.holds(m)
    }

    fn holds(&self, m: Message) -> bool {
        self.queue.contains(&m) || self.slot_of(m).is_some()
    }

    pub(super) fn slot_of(&self, m: Message) -> Option<Slot> {
        let sender = self.sender.as_ref()?;
        sender.tokens().find(|(.., bound)| **bound == m).map(|(s, ..)| s)
    }

    /// Returns true if the message has left; then REVOKE_STREAM leaves.
    pub(super) fn cancel(&mut self, scene: &Scene, ledger: &mut Ledger, m: Message) -> Result<bool, Wrong> {
        let Some(s) = self.slot_of(m) else {
            self.queue.retain(|other| *other != m);
            ledger.counts_more |= self.kept.remove(&m).is_some();
            ledger.tell(m, Fate::Cancelled)?;
            return Ok(false);
        };
        if active(site::CANCELLED_AT_ONCE) {
            self.give_up(scene, ledger, m, s, Fate::Cancelled)?;
        } else {
            self.revoked |= bit(m);
        }
        Ok(true)
    }

    /// The writer ends the message without an answer of the reader.
    pub(super) fn give_up(
        &mut self,
        scene: &Scene,
        ledger: &mut Ledger,
        m: Message,
        s: Slot,
        fate: Fate,
    ) -> Result<(), Wrong> {
        ledger.doubt |= fate == Fate::Unknown;
        if fate == Fate::Unknown {
            self.writers.give_up(&name_of(scene, m), s);
        }
        self.sender.as_mut().and_then(|sender| sender.abandon(s));
        self.end(scene, ledger, m, s, fate)
    }

    fn end(
        &mut self,
        scene: &Scene,
        ledger: &mut Ledger,
        m: Message,
        s: Slot,
        fate: Fate,
    ) -> Result<(), Wrong> {
        self.revoked &= !bit(m);
        self.kept.remove(&m);
        self.writers.settle(&name_of(scene, m), s.0..s.0 + 1);
        ledger.tell(m, fate)
    }

    pub(super) fn on_withdrawn(
        &mut self,
        scene: &Scene,
        ledger: &mut Ledger,
        token: &Token,
    ) -> Result<(), Wrong> {
        let Some(sender) = self.sender.as_mut() else { return Ok(()) };
        let mut ended = Vec::new();
        sender.on_withdrawn(token.s.0..token.s.0 + 1, token.r, |s, m| ended.push((s, m)));
        ended.into_iter().try_for_each(|(s, m)| self.end(scene, ledger, m, s, Fate::Cancelled))
    }

    pub(super) fn on_verdict(
        &mut self,
        scene: &Scene,
        ledger: &mut Ledger,
        token: &Token,
        fate: Fate,
    ) -> Result<(), Wrong> {
        let Some(sender) = self.sender.as_mut() else { return Ok(()) };
        match sender.on_verdict(token.s, token.r) {
            Some(m) => self.end(scene, ledger, m, token.s, fate),
            None => Ok(()),
        }
    }

    pub(super) fn on_state(
        &mut self,
        scene: &Scene,
        ledger: &mut Ledger,
        tokens: &[Token],
        state: &State,
    ) -> Result<(), Wrong> {
        let Some(sender) = self.sender.as_mut() else { return Ok(()) };
        let mut settled = Vec::new();
        sender.on_state(state, |s, r, m, proof| settled.push((s, r, m, proof)));
        let mut back: Vec<&Token> = Vec::new();
        for (s, r, m, proof) in settled {
            match proof {
                Proof::Delivered => self.end(scene, ledger, m, s, Fate::Delivered)?,
                Proof::Unknown => self.end(scene, ledger, m, s, Fate::Unknown)?,
                Proof::NotTaken => {
                    back.extend(tokens.iter().find(|token| token.s == s && Some(token.r) == r));
                }
            }
        }
        // The last first.
        back.sort_by_key(|token| token.s);
        if active(site::FIRST_BACK_FIRST) {
            back.reverse();
        }
        while let Some(token) = back.pop() {
            self.take_back(scene, ledger, token)?;
        }
        Ok(())
    }

    fn take_back(&mut self, scene: &Scene, ledger: &mut Ledger, token: &Token) -> Result<(), Wrong> {
        let m = token.m;
        let withdrawn = self.revoked & bit(m) != 0;
        self.revoked &= !bit(m);
        let why = match (withdrawn, self.kept.remove(&m)) {
            (true, _) => Returned::Withdrawn,
            (false, Some(_)) => Returned::Kept,
            (false, None) => Returned::Again,
        };
        let before = self.writers.begun_of(&name_of(scene, m));
        let kept = self.writers.give_back(&name_of(scene, m), token.s, token.mark, why);
        self.kept.extend(kept.map(|kept| (m, kept)));
        // A place that is not used again counts as missing.
        let burnt = withdrawn && before == self.writers.begun_of(&name_of(scene, m));
        ledger.counts_more |= burnt && (self.recovered || self.has_behind(ledger, m));
        if withdrawn {
            return ledger.tell(m, Fate::Cancelled);
        }
        self.queue.push(m);
        if !active(site::BACK_BEHIND) {
            self.queue.sort_unstable();
        }
        Ok(())
    }

    /// Whether a message of its name behind this one is open or has ended.
    fn has_behind(&self, ledger: &Ledger, m: Message) -> bool {
        ledger.behind(m).any(|other| self.slot_of(other).is_some() || ledger.fate(other) > Fate::Open)
    }

    /// The process dies. The next process knows what the journal holds, if the node keeps one.
    pub(super) fn crash(&mut self, scene: &Scene, ledger: &mut Ledger, tokens: &mut [Token]) {
        let kept = scene.journals[0];
        if !kept {
            ledger.writer_dies();
        }
        let Self { disk, next, .. } = *self;
        let before = std::mem::replace(self, Self { disk, next, ..Self::new() });
        self.clock = Clock::boot(disk, Stamp::NONE, BLOCK);
        if kept {
            self.recover(scene, &before, tokens);
        }
        reserve(&mut self.clock, &mut self.disk);
    }

    fn recover(&mut self, scene: &Scene, before: &Self, tokens: &mut [Token]) {
        let (b, stamps) = (before.clock.b(), *before.clock.stamps());
        self.clock = Clock::recover(self.disk, b, stamps, BLOCK);
        self.recovered = true;
        self.queue.clone_from(&before.queue);
        self.kept.clone_from(&before.kept);
        if !active(site::WRITER_UNWRITTEN) {
            for (name, o, n) in before.writers.begun() {
                self.writers.recover(name.clone(), o, n);
            }
        }
        let open: Vec<_> =
            before.sender.iter().flat_map(Sender::tokens).map(|(s, r, m)| (s, r, *m)).collect();
        for (s, r, m) in &open {
            if !active(site::RECOVERED_IS_NOT_LINKED_TO) {
                self.writers.reopen(&name_of(scene, *m), *s);
            }
            if active(site::PLACE_UNWRITTEN)
                && let Some(token) = tokens.iter_mut().find(|token| (token.s, token.r) == (*s, *r))
            {
                let StreamMark { end, .. } = token.mark;
                token.mark = StreamMark { end, ..StreamMark::OPEN };
            }
        }
        if !open.is_empty() || !self.queue.is_empty() {
            self.sender = Some(Sender::recover(&self.clock, open, Stamp::NONE, []));
            self.has_bound = true;
        }
    }
}

const fn bit(m: Message) -> u8 {
    1 << m
}

fn name_of(scene: &Scene, m: Message) -> Bytes {
    name(scene.script[usize::from(m)].stream)
}
