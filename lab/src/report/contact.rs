//! `docs/first-contact.md`: what a call costs to a server that the client has never met.

use std::fmt::Write as _;

use super::bars::{Bar, Bars};
use super::chart::{Chart, Line, Panel};
use super::figures::Figure;
use super::table::Medians;
use crate::app::Work;
use crate::peer::{self, Peer};
use crate::run::{Contact, Record, Traffic};
use crate::scenario::Cell;
use crate::stats::figure;

/// A sum over the calls of a run, for each call.
#[allow(clippy::cast_precision_loss)] // far below 2^53
fn per_call(of: impl Fn(&Contact) -> u64) -> impl Fn(&Record) -> f64 {
    move |record| {
        record.contact.as_ref().map_or(0.0, |contact| of(contact) as f64 / contact.calls.max(1) as f64)
    }
}

fn datagrams(contact: &Contact) -> u64 {
    contact.calling.total().0 + contact.leaving.total().0
}

fn bytes(contact: &Contact) -> u64 {
    contact.calling.total().1 + contact.leaving.total().1
}

/// A measure: its name, and a value of which the least is the best.
type Measure = (&'static str, Box<dyn Fn(&Record) -> f64>);

fn measures() -> Vec<Measure> {
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let memory = |record: &Record| record.server_rss as f64 / 1e6;
    vec![
        ("latency p50, ms", Box::new(|record: &Record| record.latency.p50)),
        ("latency p99, ms", Box::new(|record: &Record| record.latency.p99)),
        ("datagrams a call", Box::new(per_call(datagrams))),
        ("bytes a call", Box::new(per_call(bytes))),
        (
            "server's processor, ms a call",
            Box::new(|record: &Record| {
                record
                    .contact
                    .as_ref()
                    .map_or(0.0, |contact| contact.server_cpu * 1e3 / contact.calls.max(1) as f64)
            }),
        ),
        ("server's peak memory, MB", Box::new(memory)),
    ]
}

/// The page, with figures of these names.
pub(super) fn page(all: &[Medians<'_>], figures: &[&str], notes: &[String]) -> String {
    let mut page = String::from(
        "# First contact\n\n\
         This page measures the cost of a first call between a client and a server that have never met: SCMP's two experiments,\n\
         with transports of today. The page and its figures are made by these commands:\n\n\
         <!-- not run: it needs root, and hours -->\n\
         ```sh\n\
         cd lab\n\
         cargo run --release -- run first-contact scmp-one-client scmp-many-clients --docs ../docs\n\
         cargo run --release -- report\n\
         ```\n\n\
         A request and its answer have 64 bytes each. Before it begins, a client has its identity (Exonet: a fresh key), its\n\
         socket and its configuration. The time runs from there until the answer has arrived, connecting included. Datagrams and\n\
         bytes are those of IP, in both directions, from the emulator's own counters (1 Gbit/s, no loss), including what the client\n\
         sends when it leaves. With 1,000 clients, one begins every 5 ms, in a /24 of its own unless the row says otherwise, and\n\
         leaves as soon as it has the answer. A client that stays waits until the link is quiet; then its leaving is counted. Peak\n\
         memory is that of the whole process.\n\n\
         **The transports promise different things.** UDP repeats nothing and authenticates nothing: it shows the least that a call\n\
         can cost. TCP is not encrypted. TLS, QUIC and gRPC authenticate the server, by a certificate that the client was given;\n\
         Exonet authenticates both ends, by the key in the server's address. QUIC 0-RTT needs an earlier visit, whose packets are\n\
         counted separately, and an attacker that repeats the client's early datagram can make the request run twice. Exonet's\n\
         first call runs at most once, without an earlier visit. Its early request, like QUIC's, has no forward secrecy against\n\
         theft of the server's key.\n\n\
         **Limits have an effect.** A node limits its public-key work for unknown clients of one network (a /24): beyond about 500 a\n\
         second, it asks a new client from there to prove its address, which takes another round trip and two more datagrams. The\n\
         row of 1,000 clients at one address shows this. For a lone first call PROTOCOL.md promises one round trip and three\n\
         datagrams, a fourth that acknowledges the third unless the third said farewell, and a fifth from a client that leaves\n\
         later. These counters check that; the results are below.\n\n",
    );
    page.push_str("Each run is in `first-contact/results.tsv`. Measured: commit, machine.\n\n");
    for note in notes {
        let _ = writeln!(page, "* {note}");
    }
    page.push('\n');
    page.push_str(&losses(all));
    for medians in all {
        page.push_str(&section(medians, figures));
    }
    page.push_str("## How each is set up\n\n| | |\n|---|---|\n");
    let takes_part = |peer: &&Peer| {
        all.iter().any(|medians| medians.scenario.cells.iter().any(|cell| peer.does(cell.work)))
    };
    for peer in peer::all().filter(takes_part) {
        let _ = writeln!(page, "| {} | {} |", peer.label, tuning(peer));
    }
    page
}

/// How a peer that makes calls in another way than it sends messages is set up.
fn tuning(peer: &Peer) -> &'static str {
    match peer.name {
        "exonet" => "`Peer::call` and `Node::serve`, all as by default",
        "tcp-cubic" => "TCP_NODELAY, length-prefixed messages; not encrypted",
        "quinn-cubic" => {
            "a stream for each call; the server has a certificate (P-256), the client none; no session is resumed"
        }
        "udp-echo" => "a datagram and its copy; nothing is repeated, or encrypted",
        _ => peer.tuning,
    }
}

/// The first section: where other transports are better.
fn losses(all: &[Medians<'_>]) -> String {
    let mut text = String::from(
        "## Where Exonet loses\n\n\
         The table has every measure in which another transport is more than 3 % better, with the best of all and the best that \
         is encrypted. It leaves out UDP's echo, to which every transport loses.\n\n\
         | | | | best | | best encrypted | | Exonet |\n\
         |---|---|---|---|---:|---|---:|---:|\n",
    );
    for medians in all {
        for cell in &medians.scenario.cells {
            for (name, value) in measures() {
                let Some(ours) = medians.median(&cell.name, "exonet", &value) else { continue };
                let best = |fits: &dyn Fn(&Peer) -> bool| {
                    let others = medians.peers().into_iter().filter(|peer| fits(peer));
                    let values = others
                        .filter_map(|peer| Some((peer, medians.median(&cell.name, peer.name, &value)?)));
                    let best =
                        values.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, theirs)| theirs * 1.03 < ours);
                    best.map(|(peer, theirs)| format!("{} | {}", peer.label, figure(theirs)))
                };
                let Some(of_all) = best(&|peer| peer.reliable && peer.name != "exonet") else { continue };
                let encrypted = best(&|peer| peer.reliable && !["exonet", "tcp-cubic"].contains(&peer.name));
                let encrypted = encrypted.unwrap_or_else(|| "- | -".into());
                let (scenario, ours) = (medians.scenario.name, figure(ours));
                let _ = writeln!(
                    text,
                    "| {scenario} | {} | {name} | {of_all} | {encrypted} | {ours} |",
                    cell.name
                );
            }
        }
    }
    text.push('\n');
    text
}

