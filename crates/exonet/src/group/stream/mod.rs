//! Streams to groups: every member takes the messages in the order in which they were sent.

mod member;
mod pace;
mod state;

pub use member::{Cause, Departure};
pub use pace::WhenFull;

use core::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use exonet_proto::NodeId;
use exonet_proto::node::{Priority, StreamEnd};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::engine::Engine;
use crate::error::Closed;
use crate::group::ready::Ready;
use crate::group::{Group, GroupError, GroupReceipt, Mode, Remove};
use crate::peer_addr::PeerAddr;
use crate::send::message::{Message, take_turns};
use crate::shared::Shared;
use crate::stream::lane::Claim;
use crate::stream::{self, MAX_STREAM_BODY, OpenError, StreamReceiver};
use state::{Settings, State};

/// The default of [`GroupStream::queue`].
const QUEUE: usize = 1_024;

/// What the handles on a stream share with its task. It does not keep the node running.
pub(crate) struct Core {
    state: Mutex<State>,
    ready: Arc<Ready>,
    /// Notified when a member may have more messages, or has departed.
    told: Notify,
}

impl Core {
    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.wake_at();
        let out = f(&mut state);
        let stirred = core::mem::take(&mut state.stirred);
        let sooner = state.wake_at() != before;
        drop(state);
        if stirred {
            self.told.notify_waiters();
        }
        if sooner {
            self.ready.rung.notify_one();
        }
        out
    }

    pub(super) fn remove(&self, member: &NodeId, how: Remove) -> Result<(), GroupError> {
        self.with(|state| state.remove(member, how))
    }
}

/// The task of a stream.
struct Task(Arc<Core>);

impl Task {
    /// Runs until all handles are dropped and every message has ended at every member.
    async fn run(self) {
        let core = &self.0;
        loop {
            let woken = core.ready.take();
            let (done, wake) = core.with(|state| {
                woken.into_iter().for_each(|number| state.rung(number));
                state.on_time(Instant::now());
                (state.is_done(), state.wake_at())
            });
            if done {
                return;
            }
            let ring = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => core::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = core.ready.rung.notified() => {}
                () = ring => {}
            }
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.with(State::give_up);
    }
}

/// A stream to the members of a group. [`Group::stream`] makes it. Every member takes the messages in the order in
/// which they were sent here, in an ordinary [stream](crate::stream) of that name from this node.
///
/// A message goes to all members that are in the stream when it is sent; its [`Mode`] says how many of them must have
/// it. No member replaces another, and no copy is withdrawn because other members have the message. A member that
/// gets a message has got all messages that were sent to it before, or learns which are missing.
///
/// No member waits for another. Each has a queue of its own, and [`WhenFull`] says what happens to a member that is
/// too slow.
///
/// ```
/// use exonet::group::Mode;
/// use exonet::{Allow, Node};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// # let carol = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// let group = alice.group([bob.peer_addr(), carol.peer_addr()]).build()?;
/// let prices = group.stream("prices")?;
/// prices.send(Mode::All, "tea 3").await?;
/// prices.send(Mode::All, "tea 4").await?;
/// let mut end = prices.close().await?;
///
/// for member in [&bob, &carol] {
///     let (_, mut lines) = member.accept_stream().await?.split();
///     for price in ["tea 3", "tea 4"] {
///         let line = lines.recv_at_most_once().await?.ok_or("more was sent")?;
///         assert_eq!(line.body.as_whole().map(|body| &body[..]), Some(price.as_bytes()));
///     }
///     assert!(lines.recv().await?.is_none());
/// }
/// assert!(end.decided().await.is_reached());
/// # Ok(())
/// # }
/// ```
///
/// Cheap to clone: clones are handles on the same stream. A handle keeps the node running. Dropping the last one ends
/// nothing: messages that were sent go on. [`Self::close`] ends the stream at the members.
#[derive(Clone)]
pub struct GroupStream {
    front: Arc<Front>,
}

struct Front {
    core: Arc<Core>,
    group: Group,
    name: Bytes,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.core.with(|state| state.orphan = true);
        self.core.ready.rung.notify_one();
    }
}

