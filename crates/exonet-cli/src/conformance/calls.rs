//! Calls in both directions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use exonet::call::{Reply, ReplyStatus, Request};
use exonet::error::CallError;
use futures_util::future::join_all;

use super::Seen;
use super::stand::{CALM, Stand, Target, bodies, noise};
use crate::demo::weather::Odds;

/// The largest reply.
const LARGEST: u64 = 64 << 20;

async fn body(reply: Result<Reply, CallError>) -> Result<Bytes, String> {
    let mut reply = reply.map_err(|error| error.to_string())?;
    reply.body.bytes(LARGEST).await.map_err(|error| format!("the reply ends early: {error}"))
}

async fn echoes(stand: &Stand, bodies: &[Bytes]) -> Result<(), String> {
    let call = |sent: Bytes| async move {
        let came = body(stand.peer.call("echo", sent.clone()).await).await?;
        if came == sent { Ok(()) } else { Err("a call has the reply to another".to_owned()) }
    };
    join_all(bodies.iter().cloned().map(call)).await.into_iter().collect()
}

pub(super) async fn calls(target: Target) -> Seen {
    let stand = Stand::new(target, CALM).await?;
    echoes(&stand, &bodies(200, 30)).await?;
    let sizes = [0, 1_040, 1_041, 60_000, 200_000];
    let large: Vec<Bytes> = (0..).zip(sizes).map(|(n, len)| noise(target.seed + n, len)).collect();
    echoes(&stand, &large).await.map_err(|error| format!("replies of up to 200,000 bytes: {error}"))?;
    for (method, wanted) in [("fail", ReplyStatus(42)), ("nothing of the kind", ReplyStatus::NO_SUCH_METHOD)]
    {
        match stand.peer.call(method, "why").await {
            Err(CallError::Failed { status, .. }) if status == wanted => {}
            Err(error) => return Err(format!("the method {method:?}: {error}; status {wanted} is right")),
            Ok(_) => return Err(format!("the method {method:?} succeeds; status {wanted} is right")),
        }
    }
    Ok("205 calls, replies of up to 200,000 bytes, and two that fail".to_owned())
}

/// Makes calls that take time, over a network that loses many datagrams: each call is answered once.
pub(super) async fn lossy(target: Target) -> Seen {
    let stand = Stand::new(target, Odds { loss: 0.25, duplication: 0.2, ..CALM }).await?;
    echoes(&stand, &bodies(100, 30)).await?;
    let slow =
        body(stand.peer.call("slow", "slow").await).await.map_err(|error| format!("a slow call: {error}"))?;
    if slow != "slow" {
        return Err("a slow call has the reply to another".to_owned());
    }
    Ok("100 calls, and one that takes 2 s, at 25 % loss".to_owned())
}

/// The subject calls this node, which answers. Each of these calls runs once.
pub(super) async fn back(target: Target) -> Seen {
    let stand = Stand::new(target, Odds { loss: 0.1, delay: Duration::from_millis(3), ..CALM }).await?;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let echo = move |mut request: Request| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move { request.body.bytes(LARGEST).await.unwrap_or_default() }
    };
    let serving = stand.node.serve("echo", echo).start().map_err(|error| format!("cannot serve: {error}"))?;
    let wanted: Vec<Bytes> = bodies(30, 30).into_iter().chain([noise(target.seed, 5_000)]).collect();
    for sent in &wanted {
        let came = body(stand.peer.call("back", sent.clone()).await).await?;
        if came != sent {
            return Err("a call has the reply to another".to_owned());
        }
    }
    drop(serving);
    let runs = usize::try_from(runs.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
    if runs != wanted.len() {
        return Err(format!("{} calls of the subject have run {runs} times", wanted.len()));
    }
    Ok(format!("{runs} calls by the subject, each run once"))
}
