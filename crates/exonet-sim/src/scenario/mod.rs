//! Generated worlds: a seed and a profile give nodes, links and a list of timed actions, and running them gives a
//! report. What a report complains of can be shrunk to the few actions that it takes.
//!
//! ```text
//! seed, profile --generate--> Scenario --run--> Report
//!                                ^                 | findings
//!                            Schedule <---shrink---+
//! ```
//!
//! Every link and every node has dice of its own, so that taking an action away leaves the fortunes of the others
//! as they were, as far as they do not depend on it.

mod action;
mod generate;
mod profile;
mod report;
mod run;
mod schedule;
mod shrink;

use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::node::{Config, Policy};

use crate::{ClockConfig, Disk, LinkConfig, Serving};

pub use action::{Action, Change, Ears, Mishap, Names, What, Withdraw};
pub use profile::Profile;
pub use report::{Coverage, Finding, Report};
pub use run::{run, run_traced};
pub use schedule::{ParseScheduleError, Schedule, Trim};
pub use shrink::{Shrunk, shrink};

/// After that, and after the last old copy has come back, everything is forgotten and still within this; later by
/// the patience with dead peers where some are.
pub const FORGETS_WITHIN: Duration = Duration::from_secs(4_000);

/// A node as it is made.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePlan {
    /// How it behaves.
    pub config: Config,
    /// Its disk; None: it is ephemeral.
    pub disk: Option<Disk>,
    /// Its clocks.
    pub clock: ClockConfig,
    /// How its application answers calls; None: `config.serves` is not set.
    pub serving: Option<Serving>,
}

/// All that is to happen in a world.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Decides every accident.
    pub seed: u64,
    /// What kind of world.
    pub profile: Profile,
    /// The nodes; their places in this list are their names.
    pub nodes: Vec<NodePlan>,
    /// How the links are while nothing is the matter, by sender and receiver.
    pub links: BTreeMap<(usize, usize), LinkConfig>,
    /// What happens, each with the number that it has in the full schedule.
    pub actions: Vec<(usize, Action)>,
}

impl NodePlan {
    /// As nodes are by default, on a quick disk and with good clocks.
    fn make_plain(&mut self) {
        let Config { dead_after, caller_patience, serves, .. } = self.config;
        self.config = Config { dead_after, caller_patience, serves, ..Config::new(Policy::Anyone) };
        self.serving = self.serving.map(|_| Serving::default());
        self.disk = self.disk.take().map(|_| Disk::default());
        self.clock = ClockConfig::default();
    }
}

impl Scenario {
    /// The world of this seed.
    pub fn generate(seed: u64, profile: Profile) -> Self {
        generate::generate(seed, profile)
    }

    /// When the last action has ended.
    pub fn length(&self) -> Duration {
        self.actions.iter().map(|(_, action)| action.ends()).max().unwrap_or_default()
    }

    /// How long the most patient node keeps what a peer that is gone might still ask about.
    fn patience(&self) -> Duration {
        self.nodes.iter().map(|plan| plan.config.dead_after).max().unwrap_or_default()
    }

    /// Nothing goes wrong, and nobody changes their mind.
    fn is_undisturbed(&self) -> bool {
        let steady = |action: &Action| match action.what {
            What::Send { deadline, withdraw, .. } => deadline.is_none() && withdraw.is_none(),
            ref what => what.is_traffic(),
        };
        self.actions.iter().all(|(_, action)| steady(action))
    }
}
