//! The builder of a node.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::num::NonZeroU32;
use core::time::Duration;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use exonet_proto::channel::mtu::ETHERNET;
use exonet_proto::crypto::{SecretKey, Suite};
use exonet_proto::node::{Boot, Carrier, Config, Limits, Node as Core, Takes};
use exonet_proto::parts::{CongestionControl, Retransmission, Scheduler};
use exonet_proto::{DurabilityLevel, Stamp};
use exonet_store::{LogStore, Store};
use tokio::net::TcpListener;
use zeroize::Zeroizing;

use crate::allow::{Allow, Question};
use crate::carrier::{self, Carriers};
use crate::clock::Clock;
use crate::dead::DeadLetters;
use crate::driver::Driver;
use crate::engine::Engine;
use crate::error::BuildError;
use crate::journal::{self, Durability};
use crate::naming::{Naming, Pins};
use crate::node::Node;
use crate::resolve::Names;
use crate::shared::{Service, Shared};
use crate::socket::Socket;
use crate::state::{StateDir, StateError, Term};
use crate::timer::Timer;
use crate::trace::Trace;

/// The size in bytes of the largest datagram that the node ever tries.
const LARGEST: u16 = 65_000;

/// Where the node's key comes from.
enum Identity {
    Ephemeral,
    Stored(PathBuf),
}

/// The settings of a node that is not yet built. [`Node::builder`] creates it.
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    config: Config,
    question: Option<Arc<Question>>,
    identity: Identity,
    durability: Option<Durability>,
    journals: Arc<dyn Store>,
    attempts: Option<NonZeroU32>,
    bind: Option<String>,
    trace: Option<Box<dyn io::Write + Send>>,
    names: Option<Names>,
    naming: Option<Arc<dyn Naming>>,
    carriers: Carriers,
    accepts: bool,
}

impl Builder {
    pub(crate) fn new(allow: Allow) -> Self {
        let (policy, question) = allow.into_policy();
        // The system tells only the MTU of the first link. To find that of the whole path, the node sends three
        // probes every ten minutes.
        let suite = Suite::for_processor(has_aes());
        let config = Config { max_datagram: LARGEST, suite, ..Config::new(policy) };
        Self {
            config,
            question,
            identity: Identity::Ephemeral,
            durability: None,
            journals: Arc::new(LogStore),
            attempts: None,
            bind: None,
            trace: None,
            names: None,
            naming: None,
            carriers: Carriers::default(),
            accepts: true,
        }
    }

    /// Gives the node a new key that ends with it, and keeps nothing on disk. This is the default.
    ///
    /// The application can neither choose nor export this key. A second node with the same key would begin its
    /// numbers anew, and a peer that remembers the first node might then report Delivered for a message that it never
    /// got. An identity that outlives a process needs the numbers of its former lives, and [`Self::state_dir`] keeps
    /// those.
    ///
    /// ```compile_fail
    /// # use exonet::{Allow, Node};
    /// let builder = Node::builder(Allow::anyone()).key(exonet::state::SecretKey::from_bytes([1; 32]));
    /// ```
    pub fn ephemeral(mut self) -> Self {
        self.identity = Identity::Ephemeral;
        self
    }

