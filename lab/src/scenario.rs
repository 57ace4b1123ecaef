//! What is measured, in one table.

mod cold;

use std::time::Duration;

use anyhow::{Result, bail};
use exonet_sim::Signal;

use crate::app::{From, Leaves, Work};
use crate::link::{Loss, Outages, Reorder, Shape};
use crate::peer::{self, Peer};

/// Rows of one table.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) cells: Vec<Cell>,
    /// Peers that take part, by name. Empty: all that can.
    peers: &'static [&'static str],
}

/// One row: every peer does it.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) wire: Wire,
    pub(crate) work: Work,
    pub(crate) bytes: usize,
    /// Another flow on the same link.
    pub(crate) rival: Option<&'static str>,
    /// Longer than usual, in s.
    pub(crate) span: Option<u64>,
}

/// What joins the hosts.
#[derive(Clone, Copy)]
pub(crate) enum Wire {
    /// Mbit/s forward and back, the round-trip time in ms, and the loss each way.
    Link { mbit: [f64; 2], rtt: u64, loss: Loss },
    /// 100 Mbit/s and 10 ms, on which packets are held back, doubled, or come to nothing for a while.
    Rough(Trouble),
    /// 100 Mbit/s, the round-trip time in ms, and CoDel, which signals so; the queue holds four bandwidth-delay products, so
    /// that CoDel is what keeps it short.
    Codel { rtt: u64, signal: Signal },
    /// A virtual cable.
    Cable,
}

/// What is wrong with a link, both ways.
#[derive(Clone, Copy)]
pub(crate) enum Trouble {
    /// A tenth of the packets arrive 3 ms late.
    Reordering,
    /// A tenth of the packets arrive twice.
    Duplication,
    /// Nothing gets through for 0.2 s of each second.
    Outages,
}

impl Trouble {
    fn shape(self) -> Shape {
        let link = Shape::new(100.0, Duration::from_millis(10), Loss::None);
        match self {
            Self::Reordering => {
                Shape { reorder: Some(Reorder { share: 0.1, by: Duration::from_millis(3) }), ..link }
            }
            Self::Duplication => Shape { duplicate: 0.1, ..link },
            Self::Outages => Shape {
                outages: Some(Outages { every: Duration::from_secs(1), last: Duration::from_millis(200) }),
                ..link
            },
        }
    }
}

impl Wire {
    const fn link(mbit: f64, rtt: u64, loss: Loss) -> Self {
        Self::Link { mbit: [mbit, mbit], rtt, loss }
    }

    /// Forward and back; None: a cable.
    pub(crate) fn shapes(self) -> Option<[Shape; 2]> {
        match self {
            Self::Link { mbit, rtt, loss } => {
                Some(mbit.map(|mbit| Shape::new(mbit, Duration::from_millis(rtt), loss)))
            }
            Self::Rough(trouble) => Some([trouble.shape(), trouble.shape()]),
            Self::Codel { rtt, signal } => {
                let link = Shape::new(100.0, Duration::from_millis(rtt), Loss::None);
                let shape = Shape { codel: Some(signal), queue: link.queue * 4, ..link };
                Some([shape.clone(), shape])
            }
            Self::Cable => None,
        }
    }

    /// How many messages of so many bytes Exonet could deliver a second, one way, if nothing but its headers and loss took
    /// anything. None where no link limits it.
    #[allow(clippy::cast_precision_loss)] // small
    pub(crate) fn ceiling(self, bytes: usize) -> Option<f64> {
        /// A packet of the link, all of them full.
        const PACKET: usize = 1_500;
        /// IPv4, UDP, a data packet's header and tag, and a SLICE with the length of the message that it goes on with.
        const HEADERS: usize = 20 + 8 + 9 + 16 + 8 + 2;
        /// What stands before the bytes of a message.
        const HEAD: usize = 3;
        let (forward, loss) = match self {
            Self::Link { mbit: [forward, _], loss, .. } => (forward, loss),
            Self::Codel { .. } => (100.0, Loss::None),
            Self::Rough(_) | Self::Cable => return None,
        };
        let lost = match loss {
            Loss::None => 0.0,
            Loss::Random(share) | Loss::Bursts { share, .. } => share,
        };
        let carried = (PACKET - HEADERS) as f64 / PACKET as f64;
        Some(forward * 1e6 / 8.0 * carried / (bytes + HEAD) as f64 * (1.0 - lost))
    }

    /// Before figures mean anything.
    pub(crate) fn warm_up(self) -> Duration {
        let round_trips = match self {
            Self::Link { rtt, .. } | Self::Codel { rtt, .. } => Duration::from_millis(rtt * 20),
            Self::Rough(_) => Duration::from_millis(200),
            Self::Cable => Duration::ZERO,
        };
        Duration::from_secs(1) + round_trips
    }
}

impl Cell {
    const fn is_contact(&self) -> bool {
        matches!(self.work, Work::Contact { .. })
    }
}

impl Scenario {
    /// What is reported with first contact.
    pub(crate) fn is_contact(&self) -> bool {
        self.cells.iter().all(Cell::is_contact)
    }

