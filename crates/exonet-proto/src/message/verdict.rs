//! Verdicts of the receiving application on messages, beyond taking them.

use crate::half::Mark;
pub use crate::wire::MAX_REASON;

/// A verdict of an application on a message. The sender of the message is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The kind of verdict.
    pub word: Word,
    /// A number whose meaning the two applications agree on; zero if it has none.
    pub status: u32,
    /// How many times the message was handed out.
    pub attempts: u32,
    /// Why, as text for a person; at most [`MAX_REASON`] bytes.
    pub reason: Box<str>,
}

/// The word of a [`Verdict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// The application took the message as it was handed out, and does not say what became of it.
    Taken,
    /// The application has processed the message.
    Processed,
    /// The application does not take the message, and does not want it again.
    Rejected,
}

impl Word {
    /// How the slot of the message is marked.
    pub(crate) const fn mark(self) -> Mark {
        match self {
            Self::Taken | Self::Processed => Mark::Done,
            Self::Rejected => Mark::Rejected,
        }
    }

    pub(crate) const fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Taken,
            1 => Self::Processed,
            2 => Self::Rejected,
            _ => return None,
        })
    }
}

/// What a sender wants to be told about a message in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Confirm {
    /// That the receiving application has it: it acknowledged the message, or asked for it at most once.
    #[default]
    Delivered,
    /// That the receiving application has processed it, and with which status.
    Processed,
}

impl Verdict {
    /// A verdict with the first [`MAX_REASON`] bytes of `reason`, cut at the end of a character. The node fills in how many times
    /// the message was handed out.
    pub fn new(word: Word, status: u32, reason: &str) -> Self {
        Self { word, status, attempts: 0, reason: cut(reason) }
    }
}

fn cut(text: &str) -> Box<str> {
    let mut end = text.len().min(MAX_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_where_a_character_ends() {
        let text = format!("{}ö", "x".repeat(MAX_REASON - 1));
        assert_eq!(&*cut(&text), "x".repeat(MAX_REASON - 1));
        assert_eq!(&*cut("short"), "short");
    }
}
