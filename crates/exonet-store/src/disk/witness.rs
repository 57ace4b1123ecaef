//! The witness: a file in memory with the last LSN. It shows whether pages of the log were lost, or the disk was
//! rolled back, while the system kept running.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::Witness;
use super::map::Map;

const MAGIC: &[u8; 8] = b"exonwit1";
const LEN: usize = 64;
/// The offset of the LSN. The file has magic, generation, LSN and identity.
const LSN: usize = 16;

pub(super) struct RealWitness {
    path: PathBuf,
    identity: [u8; 32],
    map: Option<Map>,
}

impl RealWitness {
    pub(super) fn new(dir: &Path, identity: [u8; 32]) -> Self {
        let name: String = identity.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self { path: dir.join(format!("exonet-{name}")), identity, map: None }
    }

    /// All users may be allowed to write in the directory, so a file of that name may have any content and any owner.
    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            i32::try_from(rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK).bits())
                .unwrap_or(0),
        );
        let file = options.open(&self.path)?;
        let meta = file.metadata()?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let own = rustix::process::geteuid().as_raw();
            if !meta.is_file() || meta.uid() != own || meta.mode() & 0o077 != 0 {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
        }
        if meta.len() == LEN as u64 { Ok(file) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn create(&self, bytes: &[u8; LEN]) -> io::Result<File> {
        let _ = fs::remove_file(&self.path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.path)?;
        // Written by a system call and not through the mapping: if there is no room, this returns an error instead of
        // raising SIGBUS.
        file.write_all(bytes).inspect_err(|_| {
            let _ = fs::remove_file(&self.path);
        })?;
        Ok(file)
    }
}

impl Witness for RealWitness {
    fn read(&self) -> Option<(u64, u64)> {
        let mut bytes = [0; LEN];
        self.open().ok()?.read_exact(&mut bytes).ok()?;
        let rest = bytes.strip_prefix(MAGIC)?;
        let (generation, rest) = rest.split_first_chunk::<8>()?;
        let (lsn, rest) = rest.split_first_chunk::<8>()?;
        rest.starts_with(&self.identity).then(|| (u64::from_le_bytes(*generation), u64::from_le_bytes(*lsn)))
    }

    fn begin(&mut self, generation: u64, lsn: u64) -> io::Result<()> {
        let numbers = [generation.to_le_bytes(), lsn.to_le_bytes()];
        let fields = MAGIC.iter().chain(numbers.as_flattened()).chain(&self.identity);
        let mut bytes = [0; LEN];
        bytes.iter_mut().zip(fields).for_each(|(to, from)| *to = *from);
        self.map = Some(Map::new(&self.create(&bytes)?)?);
        Ok(())
    }

    fn note(&mut self, lsn: u64) {
        if let Some(map) = &mut self.map {
            // The offset lies within the mapping and is aligned.
            let _ = map.store(LSN, lsn);
        }
    }

    fn remove(&mut self) {
        self.map = None;
        let _ = fs::remove_file(&self.path);
    }
}
