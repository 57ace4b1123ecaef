//! Named mixes of what happens.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// What kind of world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// Everything, moderately.
    Default,
    /// Datagrams are lost, doubled, changed, delayed and come again.
    Lossy,
    /// Networks fall apart, one way and both, for seconds and for hours.
    Partitions,
    /// Processes die and start again, or end in good order, some for good.
    Crashes,
    /// Addresses and ports change, translators forget.
    Roaming,
    /// Clocks drift and jump, machines sleep.
    Clocks,
    /// Disks are slow, stick, fill up and fail, with much to write.
    Disks,
    /// Applications that do not take, or slowly.
    SlowApps,
    /// Large messages over narrow links.
    Bulk,
    /// Dozens of nodes.
    Crowd,
    /// Mostly calls, whose servers are slow, forgetful, and die.
    Calls,
    /// Identities move to other machines, with a crash in each phase, names that are stale or lie, and copies left behind.
    Moves,
    /// Nothing goes wrong: everything must be delivered.
    Calm,
    /// A disk that forgets what was written: breaks the promise, and must be found out.
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

/// What a profile is made of: ranges from which a seed takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub(super) nodes: (u64, u64),
    /// Minutes that it lasts.
    pub(super) minutes: (u64, u64),
    /// Messages to send, at least.
    pub(super) messages: (u64, u64),
    /// How many of them are larger than one packet, and bytes of the largest.
    pub(super) large: (f64, u64),
    /// How many of what is sent are calls.
    pub(super) calls: f64,
    /// How many faults, and of which kinds.
    pub(super) faults: (u64, u64),
    pub(super) kinds: &'static [Fault],
    /// How many more, and of which kinds: drawn by themselves, so that a seed's world is otherwise as it is without.
    pub(super) more: (u64, u64),
    pub(super) further: &'static [Fault],
    /// The longest that a fault lasts, in seconds.
    pub(super) longest: u64,
    /// Nodes that are ephemeral, and those that write `D` all the time.
    pub(super) ephemeral: f64,
    pub(super) tiny_blocks: f64,
    /// Nodes that keep a journal.
    pub(super) journals: f64,
    /// Links are imperfect all the time.
    pub(super) imperfect: bool,
    /// Most traffic goes to or from the first node.
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
    /// All whose worlds must never break a promise.
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

    /// As the command line has it.
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

    /// What it is, in a line.
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

    /// After the last fault has ended, every message has its outcome within this: about four times the longest that was seen
    /// in 485 worlds, where the median was 0.3 to 1.2 s. Where nobody can know where a peer is, 45 s of it pass until
    /// somebody is told.
    pub const fn settles_within(self) -> Duration {
        Duration::from_secs(match self {
            // 53 s; 46 s in the others.
            Self::Roaming | Self::Default | Self::Crowd | Self::Calls | Self::Moves => 220,
            // 15 s.
            Self::Partitions => 60,
            // 8 s.
            _ => 40,
        })
    }

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
