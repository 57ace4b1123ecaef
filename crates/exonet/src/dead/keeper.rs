//! Rejects messages: it keeps the letter first, and then tells the sender.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use exonet_proto::node::{DeliveryKey, Verdict};

use super::{DeadLetter, DeadLetters};
use crate::shared::Shared;
use crate::state::StateError;

/// The pause after a letter could not be written, and the longest pause: each failure doubles it.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// The dead letters of a node, and the thread that writes them.
pub(crate) struct Keeper {
    pub(crate) letters: DeadLetters,
    /// Made for the first job. None: the system cannot create a thread.
    jobs: OnceLock<Option<Sender<Job>>>,
    /// The number of messages whose letters are not kept yet.
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

    /// Rejects a message. If its letter goes to the disk, a separate thread writes it, and repeats that until the
    /// letter is there: the application has judged the message, so it does not get the message again for that.
    pub(crate) fn reject(&self, shared: &Arc<Shared>, job: Job) {
        if self.letters.is_immediate() {
            return drop(run(shared, &self.letters, &job));
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
            // Without a thread nothing can be repeated, so the application gets the message again, after a pause.
            tracing::error!(
                "no thread can write a dead letter; its message is handed out again in {LONGEST:?}"
            );
            shared.step_calmly(|engine, now| engine.release_at(job.key, now.mono + LONGEST));
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
    let mut late = Late::default();
    loop {
        let job = match late.due() {
            None => jobs.recv().map_err(|RecvError| RecvTimeoutError::Disconnected),
            Some(due) => match due.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => jobs.recv_timeout(left),
                // Jobs that arrive all the time must not delay those that wait.
                _ => Err(RecvTimeoutError::Timeout),
            },
        };
        let Some(shared) = node.upgrade() else { return };
        // A node that has ended no longer owns its directory. Its next life hands the messages out again.
        if shared.ended.is_closed() {
            return;
        }
        let (tried, is_new) = match job {
            Ok(job) => (vec![job], true),
            Err(RecvTimeoutError::Timeout) => (late.take(), false),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut error = None;
        for job in tried {
            match run(&shared, letters, &job) {
                Ok(()) => shared.dead.one_less(&shared),
                Err(why) => {
                    late.jobs.push(job);
                    error = Some(why);
                }
            }
        }
        match error {
            // While letters wait, those that join them wait as long.
            Some(_) if is_new && late.due().is_some() => {}
            Some(error) => {
                let (pause, count) = (late.failed(Instant::now()), late.jobs.len());
                tracing::error!(
                    "cannot keep the dead letters of {count} rejected messages: {error}; again in {pause:?}"
                );
            }
            None if late.jobs.is_empty() => late.recovered(),
            None => {}
        }
    }
}

/// Letters that could not be written, with the time of the next attempt.
#[derive(Default)]
struct Late {
    jobs: Vec<Job>,
    due: Option<Instant>,
    pause: Option<Duration>,
}

impl Late {
    /// The time of the next attempt. None: no letter waits.
    fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The letters that wait, for an attempt.
    fn take(&mut self) -> Vec<Job> {
        self.due = None;
        core::mem::take(&mut self.jobs)
    }

    /// Notes that an attempt failed. Returns the pause before the next.
    fn failed(&mut self, now: Instant) -> Duration {
        let pause = self.pause.map_or(FIRST, |last| last.saturating_mul(2)).min(LONGEST);
        self.pause = Some(pause);
        self.due = Some(now + pause);
        pause
    }

    /// Notes that all letters are kept.
    fn recovered(&mut self) {
        *self = Self::default();
    }
}

/// Keeps the letter of a message, and then tells the sender.
fn run(shared: &Arc<Shared>, letters: &DeadLetters, job: &Job) -> Result<(), StateError> {
    letters.put(&job.letter)?;
    shared.step_calmly(|engine, now| engine.judge(now, job.key, job.verdict.clone()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let (mut late, now) = (Late::default(), Instant::now());
        assert_eq!(late.due(), None);
        let pauses: Vec<_> = (0..9).map(|_| late.failed(now).as_millis()).collect();
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(late.due(), Some(now + LONGEST));
        late.recovered();
        assert_eq!((late.due(), late.failed(now)), (None, FIRST));
    }
}
