//! The figures of one flow of a run.

use super::{Cold, Contact, Gathered, Killed, Plan};
use crate::app::{Mark, Quantiles, Work};
use crate::link::LaneStats;
use crate::peer::Peer;

/// One flow of one run, between warm-up and end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) peer: String,
    /// Messages that arrived, or calls that were answered, a second.
    pub(crate) rate: f64,
    /// The same from the server to the client, where both send.
    pub(crate) rate_back: f64,
    /// The latency of calls, and of messages on lanes, in ms.
    pub(crate) latency: Quantiles,
    /// Processor seconds of both processes for a million messages, or calls.
    pub(crate) cpu_per_million: f64,
    /// The most memory that each process had, in bytes.
    pub(crate) client_rss: u64,
    pub(crate) server_rss: u64,
    /// IP bytes in both directions for each message that arrived, or call that was answered; only of a flow that is
    /// alone on a link.
    pub(crate) wire_bytes_each: Option<f64>,
    /// Forward and back.
    pub(crate) lanes: Option<[Lane; 2]>,
    /// Fan-out: processor time of the sender for each copy that arrived, in us.
    pub(crate) sender_cpu: Option<f64>,
    /// Members on their own links: the share of each member in all copies, in per cent.
    pub(crate) shares: Option<[f64; 3]>,
    /// Only for sessions.
    pub(crate) serving: Option<Serving>,
    /// Only for runs in which the receiver is killed.
    pub(crate) killed: Option<Killed>,
    /// Only for runs of first contact.
    pub(crate) contact: Option<Contact>,
    /// Only for cold starts.
    pub(crate) cold: Option<Cold>,
    /// Only for crowds.
    pub(crate) gathered: Option<Gathered>,
    /// Packets that a host lost before the link saw them: the run measures the machine then.
    pub(crate) dropped_at_interfaces: u64,
    pub(crate) duplicates: u64,
    pub(crate) damaged: u64,
    /// Messages that had not arrived when waiting for them ended.
    pub(crate) missing: u64,
    /// Why the run does not count.
    pub(crate) fault: Option<String>,
    /// Because it shows more than the link carries.
    pub(crate) over: bool,
}

/// What a server takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Serving {
    /// Processor time for each request that it answered, in us.
    pub(crate) cpu_each: f64,
    /// Threads at the end of the run.
    pub(crate) threads: u64,
}

/// One direction of the link during a run. Times in ms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// By the queue.
    pub(crate) dropped: u64,
    /// CE, by the queue.
    pub(crate) marked: u64,
    /// On the line.
    pub(crate) lost: u64,
    pub(crate) arrived: u64,
    pub(crate) refused: u64,
    /// The wait for the line.
    pub(crate) queue_p50: f64,
    pub(crate) queue_p99: f64,
    /// The emulator's own error.
    pub(crate) late_p99: f64,
}

impl Lane {
    pub(super) fn new(stats: &LaneStats) -> Self {
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let ms = |nanos: u64| nanos as f64 / 1e6;
        Self {
            packets: stats.packets,
            bytes: stats.bytes,
            dropped: stats.dropped,
            marked: stats.marked,
            lost: stats.lost,
            arrived: stats.arrived,
            refused: stats.refused,
            queue_p50: ms(stats.waited.value_at_quantile(0.5)),
            queue_p99: ms(stats.waited.value_at_quantile(0.99)),
            late_p99: ms(stats.late.value_at_quantile(0.99)),
        }
    }
}

impl Record {
    /// From client and server as they stood before, after and at the very end.
    pub(super) fn new(
        plan: &Plan,
        peer: &Peer,
        marks: [[Mark; 2]; 3],
        lanes: Option<[Lane; 2]>,
        dropped_at_interfaces: u64,
        ended: bool,
    ) -> Self {
        let missing = plan.missing(peer, &marks[2]);
        let [[client0, server0], [client1, server1], [client2, server2]] = &marks;
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let per_second =
            |from: &Mark, to: &Mark| (to.received - from.received) as f64 / (to.time - from.time).max(1e-9);
        let (rate, rate_back) = match plan.work {
            Work::OneWay
            | Work::Crowd { .. }
            | Work::Durable { .. }
            | Work::Lanes { .. }
            | Work::Fan { .. }
            | Work::Cold { .. } => (per_second(server0, server1), 0.0),
            Work::BothWays => (per_second(server0, server1), per_second(client0, client1)),
            Work::Calls { .. }
            | Work::Contact { .. }
            | Work::Sessions { .. }
            | Work::Spread { .. }
            | Work::Download { .. } => (per_second(client0, client1), 0.0),
        };
        let span = (client1.time - client0.time).max(1e-9);
        let cpu = (client1.cpu - client0.cpu) + (server1.cpu - server0.cpu);
        let done = (rate + rate_back) * span;
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let wire = lanes
            .as_ref()
            .filter(|_| plan.flows.len() == 1)
            .map(|lanes| lanes.iter().map(|lane| lane.bytes as f64).sum::<f64>());
        let over = lanes.as_ref().and_then(|lanes| plan.over(peer, [rate, rate_back], lanes));
        let duplicates = client2.duplicates + server2.duplicates;
        let damaged = client2.damaged + server2.damaged;
        let is_over = over.is_some();
        let fault = match () {
            () if damaged > 0 => Some(format!("{damaged} messages were damaged")),
            () if duplicates > 0 => Some(format!("{duplicates} messages arrived again")),
            () if missing > 0 && ended => {
                Some(format!("{missing} messages had not arrived long after the end"))
            }
            () if dropped_at_interfaces > 0 && lanes.is_some() => {
                Some(format!("{dropped_at_interfaces} packets were lost between a host and the link"))
            }
            () => over,
        };
        Self {
            peer: peer.name.to_owned(),
            rate,
            rate_back,
            latency: if matches!(plan.work, Work::Lanes { .. } | Work::Fan { .. } | Work::Durable { .. }) {
                server1.latency
            } else {
                client1.latency
            },
            cpu_per_million: if done > 0.0 { cpu / done * 1e6 } else { 0.0 },
            client_rss: client2.peak_rss,
            server_rss: server2.peak_rss,
            wire_bytes_each: wire.filter(|_| done > 0.0).map(|wire| wire / done),
            lanes,
            sender_cpu: (matches!(plan.work, Work::Fan { .. }) && done > 0.0)
                .then(|| (client1.cpu - client0.cpu) / done * 1e6),
            shares: None,
            killed: None,
            serving: (matches!(plan.work, Work::Sessions { .. }) && done > 0.0).then(|| Serving {
                cpu_each: (server1.cpu - server0.cpu) / done * 1e6,
                threads: server1.threads,
            }),
            contact: None,
            cold: None,
            gathered: None,
            dropped_at_interfaces,
            duplicates,
            damaged,
            missing,
            over: is_over,
            fault,
        }
    }
}
