//! Real processes that are killed: every message that a node with a journal has accepted arrives once, and no message
//! ends Unknown.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)] // a failure here is the failure of a test

mod common;

use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;
use std::time::Duration;

use common::builder;
use common::part::{DURABILITY, PEER, Part, ROLE, STATE, durability, say};
use exonet::{Node, PeerAddr, Receipt};
use tokio::sync::Semaphore;

/// The number of messages in flight at once.
const WINDOW: usize = 60;
/// The number of messages that a life of the sender tries to send: more than it ever can.
const MANY: usize = 100_000;

async fn node(state: &str, at: &str) -> Node {
    let durability = durability(&env::var(DURABILITY).unwrap());
    builder().state_dir(state).durability(durability).bind(at).build().await.unwrap()
}

/// The other processes start here. It does nothing as a test.
#[test]
fn a_part() {
    let Ok(role) = env::var(ROLE) else { return };
    let (state, peer) = (env::var(STATE).unwrap(), env::var(PEER).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match role.as_str() {
            "receive" => receive(&state, &peer).await,
            "relay" => relay(&state, &peer).await,
            "rest" => send(&state, &peer, 0).await,
            _ => send(&state, &peer, MANY).await,
        }
    });
}

async fn receive(state: &str, at: &str) {
    let node = node(state, at).await;
    say(&format!("at {}", node.peer_addr()));
    while let Ok(delivery) = node.recv().await {
        let body = delivery.body().as_whole().unwrap().clone();
        say(&format!("got {} {}", String::from_utf8_lossy(&body), delivery.id()));
        delivery.ack().unwrap();
    }
}

async fn send(state: &str, to: &str, count: usize) {
    let node = node(state, "127.0.0.1:0").await;
    let peer = node.peer(to.parse::<PeerAddr>().unwrap());
    let window = Arc::new(Semaphore::new(WINDOW));
    let recovered = node.recovered();
    say(&format!("recovered {}", recovered.len()));
    for (_, receipt) in recovered {
        tokio::spawn(tell(receipt, None));
    }
    let life = std::process::id();
    for n in 0..count {
        let turn = Arc::clone(&window).acquire_owned().await.unwrap();
        let name = format!("{life}-{n}");
        // Some messages have to be split, some are stored together.
        let padding = if n % 50 == 0 { 20_000 } else { 10 };
        let receipt = if n % 7 == 0 { name.clone() } else { format!("{name} {}", "x".repeat(padding)) };
        let receipt = peer.send(receipt).await.unwrap();
        say(&format!("accepted {name}"));
        tokio::spawn(tell(receipt, Some(turn)));
    }
    assert!(node.flush(None).await.is_empty());
    say("done");
    node.close(Duration::from_secs(5)).await;
}

async fn tell(receipt: Receipt, turn: Option<tokio::sync::OwnedSemaphorePermit>) {
    let settled = receipt.await;
    say(&format!("told {:?}", settled.outcome));
    drop(turn);
}

/// The reports of all parts.
#[derive(Default)]
struct Account {
    accepted: Vec<String>,
    /// The ids under which each message was handed out, by name.
    got: BTreeMap<String, Vec<String>>,
    delivered: usize,
    recovered: usize,
    other: Vec<String>,
}

impl Account {
    fn hear(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("accepted"), Some(name)) => self.accepted.push(name.to_owned()),
            (Some("got"), Some(name)) => {
                let id = words.next_back().unwrap_or_default().to_owned();
                self.got.entry(name.to_owned()).or_default().push(id);
            }
            (Some("recovered"), Some(count)) => self.recovered += count.parse::<usize>().unwrap(),
            (Some("told"), Some("Delivered")) => self.delivered += 1,
            (Some("at" | "done"), _) => {}
            _ => self.other.push(line.to_owned()),
        }
    }
}

#[test]
fn what_was_written_arrives_once_though_both_processes_are_killed() {
    what_was_accepted_arrives_once("process");
}

#[test]
fn what_was_forced_arrives_once_though_both_processes_are_killed() {
    what_was_accepted_arrives_once("sync");
}

#[test]
fn what_was_forced_together_arrives_once_though_both_processes_are_killed() {
    what_was_accepted_arrives_once("batched");
}

