//! A service with state that moves to another machine while a hundred clients use it.
//!
//! ```sh
//! cargo run -p exonet-names --example counter
//! ```
//!
//! The service counts. Each client adds one again and again, by calls to `name:counter`. After some of the calls, the program freezes the
//! service and writes it to one file, with its count as the state of the application. It restores both in another directory, as on another
//! machine, and the service goes on. At the end the count is the number of calls that were answered: no call was lost or counted twice.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use exonet::call::{Request, Serving};
use exonet::naming::Name;
use exonet::state::{self, ApplicationError, Checkpoint, SecretKey, StateDir};
use exonet::{Allow, Node, Peer};
use exonet_names::FileNames;

const CLIENTS: usize = 100;
const CALLS_EACH: u64 = 100;
/// When the service moves: so many calls are answered.
const MOVES_AT: u64 = 4_000;

/// The count, which moves with the service.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU64>);

impl Count {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Checkpoint for Count {
    fn checkpoint(&self) -> Result<Vec<u8>, ApplicationError> {
        Ok(self.now().to_string().into_bytes())
    }

    fn restore(bytes: &[u8]) -> Result<Self, ApplicationError> {
        Ok(Self(Arc::new(AtomicU64::new(std::str::from_utf8(bytes)?.parse()?))))
    }
}

/// The service, at one of its places.
struct Counter {
    node: Node,
    /// The service ends when this is dropped.
    _serving: Serving,
    count: Count,
}

impl Counter {
    /// Counts on from `count`, as the identity in `place`, and is found as `counter`.
    async fn start(place: &Path, names: &FileNames, count: Count) -> Result<Self, Box<dyn Error>> {
        let node = Node::builder(Allow::anyone())
            .state_dir(place)
            .bind("127.0.0.1:0")
            .naming(names.clone())
            .build()
            .await?;
        let counted = count.clone();
        let add = move |_: Request| {
            let now = counted.0.fetch_add(1, Ordering::Relaxed) + 1;
            async move { now.to_string() }
        };
        let serving = node.serve("add", add).start()?;
        let address = node.local_addr().to_string();
        drop(node.bind_name(&"counter".parse::<Name>()?, [address]).await?);
        Ok(Self { node, _serving: serving, count })
    }
}

/// Adds one. A client need not know that the service moves: its call waits.
async fn add(counter: &Peer) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let mut reply = counter.call("add", "").await?;
    let text = reply.body.bytes(20).await?;
    Ok(String::from_utf8_lossy(&text).parse()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let world = tempfile::tempdir()?;
    let [here, there, machine, file] =
        ["here", "there", "machine", "counter.exonet"].map(|it| world.path().join(it));
    let names = FileNames::new(world.path().join("names"));
    let service = Counter::start(&here, &names, Count::default()).await?;

    let answered = Arc::new(AtomicU64::new(0));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").naming(names.clone()).build().await?;
        let counter = node.named(&"counter".parse()?).await?;
        let answered = Arc::clone(&answered);
        clients.push(tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            for _ in 0..CALLS_EACH {
                let began = Instant::now();
                add(&counter).await?;
                longest = longest.max(began.elapsed());
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(longest)
        }));
    }
    while answered.load(Ordering::Relaxed) < MOVES_AT {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    // The other machine has an identity of its own, for which the checkpoint is sealed.
    let other = StateDir::create(&machine, &fresh()?)?;
    let to = SecretKey::from_bytes(**other.secret()).node_id();
    let began = Instant::now();
    // The service stops when it has answered the calls that it has counted. Calls that come later wait for its next place.
    // After this, the identity cannot be opened at its former place.
    service.node.checkpoint(Duration::from_secs(5), &to, &service.count, &file).await?;
    let restored = state::restore_file::<Count>(&file, &machine, &there, Some(&names)).await?;
    let (count, generation) = (restored.application.now(), restored.term.generation);
    let service = Counter::start(&there, &names, restored.application).await?;
    // Those that it knows need not look it up.
    service.node.greet();
    println!("moved at {count} within {:.1} ms, as generation {generation}", ms(began.elapsed()));

    let mut longest = Duration::ZERO;
    for client in clients {
        longest = longest.max(client.await?.map_err(|error| error.to_string())?);
    }
    service.node.freeze(Duration::from_secs(5)).await;
    let count = service.count.now();
    let answered = answered.load(Ordering::Relaxed);
    println!("{answered} calls of {CLIENTS} clients were answered, and {count} counted");
    println!("the longest call took {:.1} ms", ms(longest));
    assert_eq!((answered, count), (CLIENTS as u64 * CALLS_EACH, answered));
    Ok(())
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

fn fresh() -> Result<[u8; 32], Box<dyn Error>> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}
