//! Bytes per peer: one node here, its peers in another process, so that only the node is counted.

use std::io::{self, BufReader, BufWriter};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use exonet_proto::Mono;
use exonet_proto::node::{Config, Policy};
use serde::Serialize;

use super::frame::{Frame, address_of, peer_at};
use super::host::{Host, at};
use crate::failure::Failure;
use crate::units::precise;

/// How many peers arrive at the same time.
const GUESTS: u32 = 256;
/// The one-way delay, on the simulated clock.
const WAY: Duration = Duration::from_micros(50);
/// The maximum number of turns. If more were needed, the measurement would make no progress.
const TURNS: u32 = 5_000_000;

/// The memory that the peers of one node take.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    pub(super) peers: u32,
    pub(super) message: usize,
    pub(super) stages: Vec<Stage>,
    pub(super) seconds: f64,
}

/// The memory at one stage of the peers' lives, in addition to that of a node without peers.
#[derive(Debug, Serialize)]
pub(super) struct Stage {
    pub(super) stage: String,
    pub(super) allocated_per_peer: f64,
    pub(super) resident_per_peer: Option<f64>,
    /// The number of peers that the node knows at this stage.
    pub(super) known: usize,
}

/// Connects `peers` peers, each of which sends one message of `size` bytes, until the node has forgotten them again.
pub(super) fn measure(peers: u32, size: usize) -> Result<Memory, Failure> {
    let started = Instant::now();
    let mut meeting = Meeting::new(peers, size)?;
    let mut stages = Vec::new();

    // Busy stage: a message from every peer waits to be received.
    while meeting.born < peers {
        let guests = GUESTS.min(peers - meeting.born);
        meeting.admit(guests)?;
        let all = usize::try_from(meeting.born).unwrap_or(usize::MAX);
        meeting.run(|node| node.node.stats().waiting >= all)?;
    }
    stages.push(meeting.stage(&format!("busy: a message of {size} bytes waits")));

    let taken = meeting.take_all();
    if taken < u64::from(peers) {
        return Err(Failure::new(format!("only {taken} messages of {peers} peers have arrived")));
    }
    meeting.run_until_delivered()?;
    stages.push(meeting.stage("just now: the message is taken"));
    meeting.run_for(Duration::from_secs(20))?;
    stages.push(meeting.stage("idle: 20 s later, the channel exists"));
    meeting.run_for(Duration::from_secs(300))?;
    stages.push(meeting.stage("forgotten: 5 minutes later"));
    Ok(Memory { peers, message: size, stages, seconds: started.elapsed().as_secs_f64() })
}

/// A node, and the pipe to its peers.
struct Meeting {
    node: Host,
    now: Mono,
    peers: u32,
    born: u32,
    /// The number of peers to create with the next frame.
    coming: u32,
    /// The datagrams of the node since the last frame.
    said: Vec<(u32, Vec<u8>)>,
    buffer: Vec<u8>,
    /// When the peers want to be called.
    call: Mono,
    /// The number of messages of the peers that are not yet delivered.
    open: u32,
    base: Level,
    to: BufWriter<ChildStdin>,
    from: BufReader<ChildStdout>,
    child: Child,
}

/// The memory use of this process.
#[derive(Clone, Copy, Debug)]
struct Level {
    allocated: usize,
    resident: Option<u64>,
}

impl Level {
    fn now() -> Self {
        Self { allocated: crate::ALLOCATOR.allocated(), resident: resident() }
    }
}

/// The resident bytes of this process, if the system reports them.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

fn lost(error: &io::Error) -> Failure {
    Failure::new("the bench has lost its peers").because(error)
}

