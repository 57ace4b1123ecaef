//! One state of everything, and the steps from it.

use super::{Rule, Scene};

/// A slot of the receiver's record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Slot {
    Free,
    Used,
    /// The receiver has forgotten its record, or a later life of the sender has ended it.
    Dead,
}

/// How far a handler is with a copy of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Handler {
    Idle,
    Given,
    Committed,
    /// The slot was used up first.
    ConsumedFirst,
}

/// A row of the outbox.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Row {
    Uncommitted,
    Open,
    /// Settled, and kept for backups.
    Retained,
    Deleted,
}

/// A row that was handed to a node: a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct Message {
    key: usize,
    node: usize,
    era: u8,
    /// Its node knows of it.
    open: bool,
    /// The relay that handed it over is gone, and the next does not know whose it is.
    orphan: bool,
    slot: Slot,
    handler: Handler,
    /// The collection of its inbox row waits for its handler.
    awaited: bool,
}

/// A relay and its node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Relay {
    active: bool,
    era: u8,
    /// Rows whose messages it knows to be processed, and rows that it has handed over: in memory.
    confirmed: [bool; 2],
    sent: [bool; 2],
}

/// The state of one row at the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Inbox {
    there: bool,
    /// How often the handler's transaction was committed.
    processed: u8,
    /// The sender has said that the row is gone, and the receiver acts on that.
    gone: bool,
    collecting: bool,
}

/// A state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    rows: Vec<Row>,
    inbox: Vec<Inbox>,
    owner: usize,
    /// Former owners that have not signed off.
    former: [bool; 2],
    relays: [Relay; 2],
    messages: Vec<Message>,
    deaths: [u8; 3],
    takeovers: u8,
    failures: u8,
    restores: u8,
}

/// Messages at once.
const MOST: usize = 6;

/// The steps from a state.
pub(super) struct Steps<'a> {
    scene: &'a Scene,
    without: Option<Rule>,
    from: &'a World,
    pub(super) to: Vec<(String, World)>,
}

impl World {
    pub(super) fn new(scene: &Scene) -> Self {
        let mut relays = [Relay::default(); 2];
        relays[0].active = true;
        Self {
            rows: vec![Row::Uncommitted; scene.rows],
            inbox: vec![Inbox::default(); scene.rows],
            owner: 0,
            former: [false; 2],
            relays,
            messages: Vec::new(),
            deaths: scene.deaths,
            takeovers: scene.takeovers,
            failures: scene.failures,
            restores: scene.restores,
        }
    }

    /// Returns the promise that this state breaks, if any.
    pub(super) fn broken(&self, scene: &Scene) -> Option<&'static str> {
        let lost = |(row, inbox): (&Row, &Inbox)| {
            matches!(row, Row::Retained | Row::Deleted) && inbox.processed == 0
        };
        if self.inbox.iter().any(|inbox| inbox.processed > 1) {
            return Some("processed twice");
        }
        let whole = self.restores == scene.restores;
        (whole && self.rows.iter().zip(&self.inbox).any(lost)).then_some("deleted, and not processed")
    }

    /// Nothing is kept of anything.
    pub(super) fn is_clean(&self) -> bool {
        let inbox = self.inbox.iter().all(|inbox| !inbox.there);
        let former = self.former.iter().any(|former| *former);
        self.rows.iter().all(|row| *row == Row::Deleted) && inbox && !former && self.messages.is_empty()
    }
}

impl<'a> Steps<'a> {
    pub(super) fn of(scene: &'a Scene, without: Option<Rule>, from: &'a World) -> Vec<(String, World)> {
        let mut this = Self { scene, without, from, to: Vec::new() };
        this.all();
        this.to
    }

