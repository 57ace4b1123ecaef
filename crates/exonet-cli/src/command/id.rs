//! `exon id`: show or make a stored identity.

use serde::Serialize;

use crate::args::IdArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::settings::Settings;

#[derive(Serialize)]
struct Shown<'a> {
    r#type: &'static str,
    id: String,
    name: &'a str,
    path: String,
    new: bool,
}

pub(super) fn run(settings: &Settings, args: &IdArgs) -> Result<Exit, Failure> {
    let Identity::Stored { name, path } = &settings.identity else {
        return Err(Failure::new("no identity was named"));
    };
    let id = if args.new {
        settings.identity.create()?
    } else {
        settings.identity.require()?;
        settings.identity.load()?
    };
    settings.output.text(&id.to_string())?;
    settings.output.line(&Shown {
        r#type: "identity",
        id: id.to_string(),
        name,
        path: path.display().to_string(),
        new: args.new,
    })?;
    if args.new {
        settings.note(format!("made identity {name} in {}", path.display()));
    }
    Ok(Exit::Success)
}
