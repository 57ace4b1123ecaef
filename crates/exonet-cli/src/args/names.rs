//! `exon names`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use exonet::naming::Name;
use exonet::{NodeId, PeerAddr};

use crate::peers::parse_id;

const AFTER_HELP: &str = "\
EXAMPLES
  A name server, on a machine that all can reach, and the variable that names it:
      exon names serve
      export EXON_NAMES=ID@HOST:PORT

  A service that can be found by its name, wherever it runs, and a call of it:
      exon serve --name sort --method sort --exec sort
      exon call name:sort sort - < names

  All names, and one of them:
      exon names ls
      exon names lookup sort

  Print each change of a name when it comes:
      exon names watch sort

WHERE NAMES ARE
  --names and $EXON_NAMES take one of:
    ID@HOST:PORT   a name server; its id proves that the answers are its own
    file:PATH      a file, for the services of one machine
    etcd:URL       etcd, as in etcd:http://127.0.0.1:2379
    dns:DOMAIN     DNS, for look-ups only: _exonet._udp.NAME.DOMAIN has TXT \"id=ID\" and SRV

A name leads to an id and to addresses. It is looked up again when the node does not answer, so a
service that moves is found again. Only the node itself can bind a name to itself, and it proves its
id. A name can pass to another node only after its owner has unbound it (exon names unbind). A
name service that lies can send a new client to a wrong node: ID@name:NAME fixes the id from the
start.";

/// Names of services: serve them, look them up
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct NamesArgs {
    #[command(subcommand)]
    pub(crate) command: NamesCommand,
}

impl NamesArgs {
    /// The default identity of the command.
    pub(crate) const fn identity(&self) -> Option<&'static str> {
        match self.command {
            NamesCommand::Serve(_) => Some(crate::command::NAMES_IDENTITY),
            NamesCommand::Bind { .. } | NamesCommand::Unbind { .. } => Some("default"),
            NamesCommand::Ls | NamesCommand::Lookup { .. } | NamesCommand::Watch { .. } => None,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum NamesCommand {
    Serve(NamesServeArgs),
    /// Show all names
    #[command(after_help = "EXAMPLES\n  exon names ls --names ID@HOST:PORT", visible_alias = "list")]
    Ls,
    /// Print the node of a name, as ID@HOST:PORT
    #[command(after_help = "EXAMPLES\n  exon names lookup chat --names ID@HOST:PORT")]
    Lookup {
        /// The name
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// Print the node of a name, and each later change, until the command is interrupted
    #[command(after_help = "EXAMPLES\n  exon names watch chat --names ID@HOST:PORT\n  \
                            exon names watch chat --names file:services --json --exit-after 2")]
    Watch {
        /// The name
        #[arg(value_name = "NAME")]
        name: Name,
        /// End after this number of lines
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        exit_after: Option<u64>,
    },
    /// Bind a name to a stored identity. A service that is started with --name does this by itself
    #[command(after_help = "EXAMPLES\n  exon names bind chat 192.0.2.7:3966 --as chat --names ID@HOST:PORT")]
    Bind {
        /// The name
        #[arg(value_name = "NAME")]
        name: Name,
        /// An address at which the node can be reached
        #[arg(value_name = "HOST:PORT", required = true, value_parser = parse_address)]
        addresses: Vec<String>,
    },
    /// Unbind a name of a stored identity
    #[command(after_help = "EXAMPLES\n  exon names unbind chat --as chat --names ID@HOST:PORT")]
    Unbind {
        /// The name
        #[arg(value_name = "NAME")]
        name: Name,
    },
}

/// An address to which a name is bound: a name of a service is none.
fn parse_address(text: &str) -> Result<String, String> {
    let peer = PeerAddr::new(NodeId([0; 32]), [text]);
    if text.starts_with("name:") || peer.is_err() {
        return Err("HOST:PORT is wanted, as in example.org:3966, 192.0.2.7:3966 or [::1]:3966".to_owned());
    }
    Ok(text.to_owned())
}

const SERVE_HELP: &str = "\
EXAMPLES
  A name server, as the stored identity `names`:
      exon names serve

  At another port, for two nodes only:
      exon names serve --bind [::]:4000 --allow ID --allow ID

Every node that is admitted may look names up. Only the node to which a name belongs may bind it. A
binding is on the disk before it is confirmed; it does not expire, and lasts until its owner unbinds
it.";

/// Run a name server, as the stored identity `names` unless --as names another
#[derive(Args, Debug)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct NamesServeArgs {
    /// The address at which to listen; port 0 takes any free port [default: port 3966 of all addresses]
    #[arg(long, value_name = "ADDR", value_parser = super::parse_address)]
    pub(crate) bind: Option<SocketAddr>,
    /// Keep the names in this file [default: `names` in the directory of the identity]
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Answer this node only, an id or a name; may be given several times
    #[arg(long, value_name = "PEER", value_parser = parse_id)]
    pub(crate) allow: Vec<NodeId>,
}
