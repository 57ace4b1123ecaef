//! Named mixes of events.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// The kind of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// Faults of all kinds, at a moderate rate.
    Default,
    /// Datagrams are lost, duplicated, changed, delayed and replayed.
    Lossy,
    /// Partitions, in one direction and in both, for seconds and for hours.
    Partitions,
    /// Processes die and start again, or end in an orderly way, some for good.
    Crashes,
    /// Addresses and ports change, and NATs forget their mappings.
    Roaming,
    /// Clocks drift and jump, and machines are suspended.
    Clocks,
    /// Disks are slow, stuck, full or broken, with much to write.
    Disks,
    /// Applications that take messages slowly, or not at all.
    SlowApps,
    /// Large messages over narrow links.
    Bulk,
    /// Dozens of nodes.
    Crowd,
    /// Mostly calls, whose servers are slow, forget replies, and die.
    Calls,
    /// Identities move to other machines, with a crash in each phase, names that are stale or wrong, and copies left
    /// behind.
    Moves,
    /// Nothing goes wrong: everything must be delivered.
    Calm,
    /// A disk that forgets what was written. This breaks the guarantee, and the checkers must notice it.
    Rollback,
}

/// A fault that a profile may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Cut,
    Loss,
    Bursts,
    Delay,
    Narrow,
    Corrupt,
    Copies,
    Echoes,
    Roam,
    Port,
    Nat,
    Crash,
    Suspend,
    Stuck,
    Wall,
    Deaf,
    Slow,
    SlowDisk,
    BrokenDisk,
    FullDisk,
    StuckDisk,
    Leave,
    Move,
    Rollback,
}

/// The ranges from which a seed draws the world of a profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub(super) nodes: (u64, u64),
    /// The length in minutes.
    pub(super) minutes: (u64, u64),
    /// The range of the number of messages.
    pub(super) messages: (u64, u64),
    /// The share of messages that are larger than one packet, and the size of the largest in bytes.
    pub(super) large: (f64, u64),
    /// The share of messages that are calls.
    pub(super) calls: f64,
    /// The number of faults, and their kinds.
    pub(super) faults: (u64, u64),
    pub(super) kinds: &'static [Fault],
    /// The number of further faults, and their kinds. They are drawn separately, so that the rest of a seed's world
    /// is the same without them.
    pub(super) more: (u64, u64),
    pub(super) further: &'static [Fault],
    /// The longest that a fault lasts, in seconds.
    pub(super) longest: u64,
    /// The share of nodes that are ephemeral, and the share of nodes that write `D` all the time.
    pub(super) ephemeral: f64,
    pub(super) tiny_blocks: f64,
    /// The share of nodes that keep a journal.
    pub(super) journals: f64,
    /// Whether links are imperfect all the time.
    pub(super) imperfect: bool,
    /// Whether most traffic goes to or from the first node.
    pub(super) hub: bool,
}

const USUAL: Mix = Mix {
    nodes: (3, 5),
    minutes: (10, 40),
    messages: (1_300, 1_800),
    large: (0.06, 60_000),
    calls: 0.1,
    faults: (20, 40),
    kinds: &[],
    more: (0, 2),
    further: &[Fault::Leave],
    longest: 120,
    ephemeral: 0.1,
    tiny_blocks: 0.3,
    journals: 0.0,
    imperfect: true,
    hub: false,
};

