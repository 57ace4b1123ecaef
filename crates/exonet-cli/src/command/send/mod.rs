//! `exon send`: texts, files and lines as messages.

mod book;
mod handover;
mod input;
mod offer;
mod report;

use std::io::IsTerminal;
use std::time::Duration;

use exonet::error::{PingError, SendError};
use exonet::send::OpenMessage;
use exonet::{Node, Outcome, Peer, PeerAddr, Receipt};
use tokio::sync::mpsc;

use self::book::Book;
use self::offer::Offer;
use super::announce::be_somebody;
use super::refusals::Refusals;
use super::running::{self, Found};
use super::show;
use super::traced::Traced;
use crate::args::SendArgs;
use crate::control::protocol::Which;
use crate::control::{Control, Role};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;

/// The time limit for a peer to answer at its new address. Messages are tried for longer.
const LOOK: Duration = Duration::from_secs(30);
/// The silence after which the command prints that it still tries.
const SILENCE: Duration = Duration::from_secs(4);

pub(in crate::command) async fn run(settings: &Settings, args: &SendArgs) -> Result<Exit, Failure> {
    for file in args.files.iter().filter(|file| !input::is_input(file)) {
        input::readable(file).await?;
    }
    if args.reads_input() && std::io::stdin().is_terminal() {
        settings.note("each line is a message; Ctrl-D ends, Ctrl-C stops");
    }
    if args.durable {
        be_somebody(settings)?;
    }
    let own = async || {
        if args.up {
            return Err(running::no_background(settings)?);
        }
        node::sender(settings, args.peer.as_ref()).await
    };
    match running::find_or(settings, own).await? {
        Found::Running(process) => handover::run(settings, args, &process).await,
        Found::Own((node, left)) => {
            let peer = args.peer.as_ref().map(|peer| peer.id);
            let wanted = |message: &OpenMessage| args.go_on || peer == Some(message.peer);
            own_node(settings, args, node, left, wanted).await
        }
    }
}

/// Continues with the messages that a former run has left, or with one of them. In the latter case the
/// command also sends the other messages, but does not wait for them.
pub(in crate::command) async fn retry(
    settings: &Settings,
    which: Option<&Which>,
    timeout: Option<Duration>,
    (node, left): (Node, Vec<(OpenMessage, Receipt)>),
) -> Result<Exit, Failure> {
    let wanted: Vec<OpenMessage> = left.iter().map(|(message, _)| *message).collect();
    let is = |message: &OpenMessage| which.is_none_or(|which| running::is(&node, message, which));
    let wanted: Vec<OpenMessage> = wanted.into_iter().filter(is).collect();
    if let Some(which) = which
        && wanted.is_empty()
    {
        drop(left);
        node.close(GOODBYE).await;
        return Err(running::no_message(settings, which));
    }
    let keys: Vec<_> = wanted.iter().map(|message| message.key).collect();
    let wanted = |message: &OpenMessage| keys.contains(&message.key);
    own_node(settings, &SendArgs::go_on(timeout), node, left, wanted).await
}

/// Sends with a node of this process. The node continues with the messages of a former run, and waits for those that
/// are `wanted`.
async fn own_node(
    settings: &Settings,
    args: &SendArgs,
    node: Node,
    left: Vec<(OpenMessage, Receipt)>,
    wanted: impl Fn(&OpenMessage) -> bool,
) -> Result<Exit, Failure> {
    let control = Control::try_open(settings, &node, Role::Command("send"));
    let refusals = Refusals::default();
    let mut book = Book::new(settings, &refusals, node.id(), args.peer.as_ref().map(|peer| peer.id));
    if args.go_on && left.is_empty() {
        settings.note("no former run has left anything");
    }
    let traced = if args.trace { Some(Traced::begin(settings, &node)?) } else { None };
    let others = book.recover(&node, left, wanted);
    let ended = {
        let (receipts, offered) = mpsc::channel(256);
        let forced = settings.waits_for_disk();
        let nothing = book.open.is_empty();
        let offer = async {
            match &args.peer {
                Some(_) if args.go_on && nothing => Ok(()),
                Some(to) if args.go_on => look_for(&node.peer(to)).await,
                Some(to) => {
                    let mut offer = Offer { peer: node.peer(to), args, receipts, forced };
                    input::give(args, &mut offer).await
                }
                None => Ok(()),
            }
        };
        book.keep(&node, args, offer, offered).await
    };
    // If something cannot be printed, the messages are counted all the same.
    let mut printed = match traced {
        Some(traced) => traced.end().await,
        None => Ok(()),
    };
    for peer in &book.peers {
        show::say_conflict(settings, &node, peer);
    }
    control.close().await;
    printed = printed.and(show::open_messages(settings, &node.close(GOODBYE).await));
    // When its last handle is dropped, the node settles each open message: as Kept if it is in the journal, otherwise
    // as Cancelled if it was never sent, otherwise as Unknown.
    drop(node);
    printed = printed.and(book.settle_rest().await);
    let others = others.iter().filter(|receipt| is_kept(receipt)).count();
    let ended = ended.and_then(|stop| printed.map(|()| stop));
    book.sum_up(args, ended, others)
}

/// Whether the message of a receipt that is not waited for is kept in the journal.
fn is_kept(receipt: &Receipt) -> bool {
    receipt.settled().is_some_and(|settled| settled.outcome == Outcome::Kept)
}

/// Looks for the peer at its new address, to which open messages are then sent.
async fn look_for(peer: &Peer) -> Result<(), Failure> {
    match peer.ping(LOOK).await {
        Err(PingError::Send(error)) => Err(cannot_send(peer.addr(), &error)),
        // If the peer refuses, the outcomes of its messages say so too.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A refused `send`, in words.
pub(in crate::command) fn cannot_send(peer: &PeerAddr, error: &SendError) -> Failure {
    let failure = Failure::new(format!("cannot send to {}", peer.id.short())).because(error);
    match error {
        SendError::NoSpace => {
            failure.hint("free some space, or give up what waits: exon outbox drop; then send the rest again")
        }
        _ => failure,
    }
}
