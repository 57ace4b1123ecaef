//! `exon service`: writes a systemd unit.

use std::path::{Path, absolute};

use clap::{CommandFactory, Parser};
use serde::Serialize;

use crate::args::{Cli, Command, ServiceArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::escape;

#[derive(Serialize)]
struct Unit {
    r#type: &'static str,
    /// A file name for the unit.
    name: String,
    text: String,
}

pub(super) fn run(settings: &Settings, args: &ServiceArgs) -> Result<Exit, Failure> {
    // What follows `--exec` is for another program.
    let mut own = args.command.iter().take_while(|word| *word != "--exec" && !word.starts_with("--exec="));
    if own.any(|word| word == "--help" || word == "-h") {
        // The help of this command, which has an example for each command that a service runs.
        let mut exon = Cli::command();
        exon.build();
        let help = exon.find_subcommand_mut("service").map(|service| service.render_long_help().to_string());
        settings.output.bytes(help.unwrap_or_default().as_bytes())?;
        return Ok(Exit::Success);
    }
    let line = || std::iter::once("exon".to_owned()).chain(args.command.iter().cloned());
    // The command line is checked by the same rules as any other: a unit that cannot start is useless.
    let cli = Cli::try_parse_from(line()).and_then(Cli::check).map_err(|error| {
        let why = error.to_string();
        let why = why.trim_start_matches("error: ").lines().next().unwrap_or_default().to_owned();
        Failure::new(format!("exon {}: {why}", args.command.join(" "))).wrong_usage()
    })?;
    let what = match &cli.command {
        Command::Listen(_) => "listen",
        Command::Serve(_) => "serve",
        Command::Up(up) if up.detach => {
            return Err(Failure::new("a service stays in the foreground: leave out --detach").wrong_usage());
        }
        Command::Up(_) => "up",
        Command::Share(_) => "share",
        _ => {
            return Err(Failure::new(
                "a service runs `exon listen`, `exon serve`, `exon share` or `exon up`",
            )
            .hint("exon service listen --out DIR")
            .wrong_usage());
        }
    };
    let binary =
        std::env::current_exe().map_err(|e| Failure::new("cannot find the path of exon").because(&e))?;
    let mut words = vec![binary.display().to_string()];
    words.extend(args.command.iter().cloned());
    if let Some(word) = words.iter().find(|word| word.contains(char::is_control)) {
        let why =
            format!("\"{}\" contains a control character, which a unit cannot hold", escape(word.as_bytes()));
        return Err(Failure::new(why).wrong_usage());
    }
    make_absolute(&mut words)?;
    if let Command::Share(share) = &cli.command {
        let is_it = |at: &usize| words.get(*at).is_some_and(|word| Path::new(word) == share.directory);
        // The value of an option may look the same.
        let follows_option = |at: &usize| words.get(*at - 1).is_some_and(|word| word.starts_with("--"));
        let found = (2..words.len()).filter(is_it).min_by_key(follows_option);
        if let Some(word) = found.and_then(|at| words.get_mut(at)) {
            *word = from_root(word)?;
        }
    }
    let start: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let whose = if args.system {
        "User=exon\nStateDirectory=exonet\nEnvironment=EXONET_STATE=/var/lib/exonet\nProtectHome=true\n"
            .into()
    } else {
        working_directory()?
    };
    let text = unit(what, &start.join(" "), &whose, args.system);
    if settings.output.is_json() {
        settings.output.line(&Unit { r#type: "unit", name: format!("exon-{what}.service"), text })?;
    } else {
        settings.output.bytes(text.as_bytes())?;
    }
    Ok(Exit::Success)
}

/// The setting that makes relative paths mean the same in the unit as here. If the directory is gone by then, the unit starts
/// all the same.
fn working_directory() -> Result<String, Failure> {
    let here =
        std::env::current_dir().map_err(|e| Failure::new("cannot find the current directory").because(&e))?;
    // This setting knows no quotes.
    let odd = |path: &str| path.contains(char::is_control) || path.ends_with('\\') || path.trim() != path;
    match here.to_str().filter(|path| !odd(path)) {
        Some(path) => Ok(format!("WorkingDirectory=-{}\n", path.replace('%', "%%"))),
        None => {
            let why = format!(
                "a unit cannot start in the current directory, {}",
                escape(here.as_os_str().as_encoded_bytes())
            );
            Err(Failure::new(why).hint("write the unit in another directory"))
        }
    }
}

/// Makes the paths of options absolute, and that of the program of `--exec`: a unit does not always start in the
/// directory where it was written.
fn make_absolute(words: &mut [String]) -> Result<(), Failure> {
    let mut option = String::new();
    for word in words {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name.to_owned(), value),
            _ => (std::mem::take(&mut option), &**word),
        };
        let absolute = match &*name {
            "--out" | "--state" | "--http-token" => Some(from_root(value)?),
            // A name without a slash is looked up in PATH.
            "--exec" if value.contains('/') => Some(from_root(value)?),
            "--names" => match value.strip_prefix("file:") {
                Some(path) => Some(format!("file:{}", from_root(path)?)),
                None => None,
            },
            _ => None,
        };
        if let Some(value) = absolute {
            *word = if word.starts_with("--") { format!("{name}={value}") } else { value };
        }
        if name == "--exec" {
            // The rest is for that program.
            return Ok(());
        }
        option.clone_from(word);
    }
    Ok(())
}

fn from_root(path: &str) -> Result<String, Failure> {
    let path = Path::new(path);
    let path = absolute(path).map_err(|e| Failure::path("find", path, &e))?;
    Ok(path.display().to_string())
}

/// Quotes one word of ExecStart, as systemd.service(5) defines.
fn quoted(word: &str) -> String {
    let word = word.replace('%', "%%").replace('$', "$$");
    let plain = |c: char| c.is_alphanumeric() || "/._-+:=@%,$".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word;
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

fn unit(what: &str, start: &str, whose: &str, system: bool) -> String {
    let target = if system { "multi-user.target" } else { "default.target" };
    format!(
        "\
[Unit]
Description=exon {what}: messages exactly once
Documentation=man:exon-{what}(1)
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={start}
{whose}# An interrupt ends it in order, with exit code 130.
SuccessExitStatus=130
KillMode=mixed
TimeoutStopSec=30
Restart=on-failure
RestartSec=1
NoNewPrivileges=true
LimitNOFILE=65536

[Install]
WantedBy={target}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_systemd_wants() {
        for (word, wanted) in [
            ("--out=/a/b", "--out=/a/b"),
            ("two words", "\"two words\""),
            ("50%", "50%%"),
            ("$HOME", "$$HOME"),
            ("a\"b\\c", "\"a\\\"b\\\\c\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(word), wanted, "{word:?}");
        }
    }
}
