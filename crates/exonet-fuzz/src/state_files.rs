//! A state directory with damaged files: opening it gives an error and changes nothing, or gives what the files say,
//! to the byte.

use std::fs;
use std::path::Path;

use arbitrary::Arbitrary;
use exonet::state::StateDir;

use crate::ops::ops;

/// The damage to one of the two files between two starts.
#[derive(Debug, Arbitrary)]
struct Damage<'a> {
    key: bool,
    edit: Edit<'a>,
}

#[derive(Debug, Arbitrary)]
enum Edit<'a> {
    Set {
        at: u8,
        to: u8,
    },
    Digit {
        at: u8,
        to: u8,
    },
    Cut {
        at: u8,
    },
    Insert {
        at: u8,
        byte: u8,
    },
    Append(&'a [u8]),
    Replace(&'a [u8]),
    /// Copies the content of the other file.
    Copy,
    Remove,
}

/// Edits the two files of an identity; the directory is opened afterwards.
pub fn state_files(data: &[u8]) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("identity");
    let Some((choice, edits)) = data.split_first() else { return };
    let mut record = {
        let dir = StateDir::create(&path, &[*choice; 32]).unwrap();
        let mut record = dir.load();
        if choice & 1 == 1 {
            record.d = u64::from(*choice) << 20;
            record.latest = u64::from(*choice);
            dir.store(record).unwrap();
        }
        record
    };
    let genuine = (read(&path, true), read(&path, false));
    let (mut key, mut clock) = genuine.clone();
    for Damage { key: hits_key, edit } in ops(edits, 8) {
        let (hit, other) = if hits_key { (&mut key, &clock) } else { (&mut clock, &key) };
        edit.apply(hit, other.as_deref());
    }
    write(&path, true, key.as_deref());
    write(&path, false, clock.as_deref());
    match StateDir::open(&path) {
        Ok(dir) => {
            assert_eq!((&key, &clock), (&genuine.0, &genuine.1), "damage went unseen");
            assert_eq!((dir.load(), **dir.secret()), (record, [*choice; 32]));
            record.d += 1;
            dir.store(record).unwrap();
        }
        Err(_) => assert!(key != genuine.0 || clock != genuine.1, "nothing was damaged"),
    }
    if (&key, &clock) != (&genuine.0, &genuine.1) {
        assert_eq!((read(&path, true), read(&path, false)), (key, clock), "a refused file was changed");
    }
}

fn name(key: bool) -> &'static str {
    if key { "key" } else { "clock" }
}

fn read(path: &Path, key: bool) -> Option<Vec<u8>> {
    fs::read(path.join(name(key))).ok()
}

/// Writes the file in place, so that its mode stays.
fn write(path: &Path, key: bool, text: Option<&[u8]>) {
    let path = path.join(name(key));
    match text {
        Some(text) => fs::write(path, text).unwrap(),
        None => fs::remove_file(path).unwrap(),
    }
}

impl Edit<'_> {
    fn apply(&self, file: &mut Option<Vec<u8>>, other: Option<&[u8]>) {
        if matches!(self, Self::Remove) {
            *file = None;
        }
        let Some(text) = file else { return };
        match *self {
            Self::Set { at, to } => set(text, at, to),
            Self::Digit { at, to } => set(text, at, b"0123456789abcdef"[usize::from(to % 16)]),
            Self::Cut { at } => text.truncate(at.into()),
            Self::Insert { at, byte } => text.insert(usize::from(at).min(text.len()), byte),
            Self::Append(bytes) => text.extend_from_slice(bytes),
            Self::Replace(bytes) => *text = bytes.to_vec(),
            Self::Copy => *text = other.unwrap_or_default().to_vec(),
            Self::Remove => {}
        }
    }
}

fn set(text: &mut [u8], at: u8, to: u8) {
    if let Some(byte) = text.get_mut(usize::from(at)) {
        *byte = to;
    }
}
