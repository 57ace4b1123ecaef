//! `exon names`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use exonet::NodeId;
use exonet::naming::Name;

use crate::peers::parse_id;

const AFTER_HELP: &str = "\
EXAMPLES
  A name server, on a machine that everybody reaches, and the option that leads to it:
      exon names serve
      export EXON_NAMES=ID@HOST:PORT

  A service that is found by its name, wherever it runs, and a call of it:
      exon serve --name sort --method sort --exec sort
      exon call name:sort sort - < names

  What is there, and one of it:
      exon names ls
      exon names lookup sort

WHERE NAMES ARE
  --names and $EXON_NAMES say it, each in one of these ways:
    ID@HOST:PORT   a name server, which is met by its id: nobody else can answer for it
    file:PATH      a file, for the services of one machine
    etcd:URL       etcd, as in etcd:http://127.0.0.1:2379
    dns:DOMAIN     DNS, for look-ups alone: _exonet._udp.NAME.DOMAIN has TXT \"id=ID\" and SRV

A name leads to an id and to addresses. It is looked up again when the node does not answer, so a
service that moves is found again. Only a node itself binds a name to itself, and proves that it
does; a name passes to another one when its owner gives it up (exon names unbind). A name service
that lies can send a first client to a wrong node: ID@name:NAME says from the start who is meant.";

/// Names of services: keep them, look them up
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct NamesArgs {
    #[command(subcommand)]
    pub(crate) command: NamesCommand,
}

impl NamesArgs {
    /// The stored identity that the command is about, if none is named.
    pub(crate) const fn identity(&self) -> Option<&'static str> {
        match self.command {
            NamesCommand::Serve(_) => Some(crate::command::NAMES_IDENTITY),
            NamesCommand::Bind { .. } | NamesCommand::Unbind { .. } => Some("default"),
            NamesCommand::Ls | NamesCommand::Lookup { .. } => None,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum NamesCommand {
    Serve(NamesServeArgs),
    /// Show all names
    #[command(after_help = "EXAMPLES\n  exon names ls --names ID@HOST:PORT", visible_alias = "list")]
    Ls,
    /// Print what a name stands for, as ID@HOST:PORT
    #[command(after_help = "EXAMPLES\n  exon names lookup chat --names ID@HOST:PORT")]
    Lookup {
        /// The name
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// Let a name stand for a stored identity. A service that is started with --name does this by itself
    #[command(after_help = "EXAMPLES\n  exon names bind chat 192.0.2.7:3966 --as chat --names ID@HOST:PORT")]
    Bind {
        /// The name
        #[arg(value_name = "NAME")]
        name: Name,
        /// Where the node is reached
        #[arg(value_name = "HOST:PORT", required = true)]
        addresses: Vec<String>,
    },
    /// Give up a name of a stored identity
    #[command(after_help = "EXAMPLES\n  exon names unbind chat --as chat --names ID@HOST:PORT")]
    Unbind {
        /// The name
        #[arg(value_name = "NAME")]
        name: Name,
    },
}

const SERVE_HELP: &str = "\
EXAMPLES
  A name server, as the stored identity `names`:
      exon names serve

  At another port, for two nodes only:
      exon names serve --bind [::]:4000 --allow ID --allow ID

Everybody who is let in may look names up. A name is bound by the node that it stands for alone.
What is bound is on the disk before it is confirmed; it has no end of life, and goes when its owner
unbinds it.";

/// Keep names for others, as the stored identity `names` unless told otherwise
#[derive(Args, Debug)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct NamesServeArgs {
    /// Where to listen; port 0 takes any free one [default: port 3966 of all addresses]
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<String>,
    /// Keep the names in this file [default: `names` in the directory of the identity]
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Answer this node only, an id or a name; may be given several times
    #[arg(long, value_name = "PEER", value_parser = parse_id)]
    pub(crate) allow: Vec<NodeId>,
}
