//! The faults of this process.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::PLAN;

/// The points at which the plan can kill a process.
pub const POINTS: [&str; 19] = [
    "create.before",
    "create.after",
    "write.before",
    "write.torn",
    "write.after",
    "sync.before",
    "sync.after",
    "rename.before",
    "rename.after",
    "remove.before",
    "remove.after",
    "names.before",
    "names.after",
    "state.write.before",
    "state.write.after",
    "state.rename.before",
    "state.rename.after",
    "state.names.before",
    "state.names.after",
];

/// An error of the system, on demand.
struct Fail {
    kind: String,
    times: RangeInclusive<u64>,
    error: io::ErrorKind,
}

#[derive(Default)]
pub(super) struct Plan {
    die: Option<(String, u64)>,
    fails: Vec<Fail>,
    /// From this sync on, the disk forgets what it says that it has forced.
    lies_from: Option<u64>,
    pub(super) boot: Option<[u8; 16]>,
    pub(super) memory: Option<PathBuf>,
    pub(super) image: Option<PathBuf>,
    /// How many times each point was passed.
    passed: Mutex<BTreeMap<String, u64>>,
}

/// The plan of this process.
pub(super) fn plan() -> &'static Plan {
    static OF_PROCESS: OnceLock<Plan> = OnceLock::new();
    OF_PROCESS.get_or_init(|| std::env::var(PLAN).map_or_else(|_| Plan::default(), |text| Plan::read(&text)))
}

impl Plan {
    /// Reads a plan. If a term cannot be read, the process ends, since the test would be useless.
    fn read(text: &str) -> Self {
        let mut plan = Self::default();
        for term in text.split(';').filter(|term| !term.is_empty()) {
            if plan.add(term).is_none() {
                eprintln!("{PLAN}: `{term}` is not understood");
                std::process::exit(2);
            }
        }
        plan
    }

    fn add(&mut self, term: &str) -> Option<()> {
        let (name, value) = term.split_once('=')?;
        match name {
            "die" => {
                let (point, nth) = value.split_once(':')?;
                self.die = Some((POINTS.contains(&point).then(|| point.to_owned())?, nth.parse().ok()?));
            }
            "fail" => {
                let mut parts = value.split(':');
                let kind = parts.next()?.to_owned();
                let (from, to) = parts.next()?.split_once('-')?;
                let error = match parts.next()? {
                    "full" => io::ErrorKind::StorageFull,
                    "io" => io::ErrorKind::Other,
                    _ => return None,
                };
                self.fails.push(Fail { kind, times: from.parse().ok()?..=to.parse().ok()?, error });
            }
            "lie" => self.lies_from = Some(value.parse().ok()?),
            "boot" => {
                let mut boot = [0; 16];
                boot.iter_mut().zip(value.bytes()).for_each(|(to, from)| *to = from);
                self.boot = Some(boot);
            }
            "memory" => self.memory = Some(value.into()),
            "image" => self.image = Some(value.into()),
            _ => return None,
        }
        Some(())
    }

    fn count(&self, name: &str) -> u64 {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let count = passed.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// Whether the disk forgets what it is about to say that it has forced.
    pub(super) fn lies(&self) -> bool {
        self.lies_from.is_some_and(|from| self.count("lie") >= from)
    }

    /// Whether the process dies at this passage of the point.
    pub(super) fn is_last(&self, name: &str) -> bool {
        self.die.as_ref().is_some_and(|(point, nth)| point == name && self.count(name) == *nth)
    }

    pub(super) fn pass(&self, name: &str) {
        if self.is_last(name) {
            die();
        }
    }

    /// Runs an operation of the disk between two points, unless the plan makes it fail.
    pub(super) fn run<T>(&self, kind: &str, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.fails.iter().any(|fail| fail.kind == kind) {
            let count = self.count(kind);
            if let Some(fail) =
                self.fails.iter().find(|fail| fail.kind == kind && fail.times.contains(&count))
            {
                return Err(io::Error::new(fail.error, "the laboratory lets this fail"));
            }
        }
        self.pass(&format!("{kind}.before"));
        let done = operation()?;
        self.pass(&format!("{kind}.after"));
        Ok(done)
    }
}

/// Like `kill -9`: no destructor runs, and nothing is flushed.
pub(super) fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}
