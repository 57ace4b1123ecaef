//! Rates, loss and trends from several samples of a node.

use std::collections::{BTreeMap, VecDeque};

use crate::control::figures::{NodeFigures, PeerFigures};
use crate::units::precise;

use super::sample::Sample;

/// The number of samples that are kept. A trend has one bar less.
const KEPT: usize = 61;
/// The number of samples over which loss is computed, since few packets say little.
const LOSS_OVER: usize = 10;

/// The counts up to a time of the node's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    at_ms: u64,
    messages_in: u64,
    messages_out: u64,
    bytes_in: u64,
    bytes_out: u64,
    packets_sent: u64,
    packets_lost: u64,
}

impl Counts {
    fn of_peer(at_ms: u64, peer: &PeerFigures) -> Self {
        Self {
            at_ms,
            messages_in: peer.messages_in,
            messages_out: peer.messages_out,
            bytes_in: peer.bytes_in,
            bytes_out: peer.bytes_out,
            packets_sent: peer.packets_sent,
            packets_lost: peer.packets_lost,
        }
    }

    fn of_node(node: &NodeFigures) -> Self {
        Self {
            at_ms: node.up_ms,
            messages_in: node.figure("messages_received"),
            messages_out: node.figure("messages_sent"),
            bytes_in: node.figure("in_bytes"),
            bytes_out: node.figure("out_bytes"),
            ..Self::default()
        }
    }

    /// Whether these counts can precede `later`. Otherwise `later` is of another life of the node.
    fn precedes(&self, later: &Self) -> bool {
        self.at_ms < later.at_ms
            && self.messages_in <= later.messages_in
            && self.messages_out <= later.messages_out
            && self.bytes_in <= later.bytes_in
            && self.bytes_out <= later.bytes_out
            && self.packets_sent <= later.packets_sent
    }

    fn seconds_to(&self, later: &Self) -> f64 {
        precise(later.at_ms.saturating_sub(self.at_ms)) / 1e3
    }
}

/// Rates per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) messages_in: f64,
    pub(crate) messages_out: f64,
    pub(crate) bytes_in: f64,
    pub(crate) bytes_out: f64,
}

/// The samples of a node or a peer.
#[derive(Clone, Debug, Default)]
struct Track(VecDeque<Counts>);

impl Track {
    fn add(&mut self, counts: Counts) {
        if self.0.back().is_some_and(|last| !last.precedes(&counts)) {
            self.0.clear();
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(counts);
    }

    /// As [`Self::add`], for a peer. A peer that was absent from the last sample, at `before`, had counts of zero
    /// then.
    fn add_peer(&mut self, before: Option<u64>, counts: Counts) {
        self.add(counts);
        if let (1, Some(at_ms)) = (self.0.len(), before) {
            self.0.push_front(Counts { at_ms, ..Counts::default() });
        }
    }

    /// The time of the sample before the last one.
    fn before(&self) -> Option<u64> {
        self.0.iter().rev().nth(1).map(|counts| counts.at_ms)
    }

    /// None: there is only one sample of the peer.
    fn rates(&self) -> Option<Rates> {
        let mut latest = self.0.iter().rev();
        let (now, before) = (latest.next()?, latest.next()?);
        let seconds = before.seconds_to(now);
        let per = |now: u64, then: u64| precise(now.saturating_sub(then)) / seconds;
        Some(Rates {
            messages_in: per(now.messages_in, before.messages_in),
            messages_out: per(now.messages_out, before.messages_out),
            bytes_in: per(now.bytes_in, before.bytes_in),
            bytes_out: per(now.bytes_out, before.bytes_out),
        })
    }

    /// The share of lost packets, or None if none was sent.
    fn loss(&self) -> Option<f64> {
        let (now, first) = (self.0.back()?, self.0.get(self.0.len().saturating_sub(LOSS_OVER + 1))?);
        let sent = now.packets_sent.checked_sub(first.packets_sent).filter(|sent| *sent > 0)?;
        let lost = now.packets_lost.saturating_sub(first.packets_lost);
        // Packets that are now lost may have been sent before the first sample.
        Some((precise(lost) / precise(sent)).min(1.0))
    }

    /// Bytes a second in both directions, the latest last.
    fn trend(&self) -> Vec<f64> {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        let bytes = |counts: &Counts| counts.bytes_in + counts.bytes_out;
        pairs.map(|(a, b)| precise(bytes(b).saturating_sub(bytes(a))) / a.seconds_to(b)).collect()
    }
}

/// A peer with its rates and trend.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PeerView {
    pub(crate) figures: PeerFigures,
    /// The name that the user has given it.
    pub(crate) name: Option<String>,
    /// None: there is only one sample of the peer.
    pub(crate) rates: Option<Rates>,
    /// The share of lost packets. None: no packet was sent.
    pub(crate) loss: Option<f64>,
    pub(crate) trend: Vec<f64>,
}

