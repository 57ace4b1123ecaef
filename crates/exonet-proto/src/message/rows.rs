//! Messages of streams that wait for the application: a row for each stream, in the order of their slots, which is theirs.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::arrived::Arrived;
use crate::id::Slot;

/// The rows of all peers, by peer and by the name of the stream.
#[derive(Debug, Default)]
pub(crate) struct Rows(BTreeMap<(u32, Bytes), Row>);

#[derive(Debug, Default)]
struct Row {
    waiting: BTreeMap<Slot, Arrived>,
    /// The application has been told that the first can be taken.
    said: bool,
}

impl Rows {
    pub(super) fn push(&mut self, arrived: Arrived) {
        let row = self.0.entry((arrived.peer, arrived.tag.clone())).or_default();
        row.waiting.insert(arrived.id.s, arrived);
    }

    /// The first message of a stream.
    pub(super) fn first(&self, peer: u32, name: &Bytes) -> Option<&Arrived> {
        self.0.get(&(peer, name.clone()))?.waiting.values().next()
    }

    /// The first message of a stream, if the application has not been told that there is one.
    pub(super) fn untold(&self, peer: u32, name: &Bytes) -> Option<&Arrived> {
        self.0.get(&(peer, name.clone())).filter(|row| !row.said)?.waiting.values().next()
    }

    /// Whether the application has been told of the first message of a stream.
    pub(super) fn say(&mut self, peer: u32, name: &Bytes, said: bool) {
        if let Some(row) = self.0.get_mut(&(peer, name.clone())) {
            row.said = said;
        }
    }

    pub(super) fn pop(&mut self, peer: u32, name: &Bytes) -> Option<Arrived> {
        self.take(peer, name, |waiting| waiting.pop_first())
    }

    pub(super) fn pop_last(&mut self, peer: u32, name: &Bytes) -> Option<Arrived> {
        self.take(peer, name, |waiting| waiting.pop_last())
    }

    fn take(
        &mut self,
        peer: u32,
        name: &Bytes,
        take: impl FnOnce(&mut BTreeMap<Slot, Arrived>) -> Option<(Slot, Arrived)>,
    ) -> Option<Arrived> {
        let at = (peer, name.clone());
        let row = self.0.get_mut(&at)?;
        let (_, arrived) = take(&mut row.waiting)?;
        if row.waiting.is_empty() {
            self.0.remove(&at);
        }
        Some(arrived)
    }

    /// The streams of a peer of which messages wait.
    pub(super) fn names(&self, peer: u32) -> impl Iterator<Item = &Bytes> {
        let its = (peer, Bytes::new())..(peer.saturating_add(1), Bytes::new());
        self.0.range(its).map(|((_, name), _)| name)
    }

    /// Takes out what is not to be `kept`.
    pub(super) fn sweep(&mut self, kept: impl Fn(&Arrived) -> bool) -> Vec<Arrived> {
        let mut gone = Vec::new();
        self.0.retain(|_, row| {
            let waiting = core::mem::take(&mut row.waiting);
            let (stays, goes): (BTreeMap<_, _>, BTreeMap<_, _>) =
                waiting.into_iter().partition(|(_, arrived)| kept(arrived));
            row.waiting = stays;
            gone.extend(goes.into_values());
            !row.waiting.is_empty()
        });
        gone
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arrived> {
        self.0.values().flat_map(|row| row.waiting.values())
    }
}
