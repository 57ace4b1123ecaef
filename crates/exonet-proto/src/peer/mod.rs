//! A peer: everything that one node keeps about another node, as a state machine.
//!
//! # Contract
//!
//! *In.* The contents of datagrams for this peer ([`Peer::on_packet`], [`Peer::on_answer`], [`Peer::on_retry`],
//! [`Peer::take_in`]), time ([`Peer::on_timeout`]), and the requests of the application (`submit`, `abandon`, `consume`, `reply`,
//! `ping`, ...). Each input costs the node one look-up of the peer.
//!
//! *Out.* Datagrams ([`Peer::poll_transmit`], after [`Peer::wind_up`]), the time at which [`Peer::on_timeout`] is next due
//! ([`Peer::next_deadline`]), and whether the peer can be forgotten ([`Peer::is_forgettable`]). Events, outcomes and datagrams
//! outside of a channel are left in the [`Context`], which all peers of the node share.
//!
//! A peer knows no other peer. After every input the node does what the context asks for (`Node::after`), and calls
//! [`Peer::poll_transmit`] once the peer's turn comes.
//!
//! [`Outbound`] and [`Inbound`] hold the promise, and [`Link`] holds none: it may end at any time.

mod bundling;
mod calling;
mod context;
pub(crate) mod dialling;
pub(crate) mod epoch;
pub(crate) mod fates;
mod filling;
mod following;
mod frames;
pub(crate) mod handshake;
pub(crate) mod inbound;
mod journaling;
mod judging;
pub(crate) mod link;
pub(crate) mod outbound;
pub(crate) mod piece;
mod receive;
mod rest;
mod serving;
mod settle;
mod streaming;
mod submit;
mod taking;
mod timeout;
mod transmit;
mod withdrawing;

use core::net::SocketAddr;

use crate::account::Account;
use crate::config::Limits;
use crate::event::{Conflict, Event};
use crate::id::NodeId;
use crate::message::Refusal;
use crate::opening::stamping::{Told, ahead};
use crate::stats::Work;
use crate::time::{Mono, Now, Wall};

pub(crate) use bundling::{Bare, Gather, Lent};
pub(crate) use context::{Context, MAX_LOOSE};
#[cfg(test)]
pub(crate) use filling::write_state;
use inbound::Inbound;
use link::Link;
use outbound::Outbound;
pub(crate) use settle::Fates;
pub(crate) use streaming::Turn;
pub(crate) use transmit::MAX_REMEMBERED;

/// Address hints kept for one peer.
pub(crate) const MAX_HINTS: usize = 8;

/// A peer: the two halves, which hold the promise, and the link, which holds none.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: NodeId,
    /// The peer's place in the node's table. Messages in the store and in the inbox name their peer by it.
    pub(crate) place: u32,
    pub(crate) hints: Vec<SocketAddr>,
    pub(crate) outbound: Outbound,
    pub(crate) inbound: Inbound,
    pub(crate) link: Link,
    /// The policy lets the peer talk, or this node talked to it first.
    pub(crate) admitted: bool,
    /// Two nodes use the peer's identity, or this node's as the peer says: nothing is taken from the peer, and nothing goes to
    /// it.
    pub(crate) conflict: Option<Conflict>,
    /// What the peer has said about its clock and its memory.
    pub(crate) told: Told,
    /// What the driver has said about the peer's datagrams.
    pub(crate) work: Work,
    /// How many messages of the peer the application has taken.
    pub(crate) taken: u64,
    last_train: Option<transmit::Train>,
    /// The journal's number of the peer, and the address that the journal has of it.
    journaled: Option<(u32, Option<SocketAddr>)>,
}

/// The standing by which a node counts its peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The peer has a sender record.
    pub(crate) sender: bool,
    /// The peer has a receiver record.
    pub(crate) receiver: bool,
    /// There is something to tell the peer, or something is owed to it.
    pub(crate) busy: bool,
}

