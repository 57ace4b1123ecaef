//! The registry of an end: the other ends, their runs, and their numbers of connections.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use exonet::NodeId;
use tokio::sync::watch;

use super::life::{Life, Over};
use super::wire::{Code, Refusal, Run};

/// The number of ended runs that are remembered, so that late messages from them do not begin a new run.
const RETIRED: usize = 4_096;

/// The registry. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    inner: Arc<Mutex<Inner>>,
    /// The maximum number of connections at once, of one peer and of all peers.
    per_peer: usize,
    all: usize,
}

#[derive(Debug, Default)]
struct Inner {
    runs: BTreeMap<NodeId, Entry>,
    retired: VecDeque<(NodeId, Run)>,
    connections: BTreeMap<NodeId, usize>,
    /// The number of open connections of all peers.
    open: watch::Sender<usize>,
}

#[derive(Debug)]
struct Entry {
    run: Run,
    life: Life,
    end: watch::Sender<Option<Over>>,
    heard: Instant,
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Seat(Registry, NodeId);

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.open.send_modify(|open| *open = open.saturating_sub(1));
        if let Some(count) = inner.connections.get_mut(&self.1) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                inner.connections.remove(&self.1);
            }
        }
    }
}

impl Inner {
    fn retire(&mut self, peer: NodeId, over: Over) {
        let Some(entry) = self.runs.remove(&peer) else { return };
        entry.end.send_replace(Some(over));
        // A run that was silent may resume.
        if over != Over::Silent {
            self.retired.push_back((peer, entry.run));
            if self.retired.len() > RETIRED {
                self.retired.pop_front();
            }
        }
    }
}

impl Registry {
    pub(crate) fn new(per_peer: usize, all: usize) -> Self {
        Self { inner: Arc::default(), per_peer, all }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the run of a peer. True if the run is new. An earlier run of the peer ends, since a peer has one
    /// process at a time.
    ///
    /// # Errors
    /// The run has ended.
    pub(crate) fn enter(&self, peer: NodeId, run: Run) -> Result<(Life, bool), Refusal> {
        let mut inner = self.lock();
        if inner.retired.contains(&(peer, run)) {
            return Err(Refusal::new(Code::Gone, "this run has ended"));
        }
        if let Some(entry) = inner.runs.get_mut(&peer).filter(|entry| entry.run == run) {
            entry.heard = Instant::now();
            return Ok((entry.life.clone(), false));
        }
        inner.retire(peer, Over::Restarted);
        let (end, life) = Life::new();
        inner.runs.insert(peer, Entry { run, life: life.clone(), end, heard: Instant::now() });
        Ok((life, true))
    }

    /// The time since the last message of the run. None: the run has ended.
    pub(crate) fn silent(&self, peer: NodeId, run: Run) -> Option<Duration> {
        let inner = self.lock();
        inner.runs.get(&peer).filter(|entry| entry.run == run).map(|entry| entry.heard.elapsed())
    }

    /// Ends a run. False: it had already ended.
    pub(crate) fn end(&self, peer: NodeId, run: Run, over: Over) -> bool {
        let mut inner = self.lock();
        let there = inner.runs.get(&peer).is_some_and(|entry| entry.run == run);
        if there {
            inner.retire(peer, over);
        }
        there
    }

    /// Ends all runs, because this end is stopping.
    pub(crate) fn end_all(&self) {
        let mut inner = self.lock();
        let peers: Vec<_> = inner.runs.keys().copied().collect();
        peers.into_iter().for_each(|peer| inner.retire(peer, Over::Stopping));
    }

    /// Waits until there are no connections.
    pub(crate) async fn empty(&self) {
        let mut open = self.lock().open.subscribe();
        // The sender lives as long as the registry.
        let _ = open.wait_for(|open| *open == 0).await;
    }

    /// Takes a seat for one more connection of a peer.
    ///
    /// # Errors
    /// The maximum number of connections is reached.
    pub(crate) fn seat(&self, peer: NodeId) -> Result<Seat, Refusal> {
        let mut inner = self.lock();
        let own = inner.connections.get(&peer).copied().unwrap_or(0);
        let full = |whose, most| {
            Err(Refusal::new(
                Code::Busy,
                format!("{whose} {most} connections already, and no more are allowed"),
            ))
        };
        if own >= self.per_peer {
            return full("this node has", self.per_peer);
        }
        if *inner.open.borrow() >= self.all {
            return full("the far end has", self.all);
        }
        inner.open.send_modify(|open| *open += 1);
        inner.connections.insert(peer, own + 1);
        Ok(Seat(self.clone(), peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId([1; 32]);
    const OTHER: NodeId = NodeId([2; 32]);

    fn run(text: &str) -> Run {
        text.repeat(16).parse().unwrap()
    }

    #[tokio::test]
    async fn a_new_run_ends_the_one_before_and_that_does_not_come_back() {
        let registry = Registry::new(9, 9);
        let (mut first, new) = registry.enter(PEER, run("1")).unwrap();
        assert!(new && !registry.enter(PEER, run("1")).unwrap().1);
        assert!(registry.enter(OTHER, run("1")).unwrap().1, "it is another's");
        assert!(registry.enter(PEER, run("2")).unwrap().1);
        assert_eq!(first.over().await, Over::Restarted);
        assert_eq!(registry.enter(PEER, run("1")).unwrap_err().code, Code::Gone);
        assert!(!registry.end(PEER, run("1"), Over::Left) && registry.end(PEER, run("2"), Over::Left));
        assert_eq!(registry.silent(PEER, run("2")), None);
        assert!(registry.silent(OTHER, run("1")).is_some());
        registry.end_all();
        assert_eq!(registry.silent(OTHER, run("1")), None);
    }

    #[test]
    fn connections_are_counted_until_they_end() {
        let registry = Registry::new(2, 3);
        let seats = [PEER, PEER, OTHER].map(|peer| registry.seat(peer).unwrap());
        assert!(registry.seat(PEER).unwrap_err().text.contains("this node has 2"));
        assert!(registry.seat(OTHER).unwrap_err().text.contains("the far end has 3"));
        drop(seats);
        assert!(registry.lock().connections.is_empty() && *registry.lock().open.borrow() == 0);
        assert!(registry.seat(PEER).is_ok());
    }
}
