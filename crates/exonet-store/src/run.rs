//! The small file that says how the last run of this journal began and ended. It is always forced.

use std::path::Path;

use crate::Level;
use crate::disk::{self, Disk};
use crate::error::StoreError;
use crate::trust::Reason;

pub(crate) const FILE: &str = "run";
const LABEL: &str = "exonet-journal-1";
/// The bytes of its payload: identity, generation, log, log aside, level, state, reason, boot id, LSN, checksum.
const PAYLOAD: usize = 32 + 8 + 8 + 8 + 1 + 1 + 1 + 16 + 8 + 4;
const TEXT: usize = LABEL.len() + 1 + 2 * PAYLOAD + 1 + 8 + 1;
/// The reasons in the order of their codes, from 1.
const REASONS: [Reason; 6] = [
    Reason::Rebooted,
    Reason::SyncFailed,
    Reason::PagesLost,
    Reason::CutShort,
    Reason::RolledBack,
    Reason::NoRun,
];
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// How a run ended, as far as it could note that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It has noted nothing: it still runs, or was killed.
    Not,
    /// It forced everything, and nothing followed.
    Clean,
    /// The operating system could not force bytes that it had accepted.
    Failed,
}

/// The content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) identity: [u8; 32],
    /// The number of runs of this journal, including this one.
    pub(crate) generation: u64,
    /// The generation in which the current log began.
    pub(crate) log: u64,
    /// The last log that was put aside because it was not trusted; 0 if there is none.
    pub(crate) aside: u64,
    pub(crate) level: Level,
    pub(crate) ended: Ended,
    /// Why the log before this one was not trusted, if there was one.
    pub(crate) reason: Option<Reason>,
    /// The id of the system's boot.
    pub(crate) boot: Option<[u8; 16]>,
    /// The LSN of the last group that was certainly on disk when this was written.
    pub(crate) lsn: u64,
    /// The checksum of that group, or of the snapshot that replaces it.
    pub(crate) check: u32,
}

impl Run {
    /// Reads what the last run wrote; None if there was none.
    pub(crate) fn read(disk: &dyn Disk, identity: &[u8; 32]) -> Result<Option<Self>, StoreError> {
        let path = disk.path(FILE);
        let Some(file) = disk.open(FILE).map_err(StoreError::io("open", &path))? else {
            return Ok(None);
        };
        let mut text = [0; TEXT + 1];
        let len = disk::read_full(&*file, 0, &mut text).map_err(StoreError::io("read", &path))?;
        let run = Self::decode(&path, text.get(..len).unwrap_or(&[]))?;
        if run.identity == *identity { Ok(Some(run)) } else { Err(StoreError::Identity { path }) }
    }

    /// Writes this as the content of the file; it is durable when this returns.
    pub(crate) fn write(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        disk::replace(disk, FILE, &[&self.encode()])
    }

    fn encode(&self) -> Vec<u8> {
        let (level, ended) = (level_code(self.level), ended_code(self.ended));
        let reason = REASONS.iter().position(|it| Some(*it) == self.reason).map_or(0, |at| at + 1);
        let boot = self.boot.unwrap_or_default();
        let mut payload = self.identity.to_vec();
        payload.extend(self.generation.to_be_bytes());
        payload.extend(self.log.to_be_bytes());
        payload.extend(self.aside.to_be_bytes());
        payload.extend([level, ended, u8::try_from(reason).unwrap_or(0)]);
        payload.extend(boot);
        payload.extend(self.lsn.to_be_bytes());
        payload.extend(self.check.to_be_bytes());
        let mut text = LABEL.as_bytes().to_vec();
        text.push(b' ');
        push_hex(&mut text, &payload);
        let sum = crc32c::crc32c(&text);
        text.push(b' ');
        push_hex(&mut text, &sum.to_be_bytes());
        text.push(b'\n');
        text
    }

