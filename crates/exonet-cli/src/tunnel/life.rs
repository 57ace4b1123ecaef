//! The lifetime of a run, as its connections see it.

use std::fmt;

use tokio::sync::watch;

/// The reason why a run, and its connections, have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The other end was restarted.
    Restarted,
    /// The other end has announced its end.
    Left,
    /// The other end was silent for too long.
    Silent,
    /// This command ends.
    Stopping,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Restarted => "the other end was restarted",
            Self::Left => "the other end has ended",
            Self::Silent => "the other end was silent for too long",
            Self::Stopping => "this end is stopping",
        })
    }
}

/// The life of a run, as one connection sees it.
#[derive(Clone, Debug)]
pub(crate) struct Life(watch::Receiver<Option<Over>>);

impl Life {
    /// A life that lasts until its end is sent.
    pub(crate) fn new() -> (watch::Sender<Option<Over>>, Self) {
        let (end, over) = watch::channel(None);
        (end, Self(over))
    }

    /// A life that is over.
    pub(crate) fn ended(over: Over) -> Self {
        Self(watch::channel(Some(over)).1)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits for the end.
    pub(crate) async fn over(&mut self) -> Over {
        match self.0.wait_for(Option::is_some).await {
            Ok(over) => over.unwrap_or(Over::Stopping),
            // The sender is dropped, so nothing else could end the life.
            Err(_) => Over::Stopping,
        }
    }
}
