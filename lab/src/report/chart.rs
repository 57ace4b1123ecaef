//! Lines over steps of something, labelled where they end; several panels beside each other.

use super::style;
use super::svg::{Anchor, Drawing};
use crate::stats::figure;

/// Some panels with one title.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) panels: Vec<Panel>,
}

/// One system of axes.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x_label: String,
    /// Equally far apart.
    pub(super) steps: Vec<String>,
    pub(super) y_label: String,
    pub(super) logarithmic: bool,
    pub(super) lines: Vec<Line>,
}

/// What a peer did at each step.
pub(super) struct Line {
    pub(super) peer: String,
    pub(super) label: String,
    /// None: it did not.
    pub(super) values: Vec<Option<f64>>,
}

const PLOT: (f64, f64) = (270.0, 300.0);
/// Left of a plot, for figures; right of it, for labels.
const MARGIN: (f64, f64) = (74.0, 178.0);
const TOP: f64 = 84.0;
const BOTTOM: f64 = 50.0;
/// Labels are at least this far apart.
const LABEL: f64 = 14.0;
const GREY: &str = "#dddddd";
/// The size of a title, and how wide its letters are at most, on average.
const TITLE: f64 = 17.0;
const LETTER: f64 = 0.58 * TITLE;

impl Chart {
    pub(super) fn draw(&self) -> Drawing {
        #[allow(clippy::cast_precision_loss)] // a few panels, a short title
        let (panels, letters) = (self.panels.len() as f64, self.title.chars().count() as f64);
        let width = ((MARGIN.0 + PLOT.0 + MARGIN.1) * panels).max(letters * LETTER + 32.0);
        let mut drawing = Drawing::new(width, TOP + PLOT.1 + BOTTOM);
        drawing.text((16.0, 26.0), TITLE, Anchor::Start, true, &self.title);
        let mut left = MARGIN.0;
        for panel in &self.panels {
            panel.draw(&mut drawing, left);
            left += MARGIN.0 + PLOT.0 + MARGIN.1;
        }
        drawing
    }
}

impl Panel {
    fn draw(&self, drawing: &mut Drawing, left: f64) {
        let scale = Scale::of(self);
        let x = |step: usize| {
            #[allow(clippy::cast_precision_loss)] // a few steps
            let (step, all) = (step as f64, self.steps.len().max(1) as f64);
            left + PLOT.0 * (step + 0.5) / all
        };
        drawing.text((left, TOP - 30.0), 13.5, Anchor::Start, true, &self.title);
        drawing.text((left - MARGIN.0 + 16.0, TOP - 12.0), 12.0, Anchor::Start, false, &self.y_label);
        for tick in scale.ticks() {
            let y = scale.y(tick);
            drawing.line((left, y), (left + PLOT.0, y), GREY, 1.0);
            drawing.text((left - 8.0, y + 4.0), 11.5, Anchor::End, false, &short(tick));
        }
        drawing.line((left, TOP + PLOT.1), (left + PLOT.0, TOP + PLOT.1), "#666666", 1.0);
        for (step, text) in self.steps.iter().enumerate() {
            drawing.text((x(step), TOP + PLOT.1 + 17.0), 11.5, Anchor::Middle, false, text);
        }
        drawing.text((left + PLOT.0 / 2.0, TOP + PLOT.1 + 38.0), 12.0, Anchor::Middle, false, &self.x_label);
        // Exonet is drawn last, above all others.
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(|line| line.peer == "exonet");
        let mut ends = Vec::new();
        for line in lines {
            let style = style::of(&line.peer);
            let points: Vec<(f64, f64)> = line
                .values
                .iter()
                .enumerate()
                .filter_map(|(step, value)| Some((x(step), scale.y((*value)?))))
                .collect();
            drawing.path(&points, style);
            points.iter().for_each(|point| drawing.marker(*point, style));
            if let Some(end) = points.last() {
                ends.push((*end, line));
            }
        }
        label(drawing, left + PLOT.0, ends);
    }
}

/// Writes who it is beside the end of each line, with room between.
fn label(drawing: &mut Drawing, right: f64, mut ends: Vec<((f64, f64), &Line)>) {
    ends.sort_by(|a, b| a.0.1.total_cmp(&b.0.1));
    let mut places: Vec<f64> = ends.iter().map(|((_, y), _)| *y).collect();
    // Down from the first, then up again from the bottom of the plot.
    let mut last = f64::NEG_INFINITY;
    for place in &mut places {
        *place = place.max(last + LABEL);
        last = *place;
    }
    let mut last = TOP + PLOT.1 + LABEL;
    for place in places.iter_mut().rev() {
        *place = place.min(last - LABEL);
        last = *place;
    }
    for ((end, line), place) in ends.into_iter().zip(places) {
        let style = style::of(&line.peer);
        drawing.line((end.0 + 4.0, end.1), (right + 10.0, place), style.colour, 0.8);
        drawing.marker((right + 13.0, place), style);
        let ours = line.peer == "exonet";
        drawing.text((right + 20.0, place + 4.0), 11.5, Anchor::Start, ours, &line.label);
    }
}

/// From values to heights.
struct Scale {
    logarithmic: bool,
    least: f64,
    most: f64,
}

impl Scale {
    fn of(panel: &Panel) -> Self {
        let values = || panel.lines.iter().flat_map(|line| line.values.iter().flatten().copied());
        let most = values().fold(0.0, f64::max).max(1e-6);
        if panel.logarithmic {
            let least = values().filter(|value| *value > 0.0).fold(most, f64::min);
            // Not below four decades: what is smaller is at the bottom.
            let least = least.max(most / 1e4).log10().floor();
            return Self { logarithmic: true, least, most: (most * 1.15).log10() };
        }
        Self { logarithmic: false, least: 0.0, most: most * 1.05 }
    }

    fn y(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(1e-9).log10() } else { value };
        let share = ((value - self.least) / (self.most - self.least)).clamp(0.0, 1.0);
        TOP + PLOT.1 * (1.0 - share)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            #[allow(clippy::cast_possible_truncation)] // decades
            let decades = self.least as i32..=self.most.floor() as i32;
            let wide = self.most - self.least > 2.0;
            let parts: &[f64] = if wide { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all = decades.flat_map(|decade| parts.iter().map(move |part| part * 10_f64.powi(decade)));
            return all.filter(|tick| tick.log10() <= self.most).collect();
        }
        let rough = self.most / 5.0;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|part| part * decade).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        (0..=5).map(|tick| f64::from(tick) * step).filter(|tick| *tick <= self.most).collect()
    }
}

/// The figure of a tick.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", figure(v / 1e6).trim_end_matches(".00")),
        v if v == v.trunc() => figure(v).trim_end_matches(".00").trim_end_matches(".0").to_owned(),
        v => format!("{v}"),
    }
}
