//! The control streams of near ends: they announce that a near end is present, and the ports where the far end is to
//! listen for it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use exonet::Peer;
use exonet::stream::Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::desk::Desk;
use crate::tunnel::keep::About;
use crate::tunnel::{
    self, Closed, Code, Connected, Event, Goal, Hello, Life, Listened, MOST_LISTENED, Message as _, Name,
    Open, Opened, Over, Refusal, Reverse, Run, Seat, Story, Way, Welcome, Why, carry_opened, finish, hold,
};

/// How long ports in use are tried again after a run has begun, and how often.
const RELEASE: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(20);

/// A near end, for the duration of its run.
struct Near {
    desk: Arc<Desk>,
    peer: Peer,
    run: Run,
    /// The ports where the far end listens for it, or the reasons why it does not. They are closed when this is
    /// dropped.
    ports: BTreeMap<(usize, SocketAddr), Listened>,
    listening: JoinSet<()>,
    /// Until then the former run of the near end may have a port.
    release: Instant,
}

/// Reads the control stream of a near end until its run ends.
pub(super) async fn keep(desk: Arc<Desk>, stream: Stream, run: Run) {
    let peer = stream.peer().clone();
    let (_, mut receiver) = stream.split();
    let (ports, listening) = (BTreeMap::new(), JoinSet::new());
    let release = Instant::now() + RELEASE;
    let mut near = Near { desk: Arc::clone(&desk), peer: peer.clone(), run, ports, listening, release };
    let Ok(voice) = peer.stream(Name::welcome(desk.names.run(), run)) else {
        return receiver.stop("this near end is already connected");
    };
    let (mut voice, _) = voice.split();
    let mut life: Option<Life> = None;
    loop {
        let said = tokio::select! {
            said = tunnel::next::<Hello>(&mut receiver) => said,
            over = ended(&mut life) => match over {
                // The near end may speak again, to another task.
                Over::Silent => return,
                _ => break,
            },
        };
        let hello = match said {
            Some(Ok(hello)) if hello.listen.len() <= MOST_LISTENED => hello,
            Some(_) => return receiver.stop("this is not a message of a near end"),
            None => {
                desk.registry.end(peer.id(), run, Over::Left);
                break;
            }
        };
        let Ok(entered) = desk.enter(&peer, run) else { return receiver.stop("this run has ended") };
        let welcome = near.welcome(&hello, &entered).await;
        life = Some(entered);
        // If the node is closed, nothing can be sent.
        drop(voice.send(welcome.encode()).await);
    }
    drop(voice.close().await);
}

async fn ended(life: &mut Option<Life>) -> Over {
    match life {
        Some(life) => life.over().await,
        None => std::future::pending().await,
    }
}

impl Near {
    /// Listens at the requested ports that are allowed, and returns the results.
    async fn welcome(&mut self, hello: &Hello, life: &Life) -> Welcome {
        let mut listen = Vec::new();
        for (port, place) in hello.listen.iter().enumerate() {
            let listened = match self.ports.get(&(port, *place)) {
                Some(Listened::Ok(at)) => Listened::Ok(*at),
                _ => self.listen(*place, port, life).await,
            };
            self.ports.insert((port, *place), listened.clone());
            listen.push(listened);
        }
        Welcome { listen }
    }

    async fn listen(&mut self, place: SocketAddr, port: usize, life: &Life) -> Listened {
        if !self.desk.places.iter().any(|own| own.has(place)) {
            let refusal = Refusal::new(Code::Denied, format!("listening at {place} is not allowed"));
            return Listened::Error(refusal);
        }
        let listener = loop {
            match TcpListener::bind(place).await {
                Ok(listener) => break listener,
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < self.release => {
                    sleep(AGAIN).await;
                }
                Err(error) => {
                    return Listened::Error(Refusal::new(Code::Failed, format!("{place}: {error}")));
                }
            }
        };
        let at = listener.local_addr().unwrap_or(place);
        self.desk.tell.say(Event::Listening {
            way: Way::Peer,
            bind: at.to_string(),
            to: Some(self.peer.id().to_string()),
        });
        let door = Door {
            desk: Arc::clone(&self.desk),
            peer: self.peer.clone(),
            run: self.run,
            life: life.clone(),
            port,
            at: at.to_string(),
        };
        self.listening.spawn(door.open(listener));
        Listened::Ok(at)
    }
}

/// A port that a near end has asked for.
#[derive(Clone)]
struct Door {
    desk: Arc<Desk>,
    peer: Peer,
    run: Run,
    life: Life,
    port: usize,
    at: String,
}

impl Door {
    async fn open(self, listener: TcpListener) {
        loop {
            let (socket, from) = tunnel::accept(&listener).await;
            match self.desk.registry.seat(self.peer.id()) {
                Ok(seat) => drop(tokio::spawn(self.clone().carry(socket, from, seat))),
                Err(refusal) => {
                    let closed = Closed::unopened(Why::Refused(refusal));
                    let text = closed.why.to_string();
                    finish(&socket, closed.abort);
                    drop(socket);
                    self.desk.tell.number(self.story(from)).closed(&closed, text);
                }
            }
        }
    }

    fn story(&self, from: SocketAddr) -> Story {
        Story {
            way: Way::Remote,
            peer: self.peer.id().to_string(),
            from: from.to_string(),
            to: self.at.clone(),
        }
    }

    async fn carry(mut self, socket: TcpStream, from: SocketAddr, seat: Seat) {
        let story = self.story(from);
        let numbered = self.desk.tell.number(story.clone());
        let token = self.desk.token();
        let names = &self.desk.names;
        let reverse = Reverse { near: self.run, port: self.port, from: from.to_string() };
        let open = Open { run: names.run(), goal: Goal::Reverse(reverse), keep: token };
        hold(&socket);
        let span = self.desk.course.answer;
        let opened = tunnel::open(&self.peer, names, &open.encode(), &mut self.life, span).await;
        match opened {
            Ok((stream, Connected { address, kept, .. })) => {
                numbered.opened(address.clone());
                // Its port decides whether a later run may continue with it.
                let about = token.map(|token| About { token, opener: true, story, address });
                let keeps = self.desk.road(&self.peer).zip(about);
                let opened = Opened { stream, kept, life: self.life };
                let told = (numbered.told(seat), Why::to_string as fn(&Why) -> String);
                carry_opened(opened, socket, keeps, self.desk.course, told).await;
            }
            Err(why) => {
                let closed = Closed::unopened(why);
                finish(&socket, closed.abort);
                drop((socket, seat));
                let text = closed.why.to_string();
                numbered.closed(&closed, text);
            }
        }
    }
}
