//! A service with state that moves to another machine while a hundred clients use it.
//!
//! ```sh
//! cargo run -p exonet-names --example counter
//! ```
//!
//! The service counts. Each client adds one again and again, by calls to `name:counter`. In the middle, the service is drained, frozen
//! and ceded, with its count as the application's bytes of the checkpoint; it is restored in another directory, as it would be on another
//! machine; and it goes on. At the end the count is the number of calls that were answered: none was lost, and none counted twice.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use exonet::call::{Request, Serving};
use exonet::naming::Name;
use exonet::state::{self, SecretKey, StateDir};
use exonet::{Allow, Node, Peer};
use exonet_names::FileNames;

const CLIENTS: usize = 100;
const CALLS_EACH: u64 = 100;
/// When the service moves: so many calls are answered.
const MOVES_AT: u64 = 4_000;

/// The service, at one of its places.
struct Counter {
    node: Node,
    serving: Serving,
    count: Arc<AtomicU64>,
}

impl Counter {
    /// Counts on from `count`, as the identity in `place`, and is found as `counter`.
    async fn start(place: &Path, names: &FileNames, count: u64) -> Result<Self, Box<dyn Error>> {
        let node = Node::builder(Allow::anyone())
            .state_dir(place)
            .bind("127.0.0.1:0")
            .naming(names.clone())
            .build()
            .await?;
        let count = Arc::new(AtomicU64::new(count));
        let counted = Arc::clone(&count);
        let add = move |_: Request| {
            let now = counted.fetch_add(1, Ordering::Relaxed) + 1;
            async move { now.to_string() }
        };
        let serving = node.serve("add", add).start()?;
        let address = node.local_addr().to_string();
        drop(node.bind_name(&"counter".parse::<Name>()?, [address]).await?);
        Ok(Self { node, serving, count })
    }

    /// Stops when what it has counted is answered. Gives the count. Calls that come meanwhile wait for its next place.
    async fn freeze(self) -> u64 {
        self.node.freeze(Duration::from_secs(5)).await;
        drop(self.serving);
        self.count.load(Ordering::Relaxed)
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
    let (here, there) = (world.path().join("here"), world.path().join("there"));
    let names = FileNames::new(world.path().join("names"));
    let service = Counter::start(&here, &names, 0).await?;

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

    // The other machine has a key of its own, for which the checkpoint is sealed.
    let other = SecretKey::from_bytes(fresh()?);
    let began = Instant::now();
    let count = service.freeze().await;
    let identity = StateDir::open(&here)?;
    let load = identity.checkpoint(&other.node_id(), count.to_string().as_bytes())?;
    // From here on it does not open at its former place.
    let deed = identity.cede(&load)?;
    let restored = state::restore(&there, &other, load.as_bytes(), deed.as_bytes())?;
    let count = String::from_utf8_lossy(&restored.application).parse()?;
    let service = Counter::start(&there, &names, count).await?;
    // Those that it knows need not look it up.
    service.node.greet();
    println!(
        "moved at {count} within {:.1} ms, as generation {}",
        ms(began.elapsed()),
        restored.term.generation
    );

    let mut longest = Duration::ZERO;
    for client in clients {
        longest = longest.max(client.await?.map_err(|error| error.to_string())?);
    }
    let count = service.freeze().await;
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
