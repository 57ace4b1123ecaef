//! The durable record `{D, life, latest}`, and the file that has it.

use std::path::{Path, PathBuf};

use exonet_proto::MAX_NUMBER;

use super::error::StateError;
use super::{disk, line};

pub(super) const FILE: &str = "clock";
const LABEL: &str = "exonet-clock-2";
/// The bytes of its payload: fingerprint of the key, D, life, latest.
const PAYLOAD: usize = 4 + 8 + 8 + 8;

/// What a node must never forget: the limits below which numbers and stamps may already be in use. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockRecord {
    /// D: every number that this node has asked for or given out is below D. After a crash, the node continues from
    /// D. At most [`MAX_NUMBER`].
    pub d: u64,
    /// How many times the node has started: 0 before the first time. It distinguishes the channels of different
    /// lives.
    pub life: u64,
    /// No stamp under which this node has granted or accepted anything is later than this. 0 before the first.
    pub latest: u64,
}

impl ClockRecord {
    fn is_below(self, other: Self) -> bool {
        self.d < other.d || self.life < other.life || self.latest < other.latest
    }
}

/// The file, and what is known of its content.
pub(super) struct Clock {
    path: PathBuf,
    /// Binds the file to its key: the clock of another identity says nothing about this one.
    key: [u8; 4],
    durable: ClockRecord,
    /// The largest record that may be on disk. It is above `durable` after a write that failed half-way.
    floor: ClockRecord,
}

impl Clock {
    pub(super) fn create(path: PathBuf, key: [u8; 4]) -> Result<Self, StateError> {
        let record = ClockRecord::default();
        disk::replace(&path, &encode(key, record))?;
        Ok(Self { path, key, durable: record, floor: record })
    }

    pub(super) fn read(path: PathBuf, key: [u8; 4]) -> Result<Self, StateError> {
        let (owner, record) = read(&path)?;
        if owner != key {
            return Err(StateError::Mismatch { path });
        }
        Ok(Self { path, key, durable: record, floor: record })
    }

    pub(super) fn durable(&self) -> ClockRecord {
        self.durable
    }

    pub(super) fn store(&mut self, record: ClockRecord) -> Result<(), StateError> {
        if record.is_below(self.floor) {
            let path = self.path.clone();
            return Err(StateError::Backwards { path, floor: self.floor, refused: record });
        }
        if record.d > MAX_NUMBER {
            return Err(StateError::Exhausted { path: self.path.clone() });
        }
        self.floor = record;
        disk::replace(&self.path, &encode(self.key, record))?;
        self.durable = record;
        Ok(())
    }
}

/// Whether the record at `path` is that of a new identity, which has given out no number. A record that cannot be
/// read counts as used.
pub(super) fn is_unused(path: &Path) -> Result<bool, StateError> {
    match read(path) {
        Ok((_, record)) => Ok(record == ClockRecord::default()),
        Err(error @ StateError::Io { .. }) => Err(error),
        Err(_) => Ok(false),
    }
}

fn read(path: &Path) -> Result<([u8; 4], ClockRecord), StateError> {
    let corrupt = |what| StateError::CorruptClock { path: path.into(), what };
    let payload = line::read::<PAYLOAD>(path, LABEL, corrupt)?;
    let (key, record) = split(&payload).ok_or_else(|| corrupt("wrong length"))?;
    if record.d > MAX_NUMBER {
        return Err(corrupt("D is out of range"));
    }
    Ok((key, record))
}

/// The content of the file.
pub(super) fn encode(key: [u8; 4], record: ClockRecord) -> zeroize::Zeroizing<Vec<u8>> {
    let mut payload = [0; PAYLOAD];
    let numbers = [record.d, record.life, record.latest];
    let fields = key.into_iter().chain(numbers.into_iter().flat_map(u64::to_be_bytes));
    payload.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
    line::encode(LABEL, &payload)
}

fn split(payload: &[u8; PAYLOAD]) -> Option<([u8; 4], ClockRecord)> {
    let (key, rest) = payload.split_first_chunk::<4>()?;
    let (d, rest) = rest.split_first_chunk::<8>()?;
    let (life, rest) = rest.split_first_chunk::<8>()?;
    let (latest, _) = rest.split_first_chunk::<8>()?;
    let [d, life, latest] = [d, life, latest].map(|bytes| u64::from_be_bytes(*bytes));
    Some((*key, ClockRecord { d, life, latest }))
}
