//! The command that follows `--exec`.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::Cli;

/// Checks that no option which was meant for the command at `path` is among the arguments of the command that it
/// runs.
///
/// # Errors
/// There is such an option. The error has the form of the argument parser.
pub(super) fn check(path: &[&str], exec: &[OsString]) -> Result<(), clap::Error> {
    let mut exon = Cli::command();
    exon.build();
    let command = path.iter().try_fold(&exon, |command, name| command.find_subcommand(name));
    let own: Vec<_> =
        command.into_iter().flat_map(clap::Command::get_arguments).filter_map(clap::Arg::get_long).collect();
    let taken = exec.iter().skip(1).filter_map(|word| word.to_str()).find(|word| {
        let option = word.strip_prefix("--").map(|option| option.split('=').next().unwrap_or(option));
        option.is_some_and(|option| own.contains(&option))
    });
    let Some(option) = taken else { return Ok(()) };
    let why = format!(
        "{option} stands after --exec, so it would go to the command: put it before --exec\n\n  \
         tip: if it is meant for the command, use a shell: --exec sh -c '... {option}'"
    );
    Err(exon.error(ErrorKind::ArgumentConflict, why))
}
