//! Finds another process that runs an identity.

use std::time::Duration;

use exonet::Node;
use exonet::send::{OpenMessage, Status};
use tokio::time::{Instant, sleep};

use crate::control::Client;
use crate::control::protocol::Which;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::peers;
use crate::settings::Settings;

/// The time that a process that holds an identity has until its control socket exists, or until it has ended.
const MOMENT: Duration = Duration::from_secs(2);
/// The interval between two checks.
const AGAIN: Duration = Duration::from_millis(50);

/// The maximum number of identities that are checked for a running process, and that are named in an error.
const LOOKED_AT: usize = 100;
const NAMED: usize = 5;

/// The process that runs the identity.
pub(super) enum Found<T> {
    /// Another process, which answers.
    Running(Client),
    /// This process.
    Own(T),
}

/// The process that runs the identity, or else the result of `own`, which takes the identity for this process. A
/// process that holds the identity and does not answer yet, or is about to end, has [`MOMENT`].
///
/// # Errors
/// Those of `own`, or the answer of the process that runs the identity cannot be understood.
pub(super) async fn find_or<T>(
    settings: &Settings,
    own: impl AsyncFn() -> Result<T, Failure>,
) -> Result<Found<T>, Failure> {
    let until = Instant::now() + MOMENT;
    loop {
        if let Some(process) = Client::find(&settings.identity).await? {
            return Ok(Found::Running(process));
        }
        match own().await {
            Err(failure) if failure.is_in_use() && Instant::now() < until => sleep(AGAIN).await,
            own => return own.map(Found::Own),
        }
    }
}

/// The process that runs the identity, whatever its command.
///
/// # Errors
/// No process runs the identity, or its answer cannot be understood.
pub(super) async fn find(settings: &Settings) -> Result<Client, Failure> {
    let until = Instant::now() + MOMENT;
    loop {
        if let Some(process) = Client::find(&settings.identity).await? {
            return Ok(process);
        }
        settings.identity.require()?;
        if settings.identity.is_free() {
            return Err(nobody(settings).await);
        }
        if Instant::now() >= until {
            let failure = Failure::new(format!(
                "the process that runs identity {} has no control socket",
                settings.identity
            ));
            return Err(failure
                .in_use()
                .hint("end it, and start a node that has one: exon up, exon listen or exon serve"));
        }
        sleep(AGAIN).await;
    }
}

/// The error that no process runs the identity. It names the identities that are run.
async fn nobody(settings: &Settings) -> Failure {
    let options = settings.identity.options();
    let mut hint = format!("to start one: exon up{options}");
    let others = running_identities().await;
    if !others.is_empty() {
        let others: Vec<String> = others.iter().map(|name| format!("--as {name}")).collect();
        hint = format!("{hint}\n      or choose an identity whose node runs: {}", others.join(", "));
    }
    Failure::new(format!("no node runs identity {}", settings.identity)).hint(hint)
}

/// The first few names of the user's identities that a process runs.
async fn running_identities() -> Vec<String> {
    let entries = peers::directory().ok().and_then(|directory| std::fs::read_dir(directory).ok());
    let mut names: Vec<String> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let mut found = Vec::new();
    for name in names.into_iter().take(LOOKED_AT) {
        if let Ok(identity) = Identity::new(Some(&name), None)
            && matches!(Client::find(&identity).await, Ok(Some(_)))
        {
            found.push(name);
        }
    }
    found.truncate(NAMED);
    found
}

/// The error that the process that runs the identity has not answered in time.
pub(super) fn silent(settings: &Settings) -> Failure {
    Failure::new(format!("the process that runs identity {} does not answer", settings.identity))
}

/// Whether `which` is this open message of `node`.
pub(super) fn is(node: &Node, message: &OpenMessage, which: &Which) -> bool {
    let Some(waiting) = node.waiting(message, 0) else { return false };
    let id = match waiting.message.status {
        Status::InDoubt { id, .. } => Some(id.to_string()),
        Status::Queued | Status::Settled => None,
    };
    which.is(waiting.number, id.as_deref())
}

/// The error that there is no such message.
pub(super) fn no_message(settings: &Settings, which: &Which) -> Failure {
    Failure::new(format!("there is no message {which} in the outbox of {}", settings.identity))
        .hint(format!("exon outbox ls{} shows all", settings.identity.options()))
}

/// The error that no process runs the identity in the background, or none that answers yet.
///
/// # Errors
/// There is no such identity.
pub(super) fn no_background(settings: &Settings) -> Result<Failure, Failure> {
    settings.identity.require()?;
    let options = settings.identity.options();
    let none = Failure::new(format!("no background node runs identity {}", settings.identity));
    let none = none.hint(format!("to start one: exon up{options}"));
    Ok(if settings.identity.is_free() { none } else { none.in_use() })
}