    /// Gives the node the identity that is stored in this directory. The node creates the directory on first use, and
    /// locks it while it runs.
    pub fn state_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.identity = Identity::Stored(path.as_ref().to_owned());
        self
    }

    /// How much a crash may make the node forget. Default: [`Durability::Process`] with a [state
    /// directory](Self::state_dir), [`Durability::Memory`] without.
    ///
    /// ```
    /// use exonet::{Allow, Durability, Node};
    ///
    /// let builder = Node::builder(Allow::anyone()).state_dir("/var/lib/orders").durability(Durability::Sync);
    /// # let _ = builder;
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// The store that keeps the journal of a [stored](Self::state_dir) identity: an implementation of [`Store`]. Default:
    /// the log of the crate `exonet-store`. The crate `exonet-store-sqlite` keeps the journal in SQLite.
    ///
    /// An identity must keep its store. With another one, [`build`](Self::build) fails, and the journal stays as it is.
    /// [`StateDir::outbox`](crate::state::StateDir::outbox) and checkpoints can read only the log.
    pub fn store(mut self, store: impl Store) -> Self {
        self.journals = Arc::new(store);
        self
    }

    /// The local address, such as `0.0.0.0:4455`. Default: all addresses, IPv6 and IPv4, at a port that the system
    /// chooses.
    #[allow(clippy::needless_pass_by_value)] // reads better at the call
    pub fn bind(mut self, address: impl ToString) -> Self {
        self.bind = Some(address.to_string());
        self
    }

    /// How packets reach the peers whose addresses this node is given: as datagrams (UDP); over connections (TCP),
    /// for networks that let nothing else through; or as datagrams, with a connection to a peer that datagrams do not
    /// reach. With [`Carrier::Tcp`] and [`Carrier::Auto`] the node also accepts connections, at the port of its
    /// socket. Default: [`Carrier::Udp`].
    ///
    /// ```
    /// use exonet::{Allow, Carrier, Node};
    ///
    /// let builder = Node::builder(Allow::anyone()).bind("0.0.0.0:4455").carrier(Carrier::Auto);
    /// # let _ = builder;
    /// ```
    pub fn carrier(mut self, carrier: Carrier) -> Self {
        self.config.carrier = carrier;
        self
    }

    /// Whether the node accepts connections, if its [carrier](Self::carrier) uses any. Default: true. A node that only
    /// opens connections itself, such as a client, needs no listener.
    pub const fn accept_connections(mut self, accepts: bool) -> Self {
        self.accepts = accepts;
        self
    }

    /// How the node opens connections, if its [carrier](Self::carrier) uses any. Default: straight to the peer, with
    /// [`Tcp`](carrier::Tcp).
    pub fn dialler(mut self, dialler: impl carrier::Dialler) -> Self {
        (self.carriers.dialler, self.carriers.warns) = (Arc::new(dialler), true);
        self
    }

    /// Lets the node also accept connections that begin with TLS, at the same port. Default: none.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: carrier::TlsServer) -> Self {
        self.carriers.tls = Some(tls);
        self
    }

    /// Whether the node answers a peer that [`Allow`] does not admit. If true, the messages of that peer end
    /// [`Outcome::Refused`](crate::Outcome) at once. If false, the node sends nothing to the peer, and the peer goes
    /// on trying. Default: true.
    pub fn tell_refused(mut self, tell: bool) -> Self {
        self.config.tell_refused = tell;
        self
    }

    /// What the node takes from peers: messages, calls, or both. A message of another kind ends
    /// [`Outcome::Refused`](crate::Outcome) at its sender: this node certainly does not deliver it. Default: both.
    pub fn takes(mut self, takes: Takes) -> Self {
        self.config.takes = takes;
        self
    }

    /// Changes the limits on how much the node holds.
    ///
    /// ```
    /// # use exonet::{Allow, Node};
    /// let builder = Node::builder(Allow::anyone()).limits(|limits| {
    ///     limits.queued_messages = 1_000;
    ///     limits.message = 1 << 20;
    /// });
    /// # let _ = builder;
    /// ```
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.config.limits);
        self
    }

    /// How long a channel may be idle before both nodes delete it. Default: 30 s.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.config.idle_timeout = timeout;
        self
    }

    /// How long a message may be in doubt before it ends Unknown. Default: no limit.
    pub fn doubt_timeout(mut self, timeout: Duration) -> Self {
        self.config.doubt_timeout = Some(timeout);
        self
    }

    /// How many times the node hands a message out, if the application drops each delivery without acknowledging it.
    /// Then the node rejects the message: it tells the sender [`Outcome::Rejected`](crate::Outcome::Rejected), and
    /// keeps the message as a [dead letter](crate::dead). So a message that can never be processed ends, and does not
    /// hold up the others. Default: no limit.
    pub fn attempts(mut self, most: NonZeroU32) -> Self {
        self.attempts = Some(most);
        self
    }

    /// Sends a ping after every `interval` of silence, so that address translators on the path keep their entries.
    /// Default: off.
    pub fn keepalive(mut self, interval: Duration) -> Self {
        self.config.keepalive = Some(interval);
        self
    }

    /// Whether the first messages to a peer without a channel leave together with the opening, which takes one trip
    /// if the two clocks agree. The sender encrypts them to the peer's long-term key: whoever steals that key later
    /// can read them (they have no forward secrecy). Each message may set this for itself. Default: true.
    pub fn early(mut self, early: bool) -> Self {
        self.config.early = early;
        self
    }

    /// Uses the application's congestion control. The node calls `make` once for each path. See
    /// [`parts`](crate::parts). Default: the one that [`Config::congestion`] names.
    pub fn congestion_control<C: CongestionControl + 'static>(
        mut self,
        make: impl Fn() -> C + Send + Sync + 'static,
    ) -> Self {
        self.config.parts.set_congestion(make);
        self
    }

    /// Uses the application's scheduler, which chooses the next message to a peer. The node calls `make` once for
    /// each peer. See [`parts`](crate::parts). Default: weighted priorities; within a priority, the methods of calls
    /// and the streams take turns.
    pub fn scheduler<S: Scheduler + 'static>(mut self, make: impl Fn() -> S + Send + Sync + 'static) -> Self {
        self.config.parts.set_scheduler(make);
        self
    }

    /// Uses the application's retransmission policy, which decides when a packet counts as lost, when the node
    /// probes, and which packets the node sends twice. The node calls `make` once for each path. [`Config::hedging`]
    /// then has no effect. See [`parts`](crate::parts). Default: [`Standard`](crate::parts::Standard).
    pub fn retransmission<R: Retransmission + 'static>(
        mut self,
        make: impl Fn() -> R + Send + Sync + 'static,
    ) -> Self {
        self.config.parts.set_retransmission(make);
        self
    }

    /// Changes any setting of the core.
    ///
    /// ```
    /// use exonet::{Allow, Node, config::{CongestionChoice, Hedging}};
    ///
    /// let builder = Node::builder(Allow::anyone()).config(|config| {
    ///     config.hedging = Hedging::Off;
    ///     config.congestion = CongestionChoice::Cubic;
    /// });
    /// # let _ = builder;
    /// ```
    pub fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Writes events to `sink` as lines of JSON in the style of qlog: `time` in ms since the start, `name`, `data`. A
    /// separate thread writes them, and may block. If `sink` is slow, the node drops and counts the events beyond a
    /// backlog of one MiB.
    pub fn event_trace(mut self, sink: impl io::Write + Send + 'static) -> Self {
        self.trace = Some(Box::new(sink));
        self
    }

    /// The service in which the node looks up and binds the [names](crate::naming) of services. If the service is an
    /// authority, a node with a [stored](Self::state_dir) identity asks it at every start, before the node sends
    /// anything: an identity that has moved away does not start.
    pub fn naming(mut self, naming: impl Naming) -> Self {
        self.naming = Some(Arc::new(naming));
        self
    }

    /// Like [`Self::naming`], for a name service that several nodes share.
    pub fn naming_shared(mut self, naming: Arc<dyn Naming>) -> Self {
        self.naming = Some(naming);
        self
    }

    /// Looks up host names with `names` instead of the system.
    #[cfg(test)]
    pub(crate) fn names(mut self, names: Names) -> Self {
        self.names = Some(names);
        self
    }

    /// Builds and starts the node. The caller must be within a tokio runtime that has I/O and time enabled.
    ///
    /// With [`Self::state_dir`] this method waits for the disk, on another thread. If a former life of the identity
    /// ended less than 500 ms ago, this method may also wait until these 500 ms are over. It does so if this life does
    /// not know which messages the former one took: it has neither a journal that it trusts, nor notes from this boot
    /// of the machine. Without this wait, messages of peers would end Unknown.
    ///
    /// # Errors
    /// [`BuildError`] says what is wrong.
    pub async fn build(mut self) -> Result<Node, BuildError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        let (socket, listener) = bind_both(self.bind.as_deref(), self.config.carrier, self.accepts)?;
        let in_memory = self.config.limits.queued_in_memory;
        self.carriers.limit(&self.config.limits);
        self.carriers.warns |= self.config.carrier == Carrier::Tcp;
        let Opened { key, boot, store, journal } =
            self.identity.open(self.journals, self.durability, in_memory).await?;
        let term = store.as_ref().map_or_else(Term::default, |store| store.term());
        if let Some(naming) = self.naming.as_ref().filter(|naming| store.is_some() && naming.is_authority()) {
            crate::naming::claim(&**naming, &key.node_id(), term).await?;
        }
        let dead = store.as_ref().map_or_else(DeadLetters::in_memory, |store| store.dead_letters());
        tokio::time::sleep(former_life(&boot)).await;
        let seed = *random()?;

        let clock = Clock::start();
        let now = clock.now();
        let trace = self.trace.is_some().then(|| Trace::new(now, key.node_id()));
        let queue_limit = self.config.limits.queued_messages;
        // The engine refuses calls of methods that nothing serves.
        let durability = journal.as_ref().map_or_else(DurabilityLevel::default, journal::Log::level);
        let mut config = Config { serves: true, stay: term.stay(), durability, ..self.config };
        if journal.is_some() {
            let whole = &mut config.limits.whole_message;
            *whole = (*whole).min(journal::LONGEST_BODY);
        }
        if socket.may_fragment() {
            config.max_datagram = config.max_datagram.min(ETHERNET);
        }
        let mut core = Core::new(config, key, boot, seed, now);
        // The engine drops these later, without the lock: their destructors are the application's code.
        core.keep_spent();
        let timer = Arc::new(Timer::new().map_err(BuildError::Timer)?);
        let mut engine = Engine::new(core, queue_limit, trace, Arc::clone(&timer));
        engine.question = self.question;
        if journal.is_none() {
            engine.notes = store.clone();
        }
        // tokio learns that the socket is ready only when it has polled the system once. After that, the caller's
        // thread can send the first message itself.
        let socket = Arc::new(socket);
        let ready = socket.writable().await;
        ready.map_err(|source| BuildError::Bind { address: socket.local_addr(), source })?;
        let pins = match &store {
            Some(store) => Arc::new(Pins::of(store.pins()?, store)),
            None => Arc::default(),
        };
        // Datagrams can only go to real network addresses, which a proxy does not give.
        let dialler: Arc<dyn carrier::Dialler> = match self.config.carrier {
            Carrier::Udp => Arc::new(carrier::Tcp),
            _ => Arc::clone(&self.carriers.dialler),
        };
        let of_system = || Names::of_system(self.naming.clone(), dialler);
        let names = self.names.unwrap_or_else(of_system);
        let service = Service { names, naming: self.naming.clone(), pins, generation: term.generation };
        let mut shared = Shared::new(engine, clock, Arc::clone(&socket), service, dead, self.attempts);
        shared.carriers = self.carriers;
        shared.place = store.as_ref().map(|store| store.path().to_owned());
        let shared = Arc::new(shared);
        if let Some(journal) = journal {
            shared.amend(|engine| engine.keep_journal(now, journal, &Arc::downgrade(&shared)));
        }
        shared.start_forcing().map_err(BuildError::Thread)?;
        if let (Some(naming), Some(store)) = (self.naming.filter(|naming| naming.is_authority()), &store) {
            let node = Arc::clone(&shared);
            runtime.spawn(crate::naming::watch(node, naming, Arc::downgrade(store), term));
        }
        let driver = Driver::new(Arc::clone(&shared), socket, timer, store, self.trace);
        runtime.spawn(driver.run());
        match listener {
            Some(listener) => drop(runtime.spawn(carrier::listen(Arc::clone(&shared), listener))),
            None => shared.carriers.listening.close(),
        }
        Ok(Node::new(shared))
    }
}

