//! Which message leaves next: weighted classes by deficit round robin, small messages before large ones, and small ones lane by
//! lane.

use std::collections::{BTreeSet, VecDeque};

use super::lane::LaneKey;
use super::lines::Lines;
use super::{MessageKey, Priority};

/// A flow of the queue: a priority, and whether its messages are plain, have lanes, or have windows of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow(usize);

const PRIORITIES: usize = 4;
const FLOWS: usize = 3 * PRIORITIES;
/// The flows of lanes, a bit each.
const LANED: u16 = 0b010_010_010_010;
/// This number of removed entries is not worth a sweep.
const FEW: usize = 16;
/// How many bytes a flow of weight one may send per round.
const QUANTUM: i64 = 256;
/// Urgent plain, in lanes, large; Normal plain, and so on. Small messages have four times the share of large ones. However many
/// lanes there are, together they take no more from others than plain messages do.
const WEIGHTS: [i64; FLOWS] = [256, 256, 64, 64, 64, 16, 16, 16, 4, 4, 4, 1];

impl Flow {
    /// The number of flows.
    pub(crate) const COUNT: usize = FLOWS;

    const fn class(priority: Priority) -> usize {
        match priority {
            Priority::Urgent => 0,
            Priority::Normal => 3,
            Priority::Low => 6,
            Priority::Bulk => 9,
        }
    }

    pub(crate) const fn of(priority: Priority, large: bool) -> Self {
        Self(Self::class(priority) + if large { 2 } else { 0 })
    }

    /// The flow of small messages in lanes.
    pub(crate) const fn laned(priority: Priority) -> Self {
        Self(Self::class(priority) + 1)
    }

    /// The flow of this index, below 12.
    pub(crate) const fn at(index: usize) -> Option<Self> {
        if index < FLOWS { Some(Self(index)) } else { None }
    }

    pub(crate) const fn index(self) -> usize {
        self.0
    }

    pub(crate) const fn is_large(self) -> bool {
        self.0 % 3 == 2
    }

    pub(crate) const fn is_laned(self) -> bool {
        LANED >> self.0 & 1 > 0
    }
}

/// The messages to one peer that have something to send for the first time. An entry may be stale, so a caller that takes an
/// entry looks the key up.
///
/// A flow may fall behind by at most what it sent; every non-empty flow is served within one round.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    /// In a flow of lanes: the line of the lane whose turn it is.
    flows: [VecDeque<MessageKey>; FLOWS],
    /// The other lanes, by priority, once there are any.
    lines: Option<Box<[Lines; PRIORITIES]>>,
    /// Entries of the flows that have been removed; never the first or the last of a line. So removal costs the same wherever an
    /// entry stands.
    gone: BTreeSet<MessageKey>,
    deficits: [i64; FLOWS],
    /// A bit for each flow that is not empty.
    busy: u16,
    /// How many bytes a lane may send in its turn: one packet.
    quantum: i64,
}

impl SendQueue {
    pub(crate) fn push(&mut self, flow: Flow, lane: LaneKey, key: MessageKey) {
        if self.gone.contains(&key) {
            self.sweep();
        }
        if !flow.is_laned() {
            if let Some(front) = self.flows.get_mut(flow.0) {
                front.push_back(key);
                self.busy |= 1 << flow.0;
            }
        } else if let Some(line) = self.line(flow, lane, 1) {
            line.push_back(key);
            self.note_busy(flow);
        }
    }

    /// Puts a message before all others of its flow and lane.
    pub(crate) fn push_front(&mut self, flow: Flow, lane: LaneKey, key: MessageKey) {
        self.push(flow, lane, key);
        if let Some(line) = self.line(flow, lane, 0) {
            line.rotate_right(1);
        }
    }

