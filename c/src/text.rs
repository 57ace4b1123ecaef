//! Texts that C borrows.

use crate::raw::exonet_str;

/// A text with a NUL at its end, which its length does not count.
#[derive(Debug, Clone)]
pub(crate) struct Text(Box<str>);

impl Text {
    pub(crate) fn new(text: impl ToString) -> Self {
        let mut text = text.to_string();
        text.push('\0');
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.strip_suffix('\0').unwrap_or(&self.0)
    }

    /// The text, valid as long as this exists.
    pub(crate) fn lend(&self) -> exonet_str {
        exonet_str::lend(self.as_str())
    }
}
