//! Commands for packagers and shells: `exon completions`, `exon man`, `exon service`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

const COMPLETIONS_HELP: &str = "\
EXAMPLES
  For this shell, now:
      source <(exon completions bash)

  For all later shells:
      exon completions bash > ~/.local/share/bash-completion/completions/exon
      exon completions zsh > ~/.local/share/zsh/site-functions/_exon
      exon completions fish > ~/.config/fish/completions/exon.fish";

/// Print a completion script for a shell
#[derive(Args, Debug)]
#[command(after_help = COMPLETIONS_HELP)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

const MAN_HELP: &str = "\
EXAMPLES
  Read the page of one command:
      exon man listen | man -l -

  Write all of them, for `man exon` and `man exon-listen`:
      exon man --dir ~/.local/share/man/man1";

/// Print the manual page, or write the pages of all commands
#[derive(Args, Debug)]
#[command(after_help = MAN_HELP)]
pub(crate) struct ManArgs {
    /// The command; without it, `exon` itself
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) dir: Option<PathBuf>,
}

const SERVICE_HELP: &str = "\
EXAMPLES
  A listener that starts when you log in, and stores what arrives in ~/inbox:
      mkdir -p ~/.config/systemd/user
      exon service listen --out ~/inbox > ~/.config/systemd/user/exon-listen.service
      systemctl --user enable --now exon-listen
      journalctl --user -u exon-listen

  A server for the whole machine, as the user `exon`:
      exon service --system serve --method sort --exec sort > exon-serve.service
      install -m 644 exon-serve.service /etc/systemd/system
      systemctl enable --now exon-serve

  A node in the background, which sends what `exon send --as shop` passes to it:
      exon service up --as shop > ~/.config/systemd/user/exon-up.service

  The files of a directory for anyone who knows the address:
      exon service share ~/films --anyone > ~/.config/systemd/user/exon-share.service

The paths of options, of a shared directory and of the program of --exec become absolute. A unit for
a user starts in the current directory, so other relative paths stay valid; for the whole machine,
write them as absolute ones. The unit goes to standard output; nothing is installed. With --json
before the command it is one line, with the unit as `text`.";

/// Print a systemd unit that runs `exon listen`, `exon serve`, `exon share` or `exon up`
#[derive(Args, Debug)]
#[command(after_help = SERVICE_HELP)]
pub(crate) struct ServiceArgs {
    /// Print a unit for the whole machine instead of for a user: it uses a system user `exon`, and /var/lib/exonet
    #[arg(long)]
    pub(crate) system: bool,
    /// The command to run, with its options
    #[arg(value_name = "COMMAND", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
}
