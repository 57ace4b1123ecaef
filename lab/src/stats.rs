//! Medians and spreads of few runs.

/// The results of several runs of the same kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) runs: usize,
}

impl Spread {
    /// None: there are no values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let upper = *values.get(values.len() / 2)?;
        let lower = *values.get((values.len() - 1) / 2)?;
        Some(Self { median: f64::midpoint(lower, upper), least, most, runs: values.len() })
    }

    /// The median, and how far the run that is farthest from it is, in per cent.
    pub(crate) fn tell(&self) -> String {
        let median = figure(self.median);
        if self.runs < 2 {
            return median;
        }
        let far =
            (self.most - self.median).max(self.median - self.least) / self.median.abs().max(1e-12) * 100.0;
        let far = if self.most <= self.least { 0.0 } else { far };
        if far >= 1_000.0 {
            // Beside next to nothing, a share of it says nothing.
            return format!("{median} ({} to {})", figure(self.least), figure(self.most));
        }
        let decimals = usize::from(far < 9.95);
        format!("{median} ±{far:.decimals$} %").replace("±0.0 %", "±0 %")
    }
}

/// A number as it is read: three digits that matter, thousands apart.
pub(crate) fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, rest) = plain
        .split_once('.')
        .map_or((plain.as_str(), String::new()), |(whole, rest)| (whole, format!(".{rest}")));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && digit.is_ascii_digit() && !grouped.ends_with('-')
        {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + &rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0]), Some(Spread { median: 3.0, least: 3.0, most: 3.0, runs: 1 }));
        assert_eq!(Spread::of([9.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 9.0, runs: 3 }));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 9.0]).map(|spread| spread.median), Some(3.0));
    }

    #[test]
    fn a_spread_is_that_of_the_farthest_run() {
        let tell = |values: &[f64]| Spread::of(values.iter().copied()).map(|spread| spread.tell());
        assert_eq!(tell(&[100.0, 98.0, 101.0]).as_deref(), Some("100 ±2.0 %"));
        assert_eq!(tell(&[10.0, 20.0, 9.0]).as_deref(), Some("10.0 ±100 %"));
        assert_eq!(tell(&[5.0]).as_deref(), Some("5.00"), "one run has no spread");
        assert_eq!(tell(&[0.0, 0.0]).as_deref(), Some("0 ±0 %"));
        assert_eq!(tell(&[0.0, 0.0, 3.0]).as_deref(), Some("0 (0 to 3.00)"));
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(figure(1_234_567.8), "1,234,568");
        assert_eq!(figure(999.6), "1,000");
        assert_eq!(figure(12.345), "12.3");
        assert_eq!(figure(1.0), "1.00");
        assert_eq!(figure(0.0), "0");
    }
}
