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

  A disk that forgets what was written breaks the promise: find that out, and run the shortest
  schedule that shows it again:
      exon sim --seeds 20 --profile rollback
      exon sim --replay FILE --trace

The real protocol core on a virtual clock: nodes that crash, move, sleep and stall, networks that
lose, double, garble, delay, fall apart and bring back what is hours old, disks that are slow and
fail. A seed decides everything. A ledger holds every message against its outcome; after the last
fault every message must settle, and in the end everybody must have forgotten everybody.

The last line of --json has: seeds, violations, messages, calls, crashes, partitions,
virtual_hours, seconds, coverage; type and end (done or interrupted) stand before them. Exit code 1
if there was a violation.";

/// Run generated worlds in which everything goes wrong, and check every promise
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SimArgs {
    /// How many worlds
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// The seed of the first world; the others follow
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

/// Which profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profiles {
    /// Show their names.
    List,
    /// Every sound one in turn.
    All,
    /// This one.
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
#[error("{0:?} is no profile: `exon sim --profile list` shows them")]
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
