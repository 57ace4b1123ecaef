use proptest::prelude::*;

use super::*;
use crate::channel::Rtt;
use crate::channel::congestion::tests::ack;

const MTU: u16 = 1_200;
const SEGMENT: f64 = 1_200.0;
const RTT: Duration = Duration::from_millis(100);

fn ms(ms: u64) -> Mono {
    Mono(ms * 1_000_000)
}

/// A controller and the path that it controls.
struct Flow {
    cubic: Cubic,
    path: Rtt,
}

impl Flow {
    fn new() -> Self {
        let mut path = Rtt::default();
        path.on_sample(ms(0), RTT, Duration::ZERO);
        Self { cubic: Cubic::new(MTU), path }
    }

    /// A flow that has left slow start by a loss at time zero, with `segments` before it.
    fn reduced_from(segments: u64) -> Self {
        let mut flow = Self::new();
        flow.cubic.window.cwnd = segments as f64 * SEGMENT;
        flow.lose(0, 0);
        flow
    }

    fn ack_info(&self, now: u64, sent: u64, bytes: u64) -> AckInfo<'_> {
        AckInfo {
            in_flight: self.cubic.window().saturating_sub(bytes),
            sent_at: ms(sent),
            rtt: Some(RTT),
            ..ack(ms(now), bytes, &self.path)
        }
    }

    fn ack(&mut self, now: u64, sent: u64, bytes: u64) {
        let ack = AckInfo { path: &self.path.clone(), ..self.ack_info(now, sent, bytes) };
        self.cubic.on_ack(ack);
    }

    fn lose(&mut self, now: u64, sent: u64) {
        self.cubic.on_loss(Self::loss(now, sent));
    }

    fn loss(now: u64, sent: u64) -> LossInfo {
        LossInfo { now: ms(now), bytes: 1_200, sent_at: ms(sent), tag: 0, in_flight: 0 }
    }

    /// Acknowledges a window each round trip from `from` to `to`, in ten pieces.
    fn run(&mut self, from: u64, to: u64) {
        for now in (from..to).step_by(10) {
            let bytes = self.cubic.window() / 10;
            self.ack(now, now - 100, bytes);
        }
    }

    fn segments(&self) -> f64 {
        self.cubic.window.cwnd / SEGMENT
    }
}

#[test]
fn the_initial_window_is_that_of_rfc_9002() {
    assert_eq!(initial_window(1_200), 12_000);
    assert_eq!(initial_window(1_472), 14_720);
    assert_eq!(initial_window(9_000), 18_000);
    assert_eq!(Cubic::new(MTU).window(), 12_000);
}

#[test]
fn slow_start_doubles_each_round() {
    let mut flow = Flow::new();
    for round in 1..6 {
        let window = flow.cubic.window();
        flow.ack(round * 100, round * 100 - 100, window);
        assert_eq!(flow.cubic.window(), 2 * window);
    }
    assert!(flow.cubic.in_slow_start());
    assert_eq!(flow.cubic.pacing_gain(), 200);
}

#[test]
fn a_loss_takes_three_tenths_once_per_round() {
    let mut flow = Flow::new();
    flow.cubic.window.cwnd = 100.0 * SEGMENT;
    flow.lose(1_000, 900);
    assert!((flow.segments() - 70.0).abs() < 1e-9);
    // This packet was sent before the reduction, so it belongs to the same round. Nothing grows by what was sent then.
    flow.lose(1_050, 999);
    flow.ack(1_060, 1_000, 12_000);
    assert!((flow.segments() - 70.0).abs() < 1e-9);
    flow.lose(1_100, 1_001);
    assert!((flow.segments() - 49.0).abs() < 1e-9);
    assert_eq!(flow.cubic.pacing_gain(), 125);
}

#[test]
fn the_window_never_falls_below_four_segments() {
    let mut flow = Flow::new();
    for round in 0..100 {
        flow.lose(round * 100 + 100, round * 100 + 1);
    }
    assert_eq!(flow.cubic.window(), 4 * 1_200);
}

#[test]
fn fast_convergence_makes_room() {
    let mut flow = Flow::reduced_from(100);
    assert!((flow.cubic.window.w_max / SEGMENT - 100.0).abs() < 1e-9);
    flow.lose(200, 150);
    // 70 is below 100: not 70 but 70 x 0.85.
    assert!((flow.cubic.window.w_max / SEGMENT - 59.5).abs() < 1e-9);
}

