//! Rejects messages: it keeps the letter first, and then tells the sender.

use core::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use exonet_proto::node::{DeliveryKey, Verdict};

use super::{DeadLetter, DeadLetters};
use crate::shared::Shared;

/// The dead letters of a node, and the thread that writes them.
pub(crate) struct Keeper {
    pub(crate) letters: DeadLetters,
    /// Made for the first job. None: the system cannot create a thread.
    jobs: OnceLock<Option<Sender<Job>>>,
    /// The number of messages whose letters are being written.
    under_way: AtomicUsize,
}

/// A message that was handed out, and that the node will reject.
pub(crate) struct Job {
    pub(crate) key: DeliveryKey,
    pub(crate) verdict: Verdict,
    pub(crate) letter: DeadLetter,
}

impl Keeper {
    pub(crate) fn new(letters: DeadLetters) -> Self {
        Self { letters, jobs: OnceLock::new(), under_way: AtomicUsize::new(0) }
    }

    /// Rejects a message. If its letter goes to the disk, a separate thread writes it.
    pub(crate) fn reject(&self, shared: &Arc<Shared>, job: Job) {
        if self.letters.is_immediate() {
            return run(shared, &self.letters, job);
        }
        let jobs = self.jobs.get_or_init(|| {
            let (jobs, taken) = channel();
            let (node, letters) = (Arc::downgrade(shared), self.letters.clone());
            let work = move || work(&node, &letters, &taken);
            let thread = thread::Builder::new().name("exonet-dead".to_owned()).spawn(work);
            thread.is_ok().then_some(jobs)
        });
        self.under_way.fetch_add(1, Ordering::AcqRel);
        let left = match jobs {
            Some(jobs) => jobs.send(job).map_err(|unsent| unsent.0),
            None => Err(job),
        };
        if let Err(job) = left {
            give_back(shared, job.key, &"no thread to write its dead letter");
            self.one_less(shared);
        }
    }

    /// Whether the letter of every rejected message is kept, and its sender's node has been told.
    pub(crate) fn is_quiet(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    fn one_less(&self, shared: &Shared) {
        self.under_way.fetch_sub(1, Ordering::AcqRel);
        // A task that closes the node waits for this.
        shared.settled.notify_waiters();
    }
}

fn work(node: &Weak<Shared>, letters: &DeadLetters, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        let Some(shared) = node.upgrade() else { return };
        run(&shared, letters, job);
        shared.dead.one_less(&shared);
    }
}

fn run(shared: &Arc<Shared>, letters: &DeadLetters, job: Job) {
    let Job { key, verdict, letter } = job;
    match letters.put(letter) {
        Ok(()) => {
            shared.step_calmly(|engine, now| engine.judge(now, key, verdict));
        }
        Err(error) => give_back(shared, key, &error),
    }
}

/// Hands a message out again that the node cannot reject, since its letter would be lost.
fn give_back(shared: &Shared, key: DeliveryKey, why: &dyn fmt::Display) {
    tracing::error!("a message that was rejected is handed out again: {why}");
    drop(shared.step_calmly(|engine, now| engine.release(now, key)));
}
