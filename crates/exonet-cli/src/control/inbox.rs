//! Answers to clients that ask which messages have arrived at a node.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use exonet::Node;
use exonet::receive::{Standing, Unacked};
use tokio::net::unix::OwnedWriteHalf;

use super::protocol::{self, PIECE, Reply};
use super::server::refusal;
use super::wire::say;

/// The number of bytes of a body that a list shows.
const GLANCE: usize = 64;

/// Lists all messages that are not acknowledged.
pub(super) async fn list(node: &Node, to: &mut OwnedWriteHalf) {
    for unacked in node.inbox(GLANCE) {
        if say(to, &Reply::Arrived(Box::new(row(&unacked)))).await.is_err() {
            return;
        }
    }
}

/// Shows one message, with its body.
pub(super) async fn show(node: &Node, id: &str, to: &mut OwnedWriteHalf) -> Result<(), Reply> {
    let found = node.inbox(0).into_iter().find(|unacked| unacked.id.to_string() == id);
    let Some(found) = found else {
        return Err(refusal(format!("the message {id} has been acknowledged or rejected meanwhile")));
    };
    let whole = node.inbox_body(&found.id);
    let row = protocol::Unacked { glance: whole.as_ref().map(|_| String::new()), ..row(&found) };
    let _ = say(to, &Reply::Arrived(Box::new(row))).await;
    for piece in whole.unwrap_or_default().chunks(PIECE) {
        if say(to, &Reply::Body { base64: BASE64.encode(piece) }).await.is_err() {
            break;
        }
    }
    Ok(())
}

fn row(unacked: &Unacked) -> protocol::Unacked {
    let ms = |span: Duration| Some(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
    let (state, for_ms, again_ms) = match unacked.stand {
        Standing::HandedOut { since } => (protocol::Standing::HandedOut, ms(since), None),
        Standing::PutOff { again } => (protocol::Standing::PutOff, None, ms(again)),
        _ => (protocol::Standing::Waiting, None, None),
    };
    protocol::Unacked {
        from: unacked.from.to_string(),
        id: unacked.id.to_string(),
        tag: Some(String::from_utf8_lossy(&unacked.tag).into_owned()),
        size: unacked.size,
        call: unacked.is_call,
        attempts: unacked.attempts,
        state,
        for_ms,
        again_ms,
        glance: unacked.body.as_ref().map(|body| BASE64.encode(body)),
    }
}
