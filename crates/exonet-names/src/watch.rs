//! Watching a name where nothing tells of changes: by looking it up again and again.

use core::time::Duration;

use exonet::naming::{Found, Name, Naming, NamingError, Version};
use tokio::time::{Instant, sleep};

/// How long one call of [`Naming::watch`] waits for a change.
const LOOK_FOR: Duration = Duration::from_secs(30);

/// Waits until `name` is not bound as in `since` any more, at most for [`LOOK_FOR`]. It is looked up `every` so often.
pub(crate) async fn by_look_ups(
    names: &impl Naming,
    name: &Name,
    since: Option<Version>,
    every: Duration,
) -> Result<Option<Found>, NamingError> {
    let until = Instant::now() + LOOK_FOR;
    loop {
        let found = names.look_up(name).await?;
        if found.as_ref().map(|found| found.version) != since || Instant::now() >= until {
            return Ok(found);
        }
        sleep(every).await;
    }
}
