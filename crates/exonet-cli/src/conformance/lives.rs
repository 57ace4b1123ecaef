//! Silence, moves, and nodes that come back.

use std::sync::Arc;
use std::time::Duration;

use super::Seen;
use super::stand::{CALM, Line, Stand, Target, bodies, delivered};
use crate::demo::weather::Odds;

/// How long a path carries nothing.
const SILENCE: Duration = Duration::from_secs(3);

pub(super) async fn silence(target: Target) -> Seen {
    let stand = Stand::new(target, CALM).await?;
    let bodies = bodies(200, 50);
    let (before, during) = bodies.split_at(50);
    delivered(stand.send(before).await?).await?;
    stand.relay.change(|route| route.dead = true);
    let receipts = stand.send(during).await?;
    tokio::time::sleep(SILENCE).await;
    stand.relay.change(|route| route.dead = false);
    delivered(receipts).await?;
    stand.all_back(&bodies).await?;
    Ok("a path was dead for 3 s: all of 200 messages there and back, each once".to_owned())
}

/// A farewell closes the sender's record; later messages begin a new one.
pub(super) async fn idle(target: Target) -> Seen {
    let stand = Stand::new(target, CALM).await?;
    let bodies = bodies(60, 50);
    for some in bodies.chunks(20) {
        delivered(stand.send(some).await?).await?;
        stand.peer.close(Duration::from_secs(5)).await;
    }
    stand.all_back(&bodies).await?;
    Ok("three channels, each closed by its farewell: 60 messages there and back, each once".to_owned())
}

pub(super) async fn moves(target: Target) -> Seen {
    let stand = Stand::new(target, Odds { loss: 0.02, ..CALM }).await?;
    let bodies = bodies(600, 300);
    let mut receipts = Vec::new();
    for some in bodies.chunks(100) {
        receipts.extend(stand.send(some).await?);
        stand.relay.change(|route| route.mapping += 1);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    delivered(receipts).await?;
    stand.all_back(&bodies).await?;
    Ok("six changes of address: 600 messages there and back, each once".to_owned())
}

/// A node with a stored identity is killed three times, and each time continues with what its journal has.
pub(super) async fn restart(target: Target) -> Seen {
    let state = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let line = Line::start(target, Odds { loss: 0.05, ..CALM }).await?;
    let all = bodies(400, 100);
    let mut counts = vec![0_u32; all.len()];
    for (life, some) in all.chunks(100).enumerate() {
        line.change(|route| route.dead = false);
        let stand = Stand::on(target, Arc::clone(&line), Some(state.path()), |_| ()).await?;
        let receipts = stand.send(some).await?;
        if life == 3 {
            delivered(receipts).await.map_err(|error| format!("in the last life, {error}"))?;
            stand.back(some).await;
        } else {
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        let echoes = Arc::clone(&stand.echoes);
        stand.die().await;
        counts.iter_mut().zip(&all).for_each(|(count, body)| *count += echoes.count(body));
    }
    let again = counts.iter().filter(|count| **count > 1).count();
    if again > 0 {
        return Err(format!("{again} messages came back more than once"));
    }
    let came = counts.iter().filter(|count| **count == 1).count();
    Ok(format!("four lives of one identity: {came} of 400 messages back, none twice"))
}

/// A node that has lost its state is another node. It has the address of the one before.
pub(super) async fn stranger(target: Target) -> Seen {
    let line = Line::start(target, CALM).await?;
    for _ in 0..3 {
        line.change(|route| route.dead = false);
        let stand = Stand::on(target, Arc::clone(&line), None, |_| ()).await?;
        stand.exchange(&bodies(50, 50)).await?;
        stand.die().await;
    }
    Ok("three new nodes, one after the other at one address: 50 messages there and back each".to_owned())
}
