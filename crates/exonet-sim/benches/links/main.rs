//! How real nodes use links, on virtual time: share of the link, queue, drops, wire bytes, latencies of calls, fairness.
//!
//! `cargo bench -p exonet-sim --bench links`; an argument picks the rows whose names have it, `--cubic` measures CUBIC,
//! and `--drowsy=MICROSECONDS` has nodes wake up that late, but for shares.

#![allow(unreachable_pub, clippy::cast_precision_loss, clippy::indexing_slicing, missing_docs)]

use core::time::Duration;

use exonet_proto::node::{Config, CongestionChoice, Policy};
use exonet_sim::course::{Course, Direction, PACKET, SIZE, Way};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Runs of a row whose figures hang on which packets are lost.
const SEEDS: u64 = 20;

struct Bench {
    part: String,
    config: Config,
    drowsiness: Duration,
}

fn main() {
    let arguments = || std::env::args().skip(1).filter(|argument| argument != "--bench");
    let congestion = if arguments().any(|it| it == "--cubic") {
        CongestionChoice::Cubic
    } else {
        CongestionChoice::default()
    };
    let part = arguments().find(|it| !it.starts_with("--")).unwrap_or_default();
    let drowsiness = arguments().find_map(|it| it.strip_prefix("--drowsy=")?.parse().ok()).unwrap_or(0);
    let drowsiness = Duration::from_micros(drowsiness);
    let bench = Bench { part, drowsiness, config: Config { congestion, ..Config::new(Policy::Anyone) } };
    bench.losses();
    bench.sizes();
    bench.shares();
    bench.calls();
    bench.cold();
}

impl Bench {
    fn wants(&self, name: &str) -> bool {
        name.contains(&self.part)
    }

    fn losses(&self) {
        for loss in [0.0, 0.01, 0.05, 0.1, 0.2] {
            let name = format!("bulk 100 Mbit/s 10 ms, {:.0} %", loss * 100.0);
            self.bulk(&name, Way::new(100.0, 10 * MS).losing(loss), Way::new(100.0, 10 * MS).losing(loss));
        }
        let bursts = Way::new(100.0, 10 * MS).bursting(0.05, 10.0);
        self.bulk("bulk 100 Mbit/s 10 ms, 5 % bursts", bursts, Way::new(100.0, 10 * MS));
    }

    fn sizes(&self) {
        for rate in [1.0, 10.0, 100.0] {
            for rtt in [6, 10, 100] {
                let way = Way::new(rate, rtt * MS);
                self.bulk(&format!("bulk {rate} Mbit/s {rtt} ms, 0 %"), way.clone(), way);
            }
        }
        let way = Way::new(50.0, 200 * MS);
        self.bulk("bulk 50 Mbit/s 200 ms, 0 %", way.clone(), way.clone());
        self.bulk("bulk 50 Mbit/s 200 ms, 1 %", way.clone().losing(0.01), way.losing(0.01));
        let (down, up) = (Way::new(30.0, 20 * MS), Way::new(3.0, 20 * MS));
        self.bulk("bulk 30 against 3 Mbit/s 20 ms", down.clone(), up.clone());
        self.bulk("bulk 3 against 30 Mbit/s 20 ms", up, down);
        self.both("both 3 and 30 Mbit/s 80 ms", Way::new(3.0, 80 * MS), Way::new(30.0, 80 * MS));
        self.both("both 100 Mbit/s 10 ms", Way::new(100.0, 10 * MS), Way::new(100.0, 10 * MS));
    }

    /// Both ends of one connection send: warms up for 3 s, then is measured.
    fn both(&self, name: &str, there: Way, back: Way) {
        if !self.wants(name) {
            return;
        }
        let rates = [there.rate, back.rate].map(|rate| rate as f64);
        let rtt = there.delay * 2;
        let mut course = Course::new(1, there, back);
        (course.drowsiness, course.slack) = (self.drowsiness, self.drowsiness);
        let pair = course.both(&self.config);
        course.run_for(3 * SECOND);
        course.take_traffic(Direction::There);
        course.take_traffic(Direction::Back);
        let _ = (course.take_received(pair), course.take_returned(pair));
        let span = 8 * SECOND;
        course.run_for(span);
        let received = [course.take_received(pair), course.take_returned(pair)].map(|it| it as f64);
        for (at, way) in [(0, Direction::There), (1, Direction::Back)] {
            let traffic = course.take_traffic(way);
            println!(
                "{name:38} use {:5.1} %  {:7.1}/s  queue {:4.2} RTT  drops {:5.2} %  wire {:5.3}",
                received[at] * PACKET as f64 / (rates[at] * span.as_secs_f64()) * 100.0,
                received[at] / span.as_secs_f64(),
                traffic.median_wait().as_secs_f64() / rtt.as_secs_f64(),
                traffic.drop_rate() * 100.0,
                traffic.bytes as f64 / (received[at] * SIZE as f64),
            );
        }
    }

