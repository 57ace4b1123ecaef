//! Lanes: messages of one lane wait for one another, and for no others (PROTOCOL.md "Lanes").

use std::collections::BTreeMap;

use bytes::Bytes;

use super::arrived::ARRIVED;
use crate::account::Account;
use crate::wire::Role;

/// The lane of a message, as its head determines it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Messages that are neither calls nor replies.
    Plain,
    /// Replies that are too long for a frame. The caller's node takes them as they come.
    Replies,
    /// The calls of this method.
    Method(Bytes),
    /// The stream of this name.
    Stream(Bytes),
}

impl Lane {
    pub(crate) fn of(role: Role, tag: &Bytes) -> Self {
        match role {
            Role::Plain => Self::Plain,
            Role::Reply { .. } => Self::Replies,
            Role::Call => Self::Method(tag.clone()),
            Role::Stream(_) => Self::Stream(tag.clone()),
        }
    }
}

/// The sender's number for the lane of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneKey(pub(crate) u32);

impl LaneKey {
    /// The lane of plain messages.
    pub(crate) const PLAIN: Self = Self(0);
}

/// How much a receiver lets the lanes of one peer hold, except the lane of plain messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneLimits {
    /// Bytes that each lane may hold.
    pub(crate) window: u64,
    /// Bytes that all lanes together may hold beyond that.
    pub(crate) pool: u64,
    /// How many lanes may hold something.
    pub(crate) lanes: u64,
}

impl LaneLimits {
    /// None if the window is zero: there are no lanes.
    pub(crate) const fn new(window: u64, pool: u64, lanes: u64) -> Option<Self> {
        // There is at least one lane, or nothing could go into any.
        let lanes = if lanes == 0 { 1 } else { lanes };
        if window == 0 { None } else { Some(Self { window, pool, lanes }) }
    }
}

/// Pooled messages of one lane, and their bytes in wire form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl Load {
    #[inline]
    pub(crate) const fn one(bytes: u64) -> Self {
        Self { messages: 1, bytes }
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.messages == 0
    }

    #[inline]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(other.messages),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// The bytes that count against a window.
    #[inline]
    pub(crate) fn open(self) -> u64 {
        self.bytes.saturating_add(self.messages.saturating_mul(ARRIVED))
    }

    /// The bytes beyond the window that every lane has. A lone message needs no share.
    pub(crate) fn share(self, window: u64) -> u64 {
        if self.messages < 2 { 0 } else { self.open().saturating_sub(window) }
    }
}

impl Account for Load {
    #[inline]
    fn give_back(&mut self, amount: Self) {
        self.messages.give_back(amount.messages);
        self.bytes.give_back(amount.bytes);
    }
}

/// The pooled messages of one peer that a receiver holds.
#[derive(Debug, Default)]
pub(crate) struct Held {
    plain: Load,
    /// Messages whose head is not there yet.
    headless: Load,
    /// What the other lanes hold; none of them is empty.
    apart: BTreeMap<Lane, Load>,
    /// The bytes of everything in `apart`.
    apart_bytes: u64,
    /// The sum of the shares in `apart`.
    shares: u64,
    /// None: the lanes share one pool, as far as this peer knows.
    limits: Option<LaneLimits>,
}

impl Held {
    /// Sets the limits of lanes; None unless both ends know lanes.
    pub(crate) fn set_limits(&mut self, limits: Option<LaneLimits>) {
        self.limits = limits;
        self.shares = self.recount();
    }

    pub(crate) const fn limits(&self) -> Option<LaneLimits> {
        self.limits
    }

    /// Bytes in wire form.
    pub(crate) const fn bytes(&self) -> u64 {
        self.plain.bytes + self.headless.bytes + self.apart_bytes
    }

    /// Whether `load` of a lane, or without a head, finds room beside what is held.
    #[inline]
    pub(crate) fn takes(&self, lane: Option<&Lane>, load: Load, pool_window: u64) -> bool {
        let Some(limits) = self.limits else {
            return self.bytes().saturating_add(load.bytes) <= pool_window;
        };
        match lane {
            None => within(self.headless, load, pool_window),
            Some(Lane::Plain) => within(self.plain, load, pool_window),
            Some(lane) => self.takes_apart(limits, lane, load),
        }
    }

    fn takes_apart(&self, limits: LaneLimits, lane: &Lane, load: Load) -> bool {
        let before = self.apart.get(lane).copied().unwrap_or_default();
        let shares = self.shares - before.share(limits.window);
        let fits = shares.saturating_add(before.with(load).share(limits.window)) <= limits.pool;
        fits && (!before.is_empty() || (self.apart.len() as u64) < limits.lanes)
    }

    #[inline]
    pub(crate) fn add(&mut self, lane: Option<&Lane>, load: Load) {
        match lane {
            None => self.headless = self.headless.with(load),
            Some(Lane::Plain) => self.plain = self.plain.with(load),
            Some(lane) => self.add_apart(lane, load),
        }
    }