fn what_was_accepted_arrives_once(durability: &str) {
    const KILLS: usize = 16;
    let home = tempfile::tempdir().unwrap();
    let (here, there) = (home.path().join("sender"), home.path().join("receiver"));
    let mut account = Account::default();
    let mut receiver = Part::start(durability, "receive", &there, "127.0.0.1:0");
    let address = receiver.next().unwrap().strip_prefix("at ").unwrap().to_owned();
    let at = address.rsplit_once('@').map_or(address.as_str(), |(_, at)| at).to_owned();
    let mut sender = Part::start(durability, "send", &here, &address);
    for round in 0..KILLS {
        // Each life makes progress: some lines are read before it is killed.
        for _ in 0..40 + 17 * (round % 5) {
            let part = if round % 2 == 0 { &mut sender } else { &mut receiver };
            account.hear(&part.next().unwrap());
        }
        if round % 2 == 0 {
            sender.kill().iter().for_each(|line| account.hear(line));
            sender = Part::start(durability, "send", &here, &address);
        } else {
            receiver.kill().iter().for_each(|line| account.hear(line));
            receiver = Part::start(durability, "receive", &there, &at);
        }
    }
    sender.kill().iter().for_each(|line| account.hear(line));
    let mut rest = Part::start(durability, "rest", &here, &address);
    while let Some(line) = rest.next() {
        account.hear(&line);
    }
    assert!(rest.child.wait().unwrap().success());
    receiver.kill().iter().for_each(|line| account.hear(line));

    assert_eq!(account.other, Vec::<String>::new(), "an outcome other than Delivered");
    let missing: Vec<_> = account.accepted.iter().filter(|name| !account.got.contains_key(*name)).collect();
    assert!(missing.is_empty(), "accepted, and never handed out: {missing:?}");
    // A message that was handed out and not acknowledged before a kill comes again, under the same id.
    let again: Vec<_> = account.got.values().filter(|ids| ids.len() > 1).collect();
    assert!(again.iter().all(|ids| ids.iter().all(|id| *id == ids[0])), "two ids for one message: {again:?}");
    assert!(again.len() <= KILLS / 2, "more than one for each life of the receiver: {again:?}");
    assert!(account.recovered > KILLS, "{}", account.recovered);
    assert!(account.accepted.len() > 200 && account.delivered > 200);
}

/// Takes messages at the first address in `way`, and sends each on to the second, until it is killed.
async fn relay(state: &str, way: &str) {
    let (at, to) = way.split_once(' ').unwrap();
    let node = node(state, at).await;
    say(&format!("at {}", node.peer_addr()));
    let next = node.peer(to.parse::<PeerAddr>().unwrap());
    while let Ok(delivery) = node.recv().await {
        let body = delivery.body().as_whole().unwrap().clone();
        drop(delivery.ack_and_send(&next, body).await.unwrap());
        say("relayed");
    }
}

#[test]
fn a_message_that_is_sent_on_arrives_once_though_the_process_between_is_killed() {
    const KILLS: usize = 12;
    let home = tempfile::tempdir().unwrap();
    let [from, by, to] = ["from", "by", "to"].map(|name| home.path().join(name));
    let mut receiver = Part::start("process", "receive", &to, "127.0.0.1:0");
    let last = receiver.next().unwrap().strip_prefix("at ").unwrap().to_owned();
    let mut relay = Part::start("process", "relay", &by, &format!("127.0.0.1:0 {last}"));
    let first = relay.next().unwrap().strip_prefix("at ").unwrap().to_owned();
    let at = first.rsplit_once('@').unwrap().1.to_owned();
    let sender = Part::start("process", "send", &from, &first);
    for round in 0..KILLS {
        for _ in 0..40 + 17 * (round % 5) {
            relay.next().unwrap();
        }
        relay.kill();
        relay = Part::start("process", "relay", &by, &format!("{at} {last}"));
    }
    let mut account = Account::default();
    sender.kill().iter().for_each(|line| account.hear(line));
    let mut rest = Part::start("process", "rest", &from, &first);
    while let Some(line) = rest.next() {
        account.hear(&line);
    }
    assert!(rest.child.wait().unwrap().success());
    assert_eq!(account.other, Vec::<String>::new(), "an outcome other than Delivered");
    while account.accepted.iter().any(|name| !account.got.contains_key(name)) {
        account.hear(&receiver.next().unwrap());
    }
    relay.kill();
    receiver.kill().iter().for_each(|line| account.hear(line));
    let twice: Vec<_> = account.got.iter().filter(|(_, ids)| ids.len() > 1).collect();
    assert!(twice.is_empty(), "sent on more than once: {twice:?}");
    assert!(account.accepted.len() > 200, "{}", account.accepted.len());
}
