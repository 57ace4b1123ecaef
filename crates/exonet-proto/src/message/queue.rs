//! Which message goes next: weighted classes by deficit round robin, small before large.

use std::collections::{BTreeSet, VecDeque};

use super::{MessageKey, Priority};

/// A flow of the queue: a priority, and whether its messages are pooled or have windows of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow(usize);

const FLOWS: usize = 8;
/// As many entries that were taken out are not worth a sweep.
const FEW: usize = 16;
/// Bytes a flow of weight one may send per round.
const QUANTUM: i64 = 256;
/// Urgent small, Urgent large, Normal small, and so on: small ones have four times the share of large ones.
const WEIGHTS: [i64; FLOWS] = [256, 64, 64, 16, 16, 4, 4, 1];

impl Flow {
    pub(crate) const fn of(priority: Priority, large: bool) -> Self {
        let class = match priority {
            Priority::Urgent => 0,
            Priority::Normal => 2,
            Priority::Low => 4,
            Priority::Bulk => 6,
        };
        Self(class + large as usize)
    }

    /// The flow of this index, below 8.
    pub(crate) const fn at(index: usize) -> Option<Self> {
        if index < FLOWS { Some(Self(index)) } else { None }
    }

    pub(crate) const fn index(self) -> usize {
        self.0
    }

    pub(crate) const fn is_large(self) -> bool {
        self.0 % 2 == 1
    }
}

/// The messages to one peer that have something to send for the first time. An entry may be stale: whoever
/// takes it looks the key up.
///
/// A flow may fall behind by at most what it sent; every non-empty flow is served within one round.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    flows: [VecDeque<MessageKey>; FLOWS],
    /// Entries of the flows that have been taken out; never the first or the last of a flow. So it costs the same to take
    /// one out wherever it stands.
    gone: BTreeSet<MessageKey>,
    deficits: [i64; FLOWS],
    /// A bit for each flow that is not empty.
    busy: u8,
}

impl SendQueue {
    pub(crate) fn push(&mut self, flow: Flow, key: MessageKey) {
        if self.gone.contains(&key) {
            self.sweep();
        }
        if let Some(queue) = self.flows.get_mut(flow.0) {
            queue.push_back(key);
            self.busy |= 1 << flow.0;
        }
    }

    /// Puts a message before all others of its flow.
    pub(crate) fn push_front(&mut self, flow: Flow, key: MessageKey) {
        self.push(flow, key);
        if let Some(queue) = self.flows.get_mut(flow.0) {
            queue.rotate_right(1);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.busy == 0
    }

    pub(crate) fn front(&self, flow: Flow) -> Option<MessageKey> {
        self.flows.get(flow.0)?.front().copied()
    }

    /// The flows that are not empty, and what is at the front of each.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = (Flow, MessageKey)> {
        let fronts = self.flows.iter().map(VecDeque::front).enumerate();
        fronts.filter_map(|(i, front)| front.map(|key| (Flow(i), *key)))
    }

    /// The only flow that is not empty.
    pub(crate) fn alone(&self) -> Option<Flow> {
        self.busy.is_power_of_two().then(|| Flow(self.busy.trailing_zeros() as usize))
    }

    /// There are others behind the front of a flow.
    pub(crate) fn has_more(&self, flow: Flow) -> bool {
        self.flows.get(flow.0).is_some_and(|queue| queue.len() > 1)
    }

    pub(crate) fn iter(&self, flow: Flow) -> impl Iterator<Item = MessageKey> {
        self.flows.get(flow.0).into_iter().flatten().copied().filter(|key| !self.gone.contains(key))
    }

    pub(crate) fn pop(&mut self, flow: Flow) {
        let Some(queue) = self.flows.get_mut(flow.0) else {
            return;
        };
        queue.pop_front();
        if !self.gone.is_empty() {
            trim(queue, &mut self.gone);
        }
        if queue.is_empty() {
            self.busy &= !(1 << flow.0);
            if let Some(deficit) = self.deficits.get_mut(flow.0) {
                *deficit = 0;
            }
        }
    }

    /// Gives memory back, when nothing is queued.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// In flows of large messages, the first that is `ready` comes to the front.
    pub(crate) fn bring_forward(&mut self, ready: impl Fn(MessageKey) -> bool) {
        for queue in self.flows.iter_mut().skip(1).step_by(2) {
            let gone = &self.gone;
            if let Some(at) = queue.iter().position(|key| !gone.contains(key) && ready(*key)) {
                queue.rotate_left(at);
                trim(queue, &mut self.gone);
            }
        }
    }

