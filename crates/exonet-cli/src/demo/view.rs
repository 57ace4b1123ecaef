//! Shows a running demo: one picture on a terminal, or otherwise a line per second.

use std::time::Duration;

use console::{Term, style, truncate_str};
use serde::Serialize;

use super::Course;
use super::line::Side;
use super::report::{Row, name};
use crate::failure::Failure;
use crate::output::Output;
use crate::units::{count, percent, precise, rate, span, whole};

/// The width of a bar in characters.
const BAR: usize = 26;
/// Rates are means over this time.
const RATE_OVER: Duration = Duration::from_secs(1);
/// The interval of lines without a terminal.
const EVERY: Duration = Duration::from_secs(1);

/// The state of a side.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) elapsed: Duration,
    pub(super) dead: bool,
    pub(super) rtt: Option<Duration>,
    /// The number of records at the sender.
    pub(super) records: usize,
    pub(super) offered: u64,
    pub(super) rows: Vec<Row>,
}

/// The output for the picture.
enum Way {
    Picture(Term),
    Lines,
    Json,
}

/// The view of one run.
pub(super) struct View {
    output: Output,
    way: Way,
    head: Vec<String>,
    events: Vec<String>,
    /// How much had arrived on each side, at several times.
    marks: std::collections::VecDeque<(Duration, Vec<u64>)>,
    drawn: usize,
    last: Option<Duration>,
    messages: u64,
}

#[derive(Serialize)]
struct EventLine<'a> {
    r#type: &'static str,
    at: f64,
    event: &'a str,
}

#[derive(Serialize)]
struct ProgressLine {
    r#type: &'static str,
    at: f64,
    offered: u64,
    arrived: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<u64>,
    unknown: u64,
    rtt_ms: Option<f64>,
    records: usize,
}

impl View {
    pub(super) fn new(output: Output, course: &Course) -> Self {
        let way = match (output.is_json(), output.is_terminal()) {
            (true, _) => Way::Json,
            (false, true) => Way::Picture(Term::buffered_stdout()),
            (false, false) => Way::Lines,
        };
        let mut view = Self {
            output,
            way,
            head: head(course),
            events: Vec::new(),
            marks: std::collections::VecDeque::new(),
            drawn: 0,
            last: None,
            messages: course.messages,
        };
        match &view.way {
            // If the cursor cannot be hidden, it stays.
            Way::Picture(term) => drop(term.hide_cursor()),
            Way::Lines => drop(output.text(&view.head.join("\n"))),
            Way::Json => {}
        }
        view.marks.push_back((Duration::ZERO, Vec::new()));
        view
    }

