//! A line that shows the progress of a transfer.

use std::time::Duration;

use crate::units::{Size, count};

/// The silence after which the line reports it.
pub(super) const SILENCE: Duration = Duration::from_secs(3);
/// The number of columns of the bar, and the least width of a line that has room for it.
const BAR: usize = 24;
const WIDE: usize = 90;

/// The figures of the line.
pub(super) struct View {
    pub(super) done: u64,
    pub(super) total: Option<u64>,
    pub(super) files: (u64, u64),
    pub(super) rate: u64,
    pub(super) left: Option<Duration>,
    pub(super) silent: Duration,
}

impl View {
    /// The line for this many columns. A narrow line leaves out the least important parts.
    pub(super) fn text(&self, width: usize, name: Option<&str>) -> String {
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
}

fn bar(done: u64, total: u64) -> String {
    let columns = BAR as u64;
    let full = done.saturating_mul(columns).checked_div(total).unwrap_or(columns).min(columns);
    let full = usize::try_from(full).unwrap_or(BAR);
    let (full, rest) = ("━".repeat(full), "─".repeat(BAR - full));
    format!("{}{}", console::style(full).cyan().for_stderr(), console::style(rest).dim().for_stderr())
}

/// Formats a span as `8 s`, `1:05 min` or `2:03 h`.
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