    fn decode(path: &Path, text: &[u8]) -> Result<Self, StoreError> {
        let corrupt = |what| StoreError::Corrupt { path: path.into(), what };
        if !text.starts_with(LABEL.as_bytes()) {
            let kind = LABEL.trim_end_matches(|c: char| c.is_ascii_digit()).as_bytes();
            return Err(match text.strip_prefix(kind) {
                Some([b'0'..=b'9', ..]) => StoreError::Version { path: path.into() },
                _ => corrupt("not in the form of this file"),
            });
        }
        if text.len() != TEXT {
            return Err(corrupt(if text.len() < TEXT { "cut short" } else { "too long" }));
        }
        let (covered, sum) = text.split_at_checked(TEXT - 10).ok_or(corrupt("cut short"))?;
        let sum = sum.strip_prefix(b" ").and_then(|sum| sum.strip_suffix(b"\n")).and_then(parse_hex::<4>);
        if sum != Some(crc32c::crc32c(covered).to_be_bytes()) {
            return Err(corrupt("the checksum does not match"));
        }
        let payload = covered.get(LABEL.len() + 1..).and_then(parse_hex::<PAYLOAD>);
        payload.and_then(|payload| Self::parse(&payload)).ok_or(corrupt("a field is out of range"))
    }

    fn parse(payload: &[u8; PAYLOAD]) -> Option<Self> {
        let (identity, rest) = payload.split_first_chunk::<32>()?;
        let (generation, rest) = rest.split_first_chunk::<8>()?;
        let (log, rest) = rest.split_first_chunk::<8>()?;
        let (aside, rest) = rest.split_first_chunk::<8>()?;
        let ([level, ended, reason], rest) = rest.split_first_chunk::<3>()?;
        let (boot, rest) = rest.split_first_chunk::<16>()?;
        let (lsn, rest) = rest.split_first_chunk::<8>()?;
        let check = rest.first_chunk::<4>()?;
        Some(Self {
            identity: *identity,
            generation: u64::from_be_bytes(*generation),
            log: u64::from_be_bytes(*log),
            aside: u64::from_be_bytes(*aside),
            level: [Level::Process, Level::Batched, Level::Sync]
                .into_iter()
                .find(|it| level_code(*it) == *level)?,
            ended: [Ended::Not, Ended::Clean, Ended::Failed]
                .into_iter()
                .find(|it| ended_code(*it) == *ended)?,
            reason: match usize::from(*reason).checked_sub(1) {
                Some(at) => Some(*REASONS.get(at)?),
                None => None,
            },
            boot: Some(*boot).filter(|boot| *boot != [0; 16]),
            lsn: u64::from_be_bytes(*lsn),
            check: u32::from_be_bytes(*check),
        })
    }
}

const fn level_code(level: Level) -> u8 {
    match level {
        Level::Process => 0,
        Level::Batched => 1,
        Level::Sync => 2,
    }
}

const fn ended_code(ended: Ended) -> u8 {
    match ended {
        Ended::Not => 0,
        Ended::Clean => 1,
        Ended::Failed => 2,
    }
}

fn push_hex(text: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.extend(DIGITS.get(usize::from(digit)));
        }
    }
}

fn parse_hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let (pairs, []) = text.as_chunks::<2>() else {
        return None;
    };
    if pairs.len() != N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn digit(c: u8) -> Option<u8> {
    match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run {
            identity: [7; 32],
            generation: 3,
            log: 2,
            aside: 1,
            level: Level::Batched,
            ended: Ended::Clean,
            reason: Some(Reason::NoRun),
            boot: Some([5; 16]),
            lsn: 77,
            check: 99,
        }
    }

    #[test]
    fn what_was_written_is_read_and_any_changed_byte_is_noticed() {
        let text = run().encode();
        assert_eq!(text.len(), TEXT);
        assert_eq!(Run::decode(Path::new("x"), &text).unwrap(), run());
        for at in 0..text.len() {
            let mut text = text.clone();
            text[at] ^= 1;
            assert!(Run::decode(Path::new("x"), &text).is_err(), "{at}");
            assert!(Run::decode(Path::new("x"), &text[..at]).is_err(), "{at}");
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let text = String::from_utf8(run().encode()).unwrap().replace("journal-1", "journal-2");
        assert!(matches!(Run::decode(Path::new("x"), text.as_bytes()), Err(StoreError::Version { .. })));
    }
}
