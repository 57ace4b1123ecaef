//! Calls (PROTOCOL.md "Calls"): the core's own `Caller` and `Server`, called as its node does.
//!
//! The time is always [`NOW`]. For a timer, the model asks a copy of the state what it would send [`LATER`]. A crash loses all
//! that the nodes hold.

use core::time::Duration;

use bytes::Bytes;

use crate::config::{Calls, Config, MAX_NUMBERS};
use crate::copy::calls::caller::Caller;
use crate::copy::calls::server::{Form, Server};
use crate::datagram::{Datagram, Packet, name};
use crate::half::Sender;
use crate::id::Slot;
use crate::ledger::{Fate, Letter, Outcome};
use crate::mutant::{active, site};
use crate::node::{Node, Peer};
use crate::time::Mono;
use crate::violation::{Checked, Kind, Violation, ensure};
use crate::world::{Out, World};

const NOW: Mono = Mono(0);
/// At this time every timer has expired, except that of a kept reply.
const LATER: Mono = Mono(1);
/// At this time that one has expired as well.
const OVER: Mono = Mono(2);

impl World {
    /// The calls that have left, and wait.
    pub(crate) fn calls(
        &self,
        config: &Config,
        at: usize,
        to: usize,
    ) -> impl Iterator<Item = (Slot, Letter)> + use<'_> {
        let numbers = if config.calls(at, to) { MAX_NUMBERS } else { 0 };
        let caller = &self.nodes[at].peers[to].caller;
        (0..numbers).map(Slot).filter_map(|s| Some((s, caller.get(s)?)))
    }

    // --- the caller ---

    /// A STATE has settled the message that is a call.
    pub(crate) fn call_settled(
        &mut self,
        (at, from): (usize, usize),
        s: Slot,
        letter: Letter,
        outcome: Outcome,
    ) -> Checked {
        let caller = &mut self.nodes[at].peers[from].caller;
        if outcome != Outcome::Delivered {
            caller.ended(s);
            return self.ledger.tell(letter, outcome);
        }
        if active(site::PEND_AT_DELIVERY) {
            caller.bound(s, letter);
        }
        caller.delivered(NOW, s, Duration::ZERO);
        let delivered = self.ledger.is_delivered(letter);
        ensure(delivered, Kind::F, || format!("call {} counts as delivered, which is not so", s.0))
    }

    /// A reply has come, as a frame or as a message.
    pub(crate) fn replied(&mut self, (at, from): (usize, usize), s: Slot, of: Letter) -> Checked {
        let Peer { caller, sender, .. } = &mut self.nodes[at].peers[from];
        let Some(letter) = caller.get(s) else { return Ok(()) };
        ensure(letter == of, Kind::Reply, || format!("call m{letter} gets the reply to m{of}"))?;
        caller.ended(s);
        sender.as_mut().and_then(|sender| sender.abandon(s));
        self.ledger.tell(letter, Outcome::Replied)
    }

    fn on_reply(&mut self, (at, from): (usize, usize), s: Slot, of: Letter) -> Checked {
        let letter = self.nodes[at].peers[from].caller.on_reply(s, NOW);
        let Some(letter) = letter else { return Ok(()) };
        // Whichever call it is taken for, that call ends.
        let pends = |s: &Slot| self.nodes[at].peers[from].caller.get(*s) == Some(letter);
        let taken = (0..MAX_NUMBERS).map(Slot).find(pends);
        taken.map_or(Ok(()), |s| self.replied((at, from), s, of))
    }

    fn on_no_call(&mut self, (at, from): (usize, usize), s: Slot) -> Checked {
        let Peer { caller, sender, .. } = &mut self.nodes[at].peers[from];
        let Some(letter) = caller.on_no_call(s) else { return Ok(()) };
        caller.ended(s);
        sender.as_mut().and_then(|sender| sender.abandon(s));
        ensure(self.ledger.is_lost(letter), Kind::Unknown, || {
            format!("call m{letter} is Unknown for a NOCALL, and its server has forgotten nothing")
        })?;
        self.ledger.tell(letter, Outcome::Unknown)
    }

    // --- the server ---

    /// A call is delivered: the server has an entry for it in the same step.
    pub(crate) fn serve(&mut self, (at, from): (usize, usize), s: Slot, letter: Letter) {
        let Node { peers, replies, .. } = &mut self.nodes[at];
        let Peer { server, running, .. } = &mut peers[from];
        if !active(site::ENTRY_AFTER_DELIVERY) {
            server.begin(NOW, s);
            replies.computing += 1;
        }
        running.push((s, letter));
    }

    pub(crate) fn answer(
        &mut self,
        config: &Config,
        (at, from): (usize, usize),
        s: Slot,
        out: &mut Out,
    ) -> Checked {
        let Node { peers, replies, .. } = &mut self.nodes[at];
        let Peer { server, running, .. } = &mut peers[from];
        let Some(place) = running.iter().position(|(call, _)| *call == s) else { return Ok(()) };
        let (_, letter) = running.remove(place);
        if active(site::ENTRY_AFTER_DELIVERY) {
            server.begin(NOW, s);
            replies.computing += 1;
        }
        if !server.is_computing(s) {
            return Ok(());
        }
        let (age, bytes) = replies.enter(from as u32, s, 0);
        replies.computing -= 1;
        self.ledger.answer(letter);
        let form = match config.calls {
            Calls::Messages => self.reply_message(config, (at, from), s, letter)?,
            _ => Form::Frame { status: letter.into(), body: Bytes::new() },
        };
        self.nodes[at].peers[from].server.reply(s, form, age, bytes, OVER);
        while self.nodes[at].peers[from].server.counts().1 > config.kept
            && let Some(oldest) = self.nodes[at].peers[from].server.oldest()
        {
            self.forget_reply((at, from), oldest)?;
        }
        while let Some((from, oldest)) = self.nodes[at].replies.beyond(config.room) {
            self.forget_reply((at, from as usize), oldest)?;
        }
        self.pump(config, at, from, out)?;
        self.say_of_calls((at, from), out);
        Ok(())
    }

    fn reply_message(
        &mut self,
        config: &Config,
        (at, from): (usize, usize),
        s: Slot,
        letter: Letter,
    ) -> Result<Form, Violation> {
        let Some(key) = self.ledger.reply(config, letter, s.0) else {
            return Err(Violation { kind: Kind::Calls, what: format!("m{letter} is answered too often") });
        };
        let Node { clock, peers, .. } = &mut self.nodes[at];
        peers[from].queue.push_back(key);
        peers[from].sender.get_or_insert_with(|| Sender::open(clock));
        Ok(Form::Message { key, status: letter.into(), body: Bytes::new() })
    }

    /// A reply that is a message has its outcome.
    pub(crate) fn reply_settled(
        &mut self,
        config: &Config,
        (at, from): (usize, usize),
        reply: Letter,
        outcome: Outcome,
    ) -> Checked {
        let Some(s) = self.ledger.answers(reply).map(Slot) else { return Ok(()) };
        if outcome == Outcome::Delivered || active(site::REPLY_UNKNOWN_ENDS) {
            self.end_reply((at, from), s);
            return Ok(());
        }
        let known = self.nodes[at].peers[from].server.form(s).is_some();
        let letter = config.answered_by(reply).filter(|_| known && !active(site::REPLY_UNKNOWN_STAYS));
        if let Some(letter) = letter {
            let form = self.reply_message(config, (at, from), s, letter)?;
            if let Some(old) = self.nodes[at].peers[from].server.form(s) {
                *old = form;
            }
        }
        Ok(())
    }

    /// The time of a reply is over.
    pub(crate) fn expire(&mut self, at: usize, from: usize) -> Checked {
        let s = self.nodes[at].peers[from].server.on_timeout(OVER);
        s.map_or(Ok(()), |s| self.forget_reply((at, from), s))
    }

    fn forget_reply(&mut self, (at, from): (usize, usize), s: Slot) -> Checked {
        let Some(form) = self.end_reply((at, from), s) else { return Ok(()) };
        let (Form::Frame { status, .. } | Form::Message { status, .. }) = form;
        self.ledger.lose(status as Letter);
        self.withdraw((at, from), &form)
    }

    fn end_reply(&mut self, (at, from): (usize, usize), s: Slot) -> Option<Form> {
        let Node { peers, replies, .. } = &mut self.nodes[at];
        let (form, age, bytes) = peers[from].server.end(s)?;
        replies.leave(age, bytes);
        Some(form)
    }

    /// A reply that is on its way as a message is no longer needed.
    fn withdraw(&mut self, (at, to): (usize, usize), form: &Form) -> Checked {
        let Form::Message { key, .. } = *form else { return Ok(()) };
        let Peer { queue, sender, .. } = &mut self.nodes[at].peers[to];
        queue.retain(|queued| *queued != key);
        if let Some(sender) = sender {
            let bound = sender.tokens().find(|(.., letter)| **letter == key).map(|(s, ..)| s);
            bound.and_then(|s| sender.abandon(s));
        }
        let open = self.ledger.fate(key) == Fate::Open;
        if open { self.ledger.tell(key, Outcome::LetGo) } else { Ok(()) }
    }

    // --- anything that arrives, and anything to say ---

    pub(crate) fn hear_of_call(&mut self, pair: (usize, usize), of: &Datagram, out: &mut Out) -> Checked {
        let (at, from) = pair;
        let peer = &mut self.nodes[at].peers[from];
        match *of {
            Datagram::Reply { s, of } => self.on_reply(pair, Slot(s), of)?,
            Datagram::ReplyAck(s) => {
                let oldest = peer.server.oldest().filter(|_| active(site::REPLY_ACK_WITHOUT_ID));
                if let Some(form) = self.end_reply(pair, oldest.unwrap_or(Slot(s))) {
                    self.withdraw(pair, &form)?;
                }
            }
            Datagram::Probe(s) => peer.server.probe(Slot(s)),
            Datagram::NoCall(s) => self.on_no_call(pair, Slot(s))?,
            Datagram::Computing(s) => peer.caller.computing(NOW, Slot(s)),
            _ => {}
        }
        self.say_of_calls(pair, out);
        Ok(())
    }

    /// Everything that the next packet to a peer would carry.
    fn say_of_calls(&mut self, (at, to): (usize, usize), out: &mut Out) {
        let Peer { caller, server, .. } = &mut self.nodes[at].peers[to];
        say(caller, server, |datagram| out.push(Packet { from: at, to, datagram }));
    }

    /// Everything about calls that a timer could send.
    pub(crate) fn push_calls(&self, at: usize, to: usize, out: &mut Out) {
        let Peer { caller, server, .. } = &self.nodes[at].peers[to];
        let (mut caller, mut server) = (caller.clone(), server.clone());
        caller.on_timeout(LATER, Duration::from_secs(1), Duration::from_secs(1));
        let over = server.on_timeout(LATER);
        debug_assert_eq!(over, None, "nothing is kept for so short a time");
        say(&mut caller, &mut server, |datagram| out.push(Packet { from: at, to, datagram }));
    }

    /// SCMP as it is published: the newest reply answers a copy of any call.
    pub(crate) fn answer_copy(&self, (at, from): (usize, usize), s: Slot, out: &mut Out) {
        let mut server = self.nodes[at].peers[from].server.clone();
        let newest = (0..MAX_NUMBERS).rev().find_map(|s| server.form(Slot(s)).cloned());
        if let Some(Form::Frame { status, .. }) = newest {
            let datagram = Datagram::Reply { s: s.0, of: status as Letter };
            out.push(Packet { from: at, to: from, datagram });
        }
    }

    // --- what has to hold ---

    pub(crate) fn check_calls(&self, config: &Config, at: usize, to: usize) -> Checked {
        let Peer { server, .. } = &self.nodes[at].peers[to];
        let ended = self.calls(config, at, to).find(|(_, letter)| self.ledger.fate(*letter) != Fate::Open);
        ensure(ended.is_none(), Kind::Calls, || {
            format!("{} waits for {ended:?}, which has ended", name(at))
        })?;
        let ((computing, replies, _), (computed, kept, _)) = (server.counts(), server.recount());
        ensure((computing, replies) == (computed, kept) && kept <= config.kept, Kind::Calls, || {
            format!("{} counts {computing} and {replies}, and has {computed} and {kept}", name(at))
        })
    }

    /// The counts of all calls of a node are the sums over its peers, and within the bounds.
    pub(crate) fn check_replies(&self, config: &Config) -> Checked {
        for (at, Node { replies, peers, .. }) in self.nodes.iter().enumerate() {
            let each = peers.iter().map(|peer| peer.server.recount());
            let sum = each.fold((0, 0), |sum, of| (sum.0 + of.1, sum.1 + of.2));
            let (kept, bytes) = replies.counts();
            ensure((kept, bytes) == sum, Kind::Calls, || {
                format!("{} counts {kept} replies of {bytes} bytes, and has {sum:?}", name(at))
            })?;
            ensure(kept <= 1 || bytes <= config.room, Kind::Calls, || {
                format!("{} keeps {bytes} bytes of replies", name(at))
            })?;
        }
        Ok(())
    }
}

impl Peer {
    /// No caller waits, no call runs, and no reply is kept.
    pub(crate) fn holds_no_call(&self) -> bool {
        self.caller.counts() == (0, 0) && self.server.is_empty() && self.running.is_empty()
    }
}

fn say(caller: &mut Caller, server: &mut Server, mut send: impl FnMut(Datagram)) {
    while let Some(s) = caller.next_probe() {
        send(Datagram::Probe(s.0));
    }
    while let Some(s) = caller.next_reply_ack() {
        send(Datagram::ReplyAck(s.0));
    }
    while let Some((s, known)) = server.next_answer() {
        send(if known { Datagram::Computing(s.0) } else { Datagram::NoCall(s.0) });
    }
    while let Some((s, status, _)) = server.next_reply() {
        send(Datagram::Reply { s: s.0, of: status as Letter });
        server.sent(NOW, s, Duration::ZERO);
    }
}
