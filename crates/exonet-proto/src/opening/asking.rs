//! Openings that wait for the application to decide about their senders.

use core::time::Duration;
use std::collections::BTreeMap;

use super::prefix::Prefix;
use crate::event::Arrival;
use crate::id::NodeId;
use crate::time::Mono;

/// The most openings that wait at once, and the most from one prefix.
pub(crate) const MAX_ASKING: usize = 256;
const MAX_PER_PREFIX: usize = 16;
/// After this time, an unanswered question may be asked again.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// An opening whose sender the application was asked about.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) since: Mono,
    /// None: the opening came from this machine, whose programs are not told apart.
    pub(crate) prefix: Option<Prefix>,
    pub(crate) arrival: Arrival,
    pub(crate) datagram: Box<[u8]>,
}

/// The openings about which the application has been asked and has not answered: bounded, and shared fairly between prefixes.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    waiting: BTreeMap<NodeId, Waiting>,
}

impl Asking {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a question about `id` is open.
    pub(crate) fn is_asked(&mut self, now: Mono, id: &NodeId) -> bool {
        self.waiting.retain(|_, waiting| now.since(waiting.since) < ANSWER_WITHIN);
        self.waiting.contains_key(id)
    }

    /// Whether half of the places are taken: then an opening must prove its address before the application is asked about it.
    pub(crate) fn is_loaded(&self) -> bool {
        self.waiting.len() * 2 >= MAX_ASKING
    }

    /// Keeps an opening of `id`. False: there is no place for it, and the application is not asked.
    ///
    /// When all places are taken, the prefix with the most gives up its oldest opening to a prefix that even then has fewer. So
    /// the more places a prefix takes, the less it displaces.
    pub(crate) fn put(&mut self, id: NodeId, waiting: Waiting) -> bool {
        let own = self.count(waiting.prefix);
        if waiting.prefix.is_some() && own >= MAX_PER_PREFIX {
            return false;
        }
        if self.waiting.len() >= MAX_ASKING {
            let Some(id) = self.oldest_of_more_than(own + 1) else { return false };
            self.waiting.remove(&id);
        }
        self.waiting.insert(id, waiting);
        true
    }

    fn count(&self, prefix: Option<Prefix>) -> usize {
        self.waiting.values().filter(|waiting| waiting.prefix == prefix).count()
    }

    /// The oldest opening of the prefix with the most openings, if these are more than `least`.
    fn oldest_of_more_than(&self, least: usize) -> Option<NodeId> {
        let mut counts = BTreeMap::<_, usize>::new();
        self.waiting.values().for_each(|waiting| *counts.entry(waiting.prefix).or_default() += 1);
        let (fullest, _) = counts.into_iter().filter(|(_, n)| *n > least).max_by_key(|(_, n)| *n)?;
        let its = self.waiting.iter().filter(|(_, waiting)| waiting.prefix == fullest);
        its.min_by_key(|(_, waiting)| waiting.since).map(|(id, _)| *id)
    }

    /// The application has answered.
    pub(crate) fn take(&mut self, id: &NodeId) -> Option<Waiting> {
        self.waiting.remove(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{IpAddr, Ipv4Addr, SocketAddr};

    fn id(i: u32) -> NodeId {
        let mut id = NodeId([0; 32]);
        id.0[..4].copy_from_slice(&i.to_be_bytes());
        id
    }

    /// The opening of the `i`th identity from a network.
    fn put(asking: &mut Asking, i: u32, network: u32) -> bool {
        let ip = IpAddr::V4(Ipv4Addr::from_bits(network << 8));
        let arrival = Arrival { remote: SocketAddr::new(ip, 1), local_ip: None, ecn: 0, pipe: None };
        let prefix = (network > 0).then(|| Prefix::of(ip));
        asking.put(id(i), Waiting { since: Mono(i.into()), prefix, arrival, datagram: Box::default() })
    }

    #[test]
    fn one_prefix_has_a_few_places_and_this_machine_has_all() {
        let mut asking = Asking::default();
        assert_eq!((0..100).filter(|i| put(&mut asking, *i, 1)).count(), 16);
        assert_eq!((100..500).filter(|i| put(&mut asking, *i, 0)).count(), 240);
        assert_eq!(asking.len(), MAX_ASKING);
    }

    #[test]
    fn newcomers_find_a_place_though_all_are_taken() {
        let mut asking = Asking::default();
        assert_eq!((0..256).filter(|i| put(&mut asking, *i, 1 + i / 16)).count(), 256);
        assert!(put(&mut asking, 256, 100), "another prefix");
        assert_eq!(asking.len(), MAX_ASKING);
        // One of the prefixes with the most openings has lost its oldest.
        let gone: Vec<u32> = (0..257).filter(|i| !asking.waiting.contains_key(&id(*i))).collect();
        assert!(matches!(gone[..], [i] if i % 16 == 0), "{gone:?}");
        // The new prefix gets as many places as the others, and then displaces no more.
        assert!((257..1_000).filter(|i| put(&mut asking, *i, 100)).count() < 16);
        assert_eq!(asking.len(), MAX_ASKING);
    }

    #[test]
    fn those_who_are_alone_with_their_prefix_are_not_displaced() {
        let mut asking = Asking::default();
        assert_eq!((0..256).filter(|i| put(&mut asking, *i, 1 + i)).count(), 256);
        assert_eq!((256..1_000).filter(|i| put(&mut asking, *i, 1 + i)).count(), 0);
    }

    #[test]
    fn what_is_not_answered_is_forgotten() {
        let mut asking = Asking::default();
        put(&mut asking, 7, 1);
        assert!(asking.is_asked(Mono(29_000_000_000), &id(7)));
        assert!(!asking.is_asked(Mono(30_000_000_007), &id(7)));
        assert_eq!(asking.len(), 0);
    }
}
