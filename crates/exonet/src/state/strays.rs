//! The file of senders whose clocks are far ahead, with the refused stamps of each.

use std::path::{Path, PathBuf};

use exonet_proto::node::Far;
use exonet_proto::{NodeId, Stamp};

use super::error::StateError;
use super::{disk, line};

pub(super) const FILE: &str = "strays";
const LABEL: &str = "exonet-stray-2";
/// The label of lines of earlier releases. Such a line has only the highest stamp: all stamps up to it were refused.
const FIRST: &str = "exonet-stray-1";
/// The bytes of the payload: fingerprint of the key, node id, lowest stamp, highest stamp.
const PAYLOAD: usize = 4 + 32 + 16;
const FIRST_PAYLOAD: usize = 4 + 32 + 8;

/// The file: one line for each sender. It does not exist if there never was one.
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
    let wrong = |error: line::LineError| error.of(path, corrupt);
    let payload = if text.starts_with(FIRST.as_bytes()) {
        let first = line::decode::<FIRST_PAYLOAD>(FIRST, text).map_err(wrong)?;
        let (lead, hi) = first.split_at(4 + 32);
        let fields = lead.iter().chain(&[0; 8]).chain(hi);
        let mut payload = [0; PAYLOAD];
        payload.iter_mut().zip(fields).for_each(|(to, from)| *to = *from);
        payload.into()
    } else {
        line::decode::<PAYLOAD>(LABEL, text).map_err(wrong)?
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_releases_before_wrote_is_read_and_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (path, key, id) = (dir.path().join(FILE), [7; 4], NodeId([9; 32]));
        let payload: Vec<u8> = key.into_iter().chain(id.0).chain(5_u64.to_be_bytes()).collect();
        std::fs::write(&path, line::encode(FIRST, &payload)).unwrap();
        let expected = [(id, Far { lo: Stamp(0), hi: Stamp(5) })];
        let strays = Strays::read(path.clone(), key).unwrap();
        assert_eq!(strays.found(), expected, "all up to that stamp were refused");
        strays.store(&expected).unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(LABEL.as_bytes()));
        assert_eq!(Strays::read(path.clone(), key).unwrap().found(), expected);
        std::fs::write(&path, line::encode("exonet-stray-3", &payload)).unwrap();
        assert!(matches!(Strays::read(path, key), Err(StateError::Version { .. })));
    }
}
