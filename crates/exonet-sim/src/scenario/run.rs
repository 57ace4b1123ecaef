//! Runs a scenario.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use exonet_proto::Mono;
use exonet_proto::node::{Cancel, MessageKey, Outcome, Outgoing};

use super::action::{Ears, FEW_METHODS, METHODS, Mishap, Names};
use super::{Action, Coverage, FORGETS_WITHIN, Finding, Report, Scenario, What, Withdraw};
use crate::check::short;
use crate::moving::Image;
use crate::{Disk, LinkConfig, NodeIndex, Serving, Violation, World};

/// How long a node that ends tells its peers what it has not taken, and how often it checks whether they know that:
/// as in the library.
const FAREWELL: Duration = Duration::from_millis(500);
const LOOKS: Duration = Duration::from_millis(10);
/// When the name of a node leads to its copy for the second time. Each further time comes after twice as long.
const MISLEADS: Duration = Duration::from_millis(50);
/// After this long, the peers' applications assume that a node has ended for good.
const GOES_ON: Duration = Duration::from_secs(5);
/// How often a process that has stopped is started again.
const SUPERVISED: Duration = Duration::from_secs(2);
/// A node that looks for a peer has tried every address that it knows within this time: probes and openings are at
/// most half a minute apart (PROTOCOL.md "Loss recovery").
const TRIES_ALL: Duration = Duration::from_secs(45);
/// The number of pieces in which a streamed message is written.
const PIECES: u32 = 10;

/// Runs a scenario to its end, or to the first broken guarantee.
pub fn run(scenario: &Scenario) -> Report {
    Run::new(scenario, None).complete()
}

/// Like [`run`], but passes every datagram, fault, delivery and outcome to `tell`, in lines.
pub fn run_traced(scenario: &Scenario, tell: &mut dyn FnMut(&str)) -> Report {
    Run::new(scenario, Some(tell)).complete()
}

/// An event that is due.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// The action at this place begins.
    Begin(usize),
    /// The action at this place ends.
    End(usize),
    /// One message of the action is sent.
    Send(usize),
    /// All messages of the action are sent at once.
    SendAll(usize),
    /// A process that stopped because its disk was full is started again.
    Supervise(usize),
    /// A node that ends leaves once it has told all its peers, or at this time.
    Part(usize, Mono),
    /// A node that has moved dies, and starts again.
    Relapse(usize),
    /// The name of the first node leads to the second, which is a copy that the first has left behind. The next such
    /// time is this long after.
    Mislead(NodeIndex, NodeIndex, Duration),
    /// The peers' applications use other nodes from now on.
    GoOn(usize),
    /// The application of a slow node takes some more messages.
    Feed(usize),
    /// The application writes more of a message, if its process is still the same.
    Write(Sent, usize),
    /// The sender withdraws the message.
    Withdraw(Sent, Withdraw),
}

/// A message of one particular process.
#[derive(Clone, Copy, Debug)]
struct Sent {
    node: usize,
    boot: u32,
    number: u64,
    key: MessageKey,
}

/// A guarantee was broken, so the run ends here.
struct Broken;