impl Profile {
    /// All profiles whose worlds must never break a guarantee.
    pub const SOUND: [Self; 13] = [
        Self::Default,
        Self::Lossy,
        Self::Partitions,
        Self::Crashes,
        Self::Roaming,
        Self::Clocks,
        Self::Disks,
        Self::SlowApps,
        Self::Bulk,
        Self::Crowd,
        Self::Calls,
        Self::Moves,
        Self::Calm,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Lossy => "lossy",
            Self::Partitions => "partitions",
            Self::Crashes => "crashes",
            Self::Roaming => "roaming",
            Self::Clocks => "clocks",
            Self::Disks => "disks",
            Self::SlowApps => "slow-apps",
            Self::Bulk => "bulk",
            Self::Crowd => "crowd",
            Self::Calls => "calls",
            Self::Moves => "moves",
            Self::Calm => "calm",
            Self::Rollback => "rollback",
        }
    }

    /// A description in one line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Default => "everything, moderately",
            Self::Lossy => "datagrams are lost, doubled, changed, delayed and come again",
            Self::Partitions => "networks fall apart, one way and both, for seconds and for hours",
            Self::Crashes => "processes die and start again, or end in good order, some for good",
            Self::Roaming => "addresses and ports change, translators forget",
            Self::Clocks => "clocks drift and jump, machines sleep",
            Self::Disks => "disks are slow, stick, fill up and fail, with much to write",
            Self::SlowApps => "applications that do not take, or slowly",
            Self::Bulk => "large messages over narrow links",
            Self::Crowd => "dozens of nodes",
            Self::Calls => "mostly calls, whose servers are slow, forgetful, and die",
            Self::Moves => "identities move, with crashes in between and copies left behind",
            Self::Calm => "nothing goes wrong: everything must be delivered",
            Self::Rollback => "a disk forgets what was written: must be found out",
        }
    }

    /// Within this time after the end of the last fault, every message has its outcome. It is about four times the
    /// longest time that was seen in 485 worlds, in which the median was 0.3 to 1.2 s. If no node can know the
    /// address of a peer, 45 s of it pass before a node is told the address.
    pub const fn settles_within(self) -> Duration {
        Duration::from_secs(match self {
            // The longest time seen was 53 s, and 46 s in the other profiles of this line.
            Self::Roaming | Self::Default | Self::Crowd | Self::Calls | Self::Moves => 220,
            // The longest time seen was 15 s.
            Self::Partitions => 60,
            // The longest time seen was 8 s.
            _ => 40,
        })
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each profile")]
    pub(super) const fn mix(self) -> Mix {
        use Fault::{
            BrokenDisk, Bursts, Copies, Corrupt, Crash, Cut, Deaf, Delay, Echoes, FullDisk, Leave, Loss,
            Move, Narrow, Nat, Port, Roam, Rollback, Slow, SlowDisk, Stuck, StuckDisk, Suspend, Wall,
        };
        match self {
            Self::Default => Mix {
                kinds: &[
                    Cut, Cut, Loss, Bursts, Delay, Narrow, Corrupt, Copies, Echoes, Roam, Port, Nat, Crash,
                    Crash, Suspend, Stuck, Wall, Deaf, Slow, SlowDisk, BrokenDisk,
                ],
                more: (0, 6),
                further: &[Leave, Leave, FullDisk, StuckDisk],
                ..USUAL
            },
            Self::Lossy => Mix {
                kinds: &[Loss, Loss, Bursts, Bursts, Delay, Narrow, Corrupt, Copies, Echoes],
                faults: (30, 60),
                ..USUAL
            },
            Self::Partitions => {
                Mix { kinds: &[Cut, Cut, Cut, Loss], minutes: (20, 240), longest: 7_200, ..USUAL }
            }
            Self::Crashes => {
                let kinds = &[Crash, Crash, Crash, Cut, Loss];
                Mix { kinds, more: (4, 12), ephemeral: 0.25, tiny_blocks: 0.5, ..USUAL }
            }
            Self::Roaming => Mix { kinds: &[Roam, Port, Port, Nat, Loss, Cut, Suspend], ..USUAL },
            Self::Clocks => Mix {
                kinds: &[Suspend, Suspend, Stuck, Wall, Wall, Cut, Crash],
                longest: 1_200,
                calls: 0.3,
                ..USUAL
            },
            Self::Disks => Mix {
                kinds: &[SlowDisk, SlowDisk, BrokenDisk, Crash, Loss],
                more: (6, 16),
                further: &[FullDisk, FullDisk, StuckDisk, StuckDisk, Leave],
                ephemeral: 0.0,
                tiny_blocks: 1.0,
                ..USUAL
            },
            Self::SlowApps => {
                let kinds = &[Deaf, Deaf, Slow, Slow, Stuck, Crash, Loss];
                Mix { kinds, more: (2, 8), large: (0.2, 200_000), ..USUAL }
            }
            Self::Bulk => Mix {
                kinds: &[Narrow, Narrow, Loss, Bursts, Delay, Cut, Slow],
                messages: (150, 300),
                large: (0.7, 2_000_000),
                faults: (8, 20),
                ..USUAL
            },
            Self::Crowd => Mix {
                kinds: &[Cut, Loss, Bursts, Roam, Port, Crash, Suspend, Deaf],
                nodes: (20, 48),
                messages: (1_000, 1_400),
                more: (2, 8),
                large: (0.02, 20_000),
                hub: true,
                ..USUAL
            },
            Self::Calls => Mix {
                kinds: &[
                    Crash, Crash, Crash, Cut, Cut, Loss, Bursts, Delay, Corrupt, Copies, Echoes, Roam,
                    Suspend, Stuck, Deaf, Slow, SlowDisk,
                ],
                large: (0.1, 300_000),
                more: (1, 6),
                further: &[Leave, Leave, StuckDisk, FullDisk],
                calls: 0.8,
                longest: 600,
                ephemeral: 0.2,
                ..USUAL
            },
            Self::Moves => Mix {
                kinds: &[Move, Move, Move, Move, Crash, Cut, Loss, Bursts, Echoes, Copies, Delay, Suspend],
                more: (4, 10),
                further: &[Move],
                longest: 60,
                ephemeral: 0.0,
                journals: 0.7,
                ..USUAL
            },
            Self::Calm => Mix { faults: (0, 0), more: (0, 0), ephemeral: 0.3, imperfect: false, ..USUAL },
            Self::Rollback => Mix {
                calls: 0.0,
                kinds: &[Rollback, Loss, Cut, Crash],
                faults: (10, 20),
                more: (0, 0),
                ephemeral: 0.0,
                tiny_blocks: 1.0,
                ..USUAL
            },
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut all = Self::SOUND.into_iter().chain([Self::Rollback]);
        all.find(|profile| profile.name() == text).ok_or(())
    }
}
