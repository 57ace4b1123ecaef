//! The nodes that a stored identity found under each name. The file is kept across restarts, and moves with the
//! identity.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use exonet_proto::NodeId;

use super::disk;
use super::error::StateError;
use crate::naming::Name;

/// The folder. Everything in it moves.
pub(super) const DIR: &str = "pins";
/// The file: a name and an id on each line.
const FILE: &str = "names";
/// The longest file, in bytes.
const LONGEST: u64 = 4 << 20;

fn file(of: &Path) -> PathBuf {
    of.join(DIR).join(FILE)
}

pub(super) fn read(of: &Path) -> Result<BTreeMap<Name, NodeId>, StateError> {
    let path = file(of);
    let damaged = || StateError::CorruptPins { path: path.clone() };
    match fs::metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(StateError::io("inspect", &path)(error)),
        Ok(about) if about.len() > LONGEST => return Err(damaged()),
        Ok(_) => {}
    }
    let text = fs::read(&path).map_err(StateError::io("read", &path))?;
    let text = String::from_utf8(text).map_err(|_| damaged())?;
    let read = |line: &str| {
        let (name, id) = line.split_once(' ')?;
        Some((name.parse().ok()?, id.parse().ok()?))
    };
    text.lines().map(|line| read(line).ok_or_else(damaged)).collect()
}

/// Writes `pins` to the file; they are durable when this returns.
pub(super) fn write(of: &Path, pins: &BTreeMap<Name, NodeId>) -> Result<(), StateError> {
    disk::create_dirs(&of.join(DIR))?;
    let text: String = pins.iter().map(|(name, id)| format!("{name} {id}\n")).collect();
    disk::replace(&file(of), text.as_bytes())
}
