//! The state in which a power failure would leave a directory: the content of each file when it was last forced, and
//! the names when the directory was last forced.
//!
//! The process that writes the files updates the image after each operation, before the operation returns. If the
//! process dies in between, it has forced something without learning that, as can happen with a real disk.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The number of a file, whatever its name.
pub(super) type Number = u64;

/// Names, and the numbers of their files.
type Names = BTreeMap<String, Number>;

/// The names that the directory has, those that a power failure would leave, and the next number.
#[derive(Clone, Default)]
struct Table {
    live: Names,
    forced: Names,
    next: Number,
}

pub(super) struct Image {
    dir: PathBuf,
    real: PathBuf,
    table: Table,
}

const PAGE: usize = 4096;

impl Image {
    /// Opens the image at `dir` of the directory `real`. Files that are there before the image exists count as
    /// forced.
    pub(super) fn open(dir: &Path, real: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let table = Table::read(&dir.join("names"))?;
        let is_new = table.is_none();
        let mut this = Self { dir: dir.into(), real: real.into(), table: table.unwrap_or_default() };
        if is_new {
            for entry in fs::read_dir(real)? {
                if let Ok(name) = entry?.file_name().into_string() {
                    let number = this.table.add(&name);
                    fs::copy(real.join(&name), this.file(number))?;
                }
            }
            this.sync_names()?;
        }
        Ok(this)
    }

    fn file(&self, number: Number) -> PathBuf {
        self.dir.join(format!("file-{number}"))
    }

    /// The number of an existing file.
    pub(super) fn number(&mut self, name: &str) -> io::Result<Number> {
        match self.table.live.get(name) {
            Some(number) => Ok(*number),
            None => self.create(name),
        }
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<Number> {
        let number = self.table.add(name);
        File::create(self.file(number))?;
        self.write()?;
        Ok(number)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        if let Some(number) = self.table.live.remove(from) {
            self.table.live.insert(to.to_owned(), number);
        }
        self.write()
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.table.live.remove(name);
        self.write()
    }

    /// Marks the current names as forced.
    pub(super) fn sync_names(&mut self) -> io::Result<()> {
        let before = std::mem::replace(&mut self.table.forced, self.table.live.clone());
        self.write()?;
        for number in before.into_values().filter(|number| !self.table.forced.values().any(|it| it == number))
        {
            let _ = fs::remove_file(self.file(number));
        }
        Ok(())
    }

    /// Marks these ranges of a file as forced.
    pub(super) fn sync(&self, number: Number, written: &[(u64, u64)]) -> io::Result<()> {
        // A file without a name no longer counts.
        let Some((name, _)) = self.table.live.iter().find(|(_, it)| **it == number) else { return Ok(()) };
        let mut from = File::open(self.real.join(name))?;
        let mut to = File::options().write(true).create(true).truncate(false).open(self.file(number))?;
        to.set_len(from.metadata()?.len())?;
        for (at, len) in written {
            from.seek(SeekFrom::Start(*at))?;
            to.seek(SeekFrom::Start(*at))?;
            io::copy(&mut Read::by_ref(&mut from).take(*len), &mut to)?;
        }
        Ok(())
    }

    fn write(&self) -> io::Result<()> {
        self.table.write(&self.dir.join("names"))
    }
}

impl Table {
    fn add(&mut self, name: &str) -> Number {
        self.next += 1;
        self.live.insert(name.to_owned(), self.next);
        self.next
    }

    fn read(path: &Path) -> io::Result<Option<Self>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut table = Self::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let parsed =
                words.next().zip(words.next()).zip(words.next().and_then(|number| number.parse().ok()));
            let Some(((kind, name), number)) = parsed else { return Err(io::ErrorKind::InvalidData.into()) };
            let names = if kind == "live" { &mut table.live } else { &mut table.forced };
            names.insert(name.to_owned(), number);
            table.next = table.next.max(number);
        }
        Ok(Some(table))
    }

    /// Writes the table. If the process dies, the file has the old or the new content.
    fn write(&self, path: &Path) -> io::Result<()> {
        let lines = |kind, names: &Names| -> String {
            names.iter().map(|(name, number)| format!("{kind} {name} {number}\n")).collect()
        };
        let temp = path.with_extension("new");
        let text = lines("live", &self.live) + &lines("forced", &self.forced);
        File::create(&temp)?.write_all(text.as_bytes())?;
        fs::rename(temp, path)
    }
}

/// Puts the directory `real` into a state that a power failure could leave. It has the files whose names were forced,
/// each with its forced content. For each page that was written after that, `chance` decides whether the page is
/// present as well. No process may use the directory or the image meanwhile.
///
/// # Errors
/// The errors of the file system.
pub fn cut_power(image: &Path, real: &Path, mut chance: impl FnMut() -> bool) -> io::Result<()> {
    let Some(mut table) = Table::read(&image.join("names"))? else { return Ok(()) };
    let file = |number: Number| image.join(format!("file-{number}"));
    for (name, number) in &table.forced {
        let mut left = fs::read(file(*number)).unwrap_or_default();
        let written =
            table.live.iter().find(|(_, it)| *it == number).map(|(name, _)| fs::read(real.join(name)));
        let written = written.and_then(Result::ok).unwrap_or_default();
        left.resize(left.len().max(written.len()), 0);
        for (to, from) in left.chunks_mut(PAGE).zip(written.chunks(PAGE)) {
            let to = to.get_mut(..from.len()).unwrap_or_default();
            if to != from && chance() {
                to.copy_from_slice(from);
            }
        }
        fs::write(image.join(format!("left-{name}")), left)?;
    }
    for entry in fs::read_dir(real)? {
        fs::remove_file(entry?.path())?;
    }
    for (name, number) in &table.forced {
        let left = image.join(format!("left-{name}"));
        fs::copy(&left, file(*number))?;
        fs::copy(&left, real.join(name))?;
        fs::remove_file(left)?;
    }
    table.live = table.forced.clone();
    table.write(&image.join("names"))
}
