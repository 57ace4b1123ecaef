//! A retransmission policy that counts every packet without an answer as lost, and copies every packet after which
//! none follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use exonet::parts::{LossThreshold, Mono, PathState, Retransmission};
use exonet::{Allow, Node, Outcome, PeerAddr};

use crate::{Failed, relay, taker};

/// The number of messages, sent one after the other.
const MESSAGES: u32 = 300;
/// One in this many datagrams is lost.
const NTH: u64 = 7;

/// One later packet is enough, a probe leaves after a round trip and a millisecond, and copies leave at once.
#[derive(Debug)]
struct Eager(Arc<AtomicU64>);

impl Retransmission for Eager {
    fn loss(&mut self, _: Mono, path: &PathState<'_>) -> LossThreshold {
        LossThreshold { packets: 1, time: path.rtt().smoothed() }
    }

    fn probe_after(&self, path: &PathState<'_>, timeouts: u32) -> Duration {
        // A peer that is silent for long is probed less often.
        (path.rtt().smoothed() + Duration::from_millis(1)) * (1 + timeouts)
    }

    fn probes(&self, _: &PathState<'_>, _: u32) -> u32 {
        2
    }

    fn copy_after(&mut self, _: Mono, _: &PathState<'_>, _: bool) -> Option<Duration> {
        self.0.fetch_add(1, Relaxed);
        Some(Duration::ZERO)
    }
}

/// Sends messages one by one over a path that loses datagrams, with this policy and with the node's own.
pub(crate) async fn run() -> Result<(), Failed> {
    let asked = Arc::<AtomicU64>::default();
    let for_paths = Arc::clone(&asked);
    let eager = Node::builder(Allow::anyone())
        .bind("127.0.0.1:0")
        .retransmission(move || Eager(Arc::clone(&for_paths)))
        .build()
        .await?;
    let standard = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    let [with, without] = [one_by_one(&eager).await?, one_by_one(&standard).await?];
    println!(
        "retransmission policy: {MESSAGES} messages, one datagram in {NTH} lost: {:.0?} and {} datagrams, {:.0?} and {} without it; \
         asked for {} copies",
        with.0,
        with.1,
        without.0,
        without.1,
        asked.load(Relaxed)
    );
    Ok(())
}

async fn one_by_one(alice: &Node) -> Result<(Duration, u64), Failed> {
    let bob = taker().await?;
    let way = relay::losing(bob.local_addr(), NTH).await?;
    let to_bob = alice.peer(PeerAddr::from((bob.id(), way)));
    let begun = Instant::now();
    for n in 0..MESSAGES {
        let settled = to_bob.send(n.to_string()).await?.await;
        assert!(settled.outcome == Outcome::Delivered, "{:?}", settled.outcome);
    }
    Ok((begun.elapsed(), alice.stats().datagrams_out))
}
