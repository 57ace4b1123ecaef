//! A node with a journal knows the outcomes of its messages after its process was killed.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)] // a failure here is the failure of a test

mod common;

use std::env;
use std::time::Duration;

use common::part::{DURABILITY, PEER, Part, ROLE, STATE, durability, say};
use common::{builder, within};
use exonet::send::Fate;
use exonet::{Confirm, Durability, Message, MessageId, Node, Outcome, PeerAddr};

async fn node(state: &str) -> Node {
    let durability = durability(&env::var(DURABILITY).unwrap());
    builder().state_dir(state).durability(durability).build().await.unwrap()
}

/// The other processes start here. It does nothing as a test.
#[test]
fn a_part() {
    let Ok(role) = env::var(ROLE) else { return };
    let (state, peer) = (env::var(STATE).unwrap(), env::var(PEER).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match role.as_str() {
            "send" => send(&state, &peer).await,
            _ => ask(&state, &peer, role == "end").await,
        }
    });
}

/// Sends messages that end in each way, says their ids and outcomes, and waits to be killed.
async fn send(state: &str, to: &str) {
    let node = node(state).await;
    let peer = node.peer(to.parse::<PeerAddr>().unwrap());
    let lost = peer.send("lost").await.unwrap();
    let mut receipts = Vec::new();
    for body in ["ack", "process", "reject"] {
        let message = Message::new(body).confirm(Confirm::Processed);
        receipts.push(peer.send(message).await.unwrap());
    }
    let mut all = Vec::new();
    for receipt in receipts {
        all.push(within(receipt).await);
    }
    // It has left before the others.
    lost.abandon();
    all.push(within(lost).await);
    let hold = peer.send("hold").await.unwrap();
    while hold.id().is_none() {
        tokio::task::yield_now().await;
    }
    hold.cancel().unwrap();
    all.push(within(hold).await);
    for settled in all {
        tell(&node, to, &settled.id.unwrap());
    }
    say("done");
    std::future::pending::<()>().await;
}

/// Says what the node knows of a message.
fn tell(node: &Node, to: &str, id: &MessageId) {
    let fate = node.peer(to.parse::<PeerAddr>().unwrap()).status(id);
    let Some(Fate::Ended(ended)) = fate else { return say(&format!("{id} {fate:?}")) };
    assert_eq!(ended.id.as_ref(), Some(id));
    say(&format!("{id} {ended:?}"));
}

/// Says what the next life knows of messages, in the way of the one before.
async fn ask(state: &str, to_and_ids: &str, ends: bool) {
    let node = node(state).await;
    let (to, ids) = to_and_ids.split_once(' ').unwrap();
    // What ended in a former life is not told again.
    assert_eq!(node.outcomes().try_recv(), None);
    for id in ids.split(' ') {
        tell(&node, to, &id.parse().unwrap());
    }
    if ends {
        assert!(within(node.close(Duration::from_secs(5))).await.is_empty());
        return say("done");
    }
    say("done");
    std::future::pending::<()>().await;
}

/// What the process says until it is done.
fn listen(part: &mut Part) -> Vec<String> {
    std::iter::from_fn(|| part.next()).take_while(|said| said != "done").collect()
}

/// Gives its verdicts on the messages of `send`. It keeps the first until the sender is killed, and does not take the last.
async fn judge(node: &Node) {
    let kept = node.recv().await.unwrap();
    for _ in 0..3 {
        let delivery = node.recv().await.unwrap();
        match &delivery.body().as_whole().unwrap()[..] {
            b"ack" => delivery.ack().unwrap(),
            b"process" => delivery.ack_with(9).unwrap(),
            _ => delivery.reject_with(7, "no such account"),
        }
    }
    std::future::pending::<()>().await;
    drop(kept);
}

fn outcomes_are_known_after_a_kill(durability: &str) {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("sender");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let receiver = runtime.block_on(builder().build()).unwrap();
    let address = receiver.peer_addr().to_string();
    runtime.spawn(async move { judge(&receiver).await });

    let mut sender = Part::start(durability, "send", &state, &address);
    let before = listen(&mut sender);
    drop(sender);
    let expected = [
        "outcome: Processed { status: 0 }",
        "outcome: Processed { status: 9 }",
        "outcome: Rejected { status: 7, attempts: 1 }",
        "outcome: Unknown",
        "outcome: Cancelled",
    ];
    assert_eq!(before.len(), expected.len(), "{before:?}");
    assert!(before.iter().zip(expected).all(|(said, outcome)| said.contains(outcome)), "{before:?}");
    assert!(before.iter().any(|said| said.contains("reason: Some(\"no such account\")")), "{before:?}");

    let ids: Vec<_> = before.iter().filter_map(|said| said.split(' ').next()).collect();
    let ids = format!("{address} {}", ids.join(" "));
    // Killed, ended in order, and once more.
    for role in ["ask", "end", "ask"] {
        let said = listen(&mut Part::start(durability, role, &state, &ids));
        assert_eq!(said, before, "{role}");
    }
}

#[test]
fn outcomes_are_known_after_a_kill_if_they_were_written() {
    outcomes_are_known_after_a_kill("process");
}

#[test]
fn outcomes_are_known_after_a_kill_if_they_were_forced() {
    outcomes_are_known_after_a_kill("sync");
}

#[test]
fn outcomes_are_known_after_a_kill_if_they_were_forced_together() {
    outcomes_are_known_after_a_kill("batched");
}

/// Streams tell what ends in this life, and the node remembers what ended before.
#[tokio::test]
async fn streams_of_outcomes_begin_with_this_life() {
    let home = tempfile::tempdir().unwrap();
    let life = || builder().state_dir(home.path()).durability(Durability::Process).build();
    let receiver = common::node().await;
    let mut ids = Vec::new();
    for n in 0..3 {
        let node = life().await.unwrap();
        let peer = node.peer(receiver.peer_addr());
        let receipt = peer.send("x").await.unwrap();
        within(receiver.recv()).await.unwrap().ack().unwrap();
        ids.push(within(receipt).await.id.unwrap());
        let told = node.outcomes().try_recv().unwrap();
        assert_eq!((told.id, told.outcome), (ids.last().copied(), Outcome::Delivered));
        assert_eq!(node.outcomes().recv().await.unwrap().id, ids.last().copied());
        let known = ids.iter().filter(|id| matches!(peer.status(id), Some(Fate::Ended(_)))).count();
        assert_eq!(known, n + 1);
        node.close(Duration::from_secs(5)).await;
    }
}
