//! The calls of `exon cp` to a store. Every call may be repeated, and every answer gives the current state.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::name::SafePath;
use super::part::{Part, PartId, write_at};
use super::room::BLOCK;
use super::{Refusal, Store, landing, part, tree};
use crate::copy::{self, Answer, ChainingValue, Entry, FileInfo, Hex32, Piece, PieceAnswer};

/// The maximum number of unfinished files that are held open. Others are reopened when a piece of them arrives.
const OPEN: usize = 64;

/// The unfinished files that are open.
pub(super) type Open = Mutex<BTreeMap<PartId, Arc<Mutex<Part>>>>;

/// An effect of a call, in addition to its answer.
#[derive(Debug)]
pub(crate) enum Event {
    /// A file is stored.
    Stored {
        path: String,
        size: u64,
        already_there: bool,
    },
    Refused {
        path: String,
        reason: String,
    },
    /// This machine cannot store the file at the moment.
    NotNow(io::Error),
}

/// The kind of entry at the path of a file.
enum Found {
    Nothing,
    /// The file itself, judged by size and time.
    Same,
    /// A file of the same size.
    Like,
    Other,
}

impl Store {
    /// Answers with the missing parts of an entry. Makes directories and links.
    pub(crate) fn offer(&self, key: &Hex32, entry: &Entry) -> (Answer, Option<Event>) {
        let answer = match entry {
            Entry::File { file, hash } => self.offer_file(key, file, hash.as_ref()),
            Entry::Dir { path, .. } => self.offer_dir(key, path),
            Entry::Link { path, target } => self.offer_link(path, target),
        };
        let path = entry.path().to_owned();
        match answer {
            Ok(Answer::There) => {
                let size = match entry {
                    Entry::File { file, .. } => file.size.unwrap_or(0),
                    _ => 0,
                };
                (Answer::There, Some(Event::Stored { path, size, already_there: true }))
            }
            Ok(answer) => (answer, None),
            Err(Refusal::Disk(error)) if passes(&error) => {
                (Answer::Later { reason: error.to_string() }, Some(Event::NotNow(error)))
            }
            Err(refusal) => {
                let reason = refusal.to_string();
                (Answer::Refused { reason: reason.clone() }, Some(Event::Refused { path, reason }))
            }
        }
    }

    fn offer_file(&self, key: &Hex32, file: &FileInfo, hash: Option<&Hex32>) -> Result<Answer, Refusal> {
        let path = SafePath::new(&file.path, self.options.names)?;
        let mut looks_the_same = false;
        match (self.find(&path, file)?, hash) {
            (Found::Nothing, _) => {}
            (Found::Same, None) => return Ok(Answer::There),
            (Found::Like, None) => return Ok(Answer::Hash),
            (Found::Same | Found::Like, Some(hash)) if self.has_content(&path, hash)? => {
                return Ok(Answer::There);
            }
            (found, _) if self.options.overwrite => looks_the_same = matches!(found, Found::Same),
            _ => return Err(Refusal::Taken(path)),
        }
        let id = PartId::new(key, &file.path);
        let (mut have, mut held, mut anew) = (Vec::new(), 0, false);
        let mut piece = copy::piece_size(file.size);
        if let Some(part) = self.part(id)? {
            let open = lock(&part);
            if open.is_of(file) {
                (have, held, piece) = (open.ranges(), open.held(), open.piece);
            } else {
                anew = true;
                self.remove(&open);
                drop(open);
                self.table().remove(&id);
            }
        }
        self.fits(file.size.unwrap_or(0).saturating_sub(held))?;
        if looks_the_same {
            // Without a part, its pieces would be mistaken for repetitions of stored ones.
            self.begin_part(id, file, piece)?;
        }
        Ok(Answer::Missing { piece, have, anew })
    }

    fn offer_dir(&self, key: &Hex32, path: &str) -> Result<Answer, Refusal> {
        let path = SafePath::new(path, self.options.names)?;
        let made = self.tree.make_dir(&path).map_err(|error| in_the_way(error, &path))?;
        if made {
            self.take(BLOCK)?;
            // Only directories that this copy has made get the mode and time of the source: see `seal`.
            let marker = PartId::new(key, path.as_str()).file(self.tree.root(), "dir");
            std::fs::File::create(marker).map_err(Refusal::Disk)?;
        }
        Ok(Answer::Made)
    }

