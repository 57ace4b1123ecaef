//! Calls to a group: they ask several members, and collect the replies.

use core::fmt;
use core::future::{Future, IntoFuture};
use core::ops::ControlFlow;
use core::pin::Pin;
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::NodeId;
use exonet_proto::node::Priority;
use tokio::time::Instant;

use crate::call::Reply;
use crate::error::CallError;
use crate::group::ballot::Rule;
use crate::group::candidates::Candidates;
use crate::group::load::Ended;
use crate::group::ready::{Bell, Ready};
use crate::group::{Common, Group, GroupError};
use crate::peer_addr::PeerAddr;

/// The call of one member, in progress.
type Asking = Pin<Box<dyn Future<Output = Answered> + Send>>;

/// A member, and how its call ended.
pub type Answered = (NodeId, Result<Reply, CallError>);

/// Too few members have replied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatherError {
    /// The group cannot make this call. Nothing was called.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Too many calls have failed for the others to be enough. The group has given up the calls that still ran.
    #[error("{} of the {need} replies that were asked for came; {} calls failed{}", replies.len(), failures.len(), First(failures))]
    TooFew {
        /// The number of replies that were asked for.
        need: usize,
        /// The replies that came before that.
        replies: Vec<(NodeId, Reply)>,
        /// The members whose calls failed, with the errors. [`CallError::has_not_run`] says of each whether the call
        /// has certainly not run.
        failures: Vec<(NodeId, CallError)>,
    },
}

/// Displays the first failure as a sentence.
struct First<'a>(&'a [(NodeId, CallError)]);

impl fmt::Display for First<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.first().map_or(Ok(()), |(id, error)| write!(f, ", the first at {}: {error}", id.short()))
    }
}

/// A call to members of a group. [`Group::call`] creates it, and the method that collects the replies makes it.
///
/// If a member's call is no longer needed, it is given up. A call that has not left is withdrawn; a call that has
/// left may run, and its reply is discarded.
#[must_use = "a call to a group is made by what gathers its replies"]
pub struct GroupCall {
    group: Group,
    method: Bytes,
    body: Bytes,
    deadline: Option<Duration>,
    priority: Priority,
}

impl Group {
    /// Calls a method of the current members: it runs at most once at each.
    ///
    /// ```
    /// # use exonet::{Allow, Node, call::{Failure, Request}};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// # let carol = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let price = |_: Request| async { Ok::<_, Failure>("3") };
    /// let _bob = bob.serve("price", price).start()?;
    /// let _carol = carol.serve("price", price).start()?;
    ///
    /// let group = alice.group([bob.peer_addr(), carol.peer_addr()]).build()?;
    /// let (_who, mut reply) = group.call("price", "tea").first().await?;
    /// assert_eq!(reply.body.bytes(100).await?, "3");
    /// assert_eq!(group.call("price", "tea").quorum(2).await?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn call(&self, method: impl Into<Bytes>, body: impl Into<Bytes>) -> GroupCall {
        let (method, body) = (method.into(), body.into());
        GroupCall { group: self.clone(), method, body, deadline: None, priority: Priority::default() }
    }
}

impl GroupCall {
    /// How long after its start each call is wanted: see [`Call::deadline`](crate::call::Call::deadline).
    pub fn deadline(mut self, from_now: Duration) -> Self {
        self.deadline = Some(from_now);
        self
    }

    /// The priority: which message goes first when several wait.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Calls all members, and returns the first reply.
    ///
    /// # Errors
    /// [`GatherError`]: every call failed.
    pub async fn first(self) -> Result<(NodeId, Reply), GatherError> {
        let need = 1;
        // `quorum` returns as many replies as were asked for.
        match self.quorum(need).await?.pop() {
            Some(reply) => Ok(reply),
            None => Err(GatherError::TooFew { need, replies: Vec::new(), failures: Vec::new() }),
        }
    }

    /// Calls all members, and returns the first `need` replies, in order of arrival.
    ///
    /// # Errors
    /// [`GatherError`]: too many calls failed for the others to be enough.
    pub async fn quorum(self, need: usize) -> Result<Vec<(NodeId, Reply)>, GatherError> {
        let members = self.group.members().len();
        if need == 0 {
            return Err(GroupError::NoAcks.into());
        }
        if need > members && members > 0 {
            return Err(GroupError::TooManyAcks { acks: need, send: members }.into());
        }
        let (mut replies, mut failures) = (Vec::new(), Vec::new());
        let mut asked = self.ask()?;
        while let Some((id, answer)) = asked.next().await {
            match answer {
                Ok(reply) => replies.push((id, reply)),
                Err(error) => failures.push((id, error)),
            }
            if replies.len() >= need {
                return Ok(replies);
            }
            if replies.len() + asked.open < need {
                break;
            }
        }
        Err(GatherError::TooFew { need, replies, failures })
    }

    /// Calls all members, and returns how each call ended, in the order of their ends. If a member is dead, this
    /// waits until the [deadline](Self::deadline).
    ///
    /// # Errors
    /// [`GroupError`]; nothing was called.
    pub async fn all(self) -> Result<Vec<Answered>, GroupError> {
        self.fold(Vec::new(), |mut all, id, answer| {
            all.push((id, answer));
            ControlFlow::Continue(all)
        })
        .await
    }

