//! `exon sim`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use exonet_sim::scenario::Profile;

const AFTER_HELP: &str = "\
EXAMPLES
  A thousand generated worlds, on all cores:
      exon sim --seeds 1000

  What happens in one of them, datagram by datagram:
      exon sim --seed 17 --trace

  Every profile in turn, for a script:
      exon sim --seeds 240 --profile all --json | tail -n 1

  A disk that forgets writes breaks the guarantee. Find a violation, and run the shortest
  schedule that shows it once more:
      exon sim --seeds 20 --profile rollback
      exon sim --replay FILE --trace

Each world runs the real protocol core on a virtual clock. Its nodes crash, move, sleep and stall.
Its networks lose, duplicate, corrupt and delay datagrams, split, and bring back datagrams that are
hours old. Its disks are slow, and fail. A seed decides everything. A ledger checks the outcome of
every message. After the last fault every message must settle, and in the end all nodes must have
forgotten each other.

The last line of --json has: seeds, violations, messages, calls, crashes, partitions, virtual_hours,
seconds, coverage; type and end (done or interrupted) come before them. The exit code is 1 if there
was a violation.";

/// Run generated worlds in which everything goes wrong, and check every guarantee
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SimArgs {
    /// How many worlds to run
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// The seed of the first world; the others have the next seeds
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) first_seed: u64,
    /// Run only the world with this seed
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "first_seed"])]
    pub(crate) seed: Option<u64>,
    /// The profile of the worlds: a name, `all` for each in turn, or `list`
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) profile: Profiles,
    /// Print everything that happens
    #[arg(long)]
    pub(crate) trace: bool,
    /// Run the world of a schedule that was printed for a violation
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "first_seed", "seed", "profile"])]
    pub(crate) replay: Option<PathBuf>,
    /// How many worlds to run at once; by default one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(crate) jobs: Option<u16>,
}

/// The profiles to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profiles {
    /// Show their names.
    List,
    /// All profiles in turn, except those with a fault that breaks the guarantees.
    All,
    /// This profile.
    One(Profile),
}

impl Profiles {
    /// The profile of the world with this seed.
    pub(crate) fn of(self, seed: u64) -> Profile {
        match self {
            Self::One(profile) => profile,
            Self::List | Self::All => {
                let all = Profile::SOUND;
                let at = usize::try_from(seed % all.len() as u64).unwrap_or(0);
                all.get(at).copied().unwrap_or(Profile::Default)
            }
        }
    }
}

/// No profile has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a profile: `exon sim --profile list` shows them")]
pub(crate) struct NoProfile(String);

impl FromStr for Profiles {
    type Err = NoProfile;

    fn from_str(text: &str) -> Result<Self, NoProfile> {
        match text {
            "list" => Ok(Self::List),
            "all" => Ok(Self::All),
            name => name.parse().map(Self::One).map_err(|()| NoProfile(name.to_owned())),
        }
    }
}
