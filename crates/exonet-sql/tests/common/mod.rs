//! What the tests share.
#![allow(dead_code)] // each test file uses its own part
#![allow(clippy::unwrap_used, clippy::expect_used)] // a failure here is the failure of a test

#[cfg(all(unix, feature = "postgres"))]
pub(crate) mod server;
mod skip;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use exonet::{Allow, Durability, Node};

#[allow(unused_imports)] // each test file uses its own part
pub(crate) use skip::skipped;

/// Ends a test that hangs. No test depends on how long anything takes.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(90), future).await.expect("this hangs")
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(so: impl Fn() -> F) {
    within(async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// A node with an identity in `home`, where it was before if `at` says so.
pub(crate) async fn node(home: &Path, durability: Durability, at: &str) -> Node {
    Node::builder(Allow::anyone()).state_dir(home).durability(durability).bind(at).build().await.unwrap()
}