    /// Puts a message of a lane behind those that come before it according to `precedes`. The lane is in that order.
    pub(crate) fn push_behind(
        &mut self,
        flow: Flow,
        lane: LaneKey,
        key: MessageKey,
        precedes: impl Fn(MessageKey) -> bool,
    ) {
        self.sweep();
        self.push(flow, lane, key);
        if let Some(line) = self.line(flow, lane, 0)
            && let Some(key) = line.pop_back()
        {
            let at = line.partition_point(|other| precedes(*other));
            line.insert(at, key);
        }
    }

    /// The line of a flow and lane; it has `change` more messages from now on.
    fn line(&mut self, flow: Flow, lane: LaneKey, change: isize) -> Option<&mut VecDeque<MessageKey>> {
        let front = self.flows.get_mut(flow.0)?;
        if !flow.is_laned() {
            return Some(front);
        }
        let lines = self.lines.get_or_insert_default().get_mut(flow.0 / 3)?;
        lines.line(front, lane);
        lines.count(lane, change);
        Some(lines.line(front, lane))
    }

    fn note_busy(&mut self, flow: Flow) {
        let empty = self.flows.get(flow.0).is_none_or(VecDeque::is_empty);
        self.busy = if empty { self.busy & !(1 << flow.0) } else { self.busy | 1 << flow.0 };
    }

    /// The lanes of a flow, except the lane whose turn it is.
    fn lines(&mut self, flow: Flow) -> Option<(&mut Lines, &mut VecDeque<MessageKey>)> {
        let lines = self.lines.as_mut().filter(|_| flow.is_laned())?.get_mut(flow.0 / 3)?;
        Some((lines, self.flows.get_mut(flow.0)?))
    }

    /// The flows of lanes that have something to send.
    pub(crate) fn laned(&self) -> impl Iterator<Item = Flow> + use<> {
        let busy = self.busy & LANED;
        (0..FLOWS).filter(move |i| busy >> i & 1 > 0).map(Flow)
    }

    pub(crate) const fn has_lanes(&self) -> bool {
        self.busy & LANED > 0
    }

    /// Sets how much a lane sends in its turn: one packet.
    pub(crate) fn set_quantum(&mut self, bytes: usize) {
        self.quantum = i64::try_from(bytes).unwrap_or(i64::MAX / 2);
    }

    /// Whether the lane whose turn it is has used it up.
    pub(crate) fn is_spent(&self, flow: Flow) -> bool {
        self.lines.as_ref().and_then(|lines| lines.get(flow.0 / 3)).is_some_and(Lines::is_spent)
    }

    /// The next lane of a flow has its turn. `parks`: the present lane waits until it is woken.
    pub(crate) fn next_lane(&mut self, flow: Flow, parks: bool) {
        let quantum = self.quantum;
        if let Some((lines, front)) = self.lines(flow) {
            lines.advance(front, quantum, parks);
        }
        self.note_busy(flow);
    }

    /// In each flow of lanes, the next lane has its turn.
    pub(crate) fn pass_lanes(&mut self) {
        self.laned().for_each(|flow| self.next_lane(flow, false));
    }

    /// Gives the lane of a flow its turn at once, if it has something to send and is not parked.
    pub(crate) fn bring(&mut self, flow: Flow, lane: LaneKey) {
        if let Some((lines, front)) = self.lines(flow) {
            lines.bring(front, lane);
        }
    }

    /// The front of each lane of a flow, except the lane whose turn it is, in the order of their turns. Parked lanes are left
    /// out.
    pub(crate) fn other_lanes(&self, flow: Flow) -> impl Iterator<Item = MessageKey> {
        let lines = self.lines.as_ref().filter(|_| flow.is_laned()).and_then(|lines| lines.get(flow.0 / 3));
        lines.into_iter().flat_map(Lines::fronts)
    }

    /// Whether there is nothing to choose: there is one flow, and one lane in it.
    pub(crate) fn is_sole(&self) -> bool {
        let lines = |flow: Flow| self.lines.as_ref().and_then(|lines| lines.get(flow.0 / 3));
        self.alone().is_some_and(|flow| !flow.is_laned() || !lines(flow).is_some_and(Lines::has_more))
    }

