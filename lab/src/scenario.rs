//! The table of everything that is measured.

mod cold;
mod durable;
mod group;
mod sessions;

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
    invited: Invited,
}

/// Which peers take part, of those that can.
#[derive(Clone, Copy)]
enum Invited {
    /// Each in its principal configurations.
    Principal,
    /// In all of them.
    All,
    /// Only these, and why.
    Only(&'static [&'static str], &'static str),
}

/// Configurations that are compared where the software is the limit, and where many messages come at once.
const VARIANTS: &[&str] = &[
    "exonet-single",
    "exonet-sends",
    "exonet-window-1",
    "exonet-window-32",
    "exonet-window-128",
    "quinn-cubic-1",
    "quinn-bbr-1",
];

/// One row: every peer does it.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) wire: Wire,
    pub(crate) work: Work,
    pub(crate) bytes: usize,
    /// Another flow on the same link.
    pub(crate) rival: Option<&'static str>,
    /// Where time is short, cells of the highest rank are left out first.
    pub(crate) rank: u8,
    /// The shortest run that tells something, and a good one, in s.
    pub(crate) spans: [f64; 2],
    /// Peers that leave this cell out: it would say what another says.
    without: &'static [&'static str],
}

/// The connection between the hosts.
#[derive(Clone, Copy)]
pub(crate) enum Wire {
    /// Mbit/s forward and back, the round-trip time in ms, and the loss each way.
    Link { mbit: [f64; 2], rtt: u64, loss: Loss },
    /// 100 Mbit/s and 10 ms, on which packets are held back, doubled, or come to nothing for a while.
    Rough(Trouble),
    /// 100 Mbit/s, the round-trip time in ms, and CoDel, which signals so; the queue holds four bandwidth-delay products, so
    /// that CoDel is what keeps it short.
    Codel { rtt: u64, signal: Signal },
    /// Members that each have their own link.
    Star([Spoke; 3]),
    /// A virtual cable.
    Cable,
}

/// A member's link: Mbit/s, the round-trip time in ms, and the loss each way.
#[derive(Clone, Copy)]
pub(crate) struct Spoke {
    pub(crate) mbit: f64,
    pub(crate) rtt: u64,
    pub(crate) loss: Loss,
}

/// A fault of a link, in both directions.
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

    /// The shapes of the members' own links, forward and back.
    pub(crate) fn spokes(self) -> Vec<[Shape; 2]> {
        let Self::Star(spokes) = self else { return Vec::new() };
        let shape = |it: Spoke| Shape::new(it.mbit, Duration::from_millis(it.rtt), it.loss);
        spokes.map(|spoke| [shape(spoke), shape(spoke)]).into()
    }

    /// Forward and back; None: a cable, or links of members.
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
            Self::Star(_) | Self::Cable => None,
        }
    }

    /// How many messages of so many bytes Exonet could deliver a second, one way, if nothing but its headers and loss took
    /// anything. None where no link limits it.
    #[allow(clippy::cast_precision_loss)] // small
    pub(crate) fn ceiling(self, bytes: usize) -> Option<f64> {
        /// A packet of the link, all of them full.
        const PACKET: usize = 1_500;
        /// IPv4, UDP, a data packet's header and tag, and MESSAGES with the length of the message that it goes on with.
        const HEADERS: usize = 20 + 8 + 9 + 16 + 8 + 2;
        /// The bytes before the body of a message.
        const HEAD: usize = 3;
        let (forward, loss) = match self {
            Self::Link { mbit: [forward, _], loss, .. } => (forward, loss),
            Self::Codel { .. } => (100.0, Loss::None),
            Self::Rough(_) | Self::Star(_) | Self::Cable => return None,
        };
        let lost = match loss {
            Loss::None => 0.0,
            Loss::Random(share) | Loss::Bursts { share, .. } => share,
        };
        let carried = (PACKET - HEADERS) as f64 / PACKET as f64;
        Some(forward * 1e6 / 8.0 * carried / (bytes + HEAD) as f64 * (1.0 - lost))
    }

    pub(crate) fn round_trip(self) -> Duration {
        match self {
            Self::Link { rtt, .. } | Self::Codel { rtt, .. } => Duration::from_millis(rtt),
            Self::Rough(_) => Duration::from_millis(10),
            Self::Star(spokes) => {
                Duration::from_millis(spokes.iter().map(|spoke| spoke.rtt).max().unwrap_or_default())
            }
            Self::Cable => Duration::ZERO,
        }
    }

    /// About how long what a sender has queued takes to leave, in s: four times what the link holds, 256 KiB at least.
    fn queued(self) -> f64 {
        let Self::Link { mbit: [forward, _], .. } = self else { return 0.0 };
        (0.25 * 1.05 * 8.0 / forward).max(8.0 * self.round_trip().as_secs_f64())
    }

    const fn loses(self) -> bool {
        matches!(self, Self::Link { loss: Loss::Random(_) | Loss::Bursts { .. }, .. })
    }

    /// Before figures mean anything: a while, shorter where there is a hurry, and 20 round trips.
    pub(crate) fn warm_up(self, hurry: bool) -> Duration {
        Duration::from_millis(if hurry { 500 } else { 1_000 }) + self.round_trip() * 20
    }
}

