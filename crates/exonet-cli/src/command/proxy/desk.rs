//! The work of the far end for each stream.

use std::sync::Arc;
use std::time::Duration;

use exonet::stream::Stream;
use exonet::{Node, NodeId, Peer};
use tokio::time::sleep;

use super::control;
use crate::args::ProxyServeArgs;
use crate::failure::Failure;
use crate::tunnel::{
    self, Answer, BEAT, Closed, Code, Connected, Course, Event, Goal, Life, Message as _, Name, Names, Over,
    Place, Policy, Refusal, Registry, Run, Story, Tell, Way, Why, finish, hold,
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
}

impl Desk {
    pub(super) fn new(args: &ProxyServeArgs, window: usize, tell: Tell) -> Result<Self, Failure> {
        Ok(Self {
            policy: Policy::new(args.allow_to.clone()),
            places: args.allow_listen.clone(),
            registry: Registry::new(args.per_peer.into(), args.max_connections.into()),
            names: Names::new(Run::random()?),
            course: Course { window, idle: args.idle, answer: tunnel::ANSWER },
            connect_timeout: args.connect_timeout,
            // A near end that is present sends a message each beat.
            patience: args.patience.max(BEAT * 3),
            tell,
        })
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

    /// Ends all connections, and waits until they have.
    pub(super) async fn stop(&self) {
        self.registry.end_all();
        self.registry.empty().await;
    }

    /// The run of a near end, which begins now if it is new. The error means that the run has ended.
    pub(super) fn enter(self: &Arc<Self>, peer: &Peer, run: Run) -> Result<Life, Refusal> {
        let peer = peer.id();
        let (life, new) = self.registry.enter(peer, run)?;
        if new {
            self.tell.say(Event::Joined { peer: peer.to_string() });
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
        let mut life = match self.enter(stream.peer(), run) {
            Ok(life) => life,
            Err(refusal) => return tunnel::refuse(stream, refusal).await,
        };
        let Goal::To(target) = open.goal else {
            let refusal = Refusal::new(Code::Malformed, "a far end must not ask for ports");
            return tunnel::refuse(stream, refusal).await;
        };
        let peer = stream.peer().id();
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
        let address = socket.peer_addr().map_or_else(|_| target.to_string(), |address| address.to_string());
        let answer = Answer::Ok(Connected { address: address.clone(), run: self.names.run() });
        let mut stream = stream;
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
