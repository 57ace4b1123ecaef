//! Where an identity is taken in.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use exonet::call::{Failure as Answer, Request, Serving};
use exonet::state::{self, Arriving, SecretKey, StateDir, Term};
use exonet::{Allow, Node, NodeId};
use serde::Serialize;
use tokio::sync::{Mutex, oneshot};
use tokio::task::spawn_blocking;

use super::{DEED, Held, LOAD, LONGEST, OFFER, Offer, Ready, said};
use crate::command::reachable_as;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::settings::Settings;

/// How long the place that gave the identity away may take to hear that it has arrived.
const GOODBYE: Duration = Duration::from_secs(5);
/// Status codes of what a door does not take.
const REFUSED: u32 = 1;

/// What a door waits for, and where.
#[derive(Debug)]
pub(crate) struct Door<'a> {
    /// The identity that is to arrive. No other is taken in.
    pub(crate) id: NodeId,
    /// Where the door is.
    pub(crate) bind: &'a str,
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

/// The identity of `settings` lives here when this returns. True: it has arrived just now, and its peers do not know yet.
pub(crate) async fn take_in(settings: &Settings, door: &Door<'_>) -> Result<bool, Failure> {
    let path = settings.identity.place()?;
    if settings.identity.is_there() && state::ceded(path).is_ok_and(|ceded| ceded.is_none()) {
        let id = settings.identity.look()?;
        if id != door.id {
            return Err(Failure::new(format!(
                "another identity, {}, lives in {} already",
                id.short(),
                path.display()
            ))
            .hint(
                "give the one that is to arrive a name, or a directory, of its own: --as NAME, --state DIR",
            ));
        }
        return Ok(false);
    }
    let vestibule = Vestibule::open(path, door.id)?;
    // A former run may have had all of it.
    if let Some(term) = vestibule.finish(None)? {
        return arrived(settings, door.id, term);
    }
    let allow = Allow::anyone();
    let node = Node::builder(allow).state_dir(vestibule.state()).bind(door.bind);
    let node = node.config(|config| config.takes.messages = false).limits(|limits| limits.message = LONGEST);
    let node = node
        .build()
        .await
        .map_err(|error| Failure::new("cannot open a door for the identity").because(&error))?;
    let (tell, told) = oneshot::channel();
    let keeper =
        Arc::new(Keeper { vestibule, node: node.clone(), id: door.id, told: Mutex::new(Some(tell)) });
    let servings = keeper.serve()?;
    let peer = reachable_as(&node);
    settings.note(format!("waits for {} to move in; there, say:", door.id.short()));
    if !settings.quiet {
        eprintln!("\n      exon move --to {}\n", console::style(&peer).bold().for_stderr());
    }
    settings.output.line(&Waiting { r#type: "waiting", door: peer, id: door.id.to_string() })?;
    let mut stopped = std::pin::pin!(crate::command::stop::stop(None)?);
    let term = tokio::select! {
        term = told => term.map_err(|_| Failure::new("the door was closed"))?,
        _ = &mut stopped => {
            node.close(crate::node::GOODBYE).await;
            return Err(Failure::new("interrupted before the identity arrived").hint("nothing has changed: start this again, and `exon move` there"));
        }
    };
    // The other side hears it meanwhile, and again if it asks again.
    tokio::spawn(async move {
        for serving in servings {
            serving.stop(GOODBYE).await;
        }
        node.close(GOODBYE).await;
        keeper.vestibule.clear();
    });
    arrived(settings, door.id, term)
}

fn arrived(settings: &Settings, id: NodeId, term: Term) -> Result<bool, Failure> {
    let generation = term.generation;
    settings.note(format!("{} lives here now, as generation {generation}", id.short()));
    settings.output.line(&Arrived { r#type: "arrived", id: id.to_string(), generation })?;
    Ok(true)
}

/// The directory beside an identity that is to arrive: the door's own identity, and what has come.
struct Vestibule {
    path: PathBuf,
    /// Where the identity will live.
    to: PathBuf,
    id: NodeId,
}

impl Vestibule {
    fn open(of: &Path, id: NodeId) -> Result<Self, Failure> {
        let mut path = of.as_os_str().to_owned();
        path.push(".door");
        let vestibule = Self { path: path.into(), to: of.to_owned(), id };
        let secret = crate::identity::fresh_secret()?;
        let opened = StateDir::open_or_create(vestibule.state(), || secret);
        drop(opened.map_err(|error| Failure::new("cannot open a door for the identity").because(&error))?);
        Ok(vestibule)
    }

    fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    fn key(&self) -> Result<SecretKey, Failure> {
        Identity::Stored { name: "door".to_owned(), path: self.state() }.key()
    }

    /// Reads and checks a load.
    fn look(&self, load: &[u8]) -> Result<Arriving, Failure> {
        let arriving = state::open_load(load, &self.key()?)
            .map_err(|e| Failure::new("cannot take the identity in").because(&e))?;
        if arriving.id != self.id {
            return Err(Failure::new("another identity is waited for here"));
        }
        Ok(arriving)
    }

    /// Keeps `bytes` as the file `name`: whole, and durable on return.
    fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.path.join(name);
        let written = || {
            let mut file = tempfile::NamedTempFile::new_in(&self.path)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|e| e.error)?;
            File::open(&self.path)?.sync_all()
        };
        written().map_err(|error| Failure::path("write", &path, &error))
    }

    fn kept(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::path("read", &path, &error)),
        }
    }

    /// Lets the identity live here, if load and `deed` have come. None: they have not.
    fn finish(&self, deed: Option<&[u8]>) -> Result<Option<Term>, Failure> {
        if let Some(deed) = deed {
            self.keep("deed", deed)?;
        }
        let (Some(load), Some(deed)) = (self.kept("load")?, self.kept("deed")?) else { return Ok(None) };
        let restored = state::restore(&self.to, &self.key()?, &load, &deed);
        let restored =
            restored.map_err(|error| Failure::new("cannot take the identity in").because(&error))?;
        Ok(Some(restored.term))
    }

    fn clear(&self) {
        // What is left of it is of no use to anybody: the load is for a key that goes with it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// What answers at a door.
struct Keeper {
    vestibule: Vestibule,
    node: Node,
    id: NodeId,
    /// Hears that the identity has arrived.
    told: Mutex<Option<oneshot::Sender<Term>>>,
}

impl Keeper {
    fn serve(self: &Arc<Self>) -> Result<Vec<Serving>, Failure> {
        let failed = |error: &dyn std::error::Error| {
            Failure::new("cannot open a door for the identity").because(error)
        };
        let at = |of: &Arc<Self>| Arc::clone(of);
        let (offers, loads, deeds) = (at(self), at(self), at(self));
        let offer = self.node.serve(OFFER, move |call| at(&offers).offer(call)).start();
        let load = self.node.serve(LOAD, move |call| at(&loads).load(call)).concurrency(1).start();
        let deed = self.node.serve(DEED, move |call| at(&deeds).deed(call)).concurrency(1).start();
        [offer, load, deed].into_iter().map(|serving| serving.map_err(|e| failed(&e))).collect()
    }

    async fn offer(self: Arc<Self>, mut call: Request) -> Result<Bytes, Answer> {
        let body = call.body.bytes(64 * 1024).await.map_err(Answer::error)?;
        let offer: Offer = serde_json::from_slice(&body).map_err(Answer::error)?;
        let id: NodeId = offer.id.parse().map_err(Answer::error)?;
        if id != self.id {
            let waits = self.id;
            return Err(Answer::new(REFUSED, format!("the door waits for {waits}, and not for {id}")));
        }
        let key = self.vestibule.key().map_err(|failure| refused(&failure))?;
        if !key.verify_proof(&id, &said(&call.caller), &offer.proof) {
            return Err(Answer::new(REFUSED, "the proof is not of the identity that is to move"));
        }
        Ok(Bytes::from_static(b"{}"))
    }

    async fn load(self: Arc<Self>, mut call: Request) -> Result<Bytes, Answer> {
        let body = call.body.bytes(LONGEST).await.map_err(Answer::error)?;
        let kept = spawn_blocking(move || {
            let arriving = self.vestibule.look(&body)?;
            self.vestibule.keep("load", &body)?;
            Ok(Ready { attempt: arriving.attempt.0 })
        });
        json(&kept.await.map_err(Answer::error)?.map_err(|failure: Failure| refused(&failure))?)
    }

    async fn deed(self: Arc<Self>, mut call: Request) -> Result<Bytes, Answer> {
        let deed = call.body.bytes(64 * 1024).await.map_err(Answer::error)?;
        let mut told = self.told.lock().await;
        let Some(tell) = told.take() else {
            // It has arrived, and is asked again.
            let term = StateDir::peek_term(&self.vestibule.to).map_err(Answer::error)?;
            return json(&Held { generation: term.generation });
        };
        let keeper = Arc::clone(&self);
        let finished = spawn_blocking(move || keeper.vestibule.finish(Some(&deed)));
        match finished.await.map_err(Answer::error)? {
            Ok(Some(term)) => {
                let held = json(&Held { generation: term.generation });
                let _ = tell.send(term);
                held
            }
            Ok(None) => {
                *told = Some(tell);
                Err(Answer::new(REFUSED, "the load has not come"))
            }
            Err(failure) => {
                *told = Some(tell);
                Err(refused(&failure))
            }
        }
    }
}

fn json(value: &impl Serialize) -> Result<Bytes, Answer> {
    serde_json::to_vec(value).map(Bytes::from).map_err(Answer::error)
}

fn refused(failure: &Failure) -> Answer {
    Answer::new(REFUSED, failure.to_string())
}