    /// One sender alone: warms up for 3 s or 20 round trips, then is measured.
    fn bulk(&self, name: &str, there: Way, back: Way) {
        if !self.wants(name) {
            return;
        }
        let (rate, rtt) = (there.rate as f64, there.delay * 2);
        let kept = there.kept();
        let mut course = Course::new(1, there, back);
        (course.drowsiness, course.slack) = (self.drowsiness, self.drowsiness);
        let pair = course.bulk(&self.config, Direction::There, Duration::ZERO);
        course.run_for((rtt * 20).max(3 * SECOND));
        let start = course.take_traffic(Direction::There);
        course.take_received(pair);
        let span = (rtt * 50).max(8 * SECOND);
        course.run_for(span);
        let received = course.take_received(pair) as f64;
        let traffic = course.take_traffic(Direction::There);
        let used = received * PACKET as f64 / (rate * kept * span.as_secs_f64());
        println!(
            "{name:38} use {:5.1} %  queue {:6.2} ms ({:4.2} RTT)  drops {:5.2} %  at start {:4}  wire x kept {:5.3}",
            used * 100.0,
            traffic.median_wait().as_secs_f64() * 1e3,
            traffic.median_wait().as_secs_f64() / rtt.as_secs_f64(),
            traffic.drop_rate() * 100.0,
            start.dropped,
            traffic.bytes as f64 / (received * SIZE as f64) * kept,
        );
        if std::env::var("DBG").is_ok() {
            let s = course.node(pair).map(|n| *n.counts()).unwrap_or_default();
            println!(
                "    lost {} out {} mean size {:.1} received {received} datagrams {}",
                s.packets_lost,
                s.datagrams_out,
                traffic.bytes as f64 / traffic.datagrams as f64,
                traffic.datagrams
            );
        }
    }

    fn shares(&self) {
        for (rate, rtt) in [(100.0, 10), (10.0, 10), (10.0, 100), (100.0, 100)] {
            for (rival, choice) in [("itself", self.config.congestion), ("CUBIC", CongestionChoice::Cubic)] {
                for wait in [0, 3_000, -3_000] {
                    let name = format!("share {rate} Mbit/s {rtt} ms, {rival}, {wait:+} ms");
                    self.share(&name, Way::new(rate, rtt * MS), choice, wait);
                }
            }
        }
    }

    /// Two senders; ours begins later by `wait` milliseconds, or the other if that is negative.
    fn share(&self, name: &str, way: Way, rival: CongestionChoice, wait: i64) {
        if !self.wants(name) {
            return;
        }
        let other = Config { congestion: rival, ..self.config.clone() };
        let later = Duration::from_millis(wait.unsigned_abs());
        let (ours, theirs) = if wait < 0 { (Duration::ZERO, later) } else { (later, Duration::ZERO) };
        let (rate, rtt) = (way.rate as f64, way.delay * 2);
        let mut course = Course::new(2, way.clone(), way);
        let pairs = [
            course.bulk(&self.config, Direction::There, ours),
            course.bulk(&other, Direction::There, theirs),
        ];
        course.run_for(later + 2 * SECOND);
        let _ = pairs.map(|pair| course.take_received(pair));
        course.take_traffic(Direction::There);
        let span = 20 * SECOND;
        course.run_for(span);
        let [a, b] = pairs.map(|pair| course.take_received(pair) as f64);
        let traffic = course.take_traffic(Direction::There);
        println!(
            "{name:38} share {:5.1} %  together {:5.1} %  queue {:4.2} RTT  drops {:5.2} %",
            a / (a + b) * 100.0,
            (a + b) * PACKET as f64 / (rate * span.as_secs_f64()) * 100.0,
            traffic.median_wait().as_secs_f64() / rtt.as_secs_f64(),
            traffic.drop_rate() * 100.0,
        );
    }

