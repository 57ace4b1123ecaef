//! Answers to clients that ask about a node.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use exonet::error::PingError;
use exonet::send::{Status, Waiting};
use exonet::{Node, NodeId, PeerAddr};
use exonet_proto::Incarnation;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::unix::OwnedWriteHalf;
use tokio::time::sleep;

use super::Role;
use super::inbox;
use super::look;
use super::past::{self, Past};
use super::protocol::{PIECE, Reply, Request, Row, Settled, VERSION, Which};
use super::server::{Office, refusal};
use super::wire::say;

/// The number of bytes of a body that a list shows.
const GLANCE: usize = 64;
/// The longest search for a peer.
const LONGEST_LOOK: Duration = Duration::from_secs(20);

/// How many times the book of outcomes is asked for a message that the node no longer has, and the time in between.
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Answers all requests but [`Request::Send`]. Errors of a client that has disconnected are ignored.
pub(super) async fn answer(office: &Office, request: Request, to: &mut OwnedWriteHalf) -> Result<(), Reply> {
    let node = &office.node;
    match request {
        Request::Status => {
            let status = Reply::Node {
                exon: VERSION,
                command: office.role.command().to_owned(),
                pid: std::process::id(),
                id: node.id().to_string(),
                durability: office.durability.clone(),
                open: u64::try_from(node.stats().open_messages).unwrap_or(u64::MAX),
                takes: matches!(office.role, Role::Up(_)),
                works: matches!(office.role, Role::Worker(_)),
                places: match &office.role {
                    Role::Up(desk) => Box::new(desk.places.clone()),
                    Role::Command(_) | Role::Worker(_) => Box::default(),
                },
            };
            let _ = say(to, &status).await;
        }
        Request::Figures => look::tell(office, to).await,
        Request::Outbox => {
            for waiting in node.outbox(GLANCE) {
                if let Some(row) = row(&waiting)
                    && say(to, &Reply::Message(Box::new(row))).await.is_err()
                {
                    return Ok(());
                }
            }
        }
        Request::Show { number } => show(node, number, to).await?,
        Request::Fate { message } => fate(office, &message, to).await,
        Request::Drop { number } => give_up(node, number, to).await?,
        Request::Retry { number, wait_ms } => retry(node, number, wait_ms, to).await?,
        Request::Inbox => inbox::list(node, to).await,
        Request::InboxShow { id } => inbox::show(node, &id, to).await?,
        Request::Stop => match &office.role {
            Role::Up(desk) => drop(desk.end.send_replace(true)),
            Role::Command(_) | Role::Worker(_) => {
                let command = office.role.command();
                return Err(refusal(format!("`exon {command}` runs this identity, not `exon up`")));
            }
        },
        Request::Send(_)
        | Request::DeadRetry { .. }
        | Request::Move { .. }
        | Request::Checkpoint { .. }
        | Request::Trace(_) => {
            return Ok(());
        }
    }
    let _ = say(to, &Reply::Done).await;
    Ok(())
}

/// The row of an open message. None: the message has settled, or is not in the journal and has no number.
fn row(waiting: &Waiting) -> Option<Row> {
    let id = match waiting.message.status {
        Status::InDoubt { id, .. } => Some(id.to_string()),
        Status::Queued => None,
        Status::Settled => return None,
    };
    Some(Row {
        number: waiting.number?,
        peer: waiting.message.peer.to_string(),
        addresses: waiting.addresses.iter().map(ToString::to_string).collect(),
        id,
        tag: String::from_utf8_lossy(&waiting.tag).into_owned(),
        size: waiting.message.size,
        glance: BASE64.encode(&waiting.body),
    })
}

/// The open message of this number, or all open messages that have a number.
fn numbered(node: &Node, number: Option<u64>) -> Result<Vec<Waiting>, Reply> {
    let mut all = node.outbox(0);
    all.retain(|waiting| {
        waiting.number.is_some() && number.is_none_or(|number| waiting.number == Some(number))
    });
    match number {
        Some(number) if all.is_empty() => Err(refusal(format!("there is no message {number} in the outbox"))),
        _ => Ok(all),
    }
}

