//! A run whose work is a cold start: so many messages, or calls, handed over at once to a peer that was never met.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::record::{Lane, Record};
use super::{PORT, Plan};
use crate::app::Mark;
use crate::net::Pair;

/// So long is waited for the end; or less in a hurry.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_IN_A_HURRY: Duration = Duration::from_secs(12);
/// Between two looks at whether it is over: each takes time from the peers.
const LOOK: Duration = Duration::from_millis(50);

/// How long it took from when the application handed all over, which includes setting up the connection, in ms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cold {
    /// Until the last message, or request, was taken at the other end.
    pub(crate) arrived: f64,
    /// Until the sender knew of the last.
    pub(crate) settled: f64,
}

impl Cold {
    fn new(client: &Mark, server: &Mark) -> Result<Self> {
        let begun = client.begun.context("nothing was handed over")?;
        let since = |time: Option<f64>| time.map(|time| (time - begun) * 1e3).context("it has not ended");
        Ok(Self { arrived: since(server.finished)?, settled: since(client.finished)? })
    }
}

impl Plan {
    /// Until the sender knows of all, or patience ends.
    pub(super) fn cold(&self, messages: u32) -> Result<Vec<Record>> {
        let pair = Pair::new(self.link.clone(), self.seed)?;
        let (Some(link), [peer]) = (&pair.link, self.flows.as_slice()) else {
            bail!("a cold start is of one peer, on a link");
        };
        let mut flow = self.start(&pair, peer, PORT)?;
        let patience = if self.patient { PATIENCE } else { PATIENCE_IN_A_HURRY };
        let began = Instant::now();
        let client = loop {
            std::thread::sleep(LOOK);
            let client = flow.order_clients("mark")?;
            if client.finished.is_some() {
                break client;
            }
            if began.elapsed() > patience {
                bail!("not all were settled within {} s", patience.as_secs());
            }
        };
        let server = flow.server.order("mark")?;
        let lanes = link.take_stats().each_ref().map(Lane::new);
        let cold = Cold::new(&client, &server)?;
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let bytes = lanes.iter().map(|lane| lane.bytes as f64).sum::<f64>();
        let marks = [[Mark::default(), Mark::default()], [client.clone(), server.clone()], [client, server]];
        let record = Record::new(self, peer, marks, Some(lanes), pair.dropped_at_interfaces()?, true);
        Ok(vec![Record {
            rate: f64::from(messages) / cold.settled.max(1e-3) * 1e3,
            wire_bytes_each: Some(bytes / f64::from(messages.max(1))),
            // Most of it was for starting the processes.
            cpu_per_million: 0.0,
            cold: Some(cold),
            ..record
        }])
    }
}
