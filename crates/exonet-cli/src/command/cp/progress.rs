//! Shows the progress of the copy: one updated line on a terminal, plain lines or JSON elsewhere.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use console::Term;
use serde::Serialize;

use super::super::view::{SILENCE, View};
use super::meter::Meter;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::units;

/// The interval at which the line is drawn, and the interval of plain lines and JSON.
pub(super) const TICK: Duration = Duration::from_millis(200);
const PLAIN: Duration = Duration::from_secs(10);
const JSON: Duration = Duration::from_secs(1);
/// The span over which the rate is computed.
const LATELY: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Line {
    r#type: &'static str,
    /// The number of bytes that the receiver has.
    bytes: u64,
    total: Option<u64>,
    files: u64,
    of_files: u64,
    bytes_per_second: u64,
    seconds_left: Option<u64>,
    silent_seconds: u64,
}

pub(super) struct Progress<'a> {
    settings: &'a Settings,
    /// The message for a receiver that does not answer, with the remedy.
    absent: String,
    /// The terminal, if the user wants progress to be shown there.
    term: Option<Term>,
    name: Option<String>,
    drawn: bool,
    printed: Instant,
    told_silence: bool,
    told_trouble: Option<String>,
    samples: VecDeque<(Instant, u64)>,
    /// The amount received from the receiver, and the time since when it has not grown.
    heard: u64,
    since: Instant,
}

impl<'a> Progress<'a> {
    /// `name` is shown if there is one file. `absent` has the remedy if the receiver has never answered.
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

    /// Clears the line, so that other lines can be printed.
    pub(super) fn clear(&mut self) {
        if self.drawn
            && let Some(term) = &self.term
        {
            // A terminal that is gone causes an error at the next print.
            let _ = term.clear_line();
        }
        self.drawn = false;
    }

    /// Shows the progress. `heard` grows whenever something arrives from the receiver.
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
            return if self.due(now, JSON) { self.settings.output.line(&line(&view)) } else { Ok(()) };
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
        // Room is left for the `^C` that a terminal shows, so that everything stays on one line.
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

fn line(view: &View) -> Line {
    Line {
        r#type: "progress",
        bytes: view.done,
        total: view.total,
        files: view.files.0,
        of_files: view.files.1,
        bytes_per_second: view.rate,
        seconds_left: view.left.map(|left| left.as_secs()),
        silent_seconds: if view.silent >= SILENCE { view.silent.as_secs() } else { 0 },
    }
}
