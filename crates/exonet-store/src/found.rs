//! The groups that earlier runs have left.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::format::{GROUP, Group, HEADER, Key, Owner, group_len};
use crate::scan::{Pieces, Scan};
use crate::trust::Trust;

/// The result of opening a journal.
#[derive(Debug)]
pub struct Found {
    /// Whether the groups are exactly those that were appended.
    pub trust: Trust,
    /// The number of runs of this journal, including this one.
    pub generation: u64,
    /// Whether nothing was ever appended, as far as earlier runs could know: there was no journal, or they left
    /// nothing.
    pub is_new: bool,
    /// The groups, a snapshot first. If the journal is not trusted, these are the groups of the old one, up to the
    /// first that is missing. They are found again until something is appended to the new one.
    pub groups: Groups,
}

/// A group that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundGroup<'a> {
    /// The LSN of the group; zero for the snapshot.
    pub lsn: u64,
    /// Whether the group lies before the snapshot, which depends on it: see [`crate::Storage::snapshot_keeping`].
    pub kept: bool,
    /// The bytes that were appended.
    pub bytes: &'a [u8],
}

/// The groups that were found, in order; a snapshot, if there is one, comes first. As an iterator, it yields the
/// groups that are not kept. It reads a group only when it is asked for it.
pub struct Groups(Box<dyn ReadGroups>);

/// Reads the groups that a store has found. A store makes [`Groups`] of this.
pub trait ReadGroups: Send {
    /// An upper limit of the number of bytes of all groups.
    fn bytes(&self) -> u64;

    /// Returns the next group: see [`Groups::next_found`].
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Io`].
    fn next_found(&mut self) -> Result<Option<FoundGroup<'_>>, StoreError>;

    /// Skips groups that are kept for the snapshot, if the snapshot was read or there is none.
    ///
    /// # Errors
    /// The errors of [`ReadGroups::next_found`].
    fn skip_kept(&mut self) -> Result<(), StoreError>;
}

/// The groups that the log of this crate has found.
pub(crate) struct LogGroups {
    /// The snapshot, and the number of bytes of its state.
    snapshot: Option<(PathBuf, Pieces, usize)>,
    snapshot_is_read: bool,
    /// The segments, and where the last group of each ends.
    parts: VecDeque<(PathBuf, Pieces, u64)>,
    at: u64,
    key: Option<Key>,
    bytes: u64,
    /// The groups up to this LSN lie before the snapshot, which depends on them.
    base: u64,
    /// While this exists, the segments are not reused.
    _reading: Arc<()>,
}

impl LogGroups {
    /// No groups.
    pub(crate) fn none(reading: &Arc<()>) -> Groups {
        let (snapshot, snapshot_is_read, parts, at, key) = (None, false, VecDeque::new(), 0, None);
        Groups::new(Self {
            snapshot,
            snapshot_is_read,
            parts,
            at,
            key,
            bytes: 0,
            base: 0,
            _reading: Arc::clone(reading),
        })
    }

    /// The groups in the files that `scan` has found.
    pub(crate) fn open(
        disk: &dyn Disk,
        owner: Owner,
        scan: &Scan,
        reading: &Arc<()>,
    ) -> Result<Groups, StoreError> {
        let mut snapshot = None;
        let mut bytes = scan.bytes.saturating_add(scan.kept);
        if let Some(base) = scan.base.filter(|base| base.len > 0) {
            let len = usize::try_from(base.len).map_err(|_| StoreError::TooLong { len: base.len })?;
            snapshot = open(disk, &scan.snapshot)?.map(|(path, pieces)| (path, pieces, len));
            bytes = bytes.saturating_add(base.len);
        }
        let mut parts = VecDeque::new();
        for live in &scan.live {
            parts.extend(open(disk, &live.name)?.map(|(path, pieces)| (path, pieces, live.end)));
        }
        let (at, key) = (HEADER as u64, Some(owner.key()));
        let (base, _reading) = (scan.base.map_or(0, |base| base.lsn), Arc::clone(reading));
        Ok(Groups::new(Self { snapshot, snapshot_is_read: false, parts, at, key, bytes, base, _reading }))
    }
}

impl ReadGroups for LogGroups {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn skip_kept(&mut self) -> Result<(), StoreError> {
        if self.snapshot.is_some() && !self.snapshot_is_read {
            return Ok(());
        }
        while let (Some((path, pieces, end)), Some(key)) = (self.parts.front_mut(), self.key) {
            if self.at >= *end {
                self.parts.pop_front();
                self.at = HEADER as u64;
                continue;
            }
            let head = pieces.get(self.at, GROUP).map_err(StoreError::io("read", path))?;
            let head = head.and_then(|head| head.first_chunk()).ok_or_else(|| changed(path))?;
            let group = Group::decode(key, head);
            if group.lsn > self.base {
                break;
            }
            self.at += group_len(u64::from(group.len));
        }
        Ok(())
    }

    fn next_found(&mut self) -> Result<Option<FoundGroup<'_>>, StoreError> {
        if self.snapshot_is_read {
            self.snapshot = None;
        }
        if let Some((path, pieces, len)) = &mut self.snapshot {
            self.snapshot_is_read = true;
            let state = pieces.get(HEADER as u64, *len).map_err(StoreError::io("read", path))?;
            let found = state.map(|bytes| FoundGroup { lsn: 0, kept: false, bytes });
            return found.map(Some).ok_or_else(|| changed(path));
        }
        while self.parts.front().is_some_and(|(_, _, end)| self.at >= *end) {
            self.parts.pop_front();
            self.at = HEADER as u64;
        }
        let (Some((path, pieces, _)), Some(key)) = (self.parts.front_mut(), self.key) else {
            return Ok(None);
        };
        let found = pieces.group(key, self.at).map_err(StoreError::io("read", path))?;
        let (group, body) = found.ok_or_else(|| changed(path))?;
        self.at += group_len(u64::from(group.len));
        Ok(Some(FoundGroup { lsn: group.lsn, kept: group.lsn <= self.base, bytes: body }))
    }
}

impl Groups {
    /// The groups that `reader` reads.
    pub fn new(reader: impl ReadGroups + 'static) -> Self {
        Self(Box::new(reader))
    }

    /// An upper limit of the number of bytes of all groups, and so of the memory that they need.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Returns the next group, without those that are kept for a snapshot. None at the end.
    ///
    /// # Errors
    /// The errors of [`Groups::next_found`].
    pub fn next_group(&mut self) -> Result<Option<&[u8]>, StoreError> {
        self.0.skip_kept()?;
        Ok(self.next_found()?.map(|found| found.bytes))
    }

    /// Returns the next group: first the snapshot, then the groups on which it depends, then those after it. None at
    /// the end.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the file has changed since the journal was opened, [`StoreError::Io`].
    pub fn next_found(&mut self) -> Result<Option<FoundGroup<'_>>, StoreError> {
        self.0.next_found()
    }
}

impl Iterator for Groups {
    type Item = Result<Vec<u8>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_group().map(|group| group.map(<[u8]>::to_vec)).transpose()
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Groups").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

fn changed(path: &std::path::Path) -> StoreError {
    StoreError::Corrupt { path: path.into(), what: "it has changed while it was read" }
}

fn open(disk: &dyn Disk, name: &str) -> Result<Option<(PathBuf, Pieces)>, StoreError> {
    let path = disk.path(name);
    let Some(file) = disk.open(name).map_err(StoreError::io("open", &path))? else {
        return Ok(None);
    };
    let pieces = Pieces::new(file).map_err(StoreError::io("read", &path))?;
    Ok(Some((path, pieces)))
}
