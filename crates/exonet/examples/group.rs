//! One message to many members: to all, to any, to a quorum, to the cheapest; one member is dead.
//!
//! `cargo run --example group`

use std::error::Error;
use std::time::Duration;

use exonet::group::{GroupReceipt, Mode};
use exonet::{Allow, Message, Node, PeerAddr};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    let mut members: Vec<PeerAddr> = Vec::new();
    for _ in 0..4 {
        members.push(shop(alice.clone()).await?);
    }
    // A member that ends at once: no node answers at its address.
    let dead = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    members.push(dead.peer_addr());
    dead.close(Duration::ZERO).await;

    let group = alice.group(members).build()?;
    let modes = [Mode::All, Mode::Any, Mode::Quorum { send: 3, acks: 2 }, Mode::Balanced { k: 1 }];
    for mode in modes {
        let news = Message::new(format!("news for {mode:?}")).deadline(Duration::from_secs(2));
        let mut receipt = group.send(mode, news).await?;
        println!("{mode:?}: {:?}", receipt.decided().await);
        table(&receipt);
    }
    Ok(())
}

/// The state of each member at the instant of the verdict. For later changes: `GroupReceipt::changed` and `ended`.
fn table(receipt: &GroupReceipt) {
    for line in receipt.members() {
        let certain = if line.state.is_certainly_not() { ", certainly not there" } else { "" };
        println!("  {}  {:?}{certain}", line.id.short(), line.state);
    }
}

/// A node that takes every message, until the program ends.
async fn shop(alice: Node) -> Result<PeerAddr, Box<dyn Error>> {
    let shop = Node::builder(Allow::only([alice.id()])).bind("127.0.0.1:0").build().await?;
    let address = shop.peer_addr();
    tokio::spawn(async move {
        while let Ok(delivery) = shop.recv().await {
            // Act on it here. The acknowledgement may come too late: then the message is handed out again.
            let _ = delivery.ack();
        }
    });
    Ok(address)
}
