//! `exon ping`: measures round trips to a node.

use std::pin::pin;
use std::time::Duration;

use exonet::Peer;
use exonet::error::PingError;
use serde::Serialize;

use super::show;
use super::stop::stop;
use crate::args::PingArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::units;

#[derive(Serialize)]
struct Pinged {
    r#type: &'static str,
    n: u32,
    rtt_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    end: &'static str,
    sent: u32,
    lost: u32,
    min_ms: Option<f64>,
    avg_ms: Option<f64>,
    max_ms: Option<f64>,
    address: Option<String>,
    mtu: Option<u16>,
    /// The time by which the clock of this machine is ahead of the peer's clock.
    clock_ahead_s: Option<f64>,
    early_refused: Option<Apart>,
}

/// Why the peer does not accept first messages together with an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Apart {
    ClockAhead,
    ClockBehind,
}

impl Apart {
    /// The difference in seconds from which on clocks are too far apart.
    const SECONDS: f64 = 10.0;

    fn of(ahead: f64) -> Option<Self> {
        match ahead {
            _ if ahead > Self::SECONDS => Some(Self::ClockAhead),
            _ if ahead < -Self::SECONDS => Some(Self::ClockBehind),
            _ => None,
        }
    }

    fn tell(self, ahead: f64) -> String {
        let apart = units::span(Duration::from_secs_f64(ahead.abs()));
        let (which, why) = match self {
            Self::ClockAhead => ("ahead of", "they seem to come from the future"),
            Self::ClockBehind => ("behind", "they seem older than what it may have forgotten"),
        };
        format!(
            "clock       {apart} {which} the peer's: first messages to it take the slow way, three trips, since {why}"
        )
    }
}

/// The round trips so far.
#[derive(Debug, Default)]
struct Series {
    sent: u32,
    trips: Vec<Duration>,
}

pub(super) async fn run(settings: &Settings, args: &PingArgs) -> Result<Exit, Failure> {
    let node = node::toward(settings, &args.peer).await?;
    let peer = node.peer(&args.peer);
    let stop = stop(None)?;
    let mut series = Series::default();
    let interrupted = {
        let pings = ping_all(settings, &peer, args, &mut series);
        tokio::select! {
            result = pin!(pings) => { result?; false }
            _ = stop => true,
        }
    };
    sum_up(settings, &peer, &series, interrupted)?;
    node.close(GOODBYE).await;
    Ok(match (interrupted, series.trips.is_empty()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Undelivered,
        (false, false) => Exit::Success,
    })
}

async fn ping_all(
    settings: &Settings,
    peer: &Peer,
    args: &PingArgs,
    series: &mut Series,
) -> Result<(), Failure> {
    let mut ticks = tokio::time::interval(args.interval.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for n in 1..=args.count {
        ticks.tick().await;
        series.sent = n;
        let (rtt, refused) = match peer.ping(args.timeout).await {
            Ok(rtt) => (rtt, None),
            Err(PingError::Refused(why)) => (None, Some(why)),
            Err(error) => {
                return Err(Failure::new(format!("cannot ping {}", args.peer.id.short())).because(&error));
            }
        };
        series.trips.extend(rtt);
        let told = match refused {
            Some(_) => "refused".to_owned(),
            None => rtt.map_or("no answer".to_owned(), units::span),
        };
        settings.output.text(&format!("{n:>4}  {told}"))?;
        let (rtt_ms, reason) = (rtt.map(milliseconds), refused.map(|why| why.to_string()));
        settings.output.line(&Pinged { r#type: "ping", n, rtt_ms, refused: reason })?;
        if let Some(why) = refused {
            show::say_refused(settings, why, peer.node().id());
            // Every further ping would fail in the same way.
            return Ok(());
        }
    }
    Ok(())
}

fn sum_up(settings: &Settings, peer: &Peer, series: &Series, interrupted: bool) -> Result<(), Failure> {
    let stats = peer.stats();
    let answered = u32::try_from(series.trips.len()).unwrap_or(u32::MAX);
    let lost = series.sent.saturating_sub(answered);
    let average = series.trips.iter().sum::<Duration>().checked_div(answered);
    let (min, max) = (series.trips.iter().min().copied(), series.trips.iter().max().copied());
    let address = stats.as_ref().and_then(|stats| stats.remote).map(|address| address.to_string());
    let mtu = stats.as_ref().map(|stats| stats.mtu);
    settings.output.text(&format!("\n{} sent, {lost} lost", series.sent))?;
    if let (Some(min), Some(average), Some(max)) = (min, average, max) {
        let [min, average, max] = [min, average, max].map(units::span);
        settings.output.text(&format!("round trip  min {min}, average {average}, max {max}"))?;
    }
    if let (Some(address), Some(mtu)) = (&address, mtu) {
        settings.output.text(&format!("path        {address}, datagrams of {mtu} bytes"))?;
    }
    let clock_ahead_s = stats.as_ref().and_then(|stats| stats.clock_ahead).map(seconds);
    let early_refused = clock_ahead_s.and_then(Apart::of);
    if let (Some(ahead), Some(apart)) = (clock_ahead_s, early_refused) {
        settings.output.text(&apart.tell(ahead))?;
    }
    settings.output.line(&Summary {
        r#type: "summary",
        end: if interrupted { "interrupted" } else { "done" },
        sent: series.sent,
        lost,
        min_ms: min.map(milliseconds),
        avg_ms: average.map(milliseconds),
        max_ms: max.map(milliseconds),
        address,
        mtu,
        clock_ahead_s,
        early_refused,
    })
}

#[allow(clippy::cast_precision_loss)] // a clock is never right to the nanosecond
fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::Apart;

    #[test]
    fn clocks_that_are_apart_are_told_with_the_reason() {
        for (ahead, apart) in [
            (0.0, None),
            (9.0, None),
            (-9.0, None),
            (11.0, Some(Apart::ClockAhead)),
            (-11.0, Some(Apart::ClockBehind)),
        ] {
            assert_eq!(Apart::of(ahead), apart, "{ahead}");
        }
        let told = Apart::ClockAhead.tell(3_600.0);
        assert!(told.contains("3600 s ahead of the peer's") && told.contains("from the future"), "{told}");
        let told = Apart::ClockBehind.tell(-20.0);
        assert!(told.contains("20 s behind the peer's") && told.contains("older"), "{told}");
        let json = serde_json::to_string(&Apart::ClockBehind).unwrap_or_default();
        assert_eq!(json, "\"clock_behind\"");
    }
}
