//! One event in a scenario.

use core::fmt;
use core::time::Duration;

use exonet_proto::node::Priority;

use crate::trace::Moment;
use crate::{Bursts, LinkConfig, NodeSet};

/// What an application accepts if it does not accept everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ears {
    /// Nothing.
    Shut,
    /// Calls, but no other messages.
    ForCalls,
    /// Messages, and calls of some methods.
    ForSome,
}

/// The methods of calls.
pub(super) const METHODS: [&str; 4] = ["", "one", "two", "three"];
/// The methods that an application accepts if it accepts some.
pub(super) const FEW_METHODS: &[&str] = &["one", "three"];

impl Ears {
    pub(super) const ALL: [Self; 3] = [Self::Shut, Self::ForCalls, Self::ForSome];
}

impl fmt::Display for Ears {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shut => "nothing",
            Self::ForCalls => "calls alone",
            Self::ForSome => "messages and calls of some methods",
        })
    }
}

/// An event that begins at one time and, if it lasts, ends at another.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// When it begins, counted from the start of the scenario.
    pub at: Duration,
    /// How long it lasts. For an action that does not last, this means nothing.
    pub span: Duration,
    /// What happens.
    pub what: What,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Messages or calls, spread evenly over the span.
    Send {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// The number of messages.
        count: u32,
        /// The size of each message, in bytes.
        size: u32,
        /// Whether the messages are calls.
        call: bool,
        /// The priority of the messages.
        priority: Priority,
        /// How long after it is sent a message may still leave.
        deadline: Option<Duration>,
        /// How the sender withdraws messages, if it does.
        withdraw: Option<Withdraw>,
    },
    /// Sends a large message that its application writes in pieces over the span.
    Stream {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// The length in bytes, at least eight.
        len: u32,
    },
    /// Lets nothing pass from one set of nodes to the other.
    Cut {
        /// The senders.
        from: NodeSet,
        /// The receivers.
        to: NodeSet,
        /// Whether nothing passes in the other direction either.
        both: bool,
    },
    /// Changes the links from one set of nodes to the other.
    Weather {
        /// The senders.
        from: NodeSet,
        /// The receivers.
        to: NodeSet,
        /// The change.
        change: Change,
    },
    /// Gives the node another address.
    Roam(usize),
    /// Gives the node another port.
    Port(usize),
    /// Puts a NAT in front of the node, which forgets its mappings after this much silence.
    Nat(usize, Duration),
    /// Kills the process, which is down for the span.
    Crash(usize),
    /// Suspends the machine.
    Suspend(usize),
    /// Makes the process hang. Datagrams that arrive wait.
    Stuck(usize),
    /// Sets the wall clock forward or back by this many seconds.
    Wall(usize, i64),
    /// Makes the application accept only some of what arrives, or nothing.
    Deaf(usize, Ears),
    /// Makes the application take this many messages at a time, at this interval.
    Slow(usize, u32, Duration),
    /// Makes a write to the disk take up to this long.
    SlowDisk(usize, Duration),
    /// Makes the disk fail. At the end it is repaired, and the process is started again.
    BrokenDisk(usize),
    /// Leaves no room on the disk for the span. A process that stops because of that is started again and again.
    FullDisk(usize),
    /// Lets no write to the disk end within the span. True: the process then dies, and starts again.
    StuckDisk(usize, bool),
    /// Ends the node in an orderly way; it is down for the span. True: for good.
    Leave(usize, bool),
    /// Moves the identity to another machine. It runs nowhere for the span.
    Move(usize, Mishap, Names),
    /// Makes a node send keepalives to a peer, at this interval.
    Keepalive(usize, usize, Duration),
    /// Kills the process, which then finds an old state on its disk. This breaks the guarantee, and shows that the
    /// checkers notice that.
    Rollback(usize),
}

/// What goes wrong in a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// Nothing.
    None,
    /// The machine that the identity should leave dies before it has ceded the identity, which stays there.
    Stays,
    /// The new machine dies this long after it has begun to send, and starts again.
    Dies(Duration),
    /// The old state starts again on the old machine.
    Copied,
    /// What has arrived at the new machine also arrives at another one, which has already used this many numbers.
    Twice(u64),
}

/// Where the other nodes look for an identity after a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// At the new place: every node is told.
    Right,
    /// At the place that was known before.
    Stale,
    /// At the place of another node.
    Lie,
}

/// How a message is withdrawn, and how long after it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdraw {
    /// Only if it has not left.
    Cancel(Duration),
    /// In any case.
    Abandon(Duration),
}

