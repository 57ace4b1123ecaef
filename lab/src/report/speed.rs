//! `docs/speed.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::capital;
use super::table::Medians;
use crate::app::Work;
use crate::peer::{self, Peer};
use crate::run::Record;
use crate::scenario::{Cell, Scenario, is_variant};
use crate::stats::figure;

/// A smaller difference is noise.
const NOISE: f64 = 1.03;

/// The page, with figures of these names. `not`: cells without results.
pub(super) fn page(all: &[Medians<'_>], not: &[Medians<'_>], figures: &[&str], notes: &[String]) -> String {
    let mut page = String::from(
        "# Speed\n\n\
         This page compares Exonet with other transports, on emulated links and without. The page and its figures are made from\n\
         `speed/results.tsv`, which has each run, by these commands:\n\n\
         <!-- not run: it needs root, and hours -->\n\
         ```sh\n\
         cd lab\n\
         cargo run --release -- all --minutes 35 --docs ../docs\n\
         cargo run --release -- report\n\
         ```\n\n\
         `lab/README.md` says how the lab measures, and what it needs. A figure is the median of its runs; ± is the distance of the\n\
         run that is farthest from the median. Compare only within a row: different machines, and different minutes of a shared one,\n\
         differ by more than that. A rate above the capacity of the link does not count.\n\n",
    );
    page.push_str("Each line names a commit and the machine that measured it. The end of the page lists what was not measured.\n\n");
    for note in notes {
        let _ = writeln!(page, "* {note}");
    }
    page.push('\n');
    page.push_str(&losses(all));
    for medians in all {
        page.push_str(&section(medians, figures));
    }
    let left: Vec<String> = not
        .iter()
        .map(|one| one.scenario.about.to_owned())
        .chain(all.iter().filter_map(|one| {
            let cells = one.unmeasured();
            (!cells.is_empty()).then(|| format!("{}: {}", one.scenario.about, cells.join("; ")))
        }))
        .collect();
    if !left.is_empty() {
        page.push_str("## What was left out\n\nThere was no time to measure these:\n\n");
        left.iter().for_each(|one| {
            let _ = writeln!(page, "* {one}");
        });
        page.push('\n');
    }
    page.push_str("## How each is set up\n\n| | |\n|---|---|\n");
    for peer in peer::all().filter(|peer| peer.does(Work::OneWay) || peer.does(Work::Calls { actors: 1 })) {
        let _ = writeln!(page, "| {} | {} |", peer.label, peer.tuning);
    }
    page
}

