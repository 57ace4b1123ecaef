//! A journal in memory: what a process that is killed finds again.

use exonet_proto::Now;
use exonet_proto::node::{Durability, Node, Recovered};

/// A snapshot replaces the groups once they have so many bytes, and twice what the last one had.
const LONG: usize = 64 << 10;

#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    snapshot: Vec<u8>,
    /// Behind the snapshot, which stands for those up to `base`.
    groups: Vec<Vec<u8>>,
    base: u64,
    grown: usize,
}

impl Journal {
    /// What a start finds. A journal that cannot be read counts as one that is lost.
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

    /// Keeps what the node has written since, before anything that depends on it leaves.
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
