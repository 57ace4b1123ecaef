//! A run's view of the keeper of its connections.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::Command;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::office::Office;
use super::pass;
use super::process::YES;
use super::say::{About, Ending, Header, Key, Order, Tale, Token, Told, VERSION, Wish, millis};
use crate::control::{Lines, is_foreign, place, say};
use crate::failure::Failure;
use crate::identity::Identity;
use crate::settings::Settings;
use crate::tunnel::HANDSHAKE;
use crate::tunnel::event::Tell;

/// How often a keeper is sought or started: one may end just when it is found.
const TRIES: usize = 5;
/// The pause before a keeper is replaced that replaced another one.
const AGAIN: Duration = Duration::from_secs(1);

/// A keeper, as the run sees it.
#[derive(Debug)]
pub(crate) struct Keeper {
    place: Place,
    orders: Mutex<mpsc::UnboundedSender<Order>>,
    entries: Mutex<BTreeMap<Key, Entry>>,
    /// The connections that have ended with a keeper, while their other ends do not know yet.
    lost: Mutex<BTreeSet<Key>>,
    /// The connections of former runs whose ends were reported, while the other ends may not know yet.
    reported: BTreeSet<Key>,
    /// The keeper has ended, and there is no other.
    ended: AtomicBool,
    /// This run is about to end.
    stopping: AtomicBool,
    /// The number of entries.
    left: watch::Sender<usize>,
    /// The number of links that are carried.
    links: watch::Sender<usize>,
}

/// A link that is counted until this is dropped.
pub(super) struct Carrying<'a>(&'a Keeper);

impl Drop for Carrying<'_> {
    fn drop(&mut self) {
        self.0.links.send_modify(|links| *links = links.saturating_sub(1));
    }
}

#[derive(Debug)]
enum Place {
    /// This process keeps the connections itself, for as long as it lives.
    Here(Arc<Office>),
    /// Another process does, behind this socket, for this time without a run.
    There(PathBuf, Duration),
}

/// A connection that is kept.
struct Entry {
    about: About,
    /// None: its end was told.
    told: Option<Told>,
    /// Something opens its links, if this end does.
    driven: bool,
    /// Ends when nothing is left of the connection.
    live: watch::Sender<()>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.about.fmt(f)
    }
}

/// The keeper for the run of `settings`, which keeps connections for the time `keep`, and the connections of former
/// runs. For a run that is `alone`, and for an identity that ends with it, the keeper is a part of it. None: nothing is
/// to be kept, and the connections of former runs end.
pub(crate) async fn start(
    settings: &Settings,
    keep: Duration,
    alone: bool,
    tell: &Tell,
) -> Option<(Arc<Keeper>, Vec<About>, Tales)> {
    let path = match &settings.identity {
        Identity::Stored { path, .. } if !alone => Some(place::of(path, place::KEEPER)),
        _ => None,
    };
    if keep.is_zero() {
        if let Some(Ok(path)) = path {
            end_former(&path).await;
        }
        return None;
    }
    let there = match path {
        Some(Ok(path)) => Keeper::there(path, keep).await,
        Some(Err(failure)) => Err(failure),
        None => {
            let (keeper, tales) = Keeper::here(keep);
            return Some((keeper, Vec::new(), tales));
        }
    };
    there
        .map_err(|failure| tell.trouble(format!("connections end with this process: {failure}")))
        .ok()
        .or_else(|| {
            let (keeper, tales) = Keeper::here(keep);
            Some((keeper, Vec::new(), tales))
        })
}

/// Ends the connections of former runs.
async fn end_former(path: &Path) {
    let Ok((mut tales, orders)) = attach(path, Duration::ZERO).await else { return };
    let _ = orders.send(Order::Stop);
    drop(orders);
    // The keeper ends its side when it has read the order.
    let _ = timeout(HANDSHAKE, async { while tales.recv().await.is_some() {} }).await;
}

/// What the keeper tells from now on.
#[derive(Debug)]
pub(crate) struct Tales(mpsc::UnboundedReceiver<Tale>);

