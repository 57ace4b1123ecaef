//! `exon move`: gives an identity away.

use exonet::state;
use serde::Serialize;

use crate::args::MoveArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::moving::{Moved, Plan, Step, leave};
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
    let plan = Plan { to: to.clone(), timeout: args.timeout, freeze: args.freeze };
    let moved = leave(settings, &plan, args.drain, |step| {
        let bytes = step.bytes.map_or_else(String::new, |bytes| format!(", {}", Size(bytes)));
        settings.output.text(&format!("{:<12} {:>9.1} ms{bytes}", step.step, step.ms))?;
        settings.output.line(&StepLine { r#type: "step", step })
    })
    .await?;
    settings.note(format!("{} lives at the other place now, as generation {}", id.short(), moved.generation));
    settings.output.text(&format!("{:<12} {:>9.1} ms", "stood still", moved.pause_ms))?;
    settings.output.line(&Summary {
        r#type: "summary",
        id: id.to_string(),
        to: to.to_string(),
        moved: &moved,
    })?;
    Ok(Exit::Success)
}