impl Group {
    /// Makes a stream to the current members of the group. Nothing is sent before the first message.
    ///
    /// [`GroupStream::add`] adds other members. A member that is [removed](Self::remove) from the group leaves the
    /// stream.
    ///
    /// # Errors
    /// [`GroupError::Empty`], [`GroupError::Name`], [`GroupError::NoRuntime`]; [`GroupError::Stream`] if this process
    /// has a handle on a stream of that name with a member.
    pub fn stream(&self, name: impl Into<Bytes>) -> Result<GroupStream, GroupError> {
        let name = stream::checked(name.into()).map_err(GroupError::Name)?;
        let runtime = Handle::try_current().map_err(|_| GroupError::NoRuntime)?;
        let ready = Arc::default();
        let settings = Settings { queue: QUEUE, when_full: WhenFull::FallOut, priority: Priority::Normal };
        let mut state = State::new(settings, &ready);
        let core = {
            let roster = self.roster();
            if roster.is_empty() {
                return Err(GroupError::Empty);
            }
            for member in roster.iter() {
                state.join(member.id, || claim(self.node().shared(), member, &name))?;
            }
            let core = Arc::new(Core { state: Mutex::new(state), ready, told: Notify::new() });
            // Added while the members are locked, so that removing a member from here on also removes it from this
            // stream.
            let mut streams = self.inner.common.streams();
            streams.retain(|other| other.strong_count() > 0);
            streams.push(Arc::downgrade(&core));
            core
        };
        runtime.spawn(Task(Arc::clone(&core)).run());
        Ok(GroupStream { front: Arc::new(Front { core, group: self.clone(), name }) })
    }
}

/// Reserves the name of the stream with a member.
fn claim(shared: &Arc<Shared>, member: &Arc<PeerAddr>, name: &Bytes) -> Result<Claim, GroupError> {
    let claim = Claim::take(shared, member, name.clone());
    claim.ok_or(GroupError::Stream { member: member.id, error: OpenError::InUse })
}

impl GroupStream {
    fn core(&self) -> &Core {
        &self.front.core
    }

    /// The group that the stream belongs to.
    pub fn group(&self) -> &Group {
        &self.front.group
    }

    /// The name of the stream at every member.
    pub fn name(&self) -> &Bytes {
        &self.front.name
    }

    /// The priority of all messages of this stream, in place of their own. Set it before the first message. It also
    /// applies to members that join later.
    #[must_use]
    pub fn priority(self, priority: Priority) -> Self {
        self.core().with(|state| state.set_priority(priority));
        self
    }

    /// How many messages of the stream may be open at a member, which means sent and not ended: at least one.
    /// Default: 1,024. All members share the bodies, and each body has at most [`MAX_STREAM_BODY`] bytes, so this
    /// limits the memory that the stream takes.
    #[must_use]
    pub fn queue(self, most: usize) -> Self {
        self.core().with(|state| state.settings.queue = most.max(1));
        self
    }

    /// What happens to a member that has reached this limit. Default: it falls out.
    #[must_use]
    pub fn when_full(self, when_full: WhenFull) -> Self {
        self.core().with(|state| state.settings.when_full = when_full);
        self
    }

    // ---- members

    /// The members that are in the stream now.
    pub fn members(&self) -> Vec<NodeId> {
        self.core().with(|state| state.ids())
    }

    /// How many messages of the stream are open at a member. None: the member is not in the stream.
    pub fn backlog(&self, member: &NodeId) -> Option<usize> {
        self.core().with(|state| state.backlog(member))
    }

    /// Adds a member of the group to the stream. It gets later messages: for the member, the stream begins with the
    /// first of them.
    ///
    /// # Errors
    /// [`GroupError::Unknown`]: the node is not a member of the [group](Group::add). [`GroupError::Double`]: it is
    /// already in the stream. [`GroupError::Stream`], [`GroupError::Ended`].
    pub fn add(&self, member: &NodeId) -> Result<(), GroupError> {
        let group = self.group();
        let roster = group.roster();
        let to = roster.iter().find(|other| other.id == *member).ok_or(GroupError::Unknown(*member))?;
        let claim = || claim(group.node().shared(), to, self.name());
        self.core().with(|state| state.join(*member, claim))
    }

    /// Removes a member from this stream only: it gets no later messages. With [`Remove::Drain`], the messages that
    /// were sent to it go on and count, and its stream is closed after them. With [`Remove::Now`], the messages that
    /// have not left for it are withdrawn and do not count, and its stream is reset after those that have left. The
    /// last member can be removed too: then nothing can be sent until another is added.
    ///
    /// # Errors
    /// [`GroupError::Unknown`].
    pub fn remove(&self, member: &NodeId, how: Remove) -> Result<(), GroupError> {
        self.core().remove(member, how)
    }

