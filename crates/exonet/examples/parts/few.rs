//! A load metric: the member that was given the fewest messages is next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use exonet::group::{Ended, Mode, Path, Verdict};
use exonet::parts::Load;
use exonet::{Allow, Node, NodeId, PeerAddr};

use crate::{Failed, taker};

/// The number of messages that each member was given.
type Given = Arc<Mutex<BTreeMap<NodeId, u32>>>;

/// Each member gets as many messages as the others, whatever its load.
struct Fewest(Given);

impl Load for Fewest {
    fn cost(&mut self, _: Duration, member: &NodeId, _: Path) -> f64 {
        let given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        given.get(member).copied().map_or(0.0, f64::from)
    }

    fn sent(&mut self, _: Duration, member: &NodeId) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(*member).or_default() += 1;
    }

    fn ended(&mut self, _: Duration, _: &NodeId, _: Duration, _: Ended) {}

    fn removed(&mut self, member: &NodeId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(member);
    }
}

/// Distributes messages among four members.
pub(crate) async fn run() -> Result<(), Failed> {
    let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    let mut members: Vec<PeerAddr> = Vec::new();
    for _ in 0..4 {
        members.push(taker().await?.peer_addr());
    }
    let given = Given::default();
    let group = alice.group(members).load(Fewest(Arc::clone(&given))).build()?;
    let mut reached = 0;
    for n in 0..40 {
        let mut receipt = group.send(Mode::Balanced { k: 1 }, n.to_string()).await?;
        reached += u32::from(matches!(receipt.decided().await, Verdict::Reached { .. }));
    }
    let given = given.lock().unwrap_or_else(PoisonError::into_inner);
    println!("load metric: {reached} of 40 messages reached a member; given to each: {:?}", given.values());
    Ok(())
}
