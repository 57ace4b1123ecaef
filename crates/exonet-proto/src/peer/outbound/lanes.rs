//! How much of each lane is open at the peer, and how much may be (PROTOCOL.md "Lanes").

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::account::Account;
use crate::message::lane::{Lane, LaneKey, LaneLimits, Load};
use crate::time::Mono;

/// A lane is proven while all bytes that it has open are settled within this many round trips.
const PROVEN_WITHIN: u32 = 8;
/// How long a STATE may wait at the peer, beside the round trip.
const STATE_WAITS: Duration = Duration::from_millis(2);
/// A lane that is not proven takes this part of what is left of half of the pool. A proven lane takes half of what is left of the
/// whole pool.
const UNPROVEN_SHARE: u64 = 8;

/// The lanes to one peer, except the lane of plain messages.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// How much the peer lets the lanes have open. None: they share the window of plain messages.
    limits: Option<LaneLimits>,
    names: BTreeMap<Lane, LaneKey>,
    /// The places. Place `n` belongs to the key `n + 1`.
    places: Vec<Place>,
    free: Vec<LaneKey>,
    /// How many bytes are open, in wire form.
    bytes: u64,
    /// The shares of the pool in use by all lanes, and by lanes that are not proven.
    shares: u64,
    unproven: u64,
    /// How many lanes have something open.
    open: u64,
    /// Lanes that have nothing open and wait until fewer other lanes have.
    waiting: VecDeque<LaneKey>,
    /// Lanes that were found without room and may have some now.
    woken: Vec<LaneKey>,
    now: Mono,
    round_trip: Duration,
}

#[derive(Debug)]
struct Place {
    /// None: the place is free.
    name: Option<Lane>,
    /// How many messages are not settled, or wait for a reply.
    letters: usize,
    load: Load,
    /// The lane was found without room.
    parked: bool,
    /// What was open was settled in time.
    proven: bool,
    /// When the present count began, the bytes that have to be settled since then, and the bytes that have been.
    since: Mono,
    owed: u64,
    settled: u64,
    /// Open bytes of messages that were given up. When they close, they do not count as settled.
    given_up: u64,
}

impl Lanes {
    /// The peer has declared how much it lets lanes have open.
    pub(crate) fn set_limits(&mut self, limits: Option<LaneLimits>) {
        self.limits = limits;
        (self.shares, self.unproven) = self.recount();
        let parked = (1..).map(LaneKey).zip(&self.places).filter(|(_, place)| place.parked);
        self.woken.extend(parked.map(|(key, _)| key));
    }

    /// Whether both ends know lanes.
    pub(crate) fn are_known(&self) -> bool {
        self.limits.is_some()
    }

    /// Sets the time, and how long a round trip takes.
    pub(crate) fn tick(&mut self, now: Mono, round_trip: Duration) {
        (self.now, self.round_trip) = (now, round_trip);
    }

    /// A message enters its lane.
    pub(super) fn enter(&mut self, lane: Lane) -> LaneKey {
        let key = match self.names.get(&lane) {
            Some(key) => *key,
            None => self.begin(lane),
        };
        if let Some(place) = self.place_mut(key) {
            place.letters += 1;
        }
        key
    }

    fn begin(&mut self, lane: Lane) -> LaneKey {
        let place = Place {
            name: Some(lane.clone()),
            letters: 0,
            load: Load::default(),
            parked: false,
            proven: false,
            since: self.now,
            owed: 0,
            settled: 0,
            given_up: 0,
        };
        let key =
            self.free.pop().unwrap_or(LaneKey(u32::try_from(self.places.len() + 1).unwrap_or(u32::MAX)));
        match self.place_mut(key) {
            Some(free) => *free = place,
            None => self.places.push(place),
        }
        self.names.insert(lane, key);
        key
    }

    /// A message has left its lane.
    pub(super) fn leave(&mut self, key: LaneKey) {
        if let Some(place) = self.place_mut(key) {
            place.letters.give_back(1);
        }
        self.end_if_over(key);
    }

    fn end_if_over(&mut self, key: LaneKey) {
        let Some(place) = self.place_mut(key) else { return };
        if place.letters == 0
            && place.load.is_empty()
            && let Some(name) = place.name.take()
        {
            self.names.remove(&name);
            self.free.push(key);
        }
    }

    /// Whether a message of `len` bytes may be bound now. If not, its lane is woken when that may have changed.
    pub(super) fn may_open(&mut self, now: Mono, key: LaneKey, len: u64) -> bool {
        self.room(now, key, len) > 0
    }

    /// As [`Lanes::may_open`], but returns how many such messages may be bound.
    pub(super) fn room(&mut self, now: Mono, key: LaneKey, len: u64) -> u64 {
        self.now = now;
        let Some(limits) = self.limits else { return u64::MAX };
        self.doubt(key);
        let (open, shares, unproven) = (self.open, self.shares, self.unproven);
        let Some(place) = self.place_mut(key) else { return u64::MAX };
        if place.load.is_empty() {
            let fits = open < limits.lanes;
            if !fits && !std::mem::replace(&mut place.parked, true) {
                self.waiting.push_back(key);
            }
            return u64::from(fits);
        }
        let own = place.load.share(limits.window);
        let left = limits.pool.saturating_sub(shares - own);
        let most = if place.proven {
            left / 2
        } else {
            let left_of_half = (limits.pool / 2).saturating_sub(unproven - own);
            left.min(left_of_half / UNPROVEN_SHARE)
        };
        let fit = limits.window.saturating_add(most).saturating_sub(place.load.open());
        let fit = fit / Load::one(len).open();
        place.parked = fit == 0;
        fit
    }

