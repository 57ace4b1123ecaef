//! Names in a file, for the services of one machine, and for the data of a name server.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use exonet::NodeId;
use exonet::naming::{Answer, Expect, Found, Name, Naming, NamingError, Record, Term, Version};
use fs4::FileExt;
use tokio::task::spawn_blocking;

use crate::table::Table;
use crate::watch;

/// How often a watcher reads the file.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a change waits for the lock of the file, and the interval between two attempts.
const PATIENCE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(20);
/// The longest file, in bytes.
const LONGEST: u64 = 64 << 20;
/// How many symbolic links may lead from a path to its file, one to the next.
const MOST_LINKS: usize = 40;

/// Names in a file, which people can read and the processes of this machine share. A change replaces the whole file,
/// and counts only once the new file is durable. Changes are made one after the other. If another process holds the
/// file, a change waits for five seconds at most, and then fails with [`NamingError::Storage`]. The path may be a
/// symbolic link to the file.
#[derive(Clone, Debug)]
pub struct FileNames {
    path: PathBuf,
}

impl FileNames {
    /// Uses the file at `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Runs work on the disk, on a thread that may block.
    fn with<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Path) -> Result<T, NamingError> + Send + 'static,
    ) -> Answer<'static, T> {
        let path = self.path.clone();
        let ran = spawn_blocking(move || what(&resolve(&path)?));
        Box::pin(async move { ran.await.map_err(|e| NamingError::Storage(e.to_string()))? })
    }

    fn change<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Table) -> Result<T, NamingError> + Send + 'static,
    ) -> Answer<'static, T> {
        self.with(|path| {
            let _alone = lock(path, PATIENCE)?;
            let mut table = read(path)?;
            let before = table.clone();
            let done = what(&mut table)?;
            if table != before {
                write(path, &table)?;
            }
            Ok(done)
        })
    }
}

impl Naming for FileNames {
    fn look_up<'a>(&'a self, name: &'a Name) -> Answer<'a, Option<Found>> {
        let name = name.clone();
        self.with(move |path| Ok(read(path)?.look_up(&name).cloned()))
    }

    fn watch<'a>(&'a self, name: &'a Name, since: Option<Version>) -> Answer<'a, Option<Found>> {
        Box::pin(watch::by_look_ups(self, name, since, LOOK_EVERY))
    }

    fn list(&self) -> Answer<'_, Vec<(Name, Found)>> {
        self.with(|path| Ok(read(path)?.names().map(|(name, found)| (name.clone(), found.clone())).collect()))
    }

    fn bind<'a>(&'a self, name: &'a Name, record: &'a Record, expect: Expect) -> Answer<'a, Version> {
        let (name, record) = (name.clone(), record.clone());
        self.change(move |table| table.bind(&name, &record, expect))
    }

    fn unbind<'a>(&'a self, name: &'a Name, version: Version) -> Answer<'a, ()> {
        let name = name.clone();
        self.change(move |table| table.unbind(&name, version))
    }

    fn claim<'a>(&'a self, id: &'a NodeId, term: Term) -> Answer<'a, ()> {
        let id = *id;
        self.change(move |table| table.claim(&id, term).map(drop))
    }

    fn is_authority(&self) -> bool {
        true
    }
}

/// The file that `path` leads to: if the path is a symbolic link, what it points to, which need not exist yet. All
/// paths of a file thus have one lock, and a change replaces the file, not a link to it.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, NamingError> {
    let mut file = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&file) {
            // A target that is relative starts at the directory of the link.
            Ok(target) => file = file.parent().unwrap_or(Path::new("")).join(target),
            // It is no link, or does not exist. If it cannot be used, the caller learns why.
            Err(_) => return Ok(file),
        }
    }
    Err(NamingError::Storage(format!(
        "cannot use {}: its symbolic links go round in a circle",
        path.display()
    )))
}

/// Locks the file at `path` against changes by others, until the returned file is dropped. If another process has
/// locked it, tries again for `patience`: a name server holds its lock for as long as it runs.
fn lock(path: &Path, patience: Duration) -> Result<File, NamingError> {
    let until = std::time::Instant::now() + patience;
    loop {
        if let Some(file) = try_lock(path)? {
            return Ok(file);
        }
        if std::time::Instant::now() >= until {
            let path = path.display();
            return Err(NamingError::Storage(format!("a name server or another process holds {path}")));
        }
        std::thread::sleep(AGAIN);
    }
}

/// Locks the file at `path` as [`lock`] does, but does not wait. None: the file is already locked. The lock is a file
/// of its own, since the file itself is replaced.
pub(crate) fn try_lock(path: &Path) -> Result<Option<File>, NamingError> {
    let beside = lock_of(path);
    let file = open_lock(&beside).map_err(|error| unusable("open", &beside, &error))?;
    match FileExt::try_lock(&file) {
        Ok(()) => Ok(Some(file)),
        Err(fs4::TryLockError::WouldBlock) => Ok(None),
        Err(fs4::TryLockError::Error(error)) => Err(unusable("lock", &beside, &error)),
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory)?;
    }
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

fn lock_of(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    beside.into()
}

/// Reads the table in the file at `path`. If its directory has no such file, the table is empty.
pub(crate) fn read(path: &Path) -> Result<Table, NamingError> {
    match fs::metadata(path) {
        Ok(about) if about.len() > LONGEST => {
            Err(NamingError::Damaged(format!("{} is too long", path.display())))
        }
        Ok(_) => {
            let text = fs::read_to_string(path).map_err(|error| unusable("read", path, &error))?;
            Table::from_text(&text).map_err(|error| match error {
                NamingError::Damaged(why) => NamingError::Damaged(format!("{}: {why}", path.display())),
                other => other,
            })
        }
        Err(error) if error.kind() == ErrorKind::NotFound && is_in_a_directory(path) => Ok(Table::default()),
        Err(error) => Err(unusable("read", path, &error)),
    }
}

/// Whether the directory of `path` exists. If it does not, the path is probably wrong.
fn is_in_a_directory(path: &Path) -> bool {
    path.parent().is_none_or(|directory| directory.as_os_str().is_empty() || directory.is_dir())
}

/// Replaces the file at `path` by `table`, as a whole; it is durable when this returns.
pub(crate) fn write(path: &Path, table: &Table) -> Result<(), NamingError> {
    let failed = |error: &io::Error| unusable("write", path, error);
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(|e| failed(&e))?;
    file.write_all(table.to_text().as_bytes()).map_err(|e| failed(&e))?;
    file.as_file().sync_all().map_err(|e| failed(&e))?;
    file.persist(path).map_err(|e| failed(&e.error))?;
    #[cfg(unix)]
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(|e| failed(&e))?;
    Ok(())
}

fn unusable(doing: &str, path: &Path, error: &io::Error) -> NamingError {
    NamingError::Storage(format!("cannot {doing} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_another_holds_is_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("names");
        let held = lock(&path, Duration::ZERO).unwrap();
        let error = lock(&path, Duration::ZERO).unwrap_err();
        let why = format!("a name server or another process holds {}", path.display());
        assert_eq!(error, NamingError::Storage(why));
        drop(held);
        lock(&path, Duration::ZERO).unwrap();
    }
}