#[test]
fn growth_follows_the_cubic_function() {
    let mut flow = Flow::reduced_from(400);
    let k = (400.0_f64 * 0.3 / 0.4).cbrt();
    let start = 100;
    let mut now = start;
    for second in 1..=12_u64 {
        let to = start + second * 1_000;
        flow.run(now, to);
        now = to;
        let t = second as f64 - k;
        let law = 0.4 * t * t * t + 400.0;
        let off = flow.segments() / law - 1.0;
        assert!(off.abs() < 0.004, "after {second} s: {} segments, the law says {law}", flow.segments());
    }
    assert!(flow.segments() > 440.0, "past the plateau");
}

#[test]
fn small_windows_grow_as_reno() {
    let mut flow = Flow::reduced_from(20);
    let start = flow.segments();
    // K is 2.5 s: Reno is ahead by then, with 3 (1 - beta) / (1 + beta) segments a round until the window
    // before the loss, and with one a round from then on.
    flow.run(100, 1_100);
    assert!((flow.segments() - start - 10.0 * ALPHA).abs() < 0.5, "{}", flow.segments() - start);
    let mut flow = Flow::reduced_from(8);
    flow.run(100, 2_100);
    let before = flow.segments();
    flow.run(2_100, 3_100);
    assert!((flow.segments() - before - 10.0).abs() < 0.7, "{}", flow.segments() - before);
}

#[test]
fn a_rise_of_the_round_trip_time_ends_slow_start() {
    let mut flow = Flow::new();
    let mut now = 0;
    for round in 0..12_u64 {
        let rtt = if round < 3 { 100 } else { 120 };
        let sent = now;
        now += rtt;
        let bytes = flow.cubic.window() / 10;
        for _ in 0..10 {
            let path = flow.path;
            let info = AckInfo {
                rtt: Some(Duration::from_millis(rtt)),
                path: &path,
                ..flow.ack_info(now, sent, bytes)
            };
            flow.cubic.on_ack(info);
        }
    }
    assert!(!flow.cubic.in_slow_start());
    // Three rounds in full (one of them seen only at its end), five by a quarter: far from 2^12.
    assert!(flow.segments() < 10.0 * 2_f64.powi(4) * 1.3_f64.powi(6), "{}", flow.segments());
}

#[test]
fn after_silence_slow_start_begins_anew() {
    let mut flow = Flow::new();
    for (now, sent, rtt) in [(100, 0, 100), (220, 110, 120)] {
        for _ in 0..10 {
            let path = flow.path;
            let rtt = Some(Duration::from_millis(rtt));
            let info = AckInfo { rtt, path: &path, ..flow.ack_info(now, sent, 1_200) };
            flow.cubic.on_ack(info);
        }
    }
    flow.cubic.on_persistent_congestion(ms(1_000));
    // The quarter of conservative slow start is forgotten.
    let before = flow.cubic.window();
    flow.ack(2_000, 1_900, 1_200);
    assert_eq!(flow.cubic.window(), before + 1_200);
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut flow = Flow::reduced_from(100);
    let before = flow.segments();
    for now in (100..5_000).step_by(10) {
        let path = flow.path;
        let info = AckInfo { app_limited: true, path: &path, ..flow.ack_info(now, now, 1_200) };
        flow.cubic.on_ack(info);
    }
    assert!((flow.segments() - before).abs() < 1e-9);
    // Nor does the window jump when it is used again: that time did not count.
    flow.run(5_000, 5_100);
    let mut fresh = Flow::reduced_from(100);
    fresh.run(100, 200);
    assert!((flow.segments() - fresh.segments()).abs() < 1.0, "{} {}", flow.segments(), fresh.segments());
}

#[test]
fn a_pause_in_growth_does_not_count() {
    let mut paused = Flow::reduced_from(200);
    paused.run(100, 2_000);
    paused.cubic.on_idle_restart(ms(62_000), Duration::from_secs(60));
    paused.run(62_000, 62_500);
    let mut steady = Flow::reduced_from(200);
    steady.run(100, 2_500);
    assert!((paused.segments() / steady.segments() - 1.0).abs() < 0.01);
}

