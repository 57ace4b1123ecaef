//! How long a task waits that sends one message, awaits its outcome, and sends the next: `cargo bench -p exonet --bench alone`.
//!
//! The receiver is another process, over loopback. A task of it takes each message, or confirms that it has processed it, or answers
//! a call. Bare datagrams, each answered by one, show what the system takes for a trip there and back. The time of a trip is the
//! median of all trips of a run; beside it stands the processor time of the sender for each. Medians of three interleaved runs.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_precision_loss)] // a failure here ends the bench

mod figures;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use exonet::call::Request;
use exonet::{Allow, Confirm, Message, Node, Outcome, PeerAddr};
use figures::{median, worked};
use tokio::net::UdpSocket;

const RUNS: usize = 3;
const WARM_UP: usize = 500;
const TRIPS: usize = 5_000;
const LENGTH: usize = 64;
const METHOD: &str = "echo";

#[derive(Clone, Copy)]
enum Kind {
    Bare,
    Delivered,
    Processed,
    Call,
}

const ROWS: [(&str, Kind); 4] = [
    ("a datagram and its answer", Kind::Bare),
    ("a message, Delivered", Kind::Delivered),
    ("a message, Processed", Kind::Processed),
    ("a call and its reply", Kind::Call),
];

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Another process of this program that answers as `row` says, and ends with its input. Returns its address as well.
fn receiver(row: usize) -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("ALONE_ROW", row.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let address = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    (child, address)
}

async fn answer(kind: Kind) {
    if matches!(kind, Kind::Bare) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        println!("{}", socket.local_addr().unwrap());
        let mut buffer = [0; LENGTH];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).await.unwrap();
            socket.send_to(&buffer[..len], from).await.unwrap();
        }
    }
    let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
    let echo = |mut request: Request| async move { request.body.bytes(LENGTH as u64).await.unwrap() };
    let serving = node.serve(METHOD, echo).start().unwrap();
    println!("{}", node.peer_addr());
    match kind {
        Kind::Delivered => while node.at_most_once().recv().await.is_ok() {},
        _ => {
            while let Ok(delivery) = node.recv().await {
                delivery.ack().unwrap();
            }
        }
    }
    serving.stop(Duration::ZERO).await;
}

/// How long a trip takes that `trip` makes, and the processor time of it at this end, in microseconds.
async fn timed(mut trip: impl AsyncFnMut()) -> (f64, f64) {
    for _ in 0..WARM_UP {
        trip().await;
    }
    let mut times = Vec::with_capacity(TRIPS);
    let before = worked();
    for _ in 0..TRIPS {
        let begun = Instant::now();
        trip().await;
        times.push(begun.elapsed().as_nanos() as f64 / 1_000.0);
    }
    let each = (worked() - before).as_nanos() as f64 / 1_000.0 / TRIPS as f64;
    (median(times), each)
}

async fn ask(kind: Kind, address: &str) -> (f64, f64) {
    let body = bytes::Bytes::from(vec![7; LENGTH]);
    if matches!(kind, Kind::Bare) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(address).await.unwrap();
        let mut buffer = [0; LENGTH];
        return timed(async || {
            socket.send(&body).await.unwrap();
            socket.recv(&mut buffer).await.unwrap();
        })
        .await;
    }
    let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
    let peer = node.peer(address.parse::<PeerAddr>().unwrap());
    let each = timed(async || match kind {
        Kind::Call => drop(peer.call(METHOD, body.clone()).await.unwrap()),
        _ => {
            let (confirm, wanted) = match kind {
                Kind::Processed => (Confirm::Processed, Outcome::Processed { status: 0 }),
                _ => (Confirm::Delivered, Outcome::Delivered),
            };
            let message = Message::from(body.clone()).confirm(confirm);
            assert_eq!(peer.send(message).await.unwrap().await.outcome, wanted);
        }
    })
    .await;
    node.close(Duration::ZERO).await;
    each
}

fn main() {
    if let Ok(row) = std::env::var("ALONE_ROW") {
        std::thread::spawn(|| {
            let _ = std::io::stdin().read(&mut [0]);
            std::process::exit(0);
        });
        return runtime().block_on(answer(ROWS[row.parse::<usize>().unwrap()].1));
    }
    let mut figures = vec![Vec::new(); ROWS.len()];
    for _ in 0..RUNS {
        for (row, (_, kind)) in ROWS.into_iter().enumerate() {
            let (mut child, address) = receiver(row);
            figures[row].push(runtime().block_on(ask(kind, &address)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    for ((name, _), figures) in ROWS.iter().zip(figures) {
        let (trips, each): (Vec<f64>, Vec<f64>) = figures.into_iter().unzip();
        println!(
            "{name:<26} {:>8.1} us, of them {:>5.1} us of processor time at the sender",
            median(trips),
            median(each)
        );
    }
}
