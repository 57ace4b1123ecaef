//! The disk of the operating system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::map::{Flush, Map};
use super::witness::RealWitness;
use super::{Disk, DiskFile, Syncer, Witness, map, place};
use crate::{Options, Runtime};

/// A directory of the operating system.
pub(crate) struct RealDisk {
    dir: PathBuf,
    identity: [u8; 32],
    runtime: Runtime,
    boot: fn() -> Option<[u8; 16]>,
    maps: bool,
}

/// Makes the directory if it is missing, so that only its owner may enter it.
pub(crate) fn make_dir(dir: &Path) -> io::Result<()> {
    if dir.try_exists()? {
        return Ok(());
    }
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)?;
    sync_dir(dir.parent().unwrap_or(dir))
}

impl RealDisk {
    /// Opens the directory. If it is missing, creates it so that only the owner may enter.
    pub(crate) fn open(dir: &Path, options: &Options, may_map: bool) -> io::Result<Self> {
        make_dir(dir)?;
        let maps = may_map && place::writes_in_place(dir);
        let Options { identity, boot, .. } = *options;
        Ok(Self { dir: dir.into(), identity, runtime: options.runtime.clone(), boot, maps })
    }

    #[cfg(feature = "laboratory")]
    pub(crate) fn witness_in(&self, dir: &Path) -> Box<dyn Witness> {
        Box::new(RealWitness::new(dir, self.identity))
    }

    fn file(&self, file: File) -> Box<dyn DiskFile> {
        let shared = Shared { file, flush: OnceLock::new() };
        Box::new(RealFile { shared: Arc::new(shared), map: None, maps: self.maps })
    }
}

impl Disk for RealDisk {
    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.dir.clone() } else { self.dir.join(name) }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        entries.filter_map(Result::transpose).collect()
    }

    fn open(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        let path = self.path(name);
        let mut opened = OpenOptions::new().read(true).write(true).open(&path);
        if opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::ReadOnlyFilesystem) {
            // A look at a journal only reads.
            opened = File::open(&path);
        }
        match opened {
            Ok(file) => Ok(Some(self.file(file))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(self.file(options.open(self.path(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn sync_names(&self) -> io::Result<()> {
        sync_dir(&self.dir)
    }

    fn boot(&self) -> Option<[u8; 16]> {
        (self.boot)()
    }

    fn remote(&self) -> io::Result<Option<&'static str>> {
        place::remote(&self.dir)
    }

    fn witness(&self) -> Option<Box<dyn Witness>> {
        let dir = match &self.runtime {
            Runtime::None => return None,
            Runtime::Dir(dir) => dir.clone(),
            Runtime::Found => place::runtime_dir()?,
        };
        Some(Box::new(RealWitness::new(&dir, self.identity)))
    }
}

struct RealFile {
    shared: Arc<Shared>,
    map: Option<Map>,
    maps: bool,
}

/// The parts of a file that its syncer uses.
struct Shared {
    file: File,
    flush: OnceLock<Flush>,
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.shared.file.metadata()?.len())
    }

    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(&self.shared.file, to, at);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(&self.shared.file, to, at);
    }

    fn write_at(&mut self, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        if let Some(map) = &mut self.map {
            let mut at = usize::try_from(at).map_err(|_| ErrorKind::InvalidInput)?;
            for part in parts {
                map.write(at, part)?;
                at = at.saturating_add(part.len());
            }
            if parts.last().is_some_and(|part| map::is_short(part)) {
                map.fetch(at);
            }
            return Ok(());
        }
        match parts {
            [part] => write_all_at(&self.shared.file, part, at),
            // A group is small, so a copy costs less than a second system call. A snapshot is large, and has few
            // parts.
            _ if parts.iter().map(|part| part.len()).sum::<usize>() <= 1 << 20 => {
                write_all_at(&self.shared.file, &parts.concat(), at)
            }
            _ => {
                let mut at = at;
                for part in parts {
                    write_all_at(&self.shared.file, part, at)?;
                    at = at.saturating_add(part.len() as u64);
                }
                Ok(())
            }
        }
    }

    fn map(&mut self) {
        if self.maps && self.map.is_none() {
            self.map = Map::new(&self.shared.file).ok();
            // On Linux, bytes that were written through a mapping can be forced without it, and the mapping may end
            // before the file.
            if let Some(map) = self.map.as_ref().filter(|_| cfg!(not(target_os = "linux"))) {
                let _ = self.shared.flush.set(map.flush());
            }
        }
    }

    fn unmap(&mut self) {
        self.map = None;
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::clone(&self.shared) as Arc<dyn Syncer>
    }
}

impl Syncer for Shared {
    fn sync(&self) -> io::Result<()> {
        if let Some(flush) = self.flush.get() {
            flush.flush()?;
        }
        self.file.sync_data()
    }
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let done = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        if done == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(done..).unwrap_or(&[]);
        at += done as u64;
    }
    Ok(())
}

/// Forces the names in the directory to the disk.
///
/// On systems other than Unix a directory cannot be opened for that, and this does nothing. There the file system's own
/// journal keeps the order of names.
///
/// # Errors
/// The directory cannot be opened, or not be forced.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}