#[test]
fn slow_start_while_app_limited_grows_to_twice_what_is_used() {
    let mut flow = Flow::new();
    for round in 1..20_u64 {
        let path = flow.path;
        let info = AckInfo {
            app_limited: true,
            path: &path,
            in_flight: 0,
            ..flow.ack_info(round * 100, round * 100 - 100, 10_000)
        };
        flow.cubic.on_ack(info);
    }
    assert!(flow.cubic.window() <= 30_000, "{}", flow.cubic.window());
}

#[test]
fn a_reduction_for_nothing_is_undone() {
    let mut flow = Flow::new();
    flow.cubic.window.cwnd = 100.0 * SEGMENT;
    flow.lose(1_000, 900);
    flow.lose(1_000, 901);
    flow.cubic.on_spurious_loss(Flow::loss(1_010, 900));
    assert!((flow.segments() - 70.0).abs() < 1e-9, "one of the two is still lost");
    flow.cubic.on_spurious_loss(Flow::loss(1_010, 901));
    assert!((flow.segments() - 100.0).abs() < 1e-9);
    assert!(flow.cubic.in_slow_start());
}

#[test]
fn a_spurious_loss_of_an_earlier_round_undoes_nothing_else() {
    let mut flow = Flow::new();
    flow.cubic.window.cwnd = 100.0 * SEGMENT;
    flow.lose(1_000, 900);
    flow.cubic.on_spurious_loss(Flow::loss(1_200, 1_100));
    assert!((flow.segments() - 70.0).abs() < 1e-9);
}

#[test]
fn silence_leads_to_the_smallest_window_and_slow_start() {
    let mut flow = Flow::new();
    flow.cubic.window.cwnd = 100.0 * SEGMENT;
    flow.cubic.on_persistent_congestion(ms(1_000));
    assert_eq!(flow.cubic.window(), 4 * 1_200);
    assert!(flow.cubic.in_slow_start());
    assert!((flow.cubic.window.ssthresh / SEGMENT - 70.0).abs() < 1e-9);
    flow.lose(1_001, 900);
    flow.cubic.on_spurious_loss(Flow::loss(1_002, 900));
    assert_eq!(flow.cubic.window(), 4 * 1_200, "not undone");
}

#[test]
fn congestion_experienced_counts_as_a_loss_once_per_round() {
    let mut flow = Flow::new();
    flow.cubic.window.cwnd = 100.0 * SEGMENT;
    let path = flow.path;
    for now in [1_000, 1_010] {
        let info = AckInfo { ce: 1, path: &path, ..flow.ack_info(now, 950, 1_200) };
        flow.cubic.on_ack(info);
        assert!((flow.segments() - 70.0).abs() < 1e-9);
    }
}

#[test]
fn a_larger_mtu_raises_the_floor() {
    let mut cubic = Cubic::new(MTU);
    cubic.on_persistent_congestion(ms(0));
    cubic.on_mtu(1_472);
    assert_eq!(cubic.window(), 4 * 1_472);
}

proptest! {
    #[test]
    fn the_cube_root_is_one(x in 0.0..1e12_f64) {
        let root = cbrt(x);
        prop_assert!((root - x.cbrt()).abs() <= 1e-9 * x.cbrt().max(1e-3), "{root} {}", x.cbrt());
    }

    /// Whatever happens, the window is finite and has at least four segments, and a loss never raises it.
    #[test]
    fn the_window_stays_sane(steps in prop::collection::vec((0..6_u8, 0..500_u64, 0..500_u64), 1..300)) {
        let mut flow = Flow::new();
        let mut now = 1_000;
        for (what, wait, back) in steps {
            now += wait;
            let before = flow.cubic.window();
            match what {
                0..=2 => flow.ack(now, now - back, before / 4),
                3 => {
                    flow.lose(now, now - back);
                    prop_assert!(flow.cubic.window() <= before);
                }
                4 => flow.cubic.on_spurious_loss(Flow::loss(now, now - back)),
                _ => {
                    flow.cubic.on_persistent_congestion(ms(now));
                    prop_assert_eq!(flow.cubic.window(), 4 * 1_200);
                }
            }
            prop_assert!(flow.cubic.window.cwnd.is_finite());
            prop_assert!(flow.cubic.window() >= 4 * 1_200);
            if what < 3 {
                prop_assert!(flow.cubic.window() <= 2 * before, "no ACK more than doubles it");
            }
        }
    }
}
