//! A relay that forwards datagrams between two loopback sockets, with faults.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::weather::{Fate, Line, Odds, flip};

/// How many datagrams are remembered for a replay. Later ones are not replayed.
const REMEMBERED: usize = 4_096;
/// How many datagrams wait at the same time. More are dropped, as by any full queue.
const HELD: usize = 16_384;
/// The largest datagram.
const LARGEST: usize = 65_536;
/// A time in the far future, for a timer that waits for nothing.
const FAR: std::time::Duration = std::time::Duration::from_secs(3_600);

/// The settings that may change while a relay runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The address of the receiver.
    pub(crate) receiver: SocketAddr,
    /// Whether nothing passes.
    pub(crate) dead: bool,
    /// When this changes, the receiver sees the sender at a new address.
    pub(crate) mapping: u32,
    /// Whether datagrams to the receiver are remembered for replays.
    pub(crate) remember: bool,
    /// When this changes, all remembered datagrams arrive at the receiver once more, in their order.
    pub(crate) replays: u32,
}

/// Runs a relay for as long as its handle lives.
#[derive(Debug)]
pub(crate) struct Relay {
    /// The address to which the sender sends.
    pub(crate) address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    pub(crate) async fn start(odds: Odds, seed: u64, route: watch::Receiver<Route>) -> io::Result<Self> {
        let front = loopback().await?;
        let address = front.local_addr()?;
        let current = *route.borrow();
        let forwarder = Forwarder {
            front,
            back: toward(current.receiver).await?,
            sender: None,
            remembered: Vec::new(),
            there: Line::new(odds, seed, 0),
            back_again: Line::new(odds, seed, 1),
            held: BinaryHeap::new(),
            counter: 0,
            current,
            route,
        };
        // If a loopback socket fails, it cannot be used any more. The demo then reports what did not arrive.
        let task = tokio::spawn(async {
            if let Err(error) = forwarder.run().await {
                tracing::error!("the relay has stopped: {error}");
            }
        });
        Ok(Self { address, task })
    }
}

/// A socket from which `receiver` can be reached, whatever its address.
async fn toward(receiver: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match receiver.ip() {
        ip if ip.is_loopback() => ip,
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((any, 0)).await
}

async fn loopback() -> io::Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await
}

/// A datagram on its way, ordered by the time of its arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    due: Instant,
    /// If two datagrams are due at the same time, the earlier one comes first.
    order: u64,
    to_receiver: bool,
    datagram: Vec<u8>,
}

struct Forwarder {
    front: UdpSocket,
    back: UdpSocket,
    sender: Option<SocketAddr>,
    /// The datagrams to the receiver, in the order in which they were sent.
    remembered: Vec<Vec<u8>>,
    there: Line,
    back_again: Line,
    held: BinaryHeap<Reverse<Held>>,
    counter: u64,
    current: Route,
    route: watch::Receiver<Route>,
}

impl Forwarder {
    async fn run(mut self) -> io::Result<()> {
        let (mut ahead, mut behind) = (vec![0; LARGEST], vec![0; LARGEST]);
        loop {
            let next = self.held.peek().map_or_else(|| Instant::now() + FAR, |Reverse(held)| held.due);
            tokio::select! {
                got = self.front.recv_from(&mut ahead) => {
                    let (len, from) = got?;
                    // The client that sent last is the sender: it may move.
                    self.sender = Some(from);
                    self.hold(true, ahead.get(..len).unwrap_or_default());
                }
                got = self.back.recv_from(&mut behind) => {
                    let (len, _) = got?;
                    self.hold(false, behind.get(..len).unwrap_or_default());
                }
                () = sleep_until(next) => self.release().await,
                changed = self.route.changed() => match changed {
                    Ok(()) => self.reroute().await?,
                    Err(_) => return Ok(()),
                },
            }
        }
    }

    async fn reroute(&mut self) -> io::Result<()> {
        let route = *self.route.borrow_and_update();
        if route.mapping != self.current.mapping {
            self.back = toward(route.receiver).await?;
        }
        if route.replays != self.current.replays {
            for datagram in &self.remembered {
                // If the socket is full, the datagram is lost, as on any network.
                let _ = self.back.send_to(datagram, route.receiver).await;
            }
        }
        self.current = route;
        Ok(())
    }

