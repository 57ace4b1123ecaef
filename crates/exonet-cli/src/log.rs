//! Logs: on standard error, quiet unless asked.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::args::Common;

/// Starts logging. `RUST_LOG` decides where it is set, otherwise `-v` and `-q`.
pub(crate) fn start(common: &Common) {
    let level = match (common.quiet, common.verbose) {
        (true, _) => "error",
        (false, 0 | 1) => "warn",
        (false, 2) => "exonet=info,exonet_proto=info,exon=info,warn",
        (false, 3) => "exonet=debug,exonet_proto=debug,exon=debug,info",
        (false, _) => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && console::colors_enabled_stderr())
        .with_target(false)
        .init();
}
