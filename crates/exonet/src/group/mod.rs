//! Groups: one message to several nodes, and one answer to "did it arrive?".
//!
//! A [`Group`] is a list of members. [`Node::group`](crate::Node::group) makes it. The [`Mode`] of a message says how
//! many members get the message, and how many must have it. [`Group::send`] returns a [`GroupReceipt`], which ends in
//! one [`Verdict`] and has a line for each member. Every copy is an ordinary message: it arrives exactly once at its
//! member, and has its own outcome.
//!
//! ```
//! use exonet::group::{Mode, Verdict};
//! use exonet::{Allow, Node};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
//! let mut shops = Vec::new();
//! for _ in 0..3 {
//!     shops.push(Node::builder(Allow::only([alice.id()])).bind("127.0.0.1:0").build().await?);
//! }
//!
//! let group = alice.group(shops.iter().map(Node::peer_addr)).build()?;
//! let mut receipt = group.send(Mode::All, "the price of tea is 3").await?;
//! for shop in &shops {
//!     shop.recv().await?.ack()?;
//! }
//! assert_eq!(receipt.decided().await, Verdict::Reached { good: 3 });
//! assert!(receipt.ended().await.iter().all(|line| line.state.has_it()));
//! # Ok(())
//! # }
//! ```
//!
//! [`Group::call`] calls a method of the members and collects the replies: the first one, some or all.
//!
//! # What a verdict means
//!
//! *Reached*: as many members as required have the message. Their applications have taken it, or have processed it if
//! the message asked for [`Confirm::Processed`](crate::Confirm). *Failed*: fewer members than required had the
//! message at the deadline, or enough of them never will. It does **not** mean that no member has the message: the
//! lines of the members say what is known of each, and continue until each copy has ended. A verdict never changes.
//!
//! The group withdraws a copy that is no longer needed. If the copy has not left, it ends at once. If it has left,
//! the member says whether its application has the copy. Until that is certain, the group sends the message to no
//! other member instead, so no more members than asked for can have it. If a member is dead, such a copy may stay in
//! doubt for ever. So give a message that must end a [deadline](crate::Message::deadline).
//!
//! A group exists only in its process. If the process is killed, the copies that a journal keeps go on as
//! [messages](crate::Node::recovered). There is no verdict then, and no other member replaces one that fails.

mod ballot;
mod board;
pub(crate) mod call;
mod candidates;
mod choice;
mod drive;
mod load;
mod ready;
mod stream;
#[cfg(test)]
mod worlds;

pub use ballot::{Verdict, Why};
pub use board::{GroupReceipt, MemberLine, MemberState};
pub use call::{Answered, GroupCall};
pub use load::{Ended, Load, MemberLoad, Path, PeakEwma};
pub use stream::{Cause, Departure, GroupStream, WhenFull};

use core::fmt;
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use exonet_proto::NodeId;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::{Closed, IN_DOUBT};
use crate::node::Node;
use crate::peer_addr::PeerAddr;
use crate::send::message::{Message, take_turns};
use crate::shared::Shared;
use crate::stream::OpenError;
use ballot::Rule;
use board::{Board, Order};
use candidates::{Candidates, Roster};
use choice::{Choice, Ranking};
use drive::{Drive, Plan};

/// The default of [`GroupBuilder::waiting`].
const WAITING: usize = 1_024;

/// The default of [`GroupBuilder::patience`].
const PATIENCE: Duration = Duration::from_millis(50);

/// How many members get a message to a group, and how many must have it. The application chooses this for each
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// All members get the message, and all must have it. For a member whose queue is full, the message waits; the
    /// other members get it meanwhile.
    All,
    /// All members get the message, and one must have it. Then the group withdraws the other copies.
    Any,
    /// `send` members get the message, the cheapest by the group's [`Load`], and `acks` of them must have it. The
    /// group replaces a member that certainly does not get it. Once `acks` members have it, the group withdraws the
    /// other copies.
    Quorum {
        /// The number of members that get the message. No more can ever have it.
        send: usize,
        /// The number of members that must have the message.
        acks: usize,
    },
    /// The `k` cheapest members by the group's [`Load`] get the message, and all of these must have it. The group
    /// replaces a member that certainly does not get the message. It also replaces a member if the copy has not left
    /// for four round trips and at least [`GroupBuilder::patience`]. Such a message does not leave
    /// [early](Message::early), unless it asks for that: it leaves when there is a channel, and the group can
    /// withdraw it until then.
    Balanced {
        /// The number of members that get the message. No more can ever have it.
        k: usize,
    },
}

