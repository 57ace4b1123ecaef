//! A run whose work is first contact: an earlier visit, the calls, leaving, and what each put on the link.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::record::{Lane, Record};
use super::{Flow, PORT, Plan};
use crate::app::Mark;
use crate::link::{LaneStats, Link};
use crate::net::Pair;

/// The link is quiet after so long without a packet, and four round trips.
const QUIET: Duration = Duration::from_secs(1);
/// So long is waited for that.
const TO_BE_QUIET: Duration = Duration::from_secs(20);
/// So long is waited for the next answer.
const PROGRESS: Duration = Duration::from_secs(35);

/// Packets on the link, from the clients and to them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) datagrams: [u64; 2],
    /// IP bytes.
    pub(crate) bytes: [u64; 2],
}

/// The cost of first contact.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contact {
    pub(crate) calls: u64,
    /// The round-trip time of the link, in ms.
    pub(crate) round_trip: f64,
    /// The traffic of an earlier visit, by clients that must have been there before.
    pub(crate) visit: Traffic,
    /// Until the last answer, and what followed by itself.
    pub(crate) calling: Traffic,
    /// The traffic of clients that had stayed and then left.
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

impl Contact {
    /// Whether a lone first call took what PROTOCOL.md says, "With the handshake": one round trip and three datagrams,
    /// one that acknowledges the third, and a farewell from who leaves later. None: it was another kind of run, or the
    /// link is too short for delays of the machine not to matter.
    pub(crate) fn promise(&self, latency: f64) -> Option<(bool, String)> {
        (self.calls == 1 && self.round_trip >= 50.0).then(|| {
            let (trips, (datagrams, _)) = (latency / self.round_trip, self.calling.total());
            let [forward, back] = self.calling.datagrams;
            let kept = trips < 1.5 && forward <= 3 && back <= 2;
            let told = if kept { "as promised" } else { "NOT as promised" };
            let each = format!("{forward} there and {back} back");
            (kept, format!("first contact: {trips:.2} round trips, {datagrams} datagrams, {each}: {told}"))
        })
    }
}

impl Plan {
    /// Clients in turn, and the link counted before, meanwhile and after.
    pub(super) fn contact(&self, calls: u64) -> Result<Vec<Record>> {
        let pair = Pair::new(self.link.clone(), self.seed)?;
        let (Some(link), [peer]) = (&pair.link, self.flows.as_slice()) else {
            bail!("first contact is of one peer, on a link");
        };
        let mut flow = self.start(&pair, peer, PORT)?;
        flow.clients.iter().try_for_each(|client| client.address().map(drop))?;
        let visit = Traffic::of(&self.settle(link));
        let before = one(&mut flow, "start")?;
        await_answers(&mut flow, calls)?;
        let lanes = self.settle(link);
        let after = one(&mut flow, "stop")?;
        let leaving = Traffic::of(&self.settle(link));
        let end = one(&mut flow, "mark")?;
        let contact = Contact {
            calls,
            round_trip: self.round_trip().as_secs_f64() * 1e3,
            visit,
            calling: Traffic::of(&lanes),
            leaving,
            server_cpu: after[1].cpu - before[1].cpu,
        };
        let lanes = lanes.each_ref().map(Lane::new);
        let at_interfaces = pair.dropped_at_interfaces()?;
        let marks = [before, after, end];
        let mut record = Record::new(self, peer, marks, Some(lanes), at_interfaces, true);
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
}

fn one(flow: &mut Flow, word: &str) -> Result<[Mark; 2]> {
    Ok([flow.order_clients(word)?, flow.server.order(word)?])
}

fn await_answers(flow: &mut Flow, wanted: u64) -> Result<()> {
    let (mut answered, mut moved) = (0, Instant::now());
    while answered < wanted {
        std::thread::sleep(Duration::from_millis(20));
        let now = flow.order_clients("mark")?.received;
        if now != answered {
            (answered, moved) = (now, Instant::now());
        }
        if moved.elapsed() > PROGRESS {
            bail!("{answered} of {wanted} calls were answered");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promise_is_of_a_lone_call_and_can_be_broken() {
        let calling = Traffic { datagrams: [2, 1], bytes: [1_500, 300] };
        let contact = Contact { calls: 1, round_trip: 100.0, calling, ..Contact::default() };
        let kept = |contact: &Contact, latency| contact.promise(latency).map(|(kept, _)| kept);
        assert_eq!(kept(&contact, 101.0), Some(true));
        assert_eq!(kept(&contact, 201.0), Some(false), "two round trips");
        let told = |datagrams| {
            kept(&Contact { calling: Traffic { datagrams, ..calling }, ..contact.clone() }, 101.0)
        };
        assert_eq!(told([3, 2]), Some(true), "a farewell, and what acknowledges both");
        assert_eq!((told([4, 1]), told([2, 3])), (Some(false), Some(false)), "one more");
        assert_eq!(kept(&Contact { calls: 1_000, ..contact }, 101.0), None);
    }
}
