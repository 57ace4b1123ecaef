//! The capacity of a link. A run whose figure is above it has counted messages of another time, and fails.

use super::{Lane, Plan};
use crate::app::Work;
use crate::link::Shape;
use crate::peer::Peer;

/// The size of an IP packet.
const PACKET: f64 = 1_500.0;
/// How far above it a figure may be: time is read a little before or after counts are.
const TOLERANCE: f64 = 1.005;

/// Messages of so many bytes a second that fit on a direction of a link which lost this share, with the least headers that
/// the peer's packets have.
#[allow(clippy::cast_precision_loss)] // far below 2^53
fn capacity(peer: &Peer, bytes: usize, shape: &Shape, lost: f64) -> f64 {
    let (headers, frame) = match peer.name {
        // IPv4, and TCP with its clock; a length before each message.
        name if name.starts_with("tcp") => (52.0, 4.0),
        "zmq" => (52.0, if bytes < 256 { 2.0 } else { 9.0 }),
        // IPv4 and UDP.
        _ => (28.0, 0.0),
    };
    let carried = shape.rate as f64 / 8.0 * (PACKET - headers) / PACKET;
    carried * (1.0 - lost) / (bytes as f64 + frame)
}

/// The share of what was sent on the line that did not arrive.
#[allow(clippy::cast_precision_loss)] // packets
fn lost(lane: &Lane) -> f64 {
    lane.lost as f64 / lane.packets.saturating_sub(lane.dropped).max(1) as f64
}

impl Plan {
    /// Says so if a rate is more than the link carries: messages that had waited at the receiver for one before them when
    /// counting began, say.
    pub(super) fn over(&self, peer: &Peer, [rate, rate_back]: [f64; 2], lanes: &[Lane; 2]) -> Option<String> {
        let [forward, back] = self.link.as_ref()?;
        let [there, here] = [(forward, &lanes[0]), (back, &lanes[1])]
            .map(|(shape, lane)| capacity(peer, self.bytes, shape, lost(lane)));
        let check = |rate: f64, most: f64| {
            (rate > most * TOLERANCE)
                .then(|| format!("{rate:.0} a second are more than the {most:.0} that the link carries"))
        };
        match self.work {
            Work::OneWay | Work::Crowd { .. } | Work::Lanes { .. } => check(rate, there),
            Work::BothWays => check(rate, there).or_else(|| check(rate_back, here)),
            Work::Calls { .. } => check(rate, there.min(here)),
            // The figure of these is a time.
            Work::Cold { .. }
            | Work::Contact { .. }
            | Work::Sessions { .. }
            | Work::Durable { .. }
            | Work::Fan { .. }
            | Work::Spread { .. }
            | Work::Download { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::link::Loss;
    use crate::peer;

    fn plan(work: Work) -> Plan {
        let shape = |mbit| Shape::new(mbit, Duration::from_millis(10), Loss::None);
        Plan {
            link: Some([shape(10.0), shape(1.0)]),
            spokes: Vec::new(),
            work,
            bytes: 1_024,
            flows: Vec::new(),
            warm_up: Duration::ZERO,
            span: Duration::from_secs(1),
            seed: 1,
            patient: true,
        }
    }

    #[test]
    fn a_rate_above_the_line_is_told() {
        let (udp, tcp) = (peer::find("exonet").unwrap(), peer::find("tcp-bbr").unwrap());
        let lanes = [Lane::default(), Lane::default()];
        let told = |work, peer, rates| plan(work).over(peer, rates, &lanes).is_some();
        // 10 Mbit/s are 833.3 packets, of 1,472 bytes each: 1,197.9 messages.
        assert!(!told(Work::OneWay, udp, [1_203.0, 0.0]) && told(Work::OneWay, udp, [1_204.5, 0.0]));
        assert!(told(Work::OneWay, tcp, [1_182.0, 0.0]), "it has larger headers");
        assert!(told(Work::Calls { actors: 1 }, udp, [125.0, 0.0]), "answers take the slower way");
        assert!(told(Work::BothWays, udp, [1_000.0, 125.0]) && !told(Work::BothWays, udp, [1_000.0, 119.0]));
    }

    #[test]
    fn what_is_lost_is_not_carried() {
        let udp = peer::find("exonet").unwrap();
        let half = Lane { packets: 1_100, dropped: 100, lost: 500, ..Lane::default() };
        let told =
            |rate| plan(Work::OneWay).over(udp, [rate, 0.0], &[half.clone(), Lane::default()]).is_some();
        assert!(!told(599.0) && told(605.0));
    }
}