/// A figure that is compared: its name, its value where it has one, and whether more is better.
type Measure = (&'static str, fn(&Cell, &Record) -> Option<f64>, bool);

const MEASURES: [Measure; 6] = [
    ("messages or calls/s", |_, it| Some(it.rate + it.rate_back).filter(|_| it.killed.is_none()), true),
    ("p50, ms", |cell, it| timed(cell).then_some(it.latency.p50), false),
    ("p99, ms", |cell, it| timed(cell).then_some(it.latency.p99), false),
    ("last arrived, ms", |_, it| it.cold.map(|cold| cold.arrived), false),
    ("processor s per million", |_, it| Some(it.cpu_per_million).filter(|cpu| *cpu > 0.0), false),
    ("IP bytes each", |_, it| it.wire_bytes_each, false),
];

const fn timed(cell: &Cell) -> bool {
    matches!(
        cell.work,
        Work::Calls { .. }
            | Work::Sessions { .. }
            | Work::Durable { kills: 0, .. }
            | Work::Lanes { .. }
            | Work::Fan { .. }
    )
}

/// The first section: where other transports are better.
fn losses(all: &[Medians<'_>]) -> String {
    let names = MEASURES.map(|(name, _, _)| name).join(" | ");
    let mut text = format!(
        "## Where Exonet loses\n\n\
         These are the rows in which another transport is more than 3 % better by some figure. Each row gives the best\n\
         transport, its figure, and Exonet's. In the rows of calls, Exonet answers a message with a message;\n\
         `Peer::call` has rows of its own.\n\n\
         | | | {names} |\n\
         |---|---|{}\n",
        "---|".repeat(MEASURES.len())
    );
    let (mut rows, mut lost) = (0, 0);
    for medians in all {
        for (cell, ours) in medians.scenario.cells.iter().flat_map(|cell| OURS.map(|ours| (cell, ours))) {
            if cell.rival.is_some() || !medians.counts(&cell.name, ours) {
                continue;
            }
            rows += 1;
            let better = MEASURES.map(|measure| better(medians, cell, ours, measure));
            if better.iter().all(Option::is_none) {
                continue;
            }
            lost += 1;
            let better = better.map(|better| better.unwrap_or_default()).join(" | ");
            let how = match ours {
                "exonet-calls" => ", `Peer::call`",
                "exonet-process" => ", `Process`",
                "exonet-sync" => ", `Sync`",
                _ => "",
            };
            let _ = writeln!(text, "| {}{how} | {} | {better} |", medians.scenario.about, cell.name);
        }
    }
    let _ = writeln!(text, "\n{lost} of {rows} rows.\n");
    text
}

const OURS: [&str; 4] = ["exonet", "exonet-calls", "exonet-process", "exonet-sync"];

/// The best peer, if it is better by more than noise, with its value and ours.
fn better(medians: &Medians<'_>, cell: &Cell, ours: &str, (_, value, more): Measure) -> Option<String> {
    let of =
        |peer: &str| medians.spread_some(&cell.name, peer, |record| value(cell, record)).map(|it| it.median);
    let own = of(ours)?;
    let others = medians.peers().into_iter().filter(|peer| peer.reliable && !peer.name.starts_with("exonet"));
    let values = others.filter_map(|peer| Some((peer, of(peer.name)?)));
    let rank = |value: f64| if more { -value } else { value };
    let (best, theirs) = values.min_by(|a, b| rank(a.1).total_cmp(&rank(b.1)))?;
    let ahead = if more { theirs > own * NOISE } else { theirs * NOISE < own };
    ahead.then(|| format!("{} {} : {}", best.label, figure(theirs), figure(own)))
}

fn section(medians: &Medians<'_>, figures: &[&str]) -> String {
    let scenario: &Scenario = medians.scenario;
    let mut text = format!("## {}\n\n", capital(scenario.about));
    for name in shown_in(scenario.name).iter().filter(|name| figures.contains(name)) {
        let _ = writeln!(text, "![{name}](speed/{name}.svg)\n");
    }
    let what = match scenario.name {
        name if name.contains("call") => {
            "Calls a second; median / 99th percentile of their latency in ms. A call is a message that a message answers; in \
             the row \"at most once\" it is `Peer::call`."
        }
        "transfer" => {
            "Time in ms from when the application handed over the first chunk, connecting included: until the last chunk had \
             arrived / until the sender knew that. With other transports, a message of one chunk's length tells the sender, \
             which takes 5 ms of the link, so compare the first figures. In \"1 open\" the application waits for the outcome \
             of each chunk; in \"Exonet\" the node chooses the window."
        }
        "cold-start" => {
            "Time in ms from when the application handed over all messages: until the last had arrived at the other end / \
             until the sender knew that. Exonet's calls are `Peer::call`, at most once."
        }
        "head-of-line" => {
            "Messages a second; median / 99th percentile of the delay in ms, from the time at which a message was due until \
             its reader had it. All transports have the same load, about half of the link's capacity. A lower rate means that \
             a connection could not keep up; the delay is then that of its queue. Each transport has 100 streams of its own \
             kind, except TCP, which has one connection for all. The last column is the baseline: one stream alone, with its \
             12 messages a second."
        }
        "fan-out" => {
            "Copies that arrived a second, at all members together; median / 99th percentile of the delay in ms, from the time at \
             which a message was due until a member had it; processor time of the sender for each copy that arrived, in us. All \
             members share one process. The row \"Exonet\" is `Mode::All`. The rows of Any and Quorum have as many \
             messages a second, each for all members. As soon as one member (Any), or half of the members, rounded up (Quorum), \
             have a message, the sender withdraws its other copies, so not every member gets each message. In these rows the \
             rate counts the copies that arrived all the same, and the delay of a message ends when the last of the required \
             members had it. A copy that was withdrawn is in the processor time, but not in the number of copies. In \
             the row of Balanced each message makes one copy, for one member (`k: 1`), and there are as many messages a second \
             as copies in the other rows. A lower rate there means that the sender could not keep up; the delay is then that of \
             its queue."
        }
        "spread" => {
            "Messages a second; median / 99th percentile of the delay in ms, from the time at which a message was due until \
             the sender knew the verdict; each member's share of all copies, near : far : lossy. A quorum is two of the three."
        }
        "download" => {
            "MB a second, from the start of the command to its end. The fastest server is the one that is killed."
        }
        "sessions" => {
            "Answered requests a second; median / 99th percentile of the time to the answer in ms. Requests and answers have \
             1,024 bytes. The server's work is a timer of tokio, which ends within the next ms and leaves the processor to \
             the transport; it is the same for all transports. Each client has its own connection, or its own node with a \
             key. All clients run in one process of one thread, and the server in another."
        }
        "sessions-outages" => {
            "Answered requests a second; median / 99th percentile of the time to the answer in ms; the longest. The longest \
             includes the whole outage, 200 ms, and up to a round trip before it: the time above 210 ms passes until the \
             sender notices the loss and repeats the request. No transport connects again, because none gives up within an \
             outage."
        }
        "durable" => {
            "Messages of 1,024 bytes that the receiving application acted on, a second; median / 99th percentile of the time \
             in ms from when the sender had a message until that application acted on it. The head of a column gives how many \
             messages are under way at a time, until another party has promised to keep them: the receiver's application \
             through its node (Exonet), the broker's files (JetStream), or the receiver through the table (outbox). With 1 \
             under way, the rate shows how long the promise takes. The application acts on a message by writing its number at \
             the end of a file, without forcing the file; then it acknowledges the message. In the column in which the \
             receiver is killed with SIGKILL, its broker is killed too, and both are started again 0.2 s later. This column \
             gives: messages that were never acted on; messages that were acted on more than once, because the \
             acknowledgement of the first time died with a process; messages sent in all. The power of the machine is not \
             cut, so unforced writes survive a kill. If a broker takes messages faster than it delivers them, the rest waits \
             in its files, and the time grows."
        }
        "asymmetric" => "Messages a second forward and back.",
        "crowd" => {
            "Messages a second; clients that had reached the server when sending was allowed; after how many seconds."
        }
        "one-way-codel" => {
            "Messages a second; median / 99th percentile of the wait in the queue in ms; packets that it dropped / marked, in %."
        }
        "share" => "Messages a second of the flow, and of the flow beside it.",
        _ => "Messages a second.",
    };
    let _ = write!(text, "{what} {}", medians.effort());
    if let Some(late) = medians.lateness() {
        let _ = write!(
            text,
            " The emulator's own error, p99: {} ms in the median run, {} ms in the worst.",
            figure(late.median),
            figure(late.most)
        );
    }
    let _ = writeln!(text, "\n\n{}", medians.table());
    for told in medians.reaches() {
        let _ = writeln!(text, "{told}\n");
    }
    let each = match scenario.name {
        name if name.contains("call") => "call",
        name if name.contains("sessions") => "request",
        _ => "message",
    };
    let costs = medians.costs();
    if !costs.is_empty() {
        let bytes = if medians.has_lanes() {
            format!("; IP bytes on the link for each {each}, both directions together")
        } else {
            String::new()
        };
        // The kernel takes a packet in on the thread that delivers it.
        let apart = if medians.has_lanes() {
            " The kernel's work for arriving packets runs on the link's thread and is not included: this is little for UDP, \
             and much for TCP."
        } else {
            ""
        };
        let processor = if scenario.name == "download" {
            "What it costs: IP bytes that the servers sent, for each byte of the file.".to_owned()
        } else if matches!(scenario.name, "cold-start" | "transfer") {
            "What it costs: IP bytes on the link for each message or call, both directions together."
                .to_owned()
        } else {
            format!("What it costs: processor seconds of both ends for a million {each}s{bytes}.{apart}")
        };
        let _ = writeln!(text, "{processor}\n\n{costs}");
    }
    if scenario.name == "sessions" {
        let _ = writeln!(
            text,
            "What the server takes: processor time for each request in us; peak memory in MB; threads.\n\n{}",
            medians.servers()
        );
    }
    if scenario.name == "fan-out" {
        let _ = writeln!(
            text,
            "Peak memory in MB: the sender + all members, with NATS core the broker too.\n\n{}",
            medians.memories()
        );
    }
    if matches!(scenario.name, "one-way-loss" | "cable" | "crowd" | "durable") {
        let shown = ["0 %", "5 %", "1,024 bytes", "10,000 clients", "256 under way"];
        for cell in medians.measured().into_iter().filter(|cell| shown.contains(&cell.name.as_str())) {
            let _ = writeln!(text, "Memory and queue: {}.\n\n{}", cell.name, medians.memory(&cell.name));
        }
    }
    for line in absent(medians) {
        let _ = writeln!(text, "* {line}");
    }
    for fault in medians.faults() {
        let _ = writeln!(text, "* Does not count: {fault}");
    }
    text.push('\n');
    text
}

/// The peers that are missing from a section, and why.
fn absent(medians: &Medians<'_>) -> Vec<String> {
    let mut why: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let fits = |peer: &&Peer| peer.reliable && !peer.name.starts_with("exonet") && !is_variant(peer);
    for peer in peer::all().filter(fits).filter(|peer| peer.does(Work::OneWay)) {
        let cells: Vec<&Cell> =
            medians.measured().into_iter().filter(|cell| !medians.ran(&cell.name, peer.name)).collect();
        let Some(first) = cells.first() else { continue };
        let reason = medians.scenario.why_not(first, peer).unwrap_or("it did not run");
        if cells.len() == medians.measured().len() {
            why.entry(reason.to_owned()).or_default().push(peer.label);
        } else if reason != "another cell says that" {
            let names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
            why.entry(format!("not in {}: {reason}", names.join("; "))).or_default().push(peer.label);
        }
    }
    why.into_iter().map(|(why, peers)| format!("Without {}: {why}.", peers.join(", "))).collect()
}

/// The figures of a scenario.
fn shown_in(scenario: &str) -> &'static [&'static str] {
    match scenario {
        "one-way-loss" => &["one-way-loss", "queue"],
        "calls-0" => &["calls-rate", "calls-p50", "calls-p99"],
        "one-way-links" => &["one-way-links"],
        "calls-links" => &["calls-links"],
        "share" => &["share"],
        "cable" => &["cable"],
        "cold-start" => &["cold-start"],
        "head-of-line" => &["head-of-line"],
        "fan-out" => &["fan-out"],
        "spread" => &["spread"],
        "download" => &["download"],
        "transfer" => &["transfer"],
        "sessions" => &["sessions"],
        _ => &[],
    }
}

/// The table in the README: a few rows, and some peers.
pub(super) fn headlines(all: &[Medians<'_>]) -> String {
    const PEERS: [(&str, &str); 5] = [
        ("exonet", "Exonet"),
        ("tcp-cubic", "TCP (CUBIC)"),
        ("tcp-bbr", "TCP (BBR)"),
        ("quinn-bbr", "QUIC (quinn, BBR)"),
        ("kcp", "KCP"),
    ];
    const ROWS: [(&str, &str, &str); 7] = [
        ("one-way-loss", "0 %", "one way, no loss: messages/s (IP bytes each)"),
        ("one-way-loss", "5 %", "one way, 5 % lost each way"),
        ("one-way-loss", "20 %", "one way, 20 % lost each way"),
        ("calls-5", "10 actors", "10 calls at a time, 5 % lost: calls/s, p99"),
        ("calls-5", "400 actors", "400 calls at a time, 5 % lost"),
        ("cold-start", "400 messages, 10 ms, 0 %", "400 messages to a stranger, no loss: all settled"),
        ("cold-start", "400 messages, 200 ms, 20 %", "the same at 200 ms and 20 % lost"),
    ];
    let names: Vec<&str> = PEERS.iter().map(|(_, label)| *label).collect();
    let mut text = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(PEERS.len()));
    for (scenario, name, label) in ROWS {
        let Some(medians) = all.iter().find(|one| one.scenario.name == scenario) else { continue };
        let Some(cell) = medians.measured().into_iter().find(|cell| cell.name == name) else { continue };
        let tell = |(peer, _): (&str, &str)| {
            let of = |value: fn(&Record) -> f64| medians.median(name, peer, value).map(figure);
            let Some(rate) = of(|it| it.rate) else { return "-".to_owned() };
            match cell.work {
                Work::Calls { .. } => format!("{rate}, {} ms", of(|it| it.latency.p99).unwrap_or_default()),
                Work::Cold { .. } => {
                    format!("{} ms", of(|it| it.cold.map_or(0.0, |cold| cold.settled)).unwrap_or_default())
                }
                _ => format!(
                    "{rate} ({})",
                    of(|it| it.wire_bytes_each.unwrap_or_default()).unwrap_or_default()
                ),
            }
        };
        let _ = writeln!(text, "| {label} | {} |", PEERS.map(tell).join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Entry, Origin, Results};
    use crate::scenario;

    fn run(commit: &str, peer: &str, record: Record) -> Entry {
        let origin = Origin { date: String::new(), commit: commit.into() };
        Entry::new(
            (&origin, "calls-0", "1 actor"),
            peer,
            0,
            1.0,
            Ok(vec![Record { peer: peer.into(), ..record }]),
        )
    }

    fn record(rate: f64, cpu_per_million: f64) -> Record {
        Record { rate, cpu_per_million, wire_bytes_each: Some(2_000.0), ..Record::default() }
    }

    fn lost(entries: Vec<Entry>) -> String {
        let scenarios = scenario::find(&["calls-0".to_owned()]).unwrap();
        let results = Results { notes: Vec::new(), entries };
        losses(&[Medians::new(&scenarios[0], &results)])
    }

    #[test]
    fn every_figure_that_is_better_by_more_than_noise_is_told() {
        let ours = || run("b", "exonet", record(100.0, 10.0));
        let other = |peer, rate, cpu| run("b", peer, record(rate, cpu));
        let told = lost(vec![ours(), other("tcp-bbr", 102.0, 9.9), other("udp-echo", 900.0, 0.1)]);
        assert!(told.ends_with("|---|---|---|---|---|---|---|---|\n\n0 of 1 rows.\n\n"), "{told}");
        let told = lost(vec![ours(), other("tcp-bbr", 104.0, 5.0), other("enet", 110.0, 9.0)]);
        assert!(told.contains("| 1 actor | ENet 110 : 100 |  |  |  | TCP (BBR) 5.00 : 10.0 |  |"), "{told}");
        assert!(told.contains("1 of 1 rows"));
    }

    #[test]
    fn a_fault_and_an_earlier_tree_do_not_count() {
        let ours = run("b", "exonet", record(100.0, 10.0));
        let before = run("a", "tcp-bbr", record(200.0, 1.0));
        let faulty = run("b", "enet", Record { fault: Some("why".into()), ..record(300.0, 1.0) });
        assert!(lost(vec![before, ours, faulty]).contains("0 of 1 rows"));
    }
}
