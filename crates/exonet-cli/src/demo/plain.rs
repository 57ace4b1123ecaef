//! A plain protocol for comparison: it numbers messages, and resends each until it is acknowledged. It gives up after
//! some attempts.
//!
//! ```text
//! datagram = checksum (4 bytes of BLAKE3 over the rest) | kind: 0 data, 1 acknowledgement | number, 8 bytes | body
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::ledger::Ledger;
use super::payload::payload;
use super::progress::Progress;

/// The maximum number of unacknowledged messages.
const WINDOW: usize = 64;
/// When to resend: five times the usual round trip.
const TIMEOUT: Duration = Duration::from_millis(100);
/// After this many attempts, the sender gives up.
const TRIES: u32 = 6;

const DATA: u8 = 0;
const ACK: u8 = 1;
const HEADER: usize = 13;

/// Messages that were never acknowledged. Some of them have arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenUp(Arc<Mutex<Vec<u64>>>);

impl GivenUp {
    fn add(&self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(number);
    }

    /// How many of these messages did not arrive.
    pub(super) fn missing(&self, ledger: &Ledger) -> u64 {
        let given_up = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        given_up.iter().map(|number| u64::from(!ledger.has(*number))).sum()
    }
}

fn seal(kind: u8, number: u64, body: &[u8]) -> Vec<u8> {
    let rest = [&[kind], number.to_be_bytes().as_slice(), body].concat();
    [checksum(&rest).as_slice(), &rest].concat()
}

fn checksum(rest: &[u8]) -> [u8; 4] {
    let hash = blake3::hash(rest);
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}

/// The kind, number and body of an intact datagram.
fn open(datagram: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (sum, rest) = datagram.split_first_chunk::<4>()?;
    let (kind, rest_of) = rest.split_first()?;
    let (number, body) = rest_of.split_first_chunk::<8>()?;
    (*sum == checksum(rest)).then_some((*kind, u64::from_be_bytes(*number), body))
}

/// Receives messages on `socket`, for ever, and passes each number and body to `deliver`. With `remember`, it
/// delivers each number once, as far as this process remembers.
pub(super) async fn receive(
    socket: UdpSocket,
    remember: bool,
    mut deliver: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut seen = BTreeSet::new();
    let mut buffer = vec![0; 65_536];
    loop {
        let (len, from) = socket.recv_from(&mut buffer).await?;
        let datagram = buffer.get(..len).unwrap_or_default();
        let Some((DATA, number, body)) = open(datagram) else {
            continue;
        };
        if !remember || seen.insert(number) {
            deliver(number, body)?;
        }
        socket.send_to(&seal(ACK, number, &[]), from).await?;
    }
}

/// Sends messages `0..total` to `relay`, as fast as `progress` allows, and moves to a new socket with every change
/// of `moves`. Ends when each is acknowledged, or in `given_up`.
pub(super) async fn send(
    relay: SocketAddr,
    (size, total): (usize, u64),
    mut progress: Progress,
    mut moves: watch::Receiver<u32>,
    given_up: GivenUp,
) -> io::Result<()> {
    let mut sender = Sender {
        socket: connected(relay).await?,
        size,
        open: BTreeMap::new(),
        due: VecDeque::new(),
        given_up,
    };
    let mut buffer = vec![0; HEADER];
    let mut next = 0;
    while next < total || !sender.open.is_empty() {
        let resend = sender.due.front().map_or_else(|| Instant::now() + TIMEOUT, |(due, _)| *due);
        tokio::select! {
            () = progress.allows(next), if next < total && sender.open.len() < WINDOW => {
                sender.first(next).await;
                next += 1;
            }
            got = sender.socket.recv(&mut buffer) => {
                // An error is an ICMP message about a receiver that does not run: the timer handles that.
                if let Some((ACK, number, _)) = got.ok().and_then(|len| open(buffer.get(..len)?)) {
                    sender.open.remove(&number);
                }
            }
            () = sleep_until(resend) => sender.resend().await,
            Ok(()) = moves.changed() => sender.socket = connected(relay).await?,
        }
    }
    Ok(())
}

async fn connected(relay: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    socket.connect(relay).await?;
    Ok(socket)
}

struct Sender {
    socket: UdpSocket,
    size: usize,
    /// The number of attempts so far, by the number of the message.
    open: BTreeMap<u64, u32>,
    /// All messages have the same timeout, so the first one is due first.
    due: VecDeque<(Instant, u64)>,
    given_up: GivenUp,
}

impl Sender {
    async fn first(&mut self, number: u64) {
        self.open.insert(number, 1);
        self.transmit(number).await;
    }

    async fn transmit(&mut self, number: u64) {
        let datagram = seal(DATA, number, &payload(number, self.size));
        // If a datagram cannot be sent, it counts as lost.
        let _ = self.socket.send(&datagram).await;
        self.due.push_back((Instant::now() + TIMEOUT, number));
    }

    async fn resend(&mut self) {
        let now = Instant::now();
        while let Some((due, number)) = self.due.front().copied()
            && due <= now
        {
            self.due.pop_front();
            match self.open.get_mut(&number) {
                Some(tries) if *tries < TRIES => {
                    *tries += 1;
                    self.transmit(number).await;
                }
                Some(_) => {
                    self.open.remove(&number);
                    self.given_up.add(number);
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn datagrams_open_as_sealed(number: u64, body: Vec<u8>) {
            let datagram = seal(DATA, number, &body);
            prop_assert_eq!(open(&datagram), Some((DATA, number, body.as_slice())));
        }

        #[test]
        fn a_flipped_bit_is_noticed(number: u64, body: Vec<u8>, at: prop::sample::Index, bit in 0_u32..8) {
            let mut datagram = seal(DATA, number, &body);
            let at = at.index(datagram.len());
            datagram[at] ^= 1_u8 << bit;
            prop_assert_eq!(open(&datagram), None);
        }
    }
}
