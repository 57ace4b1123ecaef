//! A bar for each peer.

use super::style;
use super::svg::{Anchor, Drawing};

/// Bars in groups.
pub(super) struct Bars {
    pub(super) title: String,
    pub(super) unit: String,
    pub(super) logarithmic: bool,
    pub(super) groups: Vec<(String, Vec<Bar>)>,
}

/// One of them.
pub(super) struct Bar {
    pub(super) label: String,
    /// Parts, one after the other, and whose they are.
    pub(super) parts: Vec<(String, f64)>,
    /// The text at its end.
    pub(super) text: String,
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 210.0;
const ROW: f64 = 22.0;
const HEAD: f64 = 30.0;
const TOP: f64 = 62.0;

impl Bars {
    pub(super) fn draw(&self) -> Drawing {
        #[allow(clippy::cast_precision_loss)] // a few rows
        let height: f64 = self.groups.iter().map(|(_, bars)| HEAD + 8.0 + ROW * bars.len() as f64).sum();
        let mut drawing = Drawing::new(WIDTH, TOP + height + 10.0);
        drawing.text((16.0, 26.0), 17.0, Anchor::Start, true, &self.title);
        drawing.text((16.0, 46.0), 12.0, Anchor::Start, false, &self.unit);
        let total = |bar: &Bar| bar.parts.iter().map(|(_, value)| value).sum::<f64>();
        let all = || self.groups.iter().flat_map(|(_, bars)| bars).map(total);
        let most = all().fold(0.0, f64::max).max(1e-9);
        // A decade below the least, so that it is a bar too.
        let least = all().filter(|value| *value > 0.0).fold(most, f64::min) / 2.0;
        let length = |value: f64| {
            let share = match self.logarithmic {
                true => (value.max(least) / least).ln() / (most / least).ln(),
                false => value / most,
            };
            share.max(0.0) * (WIDTH - LEFT - RIGHT)
        };
        let mut y = TOP;
        for (name, bars) in &self.groups {
            drawing.text((16.0, y + 18.0), 13.5, Anchor::Start, true, name);
            y += HEAD;
            for bar in bars {
                let ours = bar.parts.first().is_some_and(|(peer, _)| peer == "exonet");
                drawing.text((LEFT - 8.0, y + 14.0), 11.5, Anchor::End, ours, &bar.label);
                let (mut x, mut before) = (LEFT, 0.0);
                for (peer, value) in &bar.parts {
                    let to = LEFT + length(before + value);
                    drawing.rectangle(
                        (x, y + 2.0),
                        ((to - x - 1.0).max(1.0), ROW - 6.0),
                        style::of(peer).colour,
                    );
                    (x, before) = (to, before + value);
                }
                drawing.text((x + 6.0, y + 14.0), 11.5, Anchor::Start, ours, &bar.text);
                y += ROW;
            }
            y += 8.0;
        }
        drawing
    }
}