    fn offer_link(&self, path: &str, target: &str) -> Result<Answer, Refusal> {
        let path = SafePath::new(path, self.options.names)?;
        if target.len() > 4_096 || target.contains('\0') || !copy::stays_inside(path.as_str(), target) {
            return Err(Refusal::LeadsOut(target.to_owned()));
        }
        let there = self.tree.look(&path).map_err(|error| in_the_way(error, &path))?;
        if there.is_some_and(|about| tree::is_special(about.file_type())) {
            return Err(Refusal::Special(path));
        }
        self.take(BLOCK)?;
        let made = self.tree.make_link(&path, target, self.options.overwrite);
        if !matches!(made, Ok(true)) {
            self.room.give_back(BLOCK);
        }
        made.map_err(|error| in_the_way(error, &path)).map(|_| Answer::Made)
    }

    /// Sets the mode and time of a directory, if this copy has made it or it may be changed.
    pub(crate) fn seal(&self, key: &Hex32, entry: &Entry) -> Answer {
        let sealed = || {
            let Entry::Dir { path, mode, mtime } = entry else { return Ok(Answer::Made) };
            let path = SafePath::new(path, self.options.names)?;
            let marker = PartId::new(key, path.as_str()).file(self.tree.root(), "dir");
            if self.options.overwrite || marker.exists() {
                self.tree.seal(&path, *mode, *mtime).map_err(Refusal::Disk)?;
                let _ = std::fs::remove_file(marker);
            }
            Ok(Answer::Made)
        };
        sealed().unwrap_or_else(|refusal: Refusal| Answer::Refused { reason: refusal.to_string() })
    }

    /// Writes a piece. The last piece stores the file.
    pub(crate) fn piece(
        &self,
        piece: &Piece,
        data: &[u8],
        hash: ChainingValue,
    ) -> (PieceAnswer, Option<Event>) {
        let path = piece.file.path.clone();
        match self.take_piece(piece, data, hash) {
            Ok((answer, None)) => (answer, None),
            Ok((answer, Some(size))) => (answer, Some(Event::Stored { path, size, already_there: false })),
            Err(Refusal::Disk(error)) if passes(&error) => {
                (PieceAnswer::Later { reason: error.to_string() }, Some(Event::NotNow(error)))
            }
            Err(refusal) => {
                let reason = refusal.to_string();
                (PieceAnswer::Refused { reason: reason.clone() }, Some(Event::Refused { path, reason }))
            }
        }
    }

    /// Writes a piece. Returns the answer, and the size of the file if this has stored it.
    fn take_piece(
        &self,
        piece: &Piece,
        data: &[u8],
        hash: ChainingValue,
    ) -> Result<(PieceAnswer, Option<u64>), Refusal> {
        let path = SafePath::new(&piece.file.path, self.options.names)?;
        let id = PartId::new(&piece.key, &piece.file.path);
        let (at, len) = (piece.at, data.len() as u64);
        let end = piece.file.size.or(piece.end.then(|| at.saturating_add(len)));
        let part = match self.part(id)?.filter(|part| lock(part).is_of(&piece.file)) {
            Some(part) => part,
            None => {
                let whole = FileInfo { size: end, ..piece.file.clone() };
                match self.find(&path, &whole)? {
                    // The file was stored before, and its sender has not got the answer.
                    Found::Same if end.is_some() => return Ok((PieceAnswer::Stored { hash: None }, None)),
                    Found::Nothing => {}
                    _ if self.options.overwrite => {}
                    _ => return Err(Refusal::Taken(path)),
                }
                if at == 0 && end == Some(len) {
                    return self.whole(&path, &whole, data);
                }
                self.begin_part(id, &piece.file, piece.piece)?
            }
        };
        let file = {
            let mut part = lock(&part);
            if let Some(hash) = part.stored {
                return Ok((PieceAnswer::Stored { hash: Some(hash) }, None));
            }
            if part.piece != piece.piece {
                return Err(Refusal::Pieces(part.piece));
            }
            if piece.end {
                part.end(at.saturating_add(len)).map_err(Refusal::Disk)?;
            }
            (!part.has(at)).then(|| part.data())
        };
        if let Some(file) = file {
            self.take(len)?;
            write_at(&file, data, at).map_err(|error| {
                // A partly written piece must not keep a full disk full.
                part::clear(&file, at, len);
                self.room.give_back(len);
                Refusal::Disk(error)
            })?;
        }
        self.written(&path, id, &part, (at, len, hash))
    }

