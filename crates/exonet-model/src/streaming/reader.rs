//! The reader: it grants slots, and withdraws, hands out and takes messages.

use super::Scene;
use super::ledger::{Checked, Ledger};
use super::world::{BLOCK, Bound as Token, name, reserve};
use crate::half::{Answer, Ask, Bound, Clock, Gap, Mark, Readers, Receiver, State, Voids, may_follow};
use crate::id::Stamp;
use crate::mutant::{active, site};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reader {
    clock: Clock,
    disk: u64,
    pub(super) record: Option<Receiver>,
    bound: Bound,
    readers: Readers,
    /// The message that the application has, by its index among the tokens.
    pub(super) handed: Option<u8>,
}

impl Reader {
    pub(super) fn new() -> Self {
        let mut disk = 0;
        let mut clock = Clock::boot(disk, Stamp::NONE, BLOCK);
        reserve(&mut clock, &mut disk);
        let (bound, readers) = (Bound::default(), Readers::default());
        Self { clock, disk, record: None, bound, readers, handed: None }
    }

    pub(super) fn on_ask(&mut self, scene: &Scene, ask: Ask) {
        let before = self.record.as_ref().map(Receiver::incarnation);
        let grant = scene.slots.saturating_sub(self.record.as_ref().map_or(0, Receiver::free));
        let _: Answer = Receiver::on_ask(&mut self.record, &mut self.bound, &mut self.clock, ask, grant);
        self.record.take_if(|record| record.is_passed());
        if before != self.record.as_ref().map(Receiver::incarnation) {
            self.readers.forget_ended();
            self.handed = None;
        }
        self.readers.pass(ask.l);
        reserve(&mut self.clock, &mut self.disk);
    }

    pub(super) fn state(&self) -> State {
        State::of(self.record.as_ref(), &self.bound, &self.clock, Stamp::NONE)
    }

    /// The gap that the application is told of before this message. None: the message must wait.
    pub(super) fn turn_of(&self, scene: &Scene, token: &Token) -> Option<Gap> {
        let record = self.record.as_ref().filter(|record| record.accepts(token.s, token.r))?;
        let name = name(scene.script[usize::from(token.m)].stream);
        let gap = self.readers.gap(&name, token.s, token.mark)?;
        let follows = may_follow(Some(record), &self.readers.voids, &name, token.s, token.mark);
        Some(gap).filter(|_| follows && self.handed.is_none())
    }

    /// The application has heard that the stream breaks before the message, and gives the message back.
    pub(super) fn break_off(&mut self, scene: &Scene, token: &Token) {
        let name = name(scene.script[usize::from(token.m)].stream);
        self.readers.break_off(&name, token.s);
    }

    /// The application takes the message, acknowledges it, or rejects it.
    pub(super) fn take(
        &mut self,
        scene: &Scene,
        ledger: &mut Ledger,
        token: &mut Token,
        mark: Option<Mark>,
    ) -> Checked {
        let Some(record) = self.record.as_mut() else { return Ok(()) };
        let taken = match mark {
            None => record.take(token.s, token.r),
            Some(mark) => record.mark(token.s, token.r, mark),
        };
        if !taken {
            let gone = record.incarnation() == token.r && record.withdrawn().contains(token.s.0);
            return if gone { Err("withdrawn from under the application") } else { Ok(()) };
        }
        token.verdict = mark.or(token.verdict);
        if mark.is_none() || !active(site::JUDGED_STANDS_STILL) {
            let name = name(scene.script[usize::from(token.m)].stream);
            self.readers.take(&name, token.s, token.mark);
        }
        ledger.take(token.m, mark == Some(Mark::Rejected))
    }

    pub(super) fn on_revoke(
        &mut self,
        scene: &Scene,
        ledger: &mut Ledger,
        at: u8,
        token: &mut Token,
    ) -> Checked {
        let Some(record) = self.record.as_mut() else { return Ok(()) };
        let here = self.handed == Some(at) && !active(site::HANDED_OUT_WITHDRAWN);
        let run = token.s.0..token.s.0 + 1;
        let gone = if here { Vec::new() } else { record.withdraw(run, token.r) };
        if !gone.is_empty() {
            if !active(site::VOID_IS_NOT_KEPT) {
                let name = name(scene.script[usize::from(token.m)].stream);
                self.readers.voids.insert(&name, token.s, 1, token.mark);
            }
            ledger.withdraw(token.m)?;
        }
        token.withdrawn |= record.incarnation() == token.r && record.withdrawn().contains(token.s.0);
        Ok(())
    }

    /// The record is evicted for want of memory.
    pub(super) fn evict(&mut self, ledger: &mut Ledger) {
        if let Some(record) = self.record.take() {
            ledger.doubt = true;
            record.evict(&mut self.bound, &mut self.clock);
            self.readers.forget_ended();
            self.handed = None;
        }
    }

    /// The node ends, or declines a message: it takes nothing more under this record.
    pub(super) fn close(&mut self) {
        if let Some(record) = self.record.as_mut() {
            record.close();
            self.handed = None;
        }
    }

    /// The process dies. The next process knows what the journal holds, if the node keeps one.
    pub(super) fn crash(&mut self, scene: &Scene, ledger: &mut Ledger) {
        let disk = self.disk;
        let before = std::mem::replace(self, Self { disk, ..Self::new() });
        self.clock = Clock::boot(disk, Stamp::NONE, BLOCK);
        if scene.journals[1] {
            self.recover(&before);
        } else {
            ledger.reader_dies();
        }
        reserve(&mut self.clock, &mut self.disk);
    }

    fn recover(&mut self, before: &Self) {
        let (b, stamps) = (before.clock.b(), *before.clock.stamps());
        self.clock = Clock::recover(self.disk, b, stamps, BLOCK);
        self.record = before.record.as_ref().map(|record| {
            let (hi, l, free) = record.parts();
            let marks =
                if active(site::MARK_UNWRITTEN) { Default::default() } else { record.marks().clone() };
            let withdrawn = record.withdrawn().clone();
            let withdrawn = if active(site::WITHDRAWAL_UNWRITTEN) { Default::default() } else { withdrawn };
            let stamps = (record.stamp(), record.taken());
            let (r, closed) = (record.incarnation(), record.is_closed());
            Receiver::recover(r, hi, l, free.clone(), stamps, closed, (marks, withdrawn))
        });
        if !active(site::READER_UNWRITTEN) {
            self.readers.clone_from(&before.readers);
        }
        if active(site::VOID_UNWRITTEN) {
            self.readers.voids = Voids::default();
        } else {
            self.readers.voids.clone_from(&before.readers.voids);
        }
    }
}
