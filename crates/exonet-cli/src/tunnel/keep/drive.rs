//! Carries kept connections: bytes of links, between the keeper and streams of the other end.

use std::sync::Arc;
use std::time::Duration;

use exonet::Peer;
use exonet::stream::Stream;
use tokio::time::{Instant, sleep};

use super::client::Keeper;
use super::say::{Key, Order};
use super::{Link, Token};
use crate::tunnel::carry::{self, Course, Why};
use crate::tunnel::life::{Life, Over};
use crate::tunnel::wire::{Goal, Message as _, Names, Open, Run};

/// The pauses before a link is opened again: the first, and the longest.
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(2);
/// The time for the answer to the first attempt, which is doubled for each further one: a process may end between taking
/// the question and answering it.
const ANSWER: Duration = Duration::from_secs(3);
/// A link that has lasted this long is followed by the first pause.
const LASTED: Duration = Duration::from_secs(5);

/// What the links of a connection need, at the end that opens them.
pub(crate) struct Road {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) peer: Peer,
    pub(crate) names: Names,
    /// The life of this process.
    pub(crate) life: Life,
    pub(crate) course: Course,
    /// Notes the run of the other end. Returns its life.
    pub(crate) enter: Box<dyn Fn(Run) -> Life + Send + Sync>,
}

/// A link that stands.
pub(crate) struct Standing {
    pub(crate) stream: Stream,
    pub(crate) link: Link,
    /// The life of the run of the other end.
    pub(crate) life: Life,
}

#[derive(PartialEq, Eq)]
enum Carried {
    /// The link is lost, and another one may follow.
    Lost,
    /// It is lost with the process at the other end.
    Restarted,
    /// Nothing follows.
    Over,
}

/// Carries a link to its end.
async fn along(keeper: &Keeper, key: &Key, standing: Standing, course: Course) -> Carried {
    let _carrying = keeper.carrying();
    let Standing { stream, link, mut life } = standing;
    let (mut reader, mut writer) = tokio::io::split(link);
    let closed = carry::carry(stream, (&mut reader, &mut writer), &mut life, course).await;
    let (key, why, text) = (key.clone(), closed.why.word().to_owned(), closed.why.to_string());
    match closed.why {
        // A keeper ends a link when both ends know of the end. If they do not, it has ended itself.
        Why::Ended => {
            let why = "reset_there".to_owned();
            keeper.order(Order::Drop { key, why, text: "the other end keeps it no longer".to_owned() });
            Carried::Over
        }
        Why::Over(Over::Silent) => {
            keeper.order(Order::Drop { key, why, text });
            Carried::Over
        }
        Why::Over(Over::Stopping) => Carried::Over,
        Why::Over(Over::Restarted) => Carried::Restarted,
        Why::Idle(_) => {
            keeper.order(Order::Break { key, why, text });
            Carried::Lost
        }
        _ => Carried::Lost,
    }
}

/// Carries a link that the other end has opened. The other end opens the next one. True: the link is lost with the
/// process at the other end, so the next process may not know of this end.
pub(crate) async fn follow(keeper: &Keeper, key: &Key, standing: Standing, course: Course) -> bool {
    along(keeper, key, standing, course).await == Carried::Restarted
}

/// Carries a connection that this end has opened: over `first`, and over new links until nothing is left of it.
pub(crate) async fn drive(road: Road, key: Key, first: Option<Standing>) {
    let (mut next, mut pause, mut patience) = (first, FIRST, ANSWER);
    loop {
        if let Some(standing) = next.take() {
            let began = Instant::now();
            if along(&road.keeper, &key, standing, road.course).await == Carried::Over {
                let _ = road.keeper.take_lost(&key);
                return;
            }
            if began.elapsed() >= LASTED {
                (pause, patience) = (FIRST, ANSWER);
            }
        }
        let Some((_, mut live)) = road.keeper.look(&key) else { return lose(&road, &key).await };
        let again = async {
            sleep(pause).await;
            again(&road, &key, patience).await
        };
        tokio::select! {
            _ = live.changed() => return lose(&road, &key).await,
            opened = again => match opened {
                Again::Up(standing) => next = Some(*standing),
                Again::Later => {}
                Again::Never => return,
            },
        }
        (pause, patience) = ((pause * 2).min(LONGEST), (patience * 2).min(road.course.answer));
    }
}

enum Again {
    Up(Box<Standing>),
    Later,
    Never,
}

/// Opens another link, if the other end answers in time.
async fn again(road: &Road, key: &Key, patience: Duration) -> Again {
    let open = resume(road.names.run(), key.token);
    let mut life = road.life.clone();
    let opened = carry::open(&road.peer, &road.names, &open, &mut life, patience).await;
    let give_up = |why: &Why| {
        let (why, text) = (why.word().to_owned(), why.to_string());
        road.keeper.order(Order::Drop { key: key.clone(), why, text });
        Again::Never
    };
    match opened {
        Ok((stream, connected)) => match road.keeper.link(key).await {
            Some(link) => {
                let life = (road.enter)(connected.run);
                Again::Up(Box::new(Standing { stream, link, life }))
            }
            None => {
                let _ = road.keeper.take_lost(key);
                end(stream).await;
                Again::Never
            }
        },
        Err(why @ (Why::Refused(_) | Why::Barred(_))) => give_up(&why),
        Err(Why::Over(Over::Stopping)) => Again::Never,
        Err(_) => Again::Later,
    }
}

/// If the connection has ended with its keeper, tells the other end.
async fn lose(road: &Road, key: &Key) {
    if road.keeper.take_lost(key) {
        let (open, mut life) = (resume(road.names.run(), key.token), road.life.clone());
        let opened = carry::open(&road.peer, &road.names, &open, &mut life, road.course.answer).await;
        if let Ok((stream, _)) = opened {
            end(stream).await;
        }
    }
}

/// Ends a link in order, which says that this end keeps nothing: see [`along`].
async fn end(stream: Stream) {
    let (mut sender, receiver) = stream.split();
    // If the node is closed, nothing can be sent.
    let _ = sender.close().await;
    receiver.stop("the connection has ended");
}

fn resume(run: Run, token: Token) -> bytes::Bytes {
    Open { run, goal: Goal::Resume(token), keep: None }.encode()
}