    /// Records that a piece is present, and stores the file if that was the last piece.
    fn written(
        &self,
        path: &SafePath,
        id: PartId,
        part: &Mutex<Part>,
        (at, len, hash): (u64, u64, ChainingValue),
    ) -> Result<(PieceAnswer, Option<u64>), Refusal> {
        let mut open = lock(part);
        if let Some(hash) = open.stored {
            return Ok((PieceAnswer::Stored { hash: Some(hash) }, None));
        }
        let due = open.add(at, len, hash).map_err(Refusal::Disk)?;
        if open.is_whole() {
            let finished = self.finish(path, &mut open);
            // The table is never locked while a part is locked.
            drop(open);
            if matches!(finished, Ok(_) | Err(Refusal::Taken(_))) {
                self.table().remove(&id);
            }
            return finished;
        }
        drop(open);
        if let Some(unmarked) = due {
            unmarked.sync().map_err(Refusal::Disk)?;
            lock(part).mark(&unmarked).map_err(Refusal::Disk)?;
        }
        Ok((PieceAnswer::Held, None))
    }

    /// Moves a complete file to its final path.
    fn finish(&self, path: &SafePath, part: &mut Part) -> Result<(PieceAnswer, Option<u64>), Refusal> {
        let (data, hash) = (part.data(), part.hash().map_err(Refusal::Disk)?);
        tree::set_about(&data, part.file.mode.or(Some(0o644)), part.file.mtime).map_err(Refusal::Disk)?;
        data.sync_all().map_err(Refusal::Disk)?;
        let landed = self.land(part.path(), path);
        let size = part.size().unwrap_or(0);
        match landed {
            Ok(()) => {
                part.stored = Some(hash);
                // The data has its final name, so this removes the journal.
                part.remove();
                Ok((PieceAnswer::Stored { hash: Some(hash) }, Some(size)))
            }
            Err(error) => {
                let refusal = in_the_way(error, path);
                if matches!(refusal, Refusal::Taken(_)) {
                    self.remove(part);
                }
                Err(refusal)
            }
        }
    }

    /// Stores a file of one piece, without a journal.
    fn whole(
        &self,
        path: &SafePath,
        file: &FileInfo,
        data: &[u8],
    ) -> Result<(PieceAnswer, Option<u64>), Refusal> {
        let (len, room) = (data.len() as u64, (data.len() as u64).max(BLOCK));
        self.take(room)?;
        let stored = || -> Result<(), Refusal> {
            let mut temporary = landing::temporary(self.tree.root()).map_err(Refusal::Disk)?;
            io::Write::write_all(&mut temporary, data).map_err(Refusal::Disk)?;
            tree::set_about(temporary.as_file(), file.mode, file.mtime).map_err(Refusal::Disk)?;
            temporary.as_file().sync_all().map_err(Refusal::Disk)?;
            self.land(temporary.path(), path).map_err(|error| in_the_way(error, path))?;
            // The file has its final name now, and must not be removed.
            let _ = temporary.into_temp_path().keep();
            Ok(())
        };
        stored().inspect_err(|_| self.room.give_back(room))?;
        Ok((PieceAnswer::Stored { hash: Some(Hex32(blake3::hash(data).into())) }, Some(len)))
    }

    /// Moves the file at `from` to its final path, and frees the room of the file that it replaces.
    fn land(&self, from: &Path, path: &SafePath) -> io::Result<()> {
        let replace = self.options.overwrite;
        let old = if replace { self.tree.look(path)? } else { None };
        self.tree.land(from, path, replace)?;
        self.room.give_back(old.filter(Metadata::is_file).map_or(0, |old| old.len().max(BLOCK)));
        Ok(())
    }

    /// Whether `size` bytes fit now.
    fn fits(&self, size: u64) -> Result<(), Refusal> {
        self.room.fits(size).or_else(|_| {
            self.recount();
            Ok(self.room.fits(size)?)
        })
    }

    fn take(&self, bytes: u64) -> Result<(), Refusal> {
        self.room.take(bytes).or_else(|_| {
            self.recount();
            Ok(self.room.take(bytes)?)
        })
    }

