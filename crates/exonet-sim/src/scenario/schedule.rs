//! The stored form of a scenario: a seed, a profile, and the actions that are left.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::node::Priority;

use super::{Action, Profile, Scenario, What};

/// The first line of a schedule's text.
const HEAD: &str = "exonet schedule 1";

/// How an action was made smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trim {
    /// The number of messages.
    pub count: Option<u32>,
    /// The size of each message, in bytes.
    pub size: Option<u32>,
    /// How long the action lasts.
    pub span: Option<Duration>,
    /// Whether priority, deadline and withdrawal are removed.
    pub plain: bool,
}

/// What is left of a generated scenario. Its text can be stored, read and run again.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The seed of the scenario.
    pub seed: u64,
    /// The profile of the scenario.
    pub profile: Profile,
    /// Whether links are perfect outside of faults.
    pub plain_links: bool,
    /// Whether nodes have the default configuration, quick disks and good clocks.
    pub plain_nodes: bool,
    /// The actions that are left.
    pub kept: BTreeMap<usize, Trim>,
    pub(super) full: Scenario,
}

/// Why a text is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseScheduleError {
    /// The first line is not that of a schedule.
    #[error("this is not a schedule: it does not begin with {HEAD:?}")]
    NotASchedule,
    /// A line cannot be read.
    #[error("line {0} cannot be understood: {1:?}")]
    Line(usize, String),
    /// In this version, the seed gives another scenario.
    #[error("the schedule was written by another version, whose seeds give other scenarios")]
    OtherVersion,
    /// The seed or the profile is missing.
    #[error("the seed or the profile is missing")]
    Incomplete,
}

impl Schedule {
    /// The complete scenario of a seed.
    pub fn full(seed: u64, profile: Profile) -> Self {
        let full = Scenario::generate(seed, profile);
        let kept = full.actions.iter().map(|(number, _)| (*number, Trim::default())).collect();
        Self { seed, profile, plain_links: false, plain_nodes: false, kept, full }
    }

    /// The scenario that is left.
    pub fn scenario(&self) -> Scenario {
        let mut scenario = self.full.clone();
        scenario.actions = self.actions().collect();
        if self.plain_links {
            scenario.links.values_mut().for_each(|link| *link = crate::LinkConfig::perfect(link.delay));
        }
        if self.plain_nodes {
            scenario.nodes.iter_mut().for_each(super::NodePlan::make_plain);
        }
        scenario
    }

    /// The actions that are left, with their trims applied.
    pub fn actions(&self) -> impl Iterator<Item = (usize, Action)> {
        self.full
            .actions
            .iter()
            .filter_map(|(number, action)| self.kept.get(number).map(|trim| (*number, trim.apply(action))))
    }

    /// Distinguishes the scenarios of other versions from this one.
    fn fingerprint(&self) -> u64 {
        let text = format!("{:?}", self.full);
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, fnv)
    }
}

impl Trim {
    fn apply(self, action: &Action) -> Action {
        let mut action = action.clone();
        action.span = self.span.unwrap_or(action.span);
        match &mut action.what {
            What::Send { count, size, priority, deadline, withdraw, .. } => {
                *count = self.count.unwrap_or(*count);
                *size = self.size.unwrap_or(*size);
                if self.plain {
                    (*priority, *deadline, *withdraw) = (Priority::Normal, None, None);
                }
            }
            What::Stream { len, .. } => *len = self.size.unwrap_or(*len).max(8),
            _ => {}
        }
        action
    }

    /// Reads one word of a line.
    fn read(&mut self, word: &str) -> Option<()> {
        match word.split_once('=') {
            Some(("count", n)) => self.count = Some(n.parse().ok()?),
            Some(("size", n)) => self.size = Some(n.parse().ok()?),
            Some(("span", n)) => self.span = Some(Duration::from_nanos(n.parse().ok()?)),
            None if word == "plain" => self.plain = true,
            _ => return None,
        }
        Some(())
    }
}

impl fmt::Display for Trim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(count) = self.count {
            write!(f, " count={count}")?;
        }
        if let Some(size) = self.size {
            write!(f, " size={size}")?;
        }
        if let Some(span) = self.span {
            write!(f, " span={}", span.as_nanos())?;
        }
        if self.plain { f.write_str(" plain") } else { Ok(()) }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        writeln!(f, "seed {}", self.seed)?;
        writeln!(f, "profile {}", self.profile)?;
        writeln!(f, "scenario {:016x}", self.fingerprint())?;
        if self.plain_links {
            writeln!(f, "plain-links")?;
        }
        if self.plain_nodes {
            writeln!(f, "plain-nodes")?;
        }
        for (number, action) in self.actions() {
            let trim = self.kept.get(&number).copied().unwrap_or_default();
            writeln!(f, "{:<32}# {action}", format!("{number}{trim}"))?;
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = ParseScheduleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        if lines.next() != Some(HEAD) {
            return Err(ParseScheduleError::NotASchedule);
        }
        let (mut seed, mut profile, mut fingerprint) = (None, None, None);
        let (mut plain_links, mut plain_nodes, mut kept) = (false, false, BTreeMap::new());
        for (at, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            let wrong = || ParseScheduleError::Line(at + 2, line.to_owned());
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "seed" => seed = Some(rest.parse().map_err(|_| wrong())?),
                "profile" => profile = Some(rest.parse().map_err(|()| wrong())?),
                "scenario" => fingerprint = Some(u64::from_str_radix(rest, 16).map_err(|_| wrong())?),
                "plain-links" => plain_links = true,
                "plain-nodes" => plain_nodes = true,
                number => {
                    let number = number.parse().map_err(|_| wrong())?;
                    let mut trim = Trim::default();
                    rest.split_whitespace().try_for_each(|word| trim.read(word)).ok_or_else(wrong)?;
                    kept.insert(number, trim);
                }
            }
        }
        let (seed, profile) = seed.zip(profile).ok_or(ParseScheduleError::Incomplete)?;
        let schedule = Self { plain_links, plain_nodes, kept, ..Self::full(seed, profile) };
        match fingerprint {
            Some(fingerprint) if fingerprint != schedule.fingerprint() => {
                Err(ParseScheduleError::OtherVersion)
            }
            _ => Ok(schedule),
        }
    }
}