    /// A lane whose open bytes were not settled in time is proven no longer.
    fn doubt(&mut self, key: LaneKey) {
        let (window, now, in_time) = (self.window(), self.now, self.in_time());
        let Some(place) = self.place_mut(key) else { return };
        if place.proven && !place.load.is_empty() && now > place.since + in_time {
            place.proven = false;
            let share = place.load.share(window);
            self.unproven += share;
        }
    }

    /// A message is bound, or was given up and may still be held by the peer.
    pub(super) fn open(&mut self, key: LaneKey, load: Load) {
        let (now, before) = (self.now, self.share(key));
        let Some(place) = self.place_mut(key) else { return };
        let begins = place.load.is_empty() && !load.is_empty();
        if begins {
            (place.since, place.owed, place.settled) = (now, 0, 0);
        }
        place.load = place.load.with(load);
        self.open += u64::from(begins);
        self.bytes += load.bytes;
        let after = self.share(key);
        self.shares += after - before;
        self.unproven += if self.is_proven(key) { 0 } else { after - before };
    }

    /// As [`Lanes::open`], for a message that was given up. It closes a second time, and then it does not count as settled.
    pub(super) fn give_up(&mut self, key: LaneKey, load: Load) {
        self.open(key, load);
        if let Some(place) = self.place_mut(key) {
            place.given_up += load.open();
        }
    }

    /// The peer does not hold these messages any more.
    pub(super) fn close(&mut self, key: LaneKey, load: Load) {
        let (now, in_time) = (self.now, self.in_time());
        let (before, proven) = (self.share(key), self.is_proven(key));
        let Some(place) = self.place_mut(key) else { return };
        if load.is_empty() {
            return;
        }
        let was_open = place.load.open();
        place.load.give_back(load);
        let given_up = place.given_up.min(load.open());
        place.given_up -= given_up;
        place.settled += load.open() - given_up;
        if place.owed == 0 {
            place.owed = was_open;
        }
        let is_proven = if place.settled >= place.owed {
            place.proven = now <= place.since + in_time;
            (place.since, place.owed, place.settled) = (now, place.load.open(), 0);
            place.proven
        } else {
            place.proven
        };
        let (ended, parked) = (place.load.is_empty(), std::mem::take(&mut place.parked));
        let after = self.share(key);
        self.bytes.give_back(load.bytes);
        self.shares.give_back(before - after);
        self.unproven.give_back(if proven { 0 } else { before });
        self.unproven += if is_proven { 0 } else { after };
        self.woken.extend(parked.then_some(key));
        if ended {
            self.open.give_back(1);
            self.let_one_in();
            self.end_if_over(key);
        }
    }

    /// Lets a lane in that waited until fewer lanes have something open.
    fn let_one_in(&mut self) {
        while let Some(key) = self.waiting.pop_front() {
            let waits = |place: &mut Place| std::mem::take(&mut place.parked) && place.load.is_empty();
            if self.place_mut(key).is_some_and(waits) {
                return self.woken.push(key);
            }
        }
    }

    /// The next lane that may go on.
    pub(super) fn woken(&mut self) -> Option<LaneKey> {
        self.woken.pop()
    }

    /// How many bytes are open, in wire form.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What each lane has open.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (LaneKey, Load)> {
        let named = |(key, place): (LaneKey, &Place)| place.name.is_some().then_some((key, place.load));
        (1..).map(LaneKey).zip(&self.places).filter_map(named)
    }

    /// How many lanes have something open: the running count and a fresh one.
    pub(crate) fn count(&self) -> (u64, u64) {
        (self.open, self.loads().filter(|(_, load)| !load.is_empty()).count() as u64)
    }

    /// The running and the fresh counts of the shares in use: of all lanes, and of lanes that are not proven.
    pub(crate) fn shares(&self) -> [(u64, u64); 2] {
        let (shares, unproven) = self.recount();
        [(self.shares, shares), (self.unproven, unproven)]
    }

    fn recount(&self) -> (u64, u64) {
        let shares = self.places.iter().map(|place| (place.load.share(self.window()), place.proven));
        shares.fold((0, 0), |(all, unproven), (share, proven)| {
            (all + share, unproven + if proven { 0 } else { share })
        })
    }

    /// How long open messages may take to be settled. A round trip is the least time from the binding of a message to its STATE.
    fn in_time(&self) -> Duration {
        (self.round_trip + STATE_WAITS) * PROVEN_WITHIN
    }

    fn window(&self) -> u64 {
        self.limits.map_or(0, |limits| limits.window)
    }

    fn share(&self, key: LaneKey) -> u64 {
        self.place(key).map_or(0, |place| place.load.share(self.window()))
    }

    fn is_proven(&self, key: LaneKey) -> bool {
        self.place(key).is_some_and(|place| place.proven)
    }

    fn place(&self, key: LaneKey) -> Option<&Place> {
        self.places.get(key.0.checked_sub(1)? as usize)
    }

    fn place_mut(&mut self, key: LaneKey) -> Option<&mut Place> {
        self.places.get_mut(key.0.checked_sub(1)? as usize)
    }
}

#[cfg(test)]
mod tests;
