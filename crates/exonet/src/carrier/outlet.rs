//! The sending side of a connection. Bytes that the connection does not take at once wait here, and the core learns
//! how many more it may send.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use tokio::io::AsyncWrite;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::connection::Writer;
use super::frame::frame;

/// How many bytes of packets the core may make beyond those that the connection has taken.
pub(crate) const ROOM: usize = 65_536;
/// The largest number of bytes that wait. Acknowledgements may leave without room; if this many bytes of them wait,
/// the other end does not read.
const MOST: usize = 1 << 20;

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The core need not be told anything.
    Quietly,
    /// The core may make packets of this many bytes from now on.
    Room(usize),
    /// The connection is broken.
    Broken,
}

/// Wakes the task of the connection when the connection may take more, or is broken.
#[derive(Default)]
struct Work(Notify);

impl Wake for Work {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

struct Waiting {
    writer: Writer,
    bytes: Vec<u8>,
    /// How many of those bytes have left.
    gone: usize,
    /// Whether the writer has taken bytes and may still hold them in its buffer.
    kept: bool,
    /// The number of bytes that the core was last told it may send.
    told: usize,
    /// Since when the connection has taken none of the waiting bytes.
    stuck: Option<Instant>,
    broken: bool,
}

pub(crate) struct Outlet {
    waiting: Mutex<Waiting>,
    work: Arc<Work>,
    /// The waker of `work`. Every write leaves it with the connection.
    waker: Waker,
}

impl Outlet {
    pub(crate) fn new(writer: Writer) -> Self {
        let waiting = Waiting {
            writer,
            bytes: Vec::new(),
            gone: 0,
            kept: false,
            told: ROOM,
            stuck: None,
            broken: false,
        };
        let work = Arc::<Work>::default();
        Self { waiting: Mutex::new(waiting), waker: Waker::from(Arc::clone(&work)), work }
    }

    /// Waits until the connection may take more bytes, or is broken.
    pub(crate) async fn work(&self) {
        self.work.0.notified().await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the datagrams in `data`. Each has `segment` bytes; only the last may be shorter.
    pub(crate) fn send(&self, data: &[u8], segment: usize) -> Written {
        let mut waiting = self.waiting();
        if waiting.broken {
            return Written::Broken;
        }
        let before = waiting.bytes.len();
        frame(data, segment, &mut waiting.bytes);
        let added = waiting.bytes.len() - before;
        waiting.told = waiting.told.saturating_sub(added);
        let written = if before == 0 { self.write(&mut waiting) } else { Written::Quietly };
        if waiting.bytes.len() - waiting.gone > MOST {
            waiting.broken = true;
        }
        if waiting.broken {
            self.work.0.notify_one();
            return Written::Broken;
        }
        written
    }

    /// Writes as many of the waiting bytes as the connection takes.
    pub(crate) fn flush(&self) -> Written {
        self.write(&mut self.waiting())
    }

    fn write(&self, waiting: &mut Waiting) -> Written {
        let mut cx = Context::from_waker(&self.waker);
        let some = waiting.push(&mut cx);
        if waiting.broken {
            return Written::Broken;
        }
        let left = waiting.bytes.len() - waiting.gone;
        if left == 0 {
            waiting.bytes.clear();
            waiting.gone = 0;
            waiting.stuck = None;
        } else if some || waiting.stuck.is_none() {
            waiting.bytes.drain(..waiting.gone);
            waiting.gone = 0;
            waiting.stuck = Some(Instant::now());
        }
        let room = ROOM.saturating_sub(left);
        if waiting.told < ROOM / 2 && room > waiting.told {
            waiting.told = room;
            return Written::Room(room);
        }
        Written::Quietly
    }

    /// Whether bytes wait, either here or in the buffer of the writer.
    pub(crate) fn is_waiting(&self) -> bool {
        let waiting = self.waiting();
        !waiting.bytes.is_empty() || waiting.kept
    }

    /// Since when the connection has taken none of the waiting bytes. Time during which the machine is suspended does
    /// not count, since the other end could not be served then.
    pub(crate) fn stuck_since(&self) -> Option<Instant> {
        self.waiting().stuck
    }

    /// Frees memory while the connection is idle.
    pub(crate) fn rest(&self) {
        let mut waiting = self.waiting();
        if waiting.bytes.is_empty() {
            waiting.bytes = Vec::new();
        }
    }

    /// Whether the connection has failed or was given up. Then nothing more is written.
    pub(crate) fn is_broken(&self) -> bool {
        self.waiting().broken
    }

    /// Gives the connection up. Nothing more is written.
    pub(crate) fn give_up(&self) {
        self.waiting().broken = true;
        self.work.0.notify_one();
    }
}

impl Waiting {
    /// Writes until the connection takes no more. Returns whether it took any bytes.
    fn push(&mut self, cx: &mut Context<'_>) -> bool {
        let mut some = false;
        while !self.broken && self.gone < self.bytes.len() {
            let rest = self.bytes.get(self.gone..).unwrap_or_default();
            match Pin::new(&mut self.writer).poll_write(cx, rest) {
                Poll::Ready(Ok(count)) => {
                    self.gone += count.min(rest.len());
                    some |= count > 0;
                    self.kept |= count > 0;
                    self.broken |= count == 0;
                }
                Poll::Ready(Err(error)) => self.failed(&error),
                Poll::Pending => break,
            }
        }
        if self.kept && !self.broken {
            match Pin::new(&mut self.writer).poll_flush(cx) {
                Poll::Ready(Ok(())) => self.kept = false,
                Poll::Ready(Err(error)) => self.failed(&error),
                Poll::Pending => {}
            }
        }
        some
    }

    fn failed(&mut self, error: &io::Error) {
        if error.kind() != io::ErrorKind::Interrupted {
            tracing::debug!(%error, "writing to a connection");
            self.broken = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    impl Outlet {
        /// How many bytes of memory the waiting bytes take.
        pub(crate) fn held(&self) -> usize {
            self.waiting().bytes.capacity()
        }
    }

    /// Acknowledgements leave without room, so the core alone does not bound them.
    #[test]
    fn one_who_reads_nothing_does_not_make_the_node_keep_all_that_it_says() {
        const PACKET: usize = 1_200;
        let (near, _far) = duplex(16_384);
        let outlet = Outlet::new(Box::new(near));
        let most = (0..2 * MOST / PACKET).find(|_| outlet.send(&[7; PACKET], PACKET) == Written::Broken);
        assert!(most.is_some_and(|count| count * PACKET > MOST / 2), "{most:?}");
        let held = outlet.held();
        assert!(outlet.is_broken() && held <= 2 * MOST, "{held}");
        assert_eq!(outlet.send(&[7; PACKET], PACKET), Written::Broken);
        assert_eq!(outlet.held(), held, "nothing more is kept");
    }
}