    fn add_apart(&mut self, lane: &Lane, load: Load) {
        let window = self.window();
        let held = self.apart.entry(lane.clone()).or_default();
        let before = held.share(window);
        *held = held.with(load);
        self.shares += held.share(window) - before;
        self.apart_bytes += load.bytes;
    }

    #[inline]
    pub(crate) fn give_back(&mut self, lane: Option<&Lane>, load: Load) {
        match lane {
            None => self.headless.give_back(load),
            Some(Lane::Plain) => self.plain.give_back(load),
            Some(lane) => self.give_back_apart(lane, load),
        }
    }

    fn give_back_apart(&mut self, lane: &Lane, load: Load) {
        let window = self.window();
        let Some(held) = self.apart.get_mut(lane) else { return };
        let before = held.share(window);
        held.give_back(load);
        self.shares.give_back(before - held.share(window));
        self.apart_bytes.give_back(load.bytes);
        if held.is_empty() {
            self.apart.remove(lane);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self { limits: self.limits, ..Self::default() };
    }

    /// The fullest lane, if it holds more than `lane` would hold with `load`.
    pub(crate) fn fuller(&self, lane: &Lane, load: Load) -> Option<Lane> {
        let own = |(name, _): &(Option<&Lane>, Load)| *name == Some(lane);
        let before = self.each().find(own).map_or(Load::default(), |(_, load)| load);
        let lanes = self.each().filter_map(|(name, load)| Some((name?, load.open())));
        let (fullest, most) = lanes.max_by_key(|(_, open)| *open)?;
        (self.limits.is_some() && most > before.with(load).open()).then(|| fullest.clone())
    }

    /// What each lane holds, and what is held of messages without a head.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Option<&Lane>, Load)> {
        let own = [(None, self.headless), (Some(&Lane::Plain), self.plain)];
        let own = own.into_iter().filter(|(_, load)| !load.is_empty());
        own.chain(self.apart.iter().map(|(lane, load)| (Some(lane), *load)))
    }

    /// The shares in use: the running count and a fresh one.
    pub(crate) fn shares(&self) -> (u64, u64) {
        (self.shares, self.recount())
    }

    fn recount(&self) -> u64 {
        self.apart.values().map(|load| load.share(self.window())).sum()
    }

    fn window(&self) -> u64 {
        self.limits.map_or(0, |limits| limits.window)
    }
}

/// Whether `load` finds room in a window. An empty window always takes one message.
#[inline]
pub(crate) fn within(held: Load, load: Load, window: u64) -> bool {
    held.with(load).open() <= window || (held.messages == 0 && load.messages == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 65_536;

    fn method(name: &'static str) -> Lane {
        Lane::Method(name.into())
    }

    fn laned(window: u64, pool: u64, lanes: u64) -> Held {
        let mut held = Held::default();
        held.set_limits(LaneLimits::new(window, pool, lanes));
        held
    }

    /// Puts messages of this length in until there is no room. Returns how many went in.
    fn fill(held: &mut Held, lane: &Lane, len: u64) -> usize {
        let one = Load::one(len);
        let goes = |held: &Held| held.takes(Some(lane), one, WINDOW);
        (0..10_000).take_while(|_| goes(held) && (held.add(Some(lane), one), true).1).count()
    }

    #[test]
    fn a_lane_that_is_full_keeps_none_out_of_others() {
        let mut held = laned(1_000, 3_000, 3);
        assert_eq!(fill(&mut held, &method("a"), 90), 16, "250 bytes each");
        assert_eq!(fill(&mut held, &method("b"), 90), 4, "no more is shared");
        assert_eq!(fill(&mut held, &Lane::Plain, 90), 262);
        assert_eq!(fill(&mut held, &Lane::Replies, 65_536), 1, "an empty one takes anything");
        assert_eq!(fill(&mut held, &method("c"), 1), 0, "lanes are bounded");
        assert_eq!(held.shares(), (3_000, 3_000));
        held.give_back(Some(&method("a")), Load { messages: 12, bytes: 12 * 90 });
        assert_eq!(fill(&mut held, &method("b"), 90), 12);
        held.give_back(Some(&Lane::Replies), Load::one(65_536));
        assert_eq!(fill(&mut held, &method("c"), 90), 4);
        let loads: u64 = held.each().map(|(_, load)| load.bytes).sum();
        assert_eq!(loads, held.bytes());
    }

    #[test]
    fn an_empty_lane_takes_a_message_that_is_longer_than_its_window() {
        let mut held = laned(1_000, 0, 10);
        assert_eq!(fill(&mut held, &method("a"), 65_536), 1);
        assert_eq!(fill(&mut held, &Lane::Plain, 65_536), 1);
        assert_eq!(held.shares(), (0, 0), "it takes no share");
    }

    #[test]
    fn a_peer_without_lanes_has_one_pool() {
        let mut held = Held::default();
        assert_eq!(fill(&mut held, &method("a"), 10_000), 6);
        assert_eq!(fill(&mut held, &method("b"), 10_000), 0);
        assert_eq!(fill(&mut held, &Lane::Plain, 5_536), 1);
        assert_eq!(held.bytes(), WINDOW);
    }
}
