//! Hosts in networks of their own, which only root may make.
#![allow(dead_code)] // each test file uses its own part

use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, unshare};

type Job = Box<dyn FnOnce() + Send>;

/// A host: a thread in a network namespace of its own.
pub(crate) struct Host {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    tid: i32,
}

impl Host {
    /// None: the user may not make a namespace.
    pub(crate) fn new() -> Option<Self> {
        let (jobs, todo) = mpsc::channel::<Job>();
        let (born, birth) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let made = unshare(CloneFlags::CLONE_NEWNET).is_ok();
            born.send(made.then(|| nix::unistd::gettid().as_raw())).unwrap();
            todo.into_iter().filter(|_| made).for_each(|job| job());
        });
        let tid = birth.recv().unwrap()?;
        Some(Self { jobs: Some(jobs), thread: Some(thread), tid })
    }

    /// Starts `work` on the host.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> mpsc::Receiver<T> {
        let (tell, told) = mpsc::channel();
        let job = Box::new(move || drop(tell.send(work())));
        self.jobs.as_ref().unwrap().send(job).unwrap();
        told
    }

    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.begin(work).recv().unwrap()
    }

    /// Runs `ip` with these words.
    pub(crate) fn ip(&self, words: String) {
        self.run(move || {
            let said = Command::new("ip").args(words.split(' ')).output().unwrap();
            assert!(said.status.success(), "ip {words}: {}", String::from_utf8_lossy(&said.stderr));
        });
    }

    /// Runs `ip` with these words; unlike [`Self::ip`], this also works while the host is busy.
    pub(crate) fn change(&self, words: &str) {
        let words = format!("--net=/proc/{}/ns/net ip {words}", self.tid);
        assert!(Command::new("nsenter").args(words.split(' ')).status().unwrap().success(), "{words}");
    }

    /// Changes a link, as `ip link set` does; this also works while the host is busy.
    pub(crate) fn set(&self, link: &str, change: &str) {
        self.change(&format!("link set {link} {change}"));
    }

    /// Makes a cable between `near` of this host and `far` of another, for packets of `mtu` bytes.
    pub(crate) fn cable(&self, near: &str, ip: &str, to: &Self, far: &str, far_ip: &str, mtu: u32) {
        self.ip(format!("link add {near} type veth peer name {far} netns {}", to.tid));
        for (host, name, ip) in [(self, near, ip), (to, far, far_ip)] {
            host.ip(format!("addr add {ip}/24 dev {name}"));
            host.ip(format!("link set {name} mtu {mtu} up"));
        }
    }

    /// Packets that arrived marked ECT(0), and packets that arrived without a mark.
    pub(crate) fn marks(&self) -> [u64; 2] {
        let table = self.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap());
        let mut lines = table.lines().filter_map(|line| line.strip_prefix("IpExt: "));
        let (names, figures) = (lines.next().unwrap(), lines.next().unwrap());
        ["InECT0Pkts", "InNoECTPkts"].map(|name| {
            let mut pairs = names.split(' ').zip(figures.split(' '));
            pairs.find(|(known, _)| *known == name).unwrap().1.parse().unwrap()
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let ended = self.thread.take().unwrap().join();
        // If the test has failed already, its own message says more.
        assert!(ended.is_ok() || std::thread::panicking(), "the work of a host has failed");
    }
}
