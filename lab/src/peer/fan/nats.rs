//! NATS core: a broker between the sender and the members.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::super::tasks::{self, Shared};
use super::super::{Peer, Setup};
use crate::app::{Meter, Pacer};

pub(in super::super) const PEERS: &[Peer] = &[Peer {
    name: "nats",
    label: "NATS core",
    tuning: "`nats-server` of NATS_SERVER or PATH beside the members, whose processor time and memory count with theirs; each member a connection of async-nats; at most once, not encrypted",
    reliable: false,
    cannot: super::only,
    missing,
    run: |setup, meter| tasks::run(setup, meter, fan),
}];

const SUBJECT: &str = "news";
/// Between two tries to reach the broker as it starts.
const PAUSE: Duration = Duration::from_millis(20);

fn program() -> String {
    std::env::var("NATS_SERVER").unwrap_or_else(|_| "nats-server".into())
}

pub(in super::super) fn missing() -> Option<String> {
    let said = Command::new(program()).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    said.is_err().then(|| "no nats-server in PATH, and NATS_SERVER names none".into())
}

/// Starts the broker where `setup` says, and waits until it is there. It ends with this process, however that ends.
pub(in super::super) async fn broker(setup: &Setup, meter: &Meter) -> Result<Child> {
    broker_with(setup, meter, &[]).await
}

/// As [`broker`], with more words on its command line.
pub(in super::super) async fn broker_with(setup: &Setup, meter: &Meter, words: &[String]) -> Result<Child> {
    let broker = start(setup, words)?;
    meter.count_too(broker.id());
    while tokio::net::TcpStream::connect(setup.listen).await.is_err() {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(broker)
}

fn start(setup: &Setup, words: &[String]) -> Result<Child> {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(program());
    command.args(["-a", &setup.listen.ip().to_string(), "-p", &setup.listen.port().to_string()]);
    command.args(words);
    let dies_with_us =
        || nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).map_err(Into::into);
    // SAFETY: the closure makes one system call, and allocates nothing.
    unsafe { command.pre_exec(dies_with_us) };
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("cannot start nats-server")
}

pub(in super::super) async fn connect(server: &str) -> Result<async_nats::Client> {
    async_nats::connect(format!("nats://{server}")).await.context("cannot reach nats-server")
}

async fn fan(setup: Arc<Setup>, meter: Arc<Meter>) -> Result<()> {
    let (members, per_second) = super::work(&setup)?;
    if setup.is_server() {
        let _broker = broker(&setup, &meter).await?;
        let server = setup.listen.to_string();
        for _ in 0..members {
            let client = connect(&server).await?;
            let subscription = client.subscribe(SUBJECT).await?;
            client.flush().await?;
            tokio::spawn(take(client, subscription, Shared::new(&setup, &meter)));
        }
        setup.hello(&server);
        return std::future::pending().await;
    }
    let client = connect(&setup.server).await?;
    let mut pacer = Pacer::new(&meter, (1, per_second), setup.bytes);
    loop {
        let (_, message) = pacer.next().await;
        client.publish(SUBJECT, message.into()).await?;
        client.flush().await?;
    }
}

async fn take(_client: async_nats::Client, mut messages: async_nats::Subscriber, shared: Shared) {
    use futures_util::StreamExt as _;
    while let Some(message) = messages.next().await {
        shared.take([&message.payload[..]]);
    }
}