    /// Waits until a member leaves the stream before its end, and returns the member and the cause. Each departure is
    /// returned once, to one of the tasks that wait. None: the stream has ended. Cancel-safe.
    pub async fn departed(&self) -> Option<Departure> {
        loop {
            // Created before the look, so that no change between the look and the wait is missed.
            let told = self.core().told.notified();
            let (next, ended) = self.core().with(|state| (state.next_departure(), state.has_ended()));
            if next.is_some() || ended {
                return next;
            }
            told.await;
        }
    }

    /// Receives the messages that a member sends under the name of the stream. None: the member is not in the stream,
    /// or this was called for it before.
    pub fn answers(&self, member: &NodeId) -> Option<StreamReceiver> {
        let claim = self.core().with(|state| state.hear(member))?;
        let peer = self.group().node().peer(PeerAddr::clone(&claim.to));
        Some(stream::receiver(peer, claim))
    }

    // ---- messages

    /// Sends a message to all members of the stream, after all that were sent before. It waits while the stream is
    /// full: see [`Self::queue`] and [`WhenFull`].
    ///
    /// [`Mode::All`], [`Mode::Any`] and [`Mode::Quorum`] say how many members must have the message; the `send` of a
    /// quorum is the smallest number of members that the stream must have. The message's deadline counts for the
    /// verdict and for each copy: a copy that has not left by then ends Expired, and leaves no gap.
    ///
    /// Cancel-safe like [`Group::send`]. If several tasks send, all members get their messages in one and the same
    /// order.
    ///
    /// # Errors
    /// [`GroupError`]; nothing has been sent, except if the error is [`GroupError::InDoubt`].
    /// [`GroupError::Unordered`] for [`Mode::Balanced`].
    pub async fn send(&self, mode: Mode, message: impl Into<Message>) -> Result<GroupReceipt, GroupError> {
        let message = checked(message.into())?;
        take_turns(message.weight().saturating_mul(self.members().len())).await;
        let board = loop {
            let told = self.core().told.notified();
            match self.core().with(|state| state.send(mode, message.clone())) {
                Err(GroupError::Full) => told.await,
                sent => break sent?,
            }
        };
        self.until_safe().await?;
        Ok(GroupReceipt::new(board))
    }

    /// Like [`Self::send`], without waiting.
    ///
    /// # Errors
    /// [`GroupError::Full`] if the stream is full, and the other errors of [`Self::send`].
    pub fn try_send(&self, mode: Mode, message: impl Into<Message>) -> Result<GroupReceipt, GroupError> {
        let message = checked(message.into())?;
        self.core().with(|state| state.send(mode, message)).map(GroupReceipt::new)
    }

    /// Ends the stream at every member, after everything that was sent. The receipt says for each member when its
    /// application has got the end.
    ///
    /// # Errors
    /// [`GroupError::Ended`]: the stream was already closed or reset. [`GroupError::Empty`], [`GroupError::Closed`].
    pub async fn close(&self) -> Result<GroupReceipt, GroupError> {
        self.end(StreamEnd::Last).await
    }

    /// Withdraws the messages that have not left. Then it ends the stream at every member by a reset, after the
    /// messages that have left.
    ///
    /// # Errors
    /// The errors of [`Self::close`].
    pub async fn reset(&self) -> Result<GroupReceipt, GroupError> {
        self.end(StreamEnd::Reset).await
    }

    async fn end(&self, end: StreamEnd) -> Result<GroupReceipt, GroupError> {
        let board = self.core().with(|state| state.close(end))?;
        self.until_safe().await?;
        Ok(GroupReceipt::new(board))
    }

    /// Waits until the queued messages are safe on disk, if the node's durability asks for that.
    async fn until_safe(&self) -> Result<(), GroupError> {
        let shared = self.group().node().shared();
        let safe = shared.until_safe(shared.look(Engine::accepted_at)).await;
        safe.map_err(|Closed| GroupError::InDoubt)
    }
}

/// Checks that a message can be sent in a stream.
fn checked(message: Message) -> Result<Message, GroupError> {
    match message.len() {
        _ if message.has_tag() => Err(GroupError::Tagged),
        size if size > MAX_STREAM_BODY => Err(GroupError::TooLarge { size, limit: MAX_STREAM_BODY }),
        _ => Ok(message),
    }
}

impl fmt::Debug for GroupStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupStream").field("name", self.name()).field("members", &self.members()).finish()
    }
}