impl Cell {
    const fn is_contact(&self) -> bool {
        matches!(self.work, Work::Contact { .. })
    }

    fn ranks(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    fn takes(self, spans: [f64; 2]) -> Self {
        Self { spans, ..self }
    }

    /// The approximate length of a run of `span` seconds, with start and end, in s.
    pub(crate) fn cost(&self, span: f64, warm_up: Duration) -> f64 {
        /// Hosts, processes, and what is under way at the end.
        const AROUND: f64 = 0.6;
        #[allow(clippy::cast_precision_loss)] // ms
        let round_trip = self.wire.round_trip().as_millis() as f64 / 1e3;
        let all = match self.work {
            Work::Cold { .. } if self.wire.loses() => 0.8 + 15.0 * round_trip,
            Work::Cold { .. } => 0.6 + 8.0 * round_trip,
            Work::Crowd { .. } => 12.0 + span,
            Work::Contact { clients, calls, .. } => {
                8.0 + f64::from(clients) * 0.005 + f64::from(calls) * round_trip
            }
            Work::Download { .. } => 15.0,
            // Until what was given out to who has died comes again.
            Work::Durable { kills, .. } if kills > 0 => span + 8.0,
            Work::Calls { .. }
            | Work::Durable { .. }
            | Work::Sessions { .. }
            | Work::Lanes { .. }
            | Work::Fan { .. }
            | Work::Spread { .. } => warm_up.as_secs_f64() + span,
            Work::OneWay | Work::BothWays => warm_up.as_secs_f64() + span + self.wire.queued(),
        };
        AROUND + all
    }
}

impl Scenario {
    /// Whether the scenario is reported with first contact.
    pub(crate) fn is_contact(&self) -> bool {
        self.cells.iter().all(Cell::is_contact)
    }

    /// The peers that take part in a cell, out of those that were asked for.
    pub(crate) fn peers(&self, cell: &Cell, asked: &[String]) -> Vec<&'static Peer> {
        let wanted = |peer: &&Peer| asked.is_empty() || asked.iter().any(|name| name == peer.name);
        peer::all().filter(|peer| self.why_not(cell, peer).is_none()).filter(wanted).collect()
    }

    /// Why a peer takes no part in a cell.
    pub(crate) fn why_not(&self, cell: &Cell, peer: &Peer) -> Option<&'static str> {
        if let Some(why) = peer.cannot(cell.work) {
            return Some(why);
        }
        if !peer.reliable && !matches!(cell.wire, Wire::Cable) && !cell.is_contact() {
            return Some("it repeats nothing");
        }
        if cell.without.contains(&peer.name) {
            return Some("another cell says that");
        }
        match self.invited {
            Invited::All => None,
            Invited::Principal if cell.is_contact() => None,
            Invited::Principal => VARIANTS.contains(&peer.name).then_some("a variant"),
            Invited::Only(names, why) => (!names.contains(&peer.name)).then_some(why),
        }
    }
}

/// Whether a peer is another configuration of one that takes part in more.
pub(crate) fn is_variant(peer: &Peer) -> bool {
    VARIANTS.contains(&peer.name)
}

const KILOBYTE: usize = 1_024;
const SMALL: usize = 64;