fn section(medians: &Medians<'_>, figures: &[&str]) -> String {
    let mut text =
        format!("## {}\n\n`{}`\n\n", super::capital(medians.scenario.about), medians.scenario.name);
    for name in shown_in(medians.scenario.name).iter().filter(|name| figures.contains(name)) {
        let _ = writeln!(text, "![{name}](first-contact/{name}.svg)\n");
    }
    for cell in &medians.scenario.cells {
        text.push_str(&table(medians, cell));
    }
    if let Some(late) = medians.lateness() {
        let (median, most) = (figure(late.median), figure(late.most));
        let _ = writeln!(
            text,
            "The emulator's own error, p99: {median} ms in the median run, {most} ms in the worst.\n"
        );
    }
    for (cell, told) in medians.promises() {
        let _ = writeln!(text, "* Exonet, {cell}: {told}");
    }
    for fault in medians.faults() {
        let _ = writeln!(text, "* Does not count: {fault}");
    }
    text.push('\n');
    text
}

fn shown_in(scenario: &str) -> &'static [&'static str] {
    match scenario {
        "first-contact" => &["datagrams"],
        "scmp-one-client" => &["latency"],
        "scmp-many-clients" => &["cost"],
        _ => &[],
    }
}

/// A row for each peer.
fn table(medians: &Medians<'_>, cell: &Cell) -> String {
    let runs = medians.most_runs();
    let calls = medians
        .peers()
        .iter()
        .find_map(|peer| medians.median(&cell.name, peer.name, per_run))
        .map_or_else(String::new, figure);
    let mut text = format!(
        "{}: {calls} calls a run, medians of {runs} runs; ± is the distance of the farthest run.\n\n\
         | | p50, ms | p99, ms | datagrams a call: there + back, leaving | bytes a call | server's processor, ms a call | server's peak memory, MB \
         | earlier visit: datagrams, bytes a client |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
        cell.name
    );
    let (clients, all_calls) = match cell.work {
        Work::Contact { clients, calls, .. } => (f64::from(clients), f64::from(clients) * f64::from(calls)),
        _ => (1.0, 1.0),
    };
    for peer in medians.peers() {
        let of = |value: &dyn Fn(&Record) -> f64| {
            medians.median(&cell.name, peer.name, value).map_or_else(|| "-".into(), figure)
        };
        if medians.median(&cell.name, peer.name, per_run).is_none() {
            continue;
        }
        let values: Vec<String> = measures().iter().map(|(_, value)| of(value)).collect();
        let [p50, p99, _, bytes, cpu, memory] = values.as_slice() else { continue };
        let lane = |side: usize| per_call(move |contact| *contact.calling.datagrams.get(side).unwrap_or(&0));
        let visit = |part: fn(&Traffic) -> u64| {
            let calls_per_client =
                medians.median(&cell.name, peer.name, per_run).unwrap_or(all_calls) / clients;
            medians
                .median(&cell.name, peer.name, per_call(move |contact| part(&contact.visit)))
                .map_or(0.0, |per_call| per_call * calls_per_client)
        };
        let visits = match visit(|traffic| traffic.total().0) {
            0.0 => "-".to_owned(),
            datagrams => format!("{}, {}", figure(datagrams), figure(visit(|traffic| traffic.total().1))),
        };
        let name = if peer.name == "exonet" { format!("**{}**", peer.label) } else { peer.label.to_owned() };
        let _ = writeln!(
            text,
            "| {name} | {p50} | {p99} | {} + {}, {} | {bytes} | {cpu} | {memory} | {visits} |",
            of(&lane(0)),
            of(&lane(1)),
            of(&per_call(|contact| contact.leaving.total().0)),
        );
    }
    text.push('\n');
    text
}

