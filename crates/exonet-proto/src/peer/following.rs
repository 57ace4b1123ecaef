//! Reports about a peer's messages to followers: see [`crate::follow`]. Nothing here changes anything else.

use core::net::SocketAddr;

use bytes::Bytes;

use super::epoch::{Carried as Item, Epoch};
use super::{Context, Peer};
use crate::channel::Fate;
use crate::channel::path::Pipe;
use crate::follow::{Again, Carried, Carrier, Coming, Kind, Packet, What};
use crate::id::{Incarnation, MessageId, Slot};
use crate::message::{MessageKey, Outcome};
use crate::wire::{Entries, Head, Role};

/// The messages to the peer at `place` that an item of a packet carries.
fn carried(place: u32, item: Item) -> Option<Carried> {
    match item {
        Item::Messages { s, n, .. } => {
            Some(Carried { place, slots: s.0..s.0.saturating_add(n.into()), bytes: None })
        }
        Item::Fragment { s, offset, len, .. } => {
            let bytes = Some(offset..offset.saturating_add(len.into()));
            Some(Carried { place, slots: s.0..s.0.saturating_add(1), bytes })
        }
        _ => None,
    }
}

const fn by(pipe: Option<Pipe>) -> Carrier {
    if pipe.is_some() { Carrier::Pipe } else { Carrier::Datagram }
}

impl Context {
    /// `count` messages from `key` on have been accepted.
    pub(super) fn follow_accepted(&mut self, peer: &Peer, key: MessageKey, count: u32) {
        if self.followers.any()
            && let Some(letter) = self.store.get(key)
        {
            self.followers.accepted(peer.id, key, count, letter);
        }
    }

    /// Reports the messages that were bound since the last call.
    pub(super) fn follow_bound(&mut self) {
        if self.followers.any() {
            self.followers.note_bound(self.id, &self.store);
        }
    }

    /// Something has happened to a message of this node.
    pub(super) fn follow_sent(&mut self, key: MessageKey, what: What, last: bool) {
        if self.followers.any() {
            self.followers.sent(key, 1, |_| what.clone(), last);
        }
    }

    /// `count` messages from `key` on have their outcome, the first of them under the name `id`.
    pub(super) fn follow_settled(
        &mut self,
        key: MessageKey,
        count: u32,
        (outcome, late): (Outcome, bool),
        id: Option<MessageId>,
    ) {
        if self.followers.any() {
            let id = |n: u32| id.map(|id| MessageId { s: Slot(id.s.0.saturating_add(n.into())), ..id });
            let what = |n| What::Settled { outcome, late, id: id(n) };
            self.followers.sent(key, count, what, true);
        }
    }

    /// Something has happened to received messages.
    pub(crate) fn follow_came(&mut self, first: MessageId, count: u64, what: What, last: bool) {
        if self.followers.any() {
            self.followers.came(first, count, &what, last);
        }
    }

    /// A message with this head waits for the application. Replies do not wait for it.
    pub(super) fn follow_head(&mut self, id: MessageId, (head, role): (&Head<'_>, Role), size: Option<u64>) {
        if self.followers.any() && !matches!(role, Role::Reply { .. }) {
            let (tag, kind) = (Bytes::copy_from_slice(head.tag), Kind::of(role));
            self.followers.arrived(&Coming { id, size, tag, kind });
        }
    }

    /// Whole messages of the sender and record of `first` have found room.
    pub(super) fn follow_entries(&mut self, first: MessageId, entries: Entries<'_>) {
        if !self.followers.any() {
            return;
        }
        let mut before: Option<Head<'_>> = None;
        for (s, message) in entries {
            let read = Head::parse_behind(before.as_ref(), message).ok();
            before = read.map(|(head, _)| head);
            let Some((head, at)) = read else { continue };
            if let Ok(role) = Role::of(&head) {
                let size = message.len().saturating_sub(at) as u64;
                self.follow_head(MessageId { s, ..first }, (&head, role), Some(size));
            }
        }
    }
}

impl Peer {
    /// A packet leaves that carries these items.
    pub(super) fn follow_packet(&self, cx: &mut Context, number: u64, items: impl Iterator<Item = Item>) {
        let Some(path) = self.link.roaming.as_ref().map(|roaming| roaming.active().addr()) else { return };
        cx.follow_bound();
        let packet = Packet { number: Some(number), to: path.remote, by: by(path.pipe) };
        for item in items {
            if item == Item::Early {
                self.follow_early(cx, packet);
            } else if let Some(carried) = carried(self.place, item) {
                cx.followers.left(&cx.store, &carried, packet, Again::Missing);
            }
        }
    }

    /// An opening leaves.
    pub(super) fn follow_opening(&self, cx: &mut Context, to: SocketAddr, pipe: Option<Pipe>) {
        if cx.followers.any() {
            cx.follow_bound();
            self.follow_early(cx, Packet { number: None, to, by: by(pipe) });
        }
    }

    /// The early messages leave beside an opening, or in place of one.
    fn follow_early(&self, cx: &mut Context, packet: Packet) {
        let sender = self.outbound.sender.as_ref();
        for (s, _) in sender.into_iter().flat_map(|sender| sender.early()) {
            let carried = Carried { place: self.place, slots: s.0..s.0.saturating_add(1), bytes: None };
            cx.followers.left(&cx.store, &carried, packet, Again::Unanswered);
        }
    }

    /// The channel reports the fates of what packets carried.
    pub(super) fn follow_fates(&self, cx: &mut Context, fates: &[(Item, Fate)]) {
        if !cx.followers.any() {
            return;
        }
        for (item, fate) in fates {
            let Some(carried) = carried(self.place, *item) else { continue };
            let (what, again) = match fate {
                Fate::Acked | Fate::Late => (What::Acknowledged, None),
                Fate::Lost => (What::Lost, Some(Again::Lost)),
                Fate::Gone => (What::ChannelEnded, Some(Again::ChannelEnded)),
            };
            if let Some(why) = again {
                cx.followers.again(&carried, why);
            }
            cx.followers.fate(&carried, &what);
        }
    }

    /// Packets under way leave again for a reason other than loss: packet `number`, or if there is no number, the oldest packets
    /// that nothing has acknowledged.
    pub(super) fn follow_copies(&self, cx: &mut Context, epoch: &Epoch, number: Option<u64>, why: Again) {
        if !cx.followers.any() {
            return;
        }
        let one = number.and_then(|number| epoch.sent.still_out(number)).map(|(_, items)| items);
        let all = epoch.sent.outstanding().filter(|_| number.is_none()).flatten();
        for item in one.into_iter().flatten().chain(all) {
            if let Some(carried) = carried(self.place, item) {
                cx.followers.again(&carried, why);
            }
        }
    }

    /// Something has happened to messages of the peer under the record `r`.
    pub(super) fn follow_slots(
        &self,
        cx: &mut Context,
        r: Incarnation,
        s: Slot,
        n: u64,
        what: What,
        last: bool,
    ) {
        cx.follow_came(MessageId { sender: self.id, r, s }, n, what, last);
    }

    /// The application has answered a call.
    pub(super) fn follow_call(&self, cx: &mut Context, s: Slot, status: u32) {
        if let Some(record) = self.inbound.receiver.as_ref() {
            self.follow_slots(cx, record.incarnation(), s, 1, What::Answered { status }, true);
        }
    }
}