    /// A lane that was parked may go on.
    pub(crate) fn wake(&mut self, lane: LaneKey) {
        for flow in (0..FLOWS).map(Flow).filter(|flow| flow.is_laned()) {
            let quantum = self.quantum;
            if let Some((lines, front)) = self.lines(flow) {
                lines.wake(front, lane, quantum);
                self.note_busy(flow);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.busy == 0
    }

    pub(crate) fn front(&self, flow: Flow) -> Option<MessageKey> {
        self.flows.get(flow.0)?.front().copied()
    }

    /// The flows that are not empty, and the front of each.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = (Flow, MessageKey)> {
        let fronts = self.flows.iter().map(VecDeque::front).enumerate();
        fronts.filter_map(|(i, front)| front.map(|key| (Flow(i), *key)))
    }

    /// The only flow that is not empty.
    pub(crate) fn alone(&self) -> Option<Flow> {
        self.busy.is_power_of_two().then(|| Flow(self.busy.trailing_zeros() as usize))
    }

    /// Whether a flow has more than its front.
    pub(crate) fn has_more(&self, flow: Flow) -> bool {
        let lines = || self.lines.as_ref().and_then(|lines| lines.get(flow.0 / 3));
        self.flows.get(flow.0).is_some_and(|queue| queue.len() > 1)
            || (flow.is_laned() && lines().is_some_and(Lines::has_more))
    }

    pub(crate) fn iter(&self, flow: Flow) -> impl Iterator<Item = MessageKey> {
        let lines = self.lines.as_ref().filter(|_| flow.is_laned()).and_then(|lines| lines.get(flow.0 / 3));
        let others = lines.into_iter().flat_map(Lines::others);
        let all = self.flows.get(flow.0).into_iter().flatten().copied().chain(others);
        all.filter(|key| !self.gone.contains(key))
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
            self.end_line(flow);
        }
    }

    /// The line whose turn it is has ended.
    fn end_line(&mut self, flow: Flow) {
        if flow.is_laned() {
            self.next_lane(flow, false);
        } else {
            self.busy &= !(1 << flow.0);
        }
        if self.busy >> flow.0 & 1 == 0
            && let Some(deficit) = self.deficits.get_mut(flow.0)
        {
            *deficit = 0;
        }
    }

