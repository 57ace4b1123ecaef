//! Which figures there are.

use super::bars::{Bar, Bars};
use super::chart::{Chart, Line, Panel};
use super::svg::Drawing;
use super::table::{Medians, megabytes};
use crate::run::Record;
use crate::stats::figure;

/// A drawing, the name of its file and what it shows.
pub(super) type Figure = (&'static str, Drawing);

/// The scenario of this name, if it has results.
fn of<'a>(all: &'a [Medians<'a>], name: &str) -> Option<&'a Medians<'a>> {
    all.iter().find(|medians| medians.scenario.name == name)
}

/// A line for each peer over these cells.
fn lines(medians: &Medians<'_>, cells: &[String], value: impl Fn(&Record) -> f64) -> Vec<Line> {
    let line = |peer: &crate::peer::Peer| Line {
        peer: peer.name.to_owned(),
        label: peer.label.to_owned(),
        values: cells.iter().map(|cell| medians.median(cell, peer.name, &value)).collect(),
    };
    medians.peers().into_iter().map(line).collect()
}

/// All for which there are results.
pub(super) fn all(all: &[Medians<'_>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    figures.extend(of(all, "one-way-loss").map(|medians| ("one-way-loss", loss(medians))));
    let calls = ["calls-0", "calls-1", "calls-5"].map(|name| of(all, name));
    let calls: Vec<_> = calls.into_iter().flatten().collect();
    if !calls.is_empty() {
        figures.push((
            "calls-rate",
            actors(&calls, "Calls a second: 100 Mbit/s, RTT 10 ms, 1,024 bytes each way", "calls/s", |r| {
                r.rate
            }),
        ));
        let title = "Latency of calls, 99th percentile: 100 Mbit/s, RTT 10 ms, 1,024 bytes each way";
        figures.push(("calls-p99", actors(&calls, title, "p99, ms", |r| r.latency.p99)));
        let title = "Latency of calls, median: 100 Mbit/s, RTT 10 ms, 1,024 bytes each way";
        figures.push(("calls-p50", actors(&calls, title, "p50, ms", |r| r.latency.p50)));
    }
    figures.extend(
        of(all, "one-way-links").map(|m| {
            ("one-way-links", links(m, "One way without loss: messages of 1,024 bytes", "messages/s"))
        }),
    );
    figures.extend(of(all, "calls-links").map(|m| {
        ("calls-links", links(m, "Calls of 100 actors without loss: 1,024 bytes each way", "calls/s"))
    }));
    figures.extend(of(all, "one-way-loss").map(|medians| ("queue", queue(medians))));
    figures.extend(of(all, "share").map(|medians| ("share", share(medians))));
    figures.extend(of(all, "cold-start").map(|medians| ("cold-start", cold(medians))));
    figures.extend(of(all, "head-of-line").map(|medians| ("head-of-line", head_of_line(medians))));
    figures.extend(of(all, "fan-out").map(|medians| ("fan-out", fan_out(medians))));
    figures.extend(of(all, "spread").map(|medians| ("spread", spread(medians))));
    figures.extend(of(all, "download").map(|medians| ("download", download(medians))));
    figures.extend(of(all, "transfer").map(|medians| ("transfer", transfer(medians))));
    figures.extend(of(all, "sessions").map(|medians| ("sessions", sessions(medians))));
    figures.extend(of(all, "cable").map(|medians| ("cable", cable(medians))));
    figures
}

fn cells(medians: &Medians<'_>) -> Vec<String> {
    medians.measured().iter().map(|cell| cell.name.clone()).collect()
}

fn loss(medians: &Medians<'_>) -> Drawing {
    let (bursts, steps): (Vec<String>, Vec<String>) =
        cells(medians).into_iter().partition(|cell| cell.contains("bursts"));
    let panel = |title: &str, cells: Vec<String>, logarithmic| Panel {
        title: title.into(),
        x_label: "loss each way".into(),
        lines: lines(medians, &cells, |r| r.rate),
        steps: cells,
        y_label: "messages/s".into(),
        logarithmic,
    };
    let plain = ["0 %", "5 %"].into_iter().filter(|name| steps.iter().any(|step| step == name));
    let with_bursts: Vec<String> = plain.map(str::to_owned).chain(bursts.iter().cloned()).collect();
    let mut panels = vec![panel("Random loss", steps, true)];
    if !bursts.is_empty() {
        panels.push(panel("Random, and in bursts of 10 packets", with_bursts, false));
    }
    Chart { title: "One way: 100 Mbit/s, RTT 10 ms, messages of 1,024 bytes".into(), panels }.draw()
}

fn actors(all: &[&Medians<'_>], title: &str, y_label: &str, value: fn(&Record) -> f64) -> Drawing {
    let panel = |medians: &&Medians<'_>| {
        let loss = medians.scenario.name.trim_start_matches("calls-");
        Panel {
            title: format!("Loss of {loss} % each way"),
            x_label: "actors, each with one call under way".into(),
            lines: lines(medians, &cells(medians), value),
            steps: cells(medians)
                .iter()
                .map(|cell| cell.split(' ').next().unwrap_or_default().to_owned())
                .collect(),
            y_label: y_label.into(),
            logarithmic: true,
        }
    };
    Chart { title: title.into(), panels: all.iter().map(panel).collect() }.draw()
}

/// A panel for each length of work.
fn sessions(medians: &Medians<'_>) -> Drawing {
    let panel = |work: &str| {
        let cells: Vec<String> = cells(medians).into_iter().filter(|cell| cell.ends_with(work)).collect();
        Panel {
            title: format!("The server works {} on each request", work.trim_start_matches(", ")),
            x_label: "clients, each with one request under way".into(),
            lines: lines(medians, &cells, |r| r.latency.p50),
            steps: cells.iter().map(|cell| cell.split(' ').next().unwrap_or_default().to_owned()).collect(),
            y_label: "p50, ms".into(),
            logarithmic: true,
        }
    };
    let panels = [", 0 ms", ", 1 ms", ", 2 ms"].map(panel).into_iter();
    let panels = panels.filter(|panel| !panel.steps.is_empty()).collect();
    Chart { title: "Sessions: median time to the answer, 1,024 bytes each way, no emulator".into(), panels }
        .draw()
}

fn links(medians: &Medians<'_>, title: &str, y_label: &str) -> Drawing {
    let panel = |mbit: &str| {
        let of_rate = format!("{mbit} Mbit/s, ");
        let cells: Vec<String> =
            cells(medians).into_iter().filter(|cell| cell.starts_with(&of_rate)).collect();
        Panel {
            title: format!("{mbit} Mbit/s"),
            x_label: "round-trip time".into(),
            lines: lines(medians, &cells, |r| r.rate),
            steps: cells.iter().map(|cell| cell.trim_start_matches(&of_rate).to_owned()).collect(),
            y_label: y_label.into(),
            logarithmic: false,
        }
    };
    Chart {
        title: title.into(),
        panels: ["1", "10", "100"].map(panel).into_iter().filter(|panel| !panel.steps.is_empty()).collect(),
    }
    .draw()
}

fn queue(medians: &Medians<'_>) -> Drawing {
    let group = |cell: &str| {
        let bar = |peer: &crate::peer::Peer| {
            let wait = |part: fn(&crate::run::Lane) -> f64| {
                medians
                    .median(cell, peer.name, |r| r.lanes.as_ref().map_or(0.0, |[forward, _]| part(forward)))
            };
            let (p50, p99, rate) = (
                wait(|lane| lane.queue_p50)?,
                wait(|lane| lane.queue_p99)?,
                medians.median(cell, peer.name, |r| r.rate)?,
            );
            Some(Bar {
                label: peer.label.to_owned(),
                parts: vec![(peer.name.to_owned(), p50)],
                text: format!("{} (p99 {}) at {}/s", figure(p50), figure(p99), figure(rate)),
            })
        };
        (
            format!("Loss of {cell} each way"),
            medians.peers().into_iter().filter_map(bar).collect::<Vec<Bar>>(),
        )
    };
    Bars {
        title: "The queue that a sender makes others wait in".into(),
        unit: "median wait in the bottleneck's queue in ms, which holds 10 ms, and the rate reached; one way, 100 Mbit/s, RTT 10 ms".into(),
        logarithmic: false,
        groups: ["0 %", "5 %"].map(group).into_iter().filter(|(_, bars)| !bars.is_empty()).collect(),
    }
    .draw()
}

fn share(medians: &Medians<'_>) -> Drawing {
    let group = |cell: &crate::scenario::Cell| {
        let rival = cell.rival.unwrap_or_default();
        let bar = |peer: &crate::peer::Peer| {
            let rate =
                |flow| medians.spread(&cell.name, peer.name, flow, |r| r.rate).map(|spread| spread.median);
            let (own, other) = (rate(0)?, rate(1)?);
            Some(Bar {
                label: peer.label.to_owned(),
                parts: vec![(peer.name.to_owned(), own), (rival.to_owned(), other)],
                text: format!(
                    "{} : {} ({:.0} %)",
                    figure(own),
                    figure(other),
                    own / (own + other).max(1e-9) * 100.0
                ),
            })
        };
        (cell.name.replacen("beside", "Beside", 1), medians.peers().into_iter().filter_map(bar).collect())
    };
    Bars {
        title: "Who gets how much of a link that two share".into(),
        unit: "messages/s of 1,024 bytes: the flow on the left, then the one beside it; 100 Mbit/s, RTT 10 ms, with CoDel 40 ms".into(),
        logarithmic: false,
        groups: medians.measured().into_iter().map(group).collect(),
    }
    .draw()
}

fn cable(medians: &Medians<'_>) -> Drawing {
    let group = |cell: &String| {
        let mut bars: Vec<(f64, Bar)> = Vec::new();
        for peer in medians.peers() {
            if let Some(rate) = medians.median(cell, peer.name, |r| r.rate) {
                let parts = vec![(peer.name.to_owned(), rate)];
                bars.push((rate, Bar { label: peer.label.to_owned(), parts, text: figure(rate) }));
            }
        }
        bars.sort_by(|a, b| b.0.total_cmp(&a.0));
        (format!("Messages of {cell}"), bars.into_iter().map(|(_, bar)| bar).collect())
    };
    Bars {
        title: "No emulator: what the software does on two processors".into(),
        unit: "messages/s, one way, over a virtual cable between two namespaces; logarithmic".into(),
        logarithmic: true,
        groups: cells(medians).iter().map(group).collect(),
    }
    .draw()
}

/// Bars in the order of time.
fn cold(medians: &Medians<'_>) -> Drawing {
    let group = |cell: &&crate::scenario::Cell| {
        let bar = |peer: &crate::peer::Peer| {
            let settled =
                medians.median(&cell.name, peer.name, |r| r.cold.map_or(0.0, |cold| cold.settled))?;
            let parts = vec![(peer.name.to_owned(), settled)];
            Some((
                settled,
                Bar { label: peer.label.to_owned(), parts, text: format!("{} ms", figure(settled)) },
            ))
        };
        let mut bars: Vec<(f64, Bar)> = medians.peers().into_iter().filter_map(bar).collect();
        bars.sort_by(|a, b| a.0.total_cmp(&b.0));
        (cell.name.clone(), bars.into_iter().map(|(_, bar)| bar).collect())
    };
    Bars {
        title: "A cold start: so much handed over at once to a server that was never met".into(),
        unit: "ms until the sender knows of the last, connecting included; 100 Mbit/s, round trip and loss each way; logarithmic".into(),
        logarithmic: true,
        groups: medians.measured().iter().map(group).collect(),
    }
    .draw()
}

/// A group of bars for each cell, and in it one for each peer.
fn bars(
    medians: &Medians<'_>,
    value: fn(&Record) -> f64,
    text: impl Fn(&str, &str, f64) -> String,
) -> Vec<(String, Vec<Bar>)> {
    let group = |cell: &&crate::scenario::Cell| {
        let bar = |peer: &crate::peer::Peer| {
            let value = medians.median(&cell.name, peer.name, value)?;
            let text = text(&cell.name, peer.name, value);
            let parts = vec![(peer.name.to_owned(), value)];
            Some(Bar { label: peer.label.to_owned(), parts, text })
        };
        (cell.name.clone(), medians.peers().into_iter().filter_map(bar).collect())
    };
    medians.measured().iter().map(group).collect()
}

fn head_of_line(medians: &Medians<'_>) -> Drawing {
    let text = |cell: &str, peer: &str, p99| {
        let of = |value: fn(&Record) -> f64| medians.median(cell, peer, value).unwrap_or_default();
        format!("{} (median {}) at {}/s", figure(p99), figure(of(|r| r.latency.p50)), figure(of(|r| r.rate)))
    };
    Bars {
        title: "A lost packet and the streams beside its own".into(),
        unit: "ms from when a message is due until its reader has it, 99th percentile; 1,200 messages/s in turn, 20 Mbit/s, RTT 40 ms; logarithmic".into(),
        logarithmic: true,
        groups: bars(medians, |r| r.latency.p99, text),
    }
    .draw()
}

fn fan_out(medians: &Medians<'_>) -> Drawing {
    let panel = |title: &str, value: fn(&Record) -> f64, y_label: &str| Panel {
        title: title.into(),
        x_label: "members".into(),
        lines: lines(medians, &cells(medians), value),
        steps: cells(medians)
            .iter()
            .map(|cell| cell.split(' ').next().unwrap_or_default().to_owned())
            .collect(),
        y_label: y_label.into(),
        logarithmic: true,
    };
    let panels = vec![
        panel("Processor time of the sender", |r| r.sender_cpu.unwrap_or_default(), "us for each copy"),
        panel("Until the required members have it", |r| r.latency.p99, "p99, ms"),
        panel("Peak memory, sender and all members", |r| megabytes(r.client_rss + r.server_rss), "MB"),
    ];
    Chart { title: "One message of 1,024 bytes to many: 5,000 copies a second, no emulator".into(), panels }
        .draw()
}

fn transfer(medians: &Medians<'_>) -> Drawing {
    let steps = cells(medians);
    let panel = Panel {
        title: "Until all of it has arrived".into(),
        x_label: "size of the file; each step doubles it".into(),
        lines: lines(medians, &steps, |r| r.cold.map_or(0.0, |cold| cold.arrived)),
        steps,
        y_label: "ms".into(),
        logarithmic: true,
    };
    Chart { title: "A file in chunks of 64 KiB: 100 Mbit/s, RTT 10 ms".into(), panels: vec![panel] }.draw()
}

fn spread(medians: &Medians<'_>) -> Drawing {
    let text = |cell: &str, peer: &str, p99| {
        let p50 = medians.median(cell, peer, |r| r.latency.p50).unwrap_or_default();
        let wire = medians.spread_some(cell, peer, |r| r.wire_bytes_each).map_or(0.0, |it| it.median);
        format!("{} (median {}), {} bytes", figure(p99), figure(p50), figure(wire))
    };
    Bars {
        title: "A message for some of three members".into(),
        unit: "ms from when a message is due until the sender knows that it has arrived, 99th percentile; IP bytes for each message; logarithmic".into(),
        logarithmic: true,
        groups: bars(medians, |r| r.latency.p99, text),
    }
    .draw()
}

fn download(medians: &Medians<'_>) -> Drawing {
    let bar = |cell: &&crate::scenario::Cell| {
        let rate = medians.median(&cell.name, "exonet", |r| r.rate)?;
        let parts = vec![("exonet".to_owned(), rate)];
        Some(Bar { label: cell.name.clone(), parts, text: format!("{} MB/s", figure(rate)) })
    };
    Bars {
        title: "One file from several servers".into(),
        unit:
            "MB/s of `exon get`, 32 MB, start and end of the command included; links of 40, 20 and 10 Mbit/s"
                .into(),
        logarithmic: false,
        groups: vec![("From".into(), medians.measured().iter().filter_map(bar).collect())],
    }
    .draw()
}
