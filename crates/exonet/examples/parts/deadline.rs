//! A scheduler: the message that expires first is sent first, whatever its priority.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use exonet::parts::{Mono, Scheduler, Waiting};
use exonet::{Allow, Message, Node, Priority};

use crate::Failed;

/// The number of messages of each kind.
const EACH: usize = 200;

/// The earliest deadline first; among equal deadlines, and among messages without one, the oldest.
#[derive(Debug)]
struct EarliestDeadline(Arc<AtomicU64>);

impl Scheduler for EarliestDeadline {
    fn next(&mut self, _: Mono, waiting: &[Waiting]) -> Option<usize> {
        self.0.fetch_add(1, Relaxed);
        let key = |at: &usize| waiting.get(*at).map(|one| (one.deadline.unwrap_or(Mono::NEVER), one.order));
        (0..waiting.len()).min_by_key(key)
    }
}

/// Queues messages of high priority with late deadlines, then others of low priority with early ones, and checks the
/// order of their arrival.
pub(crate) async fn run() -> Result<(), Failed> {
    let asked = Arc::<AtomicU64>::default();
    let for_peers = Arc::clone(&asked);
    let own = Node::builder(Allow::anyone())
        .bind("127.0.0.1:0")
        .scheduler(move || EarliestDeadline(Arc::clone(&for_peers)))
        .build()
        .await?;
    let standard = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    let with = pressing_among_the_first(&own).await?;
    let without = pressing_among_the_first(&standard).await?;
    println!(
        "scheduler: of the first {EACH} messages {with} were pressing, and {without} without it; it was asked {} times",
        asked.load(Relaxed)
    );
    Ok(())
}

async fn pressing_among_the_first(alice: &Node) -> Result<usize, Failed> {
    let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    let to_bob = alice.peer(bob.peer_addr());
    // Messages with a deadline wait for the channel, so the scheduler can choose among all of them.
    for (body, priority, seconds) in [("patient", Priority::Urgent, 60), ("pressing", Priority::Low, 20)] {
        for _ in 0..EACH {
            let message = Message::new(body).priority(priority).deadline(Duration::from_secs(seconds));
            drop(to_bob.send(message).await?);
        }
    }
    let mut pressing = 0;
    for at in 0..2 * EACH {
        let mut delivery = bob.recv().await?;
        let body = delivery.body_mut().bytes(100).await?;
        pressing += usize::from(at < EACH && body.as_ref() == b"pressing");
        delivery.ack()?;
    }
    Ok(pressing)
}
