//! The content of a load.

use std::path::{Component, Path, PathBuf};

use exonet_proto::node::Far;
use exonet_proto::{MAX_NUMBER, NodeId, Stamp};
use zeroize::Zeroizing;

use super::{Attempt, FOLDERS, checkpoint};
use crate::state::clock::ClockRecord;
use crate::state::error::StateError;

/// The first bytes of the content of a load.
const LOAD: &[u8; 20] = b"exonet-checkpoint-2\n";

/// A file: what was sent ahead, then `bytes`, then zeros.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) len: u64,
    /// None: nothing was sent ahead.
    pub(super) ahead: Option<Carried>,
    pub(super) bytes: Vec<u8>,
}

/// The first bytes of a file, which were sent ahead of the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) len: u64,
    pub(super) digest: [u8; 32],
}

#[derive(Debug)]
pub(super) struct Content {
    pub(super) id: NodeId,
    pub(super) attempt: Attempt,
    pub(super) generation: u64,
    /// A fingerprint, by which the files of this identity differ from those of others.
    pub(super) fingerprint: [u8; 4],
    pub(super) clock: ClockRecord,
    pub(super) strays: Vec<(NodeId, Far)>,
    pub(super) files: Vec<(PathBuf, Kept)>,
    pub(super) application: Zeroizing<Vec<u8>>,
}

impl Content {
    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let bodies: usize = self.files.iter().map(|(_, file)| file.bytes.len() + 128).sum();
        let mut out = Zeroizing::new(Vec::with_capacity(1_024 + bodies + self.application.len()));
        out.extend_from_slice(LOAD);
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.attempt.0);
        out.extend_from_slice(&self.fingerprint);
        let ClockRecord { d, life, latest } = self.clock;
        for number in [self.generation, d, life, latest, self.strays.len() as u64] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for (id, far) in &self.strays {
            out.extend_from_slice(&id.0);
            out.extend_from_slice(&far.lo.0.to_be_bytes());
            out.extend_from_slice(&far.hi.0.to_be_bytes());
        }
        out.extend_from_slice(&(self.files.len() as u64).to_be_bytes());
        for (name, file) in &self.files {
            // The names are those of this library, so they are plain ASCII.
            put(&mut out, name.to_string_lossy().as_bytes());
            out.extend_from_slice(&file.len.to_be_bytes());
            let ahead = file.ahead.unwrap_or(Carried { len: 0, digest: [0; 32] });
            out.extend_from_slice(&ahead.len.to_be_bytes());
            out.extend_from_slice(&ahead.digest);
            put(&mut out, &file.bytes);
        }
        put(&mut out, &self.application);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, StateError> {
        let mut rest = Take(bytes);
        if rest.array() != Some(*LOAD) {
            return Err(checkpoint("it was written by another version of Exonet"));
        }
        Self::fields(&mut rest).filter(|_| rest.0.is_empty()).ok_or_else(|| checkpoint("it is damaged"))
    }

    fn fields(rest: &mut Take<'_>) -> Option<Self> {
        let (id, attempt) = (NodeId(rest.array()?), Attempt(rest.array()?));
        let fingerprint = rest.array()?;
        let (generation, d, life, latest) = (rest.number()?, rest.number()?, rest.number()?, rest.number()?);
        let mut strays = Vec::new();
        for _ in 0..rest.number()? {
            let id = NodeId(rest.array()?);
            strays.push((id, Far { lo: Stamp(rest.number()?), hi: Stamp(rest.number()?) }));
        }
        let mut files = Vec::new();
        for _ in 0..rest.number()? {
            let name = PathBuf::from(String::from_utf8(rest.bytes()?.to_vec()).ok()?);
            is_ours(&name).then_some(())?;
            let len = rest.number()?;
            let ahead = Carried { len: rest.number()?, digest: rest.array()? };
            let bytes = rest.bytes()?.to_vec();
            (ahead.len.checked_add(bytes.len() as u64)? <= len).then_some(())?;
            files.push((name, Kept { len, ahead: Some(ahead).filter(|ahead| ahead.len > 0), bytes }));
        }
        let application = Zeroizing::new(rest.bytes()?.to_vec());
        (d <= MAX_NUMBER && generation > 0).then_some(())?;
        let clock = ClockRecord { d, life, latest };
        Some(Self { id, attempt, generation, fingerprint, clock, strays, files, application })
    }
}

/// Whether a name is that of a file in one of the folders that move.
pub(super) fn is_ours(name: &Path) -> bool {
    let mut parts = name.components();
    let folder =
        matches!(parts.next(), Some(Component::Normal(folder)) if FOLDERS.iter().any(|ours| folder == *ours));
    folder && matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none()
}

pub(super) fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The input that is still to be read.
pub(super) struct Take<'a>(pub(super) &'a [u8]);

impl<'a> Take<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }
}