fn cell(name: impl Into<String>, wire: Wire, work: Work) -> Cell {
    let spans = [1.2, 5.0];
    Cell { name: name.into(), wire, work, bytes: KILOBYTE, rival: None, rank: 0, spans, without: &[] }
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
            cells: vec![cell("50 Mbit/s, 200 ms", Wire::link(50.0, 200, Loss::None), Work::OneWay).ranks(2)],
            invited: Invited::Principal,
        },
        Scenario {
            name: "asymmetric",
            about: "both ways at once on one connection, 3 Mbit/s forward and 30 back, RTT 80 ms",
            cells: vec![
                cell(
                    "3/30 Mbit/s, 80 ms",
                    Wire::Link { mbit: [3.0, 30.0], rtt: 80, loss: Loss::None },
                    Work::BothWays,
                )
                .ranks(2)
                .takes([3.0, 10.0]),
            ],
            invited: Invited::Principal,
        },
        rough("one-way-rough", "one way, 100 Mbit/s, RTT 10 ms, trouble both ways", Work::OneWay),
        rough(
            "calls-rough",
            "calls of 100 actors, 100 Mbit/s, RTT 10 ms, trouble both ways",
            Work::Calls { actors: 100 },
        ),
        codel(),
        share(),
        group::head_of_line(),
        group::fan_out(),
        group::spread(),
        group::download(),
        cable(),
        Scenario {
            name: "cable-call",
            about: "a lone call of 64 bytes, no emulator",
            cells: vec![Cell { bytes: SMALL, ..cell("1 actor", Wire::Cable, Work::Calls { actors: 1 }) }],
            invited: Invited::Principal,
        },
        Scenario {
            name: "crowd",
            about: "10,000 clients, each sends 10 messages a second to one server, no emulator",
            cells: vec![
                cell("10,000 clients", Wire::Cable, Work::Crowd { clients: 10_000, per_second: 10 })
                    .takes([3.0, 8.0]),
            ],
            invited: Invited::Principal,
        },
        Scenario {
            name: "first-contact",
            about: "one client that the server has never met, one call",
            cells: vec![
                contact("RTT 100 ms, leaves at once", 100, ALONE),
                contact("RTT 100 ms, stays", 100, (1, 1, Leaves::WhenTold, From::Everywhere)),
            ],
            invited: Invited::Principal,
        },
        Scenario {
            name: "scmp-one-client",
            about: "one client that the server has never met, 1,000 calls",
            cells: at_distances((1, 1_000, Leaves::WhenTold, From::Everywhere)),
            invited: Invited::Principal,
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
            invited: Invited::Principal,
        },
        cold::cold_start(),
        cold::transfer(),
        sessions::sessions(),
        sessions::outages(),
        durable::durable(),
    ]
}

/// Clients, calls of each, when they leave and where they are.
type Visitors = (u32, u32, Leaves, From);

const ALONE: Visitors = (1, 1, Leaves::AtOnce, From::Everywhere);

/// Small calls, as in SCMP's experiments.
fn contact(name: impl Into<String>, rtt: u64, (clients, calls, leaves, from): Visitors) -> Cell {
    let work = Work::Contact { clients, calls, leaves, from };
    Cell { bytes: SMALL, ..cell(name, Wire::link(1_000.0, rtt, Loss::None), work) }.ranks(5)
}

fn at_distances(visitors: Visitors) -> Vec<Cell> {
    [0, 10, 100].map(|rtt| contact(format!("RTT {rtt} ms"), rtt, visitors)).into()
}

fn one_way_loss() -> Scenario {
    let link = |loss| Wire::link(100.0, 10, loss);
    let of = |(loss, rank)| cell(format!("{loss} %"), link(percent(loss)), Work::OneWay).ranks(rank);
    let mut cells: Vec<Cell> = [(0, 0), (1, 1), (5, 0), (10, 2), (20, 0)].map(of).into();
    let bursts = Loss::Bursts { share: 0.05, length: 10.0 };
    cells.push(cell("5 % in bursts", link(bursts), Work::OneWay).ranks(1));
    let about = "one way, 100 Mbit/s, RTT 10 ms, loss each way; bursts have a mean length of 10";
    Scenario { name: "one-way-loss", about, cells, invited: Invited::Principal }
}

fn calls(loss: u32, name: &'static str) -> Scenario {
    let actors: [(u32, u8); 4] = match loss {
        0 => [(1, 0), (10, 3), (100, 0), (400, 1)],
        1 => [(1, 3), (10, 1), (100, 2), (400, 2)],
        _ => [(1, 2), (10, 0), (100, 2), (400, 0)],
    };
    let cells = actors.map(|(actors, rank)| {
        let name = if actors == 1 { "1 actor".to_owned() } else { format!("{actors} actors") };
        // A hundred calls a second and actor: a lone one has few.
        let spans = if actors == 1 { [2.0, 8.0] } else { [1.2, 5.0] };
        cell(name, Wire::link(100.0, 10, percent(loss)), Work::Calls { actors }).ranks(rank).takes(spans)
    });
    let about = match loss {
        0 => "calls, 100 Mbit/s, RTT 10 ms, no loss",
        1 => "calls, 100 Mbit/s, RTT 10 ms, loss of 1 % each way",
        _ => "calls, 100 Mbit/s, RTT 10 ms, loss of 5 % each way",
    };
    Scenario { name, about, cells: cells.into(), invited: Invited::Principal }
}

