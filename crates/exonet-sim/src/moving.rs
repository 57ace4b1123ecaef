//! Identities that move to other machines, and the copies that they leave behind.

use exonet_proto::crypto::SecretKey;
use exonet_proto::node::Node;
use exonet_proto::{Generation, Lineage, Stay};

use crate::host::Host;
use crate::{Disk, NodeIndex, World};

/// The numbers of a generation have this many bits, as in the library.
const LANE: u32 = 48;

/// A copy of an identity from the time when the identity moved, whose generation is over; or a second holder of a
/// generation.
#[derive(Debug)]
pub(crate) struct Copy {
    host: usize,
    stay: Stay,
    /// The step in which it started.
    since: u64,
}

impl World {
    /// Ends the node's process without a farewell and with a complete journal, as the library does before a
    /// checkpoint.
    pub fn freeze(&mut self, node: NodeIndex) {
        let now = self.clock(node);
        if let Some(host) = self.hosts.get_mut(&node.0) {
            let written = host.persisting.take();
            if let Some(disk) = &mut host.disk {
                disk.end_in_order(written.map(|(_, batch)| batch));
            }
            host.appended(exonet_proto::Mono::NEVER, now);
            // The application gets the messages that the journal has.
            host.take_given(now, &mut self.ledger);
            self.heed(node);
        }
        self.kill(node);
    }

    /// Moves the disk of a frozen node to another machine, under the next generation. The node gets another address,
    /// and does not run yet.
    pub fn cede(&mut self, node: NodeIndex) {
        let address = self.fresh_address();
        let Some(host) = self.hosts.get_mut(&node.0) else { return };
        let Some(disk) = &mut host.disk else { return };
        let generation = host.config.stay.generation.0 + 1;
        // The identity itself always arrives with lineage 1.
        host.config.stay = Stay { generation: Generation(generation), lineage: Lineage(1) };
        disk.moves(generation << LANE);
        host.address = address;
        self.owners.insert(address, node.0);
        self.coverage.moved += 1;
    }

    /// The state of a copy of the node's machine. None: the node has no disk.
    pub fn image(&self, node: NodeIndex) -> Option<Image> {
        let host = self.hosts.get(&node.0)?;
        Some(Image { disk: host.disk.clone()?, stay: host.config.stay, address: host.address })
    }

    /// The state of a node that has moved and has sent nothing since, as it arrives at one more place: a checkpoint
    /// that is restored twice. `ahead` is how many numbers it has already used there.
    pub fn second_holder(&mut self, node: NodeIndex, ahead: u64) -> Option<Image> {
        let mut image = self.image(node)?;
        image.address = self.fresh_address();
        image.stay.lineage = Lineage(2);
        image.disk.moves((image.stay.generation.0 << LANE) + ahead);
        Some(image)
    }

    /// Starts the old state of a node that has moved at its old address, or a second holder at another address.
    ///
    /// Nothing passes between it and a node that has not met the identity at a later place, or has forgotten that:
    /// such a node may accept either.
    pub fn start_copy(&mut self, of: NodeIndex, image: Image) -> Option<NodeIndex> {
        let index = self.next_host;
        let now = self.clock(NodeIndex(index));
        let Image { disk, stay, address } = image;
        let original = self.hosts.get(&of.0)?;
        self.next_host += 1;
        let (secret, config) =
            (original.secret, exonet_proto::node::Config { stay, ..original.config.clone() });
        let boot = disk.boot();
        let seed = self.dice_of(NodeIndex(index)).bytes();
        let node = Node::new(config.clone(), SecretKey::from_bytes(secret), boot, seed, now);
        let mut host = Host::new(node, secret, config, address, Some(disk), self.now);
        host.is_copy = true;
        self.hosts.insert(index, host);
        self.owners.insert(address, index);
        self.copies.push(Copy { host: index, stay, since: self.ledger.steps() });
        self.coverage.copies += 1;
        self.checks.addresses.chosen(index, self.owners.keys().copied());
        self.greet(NodeIndex(index));
        Some(NodeIndex(index))
    }

    /// Ends the copies that run.
    pub(crate) fn end_copies(&mut self) {
        for copy in std::mem::take(&mut self.copies) {
            if let Some(host) = self.hosts.remove(&copy.host) {
                self.forget_timer(copy.host);
                self.forget(copy.host, &host.node);
            }
        }
    }

    /// Makes the node greet every peer that it knows.
    pub fn greet(&mut self, node: NodeIndex) {
        self.instruct(node, |node, now| {
            for peer in node.peers() {
                let _ = node.ping(now, peer, &[], 0);
            }
        });
    }

    /// Whether what a node made in step `made` must not reach a host. This is so if the host is a copy that started
    /// later: the node may have met the identity elsewhere only since then.
    pub(crate) fn is_too_old_for(&self, made: u64, host: usize) -> bool {
        self.copies.iter().any(|copy| copy.host == host && made <= copy.since)
    }

    /// Whether the world lets nothing pass between two hosts: one runs a copy of an identity, and the other could take
    /// the copy for the original. It could if it has not met the identity under a later generation, nor at another
    /// place under the same generation.
    pub(crate) fn is_kept_from(&self, one: usize, other: usize) -> bool {
        [(one, other), (other, one)].into_iter().any(|(copy, other)| {
            let Some(Copy { stay, .. }) = self.copies.iter().find(|it| it.host == copy) else {
                return false;
            };
            let (Some(copy), Some(other)) = (self.hosts.get(&copy), self.hosts.get(&other)) else {
                return true;
            };
            other.node.stay_of(&copy.node.id()).is_none_or(|met| {
                met.generation < stay.generation
                    || (met.generation == stay.generation && met.lineage == stay.lineage)
            })
        })
    }
}

/// The state of a copy of a machine.
#[derive(Clone, Debug)]
pub struct Image {
    disk: Disk,
    stay: Stay,
    address: core::net::SocketAddr,
}
