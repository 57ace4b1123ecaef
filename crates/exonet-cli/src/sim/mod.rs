//! `exon sim`: runs many generated worlds at once, and reports the results.

mod single;
mod sweep;
mod totals;
mod worker;

use exonet_sim::scenario::{Profile, Schedule};

use crate::args::{Profiles, SimArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;

/// Runs the requested worlds.
pub(crate) async fn run(settings: &Settings, args: &SimArgs) -> Result<Exit, Failure> {
    if args.profile == Profiles::List {
        return list(settings);
    }
    match (&args.replay, args.seed) {
        (Some(path), _) => {
            let text = std::fs::read_to_string(path).map_err(|e| Failure::path("read", path, &e))?;
            let schedule: Schedule = text
                .parse()
                .map_err(|e| Failure::new(format!("cannot run {}", path.display())).because(&e))?;
            single::run(settings, schedule, args.trace).await
        }
        (None, Some(seed)) => {
            single::run(settings, Schedule::full(seed, args.profile.of(seed)), args.trace).await
        }
        (None, None) if args.trace => {
            let failure = Failure::new("a trace shows one world");
            Err(failure.hint("choose it: exon sim --seed S --trace").wrong_usage())
        }
        (None, None) => sweep::run(settings, args).await,
    }
}

fn list(settings: &Settings) -> Result<Exit, Failure> {
    for profile in Profile::SOUND.into_iter().chain([Profile::Rollback]) {
        settings.output.text(&format!("  {:<12} {}", profile.name(), profile.about()))?;
        settings.output.line(&serde_json::json!({
            "type": "profile", "profile": profile.name(), "about": profile.about(),
        }))?;
    }
    settings.output.text(&format!("  {:<12} each of these in turn, except the last", "all"))?;
    Ok(Exit::Success)
}
