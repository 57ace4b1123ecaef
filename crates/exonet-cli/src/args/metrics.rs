//! Figures for Prometheus.

use std::net::SocketAddr;

use clap::Args;

/// For commands whose node keeps running.
#[derive(Args, Debug)]
pub(crate) struct MetricsArgs {
    /// Offer metrics for Prometheus at http://ADDR/metrics, to everybody who can reach it: see docs/observing.md
    #[arg(long, value_name = "ADDR", display_order = 900)]
    pub(crate) metrics: Option<SocketAddr>,
}