async fn show(node: &Node, number: u64, to: &mut OwnedWriteHalf) -> Result<(), Reply> {
    let found = numbered(node, Some(number))?;
    let Some(whole) = found.first().and_then(|found| node.waiting(&found.message, usize::MAX)) else {
        return Err(refusal(format!("message {number} already has its outcome")));
    };
    if let Some(row) = row(&whole) {
        let _ = say(to, &Reply::Message(Box::new(Row { glance: String::new(), ..row }))).await;
    }
    for piece in whole.body.chunks(PIECE) {
        if say(to, &Reply::Body { base64: BASE64.encode(piece) }).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Tells whether a message is open, or how it has ended.
async fn fate(office: &Office, message: &Which, to: &mut OwnedWriteHalf) {
    let open = office
        .node
        .outbox(GLANCE)
        .iter()
        .filter_map(row)
        .find(|row| message.is(Some(row.number), row.id.as_deref()));
    if let Some(row) = open {
        let _ = say(to, &Reply::Message(Box::new(row))).await;
        return;
    }
    let noted = match &office.role {
        Role::Up(desk) => noted(&desk.past, message).await,
        Role::Command(_) | Role::Worker(_) => None,
    };
    let ended = match noted {
        Some(settled) => Some(settled),
        None => office.node.past_outcomes().await.ok().and_then(|past| past::remembered(&past, message)),
    };
    if let Some(settled) = ended {
        let _ = say(to, &Reply::Settled(settled)).await;
    }
}

/// The outcome that this process has noted. The book learns an outcome a moment after the node has it.
async fn noted(past: &Past, message: &Which) -> Option<Settled> {
    for _ in 0..LOOKS {
        let ended = match message {
            Which::Number(number) => past.of(*number),
            Which::Id(id) => past.of_id(id),
        };
        if ended.is_some() {
            return ended;
        }
        sleep(BETWEEN_LOOKS).await;
    }
    None
}

async fn give_up(node: &Node, number: Option<u64>, to: &mut OwnedWriteHalf) -> Result<(), Reply> {
    let mut ended = Vec::new();
    for waiting in numbered(node, number)? {
        let Some(outcome) = node.give_up(&waiting.message) else { continue };
        let id = match waiting.message.status {
            Status::InDoubt { id, .. } => Some(id),
            Status::Queued | Status::Settled => None,
        };
        ended.push(Settled {
            n: waiting.number.unwrap_or_default(),
            outcome: outcome.into(),
            judged: None,
            reason: None,
            remedy: None,
            early: id.is_some_and(|id| id.r == Incarnation::UNNAMED),
            receiver_durability: None,
            id: id.map(|id| id.to_string()),
            late: false,
        });
    }
    if node.journaled().await.is_err() {
        return Err(refusal("the node has stopped meanwhile: messages that were given up may come back"));
    }
    for settled in ended {
        if say(to, &Reply::Settled(settled)).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Looks for each peer that has open messages: if the peer answers, its messages are sent again.
async fn retry(node: &Node, number: Option<u64>, wait_ms: u64, to: &mut OwnedWriteHalf) -> Result<(), Reply> {
    let wait = Duration::from_millis(wait_ms).min(LONGEST_LOOK);
    let mut peers: BTreeMap<NodeId, (u64, Waiting)> = BTreeMap::new();
    for waiting in numbered(node, number)? {
        peers.entry(waiting.message.peer).or_insert((0, waiting)).0 += 1;
    }
    let look = async |(peer, (messages, waiting)): (NodeId, (u64, Waiting))| {
        let hints = waiting.addresses.iter().map(ToString::to_string);
        let at = PeerAddr::new(peer, hints).unwrap_or_else(|_| PeerAddr::from(peer));
        let (rtt_ms, why) = match node.peer(at).ping(wait).await {
            Ok(Some(rtt)) => (Some(rtt.as_secs_f64() * 1e3), None),
            Ok(None) => (None, Some("no answer".to_owned())),
            Err(PingError::Refused(why)) => (None, Some(why.to_string())),
            Err(error) => (None, Some(error.to_string())),
        };
        Reply::Peer { peer: peer.to_string(), messages, rtt_ms, why }
    };
    let mut looks: FuturesUnordered<_> = peers.into_iter().map(look).collect();
    while let Some(reply) = looks.next().await {
        if say(to, &reply).await.is_err() {
            break;
        }
    }
    Ok(())
}
