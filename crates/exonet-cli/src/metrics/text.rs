//! The text that Prometheus reads.

use std::fmt::Write as _;
use std::sync::PoisonError;

use exonet::stats::{PeerFigure, PeerFlow, PeerStats, Stats};
use exonet::{Node, NodeId};

use super::Desk;
use super::times::{BOUNDS, Times};

/// The label of the peers that have no series of their own.
const OTHER: &str = "other";
/// The help text of the journal's lag.
const LAG: &str = "Bytes of the journal that are not on the disk yet, while messages wait for them.";

/// All figures of a node.
pub(super) fn of(desk: &Desk, node: &Node) -> String {
    let mut page = Page { text: String::with_capacity(16 << 10), node: node.id().to_string() };
    page.head("exonet_info", "gauge", "The version that runs here.");
    let (identity, command) = (escape(&desk.identity), desk.command);
    let labels =
        format!(",version=\"{}\",identity=\"{identity}\",command=\"{command}\"", env!("CARGO_PKG_VERSION"));
    page.line("exonet_info", &labels, 1.0);
    page.head("exonet_uptime_seconds", "gauge", "How long the node has run.");
    page.line("exonet_uptime_seconds", "", desk.started.elapsed().as_secs_f64());
    page.head("exonet_journal_lag_bytes", "gauge", LAG);
    page.whole("exonet_journal_lag_bytes", "", node.journal_lag());
    let stats = node.stats();
    for figure in Stats::FIGURES {
        let name = name(figure.metric, figure.counts);
        page.head(&name, kind(figure.counts), figure.about.trim());
        page.whole(&name, "", (figure.of)(&stats));
    }
    page.peers(desk, node);
    desk.times.iter().for_each(|times| page.times(times));
    page.text
}

/// The name that a figure of the list has in Prometheus.
pub(super) fn name(metric: &str, counts: bool) -> String {
    format!("exonet_{metric}{}", if counts { "_total" } else { "" })
}

pub(super) const fn kind(counts: bool) -> &'static str {
    if counts { "counter" } else { "gauge" }
}

struct Page {
    text: String,
    node: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, about: &str) {
        let _ = writeln!(self.text, "# HELP {name} {}\n# TYPE {name} {kind}", about.replace('\\', "\\\\"));
    }

    /// `labels` are further labels, each preceded by a comma.
    fn line(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.text, "{name}{{node=\"{}\"{labels}}} {value}", self.node);
    }

    fn whole(&mut self, name: &str, labels: &str, value: u64) {
        let _ = writeln!(self.text, "{name}{{node=\"{}\"{labels}}} {value}", self.node);
    }

    fn peers(&mut self, desk: &Desk, node: &Node) {
        let known = node.peers();
        let (named, others) = desk.labelled.lock().unwrap_or_else(PoisonError::into_inner).part(&known);
        self.figures(PeerStats::FIGURES, &named, &others, |id| node.peer(id).stats());
        self.figures(PeerFlow::FIGURES, &named, &others, |id| node.peer(id).flow());
    }

    /// Adds the figures of these peers. The `others` have no series of their own.
    fn figures<T>(
        &mut self,
        figures: &[PeerFigure<T>],
        named: &[NodeId],
        others: &[NodeId],
        of: impl Fn(&NodeId) -> Option<T>,
    ) {
        let named: Vec<(String, T)> = named.iter().filter_map(|id| Some((id.to_string(), of(id)?))).collect();
        let others: Vec<T> = others.iter().filter_map(of).collect();
        for figure in figures {
            let name = name(figure.metric, figure.counts);
            self.head(&name, kind(figure.counts), figure.about);
            for (peer, stats) in &named {
                if let Some(value) = figure.of.number(stats) {
                    self.line(&name, &format!(",peer=\"{peer}\""), value);
                }
            }
            if figure.adds && !others.is_empty() {
                let sum = others.iter().filter_map(|stats| figure.of.number(stats)).sum();
                self.line(&name, &format!(",peer=\"{OTHER}\""), sum);
            }
        }
    }

    fn times(&mut self, times: &Times) {
        let (name, (counts, all, sum)) = (times.name, times.read());
        self.head(name, "histogram", times.about);
        for (bound, count) in BOUNDS.iter().zip(counts) {
            self.whole(&format!("{name}_bucket"), &format!(",le=\"{bound}\""), count);
        }
        self.whole(&format!("{name}_bucket"), ",le=\"+Inf\"", all);
        self.line(&format!("{name}_sum"), "", sum);
        self.whole(&format!("{name}_count"), "", all);
    }
}

/// Escapes the value of a label.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use exonet::stats::TIMES;

    use super::*;

    const PAGE: &str = include_str!("../../../../docs/observing.md");

    /// The tables of the page are made from the same lists as the metrics. If this fails, it prints what the page
    /// should have.
    #[test]
    fn the_page_has_every_figure_as_the_lists_have_it() {
        let row = |name: &str, kind: &str, about: &str| format!("| `{name}` | {kind} | {} |\n", about.trim());
        let node = Stats::FIGURES.iter().map(|figure| {
            row(&name(figure.metric, figure.counts), kind(figure.counts), &capital(figure.about))
        });
        let peer = PeerStats::FIGURES
            .iter()
            .map(|figure| row(&name(figure.metric, figure.counts), kind(figure.counts), figure.about));
        let flow = PeerFlow::FIGURES
            .iter()
            .map(|figure| row(&name(figure.metric, figure.counts), kind(figure.counts), figure.about));
        let times = TIMES.iter().map(|(name, about)| row(name, "histogram", about));
        let lag = row("exonet_journal_lag_bytes", "gauge", LAG);
        for rows in [lag + &node.collect::<String>(), peer.chain(flow).collect(), times.collect()] {
            assert!(PAGE.contains(&rows), "docs/observing.md has to have these rows:\n{rows}");
        }
    }

    fn capital(text: &str) -> String {
        let text = text.trim();
        let mut letters = text.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
            .unwrap_or_default()
    }

    #[test]
    fn names_say_their_units_and_nothing_breaks_a_label() {
        assert_eq!(name("in_bytes", true), "exonet_in_bytes_total");
        assert_eq!(escape("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
        for (counts, metric) in Stats::FIGURES.iter().map(|figure| (figure.counts, figure.metric)) {
            assert!(!metric.contains("bytes") || metric.ends_with("bytes"), "{metric} {counts}");
        }
    }
}
