//! The options of the gateway of `exon up`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use exonet::NodeId;

use crate::peers::parse_id;

/// HTTP for programs in any language.
#[derive(Args, Debug)]
pub(crate) struct GatewayArgs {
    /// Send, receive, call and serve over HTTP at this address, for programs of this machine
    #[arg(long, value_name = "ADDR", help_heading = "HTTP")]
    pub(crate) http: Option<SocketAddr>,
    /// Show the node on a page at --http: its peers, what flows, and what is in doubt
    #[arg(long, requires = "http", help_heading = "HTTP")]
    pub(crate) ui: bool,
    /// Where the token is that each request shows; made if it is not there [default: `http-token` in the
    /// directory of the identity]
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "HTTP")]
    pub(crate) http_token: Option<PathBuf>,
    /// Let --http be an address that other machines reach. The token and all bodies go over the network
    /// in clear: put a proxy with TLS in front
    #[arg(long, requires = "http", help_heading = "HTTP")]
    pub(crate) http_remote: bool,
    /// A name by which clients reach --http, besides localhost and addresses
    #[arg(long, value_name = "NAME", requires = "http", help_heading = "HTTP")]
    pub(crate) http_host: Vec<String>,
    /// Take messages and calls of this node, an id or a name; may be given several times
    #[arg(long, value_name = "PEER", value_parser = parse_id, requires = "http", help_heading = "HTTP")]
    pub(crate) allow: Vec<NodeId>,
    /// Take messages and calls of any node that knows this one's address and id
    #[arg(long, conflicts_with = "allow", requires = "http", help_heading = "HTTP")]
    pub(crate) anyone: bool,
}