    /// Takes a message, which stands in it, out of its flow.
    pub(crate) fn remove(&mut self, flow: Flow, key: MessageKey) {
        let Some(queue) = self.flows.get_mut(flow.0) else { return };
        self.gone.insert(key);
        trim(queue, &mut self.gone);
        if queue.is_empty() {
            self.busy &= !(1 << flow.0);
        }
        let entries = self.flows.iter().map(VecDeque::len).sum::<usize>();
        if self.gone.len() > FEW && self.gone.len() > entries / 2 {
            self.sweep();
        }
    }

    /// Gives the places back of what was taken out: as many entries are looked at as were taken out since the last time, and
    /// as many again.
    fn sweep(&mut self) {
        let gone = core::mem::take(&mut self.gone);
        self.flows.iter_mut().for_each(|queue| queue.retain(|key| !gone.contains(key)));
    }

    /// The front of a flow goes behind the others of that flow.
    pub(crate) fn rotate(&mut self, flow: Flow) {
        if let Some(queue) = self.flows.get_mut(flow.0).filter(|queue| queue.len() > 1) {
            queue.rotate_left(1);
            trim(queue, &mut self.gone);
        }
    }

    /// Whether a flow whose turn it was may go on: it has not used up its share of the round. No other has become
    /// eligible meanwhile, as nothing is queued while a packet is filled.
    pub(crate) fn goes_on(&self, flow: Flow) -> bool {
        self.deficits.get(flow.0).is_some_and(|deficit| *deficit > 0)
    }

    /// How many messages of `len` bytes a flow may send before another has its turn: as many as [`SendQueue::goes_on`]
    /// would let go one by one.
    pub(crate) fn share(&self, flow: Flow, len: u64) -> u64 {
        let deficit = self.deficits.get(flow.0).copied().unwrap_or_default();
        u64::try_from(deficit).unwrap_or_default().div_ceil(len.max(1))
    }

    /// The flow whose turn it is, among those that `open` admits.
    pub(crate) fn turn(&mut self, open: impl Fn(Flow) -> bool) -> Option<Flow> {
        let eligible = |i: &usize| open(Flow(*i)) && self.flows.get(*i).is_some_and(|q| !q.is_empty());
        let candidates: [bool; FLOWS] = core::array::from_fn(|i| eligible(&i));
        if !candidates.contains(&true) {
            return None;
        }
        let zipped = self.deficits.iter().zip(candidates);
        let served = zipped.enumerate().find(|(_, (deficit, eligible))| *eligible && **deficit > 0);
        if let Some((flow, _)) = served {
            return Some(Flow(flow));
        }
        self.replenish(candidates)
    }

    /// As [`SendQueue::turn`], where there is no other flow to choose.
    pub(crate) fn go_on(&mut self, flow: Flow) -> Flow {
        if !self.goes_on(flow) {
            self.replenish(core::array::from_fn(|i| i == flow.0));
        }
        flow
    }

    /// A new round, or as many as the least indebted flow needs: computed, not iterated.
    fn replenish(&mut self, candidates: [bool; FLOWS]) -> Option<Flow> {
        let flows = || self.deficits.iter().zip(WEIGHTS).zip(candidates).filter(|(_, eligible)| *eligible);
        let rounds = flows().map(|((deficit, weight), _)| 1 + -deficit / (weight * QUANTUM)).min()?;
        for (i, eligible) in candidates.into_iter().enumerate() {
            if let (true, Some(deficit), Some(weight)) = (eligible, self.deficits.get_mut(i), WEIGHTS.get(i))
            {
                *deficit += rounds * weight * QUANTUM;
            }
        }
        let zipped = self.deficits.iter().zip(candidates);
        zipped.enumerate().find(|(_, (deficit, eligible))| *eligible && **deficit > 0).map(|(i, _)| Flow(i))
    }

    /// A flow has sent `bytes`.
    pub(crate) fn charge(&mut self, flow: Flow, bytes: usize) {
        if let Some(deficit) = self.deficits.get_mut(flow.0) {
            *deficit -= i64::try_from(bytes).unwrap_or(i64::MAX);
        }
    }
}

