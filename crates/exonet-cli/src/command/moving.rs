//! `exon move`: moves an identity to another machine.

use exonet::naming::NamingError;
use exonet::{NodeId, state};
use serde::Serialize;

use crate::args::MoveArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::moving::{Goal, Moved, Plan, Step, leave};
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
struct StepLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    step: &'a Step,
}

#[derive(Serialize)]
struct TakenBack {
    r#type: &'static str,
    id: String,
    generation: u64,
}

/// Asks the name service whether it knows a later generation of the identity `id`, before the identity is taken back.
///
/// # Errors
/// There is a later generation, so the identity has arrived somewhere; or the name service could not be asked.
async fn ask_names(settings: &Settings, id: NodeId) -> Result<(), Failure> {
    let Some(naming) = settings.own_naming().await? else {
        settings.note(
            "no name service was asked whether it lives elsewhere, since none is given (--names, or \
             EXON_NAMES)",
        );
        return Ok(());
    };
    let failed = |error: &NamingError| {
        let failure = Failure::new("cannot ask the name service whether the identity lives elsewhere");
        failure.because(error).hint("try again when it answers; nothing has changed")
    };
    let term = settings.identity.term()?;
    // A claim that was granted before is granted again, and changes nothing at the name service.
    let (mut latest, mut can_tell) = (None, true);
    match naming.claim(&id, term).await {
        Ok(()) => {}
        Err(NamingError::Superseded { generation }) => latest = Some(generation),
        Err(NamingError::NoAuthority(_)) => can_tell = false,
        Err(error) => return Err(failed(&error)),
    }
    let names = match naming.list().await {
        Ok(names) => names,
        Err(NamingError::NoAuthority(_)) => Vec::new(),
        Err(error) => return Err(failed(&error)),
    };
    let later = names.into_iter().map(|(_, found)| found.record);
    let later = later.filter(|record| record.peer.id == id && record.generation > term.generation);
    let later: Vec<_> = later.collect();
    latest = latest.max(later.iter().map(|record| record.generation).max());
    let Some(generation) = latest else {
        if !can_tell {
            settings.note("the name service does not know where identities live, so it could not be asked");
        }
        return Ok(());
    };
    let mut places: Vec<_> = later.iter().flat_map(|record| record.peer.hints()).collect();
    places.sort_unstable();
    places.dedup();
    let place = if places.is_empty() { String::new() } else { format!(", at {}", places.join(", ")) };
    Err(Failure::new(format!(
        "{} was not taken back: the name service knows it as generation {generation}{place}",
        id.short()
    ))
    .hint(format!(
        "it has arrived there; to bring it back, wait for it here, as `exon serve --arrive` does, and move it from \
         there: exon move --as {} --to DOOR",
        settings.identity
    )))
}

/// Prints a completed step.
pub(super) fn show_step(settings: &Settings, step: &Step) -> Result<(), Failure> {
    let bytes = step.bytes.map_or_else(String::new, |bytes| format!(", {}", Size(bytes)));
    settings.output.text(&format!("{:<12} {:>9.1} ms{bytes}", step.step, step.ms))?;
    settings.output.line(&StepLine { r#type: "step", step })
}

pub(super) async fn run(settings: &Settings, args: &MoveArgs) -> Result<Exit, Failure> {
    settings.identity.require()?;
    let id = settings.identity.look()?;
    let Some(to) = &args.to else {
        ask_names(settings, id).await?;
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
    let plan = Plan { goal: Goal::Door(to.clone()), timeout: args.timeout, freeze: args.freeze };
    let mut answers = false;
    let moved = leave(settings, &plan, args.drain, |step| {
        answers |= step.step == "rebind";
        show_step(settings, step)
    })
    .await?;
    settings.note(format!("{} now lives at the other place, as generation {}", id.short(), moved.generation));
    if !answers {
        settings.note("the other place has not said yet that the identity answers there");
    }
    settings.output.text(&format!("{:<12} {:>9.1} ms", "stood still", moved.pause_ms))?;
    settings.output.line(&Summary {
        r#type: "summary",
        id: id.to_string(),
        to: to.to_string(),
        moved: &moved,
    })?;
    Ok(Exit::Success)
}
