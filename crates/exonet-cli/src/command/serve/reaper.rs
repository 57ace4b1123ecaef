//! What ends the processes of calls when this one is killed.
//!
//! A process that is killed with SIGKILL cannot end its children. So `exon serve` starts a second process that does
//! nothing but read the groups of processes that run, from a pipe. When the pipe ends, whoever wrote into it is gone:
//! then the groups that are left are killed. It has a group of its own, which an interrupt at the terminal does not
//! reach.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::exit::Exit;
use crate::failure::Failure;

/// The pipe to the second process.
#[derive(Debug)]
pub(super) struct Reaper(Mutex<ChildStdin>);

impl Reaper {
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |e: &io::Error| Failure::new("cannot start the process that ends calls").because(e);
        let binary = std::env::current_exe().map_err(|e| failed(&e))?;
        let mut command = Command::new(binary);
        command.arg("serve-reaper").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|e| failed(&e))?;
        let pipe =
            child.stdin.take().ok_or_else(|| Failure::new("the process that ends calls has no input"))?;
        Ok(Self(Mutex::new(pipe)))
    }

    /// The group is alive from now on, until what this returns is dropped.
    pub(super) fn group(&self, group: Pid) -> Group<'_> {
        self.say('+', group);
        Group { reaper: self, group }
    }

    fn say(&self, what: char, group: Pid) {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = pipe.write_all(format!("{what}{}\n", group.as_raw_nonzero()).as_bytes()) {
            tracing::error!("nobody would end the processes of calls if this one were killed: {error}");
        }
    }
}

/// A group that runs.
pub(super) struct Group<'a> {
    reaper: &'a Reaper,
    group: Pid,
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.reaper.say('-', self.group);
    }
}

/// The second process: kills what is left when its input ends.
pub(crate) fn reap() -> Exit {
    for group in left(io::stdin().lock()).into_iter().filter_map(Pid::from_raw) {
        // An error says that nobody is left.
        let _ = kill_process_group(group, Signal::KILL);
    }
    Exit::Success
}

/// The groups that were alive when `input` ended.
fn left(input: impl BufRead) -> BTreeSet<i32> {
    let mut alive = BTreeSet::new();
    for line in input.lines().map_while(Result::ok) {
        let Some((what, number)) = line.split_at_checked(1) else { continue };
        // Group 1, and what is not positive, would be everybody.
        let group = number.parse().ok().filter(|number| *number > 1);
        match (what, group) {
            ("+", Some(group)) => drop(alive.insert(group)),
            ("-", Some(group)) => drop(alive.remove(&group)),
            _ => {}
        }
    }
    alive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_is_left_alone() {
        let groups = left(&b"+20\n+30\n-20\n+-1\n+0\n+1\nnonsense\n+\n+40"[..]);
        assert_eq!(groups.into_iter().collect::<Vec<_>>(), [30, 40]);
    }
}
