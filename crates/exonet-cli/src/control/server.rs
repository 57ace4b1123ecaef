//! The server side of the control socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use exonet::Node;
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::departure::{self, Wanted};
use super::protocol::{Envelope, Reply, Request, VERSION};
use super::wire::{self, Lines};
use super::{Role, answers, handover, place, retry, trace};
use crate::command::stop::Leave;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::settings::Settings;

/// The maximum number of clients at once that ask, and of clients that hand messages over.
const ASKERS: usize = 16;
const GIVERS: usize = 16;
/// The number of permits for clients that follow messages, which is more than a node allows at once; and the time
/// that these clients have to read the last steps.
const TRACERS: u32 = 16;
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The time limit for a client to send its request, and to read the answer.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// The default durability of a stored identity.
const USUAL: &str = "process";
/// The pause before another `accept` after one has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// The control socket of a node, which lasts until this is dropped. [`Self::close`] it before the node ends: its
/// tasks hold the node.
#[derive(Debug)]
pub(crate) struct Control {
    bound: Option<(Bound, oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Control {
    /// Opens the control socket of the identity that `node` runs, for a command that leaves when its identity moves. An
    /// ephemeral identity has none.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub(crate) fn open_leaving(
        settings: &Settings,
        node: &Node,
        role: Role,
        leave: &Leave,
    ) -> Result<Self, Failure> {
        Self::open(settings, node, role, Some(leave.clone()))
    }

    fn open(settings: &Settings, node: &Node, role: Role, leave: Option<Leave>) -> Result<Self, Failure> {
        let Identity::Stored { path, .. } = &settings.identity else { return Ok(Self { bound: None }) };
        let (bound, listener) = Bound::bind(place::of(path, place::CONTROL)?)?;
        let (end, ended) = oneshot::channel();
        let durability = settings.level().unwrap_or_else(|| USUAL.to_owned());
        let (identity, moves) = (settings.identity.clone(), Arc::new(Semaphore::new(1)));
        let started = Instant::now();
        let (ending, tracers) = (watch::Sender::new(false), Semaphore::new(TRACERS as usize));
        let node = node.clone();
        let office = Office { node, role, durability, leave, identity, moves, started, ending, tracers };
        let office = Arc::new(office);
        let task = tokio::spawn(attend(listener, office, ended));
        Ok(Self { bound: Some((bound, end, task)) })
    }

    /// Opens the control socket for a command that does not need it and does not move its identity. On failure it
    /// prints a note with the reason.
    pub(crate) fn try_open(settings: &Settings, node: &Node, role: Role) -> Self {
        Self::open(settings, node, role, None).unwrap_or_else(|failure| {
            settings.note(format!("{failure}"));
            Self { bound: None }
        })
    }

    /// As [`Self::open_leaving`], for a command that does not need the socket.
    pub(crate) fn try_open_leaving(settings: &Settings, node: &Node, role: Role, leave: &Leave) -> Self {
        Self::open_leaving(settings, node, role, leave).unwrap_or_else(|failure| {
            settings.note(format!("{failure}"));
            Self { bound: None }
        })
    }

    /// The path of the socket.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.bound.as_ref().map(|(bound, ..)| &*bound.path)
    }

    /// Closes and removes the socket. No client is answered any more.
    pub(crate) async fn close(mut self) {
        if let Some((bound, end, task)) = self.bound.take() {
            drop(bound);
            drop(end);
            // The result of the task does not matter.
            let _ = task.await;
        }
    }
}

/// The socket's file, removed at the end.
#[derive(Debug)]
pub(crate) struct Bound {
    path: PathBuf,
    /// The device and inode of the file, to recognise that it is still the one that this process has created.
    file: (u64, u64),
}