    /// Frees memory when nothing is queued.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() && self.apart() == 0 {
            *self = Self::default();
        }
    }

    /// In flows of large messages, brings the first message that is `ready` to the front.
    pub(crate) fn bring_forward(&mut self, ready: impl Fn(MessageKey) -> bool) {
        for queue in self.flows.iter_mut().skip(2).step_by(3) {
            let gone = &self.gone;
            if let Some(at) = queue.iter().position(|key| !gone.contains(key) && ready(*key)) {
                queue.rotate_left(at);
                trim(queue, &mut self.gone);
            }
        }
    }

    /// Removes a message, which is in the queue, from its flow.
    pub(crate) fn remove(&mut self, flow: Flow, lane: LaneKey, key: MessageKey) {
        self.gone.insert(key);
        let mut gone = std::mem::take(&mut self.gone);
        if let Some(line) = self.line(flow, lane, 0) {
            let before = line.len();
            trim(line, &mut gone);
            let left = before - line.len();
            if let Some((lines, _)) = self.lines(flow) {
                lines.count(lane, -isize::try_from(left).unwrap_or(isize::MAX));
                lines.drop_if_over(lane);
            }
        }
        self.gone = gone;
        if self.flows.get(flow.0).is_some_and(VecDeque::is_empty) {
            self.end_line(flow);
        }
        let entries = self.flows.iter().map(VecDeque::len).sum::<usize>() + self.apart();
        if self.gone.len() > FEW && self.gone.len() > entries / 2 {
            self.sweep();
        }
    }

    /// How many messages are in lanes whose turn it is not.
    fn apart(&self) -> usize {
        self.lines.iter().flat_map(|lines| lines.iter()).map(Lines::entries).sum()
    }

    /// Frees the places of removed entries. It looks at as many entries as were removed since the last time, and as many again.
    fn sweep(&mut self) {
        let gone = core::mem::take(&mut self.gone);
        let lines = self.lines.iter_mut().flat_map(|lines| lines.iter_mut());
        for line in self.flows.iter_mut().chain(lines.flat_map(Lines::others_mut)) {
            line.retain(|key| !gone.contains(key));
        }
        self.lines.iter_mut().flat_map(|lines| lines.iter_mut()).for_each(Lines::recount);
    }

    /// Moves the front of a flow behind the others of that flow.
    pub(crate) fn rotate(&mut self, flow: Flow) {
        if let Some(queue) = self.flows.get_mut(flow.0).filter(|queue| queue.len() > 1) {
            queue.rotate_left(1);
            trim(queue, &mut self.gone);
        }
    }

    /// Whether a flow whose turn it was may go on: it has not used up its share of the round. No other flow has become eligible
    /// meanwhile, since nothing is queued while a packet is filled.
    pub(crate) fn goes_on(&self, flow: Flow) -> bool {
        self.deficits.get(flow.0).is_some_and(|deficit| *deficit > 0)
            && !(flow.is_laned() && self.is_spent(flow))
    }

    /// How many messages of `len` bytes a flow may send before another flow has its turn: as many as [`SendQueue::goes_on`] would
    /// let go one by one.
    pub(crate) fn share(&self, flow: Flow, len: u64) -> u64 {
        let deficit = self.deficits.get(flow.0).copied().unwrap_or_default();
        let lines = self.lines.as_ref().filter(|_| flow.is_laned()).and_then(|lines| lines.get(flow.0 / 3));
        let deficit = deficit.min(lines.map_or(i64::MAX, Lines::left));
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

    /// As [`SendQueue::turn`], if there is no other flow to choose.
    pub(crate) fn go_on(&mut self, flow: Flow) -> Flow {
        let goes_on = self.goes_on(flow);
        if let (false, Some(deficit), Some(weight)) =
            (goes_on, self.deficits.get_mut(flow.0), WEIGHTS.get(flow.0))
        {
            *deficit += rounds(*deficit, *weight) * weight * QUANTUM;
        }
        flow
    }

    /// Adds a new round, or as many rounds as the least indebted flow needs: they are computed, not iterated.
    fn replenish(&mut self, candidates: [bool; FLOWS]) -> Option<Flow> {
        let flows = || self.deficits.iter().zip(WEIGHTS).zip(candidates).filter(|(_, eligible)| *eligible);
        let rounds = flows().map(|((deficit, weight), _)| rounds(*deficit, weight)).min()?;
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

    /// The lane whose turn it is sends `bytes`. Call this before its message leaves the queue, or another lane would be charged.
    #[inline]
    pub(crate) fn charge_lane(&mut self, flow: Flow, bytes: u64) {
        if flow.is_laned()
            && let Some((lines, _)) = self.lines(flow)
        {
            lines.charge(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }
}

/// How many rounds bring a flow out of debt.
const fn rounds(deficit: i64, weight: i64) -> i64 {
    1 + -deficit / (weight * QUANTUM)
}

/// Drops removed entries from both ends of a line.
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

    const PLAIN: LaneKey = LaneKey::PLAIN;

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
            queue.push(Flow(flow), LaneKey(1), key(0));
        }
        let got = shares(&mut queue, 76_500, 1_200);
        for (packets, weight) in got.into_iter().zip(WEIGHTS) {
            let ideal = 76_500 * usize::try_from(weight).unwrap() / 765;
            assert!(packets.abs_diff(ideal) <= ideal / 10 + 25, "{got:?}");
        }
    }

    #[test]
    fn a_lone_bulk_flow_gets_everything_at_once() {
        let mut queue = SendQueue::default();
        let bulk = Flow::of(Priority::Bulk, true);
        queue.push(bulk, PLAIN, key(1));
        assert_eq!(shares(&mut queue, 1_000, 60_000)[11], 1_000);
    }

    #[test]
    fn a_small_message_passes_a_large_one() {
        let mut queue = SendQueue::default();
        let (small, large) = (Flow::of(Priority::Normal, false), Flow::of(Priority::Normal, true));
        queue.push(large, PLAIN, key(1));
        shares(&mut queue, 100, 1_200);
        queue.push(small, PLAIN, key(2));
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
        chosen.push(low, PLAIN, key(1));
        alone.push(low, PLAIN, key(1));
        for bytes in [100, 5_000, 0, 60_000, 1, 70] {
            assert_eq!(chosen.turn(|_| true), alone.alone().map(|flow| alone.go_on(flow)));
            chosen.charge(low, bytes);
            alone.charge(low, bytes);
            assert_eq!(chosen.deficits, alone.deficits);
        }
        assert_eq!(SendQueue::default().alone(), None);
        alone.push(Flow(0), PLAIN, key(2));
        assert_eq!(alone.alone(), None);
    }

    #[test]
    fn what_was_taken_out_does_not_come_and_takes_no_room() {
        let flow = Flow::of(Priority::Normal, false);
        let mut queue = SendQueue::default();
        (0..1_000).for_each(|i| queue.push(flow, PLAIN, key(i)));
        // Neither in order nor against it, and the first and the last among them.
        for i in (0..1_000).map(|i| i * 387 % 1_000).filter(|i| i % 5 > 0) {
            queue.remove(flow, PLAIN, key(i));
            assert!(queue.gone.len() <= FEW.max(queue.flows[flow.0].len() / 2));
        }
        queue.remove(flow, PLAIN, key(0));
        assert_eq!(queue.iter(flow).count(), 199);
        for i in (5..1_000).step_by(5) {
            assert_eq!(queue.front(flow), Some(key(i)));
            assert_eq!(queue.has_more(flow), i < 995);
            queue.pop(flow);
        }
        assert!(queue.is_empty() && queue.gone.is_empty());
        [1, 2, 3].into_iter().for_each(|i| queue.push(flow, PLAIN, key(i)));
        queue.remove(flow, PLAIN, key(2));
        queue.push(flow, PLAIN, key(2));
        assert_eq!(queue.iter(flow).collect::<Vec<_>>(), [1, 3, 2].map(key));
    }

    const LANES: Flow = Flow::laned(Priority::Normal);

    /// A queue in which lane `i` holds `messages[i - 1]` messages. The index of a message is 1,000 times its lane plus its place.
    fn laned(messages: &[u32]) -> SendQueue {
        let mut queue = SendQueue::default();
        queue.set_quantum(1_200);
        for (lane, n) in (1..).zip(messages) {
            (0..*n).for_each(|i| queue.push(LANES, LaneKey(lane), key(1_000 * lane + i)));
        }
        queue
    }

    /// The next message, of `bytes`, leaves.
    fn leave(queue: &mut SendQueue, bytes: usize) -> Option<u32> {
        if queue.is_spent(LANES) {
            queue.next_lane(LANES, false);
        }
        let key = queue.front(LANES)?;
        queue.charge_lane(LANES, bytes as u64);
        queue.pop(LANES);
        queue.charge(LANES, bytes);
        Some(key.index)
    }

    fn sent(queue: &mut SendQueue, messages: usize, bytes: usize) -> Vec<u32> {
        (0..messages).map_while(|_| leave(queue, bytes)).collect()
    }

    #[test]
    fn lanes_take_turns_of_a_packet_and_each_keeps_its_order() {
        let mut queue = laned(&[6, 3, 1]);
        let order = sent(&mut queue, 99, 600);
        assert_eq!(order, [1_000, 1_001, 2_000, 2_001, 3_000, 1_002, 1_003, 2_002, 1_004, 1_005]);
        assert!(queue.is_empty() && queue.apart() == 0);
        // Messages of many packets are paid for in turns of others.
        let mut queue = laned(&[2, 0, 20]);
        let first = leave(&mut queue, 12_000);
        assert_eq!((first, sent(&mut queue, 10, 1_200).last()), (Some(1_000), Some(&3_009)));
        assert_eq!(sent(&mut queue, 1, 1_200), [1_001]);
    }

    #[test]
    fn a_lane_alone_runs_up_no_debt() {
        let mut queue = laned(&[100]);
        sent(&mut queue, 50, 60_000);
        (2_000..2_020).for_each(|index| queue.push(LANES, LaneKey(2), key(index)));
        let order = sent(&mut queue, 8, 1_200);
        let first = order.iter().filter(|index| **index < 2_000).count();
        assert!((3..=5).contains(&first), "{order:?}");
    }

    #[test]
    fn a_lane_that_is_parked_waits_and_comes_back_where_it_was() {
        let mut queue = laned(&[3, 2]);
        queue.next_lane(LANES, true);
        queue.push(LANES, LaneKey(1), key(1_003));
        assert_eq!(sent(&mut queue, 99, 600), [2_000, 2_001]);
        assert!(queue.is_empty() && !queue.has_lanes(), "nothing can go");
        queue.shrink();
        queue.remove(LANES, LaneKey(1), key(1_001));
        queue.wake(LaneKey(2));
        assert!(queue.is_empty());
        queue.wake(LaneKey(1));
        queue.push_front(LANES, LaneKey(1), key(1_009));
        assert_eq!(sent(&mut queue, 99, 600), [1_009, 1_000, 1_002, 1_003]);
        assert!(queue.is_empty() && queue.gone.is_empty() && queue.apart() == 0);
    }

    #[test]
    fn what_is_taken_out_of_lanes_takes_no_room() {
        let mut queue = laned(&[500, 500, 500]);
        queue.next_lane(LANES, true);
        for i in (0..500).filter(|i| i % 5 > 0) {
            (1..=3).for_each(|lane| queue.remove(LANES, LaneKey(lane), key(1_000 * lane + i)));
            let entries = queue.flows[LANES.0].len() + queue.apart();
            assert!(queue.gone.len() <= FEW.max(entries / 2));
        }
        assert_eq!(queue.iter(LANES).count(), 300);
        for lane in 1..=3 {
            (0..500).step_by(5).for_each(|i| queue.remove(LANES, LaneKey(lane), key(1_000 * lane + i)));
        }
        assert_eq!((queue.iter(LANES).count(), queue.apart(), queue.gone.len()), (0, 0, 0));
        assert_eq!(leave(&mut queue, 1), None);
        queue.push(LANES, LaneKey(1), key(1_000));
        assert_eq!(leave(&mut queue, 1), Some(1_000));
    }

    #[test]
    fn lanes_have_as_much_as_plain_messages_however_many_they_are() {
        let mut queue = laned(&[900; 9]);
        let plain = Flow::of(Priority::Normal, false);
        (0..900).for_each(|i| queue.push(plain, PLAIN, key(i)));
        let mut plain_ones = 0;
        for _ in 0..1_000 {
            let flow = queue.turn(|_| true).unwrap();
            plain_ones += usize::from(flow == plain);
            if queue.is_spent(flow) {
                queue.next_lane(flow, false);
            }
            queue.charge_lane(flow, 1_000);
            queue.pop(flow);
            queue.charge(flow, 1_000);
        }
        assert!((480..520).contains(&plain_ones), "{plain_ones}");
    }

    #[test]
    fn closed_flows_are_passed_over() {
        let mut queue = SendQueue::default();
        queue.push(Flow(0), PLAIN, key(1));
        assert_eq!(queue.turn(|flow| flow != Flow(0)), None);
        queue.push(Flow(3), PLAIN, key(2));
        assert_eq!(queue.turn(|flow| flow != Flow(0)), Some(Flow(3)));
    }
}
