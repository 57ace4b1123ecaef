//! How long a move is seen by those who use the service: `cargo bench -p exonet-names --bench moving`.
//!
//! A service with N sessions, each with a client of its own, whose node is its own. Client and service send to each other all the time. In
//! the middle, the service moves to another directory and another port, as it would to another machine: in one process, over loopback.
//! Every message has to come once, and in order, both ways. For each client, the pause is the longest time between two messages
//! of the service beyond what is usual between two; the reply is the time from when the service greets its peers at the new place to the
//! end of that pause. Each figure is the median of several moves; numbers behind `--` choose how many clients there are, `keep=MB` adds
//! so much to the journal that is moved with it, `trace=DIR` writes there what the last move's nodes say of themselves, and `figure=FILE` draws
//! the steps as an SVG.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_precision_loss)] // a failure here ends the bench

mod figure;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use exonet::naming::Name;
use exonet::state::{Ahead, Landing, SecretKey, StateDir, open_load};
use exonet::{Allow, Builder, Node, Peer, Session};
use exonet_names::FileNames;
use figure::Row;
use tokio::sync::watch;
use tokio::task::JoinSet;

const RUNS: usize = 5;
const CLIENTS: [usize; 4] = [1, 10, 100, 1_000];
/// Between two messages of a client.
const TICK: Duration = Duration::from_millis(20);
/// Of all clients together, in a second: more clients speak less often.
const MOST: u32 = 2_000;
/// Before and behind the move.
const SPAN: Duration = Duration::from_millis(1_500);

/// The service at one of its places.
struct Service {
    node: Node,
    drain: watch::Sender<bool>,
    sessions: JoinSet<()>,
}

impl Service {
    /// Takes its sessions up, as the identity in `place`.
    async fn start(place: &Path, names: &FileNames) -> Self {
        let node = Node::builder(Allow::anyone()).state_dir(place).bind("127.0.0.1:0").naming(names.clone());
        let node = traced(node, "service").build().await.unwrap();
        let (drain, is_drained) = watch::channel(false);
        let mut sessions = JoinSet::new();
        let listener = node.session_listener("talk").unwrap();
        sessions.spawn(async move {
            let mut talks = JoinSet::new();
            let mut drained = is_drained.clone();
            loop {
                tokio::select! {
                    session = listener.accept() => match session {
                        Ok(session) => drop(talks.spawn(talk(session, is_drained.clone()))),
                        Err(_) => break,
                    },
                    _ = drained.wait_for(|drained| *drained) => break,
                }
            }
            while talks.join_next().await.is_some() {}
        });
        Self { node, drain, sessions }
    }

    /// Is found at its place.
    async fn bind(&self) {
        let address = self.node.local_addr().to_string();
        drop(self.node.bind_name(&name(), [address]).await.unwrap());
    }

    /// Ends in order: no message is half worked on.
    async fn freeze(mut self) {
        self.drain.send_replace(true);
        while self.sessions.join_next().await.is_some() {}
        self.node.freeze(Duration::from_secs(5)).await;
    }
}

/// Sends back what comes.
async fn talk(mut session: Session, mut drained: watch::Receiver<bool>) {
    loop {
        let message = tokio::select! {
            message = session.recv() => message,
            _ = drained.wait_for(|drained| *drained) => break,
        };
        let Ok(Some(message)) = message else { return };
        let body = message.body().clone();
        if session.send(body).await.is_err() {
            return;
        }
        let _ = message.ack();
    }
    // It lives on at the next place.
    session.detach();
}

/// What a client has seen.
struct Seen {
    /// The longest time between two messages of the service.
    longest: Duration,
    /// When that was over.
    over: Instant,
}

/// Talks until it is told to end; fails unless what comes is what was sent, in order.
async fn client(service: Peer, tick: Duration, ends: Arc<AtomicBool>, ready: Arc<AtomicUsize>) -> Seen {
    let session = service.session("talk").unwrap().open().await.unwrap();
    let (mut sender, mut receiver) = session.split();
    let (tell, mut told) = watch::channel(None::<u64>);
    let sending = tokio::spawn(async move {
        let mut clock = tokio::time::interval(tick);
        let mut n = 0_u64;
        while !ends.load(Ordering::Relaxed) {
            clock.tick().await;
            drop(sender.send(n.to_be_bytes().to_vec()).await.unwrap());
            n += 1;
        }
        tell.send_replace(Some(n));
        sender
    });
    let mut seen = Seen { longest: Duration::ZERO, over: Instant::now() };
    let (mut next, mut last) = (0_u64, None::<Instant>);
    let mut all = None;
    while all != Some(next) {
        let message = tokio::select! {
            message = receiver.recv() => message.unwrap().unwrap(),
            sent = async { *told.wait_for(Option::is_some).await.unwrap() }, if all.is_none() => {
                all = sent;
                continue;
            }
        };
        assert_eq!(message.body()[..], next.to_be_bytes(), "lost, doubled or out of order");
        message.ack().unwrap();
        let now = Instant::now();
        let gap = last.replace(now).map_or(Duration::ZERO, |last| now - last);
        if gap > seen.longest {
            seen = Seen { longest: gap, over: now };
        }
        next += 1;
        if next == 1 {
            ready.fetch_add(1, Ordering::Relaxed);
        }
    }
    drop(sending.await.unwrap());
    seen
}

/// With a trace in the directory of the argument `trace=DIR`, if there is one.
fn traced(builder: Builder, of: &str) -> Builder {
    let dir = std::env::args().find_map(|it| Some(it.strip_prefix("trace=")?.to_owned()));
    let Some(dir) = dir else { return builder };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    builder.event_trace(File::create(Path::new(&dir).join(format!("{of}-{since}.jsonl"))).unwrap())
}

