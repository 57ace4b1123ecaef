//! `exon checkpoint`: puts an identity into a file. `exon restore`: restores it from there.

use exonet::naming::NamingError;
use exonet::state::{Arrival, RestoreError, StateError};
use serde::Serialize;

use super::moving::show_step;
use crate::args::{CheckpointArgs, RestoreArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::moving::{Moved, Plan, leave};
use crate::peers::check_service;
use crate::settings::Settings;

/// A directory in that of the identity for which a file is encrypted. A process locks it while it restores the file.
const RESTORING: &str = "restoring";

#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    id: String,
    to: String,
    file: String,
    #[serde(flatten)]
    moved: &'a Moved,
}

#[derive(Serialize)]
struct Restored {
    r#type: &'static str,
    id: String,
    generation: u64,
    identity: String,
}

pub(super) async fn checkpoint(settings: &Settings, args: &CheckpointArgs) -> Result<Exit, Failure> {
    settings.identity.require()?;
    let id = settings.identity.look()?;
    // The process that runs the identity may have another working directory.
    let file = std::path::absolute(&args.file);
    let file = file.map_err(|error| Failure::path("find", &args.file, &error))?;
    let plan = Plan::to_file(args.to, file);
    let moved = leave(settings, &plan, args.drain, |step| show_step(settings, step)).await?;
    let file = args.file.display();
    settings.note(format!(
        "{} now lives only in {file}, and does not start here again; at the node {}: exon restore FILE --as NAME",
        id.short(),
        args.to.short()
    ));
    settings.output.line(&Summary {
        r#type: "summary",
        id: id.to_string(),
        to: args.to.to_string(),
        file: file.to_string(),
        moved: &moved,
    })?;
    Ok(Exit::Success)
}

pub(super) async fn restore(settings: &Settings, args: &RestoreArgs) -> Result<Exit, Failure> {
    let name = &settings.identity;
    if !name.is_stored() {
        return Err(Failure::new("the identity needs a name here")
            .hint("give a name or a directory: --as NAME, --state DIR"));
    }
    let keeper = Identity::new(Some(&args.key), None)?;
    keeper.require()?;
    // This comes first, so that an error in the command line leaves nothing on the disk.
    settings.names().map_or(Ok(()), check_service)?;
    // Identities of `exon` have no state of an application.
    let key = keeper.place()?;
    let arrival = Arrival::<()>::read(&args.file, key, name.place()?);
    let arrival = arrival.await.map_err(|error| match &error {
        RestoreError::State(StateError::Locked { path, .. }) if *path == key.join(RESTORING) => {
            let failure = format!(
                "the identity was not restored: another `exon restore` with the key of {keeper} runs"
            );
            Failure::new(failure).in_use().hint("repeat this command when the other one has ended")
        }
        _ => failed(&error),
    })?;
    let id = arrival.id();
    let arrival = match settings.naming_of(arrival.key()).await? {
        Some(naming) => arrival.claim(&*naming).await.map_err(|error| failed(&error))?,
        None => arrival,
    };
    let restored = arrival.live().await.map_err(|error| failed(&error))?;
    let generation = restored.term.generation;
    settings.note(format!(
        "{} now lives here, as generation {generation}; start it as before, with{}",
        id.short(),
        name.options()
    ));
    settings.output.line(&Restored {
        r#type: "restored",
        id: id.to_string(),
        generation,
        identity: name.to_string(),
    })?;
    Ok(Exit::Success)
}

fn failed(error: &RestoreError) -> Failure {
    let failure = Failure::new("the identity was not restored").because(error);
    match error {
        RestoreError::State(StateError::OtherTarget { .. }) => failure.hint(
            "restore it on the machine of that node; or, if that identity is here, give its name: --key NAME",
        ),
        RestoreError::State(StateError::Exists { .. }) => failure
            .hint("give the arriving identity a name or a directory of its own: --as NAME, --state DIR"),
        RestoreError::State(StateError::Restored { .. }) => {
            failure.hint("make a new checkpoint at the place where the identity lives")
        }
        RestoreError::Naming { error: NamingError::Superseded { .. }, .. } => {
            failure.hint("the identity was restored elsewhere, or taken back; `exon names ls` may show where")
        }
        RestoreError::Naming { .. } => {
            failure.hint("repeat the same command here when the name service answers")
        }
        _ => failure,
    }
}
