//! The near end: its knowledge of the far end, and the connections that the far end opens.

use std::sync::Arc;
use std::time::Duration;

use exonet::stream::Stream;
use exonet::{Node, Peer};
use tokio::sync::{Notify, Semaphore, watch};

use super::control;
use crate::args::ForwardArgs;
use crate::exit::remedy;
use crate::failure::Failure;
use crate::tunnel::keep::{self, About, Keeper, Key, Road, Tales, Token};
use crate::tunnel::{
    self, Code, Connected, Course, Goal, Host, Life, Message as _, Name, Names, Open, Opened, Over, Refusal,
    Registry, Run, Spec, Story, Target, Tell, Way, Why,
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
    /// What keeps connections when a process ends.
    pub(super) keeper: Option<Arc<Keeper>>,
    /// The life of this process.
    pub(super) life: Life,
    end: watch::Sender<Option<Over>>,
    /// The answer of the far end, once it has answered.
    pub(super) welcomed: watch::Sender<Welcomed>,
    /// Notified when the far end is a new process, which does not know this end yet.
    pub(super) unknown: Notify,
}

/// The connections of former runs, and what is told of them.
pub(super) struct Former(Option<(Vec<About>, Tales)>);

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
    /// Also returns the connections of former runs.
    pub(super) fn new(
        node: &Node,
        args: &ForwardArgs,
        window: usize,
        tell: Tell,
        kept: Option<(Arc<Keeper>, Vec<About>, Tales)>,
    ) -> Result<(Self, Former), Failure> {
        let most = args.max_connections.into();
        let (end, life) = Life::new();
        let (keeper, former) = kept.map(|(keeper, abouts, tales)| (keeper, (abouts, tales))).unzip();
        let near = Self {
            peer: node.peer(&args.peer),
            names: Names::new(Run::random()?),
            registry: Registry::new(most, most),
            seats: Arc::new(Semaphore::new(most)),
            most: args.max_connections.into(),
            course: Course { window, idle: args.idle, answer: args.timeout },
            remote: args.remote.clone(),
            tell,
            keeper,
            life,
            end,
            welcomed: watch::Sender::default(),
            unknown: Notify::new(),
        };
        Ok((near, Former(former)))
    }

    /// Continues with the connections of former runs that this command may still have.
    pub(super) fn continue_with(self: &Arc<Self>, former: Former, args: &ForwardArgs) {
        let (Some(keeper), Some((abouts, tales))) = (&self.keeper, former.0) else { return };
        keep::take_over(keeper, (abouts, tales), &self.tell, |about| self.seat_again(about, args));
        for key in keeper.claim(&self.peer.id().to_string()) {
            if let Some(road) = self.road() {
                tokio::spawn(keep::drive(road, key, None));
            }
        }
    }

    /// A place for a connection of a former run, if the command line still allows it.
    fn seat_again(&self, about: &About, args: &ForwardArgs) -> Result<Box<dyn Send>, Refusal> {
        let Story { way, peer, to, .. } = &about.story;
        let leads = |spec: &Spec| spec.to.to_string() == *to;
        let allowed = match way {
            Way::Local => args.local.iter().any(leads),
            Way::Remote => args.remote.iter().any(leads),
            Way::Socks => !args.socks.is_empty(),
            Way::Stdio | Way::Peer => false,
        };
        if !allowed || *peer != self.peer.id().to_string() {
            return Err(Refusal::new(Code::Denied, "this command no longer carries it"));
        }
        if about.opener {
            let seat = Arc::clone(&self.seats).try_acquire_owned();
            let full = |_| Refusal::new(Code::Busy, "there are as many connections as may be");
            return seat.map(|seat| Box::new(seat) as _).map_err(full);
        }
        self.registry.seat(self.peer.id()).map(|seat| Box::new(seat) as _)
    }

    /// How the links of kept connections are opened.
    pub(super) fn road(self: &Arc<Self>) -> Option<Road> {
        let near = Arc::clone(self);
        Some(Road {
            keeper: Arc::clone(self.keeper.as_ref()?),
            peer: self.peer.clone(),
            names: self.names.clone(),
            life: self.life.clone(),
            course: self.course,
            enter: Box::new(move |far| near.life_of(far)),
        })
    }

    fn host(&self) -> Host {
        Host { run: self.names.run(), course: self.course, keeper: self.keeper.clone() }
    }

    /// Ends all connections, and waits for their end. With `leaves`, the next run continues with kept ones.
    pub(super) async fn stop(&self, leaves: bool) {
        self.end.send_replace(Some(Over::Stopping));
        if let Some(keeper) = &self.keeper {
            keeper.stop(leaves).await;
        }
        self.registry.end_all();
        control::leave(self).await;
        // The semaphore is never closed.
        let _ = self.seats.acquire_many(self.most).await;
        self.registry.empty().await;
        if let Some(keeper) = &self.keeper {
            keeper.at_rest().await;
        }
    }

    /// Notes the run of the far end. Connections of another run end.
    pub(super) fn enter(&self, far: Run) -> Result<Life, Refusal> {
        let (life, new) = self.registry.enter(self.peer.id(), far)?;
        if new {
            self.unknown.notify_one();
        }
        Ok(life)
    }

    /// The life of a run of the far end that has answered.
    fn life_of(&self, far: Run) -> Life {
        // The answer of a run that has ended belongs to a connection that has ended.
        self.enter(far).unwrap_or_else(|_| Life::ended(Over::Restarted))
    }

    /// Notes that the far end has announced its end.
    pub(super) fn left(&self, far: Run) {
        self.registry.end(self.peer.id(), far, Over::Left);
    }

    /// Opens a connection to a target. Also returns the connected address. `keep`: the number under which this end keeps it.
    pub(super) async fn open(&self, to: &Target, keep: Option<Token>) -> Result<(Opened, String), Why> {
        let message = Open { run: self.names.run(), goal: Goal::To(to.clone()), keep }.encode();
        let mut life = self.life.clone();
        let (stream, connected) =
            tunnel::open(&self.peer, &self.names, &message, &mut life, self.course.answer).await?;
        let Connected { address, run, kept } = connected;
        Ok((Opened { stream, kept, life: self.life_of(run) }, address))
    }

    /// A number for a connection that this end keeps.
    pub(super) fn token(&self) -> Option<Token> {
        self.keeper.as_ref().and_then(|keeper| keeper.token())
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
        let Some((stream, open)) = tunnel::greet(stream, far).await else { return };
        if matches!(open.goal, Goal::Resume(_)) && self.life.is_over() {
            // The next process has the answer.
            return stream.split().1.stop(tunnel::GONE);
        }
        let life = match self.enter(far) {
            Ok(life) => life,
            Err(refusal) => return tunnel::refuse(stream, refusal).await,
        };
        let (to, from) = match open.goal {
            Goal::Resume(token) => {
                let key = Key { peer: self.peer.id().to_string(), token };
                match tunnel::carry_resumed(self.host(), stream, &key, life).await {
                    Ok(true) => self.unknown.notify_one(),
                    Ok(false) => {}
                    Err(stream) => {
                        let refusal = Refusal::new(Code::Gone, "nothing is left of this connection");
                        tunnel::refuse(stream, refusal).await;
                    }
                }
                return;
            }
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
        if tunnel::carry_accepted(self.host(), stream, (numbered, open.keep), made, life).await {
            // The far end continues with the connection as soon as it knows this end.
            self.unknown.notify_one();
        }
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
                tokio::spawn(async move { control::hear(&near, stream, far).await });
            }
            Name::Welcome { .. } | Name::Hello(_) => stream.split().1.stop("this is another near end"),
        }
    })
    .await;
}
