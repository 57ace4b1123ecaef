//! The file of the early messages that a node without a journal has taken (PROTOCOL.md, "Early messages").
//!
//! The node writes the file before the application gets the message, and never forces it: the file is for the next
//! life after the process has died. Its first line names the boot of the machine and the life that wrote it. A file
//! of another boot, or of an earlier life, may be incomplete. Then it is ignored, and everything up to `latest`
//! counts as forgotten.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use exonet_proto::node::{Hull, Notes, Taken};
use exonet_proto::{NodeId, Slot, Stamp};
use exonet_store::boot_id;

use super::error::StateError;
use super::{disk, line};

pub(super) const FILE: &str = "early";
const HEAD: &str = "exonet-early-1";
/// The bytes of the payload of the first line: fingerprint of the key, boot of the machine, life, hull.
const HEAD_PAYLOAD: usize = 4 + 16 + 8 + 16;
const TAKEN: &str = "exonet-taken-1";
/// The bytes of the payload of the other lines: node id, stamp, end.
const TAKEN_PAYLOAD: usize = 32 + 16;

/// Identifies a boot of the machine.
type BootId = [u8; 16];

/// The file that this life writes.
pub(super) struct NotesFile {
    path: PathBuf,
    key: [u8; 4],
    /// None: this system has no such id, so no file is trusted.
    boot: Option<BootId>,
    /// The number of this life.
    life: u64,
    /// The notes of the previous life.
    found: Option<Notes>,
    file: Option<File>,
}

impl NotesFile {
    /// Reads the file. `last` is the last life whose clock is durable.
    pub(super) fn read(path: PathBuf, key: [u8; 4], last: u64) -> Self {
        Self::read_at(path, key, last, boot_id())
    }

    fn read_at(path: PathBuf, key: [u8; 4], last: u64, boot: Option<BootId>) -> Self {
        // A life that died before its clock was durable has taken nothing, and has not changed the file that it
        // found.
        let lives = [last, last.saturating_add(1)];
        let found = boot.and_then(|boot| parse(&fs::read(&path).ok()?, key, boot, lives));
        Self { path, key, boot, life: last.saturating_add(1), found, file: None }
    }

    pub(super) fn found(&self) -> Option<&Notes> {
        self.found.as_ref()
    }

    /// Writes notes. When this returns, they survive the death of the process. If it fails, the earlier notes are no
    /// longer trusted.
    pub(super) fn write(&mut self, notes: &Notes) -> Result<(), StateError> {
        let Some(boot) = self.boot else { return Ok(()) };
        self.try_write(boot, notes).or_else(|error| {
            self.file = None;
            self.boot = None;
            match fs::remove_file(&self.path) {
                Err(left) if left.kind() != io::ErrorKind::NotFound => {
                    Err(StateError::io("write", &self.path)(error))
                }
                _ => Ok(()),
            }
        })
    }

    fn try_write(&mut self, boot: BootId, notes: &Notes) -> io::Result<()> {
        let mut text = Vec::new();
        if let Some(hull) = notes.hull {
            let fields = self.key.into_iter().chain(boot).chain(self.life.to_be_bytes());
            let fields = fields.chain(hull.above.0.to_be_bytes()).chain(hull.upto.0.to_be_bytes());
            text.extend_from_slice(&line::encode(HEAD, &filled::<HEAD_PAYLOAD>(fields)));
        }
        for (id, Taken { ts, end }) in &notes.taken {
            let fields = id.0.into_iter().chain(ts.0.to_be_bytes()).chain(end.0.to_be_bytes());
            text.extend_from_slice(&line::encode(TAKEN, &filled::<TAKEN_PAYLOAD>(fields)));
        }
        if notes.hull.is_some() {
            self.file = Some(disk::put(&self.path, &text)?);
            return Ok(());
        }
        // Notes without a hull follow others of this life, so the file is open.
        self.file.as_mut().ok_or(io::ErrorKind::NotFound)?.write_all(&text)
    }
}

fn filled<const N: usize>(fields: impl Iterator<Item = u8>) -> [u8; N] {
    let mut payload = [0; N];
    payload.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
    payload
}

