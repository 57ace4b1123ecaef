//! The server, and what is measured of it.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use exonet::call::{Request, Serving};
use exonet::config::Config;
use exonet::state::SecretKey;
use exonet::{Allow, Node};
use exonet_proto::crypto::{ANSWER_OVERHEAD, Opened};
use exonet_proto::wire::{self, Datagram};

use crate::MEMORY;
use crate::client::{Client, Clock, METHOD};
use crate::crowd::Leaving;
use crate::friend;
use crate::target::{Failure, Target};

/// What is promised of a core, and of what is left for friends under siege.
const CONTACTS_PER_SECOND: f64 = 5_000.0;
const KEPT: f64 = 0.8;
/// Forged openings, and authentic ones, in a second of the server's work.
const FORGED: u32 = 100_000;
const AUTHENTIC: u32 = 5_000;
/// The server's work in one window of the siege, and windows of each kind.
const WINDOW: Duration = Duration::from_millis(300);
const WINDOWS: usize = 7;
const FRIENDS: usize = 8;
/// Clients whose contacts are timed, and that call at once.
const TIMED: u32 = 10_000;
const AT_ONCE: u32 = 32;
/// Where clients vanish: how long replies are kept, and callers waited for.
const KEPT_FOR: Duration = Duration::from_secs(10);

struct Server {
    node: Node,
    _serving: Serving,
    target: Target,
    served: Arc<AtomicU64>,
    taken: Arc<AtomicU64>,
}

pub(crate) fn run(parts: &[&str]) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let wanted = |part| parts.iter().all(|word| word.parse::<u32>().is_ok()) || parts.contains(&part);
        let clients = parts.iter().find_map(|word| word.parse().ok());
        if wanted("contacts") {
            Server::start().await?.contacts().await?;
        }
        if wanted("siege") {
            Server::start().await?.siege().await?;
        }
        if wanted("memory") {
            Server::start().await?.memory(clients.unwrap_or(100_000), Leaving::Politely).await?;
        }
        if wanted("vanish") {
            let brief = |config: &mut Config| {
                (config.reply_kept, config.caller_patience) = (KEPT_FOR, KEPT_FOR);
                // The other half never proves to be there.
                config.limits.half_open = 65_536;
            };
            Server::start_as(brief).await?.memory(clients.unwrap_or(20_000), Leaving::Suddenly).await?;
        }
        Ok(())
    })
}

impl Server {
    async fn start() -> Result<Self, Failure> {
        Self::start_as(|_| {}).await
    }

