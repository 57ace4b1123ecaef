//! `exon completions` and `exon man`: generated from the same description of the command line as the help.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;

pub(super) fn completions(settings: &Settings, args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut exon(), "exon", &mut script);
    settings.output.bytes(&script)?;
    Ok(Exit::Success)
}

pub(super) fn man(settings: &Settings, args: &ManArgs) -> Result<Exit, Failure> {
    let exon = exon();
    if let Some(directory) = &args.dir {
        std::fs::create_dir_all(directory).map_err(|e| Failure::path("make", directory, &e))?;
        let pages = write_all(&exon, "exon", directory)?;
        settings.note(format!("wrote {pages} pages into {}", directory.display()));
        return Ok(Exit::Success);
    }
    let page = match args.command.as_deref() {
        None => page(exon, "exon")?,
        Some(name) => {
            let known =
                exon.get_subcommands().find(|command| command.get_name() == name && !command.is_hide_set());
            let command = known.ok_or_else(|| {
                Failure::new(format!("there is no command {name:?}")).hint("exon --help shows them")
            })?;
            page(command.clone(), &format!("exon-{name}"))?
        }
    };
    settings.output.bytes(&page)?;
    Ok(Exit::Success)
}

fn exon() -> Command {
    let mut exon = Cli::command();
    exon.build();
    exon
}

fn page(command: Command, name: &str) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let man = Man::new(command.display_name(name.to_owned())).title(name);
    man.render(&mut page).map_err(|e| Failure::new("cannot write the manual page").because(&e))?;
    Ok(page)
}

/// Writes the pages of a command and of its subcommands. Returns their number.
fn write_all(command: &Command, name: &str, directory: &Path) -> Result<usize, Failure> {
    let path = directory.join(format!("{name}.1"));
    std::fs::write(&path, page(command.clone(), name)?).map_err(|e| Failure::path("write", &path, &e))?;
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    shown
        .map(|below| write_all(below, &format!("{name}-{}", below.get_name()), directory))
        .sum::<Result<usize, _>>()
        .map(|below| below + 1)
}
