//! Calls through `tower`: a time limit at the caller, a concurrency limit at the server.
//!
//! `cargo run --example tower --features tower`

use std::time::Duration;

use bytes::Bytes;
use exonet::call::{CallService, Request};
use exonet::error::BodyError;
use exonet::{Allow, Node};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;

    let shout = service_fn(|mut request: Request| async move {
        let body = request.body.bytes(1_000).await?;
        Ok::<_, BodyError>(Bytes::from(body.to_ascii_uppercase()))
    });
    // While four calls run, no other is taken: their callers wait.
    let shout = ServiceBuilder::new().concurrency_limit(4).timeout(Duration::from_secs(1)).service(shout);
    let _serving = bob.serve_service("shout", shout).start()?;

    // A call that takes too long is dropped, and so is given up.
    let calls = CallService::new(alice.peer(bob.peer_addr()), "shout");
    let calls = ServiceBuilder::new().timeout(Duration::from_secs(5)).service(calls);
    for word in ["one", "two", "three"] {
        let mut reply = calls.clone().oneshot(Bytes::from(word)).await?;
        println!("{word}: {}", String::from_utf8_lossy(&reply.body.bytes(1_000).await?));
    }

    drop(calls);
    alice.close(Duration::from_secs(1)).await;
    bob.close(Duration::from_secs(1)).await;
    Ok(())
}
