//! `exon id`.

use clap::Args;

const AFTER_HELP: &str = "\
EXAMPLES
  The id under which this machine listens:
      exon id

  Which identities are there?
      exon id --list

  Make an identity for one purpose, and send as it:
      exon id sensor-7 --new
      exon send --as sensor-7 ID@HOST:PORT 'it is 21 degrees'

An identity is a key and one integer in a directory of its own. You may move it, but never copy it:
two nodes with one key cannot guarantee exactly-once delivery. The same is true of a directory that
was restored from a backup.";

/// Show or create a stored identity; without a name `default`, which is created if it does not exist
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct IdArgs {
    /// The identity; the same as --as
    #[arg(value_name = "NAME", conflicts_with = "identity")]
    pub(crate) name: Option<String>,
    /// Create the identity; an error if it already exists
    #[arg(long)]
    pub(crate) new: bool,
    /// Show all identities
    #[arg(long, conflicts_with_all = ["name", "new", "identity", "state"])]
    pub(crate) list: bool,
}
