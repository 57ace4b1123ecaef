//! One run: hosts, a link, peers, and what they did.

mod capacity;
mod cold;
mod contact;
mod crowd;
mod disk;
mod download;
mod durable;
mod process;
mod record;
mod star;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

pub(crate) use self::cold::Cold;
pub(crate) use self::contact::{Contact, Traffic};
pub(crate) use self::crowd::Gathered;
use self::disk::Disk;
pub(crate) use self::durable::Killed;
use self::process::Process;
pub(crate) use self::record::{Lane, Record, Serving};
use crate::app::{CROWD_PART, Mark, Role, Work};
use crate::link::Shape;
use crate::net::{Pair, SERVER_IP};
use crate::peer::{Peer, Setup};

/// The first flow's; the next have the next.
const PORT: u16 = 4_000;
/// Until the first message is there.
const TO_CONNECT: Duration = Duration::from_secs(30);
/// After the end, everything that was sent has to arrive: what does not while nothing else does for so long never will.
const PROGRESS: Duration = Duration::from_secs(15);
/// So long is waited for it, or less in a hurry. What is still arriving then is not known to be lost.
const DRAIN: Duration = Duration::from_secs(25);
const DRAIN_IN_A_HURRY: Duration = Duration::from_secs(3);

/// The plan of a run.
#[derive(Clone)]
pub(crate) struct Plan {
    /// Forward, from the clients, and back. None: a virtual cable.
    pub(crate) link: Option<[Shape; 2]>,
    /// The links of members that each have their own link.
    pub(crate) spokes: Vec<[Shape; 2]>,
    pub(crate) work: Work,
    /// Length of every message.
    pub(crate) bytes: usize,
    /// All at the same time, a connection each.
    pub(crate) flows: Vec<&'static Peer>,
    pub(crate) warm_up: Duration,
    pub(crate) span: Duration,
    pub(crate) seed: u64,
    /// Whether there is time to wait long for what is still under way at the end.
    pub(crate) patient: bool,
}

struct Flow {
    peer: &'static Peer,
    /// The server's, should it be started again.
    setup: Setup,
    server: Process,
    /// A crowd takes several.
    clients: Vec<Process>,
}

impl Flow {
    fn order_clients(&mut self, word: &str) -> Result<Mark> {
        self.clients.iter_mut().map(|client| client.order(word)).sum()
    }
}

/// How client and server stand.
type Marks = Vec<[Mark; 2]>;

impl Plan {
    /// Does it; a record for each flow.
    pub(crate) fn run(&self) -> Result<Vec<Record>> {
        if let Work::Contact { clients, calls, .. } = self.work {
            return self.contact(u64::from(clients) * u64::from(calls));
        }
        if let Work::Cold { messages, .. } = self.work {
            return self.cold(messages);
        }
        match self.work {
            Work::Spread { .. } => return self.spread(),
            Work::Download { megabytes, servers } => return self.download(megabytes, servers),
            Work::Durable { kills, .. } if kills > 0 => return self.killed(kills),
            _ => (),
        }
        let pair = Pair::new(self.link.clone(), self.seed)?;
        let disk = matches!(self.work, Work::Durable { .. }).then(Disk::new).transpose()?;
        let disk = disk.as_ref().map_or(Path::new(""), Disk::path);
        let began = Instant::now();
        let mut flows =
            self.flows.iter().zip(PORT..).map(|(peer, port)| self.start_on(&pair, peer, port, disk));
        let mut flows = flows.by_ref().collect::<Result<Vec<Flow>>>()?;
        await_first(&mut flows)?;
        let gathered = match self.work {
            Work::Crowd { clients, .. } | Work::Sessions { clients, .. } => {
                Some(crowd::gather(&mut flows, clients, began)?)
            }
            _ => None,
        };
        std::thread::sleep(self.warm_up);
        let before = order(&mut flows, "reset")?;
        let take = || pair.link.as_ref().map(crate::link::Link::take_stats);
        drop(take());
        std::thread::sleep(self.span);
        let after = order(&mut flows, "mark")?;
        let lanes = take();
        let (end, ended) = self.drain(&mut flows)?;
        let at_interfaces = pair.dropped_at_interfaces()?;
        let lanes = lanes.map(|lanes| lanes.map(|stats| Lane::new(&stats)));
        let records = flows.iter().zip(before).zip(after).zip(end);
        Ok(records
            .map(|(((flow, before), after), end)| {
                let marks = [before, after, end];
                let record = Record::new(self, flow.peer, marks, lanes.clone(), at_interfaces, ended);
                Record { gathered, ..record }
            })
            .collect())
    }

