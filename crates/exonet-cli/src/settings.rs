//! What holds for every command, worked out from the arguments.

use std::sync::Arc;

use exonet::carrier::{Proxy, Tls, TlsServer};
use exonet::naming::Naming;
use exonet::{Builder, Carrier, Durability};

use crate::args::{Common, durability_name};
use crate::failure::Failure;
use crate::identity::Identity;
use crate::output::Output;
use crate::peers::{self, Names};

/// Settings of one run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Who this node is.
    pub(crate) identity: Identity,
    /// What a crash takes nothing of; None: as usual for the identity.
    durability: Option<Durability>,
    /// What carries packets.
    carrier: Carrier,
    /// What connections go through.
    proxy: Option<Proxy>,
    /// Connections are in TLS; to this name, if it is not empty.
    tls: Option<String>,
    /// Where data goes.
    pub(crate) output: Output,
    /// Whether single outcomes are told to people.
    pub(crate) verbose: bool,
    /// Whether remarks are left out.
    pub(crate) quiet: bool,
    /// Where names of services are.
    names: Option<String>,
    /// That, asked by nobody in particular.
    naming: Option<Names>,
}

impl Settings {
    /// `stored` is the identity of a command that is somebody by default; others are ephemeral.
    pub(crate) fn new(common: &Common, stored: Option<&str>) -> Result<Self, Failure> {
        let name = common.identity.as_deref().or(stored);
        let connects = common.proxy.is_some() || common.tls.is_some();
        let carrier = common.carrier.unwrap_or(if connects { Carrier::Tcp } else { Carrier::Udp });
        if connects && carrier == Carrier::Udp {
            return Err(Failure::new("datagrams go neither through a proxy nor in TLS")
                .hint("leave --carrier udp away, or write --carrier auto"));
        }
        Ok(Self {
            identity: Identity::new(name, common.state.as_deref())?,
            durability: common.durability,
            carrier,
            proxy: common.proxy.clone(),
            tls: common.tls.clone(),
            output: Output::new(common.json),
            verbose: common.verbose > 0,
            quiet: common.quiet,
            names: common.names.clone(),
            naming: common.naming.clone(),
        })
    }

    /// For a command that has nothing to keep: its node has no journal, unless one is asked for, or the identity has one, in which
    /// may be what other commands have left.
    pub(crate) fn without_journal(mut self) -> Self {
        if self.identity.is_stored() && !self.identity.has_journal() {
            self.durability = self.durability.or(Some(Durability::Memory));
        }
        self
    }

    /// As somebody for one run: `identity` keeps no journal.
    pub(crate) fn passing(self, identity: Identity) -> Self {
        Self { identity, durability: Some(Durability::Memory), ..self }
    }

    /// What leads to the name service, if one is given.
    pub(crate) fn names(&self) -> Option<&str> {
        self.names.as_deref()
    }

    /// Lets a node be who this is, and keep what is asked for.
    pub(crate) fn apply(&self, builder: Builder) -> Result<Builder, Failure> {
        let builder = self.connect(self.identity.apply(builder)?.carrier(self.carrier))?;
        let builder = match self.durability {
            Some(durability) => builder.durability(durability),
            None => builder,
        };
        Ok(match &self.naming {
            Some(names) => builder.naming_shared(Arc::clone(&names.0)),
            None => builder,
        })
    }

    /// Lets a node open connections as it is asked to, and take in all kinds.
    fn connect(&self, builder: Builder) -> Result<Builder, Failure> {
        if self.carrier == Carrier::Udp {
            return Ok(builder);
        }
        let failed = |error: std::io::Error| Failure::new(format!("TLS: {error}"));
        let builder = builder.tls(TlsServer::self_signed().map_err(failed)?);
        let Some(name) = &self.tls else {
            return Ok(match &self.proxy {
                Some(proxy) => builder.dialler(proxy.clone()),
                None => builder,
            });
        };
        let tls = Tls::new().map_err(failed)?;
        let tls = if name.is_empty() { tls } else { tls.server_name(name).map_err(failed)? };
        Ok(builder.dialler(match &self.proxy {
            Some(proxy) => tls.over(proxy.clone()),
            None => tls,
        }))
    }

    /// The name service.
    pub(crate) fn naming(&self) -> Result<&dyn Naming, Failure> {
        let names = self.naming.as_ref().map(|names| &*names.0);
        names.ok_or_else(|| {
            Failure::new("no name service is given")
                .hint("say where names are: --names ID@HOST:PORT, or EXON_NAMES; `exon names serve` starts a name server")
        })
    }

    /// The name service, asked by the stored identity: it may bind names. None: none is given.
    pub(crate) async fn own_naming(&self) -> Result<Option<Arc<dyn Naming>>, Failure> {
        let Some(names) = &self.names else { return Ok(None) };
        let key = if self.identity.is_there() { Some(self.identity.key()?) } else { None };
        peers::services(names, key).await.map(Some)
    }

    /// Whether the node keeps a journal, so that its identity goes on with what it leaves.
    pub(crate) fn keeps_journal(&self) -> bool {
        self.identity.is_stored() && self.durability != Some(Durability::Memory)
    }

    /// How much a crash may take, as it was given on the command line.
    pub(crate) fn level(&self) -> Option<String> {
        self.durability.map(durability_name)
    }

    /// Whether the node waits for the disk before it acts.
    pub(crate) fn waits_for_disk(&self) -> bool {
        matches!(self.durability, Some(Durability::Batched(_) | Durability::Sync))
    }

    /// What went wrong, for people, on standard error.
    pub(crate) fn error(&self, text: impl AsRef<str>) {
        eprintln!("{} {}", console::style("exon:").red().for_stderr(), text.as_ref());
    }

    /// A remark for people, on standard error.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            eprintln!("{} {}", console::style("exon:").dim().for_stderr(), text.as_ref());
        }
    }
}
