//! The time limits for silent senders.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::units;

/// The time that a sender may be silent even if others wait for its place.
const AT_LEAST: Duration = Duration::from_secs(10);

/// The time limit for a silent sender.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    pub(super) most: Duration,
    /// Set while others wait for a place.
    pub(super) crowded: Arc<AtomicBool>,
}

impl Patience {
    /// The same, with a limit of no more than `most`.
    pub(super) fn at_most(&self, most: Duration) -> Self {
        Self { most: self.most.min(most), crowded: Arc::clone(&self.crowded) }
    }

    fn is_over(&self, silent: Duration) -> bool {
        silent >= self.most || silent >= AT_LEAST && self.crowded.load(Ordering::Relaxed)
    }

    fn look_again(&self) -> Duration {
        self.most.min(AT_LEAST)
    }

    /// Ends when the time limit, counted from this call, is over.
    pub(super) async fn end(self) {
        let begun = Instant::now();
        while !self.is_over(begun.elapsed()) {
            tokio::time::sleep(self.look_again()).await;
        }
    }
}

/// A body that fails when its sender is silent for too long.
pub(super) struct Patient<R> {
    body: R,
    patience: Patience,
    heard: Instant,
    look: Pin<Box<Sleep>>,
}

impl<R> Patient<R> {
    pub(super) fn new(body: R, patience: Patience) -> Self {
        let look = Box::pin(tokio::time::sleep(patience.look_again()));
        Self { body, patience, heard: Instant::now(), look }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Patient<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { body, patience, heard, look } = self.get_mut();
        if let Poll::Ready(read) = Pin::new(body).poll_read(cx, buf) {
            *heard = Instant::now();
            return Poll::Ready(read);
        }
        while look.as_mut().poll(cx).is_ready() {
            let silent = heard.elapsed();
            if patience.is_over(silent) {
                let silent = units::span(silent);
                let error = format!("its sender has been silent for {silent}");
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, error)));
            }
            look.as_mut().reset(Instant::now() + patience.look_again());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn silence(most: u64, crowded: bool) -> Duration {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
            let (mut sender, body) = tokio::io::duplex(64);
            let patience = Patience { most: Duration::from_secs(most), crowded: Arc::new(crowded.into()) };
            let mut body = Patient::new(body, patience);
            let slow = async {
                for _ in 0..5 {
                    tokio::time::sleep(Duration::from_secs(9)).await;
                    sender.write_all(b"x").await.unwrap();
                }
            };
            let mut heard = [0; 5];
            let (_, read) = tokio::join!(slow, body.read_exact(&mut heard));
            read.unwrap();
            let begun = Instant::now();
            assert_eq!(body.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            begun.elapsed()
        })
    }

    #[test]
    fn a_slow_sender_is_heard_out_and_a_silent_one_is_not() {
        let about = |seconds: u64| Duration::from_secs(seconds - 10)..=Duration::from_secs(seconds + 10);
        assert!(about(600).contains(&silence(600, false)));
        assert!(about(10).contains(&silence(600, true)));
        assert!(about(11).contains(&silence(11, false)));
    }
}
