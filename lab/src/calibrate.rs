//! How far the emulator is from what it is told: UDP through it, against what was set.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::link::{LaneStats, Loss, Shape, be_punctual};
use crate::net::{Pair, SERVER_IP};

const PORT: u16 = 4_000;
/// The payload of each datagram; with 28 bytes of headers it is a packet of the link.
const PAYLOAD: usize = 1_222;
const PACKET: u32 = 1_250;
/// How much later than set an echo may come back than without a link, in ms: half of them, and nine of ten.
const LATE_P50: f64 = 0.25;
const LATE_P90: f64 = 0.5;
/// How far the rate may be off, as a share: up to 100 Mbit/s, and above.
const RATE: f64 = 0.01;
const RATE_FAST: f64 = 0.05;
/// How many standard deviations the share of lost packets may be off.
const SIGMAS: f64 = 4.0;
/// How far the mean length of bursts may be off, as a share.
const BURST: f64 = 0.2;

/// Prints each error beside its bound. False: one is beyond.
pub(crate) fn run() -> Result<bool> {
    println!("{:<34} {:>12} {:>12} {:>24}", "", "set", "measured", "bound");
    // The link is measured, not how hosts share their processors.
    be_punctual();
    let mut fine = true;
    for rtt in [6, 10, 100, 200] {
        fine &= round_trip(Duration::from_millis(rtt))?;
    }
    for mbit in [1.0, 10.0, 100.0] {
        fine &= rate(mbit)?;
    }
    // One core sends half as much again as that: whenever it is kept from it, the line is idle. Not three times.
    fine &= rate(1_000.0)? || rate(1_000.0)? || rate(1_000.0)?;
    fine &= queue()?;
    fine &= loss("random loss, %", Loss::Random(0.05), 1.0 / 0.95)?;
    fine &= loss("loss in bursts of 10, %", Loss::Bursts { share: 0.05, length: 10.0 }, 10.0)?;
    println!("{}", if fine { "within bounds" } else { "BEYOND BOUNDS: is the machine busy?" });
    Ok(fine)
}

fn tell(what: &str, set: f64, measured: f64, bound: &str, fine: bool) -> bool {
    println!("{what:<34} {set:>12.3} {measured:>12.3} {bound:>24}{}", if fine { "" } else { "  <- BEYOND" });
    fine
}

/// A socket on each host, the client's connected to the server's.
fn sockets(pair: &Pair) -> Result<[UdpSocket; 2]> {
    let client = pair.client.enter(|| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect((SERVER_IP, PORT))?;
        Ok::<_, std::io::Error>(socket)
    })??;
    let server = pair.server.enter(|| UdpSocket::bind((SERVER_IP, PORT)))??;
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        socket2::SockRef::from(socket).set_recv_buffer_size(8 << 20)?;
    }
    Ok([client, server])
}

fn pair(mbit: f64, rtt: Duration, loss: Loss) -> Result<Pair> {
    Pair::new(Some([Shape::new(mbit, rtt, loss), Shape::new(mbit, rtt, Loss::None)]), 1)
}

/// Echoes at a distance, and over a cable at the same pace: what those take is the hosts', not the link's.
fn round_trip(rtt: Duration) -> Result<bool> {
    let mut bare = echoes(&Pair::new(None, 1)?, rtt, rtt)?;
    let mut late = echoes(&pair(100.0, rtt, Loss::None)?, rtt, Duration::ZERO)?;
    let set = rtt.as_secs_f64() * 1e3;
    let mut fine = true;
    for (share, bound) in [(50, LATE_P50), (90, LATE_P90)] {
        let (bare, with_link) = (percentile(&mut bare, share), percentile(&mut late, share));
        let error = with_link - set - bare;
        let what = format!("round trip, p{share}, ms (host {bare:.2})");
        // A host that had to wait for its processor is no error of the link.
        let inside = (-bound..bound).contains(&error);
        fine &= tell(&what, set, set + error, &format!("+-{bound} ms"), inside);
    }
    Ok(fine)
}

fn percentile(sorted: &mut [f64], share: usize) -> f64 {
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() * share / 100).copied().unwrap_or(f64::NAN)
}

