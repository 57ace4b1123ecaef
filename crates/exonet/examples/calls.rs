//! A counter that is served: each call runs at most once, and its caller is told the outcome.
//!
//! `cargo run --example calls`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use exonet::call::{Failure, Request};
use exonet::error::CallError;
use exonet::{Allow, Node};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    let bob = Node::builder(Allow::only([alice.id()])).bind("127.0.0.1:0").build().await?;

    let total = Arc::new(AtomicU64::new(0));
    let add = move |mut request: Request| {
        let total = Arc::clone(&total);
        async move {
            let text = request.body.bytes(100).await?;
            let amount: u64 = String::from_utf8_lossy(&text).parse().map_err(Failure::error)?;
            let before = total.fetch_add(amount, Ordering::Relaxed);
            println!("bob runs {}: add {amount}", request.id);
            Ok::<_, Failure>((before + amount).to_string())
        }
    };
    let serving = bob.serve("add", add).concurrency(16).timeout(Duration::from_secs(5)).start()?;

    let to = bob.peer_addr();
    for (method, body) in [("add", "40"), ("add", "2"), ("add", "two"), ("subtract", "1")] {
        match alice.peer(&to).call(method, body).deadline(Duration::from_secs(10)).await {
            Ok(mut reply) => {
                let total = reply.body.bytes(100).await?;
                println!("alice: {method} {body} gives {}", String::from_utf8_lossy(&total));
            }
            Err(CallError::Failed { status, mut body, .. }) => {
                let why = body.bytes(1_000).await?;
                println!("alice: {method} failed, {status}: {}", String::from_utf8_lossy(&why));
            }
            // It ran once or not at all: the application can find out by its id.
            Err(CallError::Unknown { id, why }) => println!("alice: {id:?} is unknown: {why}"),
            Err(error) => println!("alice: {error}, and may call again: {}", error.has_not_run()),
        }
    }

    serving.stop(Duration::from_secs(1)).await;
    alice.close(Duration::from_secs(1)).await;
    bob.close(Duration::from_secs(1)).await;
    Ok(())
}