struct Run<'a> {
    scenario: &'a Scenario,
    tell: Option<&'a mut dyn FnMut(&str)>,
    world: World,
    begun: Mono,
    due: BTreeMap<(Mono, u64), Due>,
    next_due: u64,
    /// How many times each node's process was started.
    boots: Vec<u32>,
    /// The nodes that have ended for good.
    over: BTreeSet<usize>,
    /// The old states of the identities that are moving.
    left: BTreeMap<usize, Option<Image>>,
    /// The pairs of nodes of which the first has sent to the second. True: it has also made calls.
    pairs: BTreeSet<(usize, usize, bool)>,
    coverage: Coverage,
    /// The longest time until every message had an outcome, after the last fault.
    settled_in: Duration,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, tell: Option<&'a mut dyn FnMut(&str)>) -> Self {
        let mut world = World::new(scenario.seed, LinkConfig::perfect(Duration::from_millis(10)));
        let begun = world.now();
        if tell.is_some() {
            world.trace.start(begun);
        }
        for plan in &scenario.nodes {
            let node = world.add_on(plan.config.clone(), plan.disk.clone());
            world.set_clock(node, plan.clock);
            world.serve(node, plan.serving.unwrap_or_default());
        }
        for ((a, b), link) in &scenario.links {
            world.set_link(NodeIndex(*a), NodeIndex(*b), link.clone());
        }
        let mut run = Self {
            scenario,
            tell,
            world,
            begun,
            due: BTreeMap::new(),
            next_due: 0,
            boots: vec![0; scenario.nodes.len()],
            over: BTreeSet::new(),
            left: BTreeMap::new(),
            pairs: BTreeSet::new(),
            coverage: Coverage::default(),
            settled_in: Duration::ZERO,
        };
        for (place, (_, action)) in scenario.actions.iter().enumerate() {
            run.plan(begun + action.at, Due::Begin(place));
        }
        run
    }

    fn complete(mut self) -> Report {
        let mut findings = Vec::new();
        if self.acts().and_then(|()| self.ends(&mut findings)).is_err() {
            findings.clear();
        }
        let broken: Vec<Finding> =
            self.world.violations().iter().map(|violation| self.broken(violation)).collect();
        findings.splice(0..0, broken);
        self.pour();
        let covered = self.world.coverage();
        for (what, times) in [
            ("evictions", covered.evictions),
            ("callers_evicted", covered.callers_evicted),
            ("handshakes", covered.handshakes),
            ("addresses_looked_up", covered.looked_up),
            ("addresses_told", covered.told),
            ("writes_failed", covered.writes_failed),
            ("writes_torn", covered.writes_torn),
            ("suppressed_copies", covered.suppressed),
            ("early_taken", covered.early_received),
            ("early_slowed", covered.early_slowed),
            ("early_rejected", covered.early_rejected),
            ("stamps_astray", covered.stamps_astray),
            ("moved", covered.moved),
            ("copies_started", covered.copies),
            ("copies_told", covered.copies_told),
            ("calls_interrupted", covered.calls_interrupted),
            ("replies_forgotten", covered.replies_forgotten),
        ] {
            self.coverage.add(what, times);
        }
        Report {
            seed: self.scenario.seed,
            profile: self.scenario.profile,
            findings,
            steps: self.world.ledger.steps(),
            lasted: self.world.now().since(self.begun),
            totals: self.world.ledger.totals(),
            coverage: self.coverage,
            settled_in: self.settled_in,
            datagrams: self.world.datagrams,
            fingerprint: self.world.wiretap.fingerprint(),
        }
    }

    /// A violation in the terms of the trace: nodes by their places, and times from the start.
    fn broken(&self, violation: &Violation) -> Finding {
        let mut what = violation.breach.to_string();
        for node in 0..self.boots.len() {
            if let Some(id) = self.world.id(NodeIndex(node)) {
                what = what.replace(&short(&id), &format!("n{node}"));
            }
        }
        let kind = violation.breach.kind();
        Finding::Broken { kind, at: violation.at.since(self.begun), step: violation.step, what }
    }

    // --- the schedule ---

    fn plan(&mut self, at: Mono, due: Due) {
        self.next_due += 1;
        self.due.insert((at, self.next_due), due);
    }

    /// Does everything that is due.
    fn acts(&mut self) -> Result<(), Broken> {
        while let Some(((at, _), due)) = self.due.pop_first() {
            self.advance(at)?;
            self.happens(due);
            self.check()?;
        }
        Ok(())
    }

    /// Lets the world run until `until`.
    fn advance(&mut self, until: Mono) -> Result<(), Broken> {
        while self.world.step(until) {
            self.check()?;
        }
        self.world.run_for(until.since(self.world.now()));
        Ok(())
    }

    fn check(&mut self) -> Result<(), Broken> {
        self.pour();
        if self.world.violations().is_empty() { Ok(()) } else { Err(Broken) }
    }

    /// Passes the trace to the caller.
    fn pour(&mut self) {
        if let Some(tell) = &mut self.tell {
            tell(&self.world.trace.take());
        }
    }

    fn action(&self, place: usize) -> Option<&'a Action> {
        self.scenario.actions.get(place).map(|(_, action)| action)
    }

    fn happens(&mut self, due: Due) {
        match due {
            Due::Begin(place) => self.begin(place),
            Due::End(place) => self.end(place),
            Due::Send(place) => self.send(place),
            Due::SendAll(place) => self.send_all(place),
            Due::Feed(place) => self.serve(place),
            Due::Supervise(place) => self.supervise(place),
            Due::Part(place, until) => self.part(place, until),
            Due::Relapse(node) => {
                self.world.kill(NodeIndex(node));
                self.boot(node);
            }
            Due::Mislead(node, copy, next) => self.mislead(node, copy, next),
            Due::GoOn(node) => self.go_on(node),
            Due::Write(sent, _) | Due::Withdraw(sent, _) if !self.is_same(sent) => {}
            // A process that is stopped continues later.
            due @ (Due::Write(sent, _) | Due::Withdraw(sent, _))
                if !self.world.is_up(NodeIndex(sent.node)) =>
            {
                self.plan(self.world.now() + Duration::from_secs(1), due);
            }
            Due::Write(sent, upto) => self.world.write(NodeIndex(sent.node), sent.key, upto),
            Due::Withdraw(sent, how) => self.withdraw(sent, how),
        }
    }

    fn begin(&mut self, place: usize) {
        let Some(action) = self.action(place) else { return };
        let now = self.world.now();
        if !action.what.is_traffic() {
            let at = action.what.nodes().iter().next().unwrap_or(0);
            self.world.trace.tell(now, at, format_args!("* {}", action.what));
        }
        self.coverage.add(action.what.kind(), 1);
        let name = place as u64;
        match action.what {
            What::Send { call: false, .. } if action.span.is_zero() => {
                return self.plan(now, Due::SendAll(place));
            }
            What::Send { count, .. } => {
                for n in 0..count {
                    self.plan(now + action.span * n / count.max(1), Due::Send(place));
                }
                return;
            }
            What::Stream { from, to, len } => return self.stream(from, to, len, action.span),
            What::Cut { from, to, both } => {
                self.world.cut(name, from, to);
                if both {
                    self.world.cut(name, to, from);
                }
            }
            What::Weather { from, to, change } => {
                self.world.cloud(name, from, to, |base| change.apply(base));
            }
            What::Roam(node) => self.world.roam(NodeIndex(node)),
            What::Port(node) => self.world.rebind_port(NodeIndex(node)),
            What::Nat(node, idle) => self.world.set_nat(NodeIndex(node), Some(idle)),
            What::Crash(node) => self.world.kill(NodeIndex(node)),
            What::Suspend(node) => self.world.stand_still(NodeIndex(node), action.span, false),
            What::Stuck(node) => self.world.stand_still(NodeIndex(node), action.span, true),
            What::Wall(node, seconds) => self.world.set_wall(NodeIndex(node), seconds),
            What::Deaf(node, ears) => self.deafen(NodeIndex(node), ears),
            What::Slow(..) => self.serve(place),
            What::SlowDisk(node, latency) => self.disk(node, |disk| disk.latency = latency),
            What::BrokenDisk(node) => self.disk(node, |disk| disk.broken = true),
            What::FullDisk(_) => return self.supervise(place),
            What::StuckDisk(node, _) => self.disk(node, |disk| disk.stuck = true),
            What::Leave(node, _) => return self.leave(place, node),
            What::Move(node, mishap, _) => {
                if !self.departs(place, node, mishap) {
                    return;
                }
            }
            What::Keepalive(node, peer, every) => self.keep_alive(node, peer, Some(every)),
            What::Rollback(node) => {
                self.world.kill(NodeIndex(node));
                self.disk(node, |disk| disk.clock = 0);
                self.boot(node);
            }
        }
        self.plan(now + action.span, Due::End(place));
    }

    fn end(&mut self, place: usize) {
        let Some(action) = self.action(place) else { return };
        if !action.what.is_traffic() && action.span > Duration::ZERO {
            let at = action.what.nodes().iter().next().unwrap_or(0);
            self.world.trace.tell(self.world.now(), at, format_args!("* no longer: {}", action.what));
        }
        let name = place as u64;
        match action.what {
            What::Cut { .. } => self.world.mend(name),
            What::Weather { from, to, .. } => self.world.clear(name, from, to),
            What::Nat(node, _) => self.world.set_nat(NodeIndex(node), None),
            What::Crash(node) | What::Leave(node, false) => self.boot(node),
            What::Move(node, mishap, names) => self.arrives(place, node, mishap, names),
            What::Leave(node, true) => self.plan(self.world.now() + GOES_ON, Due::GoOn(node)),
            What::StuckDisk(node, crashes) => {
                if crashes {
                    self.world.kill(NodeIndex(node));
                    self.boot(node);
                }
                self.disk(node, |disk| disk.stuck = false);
            }
            What::FullDisk(node) => {
                self.disk(node, |disk| disk.full = false);
                self.restart_if_stopped(node);
            }
            What::Deaf(node, _) => {
                self.world.set_diet(NodeIndex(node), true, None);
                self.world.set_reads(NodeIndex(node), true);
            }
            What::Slow(node, ..) => self.world.feed(NodeIndex(node), None),
            What::SlowDisk(node, _) => {
                let usual =
                    self.scenario.nodes.get(node).and_then(|plan| plan.disk.clone()).unwrap_or_default();
                self.disk(node, |disk| disk.latency = usual.latency);
            }
            What::BrokenDisk(node) => {
                self.disk(node, |disk| disk.broken = false);
                self.world.kill(NodeIndex(node));
                self.boot(node);
            }
            What::Keepalive(node, peer, _) => self.keep_alive(node, peer, None),
            _ => {}
        }
    }

    // --- faults ---

    fn boot(&mut self, node: usize) {
        let booted = !self.over.contains(&node) && self.world.boot(NodeIndex(node));
        if let Some(boots) = self.boots.get_mut(node) {
            *boots += u32::from(booted);
        }
    }

    fn disk(&mut self, node: usize, change: impl FnOnce(&mut Disk)) {
        if let Some(disk) = self.world.disk(NodeIndex(node)) {
            change(disk);
        }
    }

    /// Starts a process that has stopped because its disk is full, again and again as long as the disk is full.
    fn supervise(&mut self, place: usize) {
        let Some(action) = self.action(place) else { return };
        let What::FullDisk(node) = action.what else { return };
        self.restart_if_stopped(node);
        self.disk(node, |disk| disk.full = true);
        let (next, end) = (self.world.now() + SUPERVISED, self.begun + action.ends());
        self.plan(next.min(end), if next < end { Due::Supervise(place) } else { Due::End(place) });
    }

    fn restart_if_stopped(&mut self, node: usize) {
        if self.world.has_stopped(NodeIndex(node)) {
            self.world.kill(NodeIndex(node));
            self.boot(node);
        }
    }

    /// A node begins to end, unless it is not running.
    fn leave(&mut self, place: usize, node: usize) {
        if self.world.is_up(NodeIndex(node)) && !self.world.has_stopped(NodeIndex(node)) {
            self.world.begin_end(NodeIndex(node));
            self.part(place, self.world.now() + FAREWELL);
        }
    }

    /// Lets a node that ends leave, if it has told every peer that it can reach, or has tried for long enough.
    fn part(&mut self, place: usize, until: Mono) {
        let Some(Action { what: What::Leave(node, for_good), span, .. }) = self.action(place) else { return };
        let (node, now) = (NodeIndex(*node), self.world.now());
        // The node may have crashed before.
        if !self.world.is_ending(node) {
            return;
        }
        let told = self.world.has_told_its_end(node);
        if !self.world.is_up(node) || (!told && now < until) {
            return self.plan(now + LOOKS, Due::Part(place, until));
        }
        self.coverage.add("ends_heard", u64::from(told));
        self.world.end(node);
        if *for_good {
            self.over.insert(node.0);
            self.world.is_gone_for_good(node);
        }
        self.plan(now + *span, Due::End(place));
    }

    /// The peers of a node that has ended for good withdraw their messages to it if they can, and send these to
    /// another node.
    fn go_on(&mut self, gone: usize) {
        let Some(id) = self.world.id(NodeIndex(gone)) else { return };
        let others: Vec<usize> =
            (0..self.boots.len()).filter(|node| self.world.is_up(NodeIndex(*node))).collect();
        for (from, to) in others.iter().zip(others.iter().cycle().skip(1)).filter(|(from, to)| from != to) {
            let taken_back = self.world.take_back(NodeIndex(*from), &id);
            self.coverage.add("went_on_elsewhere", taken_back);
            for _ in 0..taken_back {
                self.submit((*from, *to, false), 100, Outgoing::default());
            }
        }
    }

    /// The receiver of messages for `to`: another node if `to` has ended for good.
    fn stand_in(&self, from: usize, to: usize) -> usize {
        let next = |n: usize| (to + n) % self.boots.len().max(1);
        let mut others = (0..self.boots.len()).map(next);
        others.find(|node| *node != from && !self.over.contains(node)).unwrap_or(to)
    }

    /// Begins to move an identity. Returns false if that is not possible.
    fn departs(&mut self, place: usize, node: usize, mishap: Mishap) -> bool {
        let node = NodeIndex(node);
        if !self.world.is_up(node) || self.world.has_stopped(node) {
            return false;
        }
        self.world.freeze(node);
        self.left.insert(place, self.world.image(node));
        if mishap != Mishap::Stays {
            self.world.cede(node);
        }
        if let Mishap::Twice(ahead) = mishap {
            let second = self.world.second_holder(node, ahead);
            self.left.insert(place, second);
        }
        true
    }

    fn arrives(&mut self, place: usize, node: usize, mishap: Mishap, names: Names) {
        let here = NodeIndex(node);
        self.boot(node);
        self.world.greet(here);
        let others = (0..self.boots.len()).filter(|other| *other != node).map(NodeIndex);
        for other in others.collect::<Vec<_>>() {
            match names {
                Names::Right => self.world.tell(other, here),
                Names::Stale => {}
                // The node's own place, or that of a third node.
                Names::Lie => self.world.tell_wrong(other, here, NodeIndex(0)),
            }
        }
        match (mishap, self.left.remove(&place).flatten()) {
            (Mishap::Dies(after), _) => self.plan(self.world.now() + after, Due::Relapse(node)),
            (Mishap::Copied | Mishap::Twice(_), Some(image)) => {
                let copy = self.world.start_copy(here, image);
                if let Some(copy) = copy.filter(|_| names == Names::Stale) {
                    self.mislead(here, copy, MISLEADS);
                }
            }
            _ => {}
        }
    }

    /// Makes the name of a node that has moved lead to the copy that it left behind, now and as long as the copy
    /// runs. Even nodes that have met the later generation are told the copy's address.
    fn mislead(&mut self, node: NodeIndex, copy: NodeIndex, next: Duration) {
        if self.world.address(copy).is_none() {
            return;
        }
        for other in (0..self.boots.len()).map(NodeIndex).filter(|other| *other != node) {
            self.world.tell_wrong(other, node, copy);
        }
        let ends = self.scenario.actions.iter().map(|(_, action)| action.ends()).max().unwrap_or_default();
        if self.world.now() + next < self.begun + ends {
            self.plan(self.world.now() + next, Due::Mislead(node, copy, next * 2));
        }
    }

    /// Makes the slow application take some messages, and plans its next turn.
    fn serve(&mut self, place: usize) {
        let Some(action) = self.action(place) else { return };
        let What::Slow(node, bites, every) = action.what else { return };
        self.world.feed(NodeIndex(node), Some(bites));
        let next = self.world.now() + every;
        if next < self.begun + action.ends() {
            self.plan(next, Due::Feed(place));
        }
    }

    fn keep_alive(&mut self, node: usize, peer: usize, every: Option<Duration>) {
        if let (true, Some(id)) = (self.world.is_up(NodeIndex(node)), self.world.id(NodeIndex(peer))) {
            self.world.instruct(NodeIndex(node), |node, now| node.keep_alive(now, &id, every));
        }
    }

    // --- traffic ---

    /// Whether the process that sent it is still the same.
    fn is_same(&self, sent: Sent) -> bool {
        self.boots.get(sent.node) == Some(&sent.boot) && !self.over.contains(&sent.node)
    }

    fn sent(&self, node: usize, (number, key): (u64, MessageKey)) -> Sent {
        Sent { node, boot: self.boots.get(node).copied().unwrap_or(0), number, key }
    }

    fn send(&mut self, place: usize) {
        let Some(Action {
            what: What::Send { from, to, size, call, priority, deadline, withdraw, .. }, ..
        }) = self.action(place)
        else {
            return;
        };
        let deadline = deadline.map(|after| self.world.clock(NodeIndex(*from)).mono + after);
        let message = Outgoing { priority: *priority, deadline, ..Outgoing::default() };
        let (call, withdraw) = (*call, *withdraw);
        let Some(sent) = self.submit((*from, *to, call), *size, message) else { return };
        self.plan_withdrawal(sent, withdraw);
    }

    fn send_all(&mut self, place: usize) {
        let Some(Action {
            what: What::Send { from, to, size, count, priority, deadline, withdraw, .. }, ..
        }) = self.action(place)
        else {
            return;
        };
        let (from, size, count, withdraw) = (*from, *size as usize, *count, *withdraw);
        let to = self.stand_in(from, *to);
        let deadline = deadline.map(|after| self.world.clock(NodeIndex(from)).mono + after);
        let message = Outgoing { priority: *priority, deadline, ..Outgoing::default() };
        if !self.world.is_up(NodeIndex(from)) {
            return;
        }
        self.pairs.insert((from, to, false));
        let sent = self.world.send_together((NodeIndex(from), NodeIndex(to)), size, count, &message);
        self.coverage.add("refused_messages", u64::from(count) - sent.len() as u64);
        // Every second message is withdrawn; those in between continue.
        for (nth, one) in sent.into_iter().enumerate() {
            let sent = self.sent(from, one);
            self.plan_withdrawal(sent, withdraw.filter(|_| nth % 2 == 0));
        }
    }

    fn plan_withdrawal(&mut self, sent: Sent, withdraw: Option<Withdraw>) {
        if let Some(how) = withdraw {
            let (Withdraw::Cancel(after) | Withdraw::Abandon(after)) = how;
            self.plan(self.world.now() + after, Due::Withdraw(sent, how));
        }
    }

    fn deafen(&mut self, node: NodeIndex, ears: Ears) {
        match ears {
            Ears::Shut => self.world.set_reads(node, false),
            Ears::ForCalls => self.world.set_diet(node, false, None),
            Ears::ForSome => self.world.set_diet(node, true, Some(FEW_METHODS)),
        }
    }

    fn submit(&mut self, pair: (usize, usize, bool), size: u32, message: Outgoing) -> Option<Sent> {
        let (from, to, call) = (pair.0, self.stand_in(pair.0, pair.1), pair.2);
        if !self.world.is_up(NodeIndex(from)) {
            return None;
        }
        self.pairs.insert((from, to, call));
        let method = METHODS.get(size as usize % METHODS.len()).filter(|_| call && size >= 8);
        let message = match method {
            Some(method) => Outgoing { tag: method.as_bytes().into(), ..message },
            None => message,
        };
        let submit = if call { World::call_as } else { World::send_as };
        match submit(&mut self.world, NodeIndex(from), NodeIndex(to), size as usize, message) {
            Ok(sent) => Some(self.sent(from, sent)),
            Err(_) => {
                self.coverage.add("refused_messages", 1);
                None
            }
        }
    }

    fn stream(&mut self, from: usize, to: usize, len: u32, span: Duration) {
        let to = self.stand_in(from, to);
        if !self.world.is_up(NodeIndex(from)) {
            return;
        }
        self.pairs.insert((from, to, false));
        let Ok(sent) = self.world.send_stream(NodeIndex(from), NodeIndex(to), u64::from(len)) else {
            self.coverage.add("refused_messages", 1);
            return;
        };
        let (sent, now) = (self.sent(from, sent), self.world.now());
        for piece in 1..=PIECES {
            let upto = u64::from(len) * u64::from(piece) / u64::from(PIECES);
            let upto = usize::try_from(upto).unwrap_or(usize::MAX);
            self.plan(now + span * piece / PIECES, Due::Write(sent, upto));
        }
    }

    fn withdraw(&mut self, sent: Sent, how: Withdraw) {
        let node = NodeIndex(sent.node);
        match how {
            Withdraw::Cancel(_) => {
                let done = self.world.cancel(node, sent.key);
                self.coverage.add("cancelled", u64::from(done == Some(Ok(Cancel::Done))));
                self.coverage.add("revoked", u64::from(done == Some(Ok(Cancel::Asked))));
            }
            Withdraw::Abandon(_) => {
                self.world.ledger.excuse(sent.number);
                self.world.instruct(node, |node, now| node.abandon(now, sent.key));
                self.coverage.add("abandoned", 1);
            }
        }
    }

    // --- the end ---

    /// Ends all faults. Then every message must settle, the pairs must work, and in the end no node may know another.
    fn ends(&mut self, findings: &mut Vec<Finding>) -> Result<(), Broken> {
        self.heal();
        self.settle(findings)?;
        let pairs: Vec<_> = std::mem::take(&mut self.pairs).into_iter().collect();
        // The messages in envelopes of a dead incarnation end Unknown once. After that, there are no such envelopes.
        for last in [false, true] {
            let sent: Vec<Sent> =
                pairs.iter().filter_map(|pair| self.submit(*pair, 100, Outgoing::default())).collect();
            self.settle(findings)?;
            let outcome = |sent: &&Sent| self.world.ledger.outcome_of(sent.number);
            let failed = sent.iter().filter(|sent| outcome(sent) != Some(Outcome::Delivered)).count();
            if last && failed > 0 && findings.is_empty() {
                findings.push(Finding::Undelivered { messages: failed as u64 });
            }
        }
        if findings.is_empty() {
            self.goes_still(findings)?;
        }
        Ok(())
    }

    /// Ends echoes, and makes nodes give up those that are gone for good. No node is told the address of another.
    fn heal(&mut self) {
        self.world.trace.tell(self.world.now(), 0, "* the last fault has ended");
        for ((a, b), link) in &self.scenario.links {
            let link = LinkConfig { replay: 0.0, ..link.clone() };
            self.world.set_link(NodeIndex(*a), NodeIndex(*b), link);
        }
        let nodes: Vec<NodeIndex> = (0..self.boots.len()).map(NodeIndex).collect();
        self.world.end_copies();
        self.world.give_up_the_gone();
        for node in nodes {
            // Drops the calls that were never to be answered; from now on every call is answered at once.
            let serving = self.scenario.nodes.get(node.0).and_then(|plan| plan.serving).unwrap_or_default();
            self.world.serve(node, Serving { never: 0.0, within: Duration::ZERO, ..serving });
            self.world.drop_calls(node);
            self.world.hurry_calls(node);
            self.world.instruct(node, |node, now| {
                node.peers().iter().for_each(|peer| node.keep_alive(now, peer, None));
            });
        }
    }

    fn settle(&mut self, findings: &mut Vec<Finding>) -> Result<(), Broken> {
        let begun = self.world.now();
        let until = begun + self.scenario.profile.settles_within();
        let mut tried = begun;
        while self.world.ledger.open() > 0 && findings.is_empty() {
            if !self.world.step(until.min(tried + TRIES_ALL)) {
                if tried + TRIES_ALL >= until {
                    findings.push(Finding::Unsettled { open: self.world.ledger.open() });
                } else {
                    self.world.run_for((tried + TRIES_ALL).since(self.world.now()));
                    self.world.tell_the_lost(tried);
                    tried = self.world.now();
                }
            }
            self.check()?;
        }
        self.settled_in = self.settled_in.max(self.world.now().since(begun));
        let totals = self.world.ledger.totals();
        // A server may keep only few replies.
        let undisturbed = self.scenario.is_undisturbed() && self.world.coverage().replies_forgotten == 0;
        if undisturbed && totals.delivered < totals.sent && findings.is_empty() {
            findings.push(Finding::Undelivered { messages: totals.sent - totals.delivered });
        }
        Ok(())
    }

    fn goes_still(&mut self, findings: &mut Vec<Finding>) -> Result<(), Broken> {
        let gone = if self.world.has_lost_identities() { self.scenario.patience() } else { Duration::ZERO };
        let echoes = self.world.last_flight().unwrap_or(self.world.now());
        self.advance((echoes.max(self.world.now() + gone)) + FORGETS_WITHIN)?;
        if self.world.next_event().is_some() {
            findings.push(Finding::Restless);
        }
        for node in (0..self.boots.len()).filter(|node| !self.over.contains(node)) {
            let Some(stats) = self.world.node(NodeIndex(node)).map(exonet_proto::node::Node::stats) else {
                continue;
            };
            let held = [
                (stats.peers, "peers"),
                (stats.half_open, "half-open peers"),
                (stats.sender_records, "sender records"),
                (stats.receiver_records, "receiver records"),
                (stats.open_messages, "messages"),
                (stats.received_bytes, "received bytes"),
            ];
            let what: Vec<String> =
                held.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
            if !what.is_empty() {
                findings.push(Finding::Remembers { node, what: what.join(", ") });
            }
        }
        Ok(())
    }
}
