//! How soon messages arrive again after an interface was down: `cargo bench -p exonet --bench outage -- SECONDS TIMES CARRIER`.
//!
//! A sender and a receiver have networks of their own and a cable between them, which only root may make. The sender's end of the
//! cable goes down for SECONDS (3), and up again, TIMES (20) times, while messages of 1,000 bytes go one after the other, or many
//! at once, over CARRIER (udp, tcp; both). The time is that from the call of `ip link set up` to the first message that
//! arrives. `ip` itself takes some of it, which is shown beside it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a failure here ends the bench

#[cfg(target_os = "linux")]
#[path = "../tests/common/host.rs"]
mod host;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("this bench needs Linux");
}

#[cfg(target_os = "linux")]
fn main() {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let outage = words.next().map_or(3, |seconds| seconds.parse().unwrap());
    let times = words.next().map_or(20, |times| times.parse().unwrap());
    let only = words.next().unwrap_or_default();
    linux::run(std::time::Duration::from_secs(outage), times, &only);
}

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use exonet::config::Carrier;
    use exonet::{Allow, Node, PeerAddr};

    use super::host::Host;

    const LINK: &str = "cable";

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    async fn node(at: &str, carrier: Carrier) -> Node {
        Node::builder(Allow::anyone()).bind(at).carrier(carrier).build().await.unwrap()
    }

    /// Does `work` until the other end of `ended` is dropped.
    fn until(
        mut ended: tokio::sync::watch::Receiver<()>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        move || {
            block_on(async {
                tokio::select! {
                    () = work => (),
                    _ = ended.changed() => (),
                }
            });
        }
    }

    /// Sends one batch of `window` messages after the other.
    async fn send(carrier: Carrier, to: PeerAddr, window: usize) {
        let node = node("10.77.1.1:0", carrier).await;
        let peer = node.peer(to);
        loop {
            let batch = peer.send_bodies(vec![[7_u8; 1_000]; window]).await.unwrap();
            batch.await;
        }
    }

    /// Tells when each message arrives.
    async fn receive(carrier: Carrier, address: mpsc::Sender<PeerAddr>, arrivals: mpsc::Sender<Instant>) {
        let node = node("10.77.1.2:0", carrier).await;
        address.send(node.peer_addr()).unwrap();
        while node.at_most_once().recv().await.is_ok() {
            if arrivals.send(Instant::now()).is_err() {
                return;
            }
        }
    }

    /// The next arrival after `since`.
    fn after(arrivals: &mpsc::Receiver<Instant>, since: Instant) -> Instant {
        arrivals.iter().find(|at| *at > since).unwrap()
    }

    pub(super) fn run(outage: Duration, times: usize, only: &str) {
        println!("{times} outages of {outage:?}: the time to the first message, in ms");
        println!("{:<28}{:>9}{:>9}{:>9}{:>9}", "", "median", "p90", "most", "ip");
        let carriers = [("udp", Carrier::Udp), ("tcp", Carrier::Tcp)];
        for (name, carrier) in carriers.into_iter().filter(|(name, _)| only.is_empty() || only == *name) {
            for (kind, window) in [("one message at a time", 1), ("256 at a time", 256)] {
                let (mut waits, mut set) = measured(carrier, window, outage, times);
                waits.sort_unstable();
                set.sort_unstable();
                let ms = |time: Duration| time.as_secs_f64() * 1e3;
                let at = |share: usize| ms(waits[(waits.len() - 1) * share / 100]);
                let name = format!("{name}, {kind}");
                println!(
                    "{name:<28}{:>9.1}{:>9.1}{:>9.1}{:>9.1}",
                    at(50),
                    at(90),
                    at(100),
                    ms(set[set.len() / 2])
                );
            }
        }
    }

    fn measured(
        carrier: Carrier,
        window: usize,
        outage: Duration,
        times: usize,
    ) -> (Vec<Duration>, Vec<Duration>) {
        let (Some(here), Some(there)) = (Host::new(), Host::new()) else {
            println!("only root may make networks");
            std::process::exit(1);
        };
        here.cable(LINK, "10.77.1.1", &there, "far", "10.77.1.2", 1_500);
        let ((tell, told), (arrive, arrivals)) = (mpsc::channel(), mpsc::channel());
        // Both ends come with the end of this, which nothing is sent through.
        let (running, ended) = tokio::sync::watch::channel(());
        let receiving = there.begin(until(ended.clone(), receive(carrier, tell, arrive)));
        let to = told.recv().unwrap();
        let sending = here.begin(until(ended, send(carrier, to, window)));
        let (mut waits, mut set) = (Vec::new(), Vec::new());
        for _ in 0..times {
            // Some traffic first, so that each outage begins in a steady state.
            let begun = Instant::now();
            after(&arrivals, begun + Duration::from_millis(500));
            here.set(LINK, "down");
            std::thread::sleep(outage);
            arrivals.try_iter().for_each(drop);
            let up = Instant::now();
            here.set(LINK, "up");
            set.push(up.elapsed());
            waits.push(after(&arrivals, up).duration_since(up));
            eprint!("\r{} of {times}  ", waits.len());
        }
        drop(running);
        sending.recv().unwrap();
        receiving.recv().unwrap();
        (waits, set)
    }
}
