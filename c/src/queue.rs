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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::delivery::tests::{PATIENCE, pair};
    use crate::fault::exonet_code;

    const fn event(token: u64) -> Event {
        Event::CallEnded { token }
    }

    /// The token of the next event; None for the last one.
    fn token(queue: &Queue, timeout: Option<Duration>) -> Result<Option<u64>, exonet_code> {
        match queue.take(timeout) {
            Ok(Event::CallEnded { token }) => Ok(Some(token)),
            Ok(_) => Ok(None),
            Err(fault) => Err(fault.code()),
        }
    }

    #[test]
    fn events_are_taken_in_order_until_the_last_one() {
        let (queue, now) = (Queue::new(), Some(Duration::ZERO));
        assert_eq!(token(&queue, now), Err(exonet_code::EXONET_TIMEOUT));
        (1..=3).for_each(|token| queue.put(event(token)));
        assert_eq!(token(&queue, now), Ok(Some(1)));
        queue.put(Event::Closed);
        queue.put(event(4));
        for expected in [Ok(Some(2)), Ok(Some(3)), Ok(None), Err(exonet_code::EXONET_CLOSED)] {
            assert_eq!(token(&queue, None), expected);
        }
        assert_eq!(token(&queue, now), Err(exonet_code::EXONET_CLOSED), "it stays closed");
    }

    #[test]
    fn each_event_goes_to_one_thread_and_the_end_to_all() {
        let queue = Arc::new(Queue::new());
        let (taken, seen) = std::sync::mpsc::channel();
        for _ in 0..4 {
            let (queue, taken) = (Arc::clone(&queue), taken.clone());
            thread::spawn(move || taken.send(token(&queue, None)));
        }
        queue.put(event(1));
        queue.put(Event::Closed);
        let mut seen: Vec<_> = (0..4).map(|_| seen.recv_timeout(PATIENCE).expect("all are woken")).collect();
        seen.sort_by_key(|seen| *seen != Ok(Some(1)));
        assert_eq!(seen.first(), Some(&Ok(Some(1))));
        let ends = |seen: &&_| **seen == Err(exonet_code::EXONET_CLOSED);
        assert_eq!(seen.iter().filter(ends).count(), 2, "{seen:?}");
    }

    #[cfg(unix)]
    #[test]
    fn the_pipe_holds_one_byte_while_there_is_something_to_take() {
        let (queue, now) = (Arc::new(Queue::new()), Some(Duration::ZERO));
        queue.put(event(0));
        let fd = queue.fd().unwrap();
        assert_eq!(queue.fd().unwrap(), fd, "one descriptor for all");
        let full = || queue.state().pipe.as_ref().map(|pipe| pipe.full);
        assert_eq!(full(), Some(true), "the event was there before the pipe");
        // A byte for each would fill the pipe, and the thread that puts them in would wait.
        let (filling, (done, filled)) = (Arc::clone(&queue), std::sync::mpsc::channel());
        thread::spawn(move || {
            (1..200_000).for_each(|token| filling.put(event(token)));
            done.send(())
        });
        filled.recv_timeout(PATIENCE).expect("no event waits for the pipe");
        (0..200_000).for_each(|taken| assert_eq!(token(&queue, now), Ok(Some(taken))));
        assert_eq!(full(), Some(false));
        queue.put(event(0));
        let mut reader = queue.state().pipe.as_ref().unwrap().reader.try_clone().unwrap();
        // There is exactly one byte: this read does not wait, and what is put back is all.
        reader.read_exact(&mut [0]).unwrap();
        queue.state().pipe.as_mut().unwrap().full = false;
        queue.put(Event::Closed);
        assert_eq!((token(&queue, now), token(&queue, now)), (Ok(Some(0)), Ok(None)));
        assert_eq!(full(), Some(true), "a program that polls is woken again, and finds the end");
    }

    #[tokio::test]
    async fn messages_that_are_not_taken_are_handed_out_again() {
        let (alice, core) = pair().await;
        let room = Arc::new(Semaphore::new(1));
        drop(alice.peer(core.node.peer_addr()).send("x").await.unwrap());
        let mut attempt = 0;
        // By the end of the node before it is taken, and before it is put in.
        for ends in [Queue::clear, |queue: &Queue| queue.put(Event::Closed)] {
            attempt += 1;
            let delivery =
                tokio::time::timeout(PATIENCE, core.next()).await.expect("it comes again").unwrap();
            assert_eq!(crate::delivery::exonet_delivery_attempt(Some(&delivery)), attempt);
            let place = Arc::clone(&room).acquire_owned().await.unwrap();
            let message = Event::Message(Box::new(delivery), place);
            if attempt == 1 {
                core.queue.put(message);
                ends(&core.queue);
            } else {
                ends(&core.queue);
                core.queue.put(message);
            }
            assert_eq!(room.available_permits(), 1, "its place is free again");
        }
        let delivery = tokio::time::timeout(PATIENCE, core.next()).await.expect("it comes again").unwrap();
        assert_eq!(crate::delivery::exonet_delivery_attempt(Some(&delivery)), 3);
    }
}
