//! The process that runs an identity, if another than this one does.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::control::Client;
use crate::failure::Failure;
use crate::settings::Settings;

/// How long a process that holds an identity may take until its control socket is there, or until it has ended.
const MOMENT: Duration = Duration::from_secs(2);
/// Time between two looks.
const AGAIN: Duration = Duration::from_millis(50);

/// Who runs the identity.
pub(super) enum Found<T> {
    /// Another process, which can be talked to.
    Running(Client),
    /// This one.
    Own(T),
}

/// The process that runs the identity; or else what `own` gives, which takes the identity for this process. One that has it and
/// does not answer yet, or is about to end, has a moment.
///
/// # Errors
/// Those of `own`; the process that runs the identity cannot be understood.
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

/// There is no such message.
pub(super) fn no_message(settings: &Settings, number: u64) -> Failure {
    Failure::new(format!("there is no message {number} in the outbox of {}", settings.identity))
        .hint(format!("exon outbox ls{} shows all", settings.identity.options()))
}

/// No process runs the identity in the background, or none that can be talked to yet.
///
/// # Errors
/// There is no such identity.
pub(super) fn no_background(settings: &Settings) -> Result<Failure, Failure> {
    settings.identity.require()?;
    let options = settings.identity.options();
    let none = Failure::new(format!("no background node runs identity {}", settings.identity));
    let none = none.hint(format!("start one with: exon up{options}"));
    Ok(if settings.identity.is_free() { none } else { none.in_use() })
}