impl Peer {
    /// Drops the pings that have not left, and returns the events that report them.
    pub(crate) fn lose_pings(&mut self, refused: Option<Refusal>) -> impl Iterator<Item = Event> {
        let peer = self.id;
        self.link.pings.drain(..).map(move |cookie| Event::Pong { peer, cookie, rtt: None, refused })
    }

    /// A peer of which nothing is known, at `place` in the node's table.
    pub(crate) fn new(id: NodeId, place: u32, now: Mono, cx: &Context) -> Self {
        let mut outbound = Outbound::new(now, cx.journal.is_forced());
        if let Some(own) = &cx.config.parts.scheduler {
            outbound.set_scheduler(now, own.make());
        }
        Self {
            place,
            id,
            hints: Vec::new(),
            outbound,
            inbound: Inbound::new(now),
            link: Link::new(now, &cx.config),
            admitted: false,
            conflict: None,
            told: Told::default(),
            journaled: None,
            work: Work::default(),
            taken: 0,
            last_train: None,
        }
    }

    /// The present standing.
    pub(crate) fn standing(&self) -> Standing {
        let Self { outbound, inbound, .. } = self;
        Standing {
            sender: outbound.sender.is_some(),
            receiver: inbound.receiver.is_some(),
            busy: !outbound.is_silent()
                || inbound.state_owed()
                || !inbound.unsaid.is_empty()
                || inbound.verdicts.are_untold()
                || !inbound.server.is_empty(),
        }
    }

    /// Adds an address at which the peer may be. The latest is tried first.
    pub(crate) fn add_hint(&mut self, address: SocketAddr) {
        if self.hints.first() == Some(&address) {
            return;
        }
        self.hints.retain(|known| *known != address);
        self.hints.insert(0, address);
        self.hints.truncate(MAX_HINTS);
    }

    /// The peer's clock shows `theirs`. Zero says nothing.
    pub(crate) fn note_time(&mut self, ours: Wall, theirs: Wall) {
        if theirs.0 > 0 {
            self.told.ahead = Some(ahead(ours, theirs));
        }
    }

    pub(crate) fn has_room(&self, limits: &Limits) -> bool {
        let out = &self.outbound;
        out.letters == 0 || (out.letters < limits.queued_messages && out.kept() < limits.queued_bytes as u64)
    }

    /// How many bytes the queue takes until it is full.
    pub(crate) fn bytes_left(&self, limits: &Limits) -> u64 {
        let out = &self.outbound;
        (limits.queued_bytes as u64).saturating_sub(out.kept()).max(u64::from(out.letters == 0))
    }

    /// Whether an address is known to which an opening could go.
    pub(crate) fn has_address(&self) -> bool {
        self.link.proven().is_some() || !self.hints.is_empty()
    }

    /// Whether there is something to send that needs keys.
    pub(crate) fn wants_channel(&self, now: Mono) -> bool {
        // A STATE without a record is worth an answer, but not a channel: a peer that misses it asks again.
        let reminds = self.inbound.receiver.is_some() && self.inbound.state_due(now);
        self.outbound.wants_channel() || reminds || !self.link.pings.is_empty()
    }

    /// When the passing of time next changes something. This never lies in the past for want of keys.
    pub(crate) fn next_deadline(&self, cx: &Context) -> Mono {
        let (config, linger) = (&cx.config, cx.linger());
        let connected = self.link.is_connected();
        let inbound = self.inbound.deadline(config, connected, self.link.ride_until);
        let halves = self.outbound.deadline(linger, connected).min(inbound);
        halves.min(self.streams_until(config)).min(self.link.deadline(config))
    }

    /// Whether nothing is known of the peer that anything could miss.
    pub(crate) fn is_forgettable(&self) -> bool {
        let in_streams = !self.outbound.writers.is_empty() || !self.inbound.readers.is_empty();
        let idle = self.outbound.is_empty() && self.inbound.is_empty(self.link.is_connected());
        idle && !in_streams && self.link.is_gone()
    }

