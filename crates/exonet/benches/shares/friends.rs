//! Friends of the victim: each sends messages at a steady rate, and less if it may not.

use std::time::Duration;

use exonet::{Allow, Node, PeerAddr};

use crate::Failure;

/// Bytes of each message: by this the victim knows them.
pub(crate) const SIZE: usize = 1_000;
/// What could not be sent in time is not made up for.
const LATE: f64 = 0.01;

pub(crate) fn run(victim: PeerAddr, count: u32, rate: u32) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for _ in 0..count {
            let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
            tokio::spawn(talk(node, victim.clone(), f64::from(rate)));
        }
        // Until the victim ends this process.
        std::future::pending().await
    })
}

async fn talk(node: Node, victim: PeerAddr, rate: f64) {
    let (begun, mut sent) = (tokio::time::Instant::now(), 0.0);
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let due = begun.elapsed().as_secs_f64() * rate;
        sent = f64::max(sent, due - LATE * rate);
        let mut batch = Vec::new();
        while sent < due {
            sent += 1.0;
            batch.push(vec![7; SIZE]);
        }
        if !batch.is_empty() && node.peer(&victim).send_batch(batch).await.is_err() {
            return;
        }
    }
}