/// A key, what the node knows of its former lives, and the store that keeps both.
struct Opened {
    key: SecretKey,
    boot: Boot,
    store: Option<Arc<StateDir>>,
    journal: Option<journal::Log>,
}

impl Identity {
    async fn open(
        self,
        journals: Arc<dyn Store>,
        durability: Option<Durability>,
        in_memory: usize,
    ) -> Result<Opened, BuildError> {
        match self {
            Self::Ephemeral if durability.is_some_and(|durability| durability != Durability::Memory) => {
                Err(BuildError::NotStored)
            }
            Self::Ephemeral => Ok(Opened {
                key: SecretKey::from_bytes(*random()?),
                boot: Boot::Ephemeral,
                store: None,
                journal: None,
            }),
            Self::Stored(path) => {
                let fresh = random()?;
                let durability = durability.unwrap_or(Durability::Process);
                let open = move || open_stored(path, fresh, &*journals, durability, in_memory);
                Ok(tokio::task::spawn_blocking(open).await.map_err(|_| BuildError::NoRuntime)??)
            }
        }
    }
}

fn open_stored(
    path: PathBuf,
    fresh: Zeroizing<[u8; 32]>,
    journals: &dyn Store,
    durability: Durability,
    in_memory: usize,
) -> Result<Opened, StateError> {
    let dir = StateDir::open_or_create(path, || fresh)?;
    let (key, record) = (SecretKey::from_bytes(**dir.secret()), dir.load());
    let opened = journal::open(&dir, journals, durability, in_memory)?;
    let (journal, found) = opened.map(|opened| (opened.log, (opened.safety, opened.found))).unzip();
    let boot = Boot::Stored {
        clock: record.d,
        life: record.life,
        latest: Stamp(record.latest),
        strays: dir.strays().to_vec(),
        notes: dir.notes(),
        journal: found,
    };
    Ok(Opened { key, boot, store: Some(Arc::new(dir)), journal })
}

