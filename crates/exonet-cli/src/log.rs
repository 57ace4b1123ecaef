//! Logs: on standard error, quiet unless asked.

use std::fmt::Debug;
use std::io::{self, IsTerminal};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

use crate::args::Common;

/// The log target of the library for nodes that it does not admit.
const REFUSED: &str = "exonet::refused";

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
    let lines = lines.with_filter(filter.clone().and(filter_fn(refused).not()));
    registry().with(lines).with(Refusals.with_filter(filter.and(filter_fn(refused)))).init();
}

/// Reports in the words of this command that a node was not admitted: the library does not know `--allow`.
struct Refusals;

impl<S: Subscriber> Layer<S> for Refusals {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut refused = Refused::default();
        event.record(&mut refused);
        let Refused { peer, remote } = refused;
        let exon = console::style("exon:").dim().for_stderr();
        eprintln!("{exon} refused {peer} at {remote}: no --allow names it");
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
