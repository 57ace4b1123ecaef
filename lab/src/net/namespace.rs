//! A network namespace without a name: it lives as long as the thread that is inside, so nothing is left behind,
//! however this process ends.

use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use nix::sched::{CloneFlags, unshare};

type Job = Box<dyn FnOnce() + Send>;

/// A thread inside a network namespace of its own, which runs what it is given.
pub(crate) struct Namespace {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    tid: i32,
}

impl Namespace {
    /// A fresh namespace in which only the loopback interface is up.
    pub(crate) fn new(tuning: &'static [(&str, &str)]) -> Result<Self> {
        let (jobs, todo) = mpsc::channel::<Job>();
        let (born, birth) = mpsc::channel();
        let thread = std::thread::Builder::new().name("namespace".into()).spawn(move || {
            let made = unshare(CloneFlags::CLONE_NEWNET).map(|()| nix::unistd::gettid().as_raw());
            let fine = made.is_ok();
            if born.send(made).is_err() || !fine {
                return;
            }
            for job in todo {
                job();
            }
        })?;
        let tid = birth.recv().context("the namespace's thread has died")?.context(
            "cannot make a network namespace: run as root, or under `unshare -Ur` where the system lets users do so",
        )?;
        let namespace = Self { jobs: Some(jobs), thread: Some(thread), tid };
        namespace.ip("link set lo up")?;
        tuning.iter().try_for_each(|(key, value)| namespace.set(key, value))?;
        Ok(namespace)
    }

    /// Sets a parameter of the kernel inside.
    pub(crate) fn set(&self, key: &'static str, value: &'static str) -> Result<()> {
        self.enter(|| sysctl(key, value))?
    }

    /// Runs `work` inside.
    pub(crate) fn enter<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (told, result) = mpsc::channel();
        let job = Box::new(move || {
            // Nobody waits any more only if the caller has died.
            let _ = told.send(work());
        });
        let jobs = self.jobs.as_ref().ok_or_else(|| anyhow!("the namespace has ended"))?;
        jobs.send(job).map_err(|_| anyhow!("the namespace has ended"))?;
        result.recv().context("what ran in the namespace has died")
    }

    /// Runs iproute2's `ip` inside, with these words.
    pub(crate) fn ip(&self, words: &str) -> Result<()> {
        let words = words.to_owned();
        self.enter(move || {
            let said =
                Command::new("ip").args(words.split(' ')).output().context("cannot run `ip` of iproute2")?;
            if !said.status.success() {
                bail!("ip {words}: {}", String::from_utf8_lossy(&said.stderr).trim());
            }
            Ok(())
        })?
    }

    /// The thread inside: names the namespace to the kernel.
    pub(crate) const fn tid(&self) -> i32 {
        self.tid
    }

    /// Packets that the interface dropped on the way out, before anybody saw them.
    pub(crate) fn dropped_at_interface(&self, interface: &'static str) -> Result<u64> {
        let table = self.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
        let line =
            table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
        // Eight columns of what was received, then bytes, packets, errors, drops of what was sent.
        let dropped = line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok());
        dropped.with_context(|| format!("no interface {interface} in the namespace"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sets a parameter of the kernel in the namespace of this thread.
fn sysctl(key: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/{}", key.replace('.', "/"));
    std::fs::write(&path, value).with_context(|| format!("cannot set {key} to {value}"))
}
