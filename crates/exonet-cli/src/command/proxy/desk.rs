//! The work of the far end for each stream.

use std::sync::Arc;
use std::time::Duration;

use exonet::stream::Stream;
use exonet::{Node, NodeId, Peer};
use tokio::sync::watch;
use tokio::time::sleep;

use super::control;
use crate::args::ProxyServeArgs;
use crate::failure::Failure;
use crate::tunnel::keep::{self, About, Keeper, Key, Road, Tales, Token};
use crate::tunnel::{
    self, BEAT, Code, Course, Event, Goal, Host, Life, Name, Names, Over, Place, Policy, Refusal, Registry,
    Ruling, Run, Seat, Story, Tell, Way,
};

/// The far end: its policy, and the near ends that are present.
pub(super) struct Desk {
    policy: Policy,
    pub(super) places: Vec<Place>,
    pub(super) registry: Registry,
    /// Names for the streams of connections to `-R` ports, and the run of this process.
    pub(super) names: Names,
    pub(super) course: Course,
    connect_timeout: Duration,
    patience: Duration,
    pub(super) tell: Tell,
    /// The nodes that may be here; without any, all may.
    allow: Vec<NodeId>,
    /// What keeps connections when a process ends.
    keeper: Option<Arc<Keeper>>,
    /// The life of this process.
    life: Life,
    end: watch::Sender<Option<Over>>,
}

impl Desk {
    /// The far end, and the connections of former runs that it may still have.
    pub(super) fn new(
        args: &ProxyServeArgs,
        window: usize,
        tell: Tell,
        kept: Option<(Arc<Keeper>, Vec<About>, Tales)>,
    ) -> Result<Arc<Self>, Failure> {
        let (end, life) = Life::new();
        let (keeper, former) = kept.map(|(keeper, abouts, tales)| (keeper, (abouts, tales))).unzip();
        let desk = Self {
            policy: Policy::new(args.allow_to.clone()),
            places: args.allow_listen.clone(),
            registry: Registry::new(args.per_peer.into(), args.max_connections.into()),
            names: Names::new(Run::random()?),
            course: Course { window, idle: args.idle, answer: tunnel::ANSWER },
            connect_timeout: args.connect_timeout,
            // A near end that is present sends a message each beat.
            patience: args.patience.max(BEAT * 3),
            tell,
            allow: args.allow.clone(),
            keeper,
            life,
            end,
        };
        if let Some((abouts, tales)) = former {
            desk.continue_with(abouts, tales);
        }
        Ok(Arc::new(desk))
    }

    /// Continues with connections of former runs, as far as the command line still allows it.
    fn continue_with(&self, abouts: Vec<About>, tales: Tales) {
        let Some(keeper) = &self.keeper else { return };
        keep::take_over(keeper, (abouts, tales), &self.tell, |about| self.seat_again(about));
    }

    /// A place for a connection of a former run, if it is allowed.
    fn seat_again(&self, about: &About) -> Result<Seat, Refusal> {
        let denied = || Refusal::new(Code::Denied, "this is no longer allowed here");
        let peer: NodeId = about.story.peer.parse().map_err(|_| denied())?;
        let address = about.address.parse().ok();
        let to = || about.story.to.parse().ok();
        let allowed = match about.story.way {
            Way::Peer => to().is_some_and(|target| match self.policy.rule(&target) {
                Ruling::Allowed => true,
                Ruling::ByAddress => address.is_some_and(|address| self.policy.allows(address)),
                Ruling::Denied => false,
            }),
            Way::Remote => {
                let at = about.story.to.parse().ok();
                at.is_some_and(|at| self.places.iter().any(|place| place.has(at)))
            }
            Way::Local | Way::Socks | Way::Stdio => false,
        };
        if allowed && (self.allow.is_empty() || self.allow.contains(&peer)) {
            self.registry.seat(peer)
        } else {
            Err(denied())
        }
    }

    /// How the links of connections that came to ports here are opened.
    pub(super) fn road(self: &Arc<Self>, peer: &Peer) -> Option<Road> {
        let (desk, of) = (Arc::clone(self), peer.clone());
        Some(Road {
            keeper: Arc::clone(self.keeper.as_ref()?),
            peer: peer.clone(),
            names: self.names.clone(),
            life: self.life.clone(),
            course: self.course,
            // The answer of a run that has ended belongs to a link that has ended.
            enter: Box::new(move |run| desk.enter(&of, run).unwrap_or_else(|_| Life::ended(Over::Restarted))),
        })
    }

