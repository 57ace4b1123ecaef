//! Connections whose other end has not proven its identity yet: a bounded number, shared between networks.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use exonet_proto::node::Prefix;

/// The largest number of such connections at once.
const ALL: usize = 1_024;
/// The largest number from one network. Connections from this machine are not bounded by it.
const EACH: usize = 16;

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    each: BTreeMap<Prefix, usize>,
}

/// Counts connections of strangers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strangers {
    counts: Arc<Mutex<Counts>>,
}

/// A counted connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct Stranger {
    among: Strangers,
    prefix: Option<Prefix>,
}

impl Strangers {
    /// Counts one more; None: there are too many.
    pub(crate) fn admit(&self, from: IpAddr) -> Option<Stranger> {
        let prefix = Prefix::told(from);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let of_network = prefix.and_then(|prefix| counts.each.get(&prefix)).copied().unwrap_or(0);
        if counts.all >= ALL || of_network >= EACH {
            return None;
        }
        counts.all += 1;
        if let Some(prefix) = prefix {
            counts.each.insert(prefix, of_network + 1);
        }
        drop(counts);
        Some(Stranger { among: self.clone(), prefix })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut counts = self.among.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all = counts.all.saturating_sub(1);
        let Some(prefix) = self.prefix else { return };
        match counts.each.get_mut(&prefix) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.each.remove(&prefix)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(network: usize) -> IpAddr {
        let network = u8::try_from(network).unwrap();
        IpAddr::from([198, 51, network, 1])
    }

    #[test]
    fn a_network_has_its_share_and_no_more() {
        let strangers = Strangers::default();
        let mut held: Vec<_> = (0..EACH).map(|_| strangers.admit(ip(1)).unwrap()).collect();
        assert!(strangers.admit(ip(1)).is_none());
        held.extend(strangers.admit(ip(2)));
        drop(held.remove(0));
        held.extend(strangers.admit(ip(1)));
        assert!(held.len() == EACH + 1 && strangers.admit(ip(1)).is_none());
        drop(held);
        let counts = strangers.counts.lock().unwrap();
        assert!(counts.all == 0 && counts.each.is_empty());
    }

    #[test]
    fn all_together_are_bounded() {
        let strangers = Strangers::default();
        let held: Vec<_> = (0..ALL).filter_map(|n| strangers.admit(ip(n / EACH))).collect();
        assert_eq!(held.len(), ALL);
        assert!(strangers.admit(ip(200)).is_none() && strangers.admit([127, 0, 0, 1].into()).is_none());
    }
}
