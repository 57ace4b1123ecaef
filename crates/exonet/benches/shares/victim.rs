//! The victim, and what is measured of it.

use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use exonet::{Allow, Node, PeerAddr};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::Failure;
use crate::attack::{ALL, Attack};
use crate::friends::SIZE;

/// What friends are to keep.
const KEPT: f64 = 0.8;
/// How many friends there are, and messages that each sends in a second.
const FRIENDS: u32 = 4;
const RATE: u32 = 10_000;
/// Times that each attack is measured, in turn with the friends alone.
const TIMES: usize = 3;
const WINDOW: Duration = Duration::from_millis(600);
/// What is not measured: until what has changed has settled.
const SETTLE: Duration = Duration::from_millis(300);

pub(crate) fn run(parts: &[&str]) -> Result<ExitCode, Failure> {
    // The others go to another processor. On a machine that has only one, all are where they are.
    pin(Pid::this(), 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let victim = Victim::start().await?;
        let _friends = Ends(victim.meet(&["friends"], &[FRIENDS, RATE])?);
        tokio::time::sleep(SETTLE * 2).await;
        println!(
            "{FRIENDS} friends, {RATE} messages a second each, and one attacker\n{:34} {:>8} {:>8} {:>6} {:>11} {:>11}",
            "attack", "alone/s", "beside/s", "kept", "datagrams", "processor"
        );
        let mut worst = f64::INFINITY;
        for (i, attack) in ALL.iter().enumerate() {
            if parts.iter().all(|part| attack.name.contains(part)) {
                worst = worst.min(victim.suffer(attack, u32::try_from(i)?).await?);
            }
        }
        println!("least kept: {:.0} %, of {:.0} % wanted", worst * 100.0, KEPT * 100.0);
        Ok(if worst < KEPT { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    })
}

struct Victim {
    node: Node,
    /// Messages of friends that were taken.
    taken: Arc<AtomicU64>,
}

impl Victim {
    async fn start() -> Result<Self, Failure> {
        let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
        let taken = Arc::new(AtomicU64::new(0));
        let (receiver, counted) = (node.clone(), Arc::clone(&taken));
        tokio::spawn(async move {
            while let Ok(messages) = receiver.at_most_once().recv_batch(1_024).await {
                let friendly =
                    messages.views().filter(|view| view.body.is_some_and(|body| body.len() == SIZE)).count();
                counted.fetch_add(friendly as u64, Ordering::Relaxed);
            }
        });
        Ok(Self { node, taken })
    }

    /// A process that does what `role` says.
    fn meet(&self, role: &[&str], how: &[u32]) -> Result<Child, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(role).arg(self.node.peer_addr().to_string()).args(how.iter().map(u32::to_string));
        let child = command.stdout(Stdio::inherit()).spawn()?;
        pin(Pid::from_raw(i32::try_from(child.id())?), 1);
        Ok(child)
    }

    /// What friends keep beside an attack.
    async fn suffer(&self, attack: &Attack, which: u32) -> Result<f64, Failure> {
        let (mut alone, mut beside, mut hostile, mut worked) = (vec![], vec![], vec![], vec![]);
        for _ in 0..TIMES {
            tokio::time::sleep(SETTLE).await;
            alone.push(self.window().await?.friendly);
            let foe = Ends(self.meet(&["foe"], &[which])?);
            tokio::time::sleep(SETTLE).await;
            let seen = self.window().await?;
            beside.push(seen.friendly);
            hostile.push(seen.datagrams);
            worked.push(seen.worked);
            drop(foe);
        }
        let (alone, beside) = (median(&mut alone), median(&mut beside));
        let (hostile, worked) = (median(&mut hostile), median(&mut worked));
        let kept = beside / alone;
        println!(
            "{:34} {alone:8.0} {beside:8.0} {:5.0}% {hostile:9.0}/s {:9.0} %",
            attack.name,
            kept * 100.0,
            worked * 100.0
        );
        Ok(kept)
    }

    async fn window(&self) -> Result<Window, Failure> {
        let figures = || -> Result<(f64, f64, f64), Failure> {
            let taken = f64::from(u32::try_from(self.taken.load(Ordering::Relaxed))?);
            let datagrams = f64::from(u32::try_from(self.node.stats().datagrams_in)?);
            let worked: Duration =
                nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into();
            Ok((taken, datagrams, worked.as_secs_f64()))
        };
        let (begun, before) = (Instant::now(), figures()?);
        tokio::time::sleep(WINDOW).await;
        let (span, after) = (begun.elapsed().as_secs_f64(), figures()?);
        Ok(Window {
            friendly: (after.0 - before.0) / span,
            datagrams: (after.1 - before.1) / span,
            worked: (after.2 - before.2) / span,
        })
    }
}

/// In a second.
struct Window {
    friendly: f64,
    datagrams: f64,
    worked: f64,
}

pub(crate) fn address(of: &PeerAddr) -> Result<SocketAddr, Failure> {
    let text = of.to_string();
    let (_, at) = text.split_once('@').ok_or("no address")?;
    Ok(at.parse()?)
}

/// A process that ends with its handle.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pin(process: Pid, to: usize) {
    let mut set = CpuSet::new();
    let _ = set.set(to).and_then(|()| sched_setaffinity(process, &set));
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(0.0)
}
