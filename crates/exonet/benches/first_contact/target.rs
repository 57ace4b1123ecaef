//! The server, as the other processes know it: who and where it is, and how long it has worked.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use exonet::{Node, NodeId};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

pub(crate) type Failure = Box<dyn std::error::Error>;

pub(crate) struct Target {
    pub(crate) id: NodeId,
    pub(crate) address: SocketAddr,
    pub(crate) process: Pid,
}

impl Target {
    pub(crate) fn of(node: &Node) -> Self {
        Self { id: node.id(), address: node.local_addr(), process: Pid::this() }
    }

    pub(crate) fn parse(words: &[&str]) -> Result<Self, Failure> {
        let [id, address, process] = words else { return Err("no target".into()) };
        Ok(Self { id: id.parse()?, address: address.parse()?, process: Pid::from_raw(process.parse()?) })
    }

    /// A process that does what `role` says to this target.
    pub(crate) fn meet(&self, role: &str, how: &[u32]) -> Result<Child, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(role).arg(self.id.to_string()).arg(self.address.to_string());
        command.arg(self.process.to_string()).args(how.iter().map(u32::to_string));
        Ok(command.stdout(Stdio::piped()).spawn()?)
    }

    /// The CPU time that the server has had. An error when it is gone.
    pub(crate) fn worked(&self) -> Result<Duration, Failure> {
        Ok(clock_gettime(ClockId::pid_cpu_clock_id(self.process)?)?.into())
    }

    /// How many are due when there are to be `per_second` of the server's work, begun at `since`.
    pub(crate) fn due(&self, since: Duration, per_second: u32) -> Result<u64, Failure> {
        let worked = self.worked()?.saturating_sub(since).as_micros();
        Ok(u64::try_from(worked * u128::from(per_second) / 1_000_000)?)
    }
}
