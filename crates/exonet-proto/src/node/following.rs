//! Following messages: see [`crate::follow`].

use super::Node;
use crate::event::Status;
use crate::follow::{Follow, FollowError, FollowerId, Missed, Step};
use crate::id::MessageId;
use crate::message::MessageKey;
use crate::time::Now;

impl Node {
    /// Follows messages step by step, until [`Node::unfollow`]: [`Node::steps`] gives what has happened.
    ///
    /// # Errors
    /// [`FollowError`]: there are too many followers, or the message is not open.
    pub fn follow(&mut self, now: Now, follow: Follow) -> Result<FollowerId, FollowError> {
        let follower = self.begin_to_follow(follow)?;
        self.cx.followers.stamp(now.mono);
        Ok(follower)
    }

    fn begin_to_follow(&mut self, follow: Follow) -> Result<FollowerId, FollowError> {
        match follow {
            Follow::New { peer, most } => self.cx.followers.begin(peer, most),
            Follow::Open(key) => self.follow_open(key),
            Follow::Named(id) if id.sender == self.cx.id => {
                let key = self.find_open(id).ok_or(FollowError::NotOpen)?;
                self.follow_open(key)
            }
            Follow::Named(id) => {
                let follower = self.cx.followers.begin(None, 0)?;
                self.cx.followers.await_named(follower, id);
                Ok(follower)
            }
        }
    }

    fn follow_open(&mut self, key: MessageKey) -> Result<FollowerId, FollowError> {
        let cx = &mut self.cx;
        let letter = cx.store.open(key).ok_or(FollowError::NotOpen)?;
        let peer = self.peers.get(letter.peer).ok_or(FollowError::NotOpen)?.id;
        let follower = cx.followers.begin(None, 0)?;
        cx.followers.take_up(follower, peer, key, letter);
        cx.followers.note_bound(cx.id, &cx.store);
        Ok(follower)
    }

    fn find_open(&self, id: MessageId) -> Option<MessageKey> {
        let named = |status| matches!(status, Status::InDoubt { id: found, .. } if found == id);
        self.open_messages().into_iter().find(|open| named(open.status)).map(|open| open.key)
    }

    /// Puts the steps that the followed messages took since the last call into `steps`, and returns what the follower missed.
    pub fn steps(&mut self, now: Now, follower: FollowerId, steps: &mut Vec<Step>) -> Missed {
        self.cx.followers.take(now.mono, follower, steps)
    }

    /// Ends a follower.
    pub fn unfollow(&mut self, follower: FollowerId) {
        self.cx.followers.end(follower);
    }
}
