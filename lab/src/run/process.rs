//! A peer's process, from outside.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::Signal;

use crate::app::Mark;
use crate::net::Namespace;
use crate::peer::Setup;

/// Longer than any answer takes, also where the machine is busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Killed when this is dropped, or when this process dies.
pub(super) struct Process {
    child: Child,
    orders: ChildStdin,
    said: Receiver<String>,
    what: String,
}

impl Process {
    /// Starts the end that `setup` describes, on this host.
    pub(super) fn start(host: &Namespace, setup: &Setup) -> Result<Self> {
        let what = format!("{} ({:?})", setup.peer, setup.role);
        let setup = serde_json::to_string(setup)?;
        let mut child = host.enter(move || {
            let mut command = Command::new("/proc/self/exe");
            command.args(["child", &setup]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let dies_with_us = || nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(Into::into);
            // SAFETY: the closure makes one system call, and allocates nothing.
            unsafe { command.pre_exec(dies_with_us) };
            command.spawn()
        })??;
        let orders = child.stdin.take().context("a process without input")?;
        let out = child.stdout.take().context("a process without output")?;
        let (tell, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, orders, said, what })
    }

    /// Waits until it says `key`; returns what.
    fn hear(&self, key: &str) -> Result<serde_json::Value> {
        let line = self.said.recv_timeout(PATIENCE);
        let line = line.map_err(|error| anyhow!("{} says no {key}: {error}", self.what))?;
        let mut said: serde_json::Value = serde_json::from_str(&line)?;
        if let Some(why) = said.get("failed") {
            bail!("{}: {}", self.what, why.as_str().unwrap_or_default());
        }
        said.get_mut(key).map(serde_json::Value::take).with_context(|| format!("{}: {line}", self.what))
    }

    /// As if by the system, or by somebody who is in a hurry.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How a server is reached.
    pub(super) fn address(&self) -> Result<String> {
        Ok(self.hear("ready")?.as_str().unwrap_or_default().to_owned())
    }

    /// Gives an order; returns how things stand then.
    pub(super) fn order(&mut self, word: &str) -> Result<Mark> {
        if writeln!(self.orders, "{word}").is_err() {
            // Its last words say more than a broken pipe.
            self.hear("last words")?;
        }
        Ok(serde_json::from_value(self.hear("mark")?)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
