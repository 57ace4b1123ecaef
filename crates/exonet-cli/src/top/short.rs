//! Figures in few characters, for narrow columns.

use std::time::Duration;

use crate::units::whole;

/// The heights of a bar.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The text for an unknown value.
pub(super) const NONE: &str = "-";

/// Up to three digits and a unit of thousands: `7`, `1.2k`, `34k`, `5.6M`.
pub(super) fn number(number: f64) -> String {
    let (mut value, mut unit) = (number, "");
    for next in ["k", "M", "G", "T"] {
        if value < 999.5 {
            break;
        }
        value /= 1e3;
        unit = next;
    }
    if value < 9.95 && (!unit.is_empty() || (value > 0.0 && value.fract() > 0.0)) {
        format!("{value:.1}{unit}")
    } else {
        format!("{value:.0}{unit}")
    }
}

/// As [`number`], for a value that may be unknown.
pub(super) fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), number)
}

/// `840us`, `9.5ms`, `120ms`, `1.2s`.
pub(super) fn rtt(ms: Option<f64>) -> String {
    match ms {
        None => NONE.to_owned(),
        Some(ms) if ms < 1.0 => format!("{:.0}us", ms * 1e3),
        Some(ms) if ms < 9.95 => format!("{ms:.1}ms"),
        Some(ms) if ms < 999.5 => format!("{ms:.0}ms"),
        Some(ms) => format!("{:.1}s", ms / 1e3),
    }
}

/// `0%`, `0.5%`, `12%`.
pub(super) fn share(share: Option<f64>) -> String {
    match share.map(|share| share * 100.0) {
        None => NONE.to_owned(),
        Some(share) if share > 0.0 && share < 9.95 => format!("{share:.1}%"),
        Some(share) => format!("{share:.0}%"),
    }
}

/// `300ms`, `12s`, `5m`, `2h`, `3d`.
pub(super) fn age(ms: Option<u64>) -> String {
    match ms {
        None => NONE.to_owned(),
        Some(ms) if ms < 1_000 => format!("{ms}ms"),
        Some(ms) if ms < 100_000 => format!("{}s", ms / 1_000),
        Some(ms) if ms < 6_000_000 => format!("{}m", ms / 60_000),
        Some(ms) if ms < 172_800_000 => format!("{}h", ms / 3_600_000),
        Some(ms) => format!("{}d", ms / 86_400_000),
    }
}

/// `45 s`, `12 min 3 s`, `3 h 12 min`, `5 d 2 h`.
pub(super) fn uptime(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match () {
        () if minutes == 0 => format!("{seconds} s"),
        () if hours == 0 => format!("{minutes} min {} s", seconds % 60),
        () if days == 0 => format!("{hours} h {} min", minutes % 60),
        () => format!("{days} d {} h", hours % 24),
    }
}

/// The latest values as bars, the last at the right. Zero has no bar, and the highest value has a full bar.
pub(super) fn bars(values: &[f64], width: usize) -> String {
    let shown = values.get(values.len().saturating_sub(width)..).unwrap_or_default();
    let most = shown.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| {
        let step = whole((value / most * 8.0).ceil().clamp(1.0, 8.0)).unwrap_or(1);
        let at = usize::try_from(step).unwrap_or(1) - 1;
        if *value > 0.0 { BARS.get(at).copied().unwrap_or(' ') } else { ' ' }
    };
    let blank = " ".repeat(width - shown.len());
    blank + &shown.iter().map(bar).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_round_as_they_should() {
        for (value, is) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (7.0, "7"),
            (9.96, "10"),
            (999.4, "999"),
            (999.6, "1.0k"),
            (1_234.0, "1.2k"),
            (34_000.0, "34k"),
            (999_600.0, "1.0M"),
            (5.6e9, "5.6G"),
        ] {
            assert_eq!(number(value), is, "{value}");
        }
        assert_eq!(
            [Some(0.84), Some(9.5), Some(120.2), Some(1_240.0), None].map(rtt),
            ["840us", "9.5ms", "120ms", "1.2s", "-"]
        );
        assert_eq!(
            [Some(0.0), Some(0.005), Some(0.123), Some(1.0), None].map(share),
            ["0%", "0.5%", "12%", "100%", "-"]
        );
        let ages = [Some(300), Some(12_400), Some(320_000), Some(7_300_000), Some(260_000_000), None];
        assert_eq!(ages.map(age), ["300ms", "12s", "5m", "2h", "3d", "-"]);
        let spans = [45, 723, 11_520, 440_000].map(|s| uptime(Duration::from_secs(s)));
        assert_eq!(spans, ["45 s", "12 min 3 s", "3 h 12 min", "5 d 2 h"]);
    }

    #[test]
    fn bars_show_the_latest_on_a_scale_of_their_own() {
        assert_eq!(bars(&[], 4), "    ");
        assert_eq!(bars(&[0.0, 1.0, 50.0, 100.0], 4), " ▁▄█");
        assert_eq!(bars(&[9.0, 9.0, 9.0, 0.0], 2), "█ ");
        assert_eq!(bars(&[0.0, 0.0], 3), "   ");
    }
}
