//! Figures for Prometheus.

use std::net::SocketAddr;

use clap::Args;

/// For commands whose node stays up.
#[derive(Args, Debug)]
pub(crate) struct MetricsArgs {
    /// Give figures for Prometheus at http://ADDR/metrics, to anybody who reaches it: see docs/observing.md
    #[arg(long, value_name = "ADDR", display_order = 900)]
    pub(crate) metrics: Option<SocketAddr>,
}
