//! The file of messages that clients sent with `durable`. It maps their ids to messages across all runs of the
//! identity.
//!
//! The file has lines of JSON, appended as things happen. A line is written before its message is sent, so that a
//! used id stays known. If the process dies in between, the message may or may not have been sent, and its state says
//! so.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::control::protocol::Settled;
use crate::failure::Failure;

/// The file in the directory of the identity.
const FILE: &str = "http-sent.jsonl";

/// A change of the state of a message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum Line {
    /// The message is about to be sent.
    Begun(Begun),
    /// The message is in the journal under this number.
    Numbered { id: String, number: u64 },
    /// The message has its outcome.
    Ended { id: String, settled: Settled },
    /// The message was not sent.
    Gone { id: String },
}

/// The record of a message when it is about to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) id: String,
    pub(super) to: String,
    pub(super) size: u64,
    /// The hash of its body and options, to detect that the same id is used for another message.
    pub(super) hash: String,
    /// Milliseconds since 1970.
    pub(super) at_ms: u64,
}

/// The file.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    file: File,
    /// The number of lines in the file.
    pub(super) lines: usize,
}

impl Ledger {
    /// Opens the file and reads all complete lines. A partial line, left by a process that died, is discarded.
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

    /// Writes these lines to a new file, which replaces the current one.
    fn fresh(path: &Path, lines: &[Line]) -> io::Result<Self> {
        let directory = path.parent().unwrap_or(Path::new("."));
        // The file is created with mode 0600.
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

    /// Replaces the content of the file with these lines.
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

    /// A handle on the file, to wait for the disk with.
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