impl Mode {
    fn plan(self, members: usize, patience: Duration) -> Result<Plan, GroupError> {
        if members == 0 {
            return Err(GroupError::Empty);
        }
        let (send, need, spares) = match self {
            Self::All => (members, members, false),
            Self::Any => (members, 1, false),
            Self::Quorum { send, acks } => (send, acks, true),
            Self::Balanced { k } => (k, k, true),
        };
        check(send, need, members)?;
        Ok(Plan {
            rule: Rule { send, need, replace: spares, withdraw: self != Self::All },
            waits: self == Self::All,
            patience: matches!(self, Self::Balanced { .. }).then_some(patience),
        })
    }

    /// How many members set the pace of a stream, and are not left behind.
    const fn need_of_stream(self) -> usize {
        match self {
            Self::Quorum { acks, .. } => acks,
            _ => 1,
        }
    }

    /// The rule of a message in a stream: all members that are left in the stream get it, and no copy is withdrawn. So a
    /// quorum needs members for its `acks`, and not for its `send`.
    fn plan_in_stream(self, members: usize) -> Result<Rule, GroupError> {
        if members == 0 {
            return Err(GroupError::Empty);
        }
        let need = match self {
            Self::All => members,
            Self::Any => 1,
            Self::Quorum { send, acks } => {
                check(send, acks, send)?;
                check(acks, acks, members)?;
                acks
            }
            Self::Balanced { .. } => return Err(GroupError::Unordered),
        };
        Ok(Rule { send: members, need, replace: false, withdraw: false })
    }
}

/// Checks that a message can go to `send` of `members`, and that `need` of those can have it.
const fn check(send: usize, need: usize, members: usize) -> Result<(), GroupError> {
    if need == 0 {
        Err(GroupError::NoAcks)
    } else if need > send {
        Err(GroupError::TooManyAcks { acks: need, send })
    } else if send > members {
        Err(GroupError::TooFewMembers { send, members })
    } else {
        Ok(())
    }
}

/// What happens to the messages under way to a member that leaves the group. It gets no later messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remove {
    /// The messages go on, and count.
    Drain,
    /// The group withdraws the messages. Once it is certain that a message was withdrawn, a spare replaces the
    /// member; if there is none, the member counts as one that does not have the message. A message that the member
    /// has taken counts.
    Now,
}

