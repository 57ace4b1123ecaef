//! Faults of a world: processes, machines, addresses and networks.

use core::time::Duration;

use exonet_proto::NodeId;
use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{Boot, Node, Status};

use crate::clock::{ClockConfig, MachineClock};
use crate::host::Diet;
use crate::life::{Nat, Running};
use crate::{LinkConfig, NodeIndex, World};

/// Some of the first 64 nodes of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSet(pub u64);

impl NodeSet {
    /// Whether `node` is in the set.
    pub const fn has(self, node: usize) -> bool {
        node < 64 && self.0 >> node & 1 == 1
    }

    /// This set with `node` added, which must be below 64.
    #[must_use]
    pub const fn with(self, node: usize) -> Self {
        Self(self.0 | 1 << (node % 64))
    }

    /// The indices of the nodes.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |node| self.has(*node))
    }
}

/// A cut: nothing passes from the nodes of one set to those of the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    name: u64,
    from: NodeSet,
    to: NodeSet,
}

impl Cut {
    pub(crate) const fn stops(&self, from: usize, to: usize) -> bool {
        self.from.has(from) && self.to.has(to)
    }
}

impl World {
    // --- addresses ---

    /// Gives the node another address from now on. Datagrams to the old one are lost.
    pub fn roam(&mut self, node: NodeIndex) {
        let address = self.fresh_address();
        self.coverage.moves += 1;
        if let Some(host) = self.hosts.get_mut(&node.0) {
            self.owners.insert(address, node.0);
            host.address = address;
        }
    }