    fn hold(&mut self, to_receiver: bool, datagram: &[u8]) {
        let line = if to_receiver { &mut self.there } else { &mut self.back_again };
        let copies = line.next();
        if self.current.dead {
            return;
        }
        if to_receiver && self.current.remember && self.remembered.len() < REMEMBERED {
            self.remembered.push(datagram.to_vec());
        }
        for Fate { after, flip: place } in copies.into_iter().flatten() {
            if self.held.len() >= HELD {
                return;
            }
            let mut datagram = datagram.to_vec();
            if let Some(place) = place {
                flip(&mut datagram, place);
            }
            self.counter += 1;
            self.held.push(Reverse(Held {
                due: Instant::now() + after,
                order: self.counter,
                to_receiver,
                datagram,
            }));
        }
    }

    async fn release(&mut self) {
        let now = Instant::now();
        while let Some(Reverse(held)) = self.held.peek()
            && held.due <= now
        {
            let Some(Reverse(held)) = self.held.pop() else {
                return;
            };
            // When the line goes down, datagrams under way are lost. If the socket is full, the datagram is lost too.
            if self.current.dead {
                continue;
            }
            let _ = match (held.to_receiver, self.sender) {
                (true, _) => self.back.send_to(&held.datagram, self.current.receiver).await,
                (false, Some(sender)) => self.front.send_to(&held.datagram, sender).await,
                (false, None) => Ok(0),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const CALM: Odds = Odds {
        loss: 0.0,
        duplication: 0.0,
        reordering: 0.0,
        corruption: 0.0,
        delay: Duration::from_millis(1),
    };

    async fn heard(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; 64];
        let (len, from) = socket.recv_from(&mut buffer).await.unwrap();
        (buffer[..len].to_vec(), from)
    }

    #[tokio::test]
    async fn both_ways_through_moves_of_either_end() {
        let (sender, receiver) = (loopback().await.unwrap(), loopback().await.unwrap());
        let start = Route {
            receiver: receiver.local_addr().unwrap(),
            dead: false,
            mapping: 0,
            remember: false,
            replays: 0,
        };
        let (route, watching) = watch::channel(start);
        let relay = Relay::start(CALM, 1, watching).await.unwrap();

        sender.send_to(b"one", relay.address).await.unwrap();
        let (datagram, first_seen) = heard(&receiver).await;
        assert_eq!(datagram, b"one");
        receiver.send_to(b"back", first_seen).await.unwrap();
        assert_eq!(heard(&sender).await, (b"back".to_vec(), relay.address));

        let moved = loopback().await.unwrap();
        let receiver = loopback().await.unwrap();
        route.send_replace(Route { receiver: receiver.local_addr().unwrap(), mapping: 1, ..start });
        // Sent again until the relay has noticed the change.
        let (datagram, seen) = loop {
            moved.send_to(b"two", relay.address).await.unwrap();
            tokio::select! {
                got = heard(&receiver) => break got,
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        };
        assert_eq!(datagram, b"two");
        assert_ne!(seen, first_seen);
        receiver.send_to(b"back", seen).await.unwrap();
        assert_eq!(heard(&moved).await, (b"back".to_vec(), relay.address));
    }

    #[tokio::test]
    async fn what_is_remembered_comes_again_when_that_is_asked_for() {
        let (sender, receiver) = (loopback().await.unwrap(), loopback().await.unwrap());
        let receiver_at = receiver.local_addr().unwrap();
        let start = Route { receiver: receiver_at, dead: false, mapping: 0, remember: true, replays: 0 };
        let (route, watching) = watch::channel(start);
        let relay = Relay::start(CALM, 1, watching).await.unwrap();
        sender.send_to(b"one", relay.address).await.unwrap();
        assert_eq!(heard(&receiver).await.0, b"one");
        sender.send_to(b"two", relay.address).await.unwrap();
        assert_eq!(heard(&receiver).await.0, b"two");
        route.send_modify(|route| route.replays += 1);
        assert_eq!(heard(&receiver).await.0, b"one");
        assert_eq!(heard(&receiver).await.0, b"two");
    }
}
