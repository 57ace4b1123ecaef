//! A connection that stands, at either end: whether it is kept, and what carries it.

use std::sync::Arc;

use exonet::stream::Stream;
use tokio::net::TcpStream;

use super::carry::{Closed, Course, Why, carry, finish, hold};
use super::event::Numbered;
use super::greet::refuse;
use super::keep::{About, Ending, Keeper, Key, Road, Standing, Token, Told, drive, follow};
use super::life::Life;
use super::registry::Seat;
use super::wire::{Answer, Connected, Message as _, Refusal, Run};

/// A connection at the end that has opened it.
pub(crate) struct Opened {
    pub(crate) stream: Stream,
    /// The other end keeps it.
    pub(crate) kept: bool,
    pub(crate) life: Life,
}

/// Carries a connection that this end has opened. `keeps`: this end keeps it if the other end does. `explain`: the
/// message for people.
pub(crate) async fn carry_opened(
    Opened { stream, kept, mut life }: Opened,
    mut socket: TcpStream,
    keeps: Option<(Road, About)>,
    course: Course,
    (told, explain): (Told, impl Fn(&Why) -> String),
) {
    let Some((road, about)) = keeps.filter(|_| kept) else {
        let (mut reader, mut writer) = socket.split();
        let closed = carry(stream, (&mut reader, &mut writer), &mut life, course).await;
        finish(&socket, closed.abort);
        drop(socket);
        return told(Ending::of(&closed, explain(&closed.why)));
    };
    let key = about.key();
    match road.keeper.hold(about, course.window, socket, told).await {
        Ok(link) => drive(road, key, Some(Standing { stream, link, life })).await,
        Err((socket, told)) => {
            let (mut sender, receiver) = stream.split();
            // If the node is closed, nothing can be sent.
            let _ = sender.reset().await;
            receiver.stop("it cannot be kept");
            finish(&socket, true);
            drop(socket);
            told(Ending::lost("failed", "the process that keeps connections did not take it"));
        }
    }
}

/// The end that answers.
pub(crate) struct Host {
    pub(crate) run: Run,
    pub(crate) course: Course,
    pub(crate) keeper: Option<Arc<Keeper>>,
}

/// Answers a connection that the other end has opened, and carries it if `made` is its socket. `keep`: the number under which
/// the other end keeps it if this one does. True: it is kept, and the process at the other end is gone.
pub(crate) async fn carry_accepted(
    host: Host,
    mut stream: Stream,
    (numbered, keep): (Numbered, Option<Token>),
    made: Result<(Seat, TcpStream), Refusal>,
    mut life: Life,
) -> bool {
    let (seat, mut socket) = match made {
        Ok(made) => made,
        Err(refusal) => {
            refuse(stream, refusal.clone()).await;
            let closed = Closed::unopened(Why::Refused(refusal));
            let text = closed.why.to_string();
            numbered.closed(&closed, text);
            return false;
        }
    };
    hold(&socket);
    let story = numbered.story().clone();
    let address = socket.peer_addr().map_or_else(|_| story.to.clone(), |address| address.to_string());
    numbered.opened(address.clone());
    let about = keep.map(|token| About { token, opener: false, story, address: address.clone() });
    let mut told = numbered.told(seat);
    let Host { run, course, keeper } = host;
    if let Some((keeper, about)) = keeper.zip(about) {
        let key = about.key();
        match keeper.hold(about, course.window, socket, told).await {
            Ok(link) => {
                answer(&mut stream, address, run, true).await;
                return follow(&keeper, &key, Standing { stream, link, life }, course).await;
            }
            Err(back) => (socket, told) = back,
        }
    }
    answer(&mut stream, address, run, false).await;
    let (mut reader, mut writer) = socket.split();
    let closed = carry(stream, (&mut reader, &mut writer), &mut life, course).await;
    finish(&socket, closed.abort);
    drop(socket);
    told(Ending::of(&closed, closed.why.to_string()));
    false
}

/// Carries a kept connection over a new link. True: the process at the other end is gone again.
///
/// # Errors
/// Nothing is left of it, or the other end does not open its links. The stream comes back.
pub(crate) async fn carry_resumed(
    host: Host,
    mut stream: Stream,
    key: &Key,
    life: Life,
) -> Result<bool, Stream> {
    let Host { run, course, keeper } = host;
    let Some(keeper) = keeper else { return Err(stream) };
    let Some((about, _)) = keeper.look(key).filter(|(about, _)| !about.opener) else { return Err(stream) };
    let Some(link) = keeper.link(key).await else { return Err(stream) };
    answer(&mut stream, about.address, run, true).await;
    Ok(follow(&keeper, key, Standing { stream, link, life }, course).await)
}

async fn answer(stream: &mut Stream, address: String, run: Run, kept: bool) {
    let answer = Answer::Ok(Connected { address, run, kept });
    // A stream that has broken breaks again when it is carried.
    let _ = stream.both().0.send(answer.encode()).await;
}