    /// Gives the node another port from now on.
    pub fn rebind_port(&mut self, node: NodeIndex) {
        self.coverage.moves += 1;
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.address.set_port(host.address.port() + 1);
            self.owners.insert(host.address, node.0);
        }
    }

    /// Puts a NAT in front of the node. A datagram gets in only if the node has sent to its source within `idle`.
    /// After a silence of `idle` the node has another port. None: removes the NAT.
    pub fn set_nat(&mut self, node: NodeIndex, idle: Option<Duration>) {
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.life.nat = idle.map(|idle| Nat::new(self.now, idle));
        }
    }

    // --- networks ---

    /// Lets nothing pass from `from` to `to` until [`World::mend`] is called with the same name.
    pub fn cut(&mut self, name: u64, from: NodeSet, to: NodeSet) {
        self.cuts.push(Cut { name, from, to });
    }

    /// Ends a cut.
    pub fn mend(&mut self, name: u64) {
        self.cuts.retain(|cut| cut.name != name);
    }

    /// Applies `change` to the links from `from` to `to`, until [`World::clear`] is called with the same name.
    pub fn cloud(
        &mut self,
        name: u64,
        from: NodeSet,
        to: NodeSet,
        change: impl Fn(&LinkConfig) -> LinkConfig,
    ) {
        for a in from.iter() {
            for b in to.iter().filter(|b| *b != a) {
                self.link(a, b).cloud(name, &change);
            }
        }
    }

    /// Ends a change of links.
    pub fn clear(&mut self, name: u64, from: NodeSet, to: NodeSet) {
        for a in from.iter() {
            for b in to.iter() {
                self.link(a, b).clear(name);
            }
        }
    }

    // --- clocks ---

    /// Sets how the node's clocks differ from the world's. The caller calls it before the node does anything.
    pub fn set_clock(&mut self, node: NodeIndex, config: ClockConfig) {
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.life.clock = MachineClock::new(self.now, config);
        }
        self.pump(node);
    }

    /// Sets the node's wall clock forward or back.
    pub fn set_wall(&mut self, node: NodeIndex, seconds: i64) {
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.life.clock.set_wall(seconds);
        }
    }

    /// Stops the node's process for `span`, while its clocks go on. With `hears`, datagrams that arrive meanwhile
    /// wait in its socket, as for a process that hangs; otherwise they are lost, as for a suspended machine.
    pub fn stand_still(&mut self, node: NodeIndex, span: Duration, hears: bool) {
        let until = self.now + span;
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.life.running = match host.life.running {
                Running::Down => Running::Down,
                Running::Up => Running::Still { until, hears },
                Running::Still { until: before, hears: heard } => {
                    Running::Still { until: until.max(before), hears: hears && heard }
                }
            };
        }
        self.reschedule(node);
    }

    // --- processes ---

    /// Whether the node's process runs now.
    pub fn is_up(&self, node: NodeIndex) -> bool {
        self.hosts.get(&node.0).is_some_and(|host| host.life.is_up(self.now))
    }

    /// Kills the node's process, and starts it again at once, with the content of its disk.
    pub fn crash(&mut self, node: NodeIndex) {
        self.kill(node);
        self.boot(node);
    }

    /// Kills the node's process. A write in progress may have reached the disk in full, in part, or not at all.
    pub fn kill(&mut self, node: NodeIndex) {
        let mut dice = self.dice_of(node);
        let Some(mut host) = self.hosts.remove(&node.0) else {
            return;
        };
        self.coverage.crashes += 1;
        self.coverage.calls_interrupted += host.desk.calls();
        self.forget(node.0, &host.node);
        let under_way = host.persisting.take().map(|(_, batch)| batch);
        if host.disk.as_ref().is_some_and(|disk| disk.journal.is_some()) {
            self.ledger.interrupt(host.node.id());
        }
        self.ledger.orphan(host.die());
        if let Some(disk) = &mut host.disk {
            disk.crash(under_way, &mut dice, &mut self.coverage);
        }
        host.life.running = Running::Down;
        self.hosts.insert(node.0, host);
        self.reschedule(node);
    }

    /// Starts the process of a killed node, with the content of its disk. Without a disk, the node has a new
    /// identity. Returns false if the node was not killed.
    pub fn boot(&mut self, node: NodeIndex) -> bool {
        let mut dice = self.dice_of(node);
        let (seed, secret) = (dice.bytes(), dice.bytes());
        let Some(host) = self.hosts.get_mut(&node.0).filter(|host| host.life.running == Running::Down) else {
            return false;
        };
        let boot = match &host.disk {
            Some(disk) => disk.boot(),
            None => {
                self.gone.push(host.node.id());
                host.secret = secret;
                Boot::Ephemeral
            }
        };
        host.life.clock.boot(self.now);
        host.life.running = Running::Up;
        let now = host.life.clock.read(self.now);
        self.checks.leaves(&host.node.id());
        host.boots += 1;
        host.ending = false;
        host.node = Node::new(host.config.clone(), SecretKey::from_bytes(host.secret), boot, seed, now);
        host.resume(&mut self.ledger);
        self.checks.settles(host.node.id(), node.0);
        if host.disk.as_ref().is_some_and(|disk| disk.journal.is_some()) {
            // The journal has addresses too, even former ones.
            self.checks.addresses.chosen(node.0, self.owners.keys().copied());
        }
        self.checks.touched.all = true;
        self.pump(node);
        true
    }

    /// Makes the node begin to end in an orderly way: it takes nothing from now on, and tells its peers what it has
    /// not taken.
    pub fn begin_end(&mut self, node: NodeIndex) {
        if let Some(host) = self.hosts.get_mut(&node.0) {
            // Its application stops reading large messages.
            host.ending = true;
            self.coverage.ends += 1;
        }
        self.instruct(node, Node::finish);
    }

    /// Whether the node has begun to end, and still runs.
    pub(crate) fn is_ending(&self, node: NodeIndex) -> bool {
        self.hosts.get(&node.0).is_some_and(|host| host.ending && host.life.running != Running::Down)
    }

    /// Makes the application of `node` cancel the messages for a peer that have not left, or have come back. Returns
    /// their number.
    pub(crate) fn take_back(&mut self, node: NodeIndex, peer: &NodeId) -> u64 {
        let open = self.node(node).map(Node::open_messages).unwrap_or_default();
        let queued = open.iter().filter(|open| open.peer == *peer && open.status == Status::Queued);
        let cancel = |key| self.instruct(node, |node, now| node.cancel(now, key).is_ok()) == Some(true);
        queued.map(|open| open.key).map(cancel).filter(|done| *done).count() as u64
    }

    /// Whether a node that ends has told every peer that it can reach.
    pub fn has_told_its_end(&self, node: NodeIndex) -> bool {
        self.node(node).is_some_and(Node::is_finished)
    }

    /// Ends the process of a node that has begun to end, after its farewells.
    pub fn end(&mut self, node: NodeIndex) {
        self.coverage.ends_heard += u64::from(self.has_told_its_end(node));
        self.instruct(node, Node::leave_all);
        self.kill(node);
    }

    /// Notes that the identity of a node whose process ended will not come back.
    pub(crate) fn is_gone_for_good(&mut self, node: NodeIndex) {
        self.gone.extend(self.id(node));
    }

    /// Whether a failed write has stopped the node.
    pub(crate) fn has_stopped(&self, node: NodeIndex) -> bool {
        self.hosts.get(&node.0).is_some_and(|host| host.stopped)
    }

    /// Whether an identity died with its process.
    pub fn has_lost_identities(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Makes every node give up its messages for identities that died with their process. These messages may end
    /// Unknown.
    pub fn give_up_the_gone(&mut self) {
        let gone = std::mem::take(&mut self.gone);
        for host in self.hosts.values_mut() {
            for open in host.node.open_messages().iter().filter(|open| gone.contains(&open.peer)) {
                if let Some(waiting) = host.waiting.get(&open.key) {
                    self.ledger.excuse(waiting.number);
                }
            }
            let now = host.life.clock.read(self.now);
            gone.iter().for_each(|id| host.node.abandon_peer(now, id));
        }
        let nodes: Vec<usize> = self.hosts.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.pump(NodeIndex(node)));
        self.gone = gone;
    }

    // --- applications ---

    /// Sets whether the node's application takes messages that arrive.
    pub fn set_reads(&mut self, node: NodeIndex, reads: bool) {
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.reads = reads;
        }
        self.pump(node);
    }

    /// Makes the node's application take messages under guards, and decide the fate of each: the message is
    /// processed, rejected, postponed, or given back.
    pub fn set_judging(&mut self, node: NodeIndex) {
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.judges = true;
        }
    }

    /// Sets what the node's application takes when it reads: whether it takes messages that are not calls, and the
    /// methods whose calls it takes (None: all methods).
    pub fn set_diet(&mut self, node: NodeIndex, messages: bool, methods: Option<&[&str]>) {
        let own = |method: &&str| bytes::Bytes::copy_from_slice(method.as_bytes());
        let methods = methods.map(|methods| methods.iter().map(own).collect());
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.diet = Diet { no_messages: !messages, methods };
        }
        self.pump(node);
    }

    /// Makes the node's application take this many messages and pieces of large messages, and then no more. None: all
    /// that arrive.
    pub fn feed(&mut self, node: NodeIndex, appetite: Option<u32>) {
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.life.appetite = appetite;
        }
        self.pump(node);
    }
}
