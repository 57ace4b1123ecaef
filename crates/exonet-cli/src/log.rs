//! Logs: on standard error, quiet unless asked.

use std::error::Error;
use std::fmt::Debug;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

use crate::args::Common;
use crate::failure::Failure;
use crate::stderr;

/// The log target of the library for nodes that it does not admit.
const REFUSED: &str = "exonet::refused";
/// The log target of the library for a node that accepts no connections, since another program has the port.
const CONNECTIONS: &str = "exonet::connections";

/// Starts logging. If `RUST_LOG` is set, it decides the level; otherwise `-v` and `-q` do.
pub(crate) fn start(common: &Common) {
    let level = match (common.quiet, common.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "exonet=info,exonet_proto=info,exon=info,warn",
        (false, 2) => "exonet=debug,exonet_proto=debug,exon=debug,info",
        (false, _) => "trace",
    };
    let chosen = std::env::var("RUST_LOG").ok().and_then(|filter| filter.parse().ok());
    let filter: Targets = chosen.or_else(|| level.parse().ok()).unwrap_or_default();
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && console::colors_enabled_stderr())
        .with_target(false);
    let refused = |about: &Metadata<'_>| about.target() == REFUSED;
    // If the user has chosen a carrier, a node that accepts no connections is an error, which says this.
    let is_chosen = common.carrier.is_some();
    let twice = move |about: &Metadata<'_>| refused(about) || (is_chosen && about.target() == CONNECTIONS);
    let lines = lines.with_filter(filter.clone().and(filter_fn(twice).not()));
    let stops = |about: &Metadata<'_>| *about.level() == Level::ERROR && about.target().starts_with("exonet");
    let refusals = Refusals.with_filter(filter.and(filter_fn(refused)));
    registry().with(lines).with(refusals).with(Causes.with_filter(filter_fn(stops))).init();
}

/// Why the library has stopped a node, as it has logged that: for example that the journal cannot be written.
static CAUSE: Mutex<Option<String>> = Mutex::new(None);

/// The failure that the node of this process has stopped, with the cause that the library has logged, if it did.
pub(crate) fn node_stopped(error: &dyn Error) -> Failure {
    let cause = CAUSE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match cause {
        Some(cause) => Failure::new(format!("the node has stopped: {cause}"))
            .hint("when that is mended, `exon outbox ls` shows what the journal has kept"),
        None => Failure::new("the node has stopped").because(error),
    }
}

/// Keeps the error with which the library has stopped a node.
struct Causes;

impl<S: Subscriber> Layer<S> for Causes {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        let stops = |text: &String| text.contains("node stops") || text.contains("node has stopped");
        if let Some(text) = said.0.filter(stops) {
            let cause = text.trim_end_matches(". The node stops").to_owned();
            *CAUSE.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause);
        }
    }
}

/// The message of an event.
#[derive(Default)]
struct Said(Option<String>);

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = Some(format!("{value:?}"));
        }
    }
}

/// Reports in the words of this command that a node was not admitted: the library does not know `--allow`.
struct Refusals;

impl<S: Subscriber> Layer<S> for Refusals {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut refused = Refused::default();
        event.record(&mut refused);
        let Refused { peer, remote } = refused;
        let exon = console::style("exon:").dim().for_stderr();
        stderr::line(format_args!("{exon} refused {peer} at {remote}: no --allow names it"));
    }
}

#[derive(Default)]
struct Refused {
    peer: String,
    remote: String,
}

impl Visit for Refused {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "peer" => self.peer = format!("{value:?}"),
            "remote" => self.remote = format!("{value:?}"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_stop_is_told() {
        let closed = io::Error::other("the node is closed");
        assert_eq!(node_stopped(&closed).to_string(), "the node has stopped: the node is closed");
        tracing::subscriber::with_default(registry().with(Causes), || {
            tracing::error!(node = "x", "{}. The node stops", "cannot write the journal");
        });
        let told = node_stopped(&closed).to_string();
        assert!(told.starts_with("the node has stopped: cannot write the journal\n"), "{told}");
    }
}
