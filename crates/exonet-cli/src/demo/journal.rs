//! The side whose sender and receiver keep journals: the process of the sender, as seen by the parent.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use exonet::{NodeId, PeerAddr};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::progress::Progress;
use super::sender::{Order, Said};
use super::stage::Way;
use crate::failure::Failure;

/// The time limit for a process to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// What all lives of the sender have reported.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// The number of the message that was begun last, plus 1.
    begun: AtomicU64,
    /// The number of messages with an outcome other than Delivered.
    failed: AtomicU64,
    done: AtomicBool,
}

impl Account {
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }
}

/// The messages to send, the sender and the receiver.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// Where the sender keeps its identity.
    pub(super) state: PathBuf,
    pub(super) peer: (NodeId, SocketAddr),
    pub(super) size: usize,
    pub(super) messages: u64,
}

/// The side whose sender and receiver keep journals.
pub(super) struct Journal {
    task: Task,
    pub(super) way: Way,
    pub(super) account: Arc<Account>,
    /// The number of messages that may have been sent by now.
    allowed: watch::Sender<u64>,
    moves: watch::Sender<u32>,
    sender: Option<Sender>,
    /// The number of processes that were killed.
    pub(super) crashes: u64,
}

impl Journal {
    pub(super) fn new(task: Task, way: Way, moves: watch::Sender<u32>) -> Self {
        let (account, allowed) = (Arc::default(), watch::Sender::new(0));
        Self { task, way, account, allowed, moves, sender: None, crashes: 0 }
    }

    /// Starts a life of the sender. Returns how many messages its journal has. `from` is the message to begin with,
    /// unless the journal says otherwise.
    pub(super) async fn start(&mut self, from: u64) -> Result<u64, Failure> {
        let (allowed, moves) = (self.allowed.subscribe(), self.moves.subscribe());
        let sender = Sender::start(&self.task, from, &self.account, allowed, moves).await?;
        let left = sender.left;
        self.sender = Some(sender);
        Ok(left)
    }

    /// Kills the sender. When this returns, the account has its remaining lines.
    pub(super) async fn kill(&mut self) -> Result<(), Failure> {
        self.crashes += 1;
        match self.sender.take() {
            Some(sender) => sender.kill().await,
            None => Ok(()),
        }
    }

    /// Lets the sender send as far as `progress` allows.
    pub(super) fn pace(&self, mut progress: Progress) -> impl Future<Output = Result<(), Failure>> + use<> {
        let (total, allowed) = (self.task.messages, self.allowed.clone());
        async move {
            for n in 0..total {
                progress.allows(n).await;
                allowed.send_replace(n + 1);
            }
            Ok(())
        }
    }

    /// Whether all messages are settled. Fails if the sender ended before.
    pub(super) fn is_done(&self) -> Result<bool, Failure> {
        match &self.sender {
            Some(sender) if sender.reader.is_finished() => Err(Failure::new("the demo's sender has ended")),
            _ => Ok(self.account.is_done()),
        }
    }
}

/// One life of the sender. If this is dropped, the process is killed.
struct Sender {
    child: Child,
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
    /// How many messages the journal had when this life began.
    left: u64,
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

impl Sender {
    /// Starts the process. `from` is the message to begin with, unless the journal says otherwise.
    async fn start(
        task: &Task,
        from: u64,
        account: &Arc<Account>,
        allowed: watch::Receiver<u64>,
        moves: watch::Receiver<u32>,
    ) -> Result<Self, Failure> {
        let failed = |e: io::Error| Failure::new("cannot start the demo's sender").because(&e);
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .arg("demo-sender")
            .arg("--state")
            .arg(&task.state)
            .args(["--peer", &PeerAddr::from(task.peer).to_string(), "--size", &task.size.to_string()])
            .args(["--messages", &task.messages.to_string(), "--from", &from.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| Failure::new("the demo's sender has no pipes"))?;
        let (ready, is_ready) = oneshot::channel();
        let reader = tokio::spawn(read(stdout, Arc::clone(account), ready));
        let writer = tokio::spawn(write(stdin, allowed, moves));
        let mut sender = Self { child, reader, writer, left: 0 };
        match tokio::time::timeout(PATIENCE, is_ready).await {
            Ok(Ok(left)) => sender.left = left,
            Ok(Err(_)) => return Err(Failure::new("the demo's sender has ended")),
            Err(_) => return Err(Failure::new("the demo's sender sends nothing")),
        }
        Ok(sender)
    }

    /// Kills it with SIGKILL, and reads its remaining lines.
    async fn kill(mut self) -> Result<(), Failure> {
        let failed = |e: &dyn std::error::Error| Failure::new("cannot kill the demo's sender").because(e);
        self.child.kill().await.map_err(|e| failed(&e))?;
        (&mut self.reader).await.map_err(|e| failed(&e))
    }
}

/// Adds the lines of the sender to the account, until the process has closed the pipe.
async fn read(stdout: ChildStdout, account: Arc<Account>, ready: oneshot::Sender<u64>) {
    let mut ready = Some(ready);
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        match text.parse() {
            Ok(Said::Ready { left }) => drop(ready.take().map(|ready| ready.send(left))),
            Ok(Said::Begins(n)) => account.begun.store(n.saturating_add(1), Ordering::Relaxed),
            Ok(Said::Failed) => drop(account.failed.fetch_add(1, Ordering::Relaxed)),
            Ok(Said::Done) => account.done.store(true, Ordering::Relaxed),
            Err(error) => tracing::warn!("{error}: {text:?}"),
        }
    }
}

/// Tells the sender how many messages it may send, and when to move to another address.
async fn write(mut stdin: ChildStdin, mut allowed: watch::Receiver<u64>, mut moves: watch::Receiver<u32>) {
    allowed.mark_changed();
    loop {
        let order = tokio::select! {
            Ok(()) = allowed.changed() => Order::Allow(*allowed.borrow_and_update()),
            Ok(()) = moves.changed() => Order::Move,
            else => return,
        };
        // A failure means that the process is being killed.
        if stdin.write_all(order.to_string().as_bytes()).await.is_err() {
            return;
        }
    }
}
