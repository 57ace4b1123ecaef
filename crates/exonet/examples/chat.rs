//! A chat room over sessions, with confirmation by the application: a member's line is marked as said once the room
//! has passed it on to every other member.
//!
//! ```text
//! cargo run --example chat -- room state/room                            # prints ID@HOST:PORT
//! cargo run --example chat -- join ID@HOST:PORT alice
//! cargo run --example chat -- join ID@HOST:PORT bob
//! ```
//!
//! Suspend a member's machine, change its network, or kill the room and start it again: no member misses a line.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use exonet::session::{SessionError, SessionEvent, SessionId};
use exonet::{Allow, Confirm, Message, Node, NodeId, Outcome, PeerAddr, Session};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

const USAGE: &str = "usage: chat room DIRECTORY | chat join ID@HOST:PORT NAME";

/// The address of the room: members find it there again after its restart.
const ROOM: &str = "127.0.0.1:4477";

/// The number of lines that wait for a member that is away. A member that misses more is dropped.
const WAITING: usize = 10_000;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["room", directory] => room(directory).await,
        ["join", room, name] => join(room.parse()?, name).await,
        _ => Err(USAGE.into()),
    }
}

/// The source of a line: a session of a peer.
type Who = (NodeId, SessionId);

/// The members: each has a queue, which its own task empties into the session.
#[derive(Clone, Default)]
struct Members(Arc<Mutex<BTreeMap<Who, mpsc::Sender<String>>>>);

impl Members {
    fn enter(&self, who: Who) -> mpsc::Receiver<String> {
        let (tell, told) = mpsc::channel(WAITING);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(who, tell);
        told
    }

    fn leave(&self, who: &Who) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(who);
    }

    /// Passes a line on to all members except for its source.
    fn pass_on(&self, from: &Who, line: &str) {
        let mut members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        members.retain(|who, tell| who == from || tell.try_send(line.to_owned()).is_ok());
    }
}

async fn room(directory: &str) -> Result<(), Failure> {
    // With a journal, sessions go on when this process is killed and started again.
    let node = Node::builder(Allow::anyone()).state_dir(directory).bind(ROOM).build().await?;
    println!("{}", node.peer_addr());
    let members = Members::default();
    // The members from before this process, whether they say something or not.
    for (peer, id, name) in node.sessions() {
        serve(&members, node.peer(peer).session(name)?.attach(id)?);
    }
    loop {
        serve(&members, node.accept_session().await?);
    }
}

fn serve(members: &Members, session: Session) {
    let (who, members) = ((session.peer().id(), session.id()), members.clone());
    let lines = members.enter(who);
    tokio::spawn(async move {
        if let Err(error) = member(session, lines, |line| members.pass_on(&who, line)).await {
            eprintln!("{}: {error}", who.1);
        }
        members.leave(&who);
    });
}

/// Serves one member.
async fn member(
    session: Session,
    mut lines: mpsc::Receiver<String>,
    pass_on: impl Fn(&str),
) -> Result<(), Failure> {
    let (mut sender, mut receiver) = session.split();
    loop {
        tokio::select! {
            message = receiver.recv() => match message {
                Ok(Some(message)) => {
                    pass_on(&String::from_utf8_lossy(message.body()));
                    // Now the line is said: the member is told.
                    message.ack()?;
                }
                Ok(None) => {
                    drop(sender.close().await?);
                    return Ok(());
                }
                // Lines that were given up are missed, and the session continues.
                Err(SessionError::Missing(_)) => {}
                Err(error) => return Err(error.into()),
            },
            line = lines.recv() => match line {
                Some(line) => drop(sender.send(line).await?),
                None => return Err("this member has missed too much".into()),
            },
        }
    }
}

async fn join(room: PeerAddr, name: &str) -> Result<(), Failure> {
    let node = Node::builder(Allow::only([room.id])).bind("0.0.0.0:0").build().await?;
    let peer = node.peer(room);
    // The room never dials: a silent member checks the connection from time to time.
    peer.keepalive(Some(Duration::from_secs(5)));
    let session = peer.session("chat")?.open().await?;
    let mut events = session.events();
    let (mut sender, mut receiver) = session.split();
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    loop {
        tokio::select! {
            line = input.next_line() => match line? {
                Some(line) => {
                    let line = Message::new(format!("{name}: {line}")).confirm(Confirm::Processed);
                    let receipt = sender.send(line).await?;
                    tokio::spawn(async move {
                        match receipt.await.outcome {
                            Outcome::Processed { .. } => eprintln!("  (said)"),
                            outcome => eprintln!("  ({outcome:?})"),
                        }
                    });
                }
                None => {
                    sender.close().await?.await;
                    return Ok(());
                }
            },
            message = receiver.recv() => match message? {
                Some(message) => println!("{}", String::from_utf8_lossy(&message.take()?)),
                None => return Ok(()),
            },
            event = events.next() => match event? {
                SessionEvent::Away(since) => eprintln!("  (the room has been silent for {since:.0?})"),
                SessionEvent::Back(after) => eprintln!("  (the room is back after {after:.0?})"),
                _ => {}
            },
        }
    }
}