/// An error of a group, or of a message to it. Nothing has been sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The group has no members.
    #[error("the group has no members: add one first")]
    Empty,
    /// The message requires no member to have it.
    #[error("a message to a group must be for one member at least")]
    NoAcks,
    /// The message requires more members to have it than get it.
    #[error("{acks} members must have the message, and only {send} get it: send it to as many at least")]
    TooManyAcks {
        /// The number of members that must have it.
        acks: usize,
        /// The number of members that get it.
        send: usize,
    },
    /// The message is for more members than there are.
    #[error("{send} members are to get the message, and the group has {members}")]
    TooFewMembers {
        /// The number of members that should get it.
        send: usize,
        /// The number of members.
        members: usize,
    },
    /// The node is named twice.
    #[error("{0} is a member of the group already: name each once")]
    Double(NodeId),
    /// The node is not a member.
    #[error("{0} is not a member of the group")]
    Unknown(NodeId),
    /// The members include this node, and a node does not send to itself.
    #[error("a node cannot be a member of its own group")]
    Myself,
    /// The caller is not within a tokio runtime.
    #[error("a message to a group must be sent within a tokio runtime")]
    NoRuntime,
    /// The system gave no random numbers.
    #[error("the system's random generator failed: {0}")]
    Random(getrandom::Error),
    /// The node is closed.
    #[error("the node is closed")]
    Closed,
    /// The node queued copies of the message, and stopped before they were on the disk: see [`SendError::InDoubt`](crate::error::SendError::InDoubt).
    #[error("{IN_DOUBT}")]
    InDoubt,
    /// A balanced message goes to some members, but a message of a stream goes to all.
    #[error(
        "a message of a stream goes to all its members, so it cannot be balanced: choose all, any or a quorum"
    )]
    Unordered,
    /// The stream was closed or reset, or the runtime in which it was made has ended.
    #[error("the stream to the group has ended")]
    Ended,
    /// Every member has reached its limit of open messages of the stream, or a member for which the stream waits has
    /// reached it. Only calls that do not wait return this.
    #[error("the members have as many messages of the stream open as they may")]
    Full,
    /// The message has a tag. In a stream, the tag of each message is the name of the stream.
    #[error("a message of a stream has no tag of its own")]
    Tagged,
    /// The message is longer than a message of a stream may be.
    #[error("a message of a stream has at most {limit} bytes, this has {size}")]
    TooLarge {
        /// The length of the message in bytes.
        size: usize,
        /// The limit: [`MAX_STREAM_BODY`](crate::stream::MAX_STREAM_BODY) bytes.
        limit: usize,
    },
    /// The name cannot be the name of a stream.
    #[error(transparent)]
    Name(OpenError),
    /// The stream of that name cannot be used with this member now.
    #[error("no stream to {member}: {error}")]
    Stream {
        /// The member.
        member: NodeId,
        /// Why not.
        error: OpenError,
    },
}

/// A group that is not yet made. [`Node::group`](crate::Node::group) creates it.
#[must_use = "a group is made by `build`"]
pub struct GroupBuilder {
    node: Node,
    members: Vec<PeerAddr>,
    load: Box<dyn Load>,
    patience: Duration,
    waiting: usize,
}

impl Node {
    /// Begins to make a group of peers. Each is an address, or the id of a peer that this node knows.
    pub fn group<M: Into<PeerAddr>>(&self, members: impl IntoIterator<Item = M>) -> GroupBuilder {
        let members = members.into_iter().map(Into::into).collect();
        let load = Box::new(PeakEwma::default());
        GroupBuilder { node: self.clone(), members, load, patience: PATIENCE, waiting: WAITING }
    }
}

impl GroupBuilder {
    /// Chooses members by this load metric instead of [`PeakEwma`].
    pub fn load(mut self, load: impl Load) -> Self {
        self.load = Box::new(load);
        self
    }

    /// How long at least a [balanced](Mode::Balanced) message waits at a member before the group tries another
    /// instead. Default: 50 ms. The message waits for four round trips if that is longer, and for 1 s at a member
    /// whose round-trip time is not known.
    pub fn patience(mut self, least: Duration) -> Self {
        self.patience = least;
        self
    }

    /// How many messages may wait for room in the queue to a member, or for the look-up of its address. If there are
    /// more, the next `send` waits. At least one. Default: 1,024.
    pub fn waiting(mut self, most: usize) -> Self {
        self.waiting = most.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Makes the group. It sends nothing.
    ///
    /// # Errors
    /// [`GroupError::Double`], [`GroupError::Myself`], [`GroupError::Random`].
    pub fn build(self) -> Result<Group, GroupError> {
        let Self { node, members, load, patience, waiting } = self;
        let mut ids = BTreeSet::new();
        for member in &members {
            if member.id == node.id() {
                return Err(GroupError::Myself);
            }
            if !ids.insert(member.id) {
                return Err(GroupError::Double(member.id));
            }
        }
        let seed = getrandom::u64().map_err(GroupError::Random)?;
        let mind = Mind { load, choice: Choice::new(seed) };
        let (open, streams) = (Mutex::default(), Mutex::default());
        let common = Common { made: Instant::now(), mind: Mutex::new(mind), open, streams };
        let members = Mutex::new(Arc::new(members.into_iter().map(Arc::new).collect()));
        let waiting = Arc::new(Semaphore::new(waiting));
        Ok(Group { inner: Arc::new(Inner { node, members, common: Arc::new(common), patience, waiting }) })
    }
}

/// Peers to which messages are sent together. See the [module](self).
///
/// A group is cheap to clone. Clones share their members and what is known of their load. Like every clone of a
/// [`Node`], a group keeps the node running; a message under way goes on without the group.
#[derive(Clone)]
pub struct Group {
    inner: Arc<Inner>,
}

struct Inner {
    node: Node,
    members: Mutex<Roster>,
    common: Arc<Common>,
    patience: Duration,
    waiting: Arc<Semaphore>,
}

/// What the messages of a group share. It does not keep the node running.
struct Common {
    made: Instant,
    mind: Mutex<Mind>,
    open: Mutex<Vec<Weak<Board>>>,
    streams: Mutex<Vec<Weak<stream::Core>>>,
}

/// What is known of the members.
struct Mind {
    load: Box<dyn Load>,
    choice: Choice,
}

impl Mind {
    fn sent(&mut self, now: Duration, member: NodeId) {
        self.choice.used(now, member);
        self.load.sent(now, &member);
    }

