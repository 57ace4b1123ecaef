//! A peer that the server knows, and that sends it messages for as long as it takes them. It has the server's own thread,
//! so that whatever time strangers leave to the server is used by friends, and by nobody else.

use exonet::{Allow, Node, PeerAddr};
use tokio::task::JoinHandle;

use crate::target::Failure;

/// Bytes of each message, and messages that are sent at once.
const SIZE: usize = 1_000;
const BATCH: usize = 32;

pub(crate) async fn meet(to: PeerAddr) -> Result<JoinHandle<()>, Failure> {
    let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    Ok(tokio::spawn(async move {
        // Until the server is gone.
        while node.peer(&to).send_batch((0..BATCH).map(|_| vec![7; SIZE])).await.is_ok() {}
    }))
}
