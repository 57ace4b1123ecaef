//! The nodes, and what they do: the half-connection, called as its contract says.

use crate::config::{Config, Drop, Memory};
use crate::copy::calls::server::Replies;
use crate::datagram::{Claimed, Datagram, Packet};
use crate::half::{
    Answer, Ask, Bound, Clock, Far, Hull, Mark, Proof, Receiver, Sender, Stamps, State, Taken,
};
use crate::id::{Incarnation, Slot, Stamp};
use crate::ledger::{Fate, Ledger, Letter, Outcome};
use crate::mutant::{active, site};
use crate::node::{Node, Peer};
use crate::violation::{Checked, Kind, ensure};

/// All nodes, and the ledger. The network is apart: see [`crate::Space`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub(crate) nodes: Vec<Node>,
    pub(crate) ledger: Ledger,
    pub(crate) abandons: u8,
    pub(crate) cancels: u8,
    pub(crate) marks: u8,
    pub(crate) revokes: u8,
}

/// Where datagrams go.
pub(crate) type Out = Vec<Packet>;

impl World {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            nodes: (0..config.nodes).map(|at| Node::new(config, at)).collect(),
            ledger: Ledger::new(config),
            abandons: config.abandons,
            cancels: config.cancels,
            marks: config.marks,
            revokes: config.revokes,
        }
    }

    // --- the sender ---

    pub(crate) fn send(&mut self, config: &Config, at: usize, to: usize, out: &mut Out) -> Checked {
        let Some(letter) = self.ledger.send(config, at, to) else {
            return Ok(());
        };
        let Node { clock, peers, .. } = &mut self.nodes[at];
        peers[to].queue.push_back(letter);
        peers[to].sender.get_or_insert_with(|| Sender::open(clock));
        self.journal_sending(at, to);
        self.pump(config, at, to, out)
    }

    /// Sends the first messages early, if there are numbers for them. What the timers resend leaves now.
    pub(crate) fn open(&mut self, config: &Config, (at, to): (usize, usize), count: u8, ts: Stamp) {
        let before = self.ledger.clone();
        let letters: Vec<_> = (0..count).filter_map(|_| self.ledger.send(config, at, to)).collect();
        let Node { clock, peers, .. } = &mut self.nodes[at];
        let Peer { sender, caller, .. } = &mut peers[to];
        *sender = Sender::open_early(clock, ts, letters);
        for (s, letter) in sender.iter().flat_map(Sender::early).filter(|_| config.calls(at, to)) {
            caller.bound(s, *letter);
        }
        if sender.is_none() {
            self.ledger = before;
        } else if !active(site::EARLY_NOT_DURABLE) {
            self.journal_sending(at, to);
        }
    }

    pub(crate) fn cancel(&mut self, at: usize, to: usize) -> Checked {
        let Some(letter) = self.nodes[at].peers[to].queue.pop_back() else {
            return Ok(());
        };
        self.cancels = self.cancels.saturating_sub(1);
        self.journal_sending(at, to);
        self.ledger.tell(letter, Outcome::Cancelled)
    }

    /// *pump*: binds what can be bound. Only then may anything be asked.
    pub(crate) fn pump(&mut self, config: &Config, at: usize, to: usize, out: &mut Out) -> Checked {
        let peer = &mut self.nodes[at].peers[to];
        let Some(sender) = &mut peer.sender else {
            return Ok(());
        };
        let mut bound = false;
        while let Some(letter) = peer.queue.pop_front() {
            let Ok((s, r)) = sender.bind(letter) else {
                peer.queue.push_front(letter);
                break;
            };
            bound = true;
            if config.calls(at, to) && !active(site::PEND_AT_DELIVERY) {
                peer.caller.bound(s, letter);
            }
            let dead = peer.dead;
            ensure(r >= dead, Kind::Waste, || {
                format!("m{letter} is bound under {} of {} dead", r.0, dead.0)
            })?;
            post_token(config, (at, to), (s, r), (letter, self.ledger.answers(letter)), out);
        }
        if bound && !active(site::BIND_NOT_DURABLE) {
            self.journal_sending(at, to);
        }
        Ok(())
    }

    pub(crate) fn ask(&mut self, at: usize, to: usize, standby: u64, out: &mut Out) -> Checked {
        let Node { clock, peers, disk, .. } = &mut self.nodes[at];
        let queued = peers[to].queue.len() as u64;
        let Some(sender) = &mut peers[to].sender else {
            return Ok(());
        };
        if let Some(ask) = sender.ask(clock, queued, standby) {
            let end = ask.s.0 + ask.n;
            ensure(end <= *disk, Kind::Reserve, || format!("{end} is asked for, {disk} is durable"))?;
            out.push(Packet { from: at, to, datagram: Datagram::ask(ask) });
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, at: usize, to: usize, out: &mut Out) {
        let Node { clock, peers, .. } = &mut self.nodes[at];
        if !peers[to].queue.is_empty() && !active(site::CLOSE_WITH_QUEUE) {
            return;
        }
        if let Some(farewell) = Sender::close(&mut peers[to].sender, clock) {
            peers[to].dead = Incarnation(0);
            out.push(Packet { from: at, to, datagram: Datagram::ask(farewell) });
        }
    }

    pub(crate) fn abandon(&mut self, at: usize, to: usize, s: Slot) -> Checked {
        let Peer { sender, caller, withdrawing, .. } = &mut self.nodes[at].peers[to];
        let call = caller.get(s);
        let bound = sender.as_mut().and_then(|sender| sender.abandon(s));
        let Some(letter) = bound.or(call) else {
            return Ok(());
        };
        caller.ended(s);
        withdrawing.retain(|other| *other != s);
        self.abandons = self.abandons.saturating_sub(1);
        if !active(site::ABANDON_NOT_DURABLE) {
            self.journal_sending(at, to);
        }
        self.ledger.tell(letter, Outcome::LetGo)
    }

    /// The application withdraws a message that is bound: it has its outcome once that is certain.
    pub(crate) fn revoke(&mut self, at: usize, to: usize, s: Slot) {
        let withdrawing = &mut self.nodes[at].peers[to].withdrawing;
        withdrawing.push(s);
        withdrawing.sort_unstable();
        self.revokes = self.revokes.saturating_sub(1);
    }

    fn on_withdrawn(&mut self, (at, from): (usize, usize), (s, r): (Slot, Incarnation)) -> Checked {
        let Some(sender) = &mut self.nodes[at].peers[from].sender else { return Ok(()) };
        let mut withdrawn = Vec::new();
        sender.on_withdrawn(s.0..s.0 + 1, r, |s, letter| withdrawn.push((s, letter)));
        if !active(site::END_OF_WITHDRAWN_NOT_DURABLE) {
            self.journal_sending(at, from);
        }
        for (s, letter) in withdrawn {
            self.nodes[at].peers[from].withdrawing.retain(|other| *other != s);
            self.ledger.tell(letter, Outcome::Cancelled)?;
        }
        Ok(())
    }

    fn on_state(
        &mut self,
        config: &Config,
        (at, from): (usize, usize),
        state: &State,
        out: &mut Out,
    ) -> Checked {
        let Node { clock, peers, .. } = &mut self.nodes[at];
        let gone = peers[from].dead;
        let Some(sender) = &mut peers[from].sender else {
            if state.live.is_some() && !active(site::LIVE_STATE_UNANSWERED) {
                let farewell = Datagram::ask(Ask::farewell(clock));
                out.push(Packet { from: at, to: from, datagram: farewell });
            }
            return Ok(());
        };
        let (e, r, ts) = (sender.e(), sender.incarnation(), sender.stamp());
        let mut settled = Vec::new();
        let progress = sender.on_state(state, |s, r, letter, verdict| settled.push((s, r, letter, verdict)));
        let vain = progress.converted.iter().find(|(_, r)| *r < gone);
        ensure(vain.is_none(), Kind::Waste, || format!("{vain:?} was early, and {} is dead", gone.0))?;
        let says = state.taken.is_some_and(|taken| taken.ts == ts) && state.r >= gone;
        let met = |s| says && state.live.as_ref().is_some_and(|claim| claim.covers(s));
        let unbound = sender.early().find(|(s, _)| met(*s)).map(|(s, _)| s);
        ensure(unbound.is_none(), Kind::Waste, || format!("the early {unbound:?} has met {}", state.r.0))?;
        let thrown_away = sender.e() > e;
        // A live record with `r < b` outlives a frontier that another record has raised.
        let dead = state.live.as_ref().map_or(state.b, |claim| match claim.closed {
            true => Incarnation(state.r.0 + 1),
            false => state.b.min(state.r),
        });
        peers[from].dead = peers[from].dead.max(dead);
        let returned = |(.., verdict): &&(_, _, _, Proof)| *verdict == Proof::NotTaken;
        let returned: Vec<_> =
            settled.iter().filter(returned).map(|(s, _, letter, _)| (*s, *letter)).collect();
        self.take_back((at, from), returned)?;
        settled.retain(|(.., verdict)| *verdict != Proof::NotTaken);
        for (s, r, letter, verdict) in settled {
            self.nodes[at].peers[from].withdrawing.retain(|other| *other != s);
            let claimed =
                state.live.as_ref().is_some_and(|claim| claim.covers(s) && !claim.free.contains(s.0));
            ensure(r.is_some() || !claimed || verdict == Proof::Delivered, Kind::Unknown, || {
                format!("m{letter} is {verdict:?}, and this STATE says that {} was used", s.0)
            })?;
            self.settle(config, (at, from), (s, r, ts), letter, verdict)?;
        }
        if !active(site::OUTCOME_NOT_DURABLE) {
            self.journal_sending(at, from);
        }
        let record = self.nodes[from].peers[at].record.as_ref().filter(|record| !record.is_closed());
        let live = record.map(Receiver::incarnation);
        ensure(!thrown_away || r.is_none() || live != r, Kind::Waste, || {
            format!("envelopes from {} of {r:?}, which lives", e.0)
        })?;
        self.pump(config, at, from, out)
    }

    fn settle(
        &mut self,
        config: &Config,
        (at, from): (usize, usize),
        (s, r, ts): (Slot, Option<Incarnation>, Stamp),
        letter: Letter,
        verdict: Proof,
    ) -> Checked {
        let outcome = match verdict {
            Proof::Delivered => Outcome::Delivered,
            Proof::Unknown => Outcome::Unknown,
            Proof::NotTaken => return Ok(()),
        };
        let receiver = &self.nodes[from];
        let early = || receiver.has_forgotten_early(at, s, ts);
        let forgotten = r.map_or_else(early, |r| receiver.has_forgotten(at, r));
        ensure(outcome != Outcome::Unknown || forgotten, Kind::Unknown, || {
            format!("m{letter} at {} under {r:?} or {ts:?} is Unknown, and nobody forgot", s.0)
        })?;
        if config.calls(at, from) {
            return self.call_settled((at, from), s, letter, outcome);
        }
        self.ledger.tell(letter, outcome)?;
        if config.replies(at, from) {
            self.reply_settled(config, (at, from), letter, outcome)
        } else {
            Ok(())
        }
    }

    /// What a closed record has not taken goes back to the head of the queue, and may be cancelled again.
    fn take_back(&mut self, (at, from): (usize, usize), mut returned: Vec<(Slot, Letter)>) -> Checked {
        let peer = &mut self.nodes[at].peers[from];
        returned.sort_unstable();
        for (s, letter) in returned.into_iter().rev() {
            peer.caller.ended(s);
            let withdrawn = peer.withdrawing.iter().position(|other| *other == s);
            match withdrawn.map(|place| peer.withdrawing.remove(place)) {
                Some(_) => self.ledger.tell(letter, Outcome::Cancelled)?,
                None => peer.queue.push_front(letter),
            }
            ensure(!self.ledger.is_delivered(letter), Kind::F, || {
                format!("m{letter} at {} counts as not taken, which is not so", s.0)
            })?;
        }
        Ok(())
    }

    fn on_stamp_rejected(&mut self, (at, from): (usize, usize), ts: Stamp) -> Checked {
        let Some(sender) = &mut self.nodes[at].peers[from].sender else { return Ok(()) };
        let (before, mut refused) = (sender.stamp(), Vec::new());
        sender.on_stamp_rejected(ts, |s, letter| refused.push((s, letter)));
        ensure(refused.is_empty() || before == ts, Kind::Unknown, || format!("{before:?} is not {ts:?}"))?;
        if !active(site::OUTCOME_NOT_DURABLE) {
            self.journal_sending(at, from);
        }
        for (s, letter) in refused {
            self.nodes[at].peers[from].caller.ended(s);
            self.ledger.tell(letter, Outcome::LetGo)?;
        }
        Ok(())
    }

    fn on_refused(&mut self, (at, from): (usize, usize), ts: Stamp) -> Checked {
        let Some(sender) = &mut self.nodes[at].peers[from].sender else { return Ok(()) };
        let mut refused = Vec::new();
        sender.on_refused(ts, |s, letter| refused.push((s, letter)));
        self.journal_sending(at, from);
        for (s, letter) in refused {
            self.nodes[at].peers[from].caller.ended(s);
            self.ledger.tell(letter, Outcome::Cancelled)?;
        }
        Ok(())
    }

    // --- the receiver ---

    /// An opening is refused: policy does not let its sender in, now.
    pub(crate) fn refuse(&mut self, at: usize, from: usize, ts: Stamp, out: &mut Out) {
        let Node { clock, peers, .. } = &mut self.nodes[at];
        if Receiver::refuse(&mut peers[from].bound, clock, ts) {
            out.push(Packet { from: at, to: from, datagram: Datagram::Refused(ts.0) });
        }
        self.write_stamps(at);
    }

    fn on_ask(
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

    fn on_token(
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

    /// What the application has judged is said again and again, until the sender has passed it.
    pub(crate) fn push_verdicts(&self, at: usize, to: usize, out: &mut Out) {
        let Some(record) = &self.nodes[at].peers[to].record else { return };
        let r = record.incarnation().0;
        out.extend(record.marks().iter().map(|(s, mark)| {
            let datagram = Datagram::Verdict { s: s.0, r, mark: *mark };
            Packet { from: at, to, datagram }
        }));
    }

    /// The sender withdraws a message: it is told so, or what became of the message.
    fn on_revoke(
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

    /// What was withdrawn is said again and again, until the sender has passed it.
    pub(crate) fn push_withdrawn(&self, at: usize, to: usize, out: &mut Out) {
        let Some(record) = self.nodes[at].peers[to].record.as_ref() else { return };
        let r = record.incarnation().0;
        let slots = record.withdrawn().iter().flatten().filter(|_| !active(site::WITHDRAWAL_UNTOLD));
        out.extend(slots.map(|s| Packet { from: at, to, datagram: Datagram::Withdrawn { s, r } }));
    }

    fn on_verdict(&mut self, (at, from): (usize, usize), (s, r): (Slot, Incarnation), mark: Mark) -> Checked {
        let Some(sender) = &mut self.nodes[at].peers[from].sender else { return Ok(()) };
        let Some(letter) = sender.on_verdict(s, r) else { return Ok(()) };
        self.nodes[at].peers[from].withdrawing.retain(|other| *other != s);
        if !active(site::VERDICT_NOT_DURABLE) {
            self.journal_sending(at, from);
        }
        self.ledger.tell(letter, if mark == Mark::Done { Outcome::Delivered } else { Outcome::Rejected })
    }

    /// A message that was sent early gets the name of the incarnation that it has met, and waits for the application
    /// as long as it likes: it is in the network from then on as the token that it has become.
    fn on_early(
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

    fn state(&self, at: usize, to: usize) -> State {
        let Node { clock, peers, .. } = &self.nodes[at];
        // It may speak of any stamp, and does of the only one that counts.
        let ts = self.nodes[to].peers[at].sender.as_ref().map_or(Stamp::NONE, Sender::stamp);
        State::of(peers[to].record.as_ref(), &peers[to].bound, clock, ts)
    }

    /// Whether the policy lets the record go.
    pub(crate) fn may_drop(&self, config: &Config, at: usize, from: usize) -> bool {
        self.nodes[at].peers[from].record.as_ref().is_some_and(|record| match config.drop {
            Drop::Drained => record.is_drained() || active(site::DROP_UNDRAINED),
            Drop::Passed => record.is_passed(),
        })
    }

    /// A journaled node writes this down before a STATE says that there is no record: what it recovers may grow again.
    pub(crate) fn drop_record(&mut self, at: usize, from: usize) {
        self.nodes[at].peers[from].forget_record();
        if !active(site::DROP_NOT_DURABLE) {
            self.journal_receiving(at, from);
        }
    }

    pub(crate) fn evict(&mut self, at: usize, from: usize) {
        let node = &mut self.nodes[at];
        let Some(record) = node.peers[from].record.take() else {
            return;
        };
        node.evictions = node.evictions.saturating_sub(1);
        node.b = node.b.max(record.incarnation().0 + 1);
        node.peers[from].lose(record.taken());
        record.evict(&mut node.peers[from].bound, &mut node.clock);
        node.peers[from].forget_record();
        if let Some(journal) = &mut node.journal {
            journal.peers[from].record = None;
            // There is no `A` in a journal.
            self.fold(at, from);
        }
        self.write_frontiers(at);
        self.write_stamps(at);
    }

    /// What lost records took early of a sender has no place: the hull has it.
    pub(crate) fn fold(&mut self, at: usize, from: usize) {
        let node = &mut self.nodes[at];
        if let Some(Taken { ts, .. }) = node.peers[from].bound.taken() {
            node.forgot = node.forgot.join(Hull { above: Stamp(ts.0 - 1), upto: ts });
        }
        node.clock.stamps_mut().fold(&mut node.peers[from].bound);
        // All notes are written anew.
        node.peers[from].noted = node.peers[from].record.as_ref().and_then(Receiver::taken);
    }

    /// The node ends in good order, as far as this record is concerned.
    pub(crate) fn end_record(&mut self, at: usize, from: usize) {
        let node = &mut self.nodes[at];
        node.ends = node.ends.saturating_sub(1);
        node.peers[from].parts.clear();
        node.peers[from].record.iter_mut().for_each(Receiver::close);
        if !active(site::CLOSE_NOT_DURABLE) {
            self.journal_receiving(at, from);
        }
    }

    /// `b` and the hull are on the disk before what they speak of is forgotten.
    fn write_frontiers(&mut self, at: usize) {
        let Node { clock, journal, .. } = &mut self.nodes[at];
        if let Some(journal) = journal {
            if !active(site::FRONTIER_NOT_DURABLE) {
                journal.b = clock.b();
            }
            if !active(site::STAMP_FRONTIER_NOT_DURABLE) {
                journal.hull = clock.stamps().hull();
            }
        }
    }

    // --- stamps ---

    /// `latest` rises. A stray that it has caught up with need not be kept apart any more.
    pub(crate) fn raise(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let latest = Stamp(node.clock.stamps().latest().0 + 1);
        node.clock.stamps_mut().persisted(latest);
        if !active(site::LATEST_NOT_DURABLE) {
            node.latest = latest.0;
        }
        for peer in &mut node.peers {
            if peer.far.take_if(|far| far.hi.0 <= node.latest).is_some() {
                node.clock.stamps_mut().catch_up(&mut peer.bound);
            }
        }
    }

    pub(crate) fn unlearn(&mut self, at: usize, from: usize) {
        let Node { clock, peers, .. } = &mut self.nodes[at];
        clock.stamps_mut().forget(&mut peers[from].bound);
        self.write_stamps(at);
    }

    /// A sender with a stamp ahead of `latest` is let in, to go the slow way.
    pub(crate) fn let_astray(&mut self, at: usize, from: usize, ts: Stamp) {
        self.nodes[at].peers[from].bound.refuse(Far::one(ts));
        self.write_stamps(at);
    }

    /// A stray's stamps are on the disk before anything depends on it.
    fn write_stamps(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        for peer in node.peers.iter_mut().filter(|_| !active(site::STRAY_NOT_DURABLE)) {
            if let Some(far) = peer.bound.far().filter(|far| far.hi.0 > node.latest) {
                peer.far = Some(far);
            }
        }
    }

    /// A sender that is not of this world is forgotten, with its record or without.
    pub(crate) fn forget_outsider(&mut self, at: usize, evicted: bool) {
        let node = &mut self.nodes[at];
        let stamps = node.clock.stamps();
        if !evicted {
            let mut bound = Bound::up_to(Stamp(stamps.upper().0 + 1));
            node.clock.stamps_mut().forget(&mut bound);
            return;
        }
        let (mut record, mut bound) = (None, Bound::default());
        let ask = Ask { s: Slot(0), n: 1, l: Slot(0), ts: stamps.latest() };
        let _: Answer = Receiver::on_ask(&mut record, &mut bound, &mut node.clock, ask, 1);
        let Some(mut record) = record else { return };
        if let Some(r) = record.name(ask.s, ask.ts) {
            record.take(ask.s, r);
        }
        node.evictions = node.evictions.saturating_sub(1);
        node.born = record.incarnation().0 + 1;
        node.b = node.b.max(node.born);
        record.evict(&mut bound, &mut node.clock);
        if let Some(Taken { ts, .. }) = bound.taken() {
            node.forgot = node.forgot.join(Hull { above: Stamp(ts.0 - 1), upto: ts });
            node.clock.stamps_mut().fold(&mut bound);
        }
        self.write_frontiers(at);
    }

    // --- anything that arrives ---

    pub(crate) fn hear(&mut self, config: &Config, packet: &Packet, grant: u64, out: &mut Out) -> Checked {
        let pair = (packet.to, packet.from);
        match &packet.datagram {
            Datagram::Ask { s, n, l, ts } => {
                let ask = Ask { s: Slot(*s), n: *n, l: Slot(*l), ts: Stamp(*ts) };
                self.on_ask(config, pair, ask, grant, out)
            }
            Datagram::Token { s, r, letter, part, answers } => {
                let named = (Slot(*s), Incarnation(*r));
                self.on_token(config, pair, named, (*letter, *part, *answers), out)
            }
            Datagram::Early { s, ts, letter } => {
                self.on_early(config, pair, (Slot(*s), Stamp(*ts)), *letter, out);
                Ok(())
            }
            Datagram::State(Claimed(state)) => self.on_state(config, pair, state, out),
            Datagram::StampRejected(_) if active(site::REJECTION_UNHEARD) => Ok(()),
            Datagram::StampRejected(ts) => self.on_stamp_rejected(pair, Stamp(*ts)),
            Datagram::Refused(ts) => self.on_refused(pair, Stamp(*ts)),
            Datagram::Verdict { s, r, mark } => self.on_verdict(pair, (Slot(*s), Incarnation(*r)), *mark),
            Datagram::Revoke { s, r } => {
                self.on_revoke(config, pair, (Slot(*s), Incarnation(*r)), out);
                Ok(())
            }
            Datagram::Withdrawn { s, r } => self.on_withdrawn(pair, (Slot(*s), Incarnation(*r))),
            call => self.hear_of_call(pair, call, out),
        }
    }

    /// Everything that a timer could send at this moment.
    pub(crate) fn standing(&self, config: &Config, out: &mut Out) {
        for (at, node) in self.nodes.iter().enumerate() {
            for (to, peer) in node.peers.iter().enumerate().filter(|(to, _)| *to != at) {
                if let Some(sender) = &peer.sender {
                    let ask = sender.repeat().map(Datagram::ask);
                    out.extend(ask.map(|datagram| Packet { from: at, to, datagram }));
                    self.resend(config, at, to, out);
                }
                if peer.record.is_some() {
                    self.push_state(config, at, to, out);
                    self.push_verdicts(at, to, out);
                    self.push_withdrawn(at, to, out);
                }
                self.push_calls(at, to, out);
                if config.cuts {
                    self.push_cuts(config, at, to, out);
                }
            }
        }
    }

    /// Every token again, under the incarnation that it was bound under. A REVOKE stands for one that is withdrawn.
    pub(crate) fn resend(&self, config: &Config, at: usize, to: usize, out: &mut Out) {
        let Some(sender) = &self.nodes[at].peers[to].sender else {
            return;
        };
        for (s, r, letter) in sender.tokens() {
            if self.nodes[at].peers[to].withdrawing.contains(&s) {
                let datagram = Datagram::Revoke { s: s.0, r: r.0 };
                out.push(Packet { from: at, to, datagram });
                continue;
            }
            let newest = sender.incarnation().filter(|_| active(site::RESEND_UNDER_NEW_RECORD));
            let body = (*letter, self.ledger.answers(*letter));
            post_token(config, (at, to), (s, newest.unwrap_or(r)), body, out);
        }
        out.extend(sender.early().map(|(s, letter)| {
            let datagram = Datagram::early(s, sender.stamp(), *letter);
            Packet { from: at, to, datagram }
        }));
    }

    /// Every STATE that claims less than all.
    fn push_cuts(&self, config: &Config, at: usize, to: usize, out: &mut Out) {
        let whole = self.state(at, to);
        let Some(claim) = &whole.live else { return };
        for lo in claim.lo.0..claim.up.0 {
            for up in lo + 1..=claim.up.0 {
                let mut part = whole.clone();
                if let Some(claim) = &mut part.live {
                    (claim.lo, claim.up) = (Slot(lo), Slot(up));
                    claim.free.remove_below(lo);
                    claim.free.remove_range(up..u64::MAX);
                }
                post_state(config, (at, to), part, out);
            }
        }
    }

    // --- disk and crash ---

    /// The next block of `D` becomes durable.
    pub(crate) fn reserve(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if let Some(durable) = node.clock.wanted() {
            if !active(site::NUMBERS_NOT_DURABLE) {
                node.disk = durable;
            }
            node.clock.persisted(durable);
        }
    }

    pub(crate) fn sync(&mut self, at: usize) {
        for peer in 0..self.nodes.len() {
            self.journal_sending(at, peer);
            self.journal_receiving(at, peer);
        }
    }

    fn journal_sending(&mut self, at: usize, to: usize) {
        let Node { journal, peers, .. } = &mut self.nodes[at];
        if let Some(journal) = journal {
            journal.peers[to].sending(&peers[to]);
        }
    }

    fn journal_receiving(&mut self, at: usize, from: usize) {
        let Node { journal, peers, .. } = &mut self.nodes[at];
        if let Some(journal) = journal {
            journal.peers[from].receiving(&peers[from]);
        }
    }

    /// `wrote`: the next block of `D` was on the disk already.
    pub(crate) fn crash(&mut self, config: &Config, at: usize, wrote: bool) -> Checked {
        let node = &mut self.nodes[at];
        node.crashes = node.crashes.saturating_sub(1);
        if let Some(durable) = node.clock.wanted().filter(|_| wrote) {
            node.disk = durable;
        }
        match config.memory {
            Memory::Volatile | Memory::Notes => self.boot(config, at),
            Memory::Journal => {
                self.recover(config, at);
                Ok(())
            }
        }
    }

    fn boot(&mut self, config: &Config, at: usize) -> Checked {
        let node = &mut self.nodes[at];
        let latest = Stamp(node.latest);
        let kept = config.memory == Memory::Notes;
        node.clock = if kept {
            Clock::restart(node.disk, latest, node.clock.stamps().hull(), config.block())
        } else {
            node.forgot = Hull::up_to(latest);
            Clock::boot(node.disk, latest, config.block())
        };
        node.b = node.disk;
        node.replies = Replies::default();
        for peer in &mut node.peers {
            peer.lose(peer.record.as_ref().and_then(Receiver::taken).filter(|_| kept));
            let lost = std::mem::take(&mut peer.lost);
            *peer = Peer { lost, ..Peer::found(peer.far, peer.noted.filter(|_| kept)) };
        }
        for (letter, ..) in config.letters().filter(|(_, from, _)| *from == at) {
            if self.ledger.fate(letter) == Fate::Open {
                self.ledger.tell(letter, Outcome::LetGo)?;
            }
        }
        config.letters().filter(|(.., to)| *to == at).for_each(|(letter, ..)| self.ledger.lose(letter));
        Ok(())
    }

    fn recover(&mut self, config: &Config, at: usize) {
        let node = &mut self.nodes[at];
        let Some(journal) = &node.journal else { return };
        let stamps = Stamps::recover(Stamp(node.latest), journal.hull);
        let clock = Clock::recover(node.disk, journal.b, stamps, config.block());
        for (peer, written) in node.peers.iter_mut().zip(&journal.peers) {
            *peer = Peer { lost: std::mem::take(&mut peer.lost), ..Peer::found(peer.far, None) };
            peer.queue.clone_from(&written.queue);
            let (ts, early) = &written.early;
            if !written.queue.is_empty() || !written.tokens.is_empty() || !early.is_empty() {
                let ts = if active(site::RECOVER_RESTAMPED) { Stamp(ts.0 + 1) } else { *ts };
                let (tokens, early) = (written.tokens.iter().copied(), early.iter().copied());
                peer.sender = Some(Sender::recover(&clock, tokens, ts, early));
            }
            let record = written.record.clone();
            let judged = (written.marks.clone(), written.withdrawn.clone());
            peer.record = record.map(|(r, hi, l, free, ets, taken, closed)| {
                Receiver::recover(r, hi, l, free, (ets, taken), closed, judged)
            });
        }
        node.clock = clock;
        for (letter, _, to) in config.letters().filter(|(_, from, _)| *from == at) {
            if journal.peers[to].holds(letter) {
                self.ledger.reopen(letter);
            }
        }
        if node.crashes == 0 {
            node.journal = None;
        }
    }
}

impl Node {
    /// Whether a stamp is ahead of everything that may be accepted from a sender.
    pub(crate) fn is_ahead(&self, from: usize, ts: u64) -> bool {
        let stamps = self.clock.stamps();
        Stamp(ts) > stamps.latest() && stamps.is_new(&self.peers[from].bound, Stamp(ts))
    }
}

impl Peer {
    /// All that is left after a crash, but for the journal.
    fn found(far: Option<Far>, noted: Option<Taken>) -> Self {
        Self { bound: Bound::found(far, noted), far, noted, ..Self::default() }
    }

    fn lose(&mut self, taken: Option<Taken>) {
        self.lost.extend(taken.filter(|taken| !self.lost.contains(taken)));
    }

    /// Everything soft belongs to one incarnation.
    fn forget_record(&mut self) {
        self.record = None;
        self.parts.clear();
        self.heard = Default::default();
    }
}

fn post_state(config: &Config, (from, to): (usize, usize), state: State, out: &mut Out) {
    let silent = config.silent.then(|| State { taken: None, ..state.clone() });
    let all = std::iter::once(state).chain(silent);
    out.extend(all.map(|state| Packet { from, to, datagram: Datagram::State(Claimed(state)) }));
}

fn post_token(
    config: &Config,
    (at, to): (usize, usize),
    (s, r): (Slot, Incarnation),
    (letter, answers): (Letter, Option<u64>),
    out: &mut Out,
) {
    out.extend((0..config.parts).map(|part| {
        let datagram = Datagram::Token { s: s.0, r: r.0, letter, part, answers };
        Packet { from: at, to, datagram }
    }));
}