    /// Shows an event.
    pub(super) fn event(&mut self, at: Duration, text: &str) -> Result<(), Failure> {
        self.output.line(&EventLine { r#type: "event", at: at.as_secs_f64(), event: text })?;
        let line = format!("  {:>6.1} s  {text}", at.as_secs_f64());
        if matches!(self.way, Way::Lines) {
            self.output.text(&line)?;
        }
        self.events.push(line);
        Ok(())
    }

    /// Shows the current state.
    pub(super) fn show(&mut self, now: &Snapshot) -> Result<(), Failure> {
        let rates = self.rates(now);
        let due = self.last.is_none_or(|last| now.elapsed.saturating_sub(last) >= EVERY);
        match &self.way {
            Way::Picture(term) => {
                let lines = self.picture(now, &rates);
                let drawn = draw(term, &lines, self.drawn);
                self.drawn = drawn.map_err(|e| Failure::new("cannot draw on the terminal").because(&e))?;
            }
            Way::Lines if due => {
                self.last = Some(now.elapsed);
                self.output.text(&sentence(now))?;
            }
            Way::Json if due => {
                self.last = Some(now.elapsed);
                self.output.line(&progress_line(now))?;
            }
            Way::Lines | Way::Json => {}
        }
        Ok(())
    }

    /// Leaves the head and the events on the screen, so that the table follows them.
    pub(super) fn end(&mut self) {
        if let Way::Picture(term) = &self.way {
            let lines: Vec<String> =
                self.head.iter().chain([&String::new()]).chain(&self.events).cloned().collect();
            let _ = draw(term, &lines, self.drawn);
            let _ = term.show_cursor();
            let _ = term.flush();
            self.drawn = 0;
            self.way = Way::Lines;
        }
    }

    fn rates(&mut self, now: &Snapshot) -> Vec<f64> {
        let arrived: Vec<u64> = now.rows.iter().map(|row| row.arrived).collect();
        self.marks.push_back((now.elapsed, arrived.clone()));
        while self.marks.get(1).is_some_and(|(at, _)| now.elapsed.saturating_sub(*at) >= RATE_OVER) {
            self.marks.pop_front();
        }
        let (at, before) = self.marks.front().cloned().unwrap_or_default();
        let over = now.elapsed.saturating_sub(at);
        let mut before = before.into_iter();
        let since = |arrived: u64| rate(arrived.saturating_sub(before.next().unwrap_or(0)), over);
        arrived.into_iter().map(since).collect()
    }

    fn picture(&self, now: &Snapshot, rates: &[f64]) -> Vec<String> {
        let mut lines = self.head.clone();
        lines.push(String::new());
        let network = if now.dead { style("● dead").red() } else { style("● bad, as usual").green() };
        let rtt = now.rtt.map_or_else(|| "-".to_owned(), span);
        lines.push(format!("  network         {network}"));
        lines.push(format!("  round trip      {rtt}    records at the sender  {}", now.records));
        lines.push(String::new());
        lines.extend(now.rows.iter().zip(rates).map(|(row, rate)| side(row, *rate, self.messages)));
        lines.push(String::new());
        lines.extend(self.events.iter().cloned());
        lines
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.end();
    }
}

/// Draws over the `drawn` lines of the last time. Returns how many lines there are now.
fn draw(term: &Term, lines: &[String], drawn: usize) -> std::io::Result<usize> {
    let (height, width) = term.size();
    // Lines that have scrolled away cannot be drawn over. So this draws only as many as fit, with the newest at the
    // bottom.
    let fit = usize::from(height).saturating_sub(1);
    let skip = lines.len().saturating_sub(fit);
    term.clear_last_lines(drawn)?;
    for line in lines.iter().skip(skip) {
        term.write_line(&truncate_str(line, width.into(), "…"))?;
    }
    term.flush()?;
    Ok(lines.len() - skip)
}

fn head(course: &Course) -> Vec<String> {
    let odds = &course.odds;
    vec![
        String::new(),
        format!(
            "  {}  {} messages of {} bytes, through a network that misbehaves (seed {})",
            style("exon demo").bold(),
            count(course.messages),
            course.size,
            course.seed
        ),
        format!(
            "  loss {}, doubled {}, held back {}, garbled {}, {} each way",
            percent(odds.loss),
            percent(odds.duplication),
            percent(odds.reordering),
            percent(odds.corruption),
            span(odds.delay)
        ),
    ]
}

fn side(row: &Row, rate: f64, messages: u64) -> String {
    let share = precise(row.arrived) / precise(messages.max(1));
    let width = u64::try_from(BAR).unwrap_or(u64::MAX);
    let full = whole((share * precise(width)).floor()).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let full = full.min(BAR);
    let bar = format!("{}{}", style("━".repeat(full)).cyan(), style("─".repeat(BAR - full)).dim());
    let flaw = |number: u64, what: &str| {
        let text = style(format!("{:>6} {what}", count(number)));
        if number > 0 { text.red() } else { text.dim() }
    };
    let unknown = match row.unknown {
        Some(unknown) if unknown > 0 => style(format!("{:>6} unknown", count(unknown))).yellow().to_string(),
        _ => String::new(),
    };
    let label = style(format!("{:<15}", name(row.side)));
    let label = if matches!(row.side, Side::Exonet | Side::Journal) { label.bold() } else { label };
    format!(
        "  {label}  {bar}{:>8}{:>8}/s  {}  {}  {unknown}",
        count(row.arrived),
        count(whole(rate).unwrap_or(0)),
        flaw(row.lost, "lost"),
        flaw(row.duplicates, "twice"),
    )
}

/// The state in one line, without colours.
fn sentence(now: &Snapshot) -> String {
    let sides: Vec<String> = now
        .rows
        .iter()
        .map(|row| {
            let mut text = format!("{} {}", name(row.side), count(row.arrived));
            for (number, what) in
                [(row.lost, "lost"), (row.duplicates, "twice"), (row.unknown.unwrap_or(0), "unknown")]
            {
                if number > 0 {
                    text.push_str(&format!(", {} {what}", count(number)));
                }
            }
            text
        })
        .collect();
    format!("  {:>6.1} s  {}", now.elapsed.as_secs_f64(), sides.join("; "))
}

fn progress_line(now: &Snapshot) -> ProgressLine {
    let arrived = |side| now.rows.iter().find(|row| row.side == side).map(|row| row.arrived);
    let unknown = now.rows.first().and_then(|row| row.unknown).unwrap_or(0);
    ProgressLine {
        r#type: "progress",
        at: now.elapsed.as_secs_f64(),
        offered: now.offered,
        arrived: arrived(Side::Exonet).unwrap_or(0),
        journal: arrived(Side::Journal),
        unknown,
        rtt_ms: now.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        records: now.records,
    }
}