    // --- time, and endings ---

    /// Time has passed. The node calls this at the peer's deadline at the latest.
    pub(crate) fn on_timeout(&mut self, cx: &mut Context, now: Now) {
        self.link_timeout(cx, now);
        let wait = self.link.pto() * 2;
        self.outbound.on_timeout(now.mono, &cx.store, wait, self.link.patience());
        self.close_if_idle(cx, now);
        let caller = self.inbound.is_callers();
        if self.inbound.on_timeout(now.mono, &mut cx.clock, &cx.config) {
            cx.stats.evictions += 1;
            cx.stats.callers_evicted += u64::from(caller);
        }
        self.replies_timeout(cx, now);
        self.forget_streams(cx, now.mono);
    }

    /// Ends what is due to end at the peer.
    pub(crate) fn wind_up(&mut self, cx: &mut Context, now: Now) {
        self.doubt(cx, now);
        self.keep_apart(cx, now);
        self.close_if_idle(cx, now);
        if self.inbound.drop_if_passed() && cx.inbox.is_empty() {
            cx.arena.rest();
            cx.store.rest();
        }
        self.journal_record(cx);
        self.account(cx);
        self.answer_held(cx, now);
    }

    /// Closes a sender record that has had nothing to send for long enough, and tells the peer. A node that closes does not tell
    /// a peer that it has never heard, since there may be no peer.
    fn close_if_idle(&mut self, cx: &mut Context, now: Now) {
        let linger = cx.linger();
        self.outbound.close_if_idle(now.mono, &mut cx.clock, linger);
        self.outbound.farewell_due &= !cx.closing || self.link.has_heard();
    }

    /// Gives back the memory that partly received messages hold no longer, and tells their readers.
    pub(crate) fn account(&mut self, cx: &mut Context) {
        cx.received.give_back(self.inbound.take_freed());
        for key in self.inbound.aborted.drain(..) {
            cx.events.push_back(Event::BodyReadable { key });
        }
        cx.inbox.note_stale(self.inbound.take_stale());
    }

    /// A write is on the disk: what waited for it goes on.
    pub(crate) fn on_persisted(&mut self, cx: &mut Context, now: Now) {
        self.inbound.retry(now.mono, &mut cx.clock, &cx.config.limits);
        self.outbound.ask_due |= self.outbound.unbound() > 0;
    }

    /// The node ends: nothing more is taken from the peer.
    pub(crate) fn finish(&mut self, cx: &mut Context, now: Now) {
        let wait = self.link.is_connected().then(|| self.link.pto() * 2);
        self.inbound.close(now.mono, wait);
        cx.inbox.note_stale(self.inbound.take_stale());
        self.on_timeout(cx, now);
        self.account(cx);
    }

    /// Whether the peer holds nothing that this node could lose and is not connected, so that it may make room for another.
    pub(crate) fn makes_room(&self) -> bool {
        let idle = self.link.current.is_none() && self.link.previous.is_none();
        let busy = self.outbound.letters > 0 || self.inbound.server.computes();
        idle && !busy && self.link.pings.is_empty()
    }

    /// Makes room for another peer. The messages that this peer had in doubt here end Unknown at the peer.
    pub(crate) fn evict(&mut self, cx: &mut Context, now: Now) {
        cx.stats.evictions += u64::from(self.inbound.renounce(&mut cx.clock));
        self.outbound.drop_record(&mut cx.clock);
        self.end_link(cx, now);
    }

    /// Measures the round trip to the peer.
    pub(crate) fn ping(&mut self, cx: &mut Context, cookie: u64) {
        if !self.link.ping(cookie) {
            cx.events.push_back(Event::Pong { peer: self.id, cookie, rtt: None, refused: None });
        }
    }
}
