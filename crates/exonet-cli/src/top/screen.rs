//! The terminal, which is restored in any case.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::sync::mpsc;

use super::app::App;
use super::draw::draw;
use crate::failure::Failure;

/// The longest time that the thread that reads the terminal may run after the end.
const LOOK: Duration = Duration::from_millis(100);

/// An event of the terminal.
#[derive(Debug)]
pub(crate) enum Said {
    Key(KeyEvent),
    /// The terminal has a new size.
    Resized,
    /// The terminal is gone.
    Gone(io::Error),
}

/// A terminal that shows only the picture, until this is dropped. A panic also restores it, and then prints its
/// message.
pub(crate) struct Screen {
    /// Never dropped: if the terminal is gone, that would print an error on it, and panic.
    terminal: ManuallyDrop<DefaultTerminal>,
    said: mpsc::UnboundedReceiver<Said>,
    ended: Arc<AtomicBool>,
}

impl Screen {
    /// Switches the terminal to the picture.
    ///
    /// # Errors
    /// There is no terminal, or it lacks a needed feature.
    pub(crate) fn take() -> Result<Self, Failure> {
        let terminal = ratatui::try_init().map_err(|error| {
            let _ = ratatui::try_restore();
            unfit(&error)
        })?;
        let terminal = ManuallyDrop::new(terminal);
        let (say, said) = mpsc::unbounded_channel();
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let heard = match event::poll(LOOK).and_then(|there| there.then(event::read).transpose()) {
                    Ok(Some(Event::Key(key))) if key.kind != KeyEventKind::Release => Said::Key(key),
                    Ok(Some(Event::Resize(..))) => Said::Resized,
                    Ok(_) => continue,
                    Err(error) => Said::Gone(error),
                };
                let gone = matches!(heard, Said::Gone(_));
                if say.send(heard).is_err() || gone {
                    return;
                }
            }
        });
        Ok(Self { terminal, said, ended })
    }

    /// The next event of the terminal. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Said {
        let gone = || Said::Gone(io::Error::other("the terminal sends nothing more"));
        self.said.recv().await.unwrap_or_else(gone)
    }

    /// Shows the picture.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn show(&mut self, app: &mut App) -> Result<(), Failure> {
        self.terminal.draw(|frame| draw(app, frame)).map(drop).map_err(|error| unfit(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Both fail if the terminal is gone: then there is nothing to restore.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// The error that the terminal cannot be used.
pub(crate) fn unfit(error: &io::Error) -> Failure {
    Failure::new("cannot use the terminal")
        .because(error)
        .hint("--once prints one screen as plain text, --json a line per second")
}
