//! Two nodes, one message, and the proof that it arrived once.
//!
//! `cargo run --example hello`

use std::error::Error;
use std::time::Duration;

use exonet::{Allow, Node};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    println!("bob listens at {}", bob.peer_addr());

    let receipt = alice.peer(bob.peer_addr()).send("hello, bob").await?;
    let mut delivery = bob.recv().await?;
    let text = delivery.body_mut().bytes(1 << 20).await?;
    println!("bob received {:?} from {}", String::from_utf8_lossy(&text), delivery.from().short());
    delivery.ack()?;

    let settled = receipt.await;
    println!("alice knows: {:?}, message {:?}", settled.outcome, settled.id.map(|id| id.to_string()));

    alice.close(Duration::from_secs(1)).await;
    bob.close(Duration::from_secs(1)).await;
    Ok(())
}
