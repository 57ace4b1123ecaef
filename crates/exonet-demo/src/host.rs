//! A machine: the process of a node, and the disk that outlives it.

use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{Batch, Boot, Config, Far, Node, Policy};
use exonet_proto::{Mono, NodeId, Now, Stamp};

use core::time::Duration;

use crate::journal::Journal;

/// What a killed process leaves behind, besides its key and the bound of the numbers that it has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Its journal.
    Journal,
    /// Nothing.
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Host {
    /// None: no process runs.
    pub(crate) node: Option<Node>,
    pub(crate) id: NodeId,
    secret: [u8; 32],
    clock: u64,
    life: u64,
    latest: Stamp,
    strays: Vec<(NodeId, Far)>,
    pub(crate) journal: Journal,
    /// When a dead process starts again.
    pub(crate) starts: Option<Mono>,
    pub(crate) kills: u32,
}

/// The defaults, except that a quiet pair forgets each other soon enough for a user to see it.
fn config() -> Config {
    Config {
        sender_linger: Duration::from_secs(3),
        idle_timeout: Duration::from_secs(8),
        ..Config::new(Policy::Anyone)
    }
}

impl Host {
    pub(crate) fn new(secret: [u8; 32], seed: [u8; 32], now: Now) -> Self {
        let mut this = Self {
            node: None,
            id: SecretKey::from_bytes(secret).node_id(),
            secret,
            clock: 0,
            life: 0,
            latest: Stamp::NONE,
            strays: Vec::new(),
            journal: Journal::default(),
            starts: None,
            kills: 0,
        };
        this.start(seed, now);
        this
    }

    /// A process starts with the content of the disk.
    pub(crate) fn start(&mut self, seed: [u8; 32], now: Now) {
        let boot = Boot::Stored {
            clock: self.clock,
            life: self.life,
            latest: self.latest,
            strays: self.strays.clone(),
            notes: None,
            journal: Some(self.journal.found()),
        };
        self.starts = None;
        self.node = Some(Node::new(config(), SecretKey::from_bytes(self.secret), boot, seed, now));
    }

    /// The process dies, and starts again at `again`.
    pub(crate) fn kill(&mut self, leaves: Memory, again: Mono) {
        self.node = None;
        self.starts = Some(again);
        self.kills += 1;
        if leaves == Memory::Nothing {
            self.journal = Journal::default();
        }
    }

    /// Stores at once what must be on the disk before anything else happens.
    pub(crate) fn keep(&mut self, batch: Batch) {
        (self.clock, self.life, self.latest) = (batch.clock, batch.life, batch.latest);
        if let Some(strays) = batch.strays {
            self.strays = strays.into_vec();
        }
    }
}
