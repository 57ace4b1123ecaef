//! Logs: on standard error, quiet unless asked.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

use crate::args::Common;

/// Starts logging. `RUST_LOG` decides where it is set, otherwise `-v` and `-q`.
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
    registry().with(lines).with(filter).init();
}
