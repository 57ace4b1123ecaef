//! `exon top`.

use clap::Args;

const AFTER_HELP: &str = "\
EXAMPLES
  Watch the node that `exon up`, `exon listen` or `exon serve` runs:
      exon top

  The same of another identity:
      exon top --as shop

  One screen as plain text, with all peers; and a line per second for a script:
      exon top --as shop --once
      exon top --as shop --json

The identity is `default` unless --as names another. Rates are means over the last second, and loss
is that of the last 10 s. A message is in doubt when it has left and has no outcome yet. The bars
show bytes per second, both ways; each peer has a scale of its own.

KEYS
  q quit                  up, down, page up, page down   choose a peer
  p pause, continue          left, right, 1 to 9 and 0      sort by another column
  / show peers that ...   r   sort the other way
  ? help                  Esc forget what was typed; quit";

/// Watch a running node: its peers, rates, queues and what is in doubt
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TopArgs {
    /// Print one screen as plain text, or one line with --json, and exit
    #[arg(long)]
    pub(crate) once: bool,
}