impl Bound {
    /// Binds the socket. The caller knows that a file at `path` belongs to a dead process.
    pub(crate) fn bind(path: PathBuf) -> Result<(Self, UnixListener), Failure> {
        place::prepare(&path)?;
        let failed = |error: &io::Error| Failure::path("open the socket", &path, error);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&error)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(|e| failed(&e))?;
        // Until then, the directory keeps other users out.
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(|e| failed(&e))?;
        let about = fs::symlink_metadata(&path).map_err(|e| failed(&e))?;
        let file = (about.dev(), about.ino());
        Ok((Self { path, file }, listener))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let ours = |about: fs::Metadata| (about.dev(), about.ino()) == self.file;
        if fs::symlink_metadata(&self.path).is_ok_and(ours) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The state that all clients share.
pub(super) struct Office {
    pub(super) node: Node,
    pub(super) role: Role,
    pub(super) durability: String,
    /// Asks the command to leave.
    pub(super) leave: Option<Leave>,
    pub(super) identity: Identity,
    /// Allows one move at a time.
    pub(super) moves: Arc<Semaphore>,
    pub(super) started: Instant,
    /// Set to true when the socket closes, so that clients that follow messages get the last steps.
    pub(super) ending: watch::Sender<bool>,
    /// Permits, one held by each client that follows messages.
    pub(super) tracers: Semaphore,
}

/// Serves clients until the sender of `ended` is dropped, then disconnects all clients.
async fn attend(listener: UnixListener, office: Arc<Office>, mut ended: oneshot::Receiver<()>) {
    let (askers, givers) = (Arc::new(Semaphore::new(ASKERS)), Arc::new(Semaphore::new(GIVERS)));
    let (mut clients, own) = (JoinSet::new(), rustix::process::geteuid().as_raw());
    loop {
        tokio::select! {
            _ = &mut ended => break,
            Some(_) = clients.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // A client that finds no place gets no answer: an answer would need a place.
                    if wire::is_trusted(&stream, own) && let Ok(place) = Arc::clone(&askers).try_acquire_owned() {
                        clients.spawn(serve(stream, Arc::clone(&office), place, Arc::clone(&givers)));
                    }
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
    // Clients that follow messages get the last steps.
    office.ending.send_replace(true);
    let _ = timeout(LAST_WORDS, office.tracers.acquire_many(TRACERS)).await;
    clients.shutdown().await;
}

async fn serve(stream: UnixStream, office: Arc<Office>, place: OwnedSemaphorePermit, givers: Arc<Semaphore>) {
    let (from, mut to) = stream.into_split();
    let mut lines = Lines::new(from);
    let answered = timeout(REQUEST_TIME, async {
        let request = match lines.next::<serde_json::Value>().await {
            Ok(Some(request)) => read(request)?,
            Ok(None) => return Ok(None),
            Err(error) => return Err(refusal(format!("this is not a request: {error}"))),
        };
        match request {
            request @ (Request::Send(_)
            | Request::DeadRetry { .. }
            | Request::Move { .. }
            | Request::Checkpoint { .. }
            | Request::Trace(_)) => Ok(Some(request)),
            request => answers::answer(&office, request, &mut to).await.map(|()| None),
        }
    });
    let last = match answered.await {
        // The client was too slow to be told, or nothing is left to do.
        Err(_) | Ok(Ok(None)) => return,
        // These requests may take longer, so they do not keep the place of an asker.
        Ok(Ok(Some(request))) => {
            drop(place);
            let wanted = match &request {
                Request::Move { to, timeout_ms, freeze_ms } => {
                    let [timeout, freeze] = [*timeout_ms, *freeze_ms].map(Duration::from_millis);
                    Some(Wanted::Door { to: to.clone(), timeout, freeze })
                }
                Request::Checkpoint { to, file } => Some(Wanted::File { to: to.clone(), file: file.into() }),
                _ => None,
            };
            if let Some(wanted) = wanted {
                // The move outlives this socket, which closes when the node is frozen.
                drop(tokio::spawn(departure::begin(office, wanted, lines, to)));
                return;
            }
            if let Request::Trace(wanted) = request {
                let _place = office.tracers.try_acquire();
                let told = trace::tell(&office, &wanted, lines, &mut to).await;
                return refuse(told, &mut to).await;
            }
            match (givers.try_acquire_owned(), request) {
                (Ok(_place), Request::Send(head)) => handover::take(&office, head, lines, &mut to).await,
                (Ok(_place), Request::DeadRetry { id }) => retry::pass_on(&office, &id, &mut to).await,
                (Ok(_), _) => return,
                (Err(_), request) => {
                    let error = refusal(format!("{GIVERS} commands already hand messages over"));
                    match request {
                        Request::Send(_) => handover::refuse_all(error, &mut to).await,
                        _ => Err(error),
                    }
                }
            }
        }
        Ok(Err(refused)) => Err(refused),
    };
    refuse(last, &mut to).await;
}

async fn refuse(last: Result<(), Reply>, to: &mut OwnedWriteHalf) {
    if let Err(refused) = last {
        let _ = timeout(REQUEST_TIME, wire::say(to, &refused)).await;
    }
}

/// Parses the request, if it has this version.
fn read(request: serde_json::Value) -> Result<Request, Reply> {
    if request.get("exon").and_then(serde_json::Value::as_u64) != Some(VERSION.into()) {
        return Err(Reply::Error {
            error: format!(
                "the process that runs the identity speaks version {VERSION} of the control protocol"
            ),
            hint: Some("start it again with the `exon` that is installed now".to_owned()),
        });
    }
    let envelope: Result<Envelope, _> = serde_json::from_value(request);
    envelope.map(|envelope| envelope.request).map_err(|e| refusal(format!("this is not a request: {e}")))
}

/// An error without a remedy.
pub(super) fn refusal(error: impl Into<String>) -> Reply {
    Reply::Error { error: error.into(), hint: None }
}