    /// Who takes part in a cell, of those that were asked for.
    pub(crate) fn peers(&self, cell: &Cell, asked: &[String]) -> Vec<&'static Peer> {
        let invited = |peer: &&Peer| self.peers.is_empty() || self.peers.contains(&peer.name);
        let wanted = |peer: &&Peer| asked.is_empty() || asked.iter().any(|name| name == peer.name);
        let fits = |peer: &&Peer| {
            peer.does(cell.work) && (peer.reliable || matches!(cell.wire, Wire::Cable) || cell.is_contact())
        };
        peer::all().filter(fits).filter(invited).filter(wanted).collect()
    }
}

const KILOBYTE: usize = 1_024;
const SMALL: usize = 64;

fn cell(name: impl Into<String>, wire: Wire, work: Work) -> Cell {
    Cell { name: name.into(), wire, work, bytes: KILOBYTE, rival: None, span: None }
}

fn percent(loss: u32) -> Loss {
    if loss == 0 { Loss::None } else { Loss::Random(f64::from(loss) / 100.0) }
}

/// All of them.
pub(crate) fn all() -> Vec<Scenario> {
    vec![
        one_way_loss(),
        calls(0, "calls-0"),
        calls(1, "calls-1"),
        calls(5, "calls-5"),
        links("one-way-links", "one way over links of every kind", Work::OneWay),
        links("calls-links", "calls of 100 actors over links of every kind", Work::Calls { actors: 100 }),
        Scenario {
            name: "long",
            about: "one way, 50 Mbit/s, RTT 200 ms",
            cells: vec![cell("50 Mbit/s, 200 ms", Wire::link(50.0, 200, Loss::None), Work::OneWay)],
            peers: &[],
        },
        Scenario {
            name: "asymmetric",
            about: "both ways at once on one connection, 3 Mbit/s forward and 30 back, RTT 80 ms",
            cells: vec![cell(
                "3/30 Mbit/s, 80 ms",
                Wire::Link { mbit: [3.0, 30.0], rtt: 80, loss: Loss::None },
                Work::BothWays,
            )],
            peers: &[],
        },
        rough("one-way-rough", "one way, 100 Mbit/s, RTT 10 ms, trouble both ways", Work::OneWay),
        rough(
            "calls-rough",
            "calls of 100 actors, 100 Mbit/s, RTT 10 ms, trouble both ways",
            Work::Calls { actors: 100 },
        ),
        codel(),
        share(),
        cable(),
        Scenario {
            name: "cable-call",
            about: "a lone call of 64 bytes, no emulator",
            cells: vec![Cell { bytes: SMALL, ..cell("1 actor", Wire::Cable, Work::Calls { actors: 1 }) }],
            peers: &[],
        },
        Scenario {
            name: "crowd",
            about: "10,000 clients, each sends 10 messages a second to one server, no emulator",
            cells: vec![cell("10,000 clients", Wire::Cable, Work::Crowd { clients: 10_000, per_second: 10 })],
            peers: &[],
        },
        Scenario {
            name: "first-contact",
            about: "one client that the server has never met, one call",
            cells: vec![
                contact("RTT 100 ms, leaves at once", 100, ALONE),
                contact("RTT 100 ms, stays", 100, (1, 1, Leaves::WhenTold, From::Everywhere)),
            ],
            peers: &[],
        },
        Scenario {
            name: "scmp-one-client",
            about: "one client that the server has never met, 1,000 calls",
            cells: at_distances((1, 1_000, Leaves::WhenTold, From::Everywhere)),
            peers: &[],
        },
        Scenario {
            name: "scmp-many-clients",
            about: "1,000 clients that the server has never met, one call each",
            cells: at_distances((1_000, 1, Leaves::AtOnce, From::Everywhere))
                .into_iter()
                .chain([contact(
                    "RTT 10 ms, all at one address",
                    10,
                    (1_000, 1, Leaves::AtOnce, From::OneAddress),
                )])
                .collect(),
            peers: &[],
        },
        cold::cold_start(),
    ]
}

/// Clients, calls of each, when they leave and where they are.
type Visitors = (u32, u32, Leaves, From);

const ALONE: Visitors = (1, 1, Leaves::AtOnce, From::Everywhere);

/// Small calls, as in SCMP's experiments.
fn contact(name: impl Into<String>, rtt: u64, (clients, calls, leaves, from): Visitors) -> Cell {
    let work = Work::Contact { clients, calls, leaves, from };
    Cell { bytes: SMALL, ..cell(name, Wire::link(1_000.0, rtt, Loss::None), work) }
}

fn at_distances(visitors: Visitors) -> Vec<Cell> {
    [0, 10, 100].map(|rtt| contact(format!("RTT {rtt} ms"), rtt, visitors)).into()
}