    fn find(&self, path: &SafePath, file: &FileInfo) -> Result<Found, Refusal> {
        let Some(about) = self.tree.look(path).map_err(|error| in_the_way(error, path))? else {
            return Ok(Found::Nothing);
        };
        if about.is_dir() {
            return Err(Refusal::Directory(path.clone()));
        }
        if tree::is_special(about.file_type()) {
            return Err(Refusal::Special(path.clone()));
        }
        let size = file.size.is_none_or(|size| size == about.len());
        let time = tree::mtime(&about) == file.mtime;
        Ok(match (about.is_file(), size, time) {
            (true, true, true) => Found::Same,
            // A stream has no size to compare.
            (true, true, false) if file.size.is_some() => Found::Like,
            _ => Found::Other,
        })
    }

    /// Whether the stored file has this hash.
    fn has_content(&self, path: &SafePath, hash: &Hex32) -> Result<bool, Refusal> {
        let mut hasher = blake3::Hasher::new();
        let read = self.tree.open(path).and_then(|file| hasher.update_reader(file).map(drop));
        read.map_err(Refusal::Disk)?;
        Ok(*hasher.finalize().as_bytes() == hash.0)
    }

    // ---- unfinished files

    fn table(&self) -> MutexGuard<'_, BTreeMap<PartId, Arc<Mutex<Part>>>> {
        lock(&self.parts)
    }

    /// The part of this id, if it is open or on the disk.
    fn part(&self, id: PartId) -> Result<Option<Arc<Mutex<Part>>>, Refusal> {
        let mut open = self.table();
        if let Some(part) = open.get(&id) {
            return Ok(Some(Arc::clone(part)));
        }
        let part = Part::open(self.tree.root(), id).map_err(Refusal::Disk)?;
        Ok(part.map(|part| keep(&mut open, id, part)))
    }

    /// Begins a part, in place of the part of another version of the file.
    fn begin_part(&self, id: PartId, file: &FileInfo, piece: u32) -> Result<Arc<Mutex<Part>>, Refusal> {
        let mut open = self.table();
        if let Some(part) = open.get(&id).filter(|part| lock(part).is_of(file)) {
            return Ok(Arc::clone(part));
        }
        if let Some(part) = open.remove(&id) {
            self.room.give_back(lock(&part).held());
        }
        let part = Part::create(self.tree.root(), id, file.clone(), piece);
        Ok(keep(&mut open, id, part.map_err(Refusal::Disk)?))
    }

    /// Closes the parts that are not being written. A piece opens them again.
    pub(super) fn close_idle(&self) {
        self.table().retain(|_, part| Arc::strong_count(part) > 1);
    }

    fn remove(&self, part: &Part) {
        self.room.give_back(part.held());
        part.remove();
    }
}

/// Keeps a part open. If there are too many, closes an unused one.
fn keep(open: &mut BTreeMap<PartId, Arc<Mutex<Part>>>, id: PartId, part: Part) -> Arc<Mutex<Part>> {
    if open.len() >= OPEN
        && let Some(idle) = open.iter().find(|(_, part)| Arc::strong_count(part) == 1).map(|(id, _)| *id)
    {
        open.remove(&idle);
    }
    let part = Arc::new(Mutex::new(part));
    open.insert(id, Arc::clone(&part));
    part
}

/// Ignores poisoning: a panic of another thread leaves no inconsistent state, since the state is on the disk.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the error may be temporary: the disk is full, the directory is gone or denies writing, or there are too many
/// open files.
fn passes(error: &io::Error) -> bool {
    // ENFILE and EMFILE have no `ErrorKind`.
    let too_many = cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24));
    let kinds = [
        io::ErrorKind::StorageFull,
        io::ErrorKind::QuotaExceeded,
        io::ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::ReadOnlyFilesystem,
        io::ErrorKind::StaleNetworkFileHandle,
    ];
    too_many || kinds.contains(&error.kind())
}

fn in_the_way(error: io::Error, path: &SafePath) -> Refusal {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Refusal::Taken(path.clone()),
        io::ErrorKind::NotADirectory => Refusal::NoDirectory(path.clone()),
        io::ErrorKind::IsADirectory => Refusal::Directory(path.clone()),
        _ => Refusal::Disk(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_owner_of_the_directory_can_mend_stays_with_the_sender() {
        use io::ErrorKind::{IsADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull};
        for kind in [StorageFull, NotFound, PermissionDenied, ReadOnlyFilesystem] {
            assert!(passes(&kind.into()), "{kind}");
        }
        assert!(!passes(&IsADirectory.into()));
    }
}