impl Keeper {
    /// A keeper in this process.
    pub(crate) fn here(keep: Duration) -> (Arc<Self>, Tales) {
        let office = Arc::new(Office::default());
        let attached = office.attach(keep);
        let (orders, mut obeyed) = mpsc::unbounded_channel();
        let obeys = Arc::clone(&office);
        tokio::spawn(async move {
            while let Some(order) = obeyed.recv().await {
                obeys.order(order);
            }
        });
        (Self::new(Place::Here(office), orders, BTreeSet::new()), Tales(attached.tales))
    }

    /// The keeper at `path`, which is started if there is none. Also returns the connections of former runs.
    ///
    /// # Errors
    /// There is none, and none can be started.
    pub(crate) async fn there(
        path: PathBuf,
        keep: Duration,
    ) -> Result<(Arc<Self>, Vec<About>, Tales), Failure> {
        let Found { tales, orders, kept, reported } = find(&path, keep).await?;
        Ok((Self::new(Place::There(path, keep), orders, reported), kept, tales))
    }

    fn new(place: Place, orders: mpsc::UnboundedSender<Order>, reported: BTreeSet<Key>) -> Arc<Self> {
        let [left, links] = [(); 2].map(|()| watch::Sender::default());
        let [ended, stopping] = [const { AtomicBool::new(false) }; 2];
        let (orders, entries, lost) = (Mutex::new(orders), Mutex::default(), Mutex::default());
        Arc::new(Self { place, orders, entries, lost, reported, ended, stopping, left, links })
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what follows from the tales of the keeper. If the keeper ends before this run, starts another one for the
    /// connections that come.
    pub(crate) async fn listen(self: Arc<Self>, mut tales: Tales, tell: Tell) {
        let mut pause = Duration::ZERO;
        loop {
            self.hear(&mut tales).await;
            self.ended.store(true, Ordering::Relaxed);
            // The sockets are gone with the process that held them.
            self.lose_all();
            let Place::There(path, keep) = &self.place else { return };
            sleep(pause).await;
            pause = AGAIN;
            if self.stopping.load(Ordering::Relaxed) {
                return;
            }
            match find(path, *keep).await {
                Ok(found) => {
                    // What comes from now on is kept, as whoever reads the report may expect.
                    tales = self.move_to(found);
                    tell.trouble(
                        "the process that kept the connections has ended, and they with it".to_owned(),
                    );
                }
                Err(failure) => return tell.trouble(format!("connections end with this process: {failure}")),
            }
        }
    }

    async fn hear(&self, tales: &mut Tales) {
        while let Some(tale) = tales.0.recv().await {
            match tale {
                Tale::Closed { key, ending } => {
                    let told = self.entries().get_mut(&key).and_then(|entry| entry.told.take());
                    if let Some(told) = told {
                        told(ending);
                    }
                    self.order(Order::Reported(key));
                }
                Tale::Forgotten(key) => self.forget(&key),
                Tale::Kept(_) | Tale::Reported(_) | Tale::All => {}
            }
        }
    }

    /// Ends all connections with the keeper that held them.
    fn lose_all(&self) {
        let entries = std::mem::take(&mut *self.entries());
        let driven = entries.iter().filter(|(_, entry)| entry.driven).map(|(key, _)| key.clone());
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).extend(driven);
        for entry in entries.into_values() {
            if let Some(told) = entry.told {
                told(Ending::lost("reset_here", "the process that kept the connection has ended"));
            }
        }
        self.left.send_replace(0);
    }

    /// Goes on with another keeper.
    fn move_to(&self, found: Found) -> Tales {
        *self.orders.lock().unwrap_or_else(PoisonError::into_inner) = found.orders;
        // It is the same keeper, if only the connection to it was lost.
        for about in found.kept {
            let (why, text) = ("reset_here".to_owned(), "the connection to its keeper was lost".to_owned());
            self.order(Order::Drop { key: about.key(), why, text });
        }
        self.ended.store(false, Ordering::Relaxed);
        found.tales
    }

    /// Whether this connection has ended with its keeper, so that the other end is to be told. True once.
    pub(super) fn take_lost(&self, key: &Key) -> bool {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }

    fn forget(&self, key: &Key) {
        let mut entries = self.entries();
        entries.remove(key);
        self.left.send_replace(entries.len());
    }

    /// Takes over a connection of a former run.
    pub(crate) fn adopt(&self, about: About, told: Told) {
        let told = (!self.reported.contains(&about.key())).then_some(told);
        self.enter(about, told, false);
    }

