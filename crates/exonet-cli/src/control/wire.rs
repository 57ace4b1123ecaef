//! Lines of JSON on a stream.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::text::{escape, is_hidden};

/// The longest line: a piece of a body, each byte of which may take six bytes in JSON, and the JSON around it.
pub(super) const LONGEST_LINE: u64 = 1 << 20;

/// Whether the other end runs as a user whom this process trusts with an identity of `owner`: as the user of this process, as root, or,
/// if this process is root's, as `owner`.
pub(crate) fn is_trusted(stream: &UnixStream, owner: u32) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|other| trusts(own, owner, other.uid()))
}

/// Whether a process of another user than this one's or root is at the other end.
pub(crate) fn is_foreign(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().map_or(true, |other| other.uid() != own && other.uid() != ROOT)
}

const fn trusts(own: u32, owner: u32, other: u32) -> bool {
    other == own || other == ROOT || own == ROOT && other == owner && owner != NOBODY
}

const ROOT: u32 = 0;
/// The number that stands for all users that a namespace does not know.
const NOBODY: u32 = 65_534;

/// Reads lines. Cancel-safe: the bytes of a partial line are kept.
#[derive(Debug)]
pub(crate) struct Lines {
    from: BufReader<OwnedReadHalf>,
    line: Vec<u8>,
    foreign: bool,
}

impl Lines {
    pub(crate) fn new(from: OwnedReadHalf) -> Self {
        Self { from: BufReader::new(from), line: Vec::new(), foreign: false }
    }

    /// As [`Self::new`], for a process of root that asks another user's: all texts are escaped, since a terminal may show them.
    pub(super) fn foreign(from: OwnedReadHalf) -> Self {
        Self { foreign: true, ..Self::new(from) }
    }

    /// The next line. None: the other end has disconnected, even if in the middle of a line.
    ///
    /// # Errors
    /// The line is too long, or is not of the expected type.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let room = (LONGEST_LINE + 1).saturating_sub(u64::try_from(self.line.len()).unwrap_or(u64::MAX));
        // A half line stays in `self.line` when this is dropped: `read_until` appends as it goes.
        (&mut self.from).take(room).read_until(b'\n', &mut self.line).await?;
        if self.line.last() != Some(&b'\n') {
            return if u64::try_from(self.line.len()).is_ok_and(|len| len > LONGEST_LINE) {
                Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"))
            } else {
                Ok(None)
            };
        }
        let read = if self.foreign {
            serde_json::from_slice(&self.line).and_then(|value| serde_json::from_value(harmless(value)))
        } else {
            serde_json::from_slice(&self.line)
        };
        let read = read.map_err(io::Error::from);
        self.line.clear();
        read.map(Some)
    }
}

/// The value, with every text escaped that could control a terminal.
fn harmless(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(shown(text)),
        Value::Array(values) => values.into_iter().map(harmless).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (shown(name), harmless(value))).collect()
        }
        value => value,
    }
}

fn shown(text: String) -> String {
    if text.chars().any(is_hidden) { escape(text.as_bytes()) } else { text }
}

/// Writes `value` as a line, and waits for as long as the other end does not read.
///
/// # Errors
/// The other end has left.
pub(crate) async fn say(to: &mut OwnedWriteHalf, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
    line.push(b'\n');
    to.write_all(&line).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_trusted_and_trusts_the_owner_only() {
        let (alice, mallory) = (1_000, 1_001);
        assert!(trusts(alice, alice, alice) && trusts(alice, alice, ROOT));
        assert!(!trusts(alice, alice, mallory));
        assert!(trusts(ROOT, alice, alice) && !trusts(ROOT, alice, mallory));
        assert!(!trusts(alice, mallory, mallory), "only root uses what is another user's");
        assert!(!trusts(ROOT, NOBODY, NOBODY), "these may be two users");
    }

    #[test]
    fn texts_of_another_user_control_no_terminal() {
        let said = serde_json::json!({"error": "no\u{1b}[2J", "list": [{"hint\u{1b}": "a\u{202e}b"}, 7, "plain \\ text"]});
        let shown = serde_json::json!({"error": "no\\u{1b}[2J", "list": [{"hint\\u{1b}": "a\\u{202e}b"}, 7, "plain \\ text"]});
        assert_eq!(harmless(said), shown);
    }
}
