//! `exon id`: shows or creates stored identities.

use std::path::Path;

use serde::Serialize;

use super::announce::be_somebody;
use crate::args::IdArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::peers;
use crate::settings::Settings;

#[derive(Serialize)]
struct Shown<'a> {
    r#type: &'static str,
    id: String,
    name: &'a str,
    path: String,
    new: bool,
}

/// Runs the command. `named`: the user has named an identity, so the default is not used.
pub(super) fn run(settings: &Settings, args: &IdArgs, named: bool) -> Result<Exit, Failure> {
    if args.list {
        return list(settings);
    }
    let Identity::Stored { name, path } = &settings.identity else {
        return Err(Failure::new("no identity was named"));
    };
    let (id, new) = if args.new {
        let id = settings.identity.create()?;
        settings.note(format!("created identity {name} in {}", path.display()));
        (id, true)
    } else {
        // A mistyped name must not create a new identity.
        let new = !named && be_somebody(settings)?;
        settings.identity.require()?;
        (settings.identity.load()?, new)
    };
    settings.output.text(&id.to_string())?;
    let path = path.display().to_string();
    settings.output.line(&Shown { r#type: "identity", id: id.to_string(), name, path, new })?;
    Ok(Exit::Success)
}

#[derive(Serialize)]
struct Listed<'a> {
    r#type: &'static str,
    name: &'a str,
    id: Option<String>,
    path: String,
    /// The reason why there is no id.
    error: Option<String>,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    identities: usize,
}

fn list(settings: &Settings) -> Result<Exit, Failure> {
    let root = peers::directory()?;
    let names = names_in(&root)?;
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for name in &names {
        let identity = Identity::new(Some(name), None)?;
        let id = identity.look();
        let told = id.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        settings.output.text(&format!("{name:<width$}  {told}"))?;
        let (id, error) = match id {
            Ok(id) => (Some(id.to_string()), None),
            Err(failure) => (None, Some(failure.to_string())),
        };
        let path = root.join(name).display().to_string();
        settings.output.line(&Listed { r#type: "identity", name, id, path, error })?;
    }
    settings.output.line(&Summary { r#type: "summary", identities: names.len() })?;
    if names.is_empty() {
        settings.note(format!("there is no identity in {} yet: exon id creates one", root.display()));
    }
    Ok(Exit::Success)
}

/// The names of the directories that may be identities, in order.
fn names_in(root: &Path) -> Result<Vec<String>, Failure> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::path("read", root, &error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| Failure::path("read", root, &e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // One that cannot be read is listed, with the reason.
        if Identity::new(Some(&name), None).is_ok_and(|identity| identity.is_there().unwrap_or(true)) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
