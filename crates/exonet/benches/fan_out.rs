//! What a copy to one member of a group costs the sender, beside a bare datagram: `cargo bench -p exonet --bench fan_out`.
//!
//! One node sends a message of 1,024 bytes to all of 500 members, which are in another process, over loopback, and waits
//! until all have it, again and again. The bare loop does what no protocol could leave out: it sends a datagram of that length to
//! each of 500 sockets of another process, which answers each with a short one, and reads the answers. Each figure is the processor
//! time of the sending process for a copy, the median of three interleaved runs.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_precision_loss)] // a failure here ends the bench

mod figures;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use exonet::group::Mode;
use exonet::{Allow, Node, PeerAddr};
use figures::{median, worked};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(500);
const SPAN: Duration = Duration::from_secs(2);
const MEMBERS: usize = 500;
const LENGTH: usize = 1_024;
/// What an acknowledgement takes on the wire.
const ANSWER: usize = 64;

/// Another process of this program, which prints the addresses of its members, and ends with its input.
fn members(kind: &str) -> (Child, Vec<String>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("FAN_OUT_MEMBERS", kind).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let addresses = lines.take(MEMBERS).map(Result::unwrap).collect();
    (child, addresses)
}

fn until_the_end_of_input() {
    let _ = std::io::stdin().read(&mut [0]);
}

fn be_bare_members() {
    let sockets: Vec<UdpSocket> = (0..MEMBERS).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    sockets.iter().for_each(|socket| println!("{}", socket.local_addr().unwrap()));
    std::thread::spawn(move || {
        let mut buffer = [0; 2 * LENGTH];
        // They are sent to in this order.
        loop {
            for socket in &sockets {
                let Ok((_, from)) = socket.recv_from(&mut buffer) else { return };
                socket.send_to(&buffer[..ANSWER], from).unwrap();
            }
        }
    });
    until_the_end_of_input();
    std::process::exit(0);
}

fn be_members() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for _ in 0..MEMBERS {
            let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
            println!("{}", node.peer_addr());
            tokio::spawn(async move { while node.at_most_once().recv().await.is_ok() {} });
        }
        tokio::task::spawn_blocking(until_the_end_of_input).await.unwrap();
        std::process::exit(0);
    });
}

/// Runs `round` for the time of a run. Returns the processor time of a copy.
fn paced(mut round: impl FnMut()) -> f64 {
    let mut run = |span: Duration| {
        let (begun, before, mut rounds) = (Instant::now(), worked(), 0);
        while begun.elapsed() < span {
            round();
            rounds += 1;
        }
        (worked() - before).as_nanos() as f64 / f64::from(rounds) / MEMBERS as f64
    };
    run(WARM_UP);
    run(SPAN)
}

fn bare() -> f64 {
    let (mut child, addresses) = members("bare");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (body, mut answer) = ([7; LENGTH], [0; ANSWER]);
    let each = paced(|| {
        // More answers would not fit into the socket's buffer.
        for some in addresses.chunks(100) {
            some.iter().for_each(|address| _ = socket.send_to(&body, address).unwrap());
            some.iter().for_each(|_| _ = socket.recv(&mut answer).unwrap());
        }
    });
    child.kill().unwrap();
    child.wait().unwrap();
    each
}

fn exonet() -> f64 {
    let (mut child, addresses) = members("exonet");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (_node, group, body) = runtime.block_on(async {
        let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let members = addresses.iter().map(|address| address.parse::<PeerAddr>().unwrap());
        let group = node.group(members).build().unwrap();
        let body = bytes::Bytes::from(vec![7; LENGTH]);
        (node, group, body)
    });
    let each = paced(|| {
        runtime.block_on(async {
            let mut receipt = group.send(Mode::All, body.clone()).await.unwrap();
            assert!(receipt.decided().await.is_reached());
        });
    });
    child.kill().unwrap();
    child.wait().unwrap();
    each
}

fn main() {
    match std::env::var("FAN_OUT_MEMBERS").as_deref() {
        Ok("bare") => return be_bare_members(),
        Ok(_) => return be_members(),
        Err(_) => {}
    }
    let (mut bares, mut exonets) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        bares.push(bare());
        exonets.push(exonet());
    }
    let (bare, exonet) = (median(bares), median(exonets));
    println!(
        "a copy of {LENGTH} bytes to one of {MEMBERS} members: {exonet:.0} ns of processor time at the sender"
    );
    println!("a bare datagram and its answer:              {bare:.0} ns");
    println!("beyond the datagram itself:                  {:.0} ns", exonet - bare);
    let _ = std::io::stdout().flush();
}
