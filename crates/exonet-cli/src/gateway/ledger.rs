//! The file of what clients sent with `durable`: by which their ids lead to messages in every life of the identity.
//!
//! Lines of JSON, appended as things happen. A line is written before its message is sent, so that an id that has been used is
//! known for ever after; where the process dies in between, the message may have been sent or not, and its state says so.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::control::protocol::Settled;
use crate::failure::Failure;

/// The file in the directory of the identity.
const FILE: &str = "http-sent.jsonl";

/// What happens to a message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum Line {
    /// It is about to be sent.
    Begun(Begun),
    /// It is in the journal, by this number.
    Numbered { id: String, number: u64 },
    /// It has its outcome.
    Ended { id: String, settled: Settled },
    /// It was not sent.
    Gone { id: String },
}

/// What is known of a message when it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) id: String,
    pub(super) to: String,
    pub(super) size: u64,
    /// Of its body and options: the same id is not used for something else.
    pub(super) hash: String,
    /// Milliseconds since 1970.
    pub(super) at_ms: u64,
}

/// The file.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    file: File,
    /// How many lines it has.
    pub(super) lines: usize,
}

impl Ledger {
    /// All lines that are whole, and the file to go on with. What a process that died has left of a line is left out.
    pub(super) fn open(directory: &Path) -> Result<(Self, Vec<Line>), Failure> {
        let path = directory.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::path("read", &path, &error)),
        };
        let lines: Vec<Line> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let failed = |e: &io::Error| Failure::path("write", &path, e);
        let ledger = Self::fresh(&path, &lines).map_err(|e| failed(&e))?;
        Ok((ledger, lines))
    }

    /// A file of these lines, in place of the one that is there.
    fn fresh(path: &Path, lines: &[Line]) -> io::Result<Self> {
        let directory = path.parent().unwrap_or(Path::new("."));
        // It is born with mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        file.write_all(&text)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)?;
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Self { path: path.to_owned(), file, lines: lines.len() })
    }

    /// Only these lines are of use.
    pub(super) fn replace(&mut self, lines: &[Line]) -> io::Result<()> {
        *self = Self::fresh(&self.path, lines)?;
        Ok(())
    }

    pub(super) fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.lines += 1;
        self.file.write_all(&text)
    }

    /// A handle on the file, to wait for the disk by.
    pub(super) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_is_left_out_and_the_next_ones_are_read() {
        let place = tempfile::tempdir().unwrap();
        let begun = Begun { id: "a".into(), to: "x".into(), size: 1, hash: "h".into(), at_ms: 5 };
        let (mut ledger, lines) = Ledger::open(place.path()).unwrap();
        assert!(lines.is_empty());
        ledger.append(&Line::Begun(begun.clone())).unwrap();
        ledger.file.write_all(br#"{"is":"numb"#).unwrap();
        drop(ledger);
        let (mut ledger, lines) = Ledger::open(place.path()).unwrap();
        assert!(matches!(&lines[..], [Line::Begun(read)] if *read == begun));
        ledger.append(&Line::Numbered { id: "a".into(), number: 7 }).unwrap();
        drop(ledger);
        let (ledger, lines) = Ledger::open(place.path()).unwrap();
        assert!(matches!(&lines[..], [Line::Begun(_), Line::Numbered { number: 7, .. }]));
        assert_eq!(ledger.lines, 2);
    }
}
