//! `exon move`: gives an identity away.

use exonet::state;
use serde::Serialize;

use crate::args::MoveArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::moving::{Moved, leave};
use crate::settings::Settings;
use crate::units::Size;

#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    id: String,
    to: String,
    #[serde(flatten)]
    moved: &'a Moved,
}

#[derive(Serialize)]
struct TakenBack {
    r#type: &'static str,
    id: String,
    generation: u64,
}

pub(super) async fn run(settings: &Settings, args: &MoveArgs) -> Result<Exit, Failure> {
    let id = settings.identity.look()?;
    let Some(to) = &args.to else {
        let term = state::take_back(settings.identity.place()?);
        let term = term.map_err(|error| Failure::new("cannot take the identity back").because(&error))?;
        settings.note(format!("{} lives here again, as generation {}", id.short(), term.generation));
        settings.output.line(&TakenBack {
            r#type: "taken_back",
            id: id.to_string(),
            generation: term.generation,
        })?;
        return Ok(Exit::Success);
    };
    let moved = leave(settings, to, args.drain, args.timeout).await?;
    settings.note(format!("{} lives at the other place now, as generation {}", id.short(), moved.generation));
    for (step, ms) in [
        ("ask the door", moved.offer_ms),
        ("end the process", moved.drain_ms),
        ("checkpoint", moved.checkpoint_ms),
        ("copy", moved.copy_ms),
        ("cede", moved.cede_ms),
        ("restore", moved.restore_ms),
    ] {
        settings.output.text(&format!("{step:<16} {ms:>9.1} ms"))?;
    }
    settings.output.text(&format!("{:<16} {:>9.1} ms, {}", "silent", moved.pause_ms, Size(moved.bytes)))?;
    settings.output.line(&Summary {
        r#type: "summary",
        id: id.to_string(),
        to: to.to_string(),
        moved: &moved,
    })?;
    Ok(Exit::Success)
}