/// What was taken out goes, where it is the first or the last.
fn trim(queue: &mut VecDeque<MessageKey>, gone: &mut BTreeSet<MessageKey>) {
    while queue.front().is_some_and(|key| gone.remove(key)) {
        queue.pop_front();
    }
    while queue.back().is_some_and(|key| gone.remove(key)) {
        queue.pop_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> MessageKey {
        MessageKey { index, generation: 0, at: 0 }
    }

    fn shares(queue: &mut SendQueue, packets: usize, bytes: usize) -> [usize; FLOWS] {
        let mut got = [0; FLOWS];
        for _ in 0..packets {
            let flow = queue.turn(|_| true).expect("never empty");
            got[flow.0] += 1;
            queue.charge(flow, bytes);
        }
        got
    }

    #[test]
    fn shares_follow_the_weights_and_nobody_starves() {
        let mut queue = SendQueue::default();
        for flow in 0..FLOWS {
            queue.push(Flow(flow), key(0));
        }
        let got = shares(&mut queue, 42_500, 1_200);
        for (packets, weight) in got.into_iter().zip(WEIGHTS) {
            let ideal = 42_500 * usize::try_from(weight).unwrap() / 425;
            assert!(packets.abs_diff(ideal) <= ideal / 10 + 25, "{got:?}");
        }
    }

    #[test]
    fn a_lone_bulk_flow_gets_everything_at_once() {
        let mut queue = SendQueue::default();
        let bulk = Flow::of(Priority::Bulk, true);
        queue.push(bulk, key(1));
        assert_eq!(shares(&mut queue, 1_000, 60_000)[7], 1_000);
    }

    #[test]
    fn a_small_message_passes_a_large_one() {
        let mut queue = SendQueue::default();
        let (small, large) = (Flow::of(Priority::Normal, false), Flow::of(Priority::Normal, true));
        queue.push(large, key(1));
        shares(&mut queue, 100, 1_200);
        queue.push(small, key(2));
        let waited = (0..).find(|_| {
            let flow = queue.turn(|_| true).expect("not empty");
            queue.charge(flow, 1_200);
            flow == small
        });
        assert!(waited.is_some_and(|packets| packets <= 8), "{waited:?}");
    }

    #[test]
    fn a_flow_alone_has_its_turn_as_among_others() {
        let (mut chosen, mut alone) = (SendQueue::default(), SendQueue::default());
        let low = Flow::of(Priority::Low, false);
        chosen.push(low, key(1));
        alone.push(low, key(1));
        for bytes in [100, 5_000, 0, 60_000, 1, 70] {
            assert_eq!(chosen.turn(|_| true), alone.alone().map(|flow| alone.go_on(flow)));
            chosen.charge(low, bytes);
            alone.charge(low, bytes);
            assert_eq!(chosen.deficits, alone.deficits);
        }
        assert_eq!(SendQueue::default().alone(), None);
        alone.push(Flow(0), key(2));
        assert_eq!(alone.alone(), None);
    }

    #[test]
    fn what_was_taken_out_does_not_come_and_takes_no_room() {
        let flow = Flow::of(Priority::Normal, false);
        let mut queue = SendQueue::default();
        (0..1_000).for_each(|i| queue.push(flow, key(i)));
        // Neither in order nor against it, and the first and the last among them.
        for i in (0..1_000).map(|i| i * 387 % 1_000).filter(|i| i % 5 > 0) {
            queue.remove(flow, key(i));
            assert!(queue.gone.len() <= FEW.max(queue.flows[flow.0].len() / 2));
        }
        queue.remove(flow, key(0));
        assert_eq!(queue.iter(flow).count(), 199);
        for i in (5..1_000).step_by(5) {
            assert_eq!(queue.front(flow), Some(key(i)));
            assert_eq!(queue.has_more(flow), i < 995);
            queue.pop(flow);
        }
        assert!(queue.is_empty() && queue.gone.is_empty());
        [1, 2, 3].into_iter().for_each(|i| queue.push(flow, key(i)));
        queue.remove(flow, key(2));
        queue.push(flow, key(2));
        assert_eq!(queue.iter(flow).collect::<Vec<_>>(), [1, 3, 2].map(key));
    }

    #[test]
    fn closed_flows_are_passed_over() {
        let mut queue = SendQueue::default();
        queue.push(Flow(0), key(1));
        assert_eq!(queue.turn(|flow| flow != Flow(0)), None);
        queue.push(Flow(3), key(2));
        assert_eq!(queue.turn(|flow| flow != Flow(0)), Some(Flow(3)));
    }
}
