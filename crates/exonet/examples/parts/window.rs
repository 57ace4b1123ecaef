//! Congestion control: a window that never changes, which records the most bytes in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use exonet::parts::{AckInfo, CongestionControl, LossInfo, Mono, SentInfo};
use exonet::{Allow, Node};

use crate::{Failed, taker};

/// The number of bytes that may be in flight. Probes do not wait for room in the window (RFC 9002, section 7.5): when
/// nothing was acknowledged for a while, or the node tries a larger datagram, a few more datagrams are in flight.
const WINDOW: u64 = 64 << 10;

/// The observations of a node's controllers.
#[derive(Debug, Default)]
struct Seen {
    acks: AtomicU64,
    losses: AtomicU64,
    most: AtomicU64,
}

/// A fixed window. Losses do not change it.
#[derive(Debug)]
struct FixedWindow(Arc<Seen>);

impl CongestionControl for FixedWindow {
    fn on_sent(&mut self, sent: SentInfo) {
        self.0.most.fetch_max(sent.in_flight, Relaxed);
    }

    fn on_ack(&mut self, _: AckInfo<'_>) {
        self.0.acks.fetch_add(1, Relaxed);
    }

    fn on_loss(&mut self, _: LossInfo) {
        self.0.losses.fetch_add(1, Relaxed);
    }

    fn on_persistent_congestion(&mut self, _: Mono) {}

    fn on_mtu(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        WINDOW
    }

    /// No pacing.
    fn pacing_rate(&self) -> Option<u64> {
        Some(u64::MAX)
    }
}

/// Sends 16 MB with this window.
pub(crate) async fn run() -> Result<(), Failed> {
    let seen = Arc::<Seen>::default();
    let for_paths = Arc::clone(&seen);
    let alice = Node::builder(Allow::anyone())
        .bind("127.0.0.1:0")
        .congestion_control(move || FixedWindow(Arc::clone(&for_paths)))
        // The size on an Ethernet. The smallest window is four datagrams, and on loopback a datagram may have 65,000
        // bytes.
        .config(|config| (config.max_datagram, config.max_loopback_datagram) = (1_452, 1_452))
        .build()
        .await?;
    let bob = taker().await?;
    let begun = Instant::now();
    let settled = alice.peer(bob.peer_addr()).send(vec![7_u8; 16 << 20]).await?.await;
    println!(
        "congestion control: 16 MiB are {:?} after {:.0?}; {} ACKs, {} losses, at most {} bytes under way; the window is {WINDOW}, \
         which probes may exceed",
        settled.outcome,
        begun.elapsed(),
        seen.acks.load(Relaxed),
        seen.losses.load(Relaxed),
        seen.most.load(Relaxed),
    );
    Ok(())
}
