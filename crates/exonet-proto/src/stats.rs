//! Figures about a node and its peers. All are counts since the start unless said otherwise.

use core::net::SocketAddr;
use core::time::Duration;

/// A figure of a node, with everything that an exporter needs.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Figure {
    /// Its field in [`Stats`].
    pub name: &'static str,
    /// Its name as a metric, beside metrics of other programs.
    pub metric: &'static str,
    /// What it counts.
    pub about: &'static str,
    /// The figure counts since the start. Otherwise it gives the present value.
    pub counts: bool,
    /// Its value.
    pub of: fn(&Stats) -> u64,
}

macro_rules! figures {
    (counts { $($(#[doc = $told:literal])+ $count:ident $(: $metric:literal)?,)+ }
     levels { $($(#[doc = $said:literal])+ $level:ident $(: $gauge:literal)?,)+ }) => {
        /// What a node has done and holds.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[doc = $told])+ pub $count: u64,)+
            $($(#[doc = "Now:"] #[doc = $said])+ pub $level: usize,)+
        }

        impl Stats {
            /// All of them.
            pub const FIGURES: &'static [Figure] = &[
                $(figure!($count $($metric)?, concat!($($told),+), true, |stats| stats.$count),)+
                $(figure!($level $($gauge)?, concat!($($said),+), false, |stats| stats.$level as u64),)+
            ];
        }
    };
}

/// The metric has the name of the field, unless it is given another.
macro_rules! figure {
    ($name:ident, $($rest:tt)+) => { figure!(@ $name, stringify!($name), $($rest)+) };
    ($name:ident $metric:literal, $($rest:tt)+) => { figure!(@ $name, $metric, $($rest)+) };
    (@ $name:ident, $metric:expr, $about:expr, $counts:literal, $of:expr) => {
        Figure { name: stringify!($name), metric: $metric, about: $about, counts: $counts, of: $of }
    };
}

figures! {
    counts {
        /// Messages accepted for sending.
        sent: "messages_sent",
        /// Outcomes Delivered and Processed.
        delivered: "messages_delivered",
        /// Outcomes Unknown.
        unknown: "messages_unknown",
        /// Outcomes Expired, Cancelled, Refused and Rejected.
        withdrawn: "messages_withdrawn",
        /// Messages that came back because a peer that has ended had not taken them.
        taken_back: "messages_taken_back",
        /// Messages that the application has taken.
        received: "messages_received",
        /// Messages that the application has rejected.
        rejected: "messages_rejected",
        /// Messages to this node that their senders withdrew, arrived or not.
        revoked: "messages_revoked",
        /// Copies of messages that were suppressed.
        duplicates_suppressed,
        /// Datagrams in.
        datagrams_in,
        /// Bytes of datagrams in.
        bytes_in: "in_bytes",
        /// Datagrams out.
        datagrams_out,
        /// Bytes of datagrams out.
        bytes_out: "out_bytes",
        /// Data packets declared lost.
        packets_lost,
        /// Copies sent of packets that no other packet followed.
        hedged,
        /// Bytes of copies sent of packets that no other packet followed.
        hedged_bytes,
        /// Such copies that arrived before their original, or without it.
        hedges_saved,
        /// Datagrams that are not of this protocol or malformed.
        malformed,
        /// Datagrams that do not authenticate.
        unauthentic,
        /// Messages that broke a limit that their sender knew.
        violations,
        /// Replayed packets.
        replayed,
        /// Data packets for an unknown channel.
        strays,
        /// Packets for a channel of a former life of this node, answered by a RESET.
        resets_sent,
        /// RESETs of peers that have restarted.
        resets_heeded,
        /// Openings refused: by policy, caps or rate, or dropped by the driver for lack of time.
        openings_refused,
        /// Openings refused by policy whose senders were told.
        refusals_told,
        /// Records closed because a message of a kind that this node does not take arrived under them.
        declined,
        /// Openings of this node that a peer's policy refused.
        refused,
        /// Openings that could not be made, because the peer's id is not a valid key.
        unreachable,
        /// Handshakes completed, either way.
        handshakes,
        /// RETRY answers sent.
        retries,
        /// Messages sent beside an opening.
        early_sent,
        /// Early messages that the peer did not take early: their stamp was not new to it, or it had no room.
        early_slowed,
        /// Early messages ended Unknown because this node's clock is too far ahead of the peer's.
        early_rejected,
        /// Messages received beside an opening.
        early_received,
        /// Stamps of peers that were not above their bound: clocks behind this one, replays, or forgotten stamps.
        stamps_stale,
        /// Stamps of peers too far ahead of this node's clock, and stored: their messages take one round trip longer.
        stamps_astray,
        /// Stamps too far ahead, beyond `Limits::strays`: their messages ended Unknown.
        stamps_ahead,
        /// Calls made.
        calls,
        /// Calls made and replied to.
        calls_replied,
        /// Calls made and ended Unknown.
        calls_unknown,
        /// Calls of peers answered, by the application or by the node in its place.
        calls_served,
        /// Replies forgotten before their callers had acknowledged them.
        replies_forgotten,
        /// Receiver records evicted.
        evictions,
        /// Records evicted of callers that were silent for `Config::caller_patience`.
        callers_evicted,
        /// Received messages dropped for lack of room; their senders send them again.
        dropped_for_room,
        /// Datagrams of peers dropped unread by the driver, because the peer sent more than it had time for.
        share_dropped,
    }
    levels {
        /// peers known.
        peers,
        /// half-open peers.
        half_open,
        /// sender records.
        sender_records,
        /// receiver records.
        receiver_records,
        /// messages queued or in doubt.
        open_messages,
        /// calls that the application has received and not answered.
        computing: "calls_computing",
        /// replies kept until their callers acknowledge them.
        replies: "replies_kept",
        /// messages in the receive queue.
        waiting: "messages_waiting",
        /// bytes received and not yet taken, and bytes reserved for messages that have arrived in part.
        received_bytes,
    }
}

/// Figures of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerStats {
    /// The address of the peer, if there is a channel.
    pub remote: Option<SocketAddr>,
    /// A connection carries the packets of the peer; otherwise they are datagrams.
    pub piped: bool,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// The least round-trip time seen lately.
    pub min_rtt: Duration,
    /// How far this node's wall clock was ahead of the peer's at the last handshake, in nanoseconds, transit included. First
    /// messages are fast while that is less than some seconds either way.
    pub clock_ahead: Option<i64>,
    /// The path's datagram size.
    pub mtu: u16,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Data packets sent on the channels of the peer.
    pub packets_sent: u64,
    /// The data packets that were declared lost.
    pub packets_lost: u64,
    /// Messages queued.
    pub queued: usize,
    /// Messages in doubt.
    pub in_doubt: usize,
    /// Envelopes held.
    pub envelopes: u64,
    /// Slots granted and free.
    pub free_slots: u64,
    /// How much of the driver's time the datagrams of the peer took, and how many were dropped unread.
    pub work: Work,
}

/// A figure of a peer, with everything that an exporter needs: from its [`PeerStats`], or from its traffic (`PeerFlow`).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PeerFigure<T = PeerStats> {
    /// Its name as a metric, beside metrics of other programs; it ends in its unit.
    pub metric: &'static str,
    /// What it means.
    pub about: &'static str,
    /// The figure counts since the peer is known. Otherwise it gives the present value.
    pub counts: bool,
    /// The sum over several peers has a meaning.
    pub adds: bool,
    /// Its value, and of which kind that is.
    pub of: Reading<T>,
}

/// How to read a figure of a peer, by the kind of its value.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Reading<T> {
    /// Whether something is so.
    Truth(fn(&T) -> bool),
    /// A number of things, or of bytes.
    Count(fn(&T) -> u64),
    /// A time in seconds. None: it is not known now.
    Seconds(fn(&T) -> Option<f64>),
}

impl<T> Reading<T> {
    /// The value as a number, as metrics have it: 1 is true. None: it is not known now.
    pub fn number(&self, peer: &T) -> Option<f64> {
        match self {
            Self::Truth(of) => Some(f64::from(of(peer))),
            Self::Count(of) => Some(of(peer) as f64),
            Self::Seconds(of) => of(peer),
        }
    }
}

impl<T> PeerFigure<T> {
    /// A figure that counts since the peer is known.
    pub(crate) const fn counts(metric: &'static str, about: &'static str, of: Reading<T>) -> Self {
        Self { metric, about, counts: true, adds: true, of }
    }

    /// A present value whose sum over several peers has a meaning.
    pub(crate) const fn adds(metric: &'static str, about: &'static str, of: Reading<T>) -> Self {
        Self { metric, about, counts: false, adds: true, of }
    }

    /// A present value of one peer, whose sum has no meaning.
    pub(crate) const fn single(metric: &'static str, about: &'static str, of: Reading<T>) -> Self {
        Self { metric, about, counts: false, adds: false, of }
    }
}

impl PeerStats {
    /// All figures that are numbers.
    pub const FIGURES: &'static [PeerFigure] = &[
        PeerFigure::adds(
            "peer_connected",
            "Whether there is a channel.",
            Reading::Truth(|peer| peer.remote.is_some()),
        ),
        PeerFigure::adds(
            "peer_piped",
            "Whether a connection carries its packets.",
            Reading::Truth(|peer| peer.piped),
        ),
        PeerFigure::single(
            "peer_rtt_seconds",
            "Smoothed round-trip time.",
            Reading::Seconds(|peer| peer.remote.map(|_| peer.rtt.as_secs_f64())),
        ),
        PeerFigure::single(
            "peer_min_rtt_seconds",
            "The least round-trip time seen lately.",
            Reading::Seconds(|peer| peer.remote.map(|_| peer.min_rtt.as_secs_f64())),
        ),
        PeerFigure::single(
            "peer_clock_ahead_seconds",
            "How far this clock was ahead of the peer's.",
            Reading::Seconds(|peer| peer.clock_ahead.map(|nanos| nanos as f64 / 1e9)),
        ),
        PeerFigure::single(
            "peer_mtu_bytes",
            "The path's datagram size.",
            Reading::Count(|peer| peer.mtu.into()),
        ),
        PeerFigure::single("peer_window_bytes", "Congestion window.", Reading::Count(|peer| peer.window)),
        PeerFigure::adds("peer_in_flight_bytes", "Bytes in flight.", Reading::Count(|peer| peer.in_flight)),
        PeerFigure::counts(
            "peer_packets_sent",
            "Data packets sent.",
            Reading::Count(|peer| peer.packets_sent),
        ),
        PeerFigure::counts(
            "peer_packets_lost",
            "Data packets declared lost.",
            Reading::Count(|peer| peer.packets_lost),
        ),
        PeerFigure::adds(
            "peer_messages_queued",
            "Messages queued.",
            Reading::Count(|peer| peer.queued as u64),
        ),
        PeerFigure::adds(
            "peer_messages_in_doubt",
            "Messages in doubt.",
            Reading::Count(|peer| peer.in_doubt as u64),
        ),
        PeerFigure::adds("peer_envelopes", "Envelopes held.", Reading::Count(|peer| peer.envelopes)),
        PeerFigure::adds(
            "peer_free_slots",
            "Slots granted and free.",
            Reading::Count(|peer| peer.free_slots),
        ),
        PeerFigure::counts(
            "peer_driver_seconds",
            "The driver's time for its datagrams.",
            Reading::Seconds(|peer| Some(peer.work.time.as_secs_f64())),
        ),
        PeerFigure::counts(
            "peer_datagrams_dropped",
            "Datagrams that the driver dropped unread.",
            Reading::Count(|peer| peer.work.dropped),
        ),
    ];
}

/// What a driver reports about the datagrams of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Work {
    /// How much of the driver's time they took.
    pub time: Duration,
    /// How many the driver has dropped unread, because the peer sent more than the driver had time for.
    pub dropped: u64,
}

impl Work {
    /// Datagrams that took `time`, and `dropped` datagrams that were dropped unread.
    pub const fn new(time: Duration, dropped: u64) -> Self {
        Self { time, dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::PeerFlow;

    #[test]
    fn each_figure_of_a_peer_has_a_name_of_its_own() {
        let flow = PeerFlow::FIGURES.iter().map(|it| it.metric);
        let names: std::collections::BTreeSet<_> =
            PeerStats::FIGURES.iter().map(|it| it.metric).chain(flow).collect();
        assert_eq!(names.len(), PeerStats::FIGURES.len() + PeerFlow::FIGURES.len());
        assert!(names.iter().all(|name| name.starts_with("peer_")));
    }

    #[test]
    fn what_a_name_ends_in_is_the_kind_of_its_value() {
        fn fits<T>(figure: &PeerFigure<T>) {
            let seconds = figure.metric.ends_with("_seconds");
            assert_eq!(matches!(figure.of, Reading::Seconds(_)), seconds, "{}", figure.metric);
            let truth = figure.about.starts_with("Whether");
            assert_eq!(matches!(figure.of, Reading::Truth(_)), truth, "{}", figure.metric);
        }
        PeerStats::FIGURES.iter().for_each(fits);
        PeerFlow::FIGURES.iter().for_each(fits);
        assert_eq!(Reading::Truth(|there: &bool| *there).number(&true), Some(1.0));
        assert_eq!(Reading::Count(|count| *count).number(&7), Some(7.0));
        assert_eq!(Reading::Seconds(|time| *time).number(&None), None);
    }

    #[test]
    fn each_figure_has_a_name_of_its_own_and_its_value() {
        let stats = Stats { unknown: 3, replies: 4, ..Stats::default() };
        let of = |name| {
            Stats::FIGURES.iter().find(|figure| figure.metric == name).map(|figure| (figure.of)(&stats))
        };
        assert_eq!((of("messages_unknown"), of("replies_kept"), of("peers")), (Some(3), Some(4), Some(0)));
        for name in [|figure: &Figure| figure.name, |figure: &Figure| figure.metric] {
            let names: std::collections::BTreeSet<_> = Stats::FIGURES.iter().map(name).collect();
            assert_eq!(names.len(), Stats::FIGURES.len());
        }
    }
}
