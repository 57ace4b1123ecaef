//! The events of a node, and the pipe that signals them.

use std::collections::VecDeque;
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use exo::Session;
use exo::send::Settled;
use tokio::sync::OwnedSemaphorePermit;

use crate::delivery::exonet_delivery;
use crate::fault::Fault;
use crate::serve::exonet_request;
use crate::session::exonet_session_event;

/// An event.
pub(crate) enum Event {
    /// The permit is a place among the messages that may wait; it is released when the event is taken.
    Message(Box<exonet_delivery>, OwnedSemaphorePermit),
    Settled {
        token: u64,
        settled: Settled,
    },
    CallEnded {
        token: u64,
    },
    Request {
        token: u64,
        request: Box<exonet_request>,
    },
    /// The permit is as that of a message. The session has no handle yet: a handle keeps the node, which has this
    /// queue.
    SessionOpened(Box<Session>, OwnedSemaphorePermit),
    SessionMessage {
        token: u64,
        delivery: Box<exonet_delivery>,
    },
    SessionChanged {
        token: u64,
        event: Box<exonet_session_event>,
    },
    GroupDecided {
        token: u64,
    },
    GroupEnded {
        token: u64,
    },
    Closed,
}

/// Events that wait to be taken.
pub(crate) struct Queue {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    /// The last event has been put in.
    closed: bool,
    pipe: Option<Pipe>,
}

/// A pipe that holds a byte whenever there is an event to take, or the queue is closed.
struct Pipe {
    reader: PipeReader,
    writer: PipeWriter,
    full: bool,
}

impl State {
    /// Writes or reads the byte of the pipe. The pipe never holds more than one byte, so that neither end can block.
    fn tell(&mut self) {
        let wanted = self.closed || !self.events.is_empty();
        let Some(pipe) = &mut self.pipe else { return };
        if pipe.full != wanted {
            let moved = if wanted { pipe.writer.write_all(&[1]) } else { pipe.reader.read_exact(&mut [0]) };
            if moved.is_ok() {
                pipe.full = wanted;
            }
        }
    }
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), more: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event. After the last event, none is added.
    pub(crate) fn put(&self, event: Event) {
        let mut state = self.state();
        if state.closed {
            drop(state);
            // Its guard is given to the node after the lock is released.
            drop(event);
            return;
        }
        state.closed = matches!(event, Event::Closed);
        state.events.push_back(event);
        state.tell();
        if state.closed { self.more.notify_all() } else { self.more.notify_one() }
    }

    /// Waits for the next event.
    pub(crate) fn take(&self, timeout: Option<Duration>) -> Result<Event, Fault> {
        let empty = |state: &mut State| state.events.is_empty() && !state.closed;
        let state = self.state();
        let mut state = match timeout {
            None => self.more.wait_while(state, empty).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                self.more.wait_timeout_while(state, timeout, empty).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        let event = state.events.pop_front();
        state.tell();
        event.ok_or_else(|| if state.closed { Fault::closed() } else { Fault::timeout() })
    }

    /// The descriptor to poll: readable when there is an event to take.
    #[cfg(unix)]
    pub(crate) fn fd(&self) -> Result<i32, Fault> {
        use std::os::fd::AsRawFd as _;
        let mut state = self.state();
        let pipe = match state.pipe.take() {
            Some(pipe) => pipe,
            None => {
                let (reader, writer) = std::io::pipe().map_err(|error| Fault::system("a pipe", &error))?;
                Pipe { reader, writer, full: false }
            }
        };
        let fd = pipe.reader.as_raw_fd();
        state.pipe = Some(pipe);
        state.tell();
        Ok(fd)
    }

    /// There is no descriptor that can be polled with sockets.
    #[cfg(not(unix))]
    pub(crate) fn fd(&self) -> Result<i32, Fault> {
        Err(Fault::usage("this system has no descriptors: wait by exonet_node_next_event, or by a callback"))
    }

    /// Drops the events that will not be taken.
    pub(crate) fn clear(&self) {
        let events = std::mem::take(&mut self.state().events);
        drop(events);
    }
}
