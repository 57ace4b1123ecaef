//! The way out of a connection: what the system does not take at once waits here, and the core is told how much more may.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use exonet_proto::Mono;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::frame::frame;

/// The core makes packets for so many bytes beyond what the system has taken.
pub(crate) const ROOM: usize = 65_536;
/// Acknowledgements need no room; with so much of them waiting the other end does not read.
const MOST: usize = 1 << 20;

/// What became of what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The core need not be told.
    Quietly,
    /// The core may make packets for so many bytes from now on.
    Room(usize),
    /// The connection is no more.
    Broken,
}

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    /// Of them, so many have left.
    gone: usize,
    /// What the core believes that there is room for.
    told: usize,
    /// Since when the system has taken nothing of what waits.
    stuck: Option<Mono>,
    broken: bool,
}

pub(crate) struct Outlet {
    stream: TcpStream,
    waiting: Mutex<Waiting>,
    /// Something waits, or the connection is broken.
    pub(crate) work: Notify,
}

impl Outlet {
    pub(crate) fn new(stream: TcpStream) -> Self {
        let waiting = Waiting { bytes: Vec::new(), gone: 0, told: ROOM, stuck: None, broken: false };
        Self { stream, waiting: Mutex::new(waiting), work: Notify::new() }
    }

    pub(crate) const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the datagrams in `data`, of `segment` bytes each but the last.
    pub(crate) fn send(&self, now: Mono, data: &[u8], segment: usize) -> Written {
        let mut waiting = self.waiting();
        if waiting.broken {
            return Written::Broken;
        }
        let before = waiting.bytes.len();
        frame(data, segment, &mut waiting.bytes);
        let added = waiting.bytes.len() - before;
        waiting.told = waiting.told.saturating_sub(added);
        let first = before == 0;
        let written = if first { self.write(now, &mut waiting) } else { Written::Quietly };
        if waiting.bytes.len() - waiting.gone > MOST {
            waiting.broken = true;
        }
        if waiting.broken || first && !waiting.bytes.is_empty() {
            self.work.notify_one();
        }
        if waiting.broken { Written::Broken } else { written }
    }

    /// Writes what the system takes of what waits.
    pub(crate) fn flush(&self, now: Mono) -> Written {
        self.write(now, &mut self.waiting())
    }

    fn write(&self, now: Mono, waiting: &mut Waiting) -> Written {
        let mut some = false;
        while !waiting.broken && waiting.gone < waiting.bytes.len() {
            match self.stream.try_write(waiting.bytes.get(waiting.gone..).unwrap_or_default()) {
                Ok(count) => {
                    waiting.gone += count;
                    some |= count > 0;
                    waiting.broken |= count == 0;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::debug!(%error, "writing to a connection");
                    waiting.broken = true;
                }
            }
        }
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
            waiting.stuck = Some(now);
        }
        let room = ROOM.saturating_sub(left);
        if waiting.told < ROOM / 2 && room > waiting.told {
            waiting.told = room;
            return Written::Room(room);
        }
        Written::Quietly
    }

    /// Something waits for the system to take it.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting().bytes.is_empty()
    }

    /// Since when the system has taken nothing of what waits.
    pub(crate) fn stuck_since(&self) -> Option<Mono> {
        self.waiting().stuck
    }

    /// An idle connection has no memory.
    pub(crate) fn rest(&self) {
        let mut waiting = self.waiting();
        if waiting.bytes.is_empty() {
            waiting.bytes = Vec::new();
        }
    }

    /// The connection failed or is given up: nothing more is written.
    pub(crate) fn is_broken(&self) -> bool {
        self.waiting().broken
    }

    /// Nothing more is written.
    pub(crate) fn give_up(&self) {
        self.waiting().broken = true;
        self.work.notify_one();
    }
}
