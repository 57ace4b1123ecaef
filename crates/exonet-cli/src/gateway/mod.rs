//! The gateway: sends, receives, calls and serves over HTTP, for programs in languages that have no library.
//!
//! It is part of `exon up` and listens at an address of this machine ([`server`]). A request is answered if it
//! carries the token ([`mod@token`]) and names this machine in `Host` ([`guard`]); [`routes`] lists the requests.
//!
//! A message that a client gets is leased to it under a handle ([`leases`]) until it answers, its lease ends or it
//! disconnects; then other clients get the message. A message that a client sends is known by the client's own id
//! ([`sent`]), which [`ledger`] keeps for the next run.

mod about;
mod answers;
mod arrivals;
mod calls;
mod description;
mod guard;
mod inbox;
mod leases;
mod ledger;
mod request;
mod respond;
mod routes;
mod send;
mod sent;
mod served;
mod server;
mod token;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use exonet::send::OpenMessage;
use exonet::{Allow, Node, Receipt};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

pub(crate) use self::guard::is_for_us;
pub(crate) use self::server::bind;

use self::guard::Guard;
use self::inbox::Inbox;
use self::respond::ApiError;
use self::sent::Sent;
use self::served::Served;
use self::token::Token;
use crate::args::GatewayArgs;
use crate::control::{Asker, Handed};
use crate::failure::Failure;
use crate::settings::Settings;

/// The maximum number of requests that wait at once.
const WAITING: usize = 64;
/// The default durability of a stored identity.
const USUAL: &str = "process";

/// The nodes whose messages and calls the node accepts for clients of the gateway.
pub(crate) fn allow(args: &GatewayArgs) -> Allow {
    if args.anyone { Allow::anyone() } else { Allow::only(args.allow.iter().copied()) }
}

/// The state that all clients share.
struct Office {
    node: Node,
    sent: Arc<Sent>,
    inbox: Inbox,
    served: Served,
    guard: Guard,
    waiting: Arc<Semaphore>,
    /// Room for the bodies of requests.
    room: Semaphore,
    /// Messages whose outcomes are awaited.
    taken: mpsc::UnboundedSender<Handed>,
    identity: String,
    durability: String,
    /// Whether durable messages wait for the disk.
    forces: bool,
    /// The nodes whose messages and calls are accepted, in words.
    takes: String,
    /// Whether the page of `--ui` is served.
    ui: bool,
    /// Background tasks.
    tasks: Mutex<JoinSet<()>>,
}

impl Office {
    fn place_to_wait(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| {
            let message = format!("{WAITING} requests already wait");
            ApiError::busy("too_many_waiting", message, "wait in fewer requests at once")
        })
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// The gateway of a node, which lasts until this is dropped. [`Self::close`] it before the node ends: its tasks hold
/// the node.
pub(crate) struct Gateway {
    office: Arc<Office>,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
    /// Its URL for clients.
    pub(crate) url: String,
    /// The path of its token.
    pub(crate) token: PathBuf,
}

/// A bound address for a gateway. It is bound before the node starts, so that its errors are reported first.
pub(crate) struct Site {
    listener: Arc<TcpListener>,
    address: SocketAddr,
}

impl Site {
    /// None: no gateway is wanted.
    pub(crate) async fn take(settings: &Settings, args: &GatewayArgs) -> Result<Option<Self>, Failure> {
        let Some(address) = args.http else { return Ok(None) };
        if !address.ip().is_loopback() && !args.http_remote {
            let failure = Failure::new(format!("other machines reach --http {address}"));
            return Err(failure.hint("use 127.0.0.1, or allow this: --http-remote").wrong_usage());
        }
        // A client that can connect can also read the token.
        drop(token(settings, args)?);
        let listener = server::bind(address, "--http").await?;
        let address =
            listener.local_addr().map_err(|e| Failure::new("the listener has no address").because(&e))?;
        Ok(Some(Self { listener: Arc::new(listener), address }))
    }

    /// Opens the gateway of a node; another one may follow when this one is closed. `left` has the messages that a
    /// former run of the identity left open. The result has one asker for each of them.
    pub(crate) fn open(
        &self,
        settings: &Settings,
        node: &Node,
        args: &GatewayArgs,
        taken: &mpsc::UnboundedSender<Handed>,
        left: &[(OpenMessage, Receipt)],
    ) -> Result<(Gateway, Vec<Option<Asker>>), Failure> {
        let directory = settings.identity.place()?;
        let token = token(settings, args)?;
        let (sent, askers) = Sent::open(node, directory, left)?;
        let names = args.http_host.iter().map(|name| name.to_ascii_lowercase()).collect();
        let (path, url) = (token.path.clone(), format!("http://{}", self.address));
        let office = Arc::new(Office {
            node: node.clone(),
            sent,
            inbox: Inbox::default(),
            served: Served::default(),
            guard: Guard { token, names },
            waiting: Arc::new(Semaphore::new(WAITING)),
            room: Semaphore::new(request::ROOM),
            taken: taken.clone(),
            identity: settings.identity.to_string(),
            durability: settings.level().unwrap_or_else(|| USUAL.to_owned()),
            forces: settings.waits_for_disk(),
            takes: takes(args),
            ui: args.ui,
            tasks: Mutex::default(),
        });
        for watch in [true, false] {
            let watched = Arc::clone(&office);
            office.spawn(async move {
                if watch { watched.inbox.watch().await } else { watched.served.watch().await }
            });
        }
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(server::serve(Arc::clone(&self.listener), Arc::clone(&office), ended));
        Ok((Gateway { office, end, task, url, token: path }, askers))
    }
}

/// The token, which is created if there is none yet.
fn token(settings: &Settings, args: &GatewayArgs) -> Result<Token, Failure> {
    let path = match &args.http_token {
        Some(path) => path.clone(),
        None => settings.identity.place()?.join(token::FILE),
    };
    Token::open(path)
}

fn takes(args: &GatewayArgs) -> String {
    match args.allow.as_slice() {
        _ if args.anyone => "messages and calls of anyone".to_owned(),
        [] => "messages and calls of peers that it sends to".to_owned(),
        [one] => format!("messages and calls of {}", one.short()),
        ids => format!("messages and calls of {} nodes", ids.len()),
    }
}

impl Gateway {
    /// Prints its URL and the nodes that it accepts messages from.
    pub(crate) fn announce(&self, settings: &Settings) {
        settings.note(format!("HTTP at {}: {}", self.url, self.office.takes));
        if self.office.ui {
            settings.note(format!("the page {}/ shows this node, and asks for the token", self.url));
        }
        settings.note(format!("each request needs the token in {}", self.token.display()));
    }

    /// Closes the gateway: clients are disconnected, and the messages that they have not answered are delivered
    /// again.
    pub(crate) async fn close(self) {
        drop(self.end);
        // The result of the task does not matter.
        let _ = self.task.await;
        self.office.served.end();
        let mut tasks =
            std::mem::take(&mut *self.office.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
    }
}
