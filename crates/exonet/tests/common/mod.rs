//! Helpers of the tests: nodes on the loopback, and a guard against hanging.
#![allow(dead_code)] // each test file uses its own part
#![allow(clippy::unwrap_used, clippy::expect_used)] // a failure here is the failure of a test

#[cfg(target_os = "linux")]
pub(crate) mod host;
#[cfg(unix)]
pub(crate) mod part;
mod skip;

use std::future::Future;
use std::time::Duration;

use exonet::{Allow, Builder, Node, Outcome, PeerAddr};

#[allow(unused_imports)] // each test file uses its own part
pub(crate) use skip::skipped;

/// Ends a test that hangs. No test depends on how long anything takes.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("this hangs")
}

pub(crate) fn builder() -> Builder {
    Node::builder(Allow::anyone()).bind("127.0.0.1:0")
}

/// A node that sends no early messages: its messages wait until the peer has answered.
pub(crate) async fn cautious() -> Node {
    builder().early(false).build().await.unwrap()
}

pub(crate) async fn node() -> Node {
    builder().build().await.unwrap()
}

pub(crate) async fn pair() -> (Node, Node) {
    (node().await, node().await)
}

/// A peer that does not exist, at an address without a socket.
pub(crate) async fn nobody() -> PeerAddr {
    let gone = node().await;
    let address = gone.peer_addr();
    gone.close(Duration::ZERO).await;
    address
}

/// `n` bytes without repetitions, so that shifts and cuts are noticed.
pub(crate) fn bytes(n: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes = Vec::with_capacity(n + 8);
    while bytes.len() < n {
        bytes.extend_from_slice(&next());
    }
    bytes.truncate(n);
    bytes
}

/// Sends messages of these sizes from `client` to `server`, and as many back.
pub(crate) async fn exchange(client: &Node, server: &Node, sizes: &[usize]) {
    let peer = client.peer(server.peer_addr());
    for &size in sizes {
        let receipt = peer.send(bytes(size)).await.unwrap();
        let mut body = server.at_most_once().recv().await.unwrap().body;
        assert_eq!(body.bytes(1 << 24).await.unwrap(), bytes(size));
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        let answer = server.peer(client.id()).send(bytes(size)).await.unwrap();
        let mut body = client.at_most_once().recv().await.unwrap().body;
        assert_eq!(body.bytes(1 << 24).await.unwrap(), bytes(size));
        assert_eq!(answer.await.outcome, Outcome::Delivered);
    }
}
