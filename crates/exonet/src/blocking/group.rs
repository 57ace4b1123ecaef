//! Groups, and streams to them, for threads that block.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::NodeId;

use super::StreamReceiver;
use super::runtime::Runtime;
use crate::Priority;
use crate::error::GroupError;
use crate::group::{self, Departure, MemberLine, Mode, Remove, Verdict, WhenFull};
use crate::send::message::Message;

/// Peers to which messages are sent together: see [`group::Group`]. [`Node::group`](super::Node::group) makes it.
#[derive(Clone)]
pub struct Group {
    group: group::Group,
    runtime: Arc<Runtime>,
}

impl Group {
    pub(super) fn new(group: group::Group, runtime: &Arc<Runtime>) -> Self {
        Self { group, runtime: Arc::clone(runtime) }
    }

    /// The async group, for its methods that do not wait, such as those that change its members.
    pub const fn get_ref(&self) -> &group::Group {
        &self.group
    }

    /// Sends a message to the current members: see [`group::Group::send`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn send(&self, mode: Mode, message: impl Into<Message>) -> Result<GroupReceipt, GroupError> {
        let receipt = self.runtime.wait(self.group.send(mode, message))?;
        Ok(GroupReceipt { receipt, runtime: Arc::clone(&self.runtime) })
    }

    /// Makes a stream to the current members: see [`group::Group::stream`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn stream(&self, name: impl Into<Bytes>) -> Result<GroupStream, GroupError> {
        let stream = self.runtime.wait(async { self.group.stream(name) })?;
        Ok(GroupStream { stream, runtime: Arc::clone(&self.runtime) })
    }
}

/// The receipt of a message to a group: see [`group::GroupReceipt`].
#[must_use = "a receipt says what became of the message; drop it only if that does not matter"]
pub struct GroupReceipt {
    receipt: group::GroupReceipt,
    runtime: Arc<Runtime>,
}

impl GroupReceipt {
    /// The async receipt, for its methods that do not wait.
    pub const fn get_ref(&self) -> &group::GroupReceipt {
        &self.receipt
    }

    /// Waits for the verdict.
    pub fn decided(&mut self) -> Verdict {
        self.runtime.wait(self.receipt.decided())
    }

    /// Waits for the verdict, for `timeout` at most. None: there is no verdict yet.
    pub fn decided_timeout(&mut self, timeout: Duration) -> Option<Verdict> {
        self.runtime.wait_for(timeout, self.receipt.decided())
    }

    /// Waits until the message has ended at every chosen member, and returns the final table: see
    /// [`group::GroupReceipt::ended`].
    pub fn ended(&mut self) -> Vec<MemberLine> {
        self.runtime.wait(self.receipt.ended())
    }

    /// Like [`Self::ended`], but waits for `timeout` at most. None: some copy is still open.
    pub fn ended_timeout(&mut self, timeout: Duration) -> Option<Vec<MemberLine>> {
        self.runtime.wait_for(timeout, self.receipt.ended())
    }
}

/// A stream to the members of a group: see [`group::GroupStream`].
#[derive(Clone)]
pub struct GroupStream {
    stream: group::GroupStream,
    runtime: Arc<Runtime>,
}

impl GroupStream {
    /// The async stream, for its methods that do not wait: `try_send`, `add`, `backlog`.
    pub const fn get_ref(&self) -> &group::GroupStream {
        &self.stream
    }

    /// The priority of its messages: see [`group::GroupStream::priority`].
    #[must_use]
    pub fn priority(self, priority: Priority) -> Self {
        Self { stream: self.stream.priority(priority), runtime: self.runtime }
    }

    /// How many messages of the stream may be open at a member: see [`group::GroupStream::queue`].
    #[must_use]
    pub fn queue(self, most: usize) -> Self {
        Self { stream: self.stream.queue(most), runtime: self.runtime }
    }

    /// What happens to a member that has reached this limit: see [`group::GroupStream::when_full`].
    #[must_use]
    pub fn when_full(self, when_full: WhenFull) -> Self {
        Self { stream: self.stream.when_full(when_full), runtime: self.runtime }
    }

    /// The members that are in the stream now.
    pub fn members(&self) -> Vec<NodeId> {
        self.stream.members()
    }

    /// Removes a member from this stream only: see [`group::GroupStream::remove`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn remove(&self, member: &NodeId, how: Remove) -> Result<(), GroupError> {
        self.stream.remove(member, how)
    }

    /// Sends a message to all members of the stream: see [`group::GroupStream::send`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn send(&self, mode: Mode, message: impl Into<Message>) -> Result<GroupReceipt, GroupError> {
        let receipt = self.runtime.wait(self.stream.send(mode, message))?;
        Ok(self.told(receipt))
    }

    /// Waits until a member leaves the stream before its end: see [`group::GroupStream::departed`].
    pub fn departed(&self) -> Option<Departure> {
        self.runtime.wait(self.stream.departed())
    }

    /// Like [`Self::departed`], but waits for `timeout` at most. None: no member has left; `Some(None)`: the stream
    /// has ended.
    pub fn departed_timeout(&self, timeout: Duration) -> Option<Option<Departure>> {
        self.runtime.wait_for(timeout, self.stream.departed())
    }

    /// Receives the messages of a member under the name of the stream: see [`group::GroupStream::answers`].
    pub fn answers(&self, member: &NodeId) -> Option<StreamReceiver> {
        self.stream.answers(member).map(|receiver| StreamReceiver::new(receiver, &self.runtime))
    }

    /// Ends the stream at every member, after everything that was sent: see [`group::GroupStream::close`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn close(&self) -> Result<GroupReceipt, GroupError> {
        self.runtime.wait(self.stream.close()).map(|receipt| self.told(receipt))
    }

    /// Ends the stream at every member by a reset: see [`group::GroupStream::reset`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn reset(&self) -> Result<GroupReceipt, GroupError> {
        self.runtime.wait(self.stream.reset()).map(|receipt| self.told(receipt))
    }

    fn told(&self, receipt: group::GroupReceipt) -> GroupReceipt {
        GroupReceipt { receipt, runtime: Arc::clone(&self.runtime) }
    }
}

debugs!(Group.group, GroupReceipt.receipt, GroupStream.stream);
