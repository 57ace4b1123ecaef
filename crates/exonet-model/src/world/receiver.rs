//! The receiver: it grants slots, and takes and judges messages.

use crate::config::{Config, Memory};
use crate::datagram::{Datagram, Packet};
use crate::half::{Answer, Ask, Bound, Clock, Mark, Receiver, Sender, State};
use crate::id::{Incarnation, Slot, Stamp};
use crate::ledger::Letter;
use crate::mutant::{active, site};
use crate::node::Node;
use crate::violation::{Checked, Kind, ensure};

use super::{Out, World, post_state};

impl World {
    /// An opening is refused: policy does not let its sender in, now.
    pub(crate) fn refuse(&mut self, at: usize, from: usize, ts: Stamp, out: &mut Out) {
        let Node { clock, peers, .. } = &mut self.nodes[at];
        if Receiver::refuse(&mut peers[from].bound, clock, ts) {
            out.push(Packet { from: at, to: from, datagram: Datagram::Refused(ts.0) });
        }
        self.write_stamps(at);
    }

    pub(super) fn on_ask(
        &mut self,
        config: &Config,
        (at, from): (usize, usize),
        ask: Ask,
        grant: u64,
        out: &mut Out,
    ) -> Checked {
        let mut answer = Answer::Nothing;
        self.advance(config, (at, from), ask.n > 0, grant, |record, bound, clock| {
            answer = Receiver::on_ask(record, bound, clock, ask, grant);
        })?;
        match answer {
            Answer::Nothing => {}
            Answer::State => self.push_state(config, at, from, out),
            Answer::StampRejected => {
                let Node { clock, peers, .. } = &self.nodes[at];
                let let_in = peers[from].bound.far().is_some_and(|far| far.lo <= ask.ts && ask.ts <= far.hi);
                let ahead = ask.ts > clock.stamps().latest() && !let_in;
                ensure(ahead, Kind::Unknown, || format!("{:?} is rejected, though not ahead", ask.ts))?;
                out.push(Packet { from: at, to: from, datagram: Datagram::StampRejected(ask.ts.0) });
            }
        }
        let granted = if answer == Answer::State { ask.n } else { 0 };
        self.note_heard(config, (at, from), Ask { n: granted, ..ask });
        Ok(())
    }

    /// The unmet ASK again, when room has appeared.
    pub(crate) fn retry(&mut self, config: &Config, at: usize, from: usize, out: &mut Out) -> Checked {
        let mut granted = false;
        self.advance(config, (at, from), true, u64::from(u8::MAX), |record, bound, clock| {
            granted = Receiver::retry(record, bound, clock, u64::from(u8::MAX));
        })?;
        if granted {
            self.push_state(config, at, from, out);
        }
        Ok(())
    }

    fn advance(
        &mut self,
        config: &Config,
        (at, from): (usize, usize),
        wanted: bool,
        grant: u64,
        go: impl FnOnce(&mut Option<Receiver>, &mut Bound, &mut Clock),
    ) -> Checked {
        let Node { clock, peers, disk, born, .. } = &mut self.nodes[at];
        let peer = &mut peers[from];
        let before = peer.record.as_ref().map(|record| (record.incarnation(), record.parts().0));
        let held = peer.record.as_ref().map_or(0, Receiver::free);
        go(&mut peer.record, &mut peer.bound, clock);
        if config.stamps == 0 {
            clock.stamps_mut().forget(&mut peer.bound);
        }
        let after = peer.record.as_ref().map(|record| (record.incarnation(), record.parts().0));
        let free = peer.record.as_ref().map_or(0, Receiver::free);
        ensure(free <= held + grant, Kind::Grant, || {
            format!("{free} slots after {held} and a grant of {grant}")
        })?;
        if before.map(|(r, _)| r) != after.map(|(r, _)| r) {
            peer.parts.clear();
            peer.heard = Default::default();
            if let Some((r, _)) = after {
                ensure(r.0 < *disk, Kind::Reserve, || format!("incarnation {}, {disk} is durable", r.0))?;
                ensure(r.0 >= *born, Kind::D, || format!("incarnation {} is handed out twice", r.0))?;
                *born = r.0 + 1;
            }
        }
        // Slots that were passed may be written down later: whoever passed them does not want them. So may a name: it
        // comes with the first slot that is granted under it, or names none.
        if after != before && (wanted || after.is_none()) && !active(site::GRANT_NOT_DURABLE) {
            self.journal_receiving(at, from);
        }
        self.write_stamps(at);
        Ok(())
    }

    /// What the record has to remember of the ASKs since it was made. A recovered record waits for nothing.
    fn note_heard(&mut self, config: &Config, (at, from): (usize, usize), ask: Ask) {
        let peer = &mut self.nodes[at].peers[from];
        if config.grants == crate::config::Grants::Any && peer.record.is_some() {
            let (end, l) = peer.heard;
            let wanted = if ask.n > 0 { Slot(ask.s.0 + ask.n) } else { Slot(0) };
            peer.heard = (end.max(wanted), l.max(ask.l));
        }
    }

