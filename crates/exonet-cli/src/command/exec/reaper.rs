//! Ends the processes of calls and messages when `exon` is killed.
//!
//! A process that is killed with SIGKILL cannot end its children. So `exon` starts a second process, which only reads
//! the ids of running process groups from a pipe. When the pipe ends, its writer is gone, and the second process
//! kills the groups that are left. The second process has its own group, which an interrupt at the terminal does not
//! reach.
//!
//! When `exon` is killed, a process may have started whose group is not written yet. So each process also has a mark
//! in its environment. Where the system shows the environment (Linux), all processes with the mark are killed too.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::exit::Exit;
use crate::failure::Failure;

/// The variable that marks the processes of calls.
pub(super) const MARK: &str = "EXON_SERVE";
/// The number of searches for processes with the mark: a process may start another one during a search.
const ROUNDS: usize = 10;

/// The pipe to the second process.
#[derive(Debug)]
pub(super) struct Reaper {
    pipe: Mutex<ChildStdin>,
    mark: String,
}

impl Reaper {
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |e: &io::Error| Failure::new("cannot start the process that ends calls").because(e);
        let binary = std::env::current_exe().map_err(|e| failed(&e))?;
        let mut command = Command::new(binary);
        command.arg("serve-reaper").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|e| failed(&e))?;
        let mut pipe =
            child.stdin.take().ok_or_else(|| Failure::new("the process that ends calls has no input"))?;
        let mark = format!("{:032x}", rand::random::<u128>());
        pipe.write_all(format!("={mark}\n").as_bytes()).map_err(|e| failed(&e))?;
        Ok(Self { pipe: Mutex::new(pipe), mark })
    }

    /// The value of [`MARK`] in the environment of each process of a call.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Registers the group as alive until the result is dropped.
    pub(super) fn group(&self, group: Pid) -> Group<'_> {
        self.say('+', group);
        Group { reaper: self, group }
    }

    fn say(&self, what: char, group: Pid) {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = pipe.write_all(format!("{what}{}\n", group.as_raw_nonzero()).as_bytes()) {
            tracing::error!(
                "if this process is killed, the processes of its calls will not be ended: {error}"
            );
        }
    }
}

/// A running process group.
pub(super) struct Group<'a> {
    reaper: &'a Reaper,
    group: Pid,
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.reaper.say('-', self.group);
    }
}

/// The main function of the second process: kills the remaining groups when its input ends.
pub(crate) fn reap() -> Exit {
    let (groups, mark) = left(io::stdin().lock());
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        // An error means that no process is left.
        let _ = kill_process_group(group, Signal::KILL);
    }
    if let Some(mark) = mark {
        (0..ROUNDS).take_while(|_| kill_marked(&mark)).for_each(drop);
    }
    Exit::Success
}

/// Kills the processes with the mark. False: there was none.
fn kill_marked(mark: &str) -> bool {
    let marked = format!("{MARK}={mark}");
    let mut found = false;
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == marked.as_bytes()) {
            found |= kill_process(pid, Signal::KILL).is_ok();
        }
    }
    found
}

/// The groups that were alive when `input` ended, and the mark of all processes of calls.
fn left(input: impl BufRead) -> (BTreeSet<i32>, Option<String>) {
    let (mut alive, mut mark) = (BTreeSet::new(), None);
    for line in input.lines().map_while(Result::ok) {
        let Some((what, number)) = line.split_at_checked(1) else { continue };
        // Killing group 1, or a number that is not positive, would kill all processes.
        let group = number.parse().ok().filter(|number| *number > 1);
        match (what, group) {
            ("+", Some(group)) => drop(alive.insert(group)),
            ("-", Some(group)) => drop(alive.remove(&group)),
            ("=", _) => mark = Some(number.to_owned()),
            _ => {}
        }
    }
    (alive, mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_is_left_alone() {
        let (groups, mark) = left(&b"=abc\n+20\n+30\n-20\n+-1\n+0\n+1\nnonsense\n+\n+40"[..]);
        assert_eq!(groups.into_iter().collect::<Vec<_>>(), [30, 40]);
        assert_eq!(mark.as_deref(), Some("abc"));
    }
}
