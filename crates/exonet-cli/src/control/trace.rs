//! Traces of messages for a command that follows them.

use std::time::Duration;

use exonet::follow::{Follow, FollowError, Follower};
use exonet::{MessageId, NodeId};
use tokio::net::unix::OwnedWriteHalf;
use tokio::time::{MissedTickBehavior, interval};

use super::protocol::{Reply, Wanted};
use super::server::{Office, refusal};
use super::wire::{Lines, say};
use crate::trace::said;

/// The polling interval. A follower has room for more steps than happen within it.
const TICK: Duration = Duration::from_millis(50);

/// Reports each step until all wanted messages have ended, the client disconnects, or the node ends.
pub(super) async fn tell(
    office: &Office,
    wanted: &Wanted,
    mut lines: Lines,
    to: &mut OwnedWriteHalf,
) -> Result<(), Reply> {
    let node = &office.node;
    let Begun { follower, most, here } = begin(office, wanted)?;
    let began_ms = follower.began().wall.0 / 1_000_000;
    let command = office.role.command().to_owned();
    if say(to, &Reply::Trace { node: node.id().to_string(), command, began_ms, here }).await.is_err() {
        return Ok(());
    }
    let mut ending = office.ending.subscribe();
    let (mut ticks, mut over) = (interval(TICK), 0);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let ends = tokio::select! {
            _ = ticks.tick() => false,
            _ = ending.wait_for(|ending| *ending) => true,
            // The client sends nothing more, so it has disconnected.
            _ = lines.next::<serde_json::Value>() => return Ok(()),
        };
        let noted = follower.take();
        for step in &noted.steps {
            over += u32::from(step.last);
            if say(to, &Reply::Happened(Box::new(said(step, &follower)))).await.is_err() {
                return Ok(());
            }
        }
        let (steps, messages) = (noted.missed.steps, noted.missed.messages);
        if steps + messages > 0 && say(to, &Reply::Missed { steps, messages }).await.is_err() {
            return Ok(());
        }
        if over >= most {
            let _ = say(to, &Reply::Done).await;
            return Ok(());
        }
        if ends {
            return Err(refusal("the node has ended meanwhile"));
        }
    }
}

/// A follower.
struct Begun {
    follower: Follower,
    /// The number of messages whose end it waits for.
    most: u32,
    /// Whether the message of another node has arrived and is not acknowledged. None: no such message was named.
    here: Option<bool>,
}

fn begin(office: &Office, wanted: &Wanted) -> Result<Begun, Reply> {
    let node = &office.node;
    let failed = |error: FollowError| refusal(error.to_string());
    let Some(message) = &wanted.message else {
        let peer = wanted.peer.as_deref().map(str::parse::<NodeId>).transpose();
        let peer = peer.map_err(|error| refusal(error.to_string()))?;
        let most = wanted.count.unwrap_or(u32::MAX);
        let follower = node.follow(Follow::New { peer, most }).map_err(failed)?;
        return Ok(Begun { follower, most, here: None });
    };
    let gone = |why: String| Reply::Error {
        error: why,
        hint: Some(format!(
            "to see what became of it: exon outbox status {message}{}",
            office.identity.options()
        )),
    };
    let (which, id) = match message.parse::<u64>() {
        Ok(number) => {
            let found = node.outbox(0).into_iter().find(|waiting| waiting.number == Some(number));
            let none = || gone(format!("there is no message {number} in the outbox"));
            (Follow::Open(found.ok_or_else(none)?.message.key), None)
        }
        Err(_) => {
            let id: MessageId = message.parse().map_err(|_| {
                refusal(format!(
                    "{message:?} is not a message: write its number in the outbox, or its id, NODE/RECORD/SLOT"
                ))
            })?;
            (Follow::Named(id), Some(id))
        }
    };
    let follower = node.follow(which).map_err(|error| match error {
        FollowError::NotOpen => gone(error.to_string()),
        FollowError::TooMany => failed(error),
    })?;
    let other = id.filter(|id| id.sender != node.id());
    let here = other.map(|id| node.inbox(0).iter().any(|unacked| unacked.id == id));
    Ok(Begun { follower, most: 1, here })
}
