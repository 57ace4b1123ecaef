//! One line that says how far the copy is, where a person watches; plain lines, or JSON, elsewhere.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use console::Term;
use serde::Serialize;

use super::meter::Meter;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::units::{self, Size, count};

/// How often the line is drawn, and lines are printed for people who are not there and for programs.
pub(super) const TICK: Duration = Duration::from_millis(200);
const PLAIN: Duration = Duration::from_secs(10);
const JSON: Duration = Duration::from_secs(1);
/// What the rate is taken over.
const LATELY: Duration = Duration::from_secs(5);
/// So much silence is told.
const SILENCE: Duration = Duration::from_secs(3);
/// Columns of the bar, and the least that leave room for it.
const BAR: usize = 24;
const WIDE: usize = 90;

#[derive(Serialize)]
struct Line {
    r#type: &'static str,
    /// Bytes that the receiver has.
    bytes: u64,
    total: Option<u64>,
    files: u64,
    of_files: u64,
    bytes_per_second: u64,
    seconds_left: Option<u64>,
    silent_seconds: u64,
}

/// What is shown.
struct View {
    done: u64,
    total: Option<u64>,
    files: (u64, u64),
    rate: u64,
    left: Option<Duration>,
    silent: Duration,
}

pub(super) struct Progress<'a> {
    settings: &'a Settings,
    /// Who does not answer, and what to look at then.
    absent: String,
    /// The terminal of a person who wants to see it.
    term: Option<Term>,
    name: Option<String>,
    drawn: bool,
    printed: Instant,
    told_silence: bool,
    told_trouble: Option<String>,
    samples: VecDeque<(Instant, u64)>,
    /// What has been heard of the receiver, and since when nothing more.
    heard: u64,
    since: Instant,
}

impl<'a> Progress<'a> {
    /// `name` is shown where it is one file; `absent` says what to look at when nobody has ever answered.
    pub(super) fn new(settings: &'a Settings, name: Option<&str>, absent: String) -> Self {
        let watched = console::user_attended_stderr() && !settings.quiet && !settings.output.is_json();
        let now = Instant::now();
        Self {
            settings,
            absent,
            term: watched.then(Term::stderr),
            name: name.map(|name| crate::text::escape(name.as_bytes())),
            drawn: false,
            printed: now,
            told_silence: false,
            told_trouble: None,
            samples: VecDeque::from([(now, 0)]),
            heard: 0,
            since: now,
        }
    }

    /// Takes the line away, so that others can be printed.
    pub(super) fn clear(&mut self) {
        if self.drawn
            && let Some(term) = &self.term
        {
            // A terminal that is gone is seen when something is printed.
            let _ = term.clear_line();
        }
        self.drawn = false;
    }

    /// Shows how far it is. `heard` grows whenever something comes from the receiver.
    pub(super) fn tick(&mut self, meter: &Meter, heard: u64) -> Result<(), Failure> {
        let now = Instant::now();
        if heard != self.heard || meter.asked.get() == 0 {
            (self.heard, self.since, self.told_silence) = (heard, now, false);
        }
        self.samples.push_back((now, meter.sent.get()));
        while self.samples.len() > 2 && self.samples.front().is_some_and(|(then, _)| now - *then > LATELY) {
            self.samples.pop_front();
        }
        if let Some(trouble) =
            meter.take_trouble().filter(|trouble| self.told_trouble.as_ref() != Some(trouble))
        {
            self.clear();
            let text = crate::text::escape(trouble.as_bytes());
            self.settings.error(format!("the receiver cannot store it now: {text}; still trying"));
            self.told_trouble = Some(trouble);
        }
        let view = self.view(meter, now);
        if self.term.is_some() {
            self.draw(&view);
            return Ok(());
        }
        if self.settings.output.is_json() {
            return if self.due(now, JSON) { self.settings.output.line(&view.line()) } else { Ok(()) };
        }
        if view.silent >= SILENCE && !self.told_silence {
            self.told_silence = true;
            let hint = if heard == 0 { &self.absent } else { "still trying" };
            self.settings.note(format!("no answer for {}; {hint}", units::span(SILENCE)));
        } else if view.silent < SILENCE && self.due(now, PLAIN) {
            self.settings.note(view.text(usize::MAX, None));
        }
        Ok(())
    }

    fn due(&mut self, now: Instant, every: Duration) -> bool {
        let due = now - self.printed >= every;
        if due {
            self.printed = now;
        }
        due
    }

    fn view(&self, meter: &Meter, now: Instant) -> View {
        let (done, total) = (meter.done.get(), meter.total.get());
        let rate = self.samples.front().map_or(0, |(then, sent)| {
            let rate = units::rate(meter.sent.get().saturating_sub(*sent), now - *then);
            units::whole(rate).unwrap_or(0)
        });
        let total = (meter.streams.get() == 0).then_some(total);
        let left = total.map(|total| total.saturating_sub(done)).filter(|_| rate > 0);
        View {
            done,
            total,
            files: (meter.files_done.get(), meter.files.get()),
            rate,
            left: left.map(|left| Duration::from_secs(left.div_ceil(rate.max(1)))),
            silent: now - self.since,
        }
    }

