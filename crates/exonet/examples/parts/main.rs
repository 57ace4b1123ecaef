//! The parts of a node that an application can replace by its own types, with an example of each.
//!
//! `cargo run -p exonet --example parts [-- PART]`, where PART is `window`, `deadline`, `eager` or `few`.

mod deadline;
mod eager;
mod few;
mod relay;
mod window;

use std::error::Error;

use exonet::{Allow, Node};

/// Any error of an example.
type Failed = Box<dyn Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let only = std::env::args().nth(1);
    let runs = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if runs("window") {
        window::run().await?;
    }
    if runs("deadline") {
        deadline::run().await?;
    }
    if runs("eager") {
        eager::run().await?;
    }
    if runs("few") {
        few::run().await?;
    }
    Ok(())
}

/// A node that takes every message, until the program ends.
async fn taker() -> Result<Node, Failed> {
    let taker = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    let node = taker.clone();
    tokio::spawn(async move {
        while let Ok(mut delivery) = node.recv().await {
            // A body is read before its message is acknowledged.
            if delivery.body_mut().bytes(64 << 20).await.is_ok() {
                let _ = delivery.ack();
            }
        }
    });
    Ok(taker)
}
