//! A run whose work is first contact: an earlier visit, the calls, leaving, and what each put on the link.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::record::{Lane, Record};
use super::{Flow, PORT, Plan};
use crate::app::{Leaves, Mark};
use crate::link::{LaneStats, Link};
use crate::net::Pair;
use crate::peer::Peer;

/// The link is quiet after so long without a packet, and four round trips.
const QUIET: Duration = Duration::from_secs(1);
/// So long is waited for that.
const TO_BE_QUIET: Duration = Duration::from_secs(20);
/// So long is waited for the next answer.
const PROGRESS: Duration = Duration::from_secs(35);

/// Packets on the link, from the clients and to them.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(crate) datagrams: [u64; 2],
    /// Of IP.
    pub(crate) bytes: [u64; 2],
}

/// What first contact cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Contact {
    pub(crate) calls: u64,
    /// What clients did who must have been there before.
    pub(crate) visit: Traffic,
    /// Until the last answer, and what followed by itself.
    pub(crate) calling: Traffic,
    /// What clients sent who had stayed and left then.
    pub(crate) leaving: Traffic,
    /// Processor time of the server for the calls, in s.
    pub(crate) server_cpu: f64,
}

impl Traffic {
    fn of(lanes: &[LaneStats; 2]) -> Self {
        let [forward, back] = lanes;
        Self { datagrams: [forward.packets, back.packets], bytes: [forward.bytes, back.bytes] }
    }

    /// In both directions.
    pub(crate) fn total(&self) -> (u64, u64) {
        (self.datagrams.iter().sum(), self.bytes.iter().sum())
    }
}

impl Plan {
    /// Clients in turn, and the link counted before, meanwhile and after.
    pub(super) fn contact(&self, calls: u64, leaves: Leaves) -> Result<Vec<Record>> {
        let pair = Pair::new(self.link.clone(), self.seed)?;
        let (Some(link), [peer]) = (&pair.link, self.flows.as_slice()) else {
            bail!("first contact is of one peer, on a link");
        };
        let mut flow = self.start(&pair, peer, PORT)?;
        flow.client.address()?;
        let visit = Traffic::of(&self.settle(link));
        let before = one(&mut flow, "start")?;
        await_answers(&mut flow, calls)?;
        let lanes = self.settle(link);
        let after = one(&mut flow, "stop")?;
        let leaving = Traffic::of(&self.settle(link));
        let end = one(&mut flow, "mark")?;
        let contact = Contact {
            calls,
            visit,
            calling: Traffic::of(&lanes),
            leaving,
            server_cpu: after[1].cpu - before[1].cpu,
        };
        let lanes = lanes.each_ref().map(Lane::new);
        let at_interfaces = pair.dropped_at_interfaces()?;
        let marks = [before, after, end];
        let mut record = Record::new(self, peer, marks, Some(lanes), at_interfaces, true);
        if leaves == Leaves::AtOnce {
            record.fault = record.fault.or(self.broken(peer, &contact, record.latency.p50));
        }
        record.contact = Some(contact);
        Ok(vec![record])
    }

    /// Waits until nothing moves on the link; what moved since it was last counted.
    fn settle(&self, link: &Link) -> [LaneStats; 2] {
        let quiet = QUIET + self.round_trip() * 4;
        let (began, mut moved, mut last) = (Instant::now(), Instant::now(), link.packets());
        while moved.elapsed() < quiet && began.elapsed() < TO_BE_QUIET {
            std::thread::sleep(Duration::from_millis(10));
            let now = link.packets();
            if now != last {
                (moved, last) = (Instant::now(), now);
            }
        }
        link.take_stats()
    }

    fn round_trip(&self) -> Duration {
        self.link.iter().flatten().map(|shape| shape.delay).sum()
    }

    /// What Exonet promises of a lone first call by who leaves then (PROTOCOL.md, "With the handshake"), where a round trip is longer than a busy machine's delays.
    fn broken(&self, peer: &Peer, contact: &Contact, latency: f64) -> Option<String> {
        let trips = latency / (self.round_trip().as_secs_f64() * 1e3);
        let (datagrams, _) = contact.calling.total();
        let promised = peer.name == "exonet" && contact.calls == 1;
        (promised && (datagrams != 3 || trips >= 1.5)).then(|| {
            format!("a first call took {trips:.2} round trips and {datagrams} datagrams, not one and three")
        })
    }
}

fn one(flow: &mut Flow, word: &str) -> Result<[Mark; 2]> {
    Ok([flow.client.order(word)?, flow.server.order(word)?])
}

fn await_answers(flow: &mut Flow, wanted: u64) -> Result<()> {
    let (mut answered, mut moved) = (0, Instant::now());
    while answered < wanted {
        std::thread::sleep(Duration::from_millis(20));
        let now = flow.client.order("mark")?.received;
        if now != answered {
            (answered, moved) = (now, Instant::now());
        }
        if moved.elapsed() > PROGRESS {
            bail!("{answered} of {wanted} calls were answered");
        }
    }
    Ok(())
}