    fn start(&self, pair: &Pair, peer: &'static Peer, port: u16) -> Result<Flow> {
        self.start_on(pair, peer, port, Path::new(""))
    }

    /// With a directory for what outlives processes.
    fn start_on(&self, pair: &Pair, peer: &'static Peer, port: u16, disk: &Path) -> Result<Flow> {
        let window = self.link.as_ref().map_or(0, |[forward, back]| {
            let round_trip = (forward.delay + back.delay).as_nanos();
            let holds = |way: &Shape| {
                let flying = round_trip * u128::from(way.rate) / 8_000_000_000;
                usize::try_from(flying).unwrap_or(usize::MAX).saturating_add(way.queue)
            };
            holds(forward).max(holds(back))
        });
        let mut setup = Setup {
            peer: peer.name.to_owned(),
            role: Role::Server,
            work: self.work,
            part: 0,
            bytes: self.bytes,
            listen: SocketAddr::from((SERVER_IP, port)),
            server: String::new(),
            window,
            disk: disk.display().to_string(),
        };
        let (server, of_server) = (Process::start(&pair.server, &setup)?, setup.clone());
        setup.server = server.address()?;
        setup.role = Role::Client;
        let parts = self.parts().zip(0..).map(|(work, part)| {
            (setup.work, setup.part) = (work, part);
            Process::start(&pair.client, &setup)
        });
        let clients = parts.collect::<Result<_>>()?;
        Ok(Flow { peer, setup: of_server, server, clients })
    }

    /// The work of each process of clients.
    fn parts(&self) -> Box<dyn Iterator<Item = Work>> {
        let Work::Crowd { clients: all, per_second } = self.work else {
            return Box::new(std::iter::once(self.work));
        };
        let firsts = (0..all).step_by(CROWD_PART as usize);
        Box::new(firsts.map(move |first| Work::Crowd { clients: CROWD_PART.min(all - first), per_second }))
    }

    /// Begins nothing new, and waits until all that was begun has ended. False: some of it is still arriving.
    fn drain(&self, flows: &mut [Flow]) -> Result<(Marks, bool)> {
        let ours = flows.iter().any(|flow| flow.peer.name.starts_with("exonet"));
        let patience = if self.patient || ours { DRAIN } else { DRAIN_IN_A_HURRY };
        let mut last = order(flows, "stop")?;
        let (began, mut moved) = (Instant::now(), Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let now = order(flows, "mark")?;
            let open: u64 = flows.iter().zip(&now).map(|(flow, mark)| self.missing(flow.peer, mark)).sum();
            let progress = now.iter().flatten().zip(last.iter().flatten());
            if progress.into_iter().any(|(now, last)| now.received != last.received) {
                moved = Instant::now();
            }
            last = now;
            let ended = open == 0 || moved.elapsed() > PROGRESS;
            if ended || began.elapsed() > patience {
                return Ok((last, ended));
            }
        }
    }

    /// Messages that were sent and have not arrived, or answers that are awaited.
    fn missing(&self, peer: &Peer, [client, server]: &[Mark; 2]) -> u64 {
        if !peer.reliable {
            return 0;
        }
        let there = client.sent.saturating_sub(server.received);
        match self.work {
            Work::OneWay
            | Work::Crowd { .. }
            | Work::Durable { .. }
            | Work::Lanes { .. }
            | Work::Cold { calls: false, .. } => there,
            Work::Fan { members, .. } => {
                let copies = client.sent * u64::from(peer.required(members));
                // Only Exonet's sender knows when all copies of a message have ended.
                let ended = if peer.name.starts_with("exonet") { client.received } else { client.sent };
                copies.saturating_sub(server.received).max(client.sent.saturating_sub(ended))
            }
            Work::BothWays => there + server.sent.saturating_sub(client.received),
            Work::Calls { .. }
            | Work::Contact { .. }
            | Work::Sessions { .. }
            | Work::Cold { .. }
            | Work::Spread { .. }
            | Work::Download { .. } => client.sent.saturating_sub(client.received),
        }
    }
}

fn order(flows: &mut [Flow], word: &str) -> Result<Marks> {
    flows.iter_mut().map(|flow| Ok([flow.order_clients(word)?, flow.server.order(word)?])).collect()
}

/// Waits until each flow has delivered something.
fn await_first(flows: &mut [Flow]) -> Result<()> {
    let began = Instant::now();
    loop {
        let marks = order(flows, "mark")?;
        if marks.iter().all(|[_, server]| server.received > 0) {
            return Ok(());
        }
        if began.elapsed() > TO_CONNECT {
            bail!("no message has arrived within {} s", TO_CONNECT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