/// A change of links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// This fraction of datagrams is lost.
    Loss(f64),
    /// Datagrams are lost in bursts.
    Bursts(Bursts),
    /// The one-way delay, and the jitter.
    Delay(Duration, Duration),
    /// A rate in bytes per second, behind a queue of this length in bytes.
    Narrow(u64, u64),
    /// This fraction of datagrams is changed on the way.
    Corrupt(f64),
    /// This fraction of datagrams arrives twice.
    Copies(f64),
    /// This fraction of datagrams arrives again, up to this much later.
    Echoes(f64, Duration),
}

impl Action {
    /// When it ends.
    pub fn ends(&self) -> Duration {
        self.at + self.span
    }
}

impl What {
    /// The name of its kind, for counting.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Send { call: false, .. } => "bursts",
            Self::Send { call: true, .. } => "call_bursts",
            Self::Stream { .. } => "streams",
            Self::Cut { both: true, .. } => "partitions",
            Self::Cut { both: false, .. } => "one_way_partitions",
            Self::Weather { change, .. } => change.kind(),
            Self::Roam(_) => "roamings",
            Self::Port(_) => "port_changes",
            Self::Nat(..) => "translators",
            Self::Crash(_) => "crashes",
            Self::Suspend(_) => "suspends",
            Self::Stuck(_) => "stuck_processes",
            Self::Wall(..) => "wall_jumps",
            Self::Deaf(..) => "deaf_applications",
            Self::Slow(..) => "slow_applications",
            Self::SlowDisk(..) => "slow_disks",
            Self::BrokenDisk(_) => "broken_disks",
            Self::FullDisk(_) => "full_disks",
            Self::StuckDisk(..) => "stuck_disks",
            Self::Leave(_, false) => "ends",
            Self::Leave(_, true) => "ends_for_good",
            Self::Move(_, Mishap::None, _) => "moves",
            Self::Move(_, Mishap::Stays, _) => "moves_that_failed",
            Self::Move(_, Mishap::Dies(_), _) => "moves_into_a_crash",
            Self::Move(_, Mishap::Copied, _) => "moves_with_a_copy",
            Self::Move(_, Mishap::Twice(_), _) => "moves_to_two_places",
            Self::Keepalive(..) => "keepalives",
            Self::Rollback(_) => "rollbacks",
        }
    }

    /// Whether it is a request of an application, not a fault.
    pub const fn is_traffic(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::Stream { .. } | Self::Keepalive(..))
    }

    /// Whether it sends messages.
    pub const fn is_message(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::Stream { .. })
    }

    /// The nodes that the action affects.
    pub fn nodes(&self) -> NodeSet {
        let none = NodeSet::default();
        match self {
            Self::Send { from, to, .. } | Self::Stream { from, to, .. } | Self::Keepalive(from, to, _) => {
                none.with(*from).with(*to)
            }
            Self::Cut { from, to, .. } | Self::Weather { from, to, .. } => NodeSet(from.0 | to.0),
            Self::Roam(node)
            | Self::Port(node)
            | Self::Nat(node, _)
            | Self::Crash(node)
            | Self::Suspend(node)
            | Self::Stuck(node)
            | Self::Wall(node, _)
            | Self::Deaf(node, _)
            | Self::Slow(node, ..)
            | Self::SlowDisk(node, _)
            | Self::BrokenDisk(node)
            | Self::FullDisk(node)
            | Self::StuckDisk(node, _)
            | Self::Leave(node, _)
            | Self::Move(node, ..)
            | Self::Rollback(node) => none.with(*node),
        }
    }
}

