//! `exon service`: writes a systemd unit.

use std::path::{Path, absolute};

use clap::{CommandFactory, Parser};

use crate::args::{Cli, Command, ServiceArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::escape;

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
    if let Command::Listen(listen) = &cli.command
        && let Some(out) = &listen.out
    {
        let path = absolute(out).map_err(|e| Failure::path("find", out, &e))?;
        make_absolute(&mut words, out, &path);
    }
    if let Command::Share(share) = &cli.command {
        let path = absolute(&share.directory).map_err(|e| Failure::path("find", &share.directory, &e))?;
        make_absolute(&mut words, &share.directory, &path);
    }
    let start: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let whose = if args.system {
        "User=exon\nStateDirectory=exonet\nEnvironment=EXONET_STATE=/var/lib/exonet\nProtectHome=true\n"
            .into()
    } else {
        working_directory()?
    };
    settings.output.bytes(unit(what, &start.join(" "), &whose, args.system).as_bytes())?;
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

/// Makes a path absolute: a unit does not start in the directory where it was written.
fn make_absolute(words: &mut [String], given: &Path, path: &Path) {
    for word in words {
        if Path::new(&*word) == given {
            *word = path.display().to_string();
        } else if word.strip_prefix("--out=").is_some_and(|value| Path::new(value) == given) {
            *word = format!("--out={}", path.display());
        }
    }
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
