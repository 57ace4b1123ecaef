//! Messages of every kind over a network without faults.

use std::time::Duration;

use bytes::Bytes;
use exonet::config::Suite;
use exonet::send::Settled;
use exonet::{Confirm, Message, Outcome};

use super::Seen;
use super::stand::{CALM, Line, Stand, Target, bodies, delivered, noise};
use crate::demo::weather::Odds;

/// How long the subject may take for its first answer.
const FIRST: Duration = Duration::from_secs(5);

pub(super) async fn handshake(target: Target) -> Seen {
    let stand = Stand::new(target, CALM).await?;
    match stand.peer.ping(FIRST).await {
        Ok(Some(trip)) => Ok(format!("a round trip of {:.1} ms", trip.as_secs_f64() * 1e3)),
        Ok(None) => Err("no answer to an opening within 5 s".to_owned()),
        Err(error) => Err(format!("no channel: {error}")),
    }
}

pub(super) async fn suites(target: Target) -> Seen {
    for suite in [Suite::Aes128Gcm, Suite::ChaCha20Poly1305] {
        let stand =
            Stand::on(target, Line::start(target, CALM).await?, None, |config| config.suite = suite).await?;
        let done = tokio::time::timeout(FIRST, stand.exchange(&bodies(20, 20))).await;
        done.map_err(|_| format!("nothing came back with {suite:?}"))??;
    }
    Ok("20 messages there and back under either suite".to_owned())
}

/// The first message leaves together with the opening. It is delivered, or its sender learns that it was not, in any
/// case soon.
pub(super) async fn early(target: Target) -> Seen {
    let stand = Stand::new(target, CALM).await?;
    let bodies = bodies(5, 50);
    let receipts = stand.send(&bodies).await?;
    let mut outcomes = Vec::new();
    for receipt in receipts {
        outcomes.push(receipt.await.outcome);
    }
    let lost = outcomes.iter().filter(|outcome| **outcome == Outcome::Unknown).count();
    if outcomes.iter().all(|outcome| *outcome == Outcome::Delivered) {
        stand.all_back(&bodies).await?;
        return Ok("5 first messages delivered".to_owned());
    }
    if lost == outcomes.len() {
        stand.once(&bodies)?;
        return Err(
            "first messages ended unknown: their stamp was rejected; are the clocks within 10 s?".to_owned()
        );
    }
    Err(format!("first messages ended {outcomes:?}"))
}

pub(super) async fn messages(target: Target) -> Seen {
    let stand = Stand::new(target, CALM).await?;
    stand.exchange(&bodies(2_000, 100)).await?;
    Ok("2,000 messages there and back, each once".to_owned())
}

pub(super) async fn large(target: Target) -> Seen {
    let stand = Stand::new(target, Odds { loss: 0.01, ..CALM }).await?;
    let sizes = [1_000, 65_535, 65_536, 70_000, 1 << 20];
    let bodies: Vec<Bytes> = (0..).zip(sizes).map(|(n, len)| noise(target.seed + n, len)).collect();
    stand.exchange(&bodies).await?;
    Ok("bodies of 1,000 bytes to 1 MiB there and back".to_owned())
}

/// The sender does not know the length of a message when it begins to send it.
pub(super) async fn unmeasured(target: Target) -> Seen {
    let stand = Stand::new(target, Odds { loss: 0.01, ..CALM }).await?;
    let bodies = [noise(target.seed, 3), noise(target.seed, 300_000)];
    for body in &bodies {
        let receipt = stand.peer.send_from(Message::default().tag("echo"), None, &body[..]).await;
        let receipt = receipt.map_err(|error| format!("cannot send: {error}"))?;
        delivered(vec![receipt]).await?;
    }
    stand.all_back(&bodies).await?;
    Ok("messages of 3 and 300,000 bytes, of unknown length when they began".to_owned())
}

pub(super) async fn streams(target: Target) -> Seen {
    let stand = Stand::new(target, Odds { loss: 0.1, reordering: 0.3, ..CALM }).await?;
    let stream = stand.peer.stream("echo").map_err(|error| format!("no stream: {error}"))?;
    let (mut sender, mut receiver) = stream.split();
    let wanted = bodies(200, 50);
    for body in &wanted {
        let sent = sender.send(body.clone()).await;
        drop(sent.map_err(|error| format!("cannot send: {error}"))?);
    }
    drop(sender.close().await.map_err(|error| format!("cannot end the stream: {error}"))?);
    let mut n = 0;
    loop {
        let delivery = receiver.recv().await.map_err(|error| format!("after {n} messages: {error}"))?;
        let Some(mut delivery) = delivery else { break };
        let body =
            delivery.body_mut().bytes(1 << 20).await.map_err(|error| format!("message {n}: {error}"))?;
        if wanted.get(n) != Some(&body) {
            return Err(format!("message {n} of the stream came back as another"));
        }
        delivery.ack().map_err(|error| format!("message {n}: {error}"))?;
        n += 1;
    }
    if n < wanted.len() {
        return Err(format!("the stream ended after {n} of {} messages", wanted.len()));
    }
    Ok("200 messages of a stream there and back in order, and its end".to_owned())
}

pub(super) async fn processed(target: Target) -> Seen {
    let stand = Stand::new(target, Odds { loss: 0.1, ..CALM }).await?;
    let wants = |n: u32| if n.is_multiple_of(2) { Confirm::Processed } else { Confirm::Delivered };
    let message = |n: u32| Message::new(format!("confirm {n}")).tag("process").confirm(wants(n));
    for n in 0..20 {
        let outcome = ended(&stand, message(n)).await?.outcome;
        if outcome != (Outcome::Processed { status: 5 }) {
            return Err(format!("a message that was processed ended {outcome:?}"));
        }
    }
    Ok("20 messages processed, status 5".to_owned())
}

pub(super) async fn rejected(target: Target) -> Seen {
    let stand = Stand::new(target, Odds { loss: 0.1, ..CALM }).await?;
    for n in 0..20 {
        let outcome = ended(&stand, Message::new(format!("no {n}")).tag("reject")).await?.outcome;
        let Outcome::Rejected { status: 7, attempts: 1.. } = outcome else {
            return Err(format!("a message that is to be rejected ended {outcome:?}"));
        };
    }
    stand.exchange(&bodies(20, 20)).await?;
    Ok("20 messages rejected, status 7; others go on".to_owned())
}

async fn ended(stand: &Stand, message: Message) -> Result<Settled, String> {
    let receipt = stand.peer.send(message).await.map_err(|error| format!("cannot send: {error}"))?;
    Ok(receipt.await)
}