    /// Calls all members, and folds the ends of the calls into a value. `f` gets the value so far and the end of a
    /// call, until `f` breaks or all calls have ended.
    ///
    /// # Errors
    /// [`GroupError`]; nothing was called.
    pub async fn fold<T>(
        self,
        init: T,
        mut f: impl FnMut(T, NodeId, Result<Reply, CallError>) -> ControlFlow<T, T>,
    ) -> Result<T, GroupError> {
        let (mut made, mut asked) = (init, self.ask()?);
        while let Some((id, answer)) = asked.next().await {
            match f(made, id, answer) {
                ControlFlow::Continue(next) => made = next,
                ControlFlow::Break(last) => return Ok(last),
            }
        }
        Ok(made)
    }

    /// Calls the cheapest member by the group's [`Load`](crate::group::Load). Only if the call has certainly not run
    /// there does it call the next. So the call runs at most once in the whole group.
    ///
    /// # Errors
    /// [`GatherError`]: the call of the last of `failures` may have run; those before it certainly have not.
    pub async fn cheapest(self) -> Result<(NodeId, Reply), GatherError> {
        let began = Instant::now();
        let mut failures = Vec::new();
        for to in self.candidates(1)?.iter() {
            let left = self.deadline.map(|deadline| deadline.saturating_sub(began.elapsed()));
            match self.one(Arc::clone(to), left).await {
                (id, Ok(reply)) => return Ok((id, reply)),
                (id, Err(error)) => {
                    let elsewhere = error.has_not_run();
                    failures.push((id, error));
                    if !elsewhere || self.deadline.is_some_and(|deadline| began.elapsed() >= deadline) {
                        break;
                    }
                }
            }
        }
        Err(GatherError::TooFew { need: 1, replies: Vec::new(), failures })
    }

    /// The members in the order in which they are chosen, the `k` cheapest first.
    fn candidates(&self, k: usize) -> Result<Candidates, GroupError> {
        let Group { inner } = &self.group;
        let roster = self.group.roster().clone();
        if roster.is_empty() {
            return Err(GroupError::Empty);
        }
        let rule = Rule { send: k, need: k, replace: k < roster.len(), withdraw: true };
        Ok(inner.common.candidates(inner.node.shared(), &roster, &rule))
    }

    fn one(&self, to: Arc<PeerAddr>, deadline: Option<Duration>) -> Asking {
        let id = to.id;
        let mut call = self.group.node().peer((*to).clone()).call(self.method.clone(), self.body.clone());
        call = call.priority(self.priority);
        if let Some(deadline) = deadline {
            call = call.deadline(deadline);
        }
        let watch = Watch::begin(&self.group.inner.common, id);
        Box::pin(async move {
            let answer = call.into_future().await;
            watch.end(match &answer {
                Ok(_) => Ended::Good,
                // The server has answered: that its answer is a failure does not make it slow.
                Err(CallError::Failed { status, .. }) if !status.has_not_run() => Ended::Good,
                Err(_) => Ended::Bad,
            });
            (id, answer)
        })
    }

    /// Begins to call all members.
    fn ask(&self) -> Result<Asked, GroupError> {
        let ready = Arc::<Ready>::default();
        let candidates = self.candidates(self.group.members().len())?;
        let call = |(at, to)| {
            let bell = Bell::new(at, &ready);
            std::task::Wake::wake_by_ref(&bell);
            Some((self.one(Arc::clone(to), self.deadline), bell))
        };
        let calls: Vec<_> = candidates.iter().enumerate().map(call).collect();
        let open = calls.len();
        Ok(Asked { calls, ready, open, woken: Vec::new() })
    }
}

/// Reports one call to the group's load metric, even if the call is given up.
struct Watch {
    common: Arc<Common>,
    id: NodeId,
    since: Instant,
    how: Ended,
}

impl Watch {
    fn begin(common: &Arc<Common>, id: NodeId) -> Self {
        common.sent(id);
        Self { common: Arc::clone(common), id, since: Instant::now(), how: Ended::Withdrawn }
    }

    fn end(mut self, how: Ended) {
        self.how = how;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.common.ended(&self.id, self.since.elapsed(), self.how);
    }
}

/// Calls in progress.
struct Asked {
    calls: Vec<Option<(Asking, Arc<Bell>)>>,
    ready: Arc<Ready>,
    /// The number of calls that have not ended.
    open: usize,
    woken: Vec<usize>,
}

impl Asked {
    /// Waits for the next call that ends. None: all have ended.
    async fn next(&mut self) -> Option<Answered> {
        while self.open > 0 {
            self.woken.extend(self.ready.take());
            while let Some(at) = self.woken.pop() {
                let Some(place) = self.calls.get_mut(at) else { continue };
                let Some((call, bell)) = place else { continue };
                if let Poll::Ready(answer) = bell.poll(|cx| call.as_mut().poll(cx)) {
                    *place = None;
                    self.open -= 1;
                    return Some(answer);
                }
            }
            self.ready.rung.notified().await;
        }
        None
    }
}

impl fmt::Debug for GroupCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupCall").field("group", &self.group).finish_non_exhaustive()
    }
}
