//! The options of the gateway of `exon up`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use exonet::NodeId;

use super::parse_address;
use crate::peers::parse_id;

/// HTTP for programs in any language.
#[derive(Args, Debug)]
pub(crate) struct GatewayArgs {
    /// Offer sending, receiving, calling and serving over HTTP at this address, to programs of this machine
    #[arg(long, value_name = "ADDR", value_parser = parse_address, help_heading = "HTTP")]
    pub(crate) http: Option<SocketAddr>,
    /// Show the node on a page at --http: its peers, its traffic, and what is in doubt
    #[arg(long, requires = "http", help_heading = "HTTP")]
    pub(crate) ui: bool,
    /// The file of the token that each request must have; created if it is missing [default: `http-token` in the
    /// directory of the identity]
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "HTTP")]
    pub(crate) http_token: Option<PathBuf>,
    /// Allow --http to be an address that other machines can reach. The token and all bodies cross the network
    /// unencrypted: put a proxy with TLS in front
    #[arg(long, requires = "http", help_heading = "HTTP")]
    pub(crate) http_remote: bool,
    /// A host name by which clients reach --http, besides localhost and addresses
    #[arg(long, value_name = "NAME", requires = "http", help_heading = "HTTP")]
    pub(crate) http_host: Vec<String>,
    /// Take messages and calls of this node, an id or a name; may be given several times
    #[arg(long, value_name = "PEER", value_parser = parse_id, requires = "http", help_heading = "HTTP")]
    pub(crate) allow: Vec<NodeId>,
    /// Take messages and calls of any node that knows the address and id of this one
    #[arg(long, conflicts_with = "allow", requires = "http", help_heading = "HTTP")]
    pub(crate) anyone: bool,
}
