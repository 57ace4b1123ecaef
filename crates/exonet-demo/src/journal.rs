//! A journal in memory, which outlives the process.

use exonet_proto::Now;
use exonet_proto::node::{Durability, Node, Recovered};

/// A snapshot replaces the groups when they have at least this many bytes, and twice the size of the last snapshot.
const LONG: usize = 64 << 10;

#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    snapshot: Vec<u8>,
    /// The groups after the snapshot, which includes the groups up to `base`.
    groups: Vec<Vec<u8>>,
    base: u64,
    grown: usize,
}

impl Journal {
    /// The journal as a process finds it at its start. A journal that cannot be read counts as lost.
    pub(crate) fn found(&self) -> (Durability, Box<Recovered>) {
        (Durability::Written, Box::new(self.read().unwrap_or_default()))
    }

    fn read(&self) -> Option<Recovered> {
        let mut found = Recovered::default();
        found.add_group(0, &self.snapshot).ok()?;
        let mut group = self.base;
        for records in &self.groups {
            group += 1;
            found.add_group(group, records).ok()?;
        }
        found.finish(group).ok()
    }

    /// Stores what the node has written since the last call, before anything leaves that depends on it.
    pub(crate) fn append(&mut self, node: &mut Node, now: Now) {
        while let Some(append) = node.poll_journal() {
            let (through, records) = (append.through, append.to_vec());
            self.grown += records.len();
            self.groups.push(records);
            node.handle_journaled(now, through);
        }
        if self.grown > LONG + 2 * self.snapshot.len() {
            self.base += self.groups.len() as u64;
            self.snapshot = node.snapshot(now);
            self.groups.clear();
            self.grown = 0;
        }
    }
}
