//! Load metrics: what one more message would cost at a member. A group chooses members by that.

use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::NodeId;
use exonet_proto::node::{Node, Outcome};

use crate::group::ballot::End;

/// What the node knows of the path to a member.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Path {
    /// The smoothed round-trip time. None: the node has not measured it.
    pub rtt: Option<Duration>,
    /// The share of packets that were lost, from 0 to 1.
    pub loss: f64,
}

impl Path {
    /// What a node knows of the path to this member.
    pub(super) fn of(node: &Node, member: &NodeId) -> Self {
        let Some(stats) = node.peer_stats(member) else { return Self::default() };
        let rtt = (!stats.rtt.is_zero()).then_some(stats.rtt);
        // The loss need not be exact.
        #[allow(clippy::cast_precision_loss)]
        let loss = stats.packets_lost as f64 / stats.packets_sent.max(1) as f64;
        Self { rtt, loss }
    }
}

/// The load of a member, as far as the group knows it: see [`Group::loads`](super::Group::loads).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct MemberLoad {
    /// The member.
    pub id: NodeId,
    /// The cost of one more message to the member, by the [`Load`] of the group. With [`PeakEwma`] this is a time in
    /// seconds.
    pub cost: f64,
    /// The path to the member, as far as the node knows it.
    pub path: Path,
}

/// How a copy or a call ended, as far as that says something about the load of its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ended {
    /// It ended as it should.
    Good,
    /// It failed in any other way.
    Bad,
    /// The node withdrew it. That is not the member's fault, though the member may have been slow.
    Withdrawn,
}

impl Ended {
    /// How a copy ended, for the load of its member. `withdrawn`: the group has asked the node to withdraw the copy.
    pub(super) fn of(end: End, outcome: Outcome, withdrawn: bool) -> Self {
        match end {
            End::Good => Self::Good,
            End::Never if withdrawn && outcome == Outcome::Cancelled => Self::Withdrawn,
            End::Never | End::Doubtful => Self::Bad,
        }
    }
}

/// A load metric. A group asks for the cost of each member that it may choose, and chooses the cheapest.
///
/// Times are durations since the group was made. No method may block: the group calls them under a lock.
///
/// ```
/// use std::time::Duration;
/// use exonet::NodeId;
/// use exonet::group::{Ended, Load, Path};
///
/// /// The nearest first, whatever they have to do.
/// struct Nearest;
///
/// impl Load for Nearest {
///     fn cost(&mut self, _: Duration, _: &NodeId, path: Path) -> f64 {
///         path.rtt.unwrap_or(Duration::ZERO).as_secs_f64()
///     }
///     fn sent(&mut self, _: Duration, _: &NodeId) {}
///     fn ended(&mut self, _: Duration, _: &NodeId, _: Duration, _: Ended) {}
///     fn removed(&mut self, _: &NodeId) {}
/// }
/// ```
pub trait Load: Send + 'static {
    /// Returns what one more message would cost at the member. The group chooses a member with the smallest cost.
    fn cost(&mut self, now: Duration, member: &NodeId, path: Path) -> f64;

    /// Notes that a message or a call was put into the queue to the member.
    fn sent(&mut self, now: Duration, member: &NodeId);

    /// Notes that such a message or call has ended, `took` after it was put into the queue.
    fn ended(&mut self, now: Duration, member: &NodeId, took: Duration, how: Ended);

    /// Notes that the member has left the group. Messages that are still open there may end later.
    fn removed(&mut self, member: &NodeId);
}

/// The default load metric: `time x (1 + open) / (1 - loss)^2`.
///
/// *Time* is a mean of how long messages took from sending to their end, with an exponential weight over 10 s. A
/// higher value replaces it at once. If a member with open messages has returned nothing for longer than a round
/// trip, this silence counts as a time too. A message that failed counts as at least one second: a member that
/// refuses fast is not fast. Every 5 s, the time of an unused member moves half-way to the median of all, so that the
/// group tries a slow member again.
#[derive(Debug, Default)]
pub struct PeakEwma {
    members: BTreeMap<NodeId, Member>,
    drifted: Duration,
}