    fn removed(&mut self, member: &NodeId) {
        self.choice.removed(member);
        self.load.removed(member);
    }

    /// The order in which members are chosen: the `k` cheapest of those that are drawn, and then the others.
    fn cheapest<'a>(
        &mut self,
        now: Duration,
        k: usize,
        members: usize,
        id: impl Fn(usize) -> Option<&'a NodeId>,
        path: impl Fn(&NodeId) -> Path,
    ) -> Ranking {
        let Self { load, choice } = self;
        let cost = |at: usize| id(at).map_or(f64::MAX, |id| load.cost(now, id, path(id)));
        choice.cheapest(now, k, members, &id, cost)
    }
}

impl Common {
    fn mind(&self) -> MutexGuard<'_, Mind> {
        self.mind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self, member: NodeId) {
        let now = self.made.elapsed();
        self.mind().sent(now, member);
    }

    fn ended(&self, member: &NodeId, took: Duration, how: Ended) {
        self.mind().load.ended(self.made.elapsed(), member, took, how);
    }

    fn path(&self, shared: &Shared, member: &NodeId) -> Path {
        shared.look(|engine| Path::of(&engine.core, member))
    }

    fn loads(&self, shared: &Shared, members: &[NodeId]) -> Vec<MemberLoad> {
        let now = self.made.elapsed();
        let mut mind = self.mind();
        let mut load_of = |id: &NodeId| {
            let path = self.path(shared, id);
            MemberLoad { id: *id, cost: mind.load.cost(now, id, path), path }
        };
        let mut loads: Vec<_> = members.iter().map(&mut load_of).collect();
        loads.sort_by(|one, other| one.cost.total_cmp(&other.cost));
        loads
    }

    /// The members in the order in which they are chosen.
    fn candidates(&self, shared: &Shared, roster: &Roster, rule: &Rule) -> Candidates {
        let now = self.made.elapsed();
        let mut mind = self.mind();
        let ranking = if rule.replace {
            let id = |at: usize| roster.get(at).map(|member| &member.id);
            mind.cheapest(now, rule.send, roster.len(), id, |id| self.path(shared, id))
        } else {
            mind.choice.rotate(roster.len())
        };
        Candidates::new(roster, ranking)
    }

    fn boards(&self) -> MutexGuard<'_, Vec<Weak<Board>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> MutexGuard<'_, Vec<Weak<stream::Core>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, board: &Arc<Board>) {
        let mut open = self.boards();
        if let Some(at) = open.iter().position(|other| other.as_ptr() == Arc::as_ptr(board)) {
            open.swap_remove(at);
        }
    }
}

impl Group {
    /// The node that sends to this group.
    pub fn node(&self) -> &Node {
        &self.inner.node
    }

    /// The current members.
    pub fn members(&self) -> Vec<NodeId> {
        self.roster().iter().map(|member| member.id).collect()
    }