impl Meeting {
    fn new(peers: u32, size: usize) -> Result<Self, Failure> {
        let failed = |e: io::Error| Failure::new("cannot start the bench's peers").because(&e);
        let mut child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["bench-crowd", "--size", &size.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (to, from) = pipes.ok_or_else(|| Failure::new("the bench's peers have no pipes"))?;
        let mut config = Config::new(Policy::Anyone);
        config.limits.peers = usize::try_from(peers).unwrap_or(usize::MAX).saturating_add(1);
        // All openings arrive within a moment of the simulated clock.
        config.limits.openings_per_second = u32::MAX;
        let seed = *blake3::hash(b"exon bench").as_bytes();
        let start = Mono(1_000_000_000);
        let mut meeting = Self {
            node: Host::new(config, seed, at(start)),
            now: start,
            peers,
            born: 0,
            coming: 0,
            said: Vec::new(),
            buffer: Vec::new(),
            call: Mono::NEVER,
            open: 0,
            base: Level::now(),
            to: BufWriter::new(to),
            from: BufReader::new(from),
            child,
        };
        let id = meeting.node.id.0.to_vec();
        let hello = Frame { datagrams: vec![(0, id)], ..Frame::default() };
        hello.write(&mut meeting.to).map_err(|e| lost(&e))?;
        meeting.base = Level::now();
        Ok(meeting)
    }

    fn admit(&mut self, guests: u32) -> Result<(), Failure> {
        self.coming = guests;
        self.born += guests;
        self.turn()
    }

    /// One exchange of datagrams, and a step of the clock.
    fn turn(&mut self) -> Result<(), Failure> {
        let frame = Frame {
            time: self.now,
            number: std::mem::take(&mut self.coming),
            datagrams: std::mem::take(&mut self.said),
        };
        frame.write(&mut self.to).map_err(|e| lost(&e))?;
        drop(frame);
        let answer = Frame::read(&mut self.from).map_err(|e| lost(&e))?;
        (self.call, self.open) = (answer.time, answer.number);
        self.now += WAY;
        let now = at(self.now);
        for (peer, mut datagram) in answer.datagrams {
            self.node.hear(now, address_of(peer), &mut datagram);
        }
        if self.node.next_call() <= self.now {
            self.node.node.handle_timeout(now);
        }
        self.speak();
        Ok(())
    }

    fn speak(&mut self) {
        let said = &mut self.said;
        self.node.speak(at(self.now), &mut self.buffer, |to, datagram| {
            said.extend(peer_at(to).map(|peer| (peer, datagram)));
        });
    }

    /// Advances the clock to the next event, if nothing is in flight.
    fn skip(&mut self, until: Mono) {
        if self.said.is_empty() {
            let next = self.call.min(self.node.next_call()).min(until);
            self.now = self.now.max(next);
        }
    }

    fn run(&mut self, done: impl Fn(&Host) -> bool) -> Result<(), Failure> {
        for _ in 0..TURNS {
            if done(&self.node) {
                return Ok(());
            }
            self.turn()?;
            self.skip(Mono::NEVER);
        }
        Err(Failure::new("the bench's peers make no progress"))
    }

    fn run_until_delivered(&mut self) -> Result<(), Failure> {
        for _ in 0..TURNS {
            self.turn()?;
            if self.open == 0 && self.said.is_empty() {
                return Ok(());
            }
            self.skip(Mono::NEVER);
        }
        Err(Failure::new("the bench's peers do not learn the outcomes of their messages"))
    }

    fn run_for(&mut self, span: Duration) -> Result<(), Failure> {
        let until = self.now + span;
        for _ in 0..TURNS {
            self.turn()?;
            self.skip(until);
            if self.now >= until {
                return Ok(());
            }
        }
        Err(Failure::new("the bench's peers do not become idle"))
    }

    fn take_all(&mut self) -> u64 {
        let mut taken = 0;
        while self.node.node.recv(at(self.now)).is_some() {
            taken += 1;
        }
        self.speak();
        taken
    }

    fn stage(&self, stage: &str) -> Stage {
        let level = Level::now();
        let peers = precise(self.peers.into());
        // Datagrams in the pipe's buffers do not count as memory of the node.
        let carried: usize = self.said.iter().map(|(_, datagram)| datagram.capacity() + 32).sum();
        let bytes = |count: usize| precise(u64::try_from(count).unwrap_or(u64::MAX));
        let resident = level.resident.zip(self.base.resident);
        Stage {
            stage: stage.to_owned(),
            allocated_per_peer: (bytes(level.allocated) - bytes(self.base.allocated) - bytes(carried))
                / peers,
            resident_per_peer: resident.map(|(now, base)| (precise(now) - precise(base)) / peers),
            known: self.node.node.stats().peers,
        }
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
