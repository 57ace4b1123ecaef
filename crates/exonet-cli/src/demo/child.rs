//! The process of the receiver, as its parent sees it.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::ledger::Ledger;
use super::line::{Line, SIDES, Side};
use crate::failure::Failure;

/// The time limit for a process to start, and to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The ledgers of all sides.
#[derive(Clone, Debug)]
pub(super) struct Ledgers(Arc<Mutex<[Ledger; SIDES.len()]>>);

impl Ledgers {
    pub(super) fn new(messages: u64) -> Self {
        Self(Arc::new(Mutex::new(SIDES.map(|_| Ledger::new(messages)))))
    }

    /// Gives access to the ledger of a side.
    pub(super) fn with<T>(&self, side: Side, look: impl FnOnce(&mut Ledger) -> T) -> T {
        let mut ledgers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [exonet, journal, remembering, plain] = &mut *ledgers;
        look(match side {
            Side::Exonet => exonet,
            Side::Journal => journal,
            Side::Remembering => remembering,
            Side::Plain => plain,
        })
    }
}

/// A running receiver. If this is dropped, the process is killed.
pub(super) struct Receiver {
    child: Child,
    stdin: ChildStdin,
    /// Its lines other than deliveries.
    said: mpsc::Receiver<Line>,
    reader: JoinHandle<()>,
}

impl Receiver {
    /// Starts the process on the identity in `state`, and waits until it can be reached.
    ///
    /// With `journal`, the process runs another node, which keeps a journal.
    pub(super) async fn start(
        state: &Path,
        size: usize,
        journal: bool,
        ledgers: &Ledgers,
    ) -> Result<(Self, Line), Failure> {
        let failed = |e: io::Error| Failure::new("cannot start the demo's receiver").because(&e);
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .arg("demo-receiver")
            .arg("--state")
            .arg(state)
            .arg("--size")
            .arg(size.to_string())
            .args(journal.then_some("--journal"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| Failure::new("the demo's receiver has no pipes"))?;
        let (tell, said) = mpsc::channel(16);
        let reader = tokio::spawn(read(stdout, ledgers.clone(), tell));
        let mut receiver = Self { child, stdin, said, reader };
        let ready = receiver.listen().await?;
        Ok((receiver, ready))
    }

    /// Kills it with SIGKILL, and reads its remaining lines. The process flushes, closes and reports nothing.
    pub(super) async fn kill(mut self) -> Result<(), Failure> {
        let failed = |e: &dyn std::error::Error| Failure::new("cannot kill the demo's receiver").because(e);
        self.child.kill().await.map_err(|e| failed(&e))?;
        drop(self.said);
        self.reader.await.map_err(|e| failed(&e))
    }

    /// Asks how many records the receiver has. When the answer has arrived, the ledger has all deliveries before it.
    pub(super) async fn records(&mut self) -> Result<usize, Failure> {
        let failed = |e| Failure::new("cannot ask the demo's receiver").because(&e);
        self.stdin.write_all(b"records\n").await.map_err(failed)?;
        match self.listen().await? {
            Line::Records(records) => Ok(records),
            Line::Ready { .. } | Line::Delivered(..) | Line::Kept(..) => {
                Err(Failure::new("the demo's receiver has sent something unexpected"))
            }
        }
    }

    async fn listen(&mut self) -> Result<Line, Failure> {
        match tokio::time::timeout(PATIENCE, self.said.recv()).await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(Failure::new("the demo's receiver has ended")),
            Err(_) => Err(Failure::new("the demo's receiver sends nothing")),
        }
    }
}

/// Adds deliveries to the ledgers, and passes other lines on, until the process has closed the pipe.
async fn read(stdout: ChildStdout, ledgers: Ledgers, tell: mpsc::Sender<Line>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        match text.parse() {
            Ok(Line::Delivered(side, n)) => ledgers.with(side, |ledger| ledger.enter(n)),
            Ok(Line::Kept(n, id)) => ledgers.with(Side::Journal, |ledger| ledger.enter_as(n, id)),
            // While the process is killed, nobody may read its lines.
            Ok(line) => drop(tell.send(line).await),
            Err(error) => tracing::warn!("{error}: {text:?}"),
        }
    }
}