    fn holds(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn add(&mut self, what: String, change: impl FnOnce(&mut World)) {
        let mut to = self.from.clone();
        change(&mut to);
        // A message that nobody knows, and that can neither arrive nor run, is gone.
        let revives = !self.holds(Rule::NotTrusted) || !self.holds(Rule::NotStale);
        to.messages.retain(|m| m.open || m.handler != Handler::Idle || m.slot == Slot::Free || revives);
        to.messages.sort_unstable();
        self.to.push((what, to));
    }

    fn all(&mut self) {
        for key in 0..self.scene.rows {
            if self.from.rows[key] == Row::Uncommitted {
                self.add(format!("row {key} is committed"), |w| w.rows[key] = Row::Open);
            }
            self.collection(key);
            self.backup(key);
        }
        for node in 0..2 {
            for key in 0..self.scene.rows {
                self.relay(node, key);
            }
            self.relay_ends(node);
        }
        self.takeover();
        for at in 0..self.from.messages.len() {
            self.message(at);
        }
        self.receiver_dies();
    }

    // --- the sender ---

    fn relay(&mut self, node: usize, key: usize) {
        let (w, relay) = (self.from, self.from.relays[node]);
        let own = |m: &&Message| m.node == node && m.open;
        let open = w.messages.iter().filter(own).any(|m| m.key == key);
        let open = if self.holds(Rule::OneOpen) { open } else { relay.sent[key] };
        // Where keys are not joined with what is open, all of that has to end first.
        let waits = w.messages.iter().filter(own).any(|m| m.orphan) && self.holds(Rule::OneOpen);
        let takes = relay.active && w.rows[key] == Row::Open && !relay.confirmed[key];
        if takes && !open && !waits && w.messages.len() < MOST {
            let (fence, early) = (self.holds(Rule::Fence), !self.holds(Rule::KeepRow));
            let counts = !self.holds(Rule::OneOpen);
            self.add(format!("node {node} takes row {key}"), |w| {
                let old = |m: &&mut Message| m.node == node && m.era < relay.era && m.slot == Slot::Free;
                w.messages.iter_mut().filter(|_| fence).filter(old).for_each(|m| m.slot = Slot::Dead);
                let (slot, handler) = (Slot::Free, Handler::Idle);
                let (open, orphan, awaited) = (true, false, false);
                w.messages.push(Message { key, node, era: relay.era, open, orphan, slot, handler, awaited });
                w.relays[node].sent[key] = counts;
                w.relays[node].confirmed[key] |= early;
            });
        }
        if relay.confirmed[key] {
            let deletes = w.owner == node || !self.holds(Rule::OwnerDeletes);
            let end = if self.scene.retains { Row::Retained } else { Row::Deleted };
            self.add(format!("relay {node} settles row {key}"), |w| {
                w.relays[node].confirmed[key] = false;
                if deletes {
                    w.rows[key] = end;
                }
            });
        }
    }

    fn relay_ends(&mut self, node: usize) {
        let (w, relay) = (self.from, self.from.relays[node]);
        let busy = relay.confirmed.iter().chain(&relay.sent).any(|is| *is);
        let known = w.messages.iter().any(|m| m.node == node);
        let [journaled, _] = self.scene.journals;
        let orphans = !self.scene.joins;
        if w.deaths[1] > 0 && (busy || (known && orphans)) {
            self.add(format!("relay {node} dies, and its node does not"), |w| {
                w.deaths[1] -= 1;
                w.relay_forgets(node, orphans);
            });
        }
        if w.deaths[0] > 0 && (relay.confirmed.iter().any(|is| *is) || known) {
            self.add(format!("node {node} dies"), |w| {
                w.deaths[0] -= 1;
                w.relay_forgets(node, orphans);
                if !journaled {
                    w.relays[node].era += 1;
                    w.messages.iter_mut().filter(|m| m.node == node).for_each(|m| m.open = false);
                }
            });
        }
        let idle = !w.messages.iter().any(|m| m.node == node && m.open);
        if node != w.owner && relay.active && idle {
            let fenced = self.holds(Rule::FencedSignOff);
            self.add(format!("node {node} signs off"), |w| {
                w.relays[node].active = false;
                w.relays[node].confirmed = [false; 2];
                w.former[node] = false;
                let free = |m: &&mut Message| m.node == node && m.slot == Slot::Free;
                w.messages.iter_mut().filter(|_| fenced).filter(free).for_each(|m| m.slot = Slot::Dead);
            });
        }
    }

    fn takeover(&mut self) {
        let (w, next) = (self.from, 1 - self.from.owner);
        if w.takeovers == 0 || (w.former[next] && self.holds(Rule::SignedOff)) {
            return;
        }
        let recorded = self.holds(Rule::Recorded);
        self.add(format!("node {next} takes the lane over"), |w| {
            w.takeovers -= 1;
            if recorded {
                (w.former[w.owner], w.former[next]) = (true, false);
            }
            w.relays[next].active = true;
            w.owner = next;
        });
    }

    fn backup(&mut self, key: usize) {
        let row = self.from.rows[key];
        if row == Row::Retained {
            self.add(format!("row {key} is kept no longer"), |w| w.rows[key] = Row::Deleted);
        }
        let backed_up = row == Row::Retained || (row == Row::Deleted && !self.scene.retains);
        if self.from.restores > 0 && backed_up {
            self.add(format!("a backup is restored: row {key} is back"), |w| {
                w.restores -= 1;
                w.rows[key] = Row::Open;
            });
        }
    }

    // --- a message ---

    fn message(&mut self, at: usize) {
        let m = self.from.messages[at];
        let of = format!("of row {} by node {} in its life {}", m.key, m.node, m.era);
        let stale = m.slot == Slot::Dead && !self.holds(Rule::NotStale);
        if m.handler == Handler::Idle && (m.slot == Slot::Free || stale) {
            self.add(format!("a copy is handed out {of}"), |w| w.messages[at].handler = Handler::Given);
        }
        match m.handler {
            Handler::Idle => {}
            Handler::Given => self.given(at, m, &of),
            Handler::Committed => {
                let keeps = self.holds(Rule::KeepInbox);
                self.add(format!("acknowledged {of}"), |w| {
                    w.messages[at].rest();
                    if m.slot == Slot::Free {
                        w.messages[at].slot = Slot::Used;
                    }
                    w.inbox[m.key].there &= keeps;
                });
            }
            Handler::ConsumedFirst => self.add(format!("committed {of}"), |w| {
                w.process(m.key, true);
                w.messages[at].rest();
            }),
        }
        self.outcome(at, m, &of);
    }

    fn given(&mut self, at: usize, m: Message, of: &str) {
        let inbox = self.holds(Rule::Inbox);
        if self.holds(Rule::CommitFirst) {
            self.add(format!("committed {of}"), |w| {
                w.process(m.key, inbox);
                w.messages[at].handler = Handler::Committed;
            });
        } else if m.slot == Slot::Free {
            self.add(format!("acknowledged {of}"), |w| {
                (w.messages[at].handler, w.messages[at].slot) = (Handler::ConsumedFirst, Slot::Used);
            });
        }
        if self.from.failures > 0 {
            self.add(format!("the handler fails {of}"), |w| {
                w.failures -= 1;
                w.messages[at].rest();
            });
        }
    }

    fn outcome(&mut self, at: usize, m: Message, of: &str) {
        if !m.open {
            return;
        }
        if m.slot == Slot::Used {
            self.add(format!("Processed {of}"), |w| {
                w.messages[at].open = false;
                w.relays[m.node].confirmed[m.key] |= !m.orphan;
            });
        }
        if m.slot == Slot::Dead && self.holds(Rule::HandOverAgain) {
            let is_final = !self.holds(Rule::UnknownIsOpen);
            self.add(format!("Unknown {of}"), |w| {
                w.messages[at].open = false;
                w.relays[m.node].sent[m.key] = false;
                w.relays[m.node].confirmed[m.key] |= is_final;
            });
        }
        if !self.holds(Rule::NotAbandoned) && self.from.failures > 0 {
            self.add(format!("given up {of}"), |w| {
                w.failures -= 1;
                w.messages[at].open = false;
            });
        }
    }

    // --- the receiver ---

    fn receiver_dies(&mut self) {
        if self.from.deaths[2] == 0 || self.from.messages.is_empty() {
            return;
        }
        let [_, journaled] = self.scene.journals;
        self.add("the receiver dies".into(), |w| w.receiver_dies(journaled));
        if !self.holds(Rule::NotTrusted) {
            for (at, _) in self.from.messages.iter().enumerate().filter(|(_, m)| m.slot == Slot::Used) {
                self.add("the receiver loses power, and trusts its log".into(), |w| {
                    w.receiver_dies(journaled);
                    w.messages[at].slot = Slot::Free;
                });
            }
        }
    }

    fn collection(&mut self, key: usize) {
        let (w, inbox, row) = (self.from, self.from.inbox[key], self.from.rows[key]);
        let former = w.former.iter().any(|former| *former) && self.holds(Rule::OldOwners);
        let gone = row == Row::Deleted && !former && inbox.there;
        let guessed = !self.holds(Rule::ByKey) && row == Row::Uncommitted;
        if (gone || guessed || (!self.holds(Rule::ByKey) && row == Row::Deleted))
            && !inbox.gone
            && self.holds(Rule::Collected)
        {
            self.add(format!("the sender says that row {key} is gone"), |w| w.inbox[key].gone = true);
        }
        if inbox.gone && inbox.there && !inbox.collecting {
            let awaits = self.holds(Rule::Barrier);
            self.add(format!("the receiver hears that row {key} is gone"), |w| {
                w.inbox[key].collecting = true;
                let runs = |m: &&mut Message| m.key == key && m.handler != Handler::Idle;
                w.messages.iter_mut().filter(|_| awaits).filter(runs).for_each(|m| m.awaited = true);
            });
        }
        if inbox.collecting && !w.messages.iter().any(|m| m.key == key && m.awaited) {
            self.add(format!("the inbox row of {key} is deleted"), |w| {
                (w.inbox[key].collecting, w.inbox[key].there) = (false, false);
            });
        }
        if inbox.there && !self.holds(Rule::NoTimeout) {
            self.add(format!("the inbox row of {key} is old, and deleted"), |w| w.inbox[key].there = false);
        }
    }
}

impl Message {
    fn rest(&mut self) {
        (self.handler, self.awaited) = (Handler::Idle, false);
    }
}

impl World {
    /// The memory of a relay is lost; its node goes on.
    fn relay_forgets(&mut self, node: usize, orphans: bool) {
        (self.relays[node].confirmed, self.relays[node].sent) = ([false; 2], [false; 2]);
        self.messages.iter_mut().filter(|m| m.node == node && m.open).for_each(|m| m.orphan |= orphans);
    }

    /// The handler's transaction, with the row of the inbox in it.
    fn process(&mut self, key: usize, looks: bool) {
        let inbox = &mut self.inbox[key];
        if !inbox.there || !looks {
            inbox.processed += 1;
            inbox.there = true;
        }
    }

    fn receiver_dies(&mut self, journaled: bool) {
        self.deaths[2] -= 1;
        self.inbox.iter_mut().for_each(|inbox| inbox.collecting = false);
        for message in &mut self.messages {
            message.rest();
            if !journaled {
                message.slot = Slot::Dead;
            }
        }
    }
}
