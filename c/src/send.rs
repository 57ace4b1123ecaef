//! Sending.

use std::mem::MaybeUninit;

use crate::border::{Out, border, given};
use crate::fault::{exonet_code, exonet_error};
use crate::node::exonet_node;
use crate::options::exonet_send_options;
use crate::raw::{self, exonet_bytes, exonet_str};
use crate::receipt::{exonet_receipt, hand_out};

/// Sends a message to a peer, given as ID@HOST:PORT, as an id alone if the peer has been heard, or as name:NAME if the
/// node has a name service. It waits for room in the queue to the peer, and for the disk if the node's durability
/// requires that; then the message is queued. EXONET_IN_DOUBT: the node ended
/// before the message was safely on the disk, and the next process of the identity may send it. `options` and `receipt` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_send(
    node: Option<&exonet_node>,
    peer: exonet_str,
    body: exonet_bytes,
    options: *const exonet_send_options,
    receipt: Option<&mut MaybeUninit<*mut exonet_receipt>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::optional(receipt);
        let inner = given(node, "node")?.inner();
        // SAFETY: the caller gives NULL, or options with their size.
        let options: exonet_send_options = unsafe { raw::options(options, "options") }?;
        let (peer, message) = (inner.peer(&peer)?, options.message(&body, inner.journal())?);
        let sent =
            if options.no_wait() { peer.try_send(message)? } else { inner.block_on(peer.send(message))? };
        hand_out(inner, &mut place, sent, options.token());
        Ok(())
    })
}
