//! Figures for Prometheus.

use std::net::SocketAddr;

use clap::Args;

use super::parse_address;

/// For commands whose node keeps running.
#[derive(Args, Debug)]
pub(crate) struct MetricsArgs {
    /// Offer metrics for Prometheus at http://ADDR/metrics, to everybody who can reach it: see docs/observing.md
    #[arg(long, value_name = "ADDR", value_parser = parse_address, display_order = 900)]
    pub(crate) metrics: Option<SocketAddr>,
}
