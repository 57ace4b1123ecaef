//! A chat room over sessions, with confirmation by the application: a member's line is marked as said once the room
//! has passed it on to every other member.
//!
//! ```text
//! cargo run --example chat -- room state/room                            # prints ID@HOST:PORT
//! cargo run --example chat -- join ID@HOST:PORT alice
//! cargo run --example chat -- join ID@HOST:PORT bob
//! ```
//!
//! Suspend a member's machine, change its network, or kill the room and start it again: no member misses a line, or
//! hears it twice.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use exonet::session::{
    SessionError, SessionEvent, SessionId, SessionMessage, SessionReceiver, SessionSender,
};
use exonet::{Allow, Confirm, Message, Node, NodeId, Outcome, PeerAddr, Session};
use tokio::io::{AsyncBufReadExt, BufReader};

const USAGE: &str = "usage: chat room DIRECTORY [ADDRESS:PORT] | chat join ID@HOST:PORT NAME";

/// The address of the room, if none is given. Members find it there again after its restart.
const ROOM: &str = "127.0.0.1:4477";

/// The longest line, with the name before it, in bytes. The room tells a member at once that a longer one is rejected.
const LONGEST: usize = 32 << 10;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["room", directory] => room(directory, ROOM).await,
        ["room", directory, bind] => room(directory, bind).await,
        ["join", room, name] => join(room.parse()?, name).await,
        _ => Err(USAGE.into()),
    }
}

/// The source of a line: a session of a peer.
type Who = (NodeId, SessionId);

/// The members, by the sending direction of their sessions.
#[derive(Clone, Default)]
struct Members(Arc<Mutex<BTreeMap<Who, SessionSender>>>);

impl Members {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Who, SessionSender>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a line, behind its id, to all members except for its source. It waits in the session of a member that is
    /// away. A member that has missed so much that nothing more fits in is dropped.
    fn pass_on(&self, from: &Who, line: &SessionMessage) {
        let text = Bytes::from([line.id().to_string().as_bytes(), b" ", line.body()].concat());
        self.all().retain(|who, sender| who == from || sender.try_send(text.clone()).is_ok());
    }
}

async fn room(directory: &str, bind: &str) -> Result<(), Failure> {
    // With a journal, sessions go on when this process is killed and started again.
    let node = Node::builder(Allow::anyone()).state_dir(directory).bind(bind).build().await?;
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
    let (sender, receiver) = session.longest(LONGEST).split();
    members.all().insert(who, sender);
    tokio::spawn(async move {
        let heard = hear(receiver, |line| members.pass_on(&who, line)).await;
        let left = members.all().remove(&who);
        match (heard, left) {
            (Ok(()), Some(mut sender)) => drop(sender.close().await),
            (Ok(()), None) => eprintln!("{}: this member has missed too much", who.1),
            (Err(error), _) => eprintln!("{}: {error}", who.1),
        }
    });
}

/// Hears what one member says, until it leaves.
async fn hear(mut receiver: SessionReceiver, pass_on: impl Fn(&SessionMessage)) -> Result<(), Failure> {
    loop {
        match receiver.recv().await {
            Ok(Some(line)) => {
                // The line is in the journal for each member before it is acknowledged, so none misses it if this
                // process is killed. If the kill comes between the two, the next process passes it on once more.
                pass_on(&line);
                line.ack()?;
            }
            Ok(None) => return Ok(()),
            // Lines that were given up are missed, and the session continues.
            Err(SessionError::Missing(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The id of the last line of each member that a member has heard.
#[derive(Default)]
struct Heard(BTreeMap<String, String>);

impl Heard {
    /// Prints a line, unless the room repeats it: then it has the id of the one before it.
    fn print(&mut self, line: &str) {
        let (id, text) = line.split_once(' ').unwrap_or_default();
        let (from, _) = id.split_once('/').unwrap_or_default();
        if self.0.insert(from.to_owned(), id.to_owned()).is_none_or(|last| last != id) {
            println!("{text}");
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
    let mut heard = Heard::default();
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
                Some(message) => heard.print(&String::from_utf8_lossy(&message.take()?)),
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