/// The age at which the weight of a sample is 1/e.
const TAU: Duration = Duration::from_secs(10);

/// How often the times of unused members move towards the median.
const DRIFT: Duration = Duration::from_secs(5);

/// The shortest time that a failure counts as, in seconds.
const FAILURE: f64 = 1.0;

/// The time in seconds that the metric assumes for a member before it has measured any.
const UNKNOWN: f64 = 0.001;

/// The largest loss that the metric uses: a larger one counts as this one.
const WORST_LOSS: f64 = 0.9;

#[derive(Debug, Default)]
struct Member {
    /// The mean time in seconds. None: nothing has ended at the member yet.
    time: Option<f64>,
    sampled: Duration,
    used: Duration,
    open: u64,
    /// Since when the member has returned nothing, although a message was open.
    silent_since: Duration,
}

impl Member {
    fn sample(&mut self, now: Duration, seconds: f64) {
        let age = now.saturating_sub(self.sampled).as_secs_f64();
        self.time = Some(match self.time {
            Some(time) if seconds < time => {
                let kept = (-age / TAU.as_secs_f64()).exp();
                time * kept + seconds * (1.0 - kept)
            }
            _ => seconds,
        });
        self.sampled = now;
    }
}

impl PeakEwma {
    fn median(&self) -> Option<f64> {
        let mut times: Vec<f64> = self.members.values().filter_map(|member| member.time).collect();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    }

    fn drift(&mut self, now: Duration) {
        let periods = now.saturating_sub(self.drifted).as_secs() / DRIFT.as_secs();
        if periods == 0 {
            return;
        }
        self.drifted = now;
        let Some(median) = self.median() else { return };
        let kept = 0.5_f64.powi(i32::try_from(periods).unwrap_or(i32::MAX));
        for member in self.members.values_mut().filter(|member| member.open == 0) {
            if now.saturating_sub(member.used) >= DRIFT
                && let Some(time) = &mut member.time
            {
                *time = median + (*time - median) * kept;
            }
        }
    }
}

impl Load for PeakEwma {
    fn cost(&mut self, now: Duration, member: &NodeId, path: Path) -> f64 {
        self.drift(now);
        let known = self.members.get(member);
        let time = known.and_then(|member| member.time).or_else(|| self.median()).unwrap_or(UNKNOWN);
        let silent = known
            .filter(|member| member.open > 0)
            .map_or(Duration::ZERO, |member| now.saturating_sub(member.silent_since));
        let time = if silent > path.rtt.unwrap_or_default() { time.max(silent.as_secs_f64()) } else { time };
        let open = known.map_or(0, |member| u32::try_from(member.open).unwrap_or(u32::MAX));
        let arrives = 1.0 - path.loss.clamp(0.0, WORST_LOSS);
        time * (1.0 + f64::from(open)) / (arrives * arrives)
    }

    fn sent(&mut self, now: Duration, member: &NodeId) {
        let member = self.members.entry(*member).or_default();
        if member.open == 0 {
            member.silent_since = now;
        }
        member.open += 1;
        member.used = now;
    }

    fn ended(&mut self, now: Duration, member: &NodeId, took: Duration, how: Ended) {
        // If the member has left the group, it is not added again.
        let Some(member) = self.members.get_mut(member) else { return };
        member.open = member.open.saturating_sub(1);
        member.used = now;
        let took = took.as_secs_f64();
        match how {
            Ended::Good => member.sample(now, took),
            Ended::Bad => member.sample(now, took.max(FAILURE)),
            // Without the withdrawal, the copy would have taken at least this long.
            Ended::Withdrawn if member.time.is_none_or(|time| took > time) => member.sample(now, took),
            Ended::Withdrawn => return,
        }
        if how != Ended::Withdrawn {
            member.silent_since = now;
        }
    }

