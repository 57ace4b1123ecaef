//! Standard error: lines for people.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints `text` and a line feed on standard error, in one write, so that lines of other processes stay apart.
///
/// An error is ignored: it cannot be told, since standard error is the place for it, and the work does not depend on
/// what is said about it.
pub(crate) fn line(text: impl Display) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}
