//! Messages that outlive the processes at both ends, and what that costs.
//!
//! The sender runs a set number of tasks. Each task hands a message over, waits until its node, broker or database has
//! promised to keep it, and then hands over the next. The receiver acts on each message, and then acknowledges it.

mod exonet;
mod jetstream;
mod outbox;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use tokio::task::JoinSet;

use super::fan::nats::missing as no_nats;
use super::{Peer, Setup, nothing_missing, tasks};
use crate::app::{Acts, Meter, Work, hand_over};

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "exonet-process",
        label: "Exonet, `Process`",
        tuning: "both nodes keep journals at `Durability::Process`; the outcome of each message is awaited; the receiver \
                 acknowledges under the guard of `recv`",
        reliable: true,
        cannot: durable_only,
        missing: nothing_missing,
        run: run::<exonet::Exonet>,
    },
    Peer {
        name: "exonet-sync",
        label: "Exonet, `Sync`",
        tuning: "as Exonet, `Process`, at `Durability::Sync`",
        reliable: true,
        cannot: durable_only,
        missing: nothing_missing,
        run: run::<exonet::Exonet>,
    },
    Peer {
        name: "jetstream",
        label: "NATS JetStream",
        tuning: "`nats-server` beside the receiver, with which it counts: a stream in files with the default \
                 `sync_interval` of 2 min; each publication has an id and its acknowledgement is awaited, and is done again \
                 if none comes; a pull consumer with explicit acknowledgements, `ack_wait` of 2 s; not encrypted",
        reliable: true,
        cannot: durable_only,
        missing: no_nats,
        run: run::<jetstream::JetStream>,
    },
    Peer {
        name: "jetstream-always",
        label: "NATS JetStream, sync always",
        tuning: "as NATS JetStream, with `sync_interval: always`",
        reliable: true,
        cannot: durable_only,
        missing: no_nats,
        run: run::<jetstream::JetStream>,
    },
    Peer {
        name: "outbox-sqlite",
        label: "Outbox, SQLite",
        tuning: "written by hand: a row and a commit for each message (WAL, `synchronous=FULL`), a poll every 10 ms that sends \
                 up to 256 rows over TCP, and one commit that deletes what was acknowledged; not encrypted",
        reliable: true,
        cannot: durable_only,
        missing: nothing_missing,
        run: run::<outbox::Outbox>,
    },
];

const fn durable_only(work: Work) -> Option<&'static str> {
    if matches!(work, Work::Durable { .. }) { None } else { Some("it is compared with journals only") }
}

/// A way to hand messages over for good.
trait Keeps: Sized + Send + Sync + 'static {
    /// Acts on what comes, for ever.
    fn receive(setup: &Setup, meter: &Arc<Meter>, acts: Acts) -> impl Future<Output = Result<()>> + Send;
    fn new(setup: &Setup) -> impl Future<Output = Result<Self>> + Send;
    /// Hands a message over; ends when somebody has promised to keep it.
    fn send(&self, message: Vec<u8>) -> impl Future<Output = Result<()>> + Send;
}

fn run<K: Keeps>(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    tasks::run(setup, meter, |setup, meter| async move { end::<K>(&setup, &meter).await })
}

async fn end<K: Keeps>(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    let Work::Durable { under_way, .. } = setup.work else { bail!("nothing is to be kept") };
    if setup.is_server() {
        return K::receive(setup, meter, Acts::open(meter, Path::new(&setup.disk))?).await;
    }
    let (keeps, bytes, mut all) = (Arc::new(K::new(setup).await?), setup.bytes, JoinSet::new());
    for _ in 0..under_way {
        let (keeps, meter) = (Arc::clone(&keeps), Arc::clone(meter));
        all.spawn(async move {
            while let Some(message) = hand_over(&meter, bytes) {
                keeps.send(message).await?;
                meter.receive();
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    std::future::pending().await
}