/// How long each echo takes, in ms, with a pause before the next; a few seconds of them.
fn echoes(pair: &Pair, rtt: Duration, pause: Duration) -> Result<Vec<f64>> {
    const MOST: u128 = 3_000;
    let echoes = usize::try_from((MOST / rtt.as_millis().max(1)).clamp(30, 200))?;
    let [client, server] = sockets(pair)?;
    let echo = std::thread::spawn(move || {
        be_punctual();
        let mut buffer = [0; 2_048];
        for _ in 0..echoes {
            let (length, from) = server.recv_from(&mut buffer)?;
            server.send_to(buffer.get(..length).unwrap_or_default(), from)?;
        }
        Ok::<_, std::io::Error>(())
    });
    let mut took = Vec::new();
    for number in 0..echoes {
        // Not in step with anything.
        std::thread::sleep(pause + Duration::from_micros(700 * (number as u64 % 7)));
        let asked = Instant::now();
        client.send(&[0; 64])?;
        client.recv(&mut [0; 2_048])?;
        took.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    let _ = echo.join();
    Ok(took)
}

/// The datagrams of a stream that arrive.
struct Arrived {
    numbers: Vec<u32>,
    /// From the first to the last.
    span: Duration,
}

/// Sends packets at a rate in Mbit/s, in steps of a millisecond.
fn stream(pair: &Pair, packets: u32, mbit: f64) -> Result<Arrived> {
    let [client, server] = sockets(pair)?;
    let taking = std::thread::spawn(move || {
        be_punctual();
        let (mut buffer, mut numbers) = ([0; 2_048], Vec::new());
        let (mut first, mut last) = (None, Instant::now());
        while server.recv(&mut buffer).is_ok() {
            last = Instant::now();
            first.get_or_insert(last);
            numbers.push(u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]));
        }
        Arrived { numbers, span: first.map_or(Duration::ZERO, |first| last - first) }
    });
    let (began, mut buffer) = (Instant::now(), [0; PAYLOAD]);
    let per_second = mbit * 1e6 / f64::from(PACKET * 8);
    for number in 0..packets {
        while began.elapsed().as_secs_f64() * per_second < f64::from(number) {
            std::thread::sleep(Duration::from_micros(500));
        }
        if let Some(head) = buffer.first_chunk_mut() {
            *head = number.to_be_bytes();
        }
        client.send(&buffer)?;
    }
    taking.join().ok().context("the receiver has died")
}

fn forward(pair: &Pair) -> LaneStats {
    pair.link.as_ref().map(|link| link.take_stats()).map(|[forward, _]| forward).unwrap_or_default()
}

/// Half as much again as the line takes.
fn rate(mbit: f64) -> Result<bool> {
    let pair = pair(mbit, Duration::from_millis(10), Loss::None)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive and small
    let packets = ((mbit * 1e6 / f64::from(PACKET * 8)) as u32).max(300);
    let arrived = stream(&pair, packets, mbit * 1.5)?;
    #[allow(clippy::cast_precision_loss)] // small
    let bits = (arrived.numbers.len().saturating_sub(1)) as f64 * f64::from(PACKET * 8);
    let measured = bits / arrived.span.as_secs_f64() / 1e6;
    let bound = if mbit > 100.0 { RATE_FAST } else { RATE };
    let fine = (measured / mbit - 1.0).abs() < bound;
    let lost_before = pair.dropped_at_interfaces()?;
    let fine = tell("rate, Mbit/s", mbit, measured, &format!("+-{} %", bound * 100.0), fine);
    #[allow(clippy::cast_precision_loss)] // small
    let none = tell("  lost outside the link", 0.0, lost_before as f64, "0", lost_before == 0);
    Ok(fine && none)
}

/// The longest wait is that for a full queue.
fn queue() -> Result<bool> {
    let pair = pair(10.0, Duration::from_millis(40), Loss::None)?;
    let arrived = stream(&pair, 3_000, 30.0)?;
    let stats = forward(&pair);
    // A full queue of 50,000 bytes, less the packet that is measured.
    #[allow(clippy::cast_precision_loss)] // small
    let (set, longest) = (39.0, stats.waited.max() as f64 / 1e6);
    let wait = tell("longest wait in the queue, ms", set, longest, "+-1.5 ms", (longest - set).abs() < 1.5);
    let balance = stats.packets == stats.dropped + arrived.numbers.len() as u64 && stats.dropped > 0;
    #[allow(clippy::cast_precision_loss)] // small
    let (came, counted) = (stats.packets as f64, (stats.dropped + arrived.numbers.len() as u64) as f64);
    Ok(tell("  sent = dropped + arrived", came, counted, "equal", balance) && wait)
}

fn loss(what: &str, model: Loss, length: f64) -> Result<bool> {
    const PACKETS: u32 = 80_000;
    // The line is always busy, and its queue holds all.
    let forward = Shape { queue: 1 << 30, ..Shape::new(150.0, Duration::from_millis(10), model) };
    let back = Shape::new(150.0, Duration::from_millis(10), Loss::None);
    let pair = Pair::new(Some([forward, back]), 1)?;
    let arrived = stream(&pair, PACKETS, 200.0)?;
    let mut there = vec![false; PACKETS as usize];
    for number in &arrived.numbers {
        if let Some(there) = there.get_mut(*number as usize) {
            *there = true;
        }
    }
    let lost = there.iter().filter(|there| !**there).count();
    let runs = there.windows(2).filter(|pair| matches!(pair, [true, false])).count();
    #[allow(clippy::cast_precision_loss)] // small
    let (share, mean) = (lost as f64 / f64::from(PACKETS), lost as f64 / runs.max(1) as f64);
    // Bursts make as many independent losses as there are bursts, and their lengths vary as well.
    let spread = (0.05 * 0.95 * (2.0 * length - 1.0) / f64::from(PACKETS)).sqrt() * SIGMAS;
    let bound = format!("+-{:.2}", spread * 100.0);
    let fine = tell(what, 5.0, share * 100.0, &bound, (share - 0.05).abs() < spread);
    let bound = format!("+-{} %", BURST * 100.0);
    Ok(tell("  mean length of a run", length, mean, &bound, (mean / length - 1.0).abs() < BURST) && fine)
}