    fn enter(&self, about: About, told: Option<Told>, driven: bool) {
        let entry = Entry { about, told, driven, live: watch::Sender::default() };
        let mut entries = self.entries();
        let former = entries.insert(entry.about.key(), entry);
        self.left.send_replace(entries.len());
        drop(entries);
        if let Some(told) = former.and_then(|former| former.told) {
            told(Ending::lost("restarted", "the other end has begun it again"));
        }
    }

    /// The connections with this peer whose links this end opens, and whose links nothing opens yet. The caller does
    /// from now on.
    pub(crate) fn claim(&self, peer: &str) -> Vec<Key> {
        let mut entries = self.entries();
        let waiting =
            entries.iter_mut().filter(|(key, entry)| key.peer == peer && entry.about.opener && !entry.driven);
        waiting
            .map(|(key, entry)| {
                entry.driven = true;
                key.clone()
            })
            .collect()
    }

    /// Hands over the socket of a program. Returns the first link of the connection.
    ///
    /// # Errors
    /// The keeper does not take it.
    pub(crate) async fn hold(
        &self,
        about: About,
        window: usize,
        socket: TcpStream,
        told: Told,
    ) -> Result<UnixStream, (TcpStream, Told)> {
        let key = about.key();
        self.enter(about.clone(), Some(told), true);
        let held = match &self.place {
            Place::Here(office) => match UnixStream::pair() {
                Ok((link, far)) => {
                    office.hold_socket(about, window, socket, far);
                    return Ok(link);
                }
                Err(error) => Err(error),
            },
            Place::There(path, _) => ask(path, Wish::New { about, window }, Some(&socket)).await,
        };
        held.map_err(|error| {
            tracing::warn!("a connection is not kept: {error}");
            let entry = self.entries().remove(&key);
            self.left.send_modify(|left| *left = left.saturating_sub(1));
            (socket, entry.and_then(|entry| entry.told).unwrap_or_else(|| Box::new(|_| ())))
        })
    }

    /// As [`Self::hold`], for a program at pipes of this process.
    ///
    /// # Errors
    /// This keeper is another process.
    pub(crate) fn hold_pipes<R, W>(
        &self,
        about: About,
        window: usize,
        pipes: (R, W),
        told: Told,
    ) -> io::Result<UnixStream>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let Place::Here(office) = &self.place else { return Err(io::ErrorKind::Unsupported.into()) };
        let (link, far) = UnixStream::pair()?;
        self.enter(about.clone(), Some(told), true);
        office.hold_pipes(about, window, pipes, far);
        Ok(link)
    }

    /// A new link of a connection. None: nothing is left of it.
    pub(crate) async fn link(&self, key: &Key) -> Option<UnixStream> {
        match &self.place {
            Place::Here(office) => {
                let (link, far) = UnixStream::pair().ok()?;
                office.link(key, far).then_some(link)
            }
            Place::There(path, _) => ask(path, Wish::Link(key.clone()), None).await.ok(),
        }
    }

    /// What is known of a connection, and a receiver that ends with it. None: nothing is left of it.
    pub(crate) fn look(&self, key: &Key) -> Option<(About, watch::Receiver<()>)> {
        self.entries().get(key).map(|entry| (entry.about.clone(), entry.live.subscribe()))
    }

    pub(crate) fn order(&self, order: Order) {
        // A keeper that has ended needs no order.
        let _ = self.orders.lock().unwrap_or_else(PoisonError::into_inner).send(order);
    }

    /// Ends all connections, and waits until the other ends know. With `leaves`, the next run has those that outlive this
    /// process.
    pub(crate) async fn stop(&self, leaves: bool) {
        self.stopping.store(true, Ordering::Relaxed);
        if leaves && matches!(self.place, Place::There(..)) {
            self.entries().clear();
            self.left.send_replace(0);
            return;
        }
        self.order(Order::Stop);
        // The sender lives as long as this.
        let _ = self.left.subscribe().wait_for(|left| *left == 0).await;
    }

    pub(super) fn carrying(&self) -> Carrying<'_> {
        self.links.send_modify(|links| *links += 1);
        Carrying(self)
    }

    /// Waits until no link is carried: the other ends know that theirs are lost.
    pub(crate) async fn at_rest(&self) {
        // The sender lives as long as this.
        let _ = self.links.subscribe().wait_for(|links| *links == 0).await;
    }

    /// A number for a connection that this end keeps. None: the keeper has ended.
    pub(crate) fn token(&self) -> Option<Token> {
        // Without randomness, nothing is kept.
        if self.ended.load(Ordering::Relaxed) { None } else { Token::random().ok() }
    }
}

