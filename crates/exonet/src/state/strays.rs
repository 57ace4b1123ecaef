//! The file of senders whose clocks are far ahead: the stamps of each that are refused.

use std::path::{Path, PathBuf};

use exonet_proto::node::Far;
use exonet_proto::{NodeId, Stamp};

use super::error::StateError;
use super::{disk, line};

pub(super) const FILE: &str = "strays";
const LABEL: &str = "exonet-stray-2";
/// Fingerprint of the key, node id, lowest stamp, highest.
const PAYLOAD: usize = 4 + 32 + 16;

/// One line for each sender; no file where there never was one.
pub(super) struct Strays {
    path: PathBuf,
    key: [u8; 4],
    found: Vec<(NodeId, Far)>,
}

impl Strays {
    pub(super) fn read(path: PathBuf, key: [u8; 4]) -> Result<Self, StateError> {
        disk::remove_leftover(&path)?;
        let found = if disk::exists(&path)? { read(&path, key)? } else { Vec::new() };
        Ok(Self { path, key, found })
    }

    pub(super) fn found(&self) -> &[(NodeId, Far)] {
        &self.found
    }

    pub(super) fn store(&self, strays: &[(NodeId, Far)]) -> Result<(), StateError> {
        let mut text = Vec::new();
        for (id, far) in strays {
            let mut payload = [0; PAYLOAD];
            let fields =
                self.key.into_iter().chain(id.0).chain(far.lo.0.to_be_bytes()).chain(far.hi.0.to_be_bytes());
            payload.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
            text.extend_from_slice(&line::encode(LABEL, &payload));
        }
        disk::replace(&self.path, &text)
    }
}

fn read(path: &Path, key: [u8; 4]) -> Result<Vec<(NodeId, Far)>, StateError> {
    let text = std::fs::read(path).map_err(StateError::io("read", path))?;
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.map(|text| parse(path, key, text)).collect()
}

fn parse(path: &Path, key: [u8; 4], text: &[u8]) -> Result<(NodeId, Far), StateError> {
    let corrupt = |what| StateError::CorruptClock { path: path.into(), what };
    let payload = line::decode::<PAYLOAD>(LABEL, text).map_err(|error| match error {
        line::LineError::Version => StateError::Version { path: path.into() },
        line::LineError::Malformed(what) => corrupt(what),
    })?;
    let parts = payload.split_first_chunk::<4>().and_then(|(owner, rest)| {
        let (id, rest) = rest.split_first_chunk::<32>()?;
        let (lo, rest) = rest.split_first_chunk::<8>()?;
        Some((owner, id, lo, rest.first_chunk::<8>()?))
    });
    let (owner, id, lo, hi) = parts.ok_or_else(|| corrupt("wrong length"))?;
    if *owner != key {
        return Err(StateError::Mismatch { path: path.into() });
    }
    let [lo, hi] = [lo, hi].map(|ts| Stamp(u64::from_be_bytes(*ts)));
    Ok((NodeId(*id), Far { lo, hi }))
}