fn links(name: &'static str, about: &'static str, work: Work) -> Scenario {
    let mut cells = Vec::new();
    for mbit in [1, 10, 100] {
        for rtt in [6, 10, 100] {
            let wire = Wire::link(f64::from(mbit), rtt, Loss::None);
            let rank = match (work, mbit, rtt) {
                (Work::OneWay, 10, 100) => 0,
                (_, 10 | 100, 100) => 1,
                (_, 10, 10) | (Work::OneWay, 1, 10) => 2,
                // Other scenarios measure these too.
                (_, 100, 10) => 4,
                _ => 3,
            };
            // What a full queue held back at the beginning counts: on a slow link it is a second's worth.
            let spans = if mbit == 1 { [7.0, 30.0] } else { [1.2, 5.0] };
            cells.push(cell(format!("{mbit} Mbit/s, {rtt} ms"), wire, work).ranks(rank).takes(spans));
        }
    }
    Scenario { name, about, cells, invited: Invited::Principal }
}

fn rough(name: &'static str, about: &'static str, work: Work) -> Scenario {
    let cells = [
        ("10 % held back for 3 ms", Trouble::Reordering),
        ("10 % doubled", Trouble::Duplication),
        ("nothing for 0.2 s of each second", Trouble::Outages),
    ];
    let cells =
        cells.map(|(name, trouble)| cell(name, Wire::Rough(trouble), work).ranks(3).takes([2.0, 5.0]));
    Scenario { name, about, cells: cells.into(), invited: Invited::Principal }
}

fn codel() -> Scenario {
    let signals = [("drops", Signal::Drop), ("marks", Signal::Mark)];
    let of = |rtt| {
        signals.map(|(does, signal)| {
            cell(format!("RTT {rtt} ms, CoDel {does}"), Wire::Codel { rtt, signal }, Work::OneWay).ranks(3)
        })
    };
    Scenario {
        name: "one-way-codel",
        about: "one way, 100 Mbit/s, a queue that CoDel keeps short by drops or by marks",
        cells: [of(10), of(40)].concat(),
        invited: Invited::Only(
            &["exonet", "tcp-cubic", "tcp-bbr", "quinn-cubic", "quinn-bbr"],
            "it is about congestion control that is in wide use",
        ),
    }
}

fn share() -> Scenario {
    let rival = |name: &str, rival, wire, rank| Cell {
        rival: Some(rival),
        ..cell(name, wire, Work::OneWay).ranks(rank).takes([6.0, 30.0])
    };
    let plain = || Wire::link(100.0, 10, Loss::None);
    let codel = |signal| Wire::Codel { rtt: 40, signal };
    let ours = Cell { without: &["tcp-cubic", "tcp-bbr"], ..rival("beside Exonet", "exonet", plain(), 0) };
    Scenario {
        name: "share",
        about: "one way beside another flow, 100 Mbit/s, RTT 10 ms; with CoDel 40 ms",
        cells: vec![
            rival("beside TCP (CUBIC)", "tcp-cubic", plain(), 0),
            Cell { without: &["tcp-cubic"], ..rival("beside TCP (BBR)", "tcp-bbr", plain(), 0) },
            ours,
            rival("beside TCP (CUBIC), CoDel drops", "tcp-cubic", codel(Signal::Drop), 3),
            rival("beside TCP (CUBIC), CoDel marks", "tcp-cubic", codel(Signal::Mark), 3),
        ],
        invited: Invited::Only(
            &["exonet", "tcp-cubic", "tcp-bbr", "quinn-bbr"],
            "a share takes long to settle, so only congestion controls in wide use are measured",
        ),
    }
}

fn cable() -> Scenario {
    let cells = [KILOBYTE, SMALL].map(|bytes| {
        let name = if bytes == KILOBYTE { "1,024 bytes" } else { "64 bytes" };
        Cell { bytes, ..cell(name, Wire::Cable, Work::OneWay) }
    });
    Scenario { name: "cable", about: "one way, no emulator", cells: cells.into(), invited: Invited::All }
}

/// The scenarios with these names.
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