    /// A number for a connection that this end keeps.
    pub(super) fn token(&self) -> Option<Token> {
        self.keeper.as_ref().and_then(|keeper| keeper.token())
    }

    fn host(&self) -> Host {
        Host { run: self.names.run(), course: self.course, keeper: self.keeper.clone() }
    }

    /// Accepts the streams that near ends open. Never returns.
    pub(super) async fn serve(self: Arc<Self>, node: Node) {
        tunnel::take_in(node, |stream, name| {
            let desk = Arc::clone(&self);
            match name {
                Name::Connection(run) => {
                    tokio::spawn(async move { desk.connection(stream, run).await });
                }
                Name::Hello(run) => {
                    tokio::spawn(control::keep(desk, stream, run));
                }
                Name::Welcome { .. } => stream.split().1.stop("this is a far end"),
            }
        })
        .await;
    }

    /// Ends all connections, and waits until they have. With `leaves`, the next run continues with kept ones.
    pub(super) async fn stop(&self, leaves: bool) {
        self.end.send_replace(Some(Over::Stopping));
        if let Some(keeper) = &self.keeper {
            keeper.stop(leaves).await;
        }
        self.registry.end_all();
        self.registry.empty().await;
        if let Some(keeper) = &self.keeper {
            keeper.at_rest().await;
        }
    }

    /// The run of a near end, which begins now if it is new. The error means that the run has ended.
    pub(super) fn enter(self: &Arc<Self>, peer: &Peer, run: Run) -> Result<Life, Refusal> {
        let other = peer;
        let peer = peer.id();
        let (life, new) = self.registry.enter(peer, run)?;
        if new {
            self.tell.say(Event::Joined { peer: peer.to_string() });
            for key in self.keeper.iter().flat_map(|keeper| keeper.claim(&peer.to_string())) {
                if let Some(road) = self.road(other) {
                    tokio::spawn(keep::drive(road, key, None));
                }
            }
            let (desk, ended) = (Arc::clone(self), life.clone());
            tokio::spawn(async move {
                let over = desk.watch(peer, run, ended).await;
                desk.tell.say(Event::Left { peer: peer.to_string(), why: over.to_string() });
            });
        }
        Ok(life)
    }

    /// Ends the run of a near end that is silent for too long. Returns the reason for the end of the run.
    async fn watch(&self, peer: NodeId, run: Run, mut life: Life) -> Over {
        let silence = async {
            while let Some(silent) = self.registry.silent(peer, run) {
                if silent >= self.patience {
                    self.registry.end(peer, run, Over::Silent);
                    break;
                }
                sleep(self.patience.saturating_sub(silent)).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            over = life.over() => over,
            () = silence => Over::Silent,
        }
    }

    /// Serves a connection to a target.
    async fn connection(self: Arc<Self>, stream: Stream, run: Run) {
        let Some((stream, open)) = tunnel::greet(stream, run).await else { return };
        if matches!(open.goal, Goal::Resume(_)) && self.life.is_over() {
            // The next process has the answer.
            return stream.split().1.stop(tunnel::GONE);
        }
        let mut life = match self.enter(stream.peer(), run) {
            Ok(life) => life,
            Err(refusal) => return tunnel::refuse(stream, refusal).await,
        };
        let peer = stream.peer().id();
        let target = match open.goal {
            Goal::To(target) => target,
            Goal::Resume(token) => {
                let key = Key { peer: peer.to_string(), token };
                if let Err(stream) = tunnel::carry_resumed(self.host(), stream, &key, life).await {
                    tunnel::refuse(stream, Refusal::new(Code::Gone, "nothing is left of this connection"))
                        .await;
                }
                return;
            }
            Goal::Reverse(_) => {
                let refusal = Refusal::new(Code::Malformed, "a far end must not ask for ports");
                return tunnel::refuse(stream, refusal).await;
            }
        };
        let story =
            Story { way: Way::Peer, peer: peer.to_string(), from: peer.short(), to: target.to_string() };
        let numbered = self.tell.number(story);
        let made = match self.registry.seat(peer) {
            Err(refusal) => Err(refusal),
            Ok(seat) => tokio::select! {
                made = tunnel::dial(&self.policy, &target, self.connect_timeout) => made.map(|socket| (seat, socket)),
                over = life.over() => Err(Refusal::new(Code::Gone, over.to_string())),
            },
        };
        tunnel::carry_accepted(self.host(), stream, (numbered, open.keep), made, life).await;
    }
}
