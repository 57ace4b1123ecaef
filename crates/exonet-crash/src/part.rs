//! One process of a world: it sends or receives, and reports on its standard output what it has seen. A line is
//! written before anything that depends on it can happen.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use exonet::error::SendError;
use exonet::{Allow, Durability, Node, Outcome, PeerAddr, Receipt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Messages under way at once.
const WINDOW: usize = 60;
/// How long after it was full the disk is tried again.
const FULL: Duration = Duration::from_millis(5);

#[derive(Args)]
pub(crate) struct Part {
    /// The role of the process.
    role: Role,
    /// Its state directory.
    #[arg(long)]
    state: PathBuf,
    /// The address where a receiver listens, or the peer to which a sender sends.
    #[arg(long)]
    at: String,
    #[arg(long)]
    durability: Level,
    /// The store that keeps the journal.
    #[arg(long, value_enum, default_value_t)]
    store: Kind,
    /// The prefix of the names of its messages.
    #[arg(long, default_value_t = 0)]
    life: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Takes messages until it is killed.
    Receive,
    /// Continues with the messages that its former lives have accepted, and sends more, until it is killed.
    Send,
    /// Continues with the messages that its former lives have accepted, and ends.
    Rest,
}

/// The store that keeps the journals of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// The log, on a disk that fails on demand.
    #[default]
    Log,
    /// SQLite, on the disk of the system. Processes are killed, and no other faults occur.
    Sqlite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    Process,
    Batched,
    Sync,
}

impl Level {
    fn durability(self) -> Durability {
        match self {
            Self::Process => Durability::Process,
            Self::Batched => Durability::Batched(Duration::from_millis(2)),
            Self::Sync => Durability::Sync,
        }
    }
}

/// Writes a line to the pipe as a whole, before anything else happens.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let said = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
    if said.is_err() {
        std::process::exit(1); // The laboratory no longer reads.
    }
}

/// The reason for which a part cannot continue. The laboratory counts it as a crash.
type Stopped = Box<dyn std::error::Error>;

pub(crate) fn run(part: &Part) -> ExitCode {
    // A task that panics would not end the process.
    std::panic::set_hook(Box::new(|panic| {
        say(&format!("panicked {panic}").replace('\n', " "));
        std::process::abort();
    }));
    let done = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Stopped::from);
    let done = done.and_then(|runtime| {
        runtime.block_on(async {
            match part.role {
                Role::Receive => receive(part).await,
                Role::Send => send(part, usize::MAX).await,
                Role::Rest => send(part, 0).await,
            }
        })
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("stopped {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn node(part: &Part, at: &str) -> Result<Node, Stopped> {
    let builder =
        Node::builder(Allow::anyone()).state_dir(&part.state).durability(part.durability.durability());
    let builder = match part.store {
        Kind::Log => builder,
        Kind::Sqlite => builder.store(exonet_store_sqlite::SqliteStore),
    };
    Ok(builder.bind(at).build().await?)
}

async fn receive(part: &Part) -> Result<(), Stopped> {
    let node = node(part, &part.at).await?;
    say(&format!("at {}", node.peer_addr()));
    loop {
        let delivery = node.recv().await?;
        let body = delivery.body().as_whole().cloned().unwrap_or_default();
        let text = String::from_utf8_lossy(&body);
        let name = text.split(' ').next().unwrap_or_default();
        say(&format!("got {name} {} {}", delivery.id(), delivery.attempt()));
        delivery.ack()?;
    }
}

async fn send(part: &Part, count: usize) -> Result<(), Stopped> {
    let node = node(part, "127.0.0.1:0").await?;
    let peer = node.peer(part.at.parse::<PeerAddr>()?);
    let window = Arc::new(Semaphore::new(WINDOW));
    let recovered = node.recovered();
    say(&format!("recovered {}", recovered.len()));
    for (_, receipt) in recovered {
        tokio::spawn(tell(receipt, "-".to_owned(), None));
    }
    for n in 0..count {
        let turn = Arc::clone(&window).acquire_owned().await?;
        let name = format!("{}-{n}", part.life);
        // Most messages are stored together, some have to be split.
        let padding = if n % 50 == 0 { 20_000 } else { 10 };
        let body = if n % 7 == 0 { name.clone() } else { format!("{name} {}", "x".repeat(padding)) };
        let receipt = loop {
            match peer.send(body.clone()).await {
                Ok(receipt) => break receipt,
                Err(SendError::NoSpace) => {
                    say("full");
                    tokio::time::sleep(FULL).await;
                }
                Err(error) => return Err(error.into()),
            }
        };
        say(&format!("accepted {name}"));
        tokio::spawn(tell(receipt, name, Some(turn)));
    }
    if !node.flush(None).await.is_empty() {
        return Err("something is left".into());
    }
    say("done");
    node.close(Duration::from_secs(5)).await;
    Ok(())
}

async fn tell(receipt: Receipt, name: String, turn: Option<OwnedSemaphorePermit>) {
    match receipt.await.outcome {
        Outcome::Delivered => say(&format!("delivered {name}")),
        Outcome::Unknown => say(&format!("unknown {name}")),
        // The next life continues with the message.
        Outcome::Kept => {}
        other => say(&format!("other {name} {other:?}")),
    }
    drop(turn);
}