#[allow(clippy::cast_precision_loss)] // a few thousand
fn per_run(record: &Record) -> f64 {
    record.contact.as_ref().map_or(0.0, |contact| contact.calls as f64)
}

/// All figures that have results.
pub(super) fn figures(all: &[Medians<'_>]) -> Vec<Figure> {
    let of = |name: &str| all.iter().find(|medians| medians.scenario.name == name);
    let mut figures = Vec::new();
    if let (Some(one), Some(many)) = (of("scmp-one-client"), of("scmp-many-clients")) {
        figures.push(("latency", latency(one, many)));
    }
    if let Some(lone) = of("first-contact") {
        figures.push(("datagrams", packets(lone)));
    }
    if let Some(many) = of("scmp-many-clients") {
        figures.push(("cost", cost(many)));
    }
    figures
}

/// Cells that differ by the round-trip time alone.
fn distances<'a>(medians: &Medians<'a>) -> impl Iterator<Item = &'a Cell> {
    medians.scenario.cells.iter().filter(|cell| !cell.name.contains(','))
}

fn latency(one: &Medians<'_>, many: &Medians<'_>) -> super::svg::Drawing {
    let panel = |title: &str, medians: &Medians<'_>, y_label: &str, value: fn(&Record) -> f64| {
        let line = |peer: &'static Peer| Line {
            peer: peer.name.to_owned(),
            label: peer.label.to_owned(),
            values: distances(medians).map(|cell| medians.median(&cell.name, peer.name, value)).collect(),
        };
        Panel {
            title: title.into(),
            x_label: "round-trip time".into(),
            steps: distances(medians).map(|cell| cell.name.replace("RTT ", "")).collect(),
            y_label: y_label.into(),
            logarithmic: true,
            lines: medians.peers().into_iter().map(line).collect(),
        }
    };
    Chart {
        title: "Latency of calls: 64 bytes each way, no loss".into(),
        panels: vec![
            panel("1,000 clients, one call each", many, "p50, ms", |record| record.latency.p50),
            panel("1,000 clients, one call each", many, "p99, ms", |record| record.latency.p99),
            panel("One client, 1,000 calls", one, "p50, ms", |record| record.latency.p50),
        ],
    }
    .draw()
}

