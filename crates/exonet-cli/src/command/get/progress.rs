//! Shows the progress of the download: a bar and a line for each server on a terminal, plain lines or JSON elsewhere.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use console::Term;
use serde::Serialize;

use super::super::view::View;
use super::standing::{Standing, State};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::share::Tally;
use crate::text::escape;
use crate::units::{self, Size, counted};

/// The interval at which the lines are drawn, and the interval of plain lines and JSON.
pub(super) const TICK: Duration = Duration::from_millis(200);
const PLAIN: Duration = Duration::from_secs(10);
const JSON: Duration = Duration::from_secs(1);
/// The span over which the rate is computed.
const LATELY: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Line<'a> {
    r#type: &'static str,
    /// The number of bytes that are present.
    bytes: u64,
    total: u64,
    bytes_per_second: u64,
    seconds_left: Option<u64>,
    servers: Vec<ServerLine<'a>>,
}

/// The figures of a server.
#[derive(Serialize)]
pub(super) struct ServerLine<'a> {
    peer: String,
    name: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    pieces: u64,
    bytes: u64,
    bytes_per_second: u64,
    under_way: usize,
}

impl<'a> ServerLine<'a> {
    pub(super) fn new(standing: &'a Standing, tally: Tally) -> Self {
        let (state, reason) = standing.state.words();
        Self {
            peer: standing.named.peer.id.to_string(),
            name: &standing.named.name,
            state,
            reason,
            pieces: tally.pieces,
            bytes: tally.bytes,
            bytes_per_second: tally.rate,
            under_way: tally.under_way,
        }
    }
}

/// The current progress.
pub(super) struct Now<'a> {
    /// The number of bytes that are present, and the size of the whole file.
    pub(super) bytes: u64,
    pub(super) total: u64,
    pub(super) servers: Vec<(&'a Standing, Tally)>,
}

pub(super) struct Progress<'a> {
    settings: &'a Settings,
    name: String,
    /// The terminal, if the user wants the progress shown, and the number of lines on it.
    term: Option<Term>,
    drawn: usize,
    printed: Instant,
    samples: VecDeque<(Instant, u64)>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(settings: &'a Settings, name: &str) -> Self {
        let watched = console::user_attended_stderr() && !settings.quiet && !settings.output.is_json();
        Self {
            settings,
            name: escape(name.as_bytes()),
            term: watched.then(Term::stderr),
            drawn: 0,
            printed: Instant::now(),
            samples: VecDeque::new(),
        }
    }

    /// Clears the lines, so that other lines can be printed.
    pub(super) fn clear(&mut self) {
        if let Some(term) = self.term.as_ref().filter(|_| self.drawn > 0) {
            // A terminal that is gone causes an error at the next print.
            let _ = term.clear_last_lines(self.drawn);
        }
        self.drawn = 0;
    }

    pub(super) fn tick(&mut self, state: &Now<'_>) -> Result<(), Failure> {
        let now = Instant::now();
        self.samples.push_back((now, state.bytes));
        while self.samples.len() > 2 && self.samples.front().is_some_and(|(then, _)| now - *then > LATELY) {
            self.samples.pop_front();
        }
        let rate = self.samples.front().map_or(0, |(then, bytes)| {
            units::whole(units::rate(state.bytes.saturating_sub(*bytes), now - *then)).unwrap_or(0)
        });
        let left =
            state.total.saturating_sub(state.bytes).checked_div(rate).map(|left| left.saturating_add(1));
        let every = if self.settings.output.is_json() { JSON } else { PLAIN };
        if self.term.is_none() && now - self.printed < every {
            return Ok(());
        }
        self.printed = now;
        let view = View {
            done: state.bytes,
            total: Some(state.total),
            files: (0, 1),
            rate,
            left: left.map(Duration::from_secs),
            silent: Duration::ZERO,
        };
        if self.term.is_some() {
            self.draw(&view, state);
        } else if self.settings.output.is_json() {
            let servers = state.servers.iter().map(|(standing, tally)| ServerLine::new(standing, *tally));
            return self.settings.output.line(&Line {
                r#type: "progress",
                bytes: state.bytes,
                total: state.total,
                bytes_per_second: rate,
                seconds_left: left,
                servers: servers.collect(),
            });
        } else {
            self.settings.note(view.text(usize::MAX, None));
        }
        Ok(())
    }

    fn draw(&mut self, view: &View, state: &Now<'_>) {
        let Some(term) = self.term.clone() else { return };
        let (rows, columns) = term.size();
        // Room is left for the `^C` that a terminal shows, and for the line that the cursor is in.
        let (width, rows) = (usize::from(columns).saturating_sub(3), usize::from(rows).saturating_sub(2));
        let mut lines = vec![view.text(width, Some(&self.name))];
        let names = state.servers.iter().map(|(standing, _)| standing.named.name.len()).max().unwrap_or(0);
        lines.extend(state.servers.iter().take(rows).map(|(standing, tally)| {
            let line = format!("  {:<names$}  {}", standing.named.name, about(&standing.state, *tally));
            console::truncate_str(&line, width, "…").into_owned()
        }));
        self.clear();
        self.drawn = if term.write_line(&lines.join("\n")).is_ok() { lines.len() } else { 0 };
    }
}

/// A server in a line.
fn about(state: &State, tally: Tally) -> String {
    let brought = format!("{:>10} {:>13}", Size(tally.bytes).to_string(), counted(tally.pieces, "piece"));
    match state.words() {
        ("active", _) => format!("{brought}  {}/s", Size(tally.rate)),
        (state, Some(reason)) => format!("{brought}  {state}: {reason}"),
        (state, None) => format!("{brought}  {state}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_server() {
        let tally = Tally { pieces: 12, bytes: 3 << 20, under_way: 2, rate: 5 << 20 };
        assert_eq!(about(&State::Active, tally), "   3.0 MiB     12 pieces  5.0 MiB/s");
        assert_eq!(about(&State::Silent, tally), "   3.0 MiB     12 pieces  silent");
        let out = super::super::server::Out { state: "banned", reason: "why".to_owned() };
        assert_eq!(about(&State::Out(out), tally), "   3.0 MiB     12 pieces  banned: why");
    }
}