    fn removed(&mut self, member: &NodeId) {
        self.members.remove(member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId([1; 32]);
    const B: NodeId = NodeId([2; 32]);
    const C: NodeId = NodeId([3; 32]);

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn path(loss: f64) -> Path {
        Path { rtt: Some(at(10)), loss }
    }

    fn done(load: &mut PeakEwma, now: u64, member: &NodeId, took: u64, how: Ended) {
        load.sent(at(now - took), member);
        load.ended(at(now), member, at(took), how);
    }

    #[test]
    fn a_rise_counts_at_once_and_a_fall_slowly() {
        let mut load = PeakEwma::default();
        done(&mut load, 1_000, &A, 10, Ended::Good);
        assert!((load.cost(at(1_000), &A, path(0.0)) - 0.010).abs() < 1e-9);
        done(&mut load, 2_000, &A, 500, Ended::Good);
        assert!((load.cost(at(2_000), &A, path(0.0)) - 0.500).abs() < 1e-9);
        done(&mut load, 4_000, &A, 10, Ended::Good);
        let kept = (-0.2_f64).exp();
        let expected = 0.5 * kept + 0.01 * (1.0 - kept);
        assert!((load.cost(at(4_000), &A, path(0.0)) - expected).abs() < 1e-9);
    }

    #[test]
    fn what_is_open_and_what_is_lost_make_it_dearer() {
        let mut load = PeakEwma::default();
        done(&mut load, 1_000, &A, 10, Ended::Good);
        let alone = load.cost(at(1_000), &A, path(0.0));
        assert!((load.cost(at(1_000), &A, path(0.5)) / alone - 4.0).abs() < 1e-9);
        assert!(load.cost(at(1_000), &A, path(1.0)).is_finite());
        load.sent(at(1_000), &A);
        assert!((load.cost(at(1_000), &A, path(0.0)) / alone - 2.0).abs() < 1e-9);
    }

    #[test]
    fn silence_counts_beyond_a_round_trip() {
        let mut load = PeakEwma::default();
        done(&mut load, 1_000, &A, 1, Ended::Good);
        load.sent(at(1_000), &A);
        assert!(load.cost(at(1_009), &A, path(0.0)) < 0.003, "not before");
        assert!(load.cost(at(1_300), &A, path(0.0)) >= 0.6);
        load.ended(at(1_300), &A, at(300), Ended::Good);
        load.sent(at(1_301), &A);
        load.sent(at(1_301), &A);
        load.ended(at(1_400), &A, at(99), Ended::Good);
        assert!(load.cost(at(1_401), &A, path(0.0)) < 0.7, "it is heard of now and then");
    }

    #[test]
    fn one_that_refuses_fast_is_not_fast() {
        let mut load = PeakEwma::default();
        done(&mut load, 1_000, &A, 1, Ended::Bad);
        done(&mut load, 1_000, &B, 100, Ended::Good);
        assert!(load.cost(at(1_000), &A, path(0.0)) > load.cost(at(1_000), &B, path(0.0)));
        done(&mut load, 1_000, &B, 1, Ended::Withdrawn);
        assert!((load.cost(at(1_000), &B, path(0.0)) - 0.1).abs() < 1e-9, "what was withdrawn says no more");
    }

    #[test]
    fn an_unused_member_drifts_to_the_median() {
        let mut load = PeakEwma::default();
        done(&mut load, 1_000, &A, 900, Ended::Good);
        for now in [1_000, 4_000, 8_000] {
            done(&mut load, now, &B, 100, Ended::Good);
            done(&mut load, now, &C, 100, Ended::Good);
        }
        assert!((load.cost(at(8_000), &A, path(0.0)) - 0.5).abs() < 1e-6);
        assert!((load.cost(at(8_000), &B, path(0.0)) - 0.1).abs() < 1e-6);
        assert!(load.cost(at(60_000), &A, path(0.0)) < 0.102);
    }

    #[test]
    fn a_stranger_costs_what_most_do_and_one_that_left_is_forgotten() {
        let mut load = PeakEwma::default();
        assert!(load.cost(at(0), &A, Path::default()) > 0.0);
        done(&mut load, 1_000, &B, 200, Ended::Good);
        assert!((load.cost(at(1_000), &A, path(0.0)) - 0.2).abs() < 1e-9);
        load.sent(at(1_000), &B);
        load.removed(&B);
        load.ended(at(2_000), &B, at(1_000), Ended::Good);
        assert!(load.members.is_empty());
    }
}