impl PeerView {
    /// The name of the peer, or its id.
    pub(crate) fn called(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.figures.id)
    }

    /// Bytes a second, in both directions.
    pub(crate) fn bytes(&self) -> Option<f64> {
        self.rates.map(|rates| rates.bytes_in + rates.bytes_out)
    }
}

/// The last sample of the node, with rates and trends.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) node: NodeFigures,
    pub(crate) rates: Option<Rates>,
    pub(crate) queued: u64,
    pub(crate) in_doubt: u64,
    pub(crate) peers: Vec<PeerView>,
}

/// The samples so far.
#[derive(Debug, Default)]
pub(crate) struct Course {
    names: BTreeMap<String, String>,
    node: Track,
    peers: BTreeMap<String, Track>,
}

impl Course {
    /// A course without samples. `names` has the names of peers by their ids.
    pub(crate) fn new(names: BTreeMap<String, String>) -> Self {
        Self { names, ..Self::default() }
    }

    /// Adds a sample. Peers that are no longer in it are forgotten.
    pub(crate) fn add(&mut self, sample: Sample) -> View {
        let (queued, in_doubt) = (sample.queued(), sample.in_doubt());
        let Sample { node, peers } = sample;
        self.node.add(Counts::of_node(&node));
        let (at, mut before) = (self.node.before(), std::mem::take(&mut self.peers));
        let peers = peers.into_iter().map(|figures| {
            let mut track = before.remove(&figures.id).unwrap_or_default();
            track.add_peer(at, Counts::of_peer(node.up_ms, &figures));
            let (rates, loss, trend) = (track.rates(), track.loss(), track.trend());
            self.peers.insert(figures.id.clone(), track);
            PeerView { name: self.names.get(&figures.id).cloned(), figures, rates, loss, trend }
        });
        let peers = peers.collect();
        View { rates: self.node.rates(), queued, in_doubt, peers, node }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(up_ms: u64, messages: u64, (sent, lost): (u64, u64)) -> Sample {
        let peer = PeerFigures {
            id: "a".to_owned(),
            messages_out: messages,
            bytes_out: messages * 100,
            packets_sent: sent,
            packets_lost: lost,
            in_doubt: 2,
            queued: 3,
            ..PeerFigures::default()
        };
        let figures = [("messages_sent".to_owned(), messages)].into();
        Sample { node: NodeFigures { up_ms, figures, ..NodeFigures::default() }, peers: vec![peer] }
    }

    #[test]
    fn rates_are_of_the_last_interval_by_the_clock_of_the_node() {
        let mut course = Course::new([("a".to_owned(), "lab".to_owned())].into());
        let first = course.add(sample(1_000, 10, (10, 0)));
        assert_eq!((first.rates, first.peers[0].rates, first.peers[0].called()), (None, None, "lab"));
        let next = course.add(sample(3_000, 40, (20, 0)));
        let rates = next.peers[0].rates.unwrap();
        assert_eq!((rates.messages_out, rates.bytes_out, rates.messages_in), (15.0, 1_500.0, 0.0));
        assert_eq!(next.rates.unwrap().messages_out, 15.0);
        assert_eq!((next.queued, next.in_doubt), (3, 2));
        assert_eq!(next.peers[0].trend, [1_500.0]);
    }

    #[test]
    fn loss_is_of_the_last_looks_and_not_known_where_nothing_was_sent() {
        let mut course = Course::default();
        course.add(sample(0, 0, (100, 50)));
        assert_eq!(course.add(sample(1_000, 0, (100, 50))).peers[0].loss, None);
        assert_eq!(course.add(sample(2_000, 0, (120, 51))).peers[0].loss, Some(0.05));
        let mut last = None;
        for look in 3..20 {
            last = course.add(sample(look * 1_000, 0, (100 + look * 10, 51))).peers[0].loss;
        }
        assert_eq!(last, Some(0.0), "what was lost long ago is over");
    }

    #[test]
    fn another_life_of_the_node_begins_anew_and_looks_are_bounded() {
        let mut course = Course::default();
        for look in 0..200 {
            course.add(sample(look * 1_000, look, (look, 0)));
        }
        let view = course.add(sample(200_000, 200, (200, 0)));
        assert_eq!(view.peers[0].trend.len(), KEPT - 1);
        let view = course.add(sample(50, 1, (1, 0)));
        assert_eq!((view.rates, view.peers[0].rates), (None, None), "no rate below zero");
        assert!(view.peers[0].trend.is_empty());
        course.add(Sample { peers: Vec::new(), ..sample(1_000, 1, (1, 0)) });
        assert!(course.peers.is_empty());
    }

    #[test]
    fn a_peer_that_comes_between_two_looks_has_counted_from_zero() {
        let mut course = Course::default();
        course.add(Sample { peers: Vec::new(), ..sample(1_000, 0, (0, 0)) });
        let rates = course.add(sample(2_000, 7, (9, 0))).peers[0].rates;
        assert_eq!(rates.map(|rates| rates.messages_out), Some(7.0));
        let again = course.add(sample(3_000, 2, (9, 0))).peers[0].rates;
        assert_eq!(again, None, "the node counts less than before: it is another one");
    }
}
