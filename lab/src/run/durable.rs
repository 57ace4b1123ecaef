//! A run in which the receiver is killed, and its broker with it, and what its application has lost or done twice.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::disk::Disk;
use super::process::Process;
use super::record::Record;
use super::{PORT, Plan, await_first};
use crate::app::lost_and_doubled;
use crate::net::Pair;

/// So long is waited for the rest after the last kill.
const PATIENCE: Duration = Duration::from_secs(20);
/// So long after its death a process is started again.
const DEAD: Duration = Duration::from_millis(200);
/// What comes again may come so long after the sender knows of all.
const LATE: Duration = Duration::from_millis(3_000);

/// What became of messages while the receiver was killed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Killed {
    pub(crate) kills: u64,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    /// Messages that were acted on more than once.
    pub(crate) twice: u64,
}

impl Plan {
    pub(super) fn killed(&self, kills: u32) -> Result<Vec<Record>> {
        let (pair, disk) = (Pair::new(self.link.clone(), self.seed)?, Disk::new()?);
        let [peer] = self.flows.as_slice() else { bail!("the receiver of one flow is killed") };
        let mut flows = vec![self.start_on(&pair, peer, PORT, disk.path())?];
        await_first(&mut flows)?;
        let [flow] = flows.as_mut_slice() else { bail!("there is one flow") };
        let began = Instant::now();
        for _ in 0..kills {
            std::thread::sleep(self.span / (kills + 1));
            flow.server.kill();
            std::thread::sleep(DEAD);
            flow.server = Process::start(&pair.server, &flow.setup)?;
            flow.server.address()?;
        }
        std::thread::sleep(self.span / (kills + 1));
        flow.order_clients("stop")?;
        let stopped = Instant::now();
        let client = loop {
            let client = flow.order_clients("mark")?;
            let [lost, _] = lost_and_doubled(disk.path(), client.sent)?;
            if client.received >= client.sent && lost == 0 || stopped.elapsed() > PATIENCE {
                break client;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let took = began.elapsed().as_secs_f64();
        std::thread::sleep(LATE);
        let [lost, twice] = lost_and_doubled(disk.path(), client.sent)?;
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let rate = (client.sent - lost) as f64 / took.max(1e-9);
        let ours = peer.name.starts_with("exonet");
        Ok(vec![Record {
            peer: peer.name.to_owned(),
            rate,
            killed: Some(Killed { kills: kills.into(), sent: client.sent, lost, twice }),
            fault: (ours && lost > 0).then(|| format!("{lost} messages are lost")),
            ..Record::default()
        }])
    }
}
