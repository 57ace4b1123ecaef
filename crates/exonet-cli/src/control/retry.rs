//! Retries of a dead letter at the request of another command.

use exonet::dead::DeadLetter;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::oneshot;

use super::protocol::Reply;
use super::server::{Office, refusal};
use super::wire::say;
use super::{Again, Role};

/// Asks the worker to retry the letter with this id, and reports the result to the client. The retry continues if the
/// client disconnects.
pub(super) async fn pass_on(office: &Office, id: &str, to: &mut OwnedWriteHalf) -> Result<(), Reply> {
    let Role::Worker(worker) = &office.role else {
        let command = office.role.command();
        return Err(refusal(format!(
            "`exon {command}` runs this identity, and has no --exec to retry a letter"
        )));
    };
    let dead = office.node.dead_letters();
    let listed = tokio::task::spawn_blocking(move || dead.list()).await;
    let letters = match listed {
        Ok(Ok(letters)) => letters,
        Ok(Err(error)) => return Err(refusal(format!("cannot read the dead letters: {error}"))),
        Err(_) => return Err(refusal("cannot read the dead letters")),
    };
    let found = letters.into_iter().find(|letter: &DeadLetter| letter.id.to_string() == id);
    let found = found.ok_or_else(|| refusal(format!("there is no dead letter {id}")))?;
    let (told, ended) = oneshot::channel();
    let gone = |()| refusal("the listener is ending, and retries no letter: it is as it was");
    worker.send(Again { id: found.id, told }).map_err(|_| gone(()))?;
    let ended = ended.await.map_err(|_| gone(()))?;
    let _ = say(to, &Reply::Retried(ended)).await;
    let _ = say(to, &Reply::Done).await;
    Ok(())
}
