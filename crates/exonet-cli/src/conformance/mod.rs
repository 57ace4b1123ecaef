//! `exon conformance`: tests another implementation of the protocol, and reports where it does not conform.
//!
//! A [`Check`] has a name, a section of `PROTOCOL.md` and a function. Each check runs on a [`stand::Stand`] of its
//! own: a node, and a relay between the node and the subject. Each check gives one line of text, whether it passes or
//! fails.

mod calls;
mod faults;
mod flows;
mod lives;
mod stand;
mod subject;

use std::pin::Pin;
use std::time::{Duration, Instant};

use exonet::PeerAddr;
use futures_util::stream::{self, StreamExt};
use serde::Serialize;

use self::stand::Target;
use crate::args::ConformanceArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::escape;

pub(crate) use self::subject::subject;

/// What a check has observed; an [`Err`] is the violation.
type Seen = Result<String, String>;
/// A check in progress.
type Doing = Pin<Box<dyn Future<Output = Seen> + Send>>;

/// One requirement that an implementation must meet.
struct Check {
    name: &'static str,
    /// The section of `PROTOCOL.md`.
    section: &'static str,
    run: fn(Target) -> Doing,
}

/// Makes a check from an async function of a [`Target`].
macro_rules! check {
    ($name:literal, $section:literal, $run:path) => {
        Check { name: $name, section: $section, run: |target| Box::pin($run(target)) }
    };
}

/// All checks, in the order in which they run.
const CHECKS: &[Check] = &[
    check!("handshake", "Opening", flows::handshake),
    check!("suites", "Packets", flows::suites),
    check!("early", "Early messages", flows::early),
    check!("messages", "Half-connection", flows::messages),
    check!("large", "Messages", flows::large),
    check!("unmeasured", "MESSAGES", flows::unmeasured),
    check!("loss", "Loss recovery", faults::loss),
    check!("doubles", "Acknowledgements", faults::doubles),
    check!("reordering", "Receiving", faults::reordering),
    check!("corruption", "Errors", faults::corruption),
    check!("replay", "Half-connection", faults::replay),
    check!("early-replay", "Early messages", faults::early_replay),
    check!("strange", "Datagrams", faults::strange),
    check!("calls", "Calls", calls::calls),
    check!("calls-lossy", "Calls", calls::lossy),
    check!("calls-back", "Calls", calls::back),
    check!("streams", "Streams", flows::streams),
    check!("processed", "Confirmation", flows::processed),
    check!("rejected", "Confirmation", flows::rejected),
    check!("silence", "Silence", lives::silence),
    check!("idle", "Records over time", lives::idle),
    check!("move", "Paths", lives::moves),
    check!("restart", "A restarted peer", lives::restart),
    check!("stranger", "A restarted peer", lives::stranger),
];

#[derive(Serialize)]
struct Line<'a> {
    r#type: &'static str,
    check: &'static str,
    section: &'static str,
    passed: bool,
    seen: &'a str,
    seconds: f64,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    passed: usize,
    failed: usize,
    seconds: f64,
    seed: u64,
}

/// Lists the checks.
pub(crate) fn list(settings: &Settings) -> Result<Exit, Failure> {
    for Check { name, section, .. } in CHECKS {
        settings.output.text(&format!("{name:<14}{section}"))?;
        settings.output.line(&serde_json::json!({ "type": "check", "check": name, "section": section }))?;
    }
    Ok(Exit::Success)
}

/// Checks `peer`.
pub(crate) async fn run(
    settings: &Settings,
    args: &ConformanceArgs,
    peer: &PeerAddr,
) -> Result<Exit, Failure> {
    if let Some(name) = args.only.iter().find(|name| !CHECKS.iter().any(|check| check.name == name.as_str()))
    {
        return Err(Failure::new(format!("there is no check {name:?}"))
            .hint("`exon conformance --list` shows them")
            .wrong_usage());
    }
    let target = Target { id: peer.id, address: stand::address(peer).await?, seed: args.seed };
    let began = Instant::now();
    let (mut passed, mut failed) = (0, 0);
    let wanted =
        CHECKS.iter().filter(|c| args.only.is_empty() || args.only.iter().any(|name| name == c.name));
    let checks = wanted.map(|check| async move {
        let start = Instant::now();
        let seen = match tokio::time::timeout(args.timeout, (check.run)(target)).await {
            Ok(seen) => seen,
            Err(_) => Err(format!("it did not end within {}", crate::units::span(args.timeout))),
        };
        (check, seen, start.elapsed())
    });
    let mut checks = stream::iter(checks).buffered(args.jobs.into());
    while let Some((check, seen, took)) = checks.next().await {
        tell(settings, check, &seen, took)?;
        if seen.is_ok() {
            passed += 1;
        } else {
            failed += 1;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    settings.output.text(&format!("\n{passed} passed, {failed} failed, in {seconds:.1} s"))?;
    settings.output.line(&Summary { r#type: "summary", passed, failed, seconds, seed: args.seed })?;
    Ok(if failed == 0 { Exit::Success } else { Exit::Error })
}

fn tell(settings: &Settings, check: &Check, seen: &Seen, took: Duration) -> Result<(), Failure> {
    let (Ok(text) | Err(text)) = seen;
    // Much of this text comes from the peer.
    let text = escape(text.as_bytes());
    let (name, section) = (check.name, check.section);
    let line = match seen {
        Ok(_) => format!("{name:<14}{}      {text}", console::style("ok").green()),
        Err(_) => {
            let failed = console::style("FAILED").red();
            format!("{name:<14}{failed}  {text}\n{:<22}PROTOCOL.md, \"{section}\"", "")
        }
    };
    settings.output.text(&line)?;
    let seconds = took.as_secs_f64();
    settings.output.line(&Line {
        r#type: "check",
        check: name,
        section,
        passed: seen.is_ok(),
        seen: &text,
        seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_those_of_the_page() {
        let page = include_str!("../../../../PROTOCOL.md");
        let headings: Vec<_> = page
            .lines()
            .filter(|line| line.starts_with('#'))
            .map(|line| line.trim_start_matches('#').trim())
            .collect();
        for check in CHECKS {
            assert!(headings.contains(&check.section), "{}: no section {:?}", check.name, check.section);
        }
    }

    #[test]
    fn names_differ() {
        let mut names: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CHECKS.len());
    }
}
