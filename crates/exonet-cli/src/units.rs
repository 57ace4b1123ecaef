//! Sizes, spans and shares as people write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The error for a text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseError {
    #[error("{0:?} is not a size: write 1048576, 64KiB, 10MB or 2GiB")]
    Size(String),
    #[error("{0:?} is not a span of time: write 500ms, 2s, 1.5m or 1h")]
    Span(String),
    #[error("{0:?} is not a number of at least 1: write 1, 20 or 5000")]
    Number(String),
    #[error("{0:?} is no time at all: write 500ms, 2s, 1.5m or 1h")]
    NoTime(String),
    #[error("it has {0} bytes, and a tag or a method has 255 at most")]
    Label(usize),
    #[error("{0:?} is not a share: write 5% or 0.05, from 0 to 1")]
    Share(String),
}

/// Splits `1.5GiB` into its number and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number.parse().ok().map(|number| (number, unit.trim()))
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseError::Size(text.to_owned());
        let (number, unit) = split(text.trim()).ok_or_else(wrong)?;
        let factor: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(wrong()),
        };
        whole(number * precise(factor)).map(Self).ok_or_else(wrong)
    }
}

/// The nearest integer, where there is one. A span is the checked way from a fraction to an integer.
pub(crate) fn whole(number: f64) -> Option<u64> {
    Duration::try_from_secs_f64(number.round()).ok().map(|span| span.as_secs())
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = precise(self.0);
        let mut unit = "B";
        for next in ["KiB", "MiB", "GiB", "TiB"] {
            if value < 1_024.0 {
                break;
            }
            value /= 1_024.0;
            unit = next;
        }
        if unit == "B" { f.pad(&format!("{} B", self.0)) } else { f.pad(&format!("{value:.1} {unit}")) }
    }
}

/// A count as a fraction, for rates and means: exact up to 2^53.
pub(crate) fn precise(count: u64) -> f64 {
    count as f64
}

/// `500ms`, `2s`, `1.5m`, `1h`; a bare number is seconds.
pub(crate) fn parse_span(text: &str) -> Result<Duration, ParseError> {
    let wrong = || ParseError::Span(text.to_owned());
    let (number, unit) = split(text.trim()).ok_or_else(wrong)?;
    let factor = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * factor).map_err(|_| wrong())
}

/// A whole number from 1.
pub(crate) fn at_least_one<N: FromStr>(text: &str) -> Result<N, ParseError> {
    text.parse().map_err(|_| ParseError::Number(text.to_owned()))
}

/// A tag or a method.
pub(crate) fn parse_label(text: &str) -> Result<String, ParseError> {
    if text.len() <= 255 { Ok(text.to_owned()) } else { Err(ParseError::Label(text.len())) }
}

/// A span of time that is not zero.
pub(crate) fn parse_some_time(text: &str) -> Result<Duration, ParseError> {
    parse_span(text)
        .and_then(|span| if span.is_zero() { Err(ParseError::NoTime(text.to_owned())) } else { Ok(span) })
}

/// `5%` or `0.05`.
pub(crate) fn parse_share(text: &str) -> Result<f64, ParseError> {
    let wrong = || ParseError::Share(text.to_owned());
    let (number, unit) = split(text.trim()).ok_or_else(wrong)?;
    let share = match unit {
        "" => number,
        "%" => number / 100.0,
        _ => return Err(wrong()),
    };
    (0.0..=1.0).contains(&share).then_some(share).ok_or_else(wrong)
}

/// `12345` as `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 message`, `12,345 messages`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(number))
}

/// Three figures and the unit that suits: `840 us`, `10.3 ms`, `2 s`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    if seconds < 1e-3 {
        format!("{:.0} us", seconds * 1e6)
    } else if seconds < 1.0 {
        trimmed(&format!("{:.1}", seconds * 1e3), "ms")
    } else {
        trimmed(&format!("{seconds:.2}"), "s")
    }
}

/// A number without the zeros that say nothing, and its unit.
fn trimmed(number: &str, unit: &str) -> String {
    format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// `count` things in `span`, as a rate a second.
pub(crate) fn rate(count: u64, span: Duration) -> f64 {
    let seconds = span.as_secs_f64();
    if seconds > 0.0 { precise(count) / seconds } else { 0.0 }
}

/// A share as `5 %` or `0.5 %`.
pub(crate) fn percent(share: f64) -> String {
    trimmed(&format!("{:.2}", share * 100.0), "%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("64KiB", 65_536),
            ("64k", 65_536),
            ("1.5 GiB", 1_610_612_736),
            ("10MB", 10_000_000),
            ("2T", 2 << 40),
            ("1TB", 1_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "KiB", "-1", "1 parsec", "1..2", "99999999999999999999999"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert_eq!(Size(1_610_612_736).to_string(), "1.5 GiB");
        assert_eq!(Size(1_023).to_string(), "1023 B");
    }

    #[test]
    fn spans_and_shares() {
        assert_eq!(parse_span("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_span("2"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_span("1.5m"), Ok(Duration::from_secs(90)));
        assert!(parse_span("soon").is_err());
        assert_eq!(parse_share("5%"), Ok(0.05));
        assert_eq!(parse_share("0.5"), Ok(0.5));
        assert!(parse_share("101%").is_err());
        assert_eq!(percent(0.005), "0.5 %");
        assert_eq!(percent(0.1), "10 %");
    }

    #[test]
    fn times_read_well() {
        assert_eq!(span(Duration::from_micros(840)), "840 us");
        assert_eq!(span(Duration::from_micros(10_340)), "10.3 ms");
        assert_eq!(span(Duration::from_millis(1_200)), "1.2 s");
        assert_eq!(span(Duration::from_millis(10)), "10 ms");
        assert_eq!(span(Duration::from_secs(20)), "20 s");
    }

    proptest! {
        #[test]
        fn counts_keep_their_digits(number: u64) {
            let text = count(number);
            prop_assert_eq!(text.replace(',', "").parse::<u64>().unwrap(), number);
            prop_assert!(text.split(',').skip(1).all(|group| group.len() == 3));
        }

        #[test]
        fn whole_rounds(number in 0_u64..1 << 52) {
            prop_assert_eq!(whole(precise(number) + 0.25), Some(number));
        }
    }
}
