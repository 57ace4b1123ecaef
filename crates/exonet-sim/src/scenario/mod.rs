//! Generated worlds. A seed and a profile give nodes, links and a list of timed actions. Running them gives a report.
//! If the report has findings, the schedule can be shrunk to the few actions that cause them.
//!
//! ```text
//! seed, profile --generate--> Scenario --run--> Report
//!                                ^                 | findings
//!                            Schedule <---shrink---+
//! ```
//!
//! Every link and every node has its own dice. So if an action is removed, the random events of the other actions
//! stay the same, unless they depend on it.

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

/// Within this time after the last fault and the last old copy, all nodes have forgotten each other and send nothing.
/// If peers are dead, the time for which nodes keep them is added.
pub const FORGETS_WITHIN: Duration = Duration::from_secs(4_000);

/// The properties of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePlan {
    /// The configuration of the node.
    pub config: Config,
    /// The disk; None: the node is ephemeral.
    pub disk: Option<Disk>,
    /// The clocks.
    pub clock: ClockConfig,
    /// How the application answers calls; None: `config.serves` is not set.
    pub serving: Option<Serving>,
}

/// Everything that happens in a world.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The seed, which determines all random events.
    pub seed: u64,
    /// The kind of the world.
    pub profile: Profile,
    /// The nodes. The place of a node in this list is its name.
    pub nodes: Vec<NodePlan>,
    /// The properties of links without faults, by sender and receiver.
    pub links: BTreeMap<(usize, usize), LinkConfig>,
    /// The actions, each with its number in the full schedule.
    pub actions: Vec<(usize, Action)>,
}

impl NodePlan {
    /// Gives the node the default properties, a quick disk and good clocks.
    fn make_plain(&mut self) {
        let Config { dead_after, caller_patience, serves, .. } = self.config;
        self.config = Config { dead_after, caller_patience, serves, ..Config::new(Policy::Anyone) };
        self.serving = self.serving.map(|_| Serving::default());
        self.disk = self.disk.take().map(|_| Disk::default());
        self.clock = ClockConfig::default();
    }
}

impl Scenario {
    /// The world of a seed.
    pub fn generate(seed: u64, profile: Profile) -> Self {
        generate::generate(seed, profile)
    }

    /// When the last action ends.
    pub fn length(&self) -> Duration {
        self.actions.iter().map(|(_, action)| action.ends()).max().unwrap_or_default()
    }

    /// How long nodes keep, at most, what a peer that is gone might still ask for.
    fn patience(&self) -> Duration {
        self.nodes.iter().map(|plan| plan.config.dead_after).max().unwrap_or_default()
    }

    /// Whether nothing goes wrong, and no application withdraws a message.
    fn is_undisturbed(&self) -> bool {
        let steady = |action: &Action| match action.what {
            What::Send { deadline, withdraw, .. } => deadline.is_none() && withdraw.is_none(),
            ref what => what.is_traffic(),
        };
        self.actions.iter().all(|(_, action)| steady(action))
    }
}
