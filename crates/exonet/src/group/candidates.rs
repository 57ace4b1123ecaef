//! The members of a group in the order in which one message chooses them.

use std::sync::Arc;

use exonet_proto::NodeId;

use crate::group::choice::Ranking;
use crate::peer_addr::PeerAddr;

/// The members of a group. A message keeps the list as it was when the message was sent, and shares it with others.
pub(super) type Roster = Arc<Vec<Arc<PeerAddr>>>;

/// The members, each at its place in the order of one message. See [`Ranking`].
pub(super) struct Candidates {
    roster: Roster,
    ranking: Ranking,
}

impl Candidates {
    pub(super) fn new(roster: &Roster, ranking: Ranking) -> Self {
        Self { roster: Arc::clone(roster), ranking }
    }

    pub(super) fn len(&self) -> usize {
        self.roster.len()
    }

    pub(super) fn get(&self, place: usize) -> Option<&Arc<PeerAddr>> {
        self.roster.get(self.ranking.member_at(place)?)
    }

    pub(super) fn place_of(&self, id: &NodeId) -> Option<usize> {
        let member = self.roster.iter().position(|member| member.id == *id)?;
        Some(self.ranking.place_of(member))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<PeerAddr>> {
        self.ranking.iter().filter_map(|member| self.roster.get(member))
    }
}
