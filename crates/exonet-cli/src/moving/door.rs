//! The door, which receives an identity.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use exonet::call::{Failure as Answer, Request, Serving};
use exonet::error::StateError;
use exonet::state::{self, StateDir, Term};
use exonet::{Allow, Node, NodeId};
use serde::Serialize;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::vestibule::Vestibule;
use super::{AHEAD, DEED, Held, LOAD, LONGEST, OFFER, Offer, REBIND, REBIND_TIME, Ready, point, said};
use crate::command::reachable_as;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::stderr;

/// The time that the door stays open once the identity has arrived. The former place may have been killed before it
/// got the confirmation.
const OPEN: Duration = Duration::from_secs(600);
/// The time limit for the last answers after that.
const GOODBYE: Duration = Duration::from_secs(5);
/// Status codes of refusals.
const REFUSED: u32 = 1;

/// The parameters of a door.
#[derive(Debug)]
pub(crate) struct Door {
    /// The identity that the door waits for. The door refuses any other.
    pub(crate) id: NodeId,
    /// The address of the door.
    pub(crate) bind: SocketAddr,
}

#[derive(Serialize)]
struct Waiting {
    r#type: &'static str,
    door: String,
    id: String,
}

#[derive(Serialize)]
struct Arrived {
    r#type: &'static str,
    id: String,
    generation: u64,
}

/// The arrival of an identity through a door that is still open.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Set to true when the identity answers here.
    answers: watch::Sender<bool>,
}

impl Arrival {
    /// Tells the former place that the identity answers here, and that its names are bound.
    pub(crate) fn answers(&self) {
        self.answers.send_replace(true);
    }
}

/// Waits until the identity of `settings` lives here. None: it lives here, and no door is open.
pub(crate) async fn take_in(settings: &Settings, door: &Door) -> Result<Option<Arrival>, Failure> {
    let path = settings.identity.place()?;
    let unknown = |error: &StateError| Failure::new("cannot accept the identity").because(error);
    let ceded = state::ceded(path).map_err(|error| unknown(&error))?;
    if state::lives(path).map_err(|error| unknown(&error))? {
        let id = settings.identity.look()?;
        if id != door.id {
            return Err(Failure::new(format!(
                "another identity, {}, already lives in {}",
                id.short(),
                path.display()
            ))
            .hint("give the arriving identity a name or a directory of its own: --as NAME, --state DIR"));
        }
        // This process was killed before the other side got the confirmation.
        return match Vestibule::left(path, door.id) {
            Some(vestibule) => say_again(settings, vestibule, door.bind).await.map(Some),
            None => Ok(None),
        };
    }
    let vestibule = Vestibule::open(path, door.id)?;
    if let Some(ceded) = ceded {
        vestibule.forget(ceded.generation)?;
    }
    // A former run may have received everything.
    if let Some(term) = vestibule.finish(None)? {
        let arrival = match Vestibule::left(path, door.id) {
            Some(vestibule) => Some(say_again(settings, vestibule, door.bind).await?),
            None => None,
        };
        arrived(settings, door.id, term)?;
        return Ok(arrival);
    }
    let (tell, told) = oneshot::channel();
    let keeper = Keeper::open(settings, vestibule, door.bind, Told::Not(tell)).await?;
    settings.note(format!("waits for {} to move here; on its machine, run:", door.id.short()));
    keeper.announce(settings)?;
    let mut stopped = std::pin::pin!(crate::command::stop::stop(None)?);
    let term = tokio::select! {
        term = told => term.map_err(|_| Failure::new("the door was closed"))?,
        _ = &mut stopped => {
            keeper.node.close(crate::node::GOODBYE).await;
            return Err(Failure::new("interrupted before the identity arrived").hint("nothing has changed: repeat this command, and `exon move` there"));
        }
    };
    // Meanwhile the other side gets the confirmation, and gets it again if it repeats the call.
    let answers = keeper.shop.answers.clone();
    tokio::spawn(keeper.close());
    arrived(settings, door.id, term)?;
    Ok(Some(Arrival { answers }))
}

/// Repeats the confirmation: the identity arrived in a former run, and its former place may not know that.
async fn say_again(settings: &Settings, vestibule: Vestibule, bind: SocketAddr) -> Result<Arrival, Failure> {
    let keeper = Keeper::open(settings, vestibule, bind, Told::Again).await?;
    settings
        .note("the identity lives here; the machine that it came from may not know that. There, run again:");
    keeper.announce(settings)?;
    let answers = keeper.shop.answers.clone();
    tokio::spawn(keeper.close());
    Ok(Arrival { answers })
}

