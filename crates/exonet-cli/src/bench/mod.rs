//! `exon bench`: measures the performance on this machine.

mod actor;
mod bare;
mod calls;
mod client;
mod crowd;
mod frame;
mod host;
mod memory;
mod open;
mod pair;
mod replies;
mod server;
mod work;

pub(crate) use crowd::crowd;

use std::time::Duration;

use console::style;
use serde::Serialize;

use self::bare::Bare;
use self::memory::Memory;
use self::pair::{Batch, OneWay, Pair, RoundTrip};
use crate::args::{BenchArgs, BenchCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::units::{count, percent, span, whole};

/// The default sizes.
const SIZES: [usize; 2] = [1_024, 64];
/// The size of the message that each of many peers sends.
const PEER_MESSAGE: usize = 1_024;

/// All figures; the last line of `--json`.
#[derive(Debug, Serialize)]
struct Figures {
    r#type: &'static str,
    one_way: Vec<OneWay>,
    round_trip: Vec<RoundTrip>,
    /// The same without any protocol.
    bare: Vec<Bare>,
    echo: Vec<RoundTrip>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
}

/// Measures, and prints each figure as soon as it is known.
pub(crate) async fn run(settings: &Settings, args: &BenchArgs) -> Result<Exit, Failure> {
    match &args.command {
        None => {}
        Some(BenchCommand::Calls(args)) => return calls::run(settings, args).await,
        Some(BenchCommand::Server(args)) => return server::serve(settings, args).await,
        Some(BenchCommand::Client(args)) => return client::send(settings, args).await,
    }
    let output = settings.output;
    let sizes = match args.size {
        Some(size) => vec![usize::try_from(size.0).unwrap_or(usize::MAX)],
        None => SIZES.to_vec(),
    };
    let mut figures = Figures {
        r#type: "summary",
        one_way: Vec::new(),
        round_trip: Vec::new(),
        bare: Vec::new(),
        echo: Vec::new(),
        memory: None,
    };
    output.text("\n  two nodes in this process, over loopback, encrypted\n")?;
    for &size in &sizes {
        let seconds = args.seconds;
        let measuring = tokio::task::spawn_blocking(move || bare::bare(size, seconds));
        let bare = measuring.await.map_err(|e| Failure::new("the bare loop failed").because(&e))??;
        output.text(&bare_row(&bare))?;
        for batch in [Batch::One, Batch::Many] {
            let measured = Pair::connect().await?.one_way(size, batch, args.seconds).await?;
            output.text(&one_way_row(&measured, &bare))?;
            figures.one_way.push(measured);
        }
        figures.bare.push(bare);
    }
    for &size in &sizes {
        let echo = bare::echo(size, args.seconds).await?;
        output.text(&round_trip_row("echo", "plain", &echo))?;
        let measured = Pair::connect().await?.round_trips(size, args.seconds).await?;
        let row = round_trip_row("round trip", "alone", &measured);
        let times = measured.p50_us / echo.p50_us.max(0.001);
        output.text(&format!("{row}, {times:.2} times the echo's"))?;
        figures.round_trip.push(measured);
        figures.echo.push(echo);
    }
    if args.peers > 0 {
        let peers = args.peers;
        settings.note(format!("meeting {} peers", count(peers.into())));
        let measuring = tokio::task::spawn_blocking(move || memory::measure(peers, PEER_MESSAGE));
        let measured = measuring.await.map_err(|e| Failure::new("measuring memory failed").because(&e))??;
        output.text(&memory_table(&measured))?;
        figures.memory = Some(measured);
    }
    output.text("")?;
    output.line(&figures)?;
    Ok(Exit::Success)
}

fn bare_row(row: &Bare) -> String {
    format!(
        "  bare loop    {:>6} bytes  {:<14}{:>12} messages/s",
        count(u64::try_from(row.size).unwrap_or(u64::MAX)),
        "seal, open",
        count(whole(row.messages_per_s).unwrap_or(0)),
    )
}

fn one_way_row(row: &OneWay, bare: &Bare) -> String {
    let how = match row.batch {
        1 => "one by one".to_owned(),
        batch => format!("{batch} at a time"),
    };
    format!(
        "  one way      {:>6} bytes  {how:<14}{:>12} messages/s {:>10.1} MB/s, {} of the bare loop",
        count(u64::try_from(row.size).unwrap_or(u64::MAX)),
        count(whole(row.messages_per_s).unwrap_or(0)),
        row.bytes_per_s / 1e6,
        percent(bare::share(row.messages_per_s, bare)),
    )
}

fn round_trip_row(what: &str, how: &str, row: &RoundTrip) -> String {
    let micros = |us: f64| span(Duration::from_secs_f64(us / 1e6));
    format!(
        "  {what:<13}{:>6} bytes  {how:<14}{:>12} a second   p50 {}, p99 {}",
        count(u64::try_from(row.size).unwrap_or(u64::MAX)),
        count(whole(row.per_s).unwrap_or(0)),
        micros(row.p50_us),
        micros(row.p99_us),
    )
}

fn memory_table(memory: &Memory) -> String {
    let head = format!(
        "\n  {:<44}{:>14}{:>14}",
        format!("bytes for each of {} peers", count(memory.peers.into())),
        "allocated",
        "resident"
    );
    let mut lines = vec![style(head).dim().to_string()];
    for stage in &memory.stages {
        let resident = stage.resident_per_peer.map_or_else(|| "-".to_owned(), signed);
        lines.push(format!("  {:<44}{:>14}{resident:>14}", stage.stage, signed(stage.allocated_per_peer)));
    }
    let seconds = memory.seconds;
    lines.push(style(format!("  met in {seconds:.1} s")).dim().to_string());
    lines.join("\n")
}

/// A number with its sign: the remaining memory may be less than before.
fn signed(bytes: f64) -> String {
    let sign = if bytes <= -0.5 { "-" } else { "" };
    format!("{sign}{}", count(whole(bytes.abs()).unwrap_or(0)))
}
