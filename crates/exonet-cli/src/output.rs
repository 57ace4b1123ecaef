//! Standard output: one JSON object a line, or text for people.

#[cfg(unix)]
use std::fs::File;
use std::io::{self, IsTerminal, Write};
#[cfg(unix)]
use std::os::fd::AsFd;

use serde::Serialize;

use crate::failure::Failure;

/// The format of printed data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    /// An output of JSON lines or of text.
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether standard output carries JSON lines.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether a person reads standard output.
    pub(crate) fn is_terminal(self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// Prints `value` as one line, if JSON was asked for.
    pub(crate) fn line(self, value: &impl Serialize) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        let mut line =
            serde_json::to_vec(value).map_err(|e| Failure::new("cannot write JSON").because(&e))?;
        line.push(b'\n');
        self.bytes(&line)
    }

    /// Prints `text` and a line feed, unless JSON was asked for.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        if self.json {
            return Ok(());
        }
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Whether standard output may have been closed when the process started. The runtime has then opened `/dev/null` in
    /// its place, and what is printed is lost without an error. Some programs open it in the same way for their children,
    /// for reading and writing; a shell does not.
    #[cfg(unix)]
    pub(crate) fn may_be_closed(self) -> bool {
        use std::os::unix::fs::MetadataExt;

        let stdout = io::stdout();
        let both = rustix::fs::fcntl_getfl(&stdout)
            .is_ok_and(|flags| flags & rustix::fs::OFlags::RWMODE == rustix::fs::OFlags::RDWR);
        let device = stdout.as_fd().try_clone_to_owned().and_then(|fd| File::from(fd).metadata());
        let null = std::fs::metadata("/dev/null");
        both && device.is_ok_and(|device| null.is_ok_and(|null| device.rdev() == null.rdev()))
    }

    /// Writes raw bytes, and flushes them, since a printed message counts as accepted.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
    }
}
