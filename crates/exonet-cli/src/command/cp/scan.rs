//! Finds the items to copy.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use crate::args::CpArgs;
use crate::copy::{Entry, FileInfo, stays_inside};
use crate::failure::Failure;
use crate::store::mtime;

/// One item to copy.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// The local path.
    pub(super) path: PathBuf,
    /// The entry at the receiver.
    pub(super) entry: Entry,
    /// It was named on the command line, not found in a directory.
    pub(super) named: bool,
    /// Its content is read to its end, since its size is not known before.
    pub(super) stream: bool,
}

impl Item {
    pub(super) fn name(&self) -> &str {
        self.entry.path()
    }

    /// The size in bytes, as far as it is known.
    pub(super) fn size(&self) -> u64 {
        match &self.entry {
            Entry::File { file, .. } => file.size.unwrap_or(0),
            _ => 0,
        }
    }
}

/// All items to copy, with directories before their entries.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) items: Vec<Item>,
    /// Paths that cannot be copied, and the reasons. The other items are copied.
    pub(super) problems: Vec<(PathBuf, String)>,
}

/// Examines all sources before anything is sent.
pub(super) fn scan(sources: &[PathBuf], args: &CpArgs) -> Result<Scan, Failure> {
    if args.name.is_some() && sources.len() > 1 {
        return Err(Failure::new("--name is for a single source, and there are several")
            .hint("copy them one by one, or put them into a directory under these names and copy that")
            .wrong_usage());
    }
    let mut scan = Scan::default();
    let mut names = BTreeSet::new();
    for source in sources {
        let name = match &args.name {
            Some(name) => name.clone(),
            None => own_name(source)?,
        };
        if !names.insert(name.clone()) {
            return Err(Failure::new(format!("two sources have the name {name}"))
                .hint("copy one of them separately, under another name: --name NAME")
                .wrong_usage());
        }
        scan.source(source, name, args.recursive)?;
    }
    Ok(scan)
}

/// The last component of the path.
fn own_name(source: &Path) -> Result<String, Failure> {
    if source == Path::new("-") {
        return Err(Failure::new("standard input has no name")
            .hint("give it one: --name NAME")
            .wrong_usage());
    }
    let whole;
    let name = match source.file_name() {
        Some(name) => name,
        // The names of `.` and `..` are those of the directories that they stand for.
        None => {
            whole = source.canonicalize().map_err(|e| Failure::path("read", source, &e))?;
            whole.file_name().ok_or_else(|| {
                Failure::new(format!("{} has no name", source.display())).hint("give it one: --name NAME")
            })?
        }
    };
    let name = name.to_str().map(str::to_owned);
    name.ok_or_else(|| {
        Failure::new(format!("the name of {} is not UTF-8", source.display()))
            .hint("give it another: --name NAME")
    })
}

impl Scan {
    fn source(&mut self, source: &Path, name: String, recursive: bool) -> Result<(), Failure> {
        if source == Path::new("-") {
            self.push(source, stream(name, None), true, true);
            return Ok(());
        }
        // A link that is named on the command line is followed.
        let about = fs::metadata(source).map_err(|e| Failure::path("read", source, &e))?;
        let is_pipe = is_pipe(&about);
        if about.is_file() || is_pipe {
            if !is_pipe {
                // A file that cannot be read is reported before anything is sent.
                fs::File::open(source).map_err(|e| Failure::path("read", source, &e))?;
            }
            let entry = if is_pipe { stream(name, Some(&about)) } else { file(name, &about) };
            self.push(source, entry, true, is_pipe);
        } else if about.is_dir() && recursive {
            self.directory(source, name, &about, true);
        } else if about.is_dir() {
            return Err(Failure::new(format!("{} is a directory", source.display()))
                .hint("to copy it with its content: exon cp -r")
                .wrong_usage());
        } else {
            return Err(Failure::new(format!("{} is {}", source.display(), special(&about)))
                .hint("files, directories, links and pipes can be copied"));
        }
        Ok(())
    }

    fn push(&mut self, path: &Path, entry: Entry, named: bool, stream: bool) {
        self.items.push(Item { path: path.to_owned(), entry, named, stream });
    }

    /// Adds a directory, and everything below it.
    fn directory(&mut self, path: &Path, name: String, about: &Metadata, named: bool) {
        let entry = Entry::Dir { path: name.clone(), mode: mode(about), mtime: mtime(about) };
        self.push(path, entry, named, false);
        // The walk does not use recursion, since the depth is unbounded.
        let mut below = vec![(path.to_owned(), name)];
        while let Some((path, name)) = below.pop() {
            let entries = fs::read_dir(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let mut entries = match entries {
                Ok(entries) => entries,
                Err(error) => {
                    self.problems.push((path, format!("cannot read the directory: {error}")));
                    continue;
                }
            };
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let path = entry.path();
                match self.below(&path, &name, &entry) {
                    Ok(Some(name)) => below.push((path, name)),
                    Ok(None) => {}
                    Err(problem) => self.problems.push((path, problem)),
                }
            }
        }
    }

    /// Adds one entry of a directory. Returns its name if it is a directory itself.
    fn below(&mut self, path: &Path, parent: &str, entry: &fs::DirEntry) -> Result<Option<String>, String> {
        let name = entry.file_name();
        let name = name.to_str().ok_or("its name is not UTF-8")?;
        let name = format!("{parent}/{name}");
        let about = entry.metadata().map_err(|error| error.to_string())?;
        if about.is_dir() {
            let entry = Entry::Dir { path: name.clone(), mode: mode(&about), mtime: mtime(&about) };
            self.push(path, entry, false, false);
            return Ok(Some(name));
        }
        if about.is_symlink() {
            let target = fs::read_link(path).map_err(|error| error.to_string())?;
            let target = target.to_str().ok_or("it is a link whose target is not UTF-8")?;
            if !stays_inside(&name, target) {
                return Err(format!("it is a link that points out of the copied directory: {target}"));
            }
            self.push(path, Entry::Link { path: name, target: target.to_owned() }, false, false);
        } else if about.is_file() {
            self.push(path, file(name, &about), false, false);
        } else {
            return Err(format!("it is {}, which cannot be copied", special(&about)));
        }
        Ok(None)
    }
}

fn file(path: String, about: &Metadata) -> Entry {
    let file = FileInfo { path, size: Some(about.len()), mode: mode(about), mtime: mtime(about) };
    Entry::File { file, hash: None }
}

/// The entry of a stream, which has no size. Its time is the current time.
fn stream(path: String, about: Option<&Metadata>) -> Entry {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mtime = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
    // The mode of a pipe is not the mode of its content.
    let mode = about.filter(|about| about.is_file()).and_then(mode);
    Entry::File { file: FileInfo { path, size: None, mode, mtime }, hash: None }
}

#[cfg(unix)]
fn mode(about: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    Some(about.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn mode(_: &Metadata) -> Option<u32> {
    None
}

#[cfg(unix)]
fn is_pipe(about: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    about.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> bool {
    false
}

#[cfg(unix)]
fn special(about: &Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = about.file_type();
    if kind.is_socket() {
        "a socket"
    } else if kind.is_fifo() {
        "a pipe"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn special(_: &Metadata) -> &'static str {
    "no file"
}