impl Change {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Loss(_) => "losses",
            Self::Bursts(_) => "bursty_losses",
            Self::Delay(..) => "delays",
            Self::Narrow(..) => "narrow_links",
            Self::Corrupt(_) => "corruptions",
            Self::Copies(_) => "duplications",
            Self::Echoes(..) => "echoes",
        }
    }

    /// `base` with this change.
    pub fn apply(self, base: &LinkConfig) -> LinkConfig {
        let mut link = base.clone();
        match self {
            Self::Loss(loss) => link.loss = loss,
            Self::Bursts(bursts) => link.bursts = Some(bursts),
            Self::Delay(delay, jitter) => (link.delay, link.jitter) = (delay, jitter),
            Self::Narrow(rate, queue) => (link.rate, link.queue) = (Some(rate), queue),
            Self::Corrupt(share) => link.corrupt = share,
            Self::Copies(share) => link.duplicate = share,
            Self::Echoes(share, after) => (link.replay, link.replay_after) = (share, after),
        }
        link
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", Moment(self.at), self.what)?;
        if self.span > Duration::ZERO { write!(f, ", for {:?}", self.span) } else { Ok(()) }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { from, to, count, size, call, priority, deadline, withdraw } => {
                let verb = if *call { "calls" } else { "sends" };
                write!(f, "n{from} {verb} n{to} {count} of {size} bytes, {priority:?}")?;
                if let Some(deadline) = deadline {
                    write!(f, ", by {deadline:?}")?;
                }
                match withdraw {
                    Some(Withdraw::Cancel(after)) => write!(f, ", cancelled after {after:?}"),
                    Some(Withdraw::Abandon(after)) => write!(f, ", abandoned after {after:?}"),
                    None => Ok(()),
                }
            }
            Self::Stream { from, to, len } => write!(f, "n{from} streams n{to} {len} bytes"),
            Self::Cut { from, to, both: false } => write!(f, "nothing passes from {from} to {to}"),
            Self::Cut { from, to, both: true } => write!(f, "nothing passes between {from} and {to}"),
            Self::Weather { from, to, change } => write!(f, "from {from} to {to}: {change}"),
            Self::Roam(node) => write!(f, "n{node} has another address"),
            Self::Port(node) => write!(f, "n{node} has another port"),
            Self::Nat(node, idle) => write!(f, "n{node} is behind a translator that forgets after {idle:?}"),
            Self::Crash(node) => write!(f, "n{node} crashes"),
            Self::Suspend(node) => write!(f, "n{node} is suspended"),
            Self::Stuck(node) => write!(f, "n{node} is stuck"),
            Self::Wall(node, seconds) => write!(f, "the wall clock of n{node} is set by {seconds} s"),
            Self::Deaf(node, ears) => write!(f, "the application of n{node} takes {ears}"),
            Self::Slow(node, bites, every) => {
                write!(f, "the application of n{node} takes {bites} every {every:?}")
            }
            Self::SlowDisk(node, latency) => write!(f, "the disk of n{node} takes up to {latency:?}"),
            Self::BrokenDisk(node) => write!(f, "the disk of n{node} fails"),
            Self::FullDisk(node) => write!(f, "the disk of n{node} is full"),
            Self::StuckDisk(node, false) => write!(f, "the disk of n{node} is stuck"),
            Self::StuckDisk(node, true) => write!(f, "the disk of n{node} is stuck until a crash"),
            Self::Leave(node, false) => write!(f, "n{node} ends in good order"),
            Self::Leave(node, true) => write!(f, "n{node} ends in good order, for good"),
            Self::Move(node, mishap, names) => {
                write!(f, "n{node} moves")?;
                match mishap {
                    Mishap::None => {}
                    Mishap::Stays => f.write_str(", and dies before it is ceded")?,
                    Mishap::Dies(after) => write!(f, ", and dies {after:?} after")?,
                    Mishap::Copied => f.write_str(", and what it left behind starts again")?,
                    Mishap::Twice(ahead) => write!(f, ", and once more, {ahead} numbers ahead")?,
                }
                f.write_str(match names {
                    Names::Right => "",
                    Names::Stale => "; its name leads to where it was",
                    Names::Lie => "; its name leads to another",
                })
            }
            Self::Keepalive(node, peer, every) => write!(f, "n{node} pings n{peer} every {every:?}"),
            Self::Rollback(node) => write!(f, "n{node} crashes, and its disk forgets D"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loss(share) => write!(f, "{:.1} % are lost", share * 100.0),
            Self::Bursts(Bursts { enter, leave, loss }) => write!(
                f,
                "{:.1} % of what comes in bursts of {:.0} is lost, one in {:.0} begins one",
                loss * 100.0,
                leave.recip(),
                enter.recip()
            ),
            Self::Delay(delay, jitter) => write!(f, "it takes {delay:?} and up to {jitter:?} more"),
            Self::Narrow(rate, queue) => write!(f, "{rate} bytes a second behind a queue of {queue}"),
            Self::Corrupt(share) => write!(f, "{:.1} % are changed", share * 100.0),
            Self::Copies(share) => write!(f, "{:.1} % come twice", share * 100.0),
            Self::Echoes(share, after) => {
                write!(f, "{:.1} % come again within {after:?}", share * 100.0)
            }
        }
    }
}

impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for node in self.iter() {
            write!(f, "{between}n{node}")?;
            between = "+";
        }
        Ok(())
    }
}