fn one_way_loss() -> Scenario {
    let link = |loss| Wire::link(100.0, 10, loss);
    let mut cells: Vec<Cell> =
        [0, 1, 5, 10, 20].map(|loss| cell(format!("{loss} %"), link(percent(loss)), Work::OneWay)).into();
    let bursts = Loss::Bursts { share: 0.05, length: 10.0 };
    cells.push(cell("5 % in bursts", link(bursts), Work::OneWay));
    let about = "one way, 100 Mbit/s, RTT 10 ms, loss each way; bursts have a mean length of 10";
    Scenario { name: "one-way-loss", about, cells, peers: &[] }
}

fn calls(loss: u32, name: &'static str) -> Scenario {
    let actors = [1, 10, 100, 400];
    let cells = actors.map(|actors| {
        let name = if actors == 1 { "1 actor".to_owned() } else { format!("{actors} actors") };
        cell(name, Wire::link(100.0, 10, percent(loss)), Work::Calls { actors })
    });
    let about = match loss {
        0 => "calls, 100 Mbit/s, RTT 10 ms, no loss",
        1 => "calls, 100 Mbit/s, RTT 10 ms, loss of 1 % each way",
        _ => "calls, 100 Mbit/s, RTT 10 ms, loss of 5 % each way",
    };
    Scenario { name, about, cells: cells.into(), peers: &[] }
}

fn links(name: &'static str, about: &'static str, work: Work) -> Scenario {
    let mut cells = Vec::new();
    for mbit in [1, 10, 100] {
        for rtt in [6, 10, 100] {
            let wire = Wire::link(f64::from(mbit), rtt, Loss::None);
            cells.push(cell(format!("{mbit} Mbit/s, {rtt} ms"), wire, work));
        }
    }
    Scenario { name, about, cells, peers: &[] }
}

fn rough(name: &'static str, about: &'static str, work: Work) -> Scenario {
    let cells = [
        ("10 % held back for 3 ms", Trouble::Reordering),
        ("10 % doubled", Trouble::Duplication),
        ("nothing for 0.2 s of each second", Trouble::Outages),
    ];
    let cells = cells.map(|(name, trouble)| cell(name, Wire::Rough(trouble), work));
    Scenario { name, about, cells: cells.into(), peers: &[] }
}

fn codel() -> Scenario {
    let signals = [("drops", Signal::Drop), ("marks", Signal::Mark)];
    let of = |rtt| {
        signals.map(|(does, signal)| {
            cell(format!("RTT {rtt} ms, CoDel {does}"), Wire::Codel { rtt, signal }, Work::OneWay)
        })
    };
    Scenario {
        name: "one-way-codel",
        about: "one way, 100 Mbit/s, a queue that CoDel keeps short by drops or by marks",
        cells: [of(10), of(40)].concat(),
        peers: &["exonet", "tcp-cubic", "tcp-bbr", "quinn-cubic", "quinn-bbr"],
    }
}

fn share() -> Scenario {
    let rival = |name: &str, rival, wire| Cell {
        rival: Some(rival),
        span: Some(30),
        ..cell(name, wire, Work::OneWay)
    };
    let plain = || Wire::link(100.0, 10, Loss::None);
    let codel = |signal| Wire::Codel { rtt: 40, signal };
    Scenario {
        name: "share",
        about: "one way beside another flow, 100 Mbit/s, RTT 10 ms; with CoDel 40 ms",
        cells: vec![
            rival("beside TCP (CUBIC)", "tcp-cubic", plain()),
            rival("beside TCP (BBR)", "tcp-bbr", plain()),
            rival("beside Exonet", "exonet", plain()),
            rival("beside TCP (CUBIC), CoDel drops", "tcp-cubic", codel(Signal::Drop)),
            rival("beside TCP (CUBIC), CoDel marks", "tcp-cubic", codel(Signal::Mark)),
        ],
        peers: &["exonet", "tcp-cubic", "tcp-bbr", "quinn-bbr"],
    }
}

fn cable() -> Scenario {
    let cells = [KILOBYTE, SMALL].map(|bytes| {
        let name = if bytes == KILOBYTE { "1,024 bytes" } else { "64 bytes" };
        Cell { bytes, ..cell(name, Wire::Cable, Work::OneWay) }
    });
    Scenario { name: "cable", about: "one way, no emulator", cells: cells.into(), peers: &[] }
}

/// Those of these names.
pub(crate) fn find(names: &[String]) -> Result<Vec<Scenario>> {
    let mut chosen = Vec::new();
    for name in names {
        let Some(scenario) = all().into_iter().find(|scenario| scenario.name == name) else {
            bail!("there is no scenario {name:?}; `lab list` names them");
        };
        chosen.push(scenario);
    }
    Ok(chosen)
}

/// Prints names; always fine.
pub(crate) fn list() -> bool {
    println!("Scenarios");
    for scenario in all() {
        let cells: Vec<&str> = scenario.cells.iter().map(|cell| cell.name.as_str()).collect();
        println!("  {:<14} {}\n  {:<14}   {}", scenario.name, scenario.about, "", cells.join(" | "));
    }
    println!("\nPeers");
    for peer in peer::all() {
        println!("  {:<14} {}: {}", peer.name, peer.label, peer.tuning);
        if let Some(why) = peer.missing() {
            println!("  {:<14}   SKIPPED: {why}", "");
        }
    }
    true
}
