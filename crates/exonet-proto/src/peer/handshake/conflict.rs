//! Two nodes with one identity: both are told, and nothing is promised from then on (PROTOCOL.md "Two nodes of one identity").

use crate::event::{Arrival, Conflict, Event};
use crate::peer::epoch::Epoch;
use crate::peer::{Context, Peer};
use crate::time::Now;
use crate::wire::{self, Params};

/// Codes of a CLOSE: another node has the identity of the reader, or of the writer.
pub(in crate::peer) const YOURS_TWICE: u64 = 8;
pub(in crate::peer) const MINE_TWICE: u64 = 9;
/// The identity of the reader has moved on: the writer has met a later generation of it.
pub(in crate::peer) const YOURS_MOVED: u64 = 10;
/// Room for the packet of a CLOSE.
const WORD: usize = 64;

impl Peer {
    /// Whether to ignore what an opening says, since another node has, or may have, the identity of its sender. The keys of that
    /// sender have to show first that the opening is fresh.
    pub(super) fn is_odd(&self, theirs: &Params) -> bool {
        self.conflict.is_some() || self.link.lives.is_odd(theirs)
    }

    /// Two nodes use the peer's identity, or two use this node's. This node tells every process with which it shares keys,
    /// including the one behind `last`. It tells a process again that opens again.
    pub(in crate::peer) fn part(
        &mut self,
        cx: &mut Context,
        now: Now,
        whose: Conflict,
        last: Option<(Epoch, Arrival)>,
    ) {
        let id = self.id;
        // The first verdict on the conflict stays.
        let whose = *self.conflict.get_or_insert(whose);
        let code = match whose {
            Conflict::Theirs => YOURS_TWICE,
            Conflict::Ours => MINE_TWICE,
            // The peer knows where this identity is now.
            Conflict::Moved => wire::close::DONE,
        };
        let mut words = Vec::new();
        let says = |epoch: &mut Epoch| {
            let mut word = Vec::new();
            let said = epoch.seal(&mut word, WORD, |_, writer| {
                writer.close(code);
            });
            said.map(|_| word)
        };
        let answers = last.is_some();
        if let Some((mut epoch, from)) = last {
            cx.routes.remove(&epoch.index.0);
            words.extend(says(&mut epoch).map(|word| (from, word)));
        }
        if let Some(path) = self.link.proven().filter(|_| answers) {
            let to = Arrival { remote: path.remote, local_ip: path.local, ecn: 0, pipe: path.pipe };
            let previous = self.link.previous.as_mut().map(|(epoch, _)| epoch);
            for epoch in self.link.current.as_mut().into_iter().chain(previous) {
                words.extend(says(epoch).map(|word| (to, word)));
            }
        }
        for (to, word) in words {
            cx.push_loose(to, word.into());
        }
        self.end_link(cx, now);
        if cx.conflicts.insert(id, whose) {
            cx.events.push_back(Event::IdentityConflict { peer: id, whose });
        }
        self.keep_apart(cx, now);
    }

    /// The peer is elsewhere by now. The process that it left behind is told so, and nothing else.
    pub(super) fn send_away(&mut self, cx: &mut Context, mut epoch: Epoch, from: Arrival) {
        let mut word = Vec::new();
        let said = epoch.seal(&mut word, WORD, |_, writer| {
            writer.close(YOURS_MOVED);
        });
        cx.routes.remove(&epoch.index.0);
        if said.is_some() {
            cx.push_loose(from, word.into());
        }
    }

    /// An opening of the peer says that the peer has met a later generation of this node. This is as if the peer had said so by a
    /// CLOSE: only the holder of its key can write an opening, and an old opening is as true as a new one.
    pub(crate) fn hear_of_later(&mut self, cx: &mut Context, now: Now) {
        if self.conflict.is_none() {
            self.part(cx, now, Conflict::Moved, None);
        }
    }

    /// Nothing is sent to a node whose identity another node also has, and no STATE covers what came from it: numbers that both
    /// nodes use prove nothing.
    pub(in crate::peer) fn keep_apart(&mut self, cx: &mut Context, now: Now) {
        if self.conflict.is_none() {
            return;
        }
        cx.events.extend(self.lose_pings(None));
        cx.stats.evictions += u64::from(self.inbound.renounce(&mut cx.clock));
        if self.outbound.has_messages() {
            self.abandon_all(cx, now);
        }
        self.forget_replies(cx, now);
        self.outbound.part(&mut cx.clock);
    }
}