/// How long to wait until stamps belong to this life. First messages with the stamps of a former life end Unknown if
/// this life does not know which messages that one took. `latest` on disk is up to half a second ahead of the clock,
/// so the wait after a crash is half a second at most. A life that has the journal or the notes of the former life
/// knows which messages that one took, and does not wait: such messages then take one round trip more, which is
/// shorter than the wait.
fn former_life(boot: &Boot) -> Duration {
    const MOST: Duration = Duration::from_millis(500);
    let Boot::Stored { latest, notes, journal, .. } = boot else { return Duration::ZERO };
    let remembers = journal.as_ref().map_or(notes.is_some(), |(_, found)| !found.is_empty());
    if remembers {
        return Duration::ZERO;
    }
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_nanos(latest.0).saturating_sub(since_1970).min(MOST)
}

/// Whether the processor has the instructions that make AES-GCM fast: AES and carry-less multiplication.
fn has_aes() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    {
        std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
    }
    #[cfg(target_arch = "aarch64")]
    {
        std::arch::is_aarch64_feature_detected!("aes")
    }
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    {
        false
    }
}

fn random() -> Result<Zeroizing<[u8; 32]>, BuildError> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut_slice()).map_err(BuildError::Random)?;
    Ok(bytes)
}

fn bind(address: Option<&str>) -> Result<Socket, BuildError> {
    let Some(text) = address else {
        // Many machines have no IPv6.
        return Socket::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))
            .or_else(|_| bind_to(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))));
    };
    bind_to(text.parse().map_err(|_| BuildError::Address(text.to_owned()))?)
}