fn name() -> Name {
    "talk".parse().unwrap()
}

/// What a move took, in milliseconds.
#[derive(Default)]
struct Took {
    steps: Vec<(&'static str, f64)>,
    /// Of all clients, in order.
    pauses: Vec<f64>,
    /// From the greeting on, in order.
    replies: Vec<f64>,
}

struct Clock(Instant, Vec<(&'static str, f64)>);

impl Clock {
    fn step(&mut self, name: &'static str) {
        let now = Instant::now();
        let took = now - std::mem::replace(&mut self.0, now);
        self.1.push((name, took.as_secs_f64() * 1e3));
    }
}

/// Moves the service; gives it at its new place.
async fn moves(service: Service, here: &Path, there: &Path, names: &FileNames) -> (Service, Clock) {
    let door = SecretKey::from_bytes([9; 32]);
    let mut clock = Clock(Instant::now(), Vec::new());
    let (mut ahead, mut landing) = (Ahead::begin(here).unwrap(), Landing::beside(there));
    while ahead.look().unwrap() > 64 << 10 {
        while let Some(piece) = ahead.next_piece().unwrap() {
            landing.ahead(&piece).unwrap();
        }
    }
    clock.step("ahead");
    service.freeze().await;
    clock.step("drain");
    let dir = StateDir::open(here).unwrap();
    let load = dir.checkpoint_after(&door.node_id(), &(), Some(&ahead)).unwrap();
    clock.step("checkpoint");
    let arriving = open_load(load.as_bytes(), &door).unwrap();
    landing.land(&arriving).unwrap();
    clock.step("land");
    let deed = dir.cede(&load).unwrap();
    clock.step("cede");
    landing.restore::<()>(&door, &arriving, deed.as_bytes()).unwrap();
    clock.step("restore");
    let service = Service::start(there, names).await;
    clock.step("start");
    service.node.greet();
    clock.step("greet");
    (service, clock)
}

/// Messages to nobody, which the journal keeps.
async fn keep(node: &Node, mib: usize) {
    let nobody = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap().id();
    let nobody = node.peer(exonet::PeerAddr::new(nobody, ["127.0.0.1:9"]).unwrap());
    for _ in 0..mib * 16 {
        drop(nobody.send(vec![7; 64 << 10]).await.unwrap());
    }
}

async fn run(clients: usize, kept: usize) -> Took {
    let world = tempfile::tempdir().unwrap();
    let (here, there) = (world.path().join("here"), world.path().join("there"));
    let names = FileNames::new(world.path().join("names"));
    let service = Service::start(&here, &names).await;
    service.bind().await;
    keep(&service.node, kept).await;
    let tick = TICK.max(Duration::from_secs(1) * u32::try_from(clients).unwrap() / MOST);
    let (ends, ready) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut talks = JoinSet::new();
    for n in 0..clients {
        let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").naming(names.clone());
        let node = if n == 0 { traced(node, "client") } else { node };
        let node = node.build().await.unwrap();
        let peer = node.named(&name()).await.unwrap();
        talks.spawn(client(peer, tick, Arc::clone(&ends), Arc::clone(&ready)));
    }
    while ready.load(Ordering::Relaxed) < clients {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(SPAN).await;
    let (service, mut clock) = moves(service, &here, &there, &names).await;
    let greeted = clock.0;
    service.bind().await;
    clock.step("rebind");
    tokio::time::sleep(SPAN).await;
    ends.store(true, Ordering::Relaxed);
    let (mut pauses, mut replies) = (Vec::new(), Vec::new());
    while let Some(seen) = talks.join_next().await {
        let seen = seen.unwrap();
        pauses.push(seen.longest.saturating_sub(tick).as_secs_f64() * 1e3);
        replies.push(seen.over.saturating_duration_since(greeted).as_secs_f64() * 1e3);
    }
    service.freeze().await;
    Took { steps: clock.1, pauses, replies }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// The median of what `of` gives of each move.
fn usual(took: &[Took], of: impl Fn(&Took) -> f64) -> f64 {
    median(took.iter().map(of).collect())
}

fn most(of: &[f64]) -> f64 {
    of.iter().copied().fold(0.0, f64::max)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let kept = arguments.iter().find_map(|it| it.strip_prefix("keep=")?.parse().ok()).unwrap_or(0);
    let mut counts: Vec<usize> = arguments.iter().filter_map(|it| it.parse().ok()).collect();
    if counts.is_empty() {
        counts = CLIENTS.to_vec();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let drawn = arguments.iter().find_map(|it| it.strip_prefix("figure="));
    let mut rows = Vec::new();
    println!("clients   pause p50   pause max   reply p50   reply max   in ms; steps in ms");
    for clients in counts {
        let took: Vec<Took> = (0..RUNS).map(|_| runtime.block_on(run(clients, kept))).collect();
        let figures: [f64; 4] = [
            usual(&took, |took| median(took.pauses.clone())),
            usual(&took, |took| most(&took.pauses)),
            usual(&took, |took| median(took.replies.clone())),
            usual(&took, |took| most(&took.replies)),
        ];
        let steps: Vec<(&str, f64)> = (0..took[0].steps.len())
            .map(|at| (took[0].steps[at].0, usual(&took, |took| took.steps[at].1)))
            .collect();
        let said: Vec<String> = steps.iter().map(|(name, ms)| format!("{name} {ms:.1}")).collect();
        rows.push(Row { clients, steps, pause: [figures[0], figures[1]] });
        let figures: String = figures.iter().map(|figure| format!(" {figure:>11.1}")).collect();
        println!("{clients:>7}{figures}   {}", said.join(", "));
    }
    if let Some(file) = drawn {
        std::fs::write(file, figure::draw(&rows)).unwrap();
    }
}