    /// The load of each member, the cheapest first. [`Mode::Quorum`] and [`Mode::Balanced`] choose members by load.
    pub fn loads(&self) -> Vec<MemberLoad> {
        let ids = self.members();
        self.inner.common.loads(self.inner.node.shared(), &ids)
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.inner.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a member. It gets later messages, but none that are already under way. Open streams include it only after
    /// [`GroupStream::add`].
    ///
    /// # Errors
    /// [`GroupError::Double`], [`GroupError::Myself`].
    pub fn add(&self, member: impl Into<PeerAddr>) -> Result<(), GroupError> {
        let member = member.into();
        if member.id == self.inner.node.id() {
            return Err(GroupError::Myself);
        }
        let mut roster = self.roster();
        if roster.iter().any(|other| other.id == member.id) {
            return Err(GroupError::Double(member.id));
        }
        Arc::make_mut(&mut roster).push(Arc::new(member));
        Ok(())
    }

    /// Removes a member. It gets no later message, leaves every stream of the group, and replaces no other member in
    /// messages under way. [`Remove`] says what happens to messages that were already sent to it. The number of
    /// members that must have such a message stays the same: with [`Mode::All`], a message that was withdrawn from
    /// one member fails.
    ///
    /// # Errors
    /// [`GroupError::Unknown`].
    pub fn remove(&self, member: &NodeId, how: Remove) -> Result<(), GroupError> {
        let mut roster = self.roster();
        let Some(at) = roster.iter().position(|other| other.id == *member) else {
            return Err(GroupError::Unknown(*member));
        };
        Arc::make_mut(&mut roster).remove(at);
        drop(roster);
        let common = &self.inner.common;
        common.mind().removed(member);
        let open: Vec<_> = common.boards().iter().filter_map(Weak::upgrade).collect();
        open.iter().for_each(|board| board.order(Order::Removed(*member, how)));
        let streams: Vec<_> = common.streams().iter().filter_map(Weak::upgrade).collect();
        // Not every stream has this member.
        streams.iter().for_each(|stream| drop(stream.remove(member, how)));
        Ok(())
    }

    /// Sends a message to the current members. It queues the message at once wherever there is room, with one body
    /// for all.
    ///
    /// No member waits for another. If the queue to a member is full, the group skips the member, except in
    /// [`Mode::All`], where the message waits for it. If too many messages [wait](GroupBuilder::waiting), this method
    /// waits.
    ///
    /// The message's deadline counts from this call, for the verdict and for each copy: a copy that its member has
    /// not taken by then is withdrawn, and ends Expired.
    ///
    /// Cancel-safe until the message is queued. If the caller drops the future while it waits for the disk, the
    /// message goes on without a receipt.
    ///
    /// # Errors
    /// [`GroupError`]; nothing has been sent, except if the error is [`GroupError::InDoubt`]. An error of a single
    /// member is not returned here: it is in the line of that member.
    pub async fn send(&self, mode: Mode, message: impl Into<Message>) -> Result<GroupReceipt, GroupError> {
        let Inner { node, common, patience, waiting, .. } = &*self.inner;
        let (shared, message) = (node.shared(), message.into());
        // Reports an impossible request at once.
        let asked = mode.plan(self.roster().len(), *patience)?;
        let runtime = Handle::try_current().map_err(|_| GroupError::NoRuntime)?;
        take_turns(message.weight().saturating_mul(asked.rule.send)).await;
        let permit = Arc::clone(waiting).acquire_owned().await.map_err(|_| GroupError::Closed)?;
        let mut drive = {
            let roster = self.roster();
            let plan = mode.plan(roster.len(), *patience)?;
            let candidates = common.candidates(shared, &roster, &plan.rule);
            let message = if plan.patience.is_some() { message.or_late() } else { message };
            let drive = Drive::new(shared, common, candidates, message, plan, permit);
            // Added while the members are locked, so that removing a member from here on also removes it from this
            // message.
            common.boards().push(Arc::downgrade(drive.board()));
            drive
        };
        drive.begin();
        let board = Arc::clone(drive.board());
        runtime.spawn(drive.run());
        let safe = shared.until_safe(shared.look(Engine::accepted_at)).await;
        safe.map_err(|Closed| GroupError::InDoubt)?;
        Ok(GroupReceipt::new(board))
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("node", &self.node().id()).field("members", &self.members()).finish()
    }
}

impl fmt::Debug for GroupBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupBuilder").field("members", &self.members).finish_non_exhaustive()
    }
}