    fn calls(&self) {
        for loss in [0.0, 0.01, 0.05] {
            for actors in [1, 10, 100, 400] {
                let way = Way::new(100.0, 10 * MS).losing(loss);
                self.call(&format!("calls {:.0} %, {actors} actors", loss * 100.0), way, actors);
            }
        }
        for (rate, rtt) in [(1.0, 6), (10.0, 6), (10.0, 100)] {
            self.call(&format!("calls {rate} Mbit/s {rtt} ms, 100 actors"), Way::new(rate, rtt * MS), 100);
        }
    }

    fn call(&self, name: &str, way: Way, actors: u64) {
        if !self.wants(name) {
            return;
        }
        let mut course = Course::new(3, way.clone(), way);
        (course.drowsiness, course.slack) = (self.drowsiness, self.drowsiness);
        let pair = course.calls(&self.config, actors);
        course.run_for(2 * SECOND);
        course.take_latencies(pair);
        course.take_traffic(Direction::There);
        let span = if actors > 50 { 8 * SECOND } else { 40 * SECOND };
        course.run_for(span);
        let latencies = course.take_latencies(pair);
        let traffic = course.take_traffic(Direction::There);
        println!(
            "{name:38} {:8.1}/s  p50 {:6.2} ms  p99 {:6.2} ms  p99.9 {:6.2} ms  wire {:5.3}",
            latencies.count() as f64 / span.as_secs_f64(),
            latencies.quantile(0.5).as_secs_f64() * 1e3,
            latencies.quantile(0.99).as_secs_f64() * 1e3,
            latencies.quantile(0.999).as_secs_f64() * 1e3,
            traffic.bytes as f64 / (latencies.count() * SIZE) as f64,
        );
    }

    fn cold(&self) {
        for rtt in [10, 200] {
            for loss in [0.0, 0.05, 0.2] {
                let way = Way::new(100.0, rtt * MS).losing(loss);
                let link = format!("{rtt} ms, {:.0} %", loss * 100.0);
                self.batch(&format!("cold 400, {link}"), &way, 400, false);
                self.batch(&format!("cold 4000, {link}"), &way, 4_000, false);
                self.batch(&format!("cold 400 calls, {link}"), &way, 400, true);
            }
        }
        for (rate, rtt) in [(1.0, 10), (1.0, 100), (10.0, 10), (10.0, 100), (1_000.0, 10)] {
            self.batch(&format!("cold 400, {rate} Mbit/s {rtt} ms"), &Way::new(rate, rtt * MS), 400, false);
        }
    }

    /// So many messages, or calls, at once to a peer never met: until the last has arrived, and is settled or answered.
    fn batch(&self, name: &str, way: &Way, messages: u64, calls: bool) {
        if !self.wants(name) {
            return;
        }
        let (mut arrived, mut settled, mut dropped, mut longest) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for seed in 0..SEEDS {
            let mut course = Course::new(seed, way.clone(), way.clone());
            (course.drowsiness, course.slack) = (self.drowsiness, self.drowsiness);
            let pair = course.batch(&self.config, messages, calls);
            let (last, all) =
                course.run_until_settled(pair, 60 * SECOND).unwrap_or((60 * SECOND, 60 * SECOND));
            arrived.push(last);
            settled.push(all);
            let traffic = course.take_traffic(Direction::There);
            dropped.push(traffic.dropped);
            longest.push(traffic.longest_wait());
        }
        for all in [&mut arrived, &mut settled, &mut longest] {
            all.sort_unstable();
        }
        dropped.sort_unstable();
        let ms =
            |sorted: &[Duration], part: usize| sorted[(sorted.len() - 1) * part / 100].as_secs_f64() * 1e3;
        println!(
            "{name:38} arrived p50 {:7.1} ms  settled p50 {:7.1} p90 {:7.1} max {:7.1} ms  longest queue {:6.1} ms  dropped {:3}",
            ms(&arrived, 50),
            ms(&settled, 50),
            ms(&settled, 90),
            ms(&settled, 100),
            ms(&longest, 50),
            dropped[dropped.len() / 2],
        );
    }
}
