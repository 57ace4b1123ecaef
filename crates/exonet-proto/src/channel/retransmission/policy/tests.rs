use super::*;
use crate::channel::congestion::Fixed;
use crate::channel::loss::Loss;
use crate::channel::{MtuSearch, Rtt};

/// A policy that gives fixed answers.
#[derive(Debug)]
struct Says {
    packets: u64,
    time: Duration,
    probes: u32,
}

impl Retransmission for Says {
    fn loss(&mut self, _: Mono, _: &PathState<'_>) -> LossThreshold {
        LossThreshold { packets: self.packets, time: self.time }
    }

    fn probe_after(&self, _: &PathState<'_>, _: u32) -> Duration {
        self.time
    }

    fn probes(&self, _: &PathState<'_>, _: u32) -> u32 {
        self.probes
    }

    fn copy_after(&mut self, _: Mono, _: &PathState<'_>, _: bool) -> Option<Duration> {
        Some(self.time)
    }
}

const MS: Duration = Duration::from_millis(1);

/// The bounded answers of `says` on a path of 40 ms: loss, first probe, probe after 97 timeouts, probes, wait before a copy.
fn bounded(says: Says) -> (LossThreshold, [Duration; 2], u32, Option<Duration>) {
    let mut rtt = Rtt::default();
    rtt.on_sample(Mono(0), 40 * MS, Duration::ZERO);
    let (loss, congestion, mtu) = (Loss::default(), Fixed::new(10_000), MtuSearch::new(1_200));
    let path = PathState {
        rtt: &rtt,
        loss: &loss,
        congestion: &congestion,
        mtu: &mtu,
        max_ack_delay: MS,
        in_flight: 0,
        packets: 1,
        awaited: true,
    };
    let mut policy = Policy::Custom(Box::new(says));
    let probes = [policy.probe_after(&path, 0), policy.probe_after(&path, 97)];
    (policy.loss(Mono(0), &path), probes, policy.probes(&path, 1), policy.copy_after(Mono(0), &path, false))
}

#[test]
fn a_policy_that_never_sends_again_does_so_within_bounds() {
    let never = Says { packets: u64::MAX, time: Duration::MAX, probes: 0 };
    let (loss, probe, probes, copy) = bounded(never);
    assert_eq!(loss, LossThreshold { packets: 1_000, time: 1_000 * MS });
    assert_eq!((probe, probes, copy), ([30_000 * MS; 2], 1, Some(40 * MS)));
}

#[test]
fn a_policy_that_sends_again_at_once_floods_nobody() {
    let always = Says { packets: 0, time: Duration::ZERO, probes: u32::MAX };
    let (loss, probe, probes, copy) = bounded(always);
    assert_eq!(loss, LossThreshold { packets: 1, time: MS });
    assert_eq!((probe, probes, copy), ([20 * MS, 1_000 * MS], 4, Some(Duration::ZERO)));
}

#[test]
fn what_is_within_bounds_counts() {
    let (loss, probe, probes, copy) = bounded(Says { packets: 7, time: 25 * MS, probes: 2 });
    assert_eq!(loss, LossThreshold { packets: 7, time: 25 * MS });
    assert_eq!((probe, probes, copy), ([25 * MS, 1_000 * MS], 2, Some(25 * MS)));
}
