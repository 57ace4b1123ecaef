//! Processes that are parts of a test, and can be killed.

use std::env;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use exonet::Durability;

/// The role of this process, if it is a part of a test.
pub(crate) const ROLE: &str = "EXONET_TEST_ROLE";
pub(crate) const STATE: &str = "EXONET_TEST_STATE";
pub(crate) const PEER: &str = "EXONET_TEST_PEER";
pub(crate) const DURABILITY: &str = "EXONET_TEST_DURABILITY";

pub(crate) fn durability(name: &str) -> Durability {
    match name {
        "process" => Durability::Process,
        "batched" => Durability::Batched(Duration::from_millis(2)),
        _ => Durability::Sync,
    }
}

/// Writes a line to the pipe as a whole, before anything else happens.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("@{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// A process that is a part of a test: the test `a_part` of the same program, which reads its role in its environment.
pub(crate) struct Part {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Part {
    pub(crate) fn start(durability: &str, role: &str, state: &Path, peer: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["a_part", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(STATE, state)
            .env(PEER, peer)
            .env(DURABILITY, durability)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line of its output.
    pub(crate) fn next(&mut self) -> Option<String> {
        loop {
            // The test harness writes lines too, and a line that was cut off by a kill does not count.
            let line = self.lines.next()?.ok()?;
            if let Some((_, said)) = line.split_once('@') {
                return Some(said.to_owned());
            }
        }
    }

    /// Kills the process, and returns its output that was not read yet.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.next()).collect()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
