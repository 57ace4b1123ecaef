//! The sender: it binds, sends, settles and takes back messages.

use crate::config::Config;
use crate::datagram::{Datagram, Packet};
use crate::half::{Ask, Mark, Proof, Receiver, Sender, State};
use crate::id::{Incarnation, Slot, Stamp};
use crate::ledger::{Letter, Outcome};
use crate::mutant::{active, site};
use crate::node::{Node, Peer};
use crate::violation::{Checked, Kind, ensure};

use super::{Out, World, post_state, post_token};

impl World {
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

    pub(super) fn on_withdrawn(
        &mut self,
        (at, from): (usize, usize),
        (s, r): (Slot, Incarnation),
    ) -> Checked {
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

    pub(super) fn on_state(
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
        if state.live.as_ref().is_some_and(|claim| claim.closed && claim.up < claim.hi) {
            self.say_frontier((at, from), out);
        }
        self.pump(config, at, from, out)
    }

    /// A closed record claims nothing from a judged or withdrawn slot on until it has heard that the frontier has passed that slot.
    fn say_frontier(&self, (at, to): (usize, usize), out: &mut Out) {
        if let Some(sender) = &self.nodes[at].peers[to].sender {
            let l = sender.frontier();
            let datagram = Datagram::ask(Ask { s: l, n: 0, l, ts: Stamp::NONE });
            out.push(Packet { from: at, to, datagram });
        }
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

    pub(super) fn on_stamp_rejected(&mut self, (at, from): (usize, usize), ts: Stamp) -> Checked {
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

    pub(super) fn on_refused(&mut self, (at, from): (usize, usize), ts: Stamp) -> Checked {
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

    pub(super) fn on_verdict(
        &mut self,
        (at, from): (usize, usize),
        (s, r): (Slot, Incarnation),
        mark: Mark,
    ) -> Checked {
        let Some(sender) = &mut self.nodes[at].peers[from].sender else { return Ok(()) };
        let Some(letter) = sender.on_verdict(s, r) else { return Ok(()) };
        self.nodes[at].peers[from].withdrawing.retain(|other| *other != s);
        if !active(site::VERDICT_NOT_DURABLE) {
            self.journal_sending(at, from);
        }
        self.ledger.tell(letter, if mark == Mark::Done { Outcome::Delivered } else { Outcome::Rejected })
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
    pub(super) fn push_cuts(&self, config: &Config, at: usize, to: usize, out: &mut Out) {
        let whole = self.state(at, to);
        let Some(claim) = &whole.live else { return };
        for lo in claim.lo.0..claim.up.0 {
            for up in lo + 1..=claim.up.0 {
                let mut part = whole.clone();
                if let Some(claim) = &mut part.live {
                    claim.part = Slot(lo) > claim.lo;
                    (claim.lo, claim.up) = (Slot(lo), Slot(up));
                    claim.free.remove_below(lo);
                    claim.free.remove_range(up..u64::MAX);
                }
                post_state(config, (at, to), part, out);
            }
        }
    }
}
