//! The thread that moves packets.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::lane::Lane;
use super::{LaneStats, Shape};
use crate::net::Tun;

/// Packets taken from one host before the other has its turn.
const BATCH: usize = 64;
/// The end of a wait that is spent looking, since sleep is that imprecise.
const SPIN: u64 = 20_000;
/// The longest sleep: how soon the end is noticed.
const NAP: u64 = 20_000_000;
/// More than the MTU of the interfaces.
const PACKET: usize = 2_048;

/// A running link. It ends when this is dropped.
pub(crate) struct Link {
    stats: Arc<Mutex<[LaneStats; 2]>>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    /// Moves packets between the two interfaces; the first of `shapes` is from the first to the second.
    pub(crate) fn start(shapes: [Shape; 2], tuns: [Tun; 2], seed: u64) -> Result<Self> {
        let stats = Arc::new(Mutex::new([LaneStats::default(), LaneStats::default()]));
        let end = Arc::new(AtomicBool::new(false));
        let [forward, back] = shapes;
        let mut engine = Engine {
            tuns,
            lanes: [Lane::new(forward, seed), Lane::new(back, seed ^ 0x9e37_79b9_7f4a_7c15)],
            stats: Arc::clone(&stats),
            began: Instant::now(),
            end: Arc::clone(&end),
        };
        let thread = std::thread::Builder::new().name("link".into()).spawn(move || {
            be_punctual();
            engine.run();
        })?;
        Ok(Self { stats, end, thread: Some(thread) })
    }

    /// Packets that both hosts have sent since that was last taken.
    pub(crate) fn packets(&self) -> u64 {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|lane| lane.packets).sum()
    }

    /// The counts of both directions since they were last taken.
    pub(crate) fn take_stats(&self) -> [LaneStats; 2] {
        std::mem::take(&mut *self.stats.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// This thread goes before everything else, if the system lets it; else as soon as its turn comes.
pub(crate) fn be_punctual() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: both calls take plain values, or a pointer to one that outlives the call.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const priority);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}

struct Engine {
    tuns: [Tun; 2],
    lanes: [Lane; 2],
    stats: Arc<Mutex<[LaneStats; 2]>>,
    began: Instant,
    end: Arc<AtomicBool>,
}

impl Engine {
    fn run(&mut self) {
        let mut buffer = [0; PACKET];
        while !self.end.load(Ordering::Relaxed) {
            let busy = self.take_in(&mut buffer);
            self.give_out();
            if !busy {
                self.wait();
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes what the hosts have sent; whether there was anything.
    fn take_in(&mut self, buffer: &mut [u8]) -> bool {
        let mut busy = false;
        let stats = Arc::clone(&self.stats);
        for side in [0, 1] {
            for _ in 0..BATCH {
                let (Some(tun), now) = (self.tuns.get(side), self.now()) else { return busy };
                let Ok(Some(length)) = tun.read(buffer) else { break };
                busy = true;
                let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
                let packet = buffer.get_mut(..length).unwrap_or_default();
                if let (Some(lane), Some(stats)) = (self.lanes.get_mut(side), stats.get_mut(side)) {
                    lane.enter(now, packet, stats);
                }
            }
        }
        busy
    }

    /// Gives the hosts what has arrived.
    fn give_out(&mut self) {
        let stats = Arc::clone(&self.stats);
        for side in [0, 1] {
            loop {
                let now = self.now();
                let (Some(lane), Some(tun)) = (self.lanes.get_mut(side), self.tuns.get(1 - side)) else {
                    return;
                };
                if lane.next_due().is_none_or(|due| due > now) {
                    break;
                }
                let mut all = stats.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(stats) = all.get_mut(side) else { return };
                let Some(packet) = lane.leave(now, stats) else { break };
                stats.refused += u64::from(!tun.write(&packet));
                lane.recycle(packet);
            }
        }
    }

    fn wait(&self) {
        let due = self.lanes.iter().filter_map(Lane::next_due).min();
        let span = due.map_or(NAP, |due| due.saturating_sub(self.now()).saturating_sub(SPIN)).min(NAP);
        if span == 0 {
            std::hint::spin_loop();
            return;
        }
        let mut fds = self.tuns.each_ref().map(|tun| PollFd::new(tun.as_fd(), PollFlags::POLLIN));
        // An interrupted sleep is a short one.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(Duration::from_nanos(span))), None);
    }
}