impl Tales {
    /// The connections of former runs.
    async fn former(&mut self) -> io::Result<(Vec<About>, BTreeSet<Key>)> {
        let (mut kept, mut reported) = (Vec::new(), BTreeSet::new());
        let all = async {
            loop {
                match self.0.recv().await {
                    Some(Tale::Kept(about)) => kept.push(*about),
                    Some(Tale::Reported(key)) => drop(reported.insert(key)),
                    Some(Tale::All) => return Ok(()),
                    Some(_) | None => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                }
            }
        };
        timeout(HANDSHAKE, all).await.map_err(io::Error::from)??;
        Ok((kept, reported))
    }
}

/// A keeper that was found or started.
struct Found {
    tales: Tales,
    orders: mpsc::UnboundedSender<Order>,
    /// The connections of former runs.
    kept: Vec<About>,
    reported: BTreeSet<Key>,
}

/// Finds the keeper at `path`, or starts one.
async fn find(path: &Path, keep: Duration) -> Result<Found, Failure> {
    let failed = |error: &dyn std::error::Error| {
        Failure::new("no process keeps the connections when this one ends").because(error)
    };
    let mut last: io::Error = io::ErrorKind::NotFound.into();
    for _ in 0..TRIES {
        match attach(path, keep).await {
            Ok((tales, orders)) => {
                let mut tales = Tales(tales);
                let (kept, reported) = tales.former().await.map_err(|e| failed(&e))?;
                return Ok(Found { tales, orders, kept, reported });
            }
            Err(error) => last = error,
        }
        // A keeper that does not answer may go on later: another one would take its socket away.
        let stays = [io::ErrorKind::PermissionDenied, io::ErrorKind::Unsupported, io::ErrorKind::TimedOut];
        if stays.contains(&last.kind()) {
            break;
        }
        spawn(path).await.map_err(|e| failed(&e))?;
    }
    Err(failed(&last))
}

/// Asks the keeper at `path`. Returns what the connection to it becomes.
async fn ask(path: &Path, wish: Wish, socket: Option<&TcpStream>) -> io::Result<UnixStream> {
    let asked = async {
        let mut stream = UnixStream::connect(path).await?;
        if is_foreign(&stream) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there"));
        }
        pass::send(&mut stream, &Header { v: VERSION, wish }, socket.map(|socket| socket.as_fd())).await?;
        match stream.read_u8().await? {
            YES => Ok(stream),
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "it has declined")),
        }
    };
    timeout(HANDSHAKE, asked).await.map_err(io::Error::from)?
}

type Attached = (mpsc::UnboundedReceiver<Tale>, mpsc::UnboundedSender<Order>);

async fn attach(path: &Path, keep: Duration) -> io::Result<Attached> {
    let stream = ask(path, Wish::Attach { keep_ms: millis(keep) }, None).await?;
    let (from, mut to) = stream.into_split();
    let (tell, tales) = mpsc::unbounded_channel();
    let (orders, mut obeyed) = mpsc::unbounded_channel::<Order>();
    tokio::spawn(async move {
        let mut lines = Lines::new(from);
        while let Ok(Some(tale)) = lines.next::<Tale>().await {
            if tell.send(tale).is_err() {
                break;
            }
        }
    });
    tokio::spawn(async move {
        while let Some(order) = obeyed.recv().await {
            if say(&mut to, &order).await.is_err() {
                break;
            }
        }
    });
    Ok((tales, orders))
}

/// Starts a keeper, and waits until it can be reached.
async fn spawn(path: &Path) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("tunnel-keeper").arg(path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // It waits for no one, and is not waited for: it may outlive this process.
    let mut child = command.spawn()?;
    let mut stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let ready = timeout(HANDSHAKE, stdout.read_u8()).await.map_err(io::Error::from)?;
    ready.map(drop).map_err(|_| io::Error::other("the process does not start"))
}
