//! The rates of the machine without any protocol, for comparison.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use exonet_proto::crypto::{OpenKey, SealKey, Suite};
use hdrhistogram::Histogram;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use serde::Serialize;

use super::pair::RoundTrip;
use crate::failure::Failure;
use crate::units::{precise, rate};

/// The largest datagram that nodes use over loopback.
const DATAGRAM: usize = 65_000;
/// The overhead of a packet, which is its header and tag; and the overhead of each message, which is its head and
/// length.
const PACKET: usize = 25;
const MESSAGE: usize = 3;
const BUFFER: usize = 8 << 20;
/// The time limit for a receiver, since datagrams may be lost.
const PATIENCE: Duration = Duration::from_millis(50);

/// A loop that seals, sends, receives and opens, and does nothing else.
#[derive(Debug, Serialize)]
pub(super) struct Bare {
    pub(super) size: usize,
    pub(super) messages_per_s: f64,
}

fn failed(error: &io::Error) -> Failure {
    Failure::new("cannot use plain sockets on loopback").because(error)
}

/// A socket on loopback, with its state and address.
fn socket() -> io::Result<(UdpSocket, UdpSocketState, SocketAddr)> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
    let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), BUFFER);
    let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), BUFFER);
    // The constructor of the state has made the socket non-blocking.
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let address = socket.local_addr()?;
    Ok((socket, state, address))
}

/// How many messages of `size` bytes per second get through a bare loop of two threads. One thread copies them into
/// datagrams as large as possible, seals these in place and sends them; the other receives many at a time and opens
/// them in place.
pub(super) fn bare(size: usize, over: Duration) -> Result<Bare, Failure> {
    let (from, sending, _) = socket().map_err(|e| failed(&e))?;
    let (to, receiving, address) = socket().map_err(|e| failed(&e))?;
    let stop = AtomicBool::new(false);
    let each = ((DATAGRAM - PACKET) / (size + MESSAGE)).max(1);
    let (opened, took) = std::thread::scope(|scope| {
        scope.spawn(|| send(&from, &sending, address, size, each, &stop));
        let received = receive(&to, &receiving, over);
        stop.store(true, Ordering::Relaxed);
        received
    })
    .map_err(|e| failed(&e))?;
    let messages = opened.saturating_mul(u64::try_from(each).unwrap_or(u64::MAX));
    Ok(Bare { size, messages_per_s: rate(messages, took) })
}

fn send(
    socket: &UdpSocket,
    state: &UdpSocketState,
    to: SocketAddr,
    size: usize,
    each: usize,
    stop: &AtomicBool,
) {
    let key = SealKey::new(Suite::Aes128Gcm, &[7; 32]);
    let message = vec![0x5a; size];
    let mut packet = vec![0; PACKET + each * (size + MESSAGE)];
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let Some((header, sealed)) = packet.split_at_mut_checked(9) else { return };
        if let Some(bytes) = header.last_chunk_mut() {
            *bytes = number.to_be_bytes();
        }
        for room in sealed.chunks_exact_mut(size + MESSAGE) {
            room.split_at_mut(MESSAGE).1.copy_from_slice(&message);
        }
        if key.seal_in_place(number, header, sealed).is_err() {
            return;
        }
        number += 1;
        let contents = &packet;
        let transmit = Transmit { destination: to, ecn: None, contents, segment_size: None, src_ip: None };
        // A datagram that the system does not accept is lost, as on any network.
        let _ = state.send(UdpSockRef::from(socket), &transmit);
    }
}

/// Returns the number of packets that were opened, and how long that took.
fn receive(socket: &UdpSocket, state: &UdpSocketState, over: Duration) -> io::Result<(u64, Duration)> {
    const BUFFERS: usize = 8;
    let key = OpenKey::new(Suite::Aes128Gcm, &[7; 32]);
    let mut memory = vec![0; BUFFERS << 16];
    let mut metas = [RecvMeta::default(); BUFFERS];
    let (begun, mut opened) = (Instant::now(), 0);
    while begun.elapsed() < over {
        let mut rest = memory.chunks_mut(1 << 16);
        let mut buffers: [IoSliceMut<'_>; BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
        let filled = match state.recv(UdpSockRef::from(socket), &mut buffers, &mut metas) {
            Ok(filled) => filled,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        for (buffer, meta) in memory.chunks_mut(1 << 16).zip(&metas).take(filled) {
            for packet in buffer.get_mut(..meta.len).unwrap_or_default().chunks_mut(meta.stride.max(1)) {
                let Some((header, sealed)) = packet.split_at_mut_checked(9) else { continue };
                let number = header.last_chunk().map_or(0, |number| u64::from_be_bytes(*number));
                opened += u64::from(key.open_in_place(number, header, sealed).is_ok());
            }
        }
    }
    Ok((opened, begun.elapsed()))
}

/// Round trips of plain datagrams through the runtime that nodes use.
pub(super) async fn echo(size: usize, over: Duration) -> Result<RoundTrip, Failure> {
    let bind = || tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let (here, there) = (bind().await.map_err(|e| failed(&e))?, bind().await.map_err(|e| failed(&e))?);
    let to = there.local_addr().map_err(|e| failed(&e))?;
    let echo = tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((len, from)) = there.recv_from(&mut buffer).await {
            let _ = there.send_to(buffer.get(..len).unwrap_or_default(), from).await;
        }
    });
    let trips = tokio::spawn(async move { trips(&here, to, size, over).await }).await;
    echo.abort();
    let (trips, took) = trips.map_err(|e| Failure::new("the echo has failed").because(&e))??;
    Ok(RoundTrip::of(size, &trips, took))
}

async fn trips(
    socket: &tokio::net::UdpSocket,
    to: SocketAddr,
    size: usize,
    over: Duration,
) -> Result<(Histogram<u64>, Duration), Failure> {
    let histogram = Histogram::<u64>::new_with_max(60_000_000_000, 3);
    let mut trips = histogram.map_err(|e| Failure::new("cannot make a histogram").because(&e))?;
    let (body, mut buffer) = (vec![0x5a; size], vec![0; 1 << 16]);
    let begun = Instant::now();
    while begun.elapsed() < over {
        let sent = Instant::now();
        socket.send_to(&body, to).await.map_err(|e| failed(&e))?;
        socket.recv_from(&mut buffer).await.map_err(|e| failed(&e))?;
        trips.saturating_record(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok((trips, begun.elapsed()))
}

/// The given rate as a share of the rate of the bare loop.
pub(super) fn share(messages_per_s: f64, bare: &Bare) -> f64 {
    messages_per_s / bare.messages_per_s.max(precise(1))
}
