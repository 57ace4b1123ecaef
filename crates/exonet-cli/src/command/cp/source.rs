//! Reads a file piece by piece.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::peer::Fault;
use crate::copy::{FileInfo, Hex32, Piece};
use crate::failure::Failure;
use crate::store::mtime;

/// An open file whose size was announced.
#[derive(Clone, Debug)]
pub(super) struct Source {
    file: Arc<File>,
    path: Arc<Path>,
}

/// An error of a file that is read.
#[derive(Debug)]
pub(super) enum Odd {
    /// The file has changed since it was offered.
    Changed(FileInfo),
    /// The file has not changed, but has more or fewer bytes than the system reports.
    NoSize,
    Fault(Fault),
}

impl From<io::Error> for Odd {
    fn from(error: io::Error) -> Self {
        Self::Fault(error.into())
    }
}

impl Source {
    pub(super) async fn open(path: &Path) -> Result<Self, Fault> {
        let path: Arc<Path> = path.into();
        blocking(move || {
            let file = File::open(&path).map_err(|e| unreadable(&path, &e))?;
            Ok(Self { file: Arc::new(file), path })
        })
        .await
    }

    /// The body of a piece: `len` bytes at its offset. With `last`, all other pieces have been read, and this checks
    /// whether the file has changed since the offer.
    pub(super) async fn piece(&self, piece: Piece, len: usize, last: bool) -> Result<Bytes, Odd> {
        let source = self.clone();
        blocking(move || {
            let fill = |body: &mut Vec<u8>| source.fill(body, piece.at, len, &piece.file);
            let (body, _) = piece.encode(len, fill)?;
            if last {
                let end = piece.at.saturating_add(len as u64);
                if let Some(changed) = source.changed(&piece.file)? {
                    return Err(Odd::Changed(changed));
                }
                if source.read(&mut [0], end)? > 0 {
                    return Err(Odd::NoSize);
                }
            }
            Ok(body)
        })
        .await
    }

    /// BLAKE3 of the whole file.
    pub(super) async fn hash(&self) -> Result<Hex32, Fault> {
        let source = self.clone();
        blocking(move || {
            let mut hasher = blake3::Hasher::new();
            let file = File::open(&source.path).and_then(|file| hasher.update_reader(file).map(drop));
            file.map_err(|e| unreadable(&source.path, &e))?;
            Ok(Hex32(hasher.finalize().into()))
        })
        .await
    }

    fn fill(&self, body: &mut Vec<u8>, at: u64, len: usize, offered: &FileInfo) -> Result<(), Odd> {
        let start = body.len();
        body.resize(start + len, 0);
        let read = self.read(body.get_mut(start..).unwrap_or_default(), at)?;
        if read == len {
            return Ok(());
        }
        // The file ended early.
        Err(self.changed(offered)?.map_or(Odd::NoSize, Odd::Changed))
    }

    /// The current state of the file, if it has changed since the offer.
    fn changed(&self, offered: &FileInfo) -> Result<Option<FileInfo>, Odd> {
        let about = self.file.metadata().map_err(|e| Odd::Fault(unreadable(&self.path, &e)))?;
        let now = updated(offered, &about);
        Ok((now != *offered).then_some(now))
    }

    fn read(&self, buffer: &mut [u8], at: u64) -> Result<usize, Odd> {
        crate::store::read_at(&self.file, buffer, at).map_err(|e| Odd::Fault(unreadable(&self.path, &e)))
    }
}

fn updated(offered: &FileInfo, about: &Metadata) -> FileInfo {
    FileInfo { size: Some(about.len()), mtime: mtime(about), ..offered.clone() }
}

/// A stream that is read to its end, since its size is not known before.
pub(super) struct Stream {
    reader: Box<dyn Read + Send>,
    path: Arc<Path>,
}

impl Stream {
    /// Opens a stream. For a pipe, this waits for a writer.
    pub(super) async fn open(path: &Path) -> Result<Self, Fault> {
        let path: Arc<Path> = path.into();
        blocking(move || {
            let reader: Box<dyn Read + Send> = if *path == *Path::new("-") {
                Box::new(io::stdin())
            } else {
                Box::new(File::open(&path).map_err(|e| unreadable(&path, &e))?)
            };
            Ok(Self { reader, path })
        })
        .await
    }

    /// The next `len` bytes; fewer only at the end.
    pub(super) async fn next(mut self, len: usize) -> Result<(Self, Vec<u8>), Fault> {
        blocking(move || {
            let mut data = Vec::new();
            let read = (&mut self.reader).take(len as u64).read_to_end(&mut data);
            read.map_err(|e| unreadable(&self.path, &e))?;
            Ok((self, data))
        })
        .await
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Fault {
    Fault::Failed(Failure::path("read", path, error))
}

/// Runs on a thread that may wait for the disk.
async fn blocking<T: Send + 'static, E: From<io::Error> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(io::Error::other(error).into()),
    }
}