/// A bar for each peer, with a value of one cell.
fn bars(
    medians: &Medians<'_>,
    cell: &str,
    value: &dyn Fn(&Record) -> f64,
    note: &dyn Fn(&Peer) -> String,
) -> Vec<Bar> {
    let bar = |peer: &'static Peer| {
        let value = medians.median(cell, peer.name, value)?;
        let text = format!("{}{}", figure(value), note(peer));
        Some(Bar { label: peer.label.to_owned(), parts: vec![(peer.name.to_owned(), value)], text })
    };
    medians.peers().into_iter().filter_map(bar).collect()
}

fn packets(medians: &Medians<'_>) -> super::svg::Drawing {
    let calling = per_call(|contact| contact.calling.total().0);
    let note = |cell: &str, peer: &Peer| {
        let more =
            |of: fn(&Contact) -> u64| medians.median(cell, peer.name, per_call(of)).unwrap_or_default();
        let (leaving, visit) =
            (more(|contact| contact.leaving.total().0), more(|contact| contact.visit.total().0));
        let more = [(leaving, "to leave"), (visit, "in an earlier visit")];
        let more = more.iter().filter(|(datagrams, _)| *datagrams > 0.0);
        more.map(|(datagrams, what)| format!(" + {datagrams} {what}")).collect()
    };
    let cells = medians.scenario.cells.iter().map(|cell| &cell.name);
    Bars {
        title: "One call of a server that the client has never met".into(),
        unit: "datagrams, both directions, until the link is quiet; then those of leaving, and of an earlier visit".into(),
        logarithmic: false,
        groups: cells.map(|cell| (cell.clone(), bars(medians, cell, &calling, &|peer| note(cell, peer)))).collect(),
    }
    .draw()
}

fn cost(medians: &Medians<'_>) -> super::svg::Drawing {
    let cell = "RTT 10 ms";
    let none = |_: &Peer| String::new();
    let group = |title: &str, wanted: &str| {
        let measure = measures().into_iter().find(|(name, _)| *name == wanted);
        let mut bars = measure.map(|(_, value)| bars(medians, cell, &value, &none)).unwrap_or_default();
        let most = bars.iter().flat_map(|bar| &bar.parts).map(|(_, value)| *value).fold(1e-9, f64::max);
        bars.iter_mut().flat_map(|bar| &mut bar.parts).for_each(|(_, value)| *value /= most);
        (title.to_owned(), bars)
    };
    Bars {
        title: "1,000 clients that the server has never met, one call each".into(),
        unit: "RTT 10 ms; with leaving, without an earlier visit; each group to its own scale".into(),
        logarithmic: false,
        groups: vec![
            group("Datagrams a call", "datagrams a call"),
            group("IP bytes a call", "bytes a call"),
            group("Processor time of the server, ms a call", "server's processor, ms a call"),
            group("Peak memory of the server, MB", "server's peak memory, MB"),
        ],
    }
    .draw()
}
