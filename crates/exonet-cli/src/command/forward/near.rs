//! The near end: its knowledge of the far end, and the connections that the far end opens.

use std::sync::Arc;
use std::time::Duration;

use exonet::stream::Stream;
use exonet::{Node, Peer};
use tokio::sync::{Notify, Semaphore, watch};

use super::keeper;
use crate::args::ForwardArgs;
use crate::exit::remedy;
use crate::failure::Failure;
use crate::tunnel::{
    self, Answer, Closed, Code, Connected, Course, Goal, Life, Message as _, Name, Names, Open, Over,
    Refusal, Registry, Run, Spec, Story, Target, Tell, Way, Why, finish, hold,
};

pub(super) struct Near {
    pub(super) peer: Peer,
    /// Names for the streams of connections that this end opens, and the run of this process.
    pub(super) names: Names,
    /// The far end's run.
    registry: Registry,
    /// Places for connections that local programs open.
    pub(super) seats: Arc<Semaphore>,
    most: u32,
    pub(super) course: Course,
    pub(super) remote: Vec<Spec>,
    pub(super) tell: Tell,
    /// The life of this process.
    pub(super) life: Life,
    end: watch::Sender<Option<Over>>,
    /// The answer of the far end, once it has answered.
    pub(super) welcomed: watch::Sender<Welcomed>,
    /// Notified when the far end is a new process, which does not know this end yet.
    pub(super) unknown: Notify,
}

/// The answer of the far end so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Welcomed {
    #[default]
    NotYet,
    Yes,
    /// The far end does not listen at a requested port.
    Denied,
}

impl Near {
    pub(super) fn new(node: &Node, args: &ForwardArgs, window: usize, tell: Tell) -> Result<Self, Failure> {
        let most = args.max_connections.into();
        let (end, life) = Life::new();
        Ok(Self {
            peer: node.peer(&args.peer),
            names: Names::new(Run::random()?),
            registry: Registry::new(most, most),
            seats: Arc::new(Semaphore::new(most)),
            most: args.max_connections.into(),
            course: Course { window, idle: args.idle, answer: args.timeout },
            remote: args.remote.clone(),
            tell,
            life,
            end,
            welcomed: watch::Sender::default(),
            unknown: Notify::new(),
        })
    }

    /// Ends all connections, and waits for their end.
    pub(super) async fn stop(&self) {
        self.end.send_replace(Some(Over::Stopping));
        self.registry.end_all();
        keeper::leave(self).await;
        // The semaphore is never closed.
        let _ = self.seats.acquire_many(self.most).await;
        self.registry.empty().await;
    }

    /// Notes the run of the far end. Connections of another run end.
    pub(super) fn enter(&self, far: Run) -> Result<Life, Refusal> {
        let (life, new) = self.registry.enter(self.peer.id(), far)?;
        if new {
            self.unknown.notify_one();
        }
        Ok(life)
    }

    /// The life of a connection with this answer.
    fn life_of(&self, connected: &Connected) -> Life {
        // The answer of a run that has ended belongs to a connection that has ended.
        self.enter(connected.run).unwrap_or_else(|_| Life::ended(Over::Restarted))
    }

    /// Notes that the far end has announced its end.
    pub(super) fn left(&self, far: Run) {
        self.registry.end(self.peer.id(), far, Over::Left);
    }

    /// Opens a connection to a target. Returns the stream, the connected address, and the life of the connection.
    pub(super) async fn open(&self, to: &Target) -> Result<(Stream, Connected, Life), Why> {
        let message = Open { run: self.names.run(), goal: Goal::To(to.clone()) }.encode();
        let mut life = self.life.clone();
        let (stream, connected) =
            tunnel::open(&self.peer, &self.names, &message, &mut life, self.course.answer).await?;
        let life = self.life_of(&connected);
        Ok((stream, connected, life))
    }

    /// The reason why a connection to `to` has ended, for people.
    pub(super) fn explain(&self, to: &str, why: &Why) -> String {
        let peer = self.peer.id().short();
        match why {
            Why::Refused(Refusal { code: Code::Denied, .. }) => {
                format!(
                    "{peer} does not allow {to}; its owner can allow it: exon proxy serve --allow-to {to}"
                )
            }
            Why::Barred(barred) => format!("{peer}: {barred}; {}", remedy(*barred, self.peer.node().id())),
            Why::Unanswered(span) => format!("{peer} has not answered for {}", crate::units::span(*span)),
            why => why.to_string(),
        }
    }

    pub(super) fn story(&self, way: Way, from: String, to: &Target) -> Story {
        Story { way, peer: self.peer.id().to_string(), from, to: to.to_string() }
    }

    /// Serves a connection that arrived at a port of the far end.
    async fn reverse(self: Arc<Self>, stream: Stream, far: Run) {
        let Some((mut stream, open)) = tunnel::greet(stream, far).await else { return };
        let mut life = match self.enter(far) {
            Ok(life) => life,
            Err(refusal) => return tunnel::refuse(stream, refusal).await,
        };
        let (to, from) = match open.goal {
            Goal::Reverse(reverse) if reverse.near == self.names.run() => {
                (self.remote.get(reverse.port).map(|spec| spec.to.clone()), reverse.from)
            }
            _ => (None, String::new()),
        };
        let Some(to) = to else {
            return tunnel::refuse(stream, Refusal::new(Code::Denied, "this end has not asked for that"))
                .await;
        };
        let numbered = self.tell.number(self.story(Way::Remote, from, &to));
        let made = match self.registry.seat(self.peer.id()) {
            Err(refusal) => Err(refusal),
            Ok(seat) => tunnel::connect(&to, REACH).await.map(|socket| (seat, socket)),
        };
        let (seat, mut socket) = match made {
            Ok(made) => made,
            Err(refusal) => {
                tunnel::refuse(stream, refusal.clone()).await;
                let closed = Closed::unopened(Why::Refused(refusal));
                let text = closed.why.to_string();
                return numbered.closed(&closed, text);
            }
        };
        hold(&socket);
        let address = socket.peer_addr().map_or_else(|_| to.to_string(), |address| address.to_string());
        let answer = Answer::Ok(Connected { address: address.clone(), run: self.names.run() });
        // An error here occurs again below.
        let _ = stream.both().0.send(answer.encode()).await;
        numbered.opened(address);
        let (mut reader, mut writer) = socket.split();
        let closed = tunnel::carry(stream, (&mut reader, &mut writer), &mut life, self.course).await;
        finish(socket, &closed);
        drop(seat);
        let text = closed.why.to_string();
        numbered.closed(&closed, text);
    }
}

/// The time limit for a connection to a target of `-R`.
const REACH: Duration = Duration::from_secs(10);

/// Accepts the streams that the far end opens. Never returns.
pub(super) async fn serve(near: Arc<Near>, node: Node) {
    tunnel::take_in(node, |stream, name| {
        let near = Arc::clone(&near);
        match name {
            Name::Connection(far) => {
                tokio::spawn(near.reverse(stream, far));
            }
            Name::Welcome { far, near: run } if run == near.names.run() => {
                tokio::spawn(async move { keeper::hear(&near, stream, far).await });
            }
            Name::Welcome { .. } | Name::Hello(_) => stream.split().1.stop("this is another near end"),
        }
    })
    .await;
}