    pub(super) fn on_token(
        &mut self,
        config: &Config,
        (at, from): (usize, usize),
        (s, r): (Slot, Incarnation),
        (letter, part, answers): (Letter, u8, Option<u64>),
        out: &mut Out,
    ) -> Checked {
        let peer = &mut self.nodes[at].peers[from];
        let mut complete = config.parts == 1;
        if let Some(record) = peer.record.as_ref().filter(|_| !complete) {
            let place = peer.parts.binary_search(&(s, part));
            if let Some(place) = place.err().filter(|_| record.accepts(s, r)) {
                peer.parts.insert(place, (s, part));
            }
            let whole = peer.parts.iter().filter(|(of, _)| *of == s).count() == usize::from(config.parts);
            complete = whole || active(site::INCOMPLETE_DELIVERED);
            peer.parts.retain(|(of, _)| *of != s || !whole);
            if complete && !whole {
                ensure(!record.accepts(s, r), Kind::F, || format!("m{letter} is delivered in part"))?;
            }
        }
        if complete && peer.record.as_mut().is_some_and(|record| record.take(s, r)) {
            self.note(config, at, from);
            self.ledger.deliver(letter)?;
            if config.calls(from, at) {
                self.serve((at, from), s, letter);
            }
            if let (Some(call), Some(of)) = (answers, config.answered_by(letter)) {
                self.replied((at, from), Slot(call), of)?;
            }
            if !active(site::DELIVERY_NOT_DURABLE) {
                self.journal_receiving(at, from);
            }
        } else if active(site::COPY_DRAWS_NEWEST) {
            self.answer_copy((at, from), s, out);
        }
        if !active(site::TOKEN_UNANSWERED) {
            self.push_state(config, at, from, out);
        }
        Ok(())
    }

    /// What a record took early is written before the application has it.
    fn note(&mut self, config: &Config, at: usize, from: usize) {
        let Node { peers, crashes, .. } = &mut self.nodes[at];
        let peer = &mut peers[from];
        let taken = peer.record.as_ref().and_then(Receiver::taken);
        if let Some(taken) = taken.filter(|_| config.memory == Memory::Notes && *crashes > 0)
            && !active(site::NOTES_NOT_WRITTEN)
        {
            peer.noted = Some(peer.noted.map_or(taken, |noted| noted.later(taken)));
        }
    }

    /// The application judges a message instead of taking it.
    pub(crate) fn mark(
        &mut self,
        config: &Config,
        (at, from): (usize, usize),
        (s, r): (Slot, Incarnation),
        letter: Letter,
        mark: Mark,
        out: &mut Out,
    ) -> Checked {
        let record = self.nodes[at].peers[from].record.as_mut();
        if record.is_some_and(|record| record.mark(s, r, mark)) {
            self.marks -= 1;
            self.note(config, at, from);
            match mark {
                Mark::Done => self.ledger.deliver(letter)?,
                Mark::Rejected => self.ledger.reject(letter)?,
            }
            if !active(site::MARK_NOT_DURABLE) {
                self.journal_receiving(at, from);
            }
        }
        self.push_verdicts(at, from, out);
        Ok(())
    }

    /// Repeats each VERDICT until the sender has passed the message.
    pub(crate) fn push_verdicts(&self, at: usize, to: usize, out: &mut Out) {
        let Some(record) = &self.nodes[at].peers[to].record else { return };
        let r = record.incarnation().0;
        out.extend(record.marks().iter().map(|(s, mark)| {
            let datagram = Datagram::Verdict { s: s.0, r, mark: *mark };
            Packet { from: at, to, datagram }
        }));
    }

    /// The sender withdraws a message: it is told so, or what became of the message.
    pub(super) fn on_revoke(
        &mut self,
        config: &Config,
        (at, from): (usize, usize),
        (s, r): (Slot, Incarnation),
        out: &mut Out,
    ) {
        let peer = &mut self.nodes[at].peers[from];
        let withdrawn = peer.record.as_mut().map(|record| record.withdraw(s.0..s.0 + 1, r));
        if withdrawn.is_some_and(|withdrawn| !withdrawn.is_empty()) {
            peer.parts.retain(|(of, _)| *of != s);
            if !active(site::WITHDRAWAL_NOT_DURABLE) {
                self.journal_receiving(at, from);
            }
        }
        self.push_withdrawn(at, from, out);
        self.push_state(config, at, from, out);
    }

    /// Repeats each WITHDRAWN until the sender has passed the message.
    pub(crate) fn push_withdrawn(&self, at: usize, to: usize, out: &mut Out) {
        let Some(record) = self.nodes[at].peers[to].record.as_ref() else { return };
        let r = record.incarnation().0;
        let slots = record.withdrawn().iter().flatten().filter(|_| !active(site::WITHDRAWAL_UNTOLD));
        out.extend(slots.map(|s| Packet { from: at, to, datagram: Datagram::Withdrawn { s, r } }));
    }

    /// A message that was sent early gets the name of the incarnation that it has met, and waits for the application
    /// as long as it likes: it is in the network from then on as the token that it has become.
    pub(super) fn on_early(
        &mut self,
        config: &Config,
        (at, from): (usize, usize),
        (s, ts): (Slot, Stamp),
        letter: Letter,
        out: &mut Out,
    ) {
        let record = self.nodes[at].peers[from].record.as_mut();
        if let Some(r) = record.and_then(|record| record.name(s, ts)) {
            out.push(Packet { from, to: at, datagram: Datagram::token(s, r, letter, 0) });
        }
        if !active(site::TOKEN_UNANSWERED) {
            self.push_state(config, at, from, out);
        }
    }

    pub(crate) fn push_state(&self, config: &Config, at: usize, to: usize, out: &mut Out) {
        post_state(config, (at, to), self.state(at, to), out);
    }

    pub(super) fn state(&self, at: usize, to: usize) -> State {
        let Node { clock, peers, .. } = &self.nodes[at];
        // It may speak of any stamp, and does of the only one that counts.
        let ts = self.nodes[to].peers[at].sender.as_ref().map_or(Stamp::NONE, Sender::stamp);
        State::of(peers[to].record.as_ref(), &peers[to].bound, clock, ts)
    }
}