/// Binds the UDP socket, and a TCP listener at the same port if the `carrier` uses connections and the node accepts them.
fn bind_both(
    address: Option<&str>,
    carrier: Carrier,
    accepts: bool,
) -> Result<(Socket, Option<TcpListener>), BuildError> {
    if carrier == Carrier::Udp || !accepts {
        return Ok((bind(address)?, None));
    }
    let (socket, listener) = carrier::bind_beside(chooses_port(address), || bind(address))?;
    match listener {
        Ok(listener) => Ok((socket, Some(listener))),
        Err(error) if carrier == Carrier::Auto => {
            let address = socket.local_addr();
            tracing::warn!(target: "exonet::connections", %error, %address, "this node takes no connections in");
            Ok((socket, None))
        }
        Err(error) => Err(refused(socket.local_addr(), error)),
    }
}

/// Whether the system chooses the port.
fn chooses_port(address: Option<&str>) -> bool {
    let wanted = address.and_then(|text| text.parse::<SocketAddr>().ok());
    wanted.is_none_or(|address| address.port() == 0)
}

fn refused(address: SocketAddr, source: io::Error) -> BuildError {
    match source.kind() {
        io::ErrorKind::AddrInUse => BuildError::AddressInUse(address),
        _ => BuildError::Bind { address, source },
    }
}

fn bind_to(address: SocketAddr) -> Result<Socket, BuildError> {
    Socket::bind(address).map_err(|source| refused(address, source))
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("config", &self.config)
            .field("bind", &self.bind)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use exonet_proto::Now;
    use exonet_proto::node::{Durability as Safety, Notes, Recovered};

    use super::*;

    #[test]
    fn only_a_life_that_has_forgotten_waits_for_the_end_of_the_one_before() {
        let soon = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(3_600);
        let latest = Stamp(u64::try_from(soon.as_nanos()).unwrap());
        let boot = |notes: Option<Notes>, journal: Option<Recovered>| {
            let journal = journal.map(|found| (Safety::Written, Box::new(found)));
            Boot::Stored { clock: 7, life: 1, latest, strays: Vec::new(), notes, journal }
        };
        let begun = boot(None, Some(Recovered::default()));
        let half = Duration::from_millis(500);
        assert_eq!((former_life(&begun), former_life(&boot(None, None))), (half, half));
        let key = SecretKey::from_bytes([7; 32]);
        let mut core =
            Core::new(Config::new(Allow::anyone().into_policy().0), key, begun, [9; 32], Now::default());
        let found = Recovered::read(&core.poll_journal().unwrap().to_vec()).unwrap();
        assert_eq!(former_life(&boot(None, Some(found))), Duration::ZERO);
        assert_eq!(former_life(&boot(Some(Notes::default()), None)), Duration::ZERO);
        assert_eq!(former_life(&boot(Some(Notes::default()), Some(Recovered::default()))), half);
        assert_eq!(former_life(&Boot::Ephemeral), Duration::ZERO);
    }
}
