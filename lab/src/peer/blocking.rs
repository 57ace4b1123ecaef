//! An application between two threads: one sends and one receives, with calls that block.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::app::App;

/// Larger than any message.
const ROOM: usize = 1 << 16;

/// Sends what the application has and hands it what comes, for ever. Both calls tell whether they went well; `receive`
/// how long the message is.
pub(super) fn run(
    app: Box<dyn App>,
    bytes: usize,
    send: impl Fn(&[u8]) -> bool + Sync,
    receive: impl Fn(&mut [u8]) -> Option<usize>,
) -> Result<()> {
    let (app, changed) = (Mutex::new(app), Condvar::new());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut message = vec![0x5a; bytes];
            loop {
                let mut app = app.lock().unwrap_or_else(PoisonError::into_inner);
                while !app.next(&mut message) {
                    // It may have been told to stop, which wakes nobody.
                    let waited = changed.wait_timeout(app, Duration::from_secs(1));
                    app = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                drop(app);
                if !send(&message) {
                    return;
                }
            }
        });
        let mut buffer = vec![0; ROOM];
        while let Some(length) = receive(&mut buffer) {
            app.lock().unwrap_or_else(PoisonError::into_inner).take(buffer.get(..length).unwrap_or_default());
            changed.notify_one();
        }
        bail!("the other end has closed the connection")
    })
}
