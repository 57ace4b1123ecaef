//! A peer that the server knows, and that sends it messages for as long as it takes them.

use exonet::{Allow, Node, PeerAddr};

use crate::target::{Failure, Target};

/// Bytes of each.
const SIZE: usize = 1_000;

pub(crate) fn run(target: &Target) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
        let to = PeerAddr::new(target.id, [target.address.to_string()])?;
        loop {
            drop(node.send(&to, vec![7; SIZE]).await?);
        }
    })
}