/// Reads the notes, if they are complete. None: some may be lost.
fn parse(text: &[u8], key: [u8; 4], boot: BootId, lives: [u64; 2]) -> Option<Notes> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let head = line::decode::<HEAD_PAYLOAD>(HEAD, lines.next()?).ok()?;
    let (owner, rest) = head.split_first_chunk::<4>()?;
    let (of, rest) = rest.split_first_chunk::<16>()?;
    let (life, rest) = number(rest)?;
    let (above, rest) = number(rest)?;
    let (upto, _) = number(rest)?;
    if *owner != key || *of != boot || !lives.contains(&life) {
        return None;
    }
    let hull = Hull { above: Stamp(above), upto: Stamp(upto) };
    let mut taken = Vec::new();
    for line in lines {
        // The process died while it wrote this line, so the application did not have this message.
        if !line.ends_with(b"\n") {
            break;
        }
        let payload = line::decode::<TAKEN_PAYLOAD>(TAKEN, line).ok()?;
        let (id, rest) = payload.split_first_chunk::<32>()?;
        let (ts, rest) = number(rest)?;
        let (end, _) = number(rest)?;
        taken.push((NodeId(*id), Taken { ts: Stamp(ts), end: Slot(end) }));
    }
    Some(Notes { hull: Some(hull), taken })
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const KEY: [u8; 4] = [1, 2, 3, 4];
    const BOOT: Option<BootId> = Some([9; 16]);

    fn note(n: u8) -> (NodeId, Taken) {
        (NodeId([n; 32]), Taken { ts: Stamp(u64::from(n)), end: Slot(7) })
    }

    fn all(taken: Vec<(NodeId, Taken)>) -> Notes {
        Notes { hull: Some(Hull { above: Stamp(2), upto: Stamp(5) }), taken }
    }

    /// Writes a file as life 3 would.
    fn written(path: &Path) {
        let mut file = NotesFile::read_at(path.into(), KEY, 2, BOOT);
        assert_eq!(file.found(), None);
        file.write(&all(vec![note(1)])).unwrap();
        file.write(&Notes { hull: None, taken: vec![note(2), note(3)] }).unwrap();
    }

    #[test]
    fn the_life_after_the_death_of_a_process_finds_what_was_noted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        written(&path);
        let found = |key, last, boot| NotesFile::read_at(path.clone(), key, last, boot).found().cloned();
        let whole = Some(all(vec![note(1), note(2), note(3)]));
        assert_eq!(found(KEY, 3, BOOT), whole);
        assert_eq!(found(KEY, 2, BOOT), whole, "its clock was not durable yet");
        assert_eq!(found(KEY, 4, BOOT), None, "a later life has written nothing here");
        assert_eq!(found(KEY, 3, Some([8; 16])), None, "the machine has started again");
        assert_eq!(found(KEY, 3, None), None, "nobody knows whether it has");
        assert_eq!(found([0; 4], 3, BOOT), None, "of another identity");
    }

    #[test]
    fn what_is_cut_short_was_had_by_nobody_and_what_is_damaged_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        written(&path);
        let text = fs::read(&path).unwrap();
        let found = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            NotesFile::read_at(path.clone(), KEY, 3, BOOT).found().cloned()
        };
        assert_eq!(found(&text[..text.len() - 5]), Some(all(vec![note(1), note(2)])));
        let mut damaged = text.clone();
        let at = text.len() - 30;
        damaged[at] = if text[at] == b'0' { b'1' } else { b'0' };
        assert_eq!(found(&damaged), None);
        assert_eq!(found(b""), None);
    }

    #[test]
    fn notes_that_cannot_be_written_are_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        written(&path);
        let mut file = NotesFile::read_at(path.clone(), KEY, 3, BOOT);
        // These notes would follow notes that this life has not written, so the file could not be trusted.
        file.write(&Notes { hull: None, taken: vec![note(4)] }).unwrap();
        assert!(!path.exists());
        file.write(&all(vec![note(4)])).unwrap();
        assert!(!path.exists(), "something was lost in this life");
    }
}