fn arrived(settings: &Settings, id: NodeId, term: Term) -> Result<(), Failure> {
    let generation = term.generation;
    settings.note(format!("{} now lives here, as generation {generation}", id.short()));
    settings.output.line(&Arrived { r#type: "arrived", id: id.to_string(), generation })
}

/// Answers the calls to a door.
struct Keeper {
    shop: Arc<Shop>,
    node: Node,
    servings: Vec<Serving>,
}

/// The state that all calls share.
struct Shop {
    vestibule: Vestibule,
    id: NodeId,
    state: Mutex<State>,
    /// Whether the identity answers here.
    answers: watch::Sender<bool>,
}

struct State {
    told: Told,
    /// The node that was the last to prove that it acts for the identity. Other nodes may send only a deed, which
    /// proves itself.
    proven: Option<NodeId>,
    /// The parts of a load that have arrived.
    load: Vec<u8>,
}

/// Whether the identity has arrived.
enum Told {
    /// It has not arrived yet. The sender is used when it does.
    Not(oneshot::Sender<Term>),
    /// It has arrived.
    Again,
}

impl Keeper {
    async fn open(
        settings: &Settings,
        vestibule: Vestibule,
        bind: SocketAddr,
        told: Told,
    ) -> Result<Self, Failure> {
        let node = Node::builder(Allow::anyone()).state_dir(vestibule.state()).bind(bind);
        let node = settings.journaled(node);
        let node = node.config(|config| config.takes.messages = false);
        let node = node.limits(|limits| limits.message = LONGEST).build().await;
        let node =
            node.map_err(|error| Failure::new("cannot open a door for the identity").because(&error))?;
        let state = Mutex::new(State { told, proven: None, load: Vec::new() });
        let answers = watch::Sender::new(false);
        let shop = Arc::new(Shop { id: vestibule.id(), vestibule, state, answers });
        let servings = serve(&node, &shop)?;
        Ok(Self { shop, node, servings })
    }

    /// Prints the address of the door.
    fn announce(&self, settings: &Settings) -> Result<(), Failure> {
        let peer = reachable_as(&self.node);
        if !settings.quiet {
            let name = &settings.identity;
            let peer = console::style(&peer).bold().for_stderr();
            stderr::line(format_args!("\n      exon move --as {name} --to {peer}\n"));
        }
        settings.output.line(&Waiting { r#type: "waiting", door: peer, id: self.shop.id.to_string() })
    }

    /// Closes the door after the time [`OPEN`].
    async fn close(self) {
        tokio::time::sleep(OPEN).await;
        for serving in self.servings {
            serving.stop(GOODBYE).await;
        }
        self.node.close(GOODBYE).await;
        self.shop.vestibule.clear();
    }
}

fn serve(node: &Node, shop: &Arc<Shop>) -> Result<Vec<Serving>, Failure> {
    let failed =
        |error: &dyn std::error::Error| Failure::new("cannot open a door for the identity").because(error);
    let at = |of: &Arc<Shop>| Arc::clone(of);
    let (offers, aheads, loads, deeds, rebinds) = (at(shop), at(shop), at(shop), at(shop), at(shop));
    let offer = node.serve(OFFER, move |call| at(&offers).offer(call)).start();
    let ahead = node.serve(AHEAD, move |call| at(&aheads).ahead(call)).concurrency(1).start();
    let load = node.serve(LOAD, move |call| at(&loads).load(call)).concurrency(1).start();
    let deed = node.serve(DEED, move |call| at(&deeds).deed(call)).concurrency(1).start();
    let rebind = node.serve(REBIND, move |call| at(&rebinds).rebind(call)).start();
    [offer, ahead, load, deed, rebind].into_iter().map(|serving| serving.map_err(|e| failed(&e))).collect()
}

impl Shop {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn offer(self: Arc<Self>, mut call: Request) -> Result<Bytes, Answer> {
        let body = call.body.bytes(64 * 1024).await.map_err(Answer::error)?;
        point("door: offer");
        let offer: Offer = serde_json::from_slice(&body).map_err(Answer::error)?;
        let id: NodeId = offer.id.parse().map_err(Answer::error)?;
        if id != self.id {
            let waits = self.id;
            return Err(Answer::new(REFUSED, format!("the door waits for {waits}, not for {id}")));
        }
        let key = self.vestibule.key().map_err(|failure| refused(&failure))?;
        if !key.verify_proof(&id, &said(&call.caller), &offer.proof) {
            return Err(Answer::new(REFUSED, "the proof is not from the identity that is to move"));
        }
        let mut state = self.state();
        if let Told::Again = state.told {
            return Err(Answer::new(REFUSED, "the identity has already arrived here"));
        }
        (state.proven, state.load) = (Some(call.caller), Vec::new());
        Ok(Bytes::from_static(b"{}"))
    }

    /// Whether `caller` acts for the identity. Each move has a caller of its own.
    fn is_proven(&self, caller: NodeId) -> bool {
        self.state().proven == Some(caller)
    }

    /// Fails unless `caller` acts for the identity.
    fn check(&self, caller: NodeId) -> Result<(), Answer> {
        if self.is_proven(caller) {
            return Ok(());
        }
        Err(Answer::new(
            REFUSED,
            "the caller has not proven that it acts for the identity, or another caller has proven it since",
        ))
    }

    async fn ahead(self: Arc<Self>, mut call: Request) -> Result<Bytes, Answer> {
        self.check(call.caller)?;
        let body = call.body.bytes(LONGEST).await.map_err(Answer::error)?;
        point("door: ahead");
        let kept = spawn_blocking(move || self.vestibule.ahead(&body, || self.is_proven(call.caller)));
        kept.await.map_err(Answer::error)?.map_err(|failure| refused(&failure))?;
        Ok(Bytes::from_static(b"{}"))
    }

    async fn load(self: Arc<Self>, mut call: Request) -> Result<Bytes, Answer> {
        self.check(call.caller)?;
        let body = call.body.bytes(LONGEST).await.map_err(Answer::error)?;
        let Some(load) = self.take_part(&body)? else { return Ok(Bytes::from_static(b"{}")) };
        let landed = spawn_blocking(move || self.vestibule.land(&load, || self.is_proven(call.caller)));
        let attempt = landed.await.map_err(Answer::error)?.map_err(|failure| refused(&failure))?;
        json(&Ready { attempt: attempt.0 })
    }

    /// Adds a part of a load. Returns the load if this was the last part.
    fn take_part(&self, body: &[u8]) -> Result<Option<Vec<u8>>, Answer> {
        let wrong = || Answer::new(REFUSED, "a part of the load is missing, or damaged");
        let (at, rest) = body.split_first_chunk::<8>().ok_or_else(wrong)?;
        let (all, part) = rest.split_first_chunk::<8>().ok_or_else(wrong)?;
        let [at, all] = [at, all].map(|number| u64::from_be_bytes(*number));
        let load = &mut self.state().load;
        if at == 0 {
            load.clear();
        }
        let end = at.checked_add(part.len() as u64).filter(|end| *end <= all && all <= LONGEST);
        if end.is_none() || load.len() as u64 != at {
            return Err(wrong());
        }
        load.extend_from_slice(part);
        Ok((load.len() as u64 == all).then(|| std::mem::take(load)))
    }

    async fn deed(self: Arc<Self>, mut call: Request) -> Result<Bytes, Answer> {
        let bearer = call.caller;
        let deed = call.body.bytes(64 * 1024).await.map_err(Answer::error)?;
        if matches!(self.state().told, Told::Again) {
            // The former place has repeated the call.
            let term = StateDir::peek_term(self.vestibule.to()).map_err(Answer::error)?;
            return json(&Held { generation: term.generation });
        }
        let keeper = Arc::clone(&self);
        let finished = spawn_blocking(move || keeper.vestibule.finish(Some(&deed)));
        match finished.await.map_err(Answer::error)? {
            Ok(Some(term)) => {
                let mut state = self.state();
                // The deed proves that this caller acts for the identity.
                state.proven = Some(bearer);
                let told = std::mem::replace(&mut state.told, Told::Again);
                drop(state);
                if let Told::Not(tell) = told {
                    let _ = tell.send(term);
                }
                json(&Held { generation: term.generation })
            }
            Ok(None) => Err(Answer::new(REFUSED, "the load has not arrived")),
            Err(failure) => Err(refused(&failure)),
        }
    }
}

impl Shop {
    /// Waits until the identity answers here, and then answers the call.
    async fn rebind(self: Arc<Self>, mut call: Request) -> Result<Bytes, Answer> {
        if let Err(unproven) = self.check(call.caller) {
            // The deed arrived in a former run of this door.
            let deed = call.body.bytes(64 * 1024).await.map_err(Answer::error)?;
            let shop = Arc::clone(&self);
            let proves = spawn_blocking(move || shop.vestibule.proves(&deed));
            if !proves.await.map_err(Answer::error)?.map_err(|failure| refused(&failure))? {
                return Err(unproven);
            }
            self.state().proven = Some(call.caller);
        }
        let mut answers = self.answers.subscribe();
        let answered = timeout(REBIND_TIME, answers.wait_for(|answers| *answers)).await;
        let late = |_| Answer::new(REFUSED, "the identity does not answer here yet");
        answered.map_err(late)?.map_err(Answer::error)?;
        Ok(Bytes::from_static(b"{}"))
    }
}

fn json(value: &impl Serialize) -> Result<Bytes, Answer> {
    serde_json::to_vec(value).map(Bytes::from).map_err(Answer::error)
}

fn refused(failure: &Failure) -> Answer {
    Answer::new(REFUSED, failure.to_string())
}