    async fn start_as(change: impl FnOnce(&mut Config)) -> Result<Self, Failure> {
        let node = Node::builder(Allow::anyone()).config(change).bind("127.0.0.1:0").build().await?;
        let (served, taken) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&served);
        let echo = move |mut request: Request| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { request.body.bytes(1_024).await }
        };
        let serving = node.serve(METHOD, echo).concurrency(1_024).start()?;
        let (receiver, counted) = (node.clone(), Arc::clone(&taken));
        tokio::spawn(async move {
            while let Ok(messages) = receiver.at_most_once().recv_batch(1_024).await {
                counted.fetch_add(messages.len() as u64, Ordering::Relaxed);
            }
        });
        Ok(Self { target: Target::of(&node), node, _serving: serving, served, taken })
    }

    /// What a first contact costs: a call by who is not known, and its reply.
    async fn contacts(&self) -> Result<(), Failure> {
        let (before, served) = (self.target.worked()?, self.served.load(Ordering::Relaxed));
        let datagrams = self.crowd(TIMED, Leaving::Silently).await?;
        let span = self.target.worked()?.saturating_sub(before);
        let served = self.served.load(Ordering::Relaxed) - served;
        let (each, alone) = (span.as_secs_f64() / as_f64(served), self.handshake()?.as_secs_f64());
        let rate = 1.0 / each;
        println!(
            "first contacts: {served} calls of as many identities, {:.3} datagrams each",
            datagrams / as_f64(served)
        );
        println!(
            "  {:7.1} us of the server, {rate:.0} a second of a core: {:.2} of the target",
            each * 1e6,
            rate / CONTACTS_PER_SECOND
        );
        println!("  {:7.1} us of them are the handshake alone: {:.0} %", alone * 1e6, alone / each * 100.0);
        let stats = self.node.stats();
        println!("  retries {}, refused {}", stats.retries, stats.openings_refused);
        Ok(())
    }

    /// The responder's part of a handshake, without a node around it.
    fn handshake(&self) -> Result<Duration, Failure> {
        let (clock, key) = (Clock::start(), SecretKey::from_bytes([9; 32]));
        let target = Target { id: key.node_id(), ..Target::of(&self.node) };
        let mut opening = Vec::new();
        Client::new(clock.now(), &target)?
            .speak(clock.now(), &mut Vec::new(), |said| opening = said.to_vec());
        let Datagram::Opening(opening) = Datagram::parse(&mut opening)? else {
            return Err("no opening".into());
        };
        let mut best = Duration::MAX;
        for i in 0..2_000_u32 {
            let mut seed = [0; 32];
            seed.iter_mut().zip(i.to_be_bytes()).for_each(|(to, byte)| *to = byte);
            let (mut payload, mut out) = ([0; wire::MAX_OPENING_PAYLOAD], [0; 200 + ANSWER_OVERHEAD]);
            let begun = Instant::now();
            let opened = Opened::read(&key, opening.header, opening.noise, seed, &mut payload)?;
            opened.answer(&[0; 12], &[0; 200], &mut out)?;
            best = best.min(begun.elapsed());
        }
        Ok(best)
    }

    /// What friends keep while strangers pour in.
    async fn siege(&self) -> Result<(), Failure> {
        let mut friends = Vec::new();
        for _ in 0..FRIENDS {
            friends.push(friend::meet(self.node.peer_addr()).await?);
        }
        self.window(WINDOW).await?;
        // As busy a machine, whose flood is for somebody else.
        let sink = UdpSocket::bind("127.0.0.1:0")?;
        let elsewhere = Target { address: sink.local_addr()?, ..Target::of(&self.node) };
        let (mut alone, mut beside, mut forged, mut both) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut opened = 0;
        for _ in 0..WINDOWS {
            alone.push(self.window(WINDOW).await?);
            let mut foes = Children(vec![elsewhere.meet("flood", &[FORGED])?]);
            foes.ready().await?;
            self.window(WINDOW / 4).await?;
            beside.push(self.window(WINDOW).await?);
            drop(foes);
            let mut foes = Children(vec![self.target.meet("flood", &[FORGED])?]);
            foes.ready().await?;
            self.window(WINDOW / 4).await?;
            forged.push(self.window(WINDOW).await?);
            foes.0.push(self.target.meet("crowd", &[u32::MAX, 1_024, AUTHENTIC, 0])?);
            self.window(WINDOW / 4).await?;
            let served = self.served.load(Ordering::Relaxed);
            both.push(self.window(WINDOW).await?);
            opened += self.served.load(Ordering::Relaxed) - served;
            drop(foes);
            // What waited in the socket is not of the next window.
            self.window(WINDOW / 4).await?;
        }
        friends.iter().for_each(tokio::task::JoinHandle::abort);
        let stats = self.node.stats();
        let rate = median(&mut alone);
        println!("friends alone: {rate:.0} messages a second of a core, both ends of them");
        let kept = [("for another socket", beside), ("forged", forged), ("forged and authentic", both)];
        for (name, mut windows) in kept {
            let kept = median(&mut windows) / rate;
            println!("  with openings, {name}: {:.0} %, {:.2} of the target", kept * 100.0, kept / KEPT);
        }
        let seconds = WINDOW.as_secs_f64() * f64::from(u32::try_from(WINDOWS)?);
        println!("  authentic ones served meanwhile: {:.0} a second", as_f64(opened) / seconds);
        println!(
            "  retries {}, refused {}, unauthentic {}",
            stats.retries, stats.openings_refused, stats.unauthentic
        );
        Ok(())
    }

    /// What many that call once leave behind.
    async fn memory(&self, clients: u32, leaving: Leaving) -> Result<(), Failure> {
        // What is allocated once, and by the first of all.
        self.crowd(1_000, leaving).await?;
        self.until_forgotten().await;
        let (allocated, resident) = (MEMORY.allocated(), resident()?);
        println!("before: {allocated} bytes allocated, {resident} resident");
        self.crowd(clients, leaving).await?;
        let stage = |name: &str| -> Result<(), Failure> {
            let (now, here, peers) = (MEMORY.allocated(), self::resident()?, self.node.stats().peers);
            let more = as_f64(now as u64) - as_f64(allocated as u64);
            println!(
                "{name}: {now} bytes allocated, {here} resident, {peers} peers: {:+.1} bytes a client",
                more / f64::from(clients)
            );
            Ok(())
        };
        stage("all have called")?;
        self.until_forgotten().await;
        stage("all are forgotten")?;
        tokio::time::sleep(Duration::from_secs(310)).await;
        stage("and what was remembered of their stamps")
    }

    async fn until_forgotten(&self) {
        while self.node.stats().peers > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Lets this many callers call, and gives the datagrams that they exchanged.
    async fn crowd(&self, clients: u32, leaving: Leaving) -> Result<f64, Failure> {
        let mut child = self.target.meet("crowd", &[clients, AT_ONCE, 0, leaving as u32])?;
        let said = tokio::task::spawn_blocking(move || {
            let mut said = String::new();
            child.stdout.take().map(|mut out| out.read_to_string(&mut said)).transpose()?;
            child.wait().map(|_| said)
        });
        Ok(said.await??.trim().parse()?)
    }

    /// Messages of friends per second of the server's work, for so much of it.
    async fn window(&self, span: Duration) -> Result<f64, Failure> {
        let (begun, before) = (self.target.worked()?, self.taken.load(Ordering::Relaxed));
        loop {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let worked = self.target.worked()?.saturating_sub(begun);
            if worked >= span {
                return Ok(as_f64(self.taken.load(Ordering::Relaxed) - before) / worked.as_secs_f64());
            }
        }
    }
}

/// Processes that end with their handle.
struct Children(Vec<Child>);

impl Children {
    /// Waits until the first says so.
    async fn ready(&mut self) -> Result<(), Failure> {
        let out = self.0.first_mut().and_then(|child| child.stdout.take());
        let Some(out) = out else { return Ok(()) };
        tokio::task::spawn_blocking(move || BufReader::new(out).read_line(&mut String::new())).await??;
        Ok(())
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(0.0)
}

#[allow(clippy::cast_precision_loss)]
fn as_f64(count: u64) -> f64 {
    count as f64
}

/// Bytes of this process that are in memory.
fn resident() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? * 1_024)
}