    fn draw(&mut self, view: &View) {
        let Some(term) = self.term.clone() else { return };
        // Room is left for the `^C` that a terminal shows, so that all of it stays in one line.
        let width = usize::from(term.size().1).saturating_sub(3);
        let line = view.text(width, self.name.as_deref());
        if view.silent >= SILENCE && self.heard == 0 && !self.told_silence {
            self.told_silence = true;
            self.clear();
            self.settings.note(format!("no answer yet; {}", self.absent));
        }
        let _ = term.clear_line();
        self.drawn = term.write_str(&line).is_ok();
    }
}

impl View {
    /// In this many columns; a narrow line leaves out what matters least.
    fn text(&self, width: usize, name: Option<&str>) -> String {
        let bytes = match self.total {
            Some(total) => {
                let share = self.done.saturating_mul(100).checked_div(total).unwrap_or(100);
                format!("{:>3} %  {} of {}", share.min(100), Size(self.done), Size(total))
            }
            None => Size(self.done).to_string(),
        };
        let pace = if self.silent >= SILENCE {
            format!("no answer for {} s", self.silent.as_secs())
        } else {
            let left = self.left.map(|left| format!("  {} left", clock(left))).unwrap_or_default();
            format!("{}/s{left}", Size(self.rate))
        };
        let mut text = format!("{bytes}  {pace}");
        if console::measure_text_width(&text) > width {
            text = text.trim_end_matches(" left").to_owned();
        }
        let room = |text: &str, more: usize| console::measure_text_width(text) + more < width;
        let (done, files) = self.files;
        if files > 1 && room(&text, 24) {
            text = format!("{text}  {} of {} files", count(done), count(files));
        }
        if (WIDE..usize::MAX).contains(&width)
            && room(&text, BAR + 2)
            && let Some(total) = self.total
        {
            text = format!("{}  {text}", bar(self.done, total));
        }
        if let Some(name) = name
            && room(&text, 10)
        {
            let most = width.saturating_sub(console::measure_text_width(&text) + 2).min(32);
            text = format!("{}  {text}", console::truncate_str(name, most, "…"));
        }
        console::truncate_str(&text, width, "").into_owned()
    }

    fn line(&self) -> Line {
        Line {
            r#type: "progress",
            bytes: self.done,
            total: self.total,
            files: self.files.0,
            of_files: self.files.1,
            bytes_per_second: self.rate,
            seconds_left: self.left.map(|left| left.as_secs()),
            silent_seconds: if self.silent >= SILENCE { self.silent.as_secs() } else { 0 },
        }
    }
}

fn bar(done: u64, total: u64) -> String {
    let columns = BAR as u64;
    let full = done.saturating_mul(columns).checked_div(total).unwrap_or(columns).min(columns);
    let full = usize::try_from(full).unwrap_or(BAR);
    let (full, rest) = ("━".repeat(full), "─".repeat(BAR - full));
    format!("{}{}", console::style(full).cyan().for_stderr(), console::style(rest).dim().for_stderr())
}

/// `8 s`, `1:05 min`, `2:03 h`.
fn clock(span: Duration) -> String {
    match span.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ ..3_600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        seconds => format!("{}:{:02} h", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(silent: u64) -> View {
        View {
            done: 1_300_000_000,
            total: Some(3_000_000_000),
            files: (1_234, 20_000),
            rate: 98_000_000,
            left: Some(Duration::from_secs(18)),
            silent: Duration::from_secs(silent),
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 45..200 {
            for silent in [0, 12] {
                let text =
                    view(silent).text(width, Some("a rather long name of a file that fits nowhere.tar"));
                assert!(console::measure_text_width(&text) <= width, "{width}: {text}");
            }
        }
    }

    #[test]
    fn what_matters_is_there_in_few_columns() {
        let text = view(0).text(49, Some("name"));
        assert_eq!(text, " 43 %  1.2 GiB of 2.8 GiB  93.5 MiB/s  18 s left");
        assert_eq!(view(0).text(47, None), " 43 %  1.2 GiB of 2.8 GiB  93.5 MiB/s  18 s");
        assert!(view(12).text(49, None).ends_with("no answer for 12 s"));
        assert!(view(0).text(120, Some("name")).contains("1,234 of 20,000 files"));
    }

    #[test]
    fn spans_that_are_left_are_short() {
        for (seconds, text) in [(0, "0 s"), (59, "59 s"), (65, "1:05 min"), (7_380, "2:03 h")] {
            assert_eq!(clock(Duration::from_secs(seconds)), text);
        }
    }
}
