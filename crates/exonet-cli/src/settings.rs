//! The settings that all commands share, derived from the arguments.

use std::sync::Arc;

use exonet::carrier::{Proxy, Tls, TlsServer};
use exonet::naming::Naming;
use exonet::state::SecretKey;
use exonet::{Builder, Carrier, Durability, Node};

use crate::args::{Common, durability_name};
use crate::failure::Failure;
use crate::identity::Identity;
use crate::output::Output;
use crate::peers::{self, Names};
use crate::stderr;

/// Settings of one run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The identity of the node.
    pub(crate) identity: Identity,
    /// The durability, or None for the default of the identity.
    durability: Option<Durability>,
    /// The carrier of packets.
    carrier: Carrier,
    /// Whether the user has chosen the carrier.
    carrier_is_chosen: bool,
    /// The proxy for connections.
    proxy: Option<Proxy>,
    /// Connections use TLS, with this server name if it is not empty.
    tls: Option<String>,
    /// The output of data.
    pub(crate) output: Output,
    /// Whether single outcomes are printed for people.
    pub(crate) verbose: bool,
    /// Whether notes are left out.
    pub(crate) quiet: bool,
    /// The address of the name service.
    names: Option<String>,
    /// The name service, for requests without an identity.
    naming: Option<Names>,
}

impl Settings {
    /// The settings of a command. `stored` is its default identity; without one, the identity is ephemeral.
    pub(crate) fn new(common: &Common, stored: Option<&str>) -> Result<Self, Failure> {
        let name = common.identity.as_deref().or(stored);
        let connects = common.proxy.is_some() || common.tls.is_some();
        let carrier = common.carrier.unwrap_or(if connects { Carrier::Tcp } else { Carrier::Auto });
        if connects && carrier == Carrier::Udp {
            return Err(Failure::new("datagrams cannot use a proxy or TLS")
                .hint("leave out --carrier udp, or use --carrier auto")
                .wrong_usage());
        }
        Ok(Self {
            identity: Identity::new(name, common.state.as_deref())?,
            durability: common.durability,
            carrier,
            carrier_is_chosen: common.carrier.is_some(),
            proxy: common.proxy.clone(),
            tls: common.tls.clone(),
            output: Output::new(common.json),
            verbose: common.verbose > 0,
            quiet: common.quiet,
            names: common.names.clone(),
            naming: common.naming.clone(),
        })
    }

    /// For a command that has nothing to keep: its node has no journal, unless the user asks for one or the identity
    /// has one, which may hold messages of other commands.
    pub(crate) fn without_journal(mut self) -> Self {
        if self.identity.is_stored() && !self.identity.has_journal() {
            self.durability = self.durability.or(Some(Durability::Memory));
        }
        self
    }

    /// The settings with a temporary `identity`, which keeps no journal.
    pub(crate) fn passing(self, identity: Identity) -> Self {
        Self { identity, durability: Some(Durability::Memory), ..self }
    }

    /// The address of the name service, if one is given.
    pub(crate) fn names(&self) -> Option<&str> {
        self.names.as_deref()
    }

    /// Gives a node the identity, the durability and the name service of these settings. A name server asks for proof
    /// of a stored identity, which the node asks at every start whether it lives here.
    pub(crate) async fn apply(&self, builder: Builder) -> Result<Builder, Failure> {
        self.prepare(builder, true).await
    }

    /// Like [`Self::apply`], for a node that does not wait for peers: it accepts no connections.
    pub(crate) async fn apply_to_client(&self, builder: Builder) -> Result<Builder, Failure> {
        self.prepare(builder, false).await
    }

    async fn prepare(&self, builder: Builder, accepts: bool) -> Result<Builder, Failure> {
        let builder = self.identity.apply(builder)?.carrier(self.carrier).accept_connections(accepts);
        let builder = self.durable(self.connect(builder, accepts)?);
        let naming = if self.identity.is_stored() {
            self.own_naming().await?
        } else {
            self.naming.as_ref().map(|names| Arc::clone(&names.0))
        };
        Ok(match naming {
            Some(naming) => builder.naming_shared(naming),
            None => builder,
        })
    }

    /// For a command that measures datagrams or emulates a network: its node opens no connections unless the user asks
    /// for them.
    pub(crate) fn with_datagrams(mut self) -> Self {
        if !self.carrier_is_chosen && self.carrier == Carrier::Auto {
            self.carrier = Carrier::Udp;
        }
        self
    }

    /// Fails if the user has asked for connections, and `node`, which waits for others, accepts none.
    pub(crate) fn check_connections(&self, node: &Node) -> Result<(), Failure> {
        if !self.carrier_is_chosen || self.carrier == Carrier::Udp || node.accepts_connections() {
            return Ok(());
        }
        let address = node.local_addr();
        Err(Failure::new(format!(
            "cannot accept tcp connections at {address}: another program has that port"
        ))
        .hint("end that program; or use another port: --bind; or leave out --carrier, to use only udp"))
    }

    /// For a name server: its node asks no name service.
    pub(crate) fn without_names(&self) -> Self {
        Self { names: None, naming: None, ..self.clone() }
    }

    /// Gives a node the durability of these settings.
    fn durable(&self, builder: Builder) -> Builder {
        match self.durability {
            Some(durability) => builder.durability(durability),
            None => builder,
        }
    }

    /// Gives the durability of these settings to a node of another identity that must have a journal.
    pub(crate) fn journaled(&self, builder: Builder) -> Builder {
        if self.durability == Some(Durability::Memory) { builder } else { self.durable(builder) }
    }

    /// Lets a node open connections of the requested kind. A node that accepts connections accepts all kinds.
    fn connect(&self, builder: Builder, accepts: bool) -> Result<Builder, Failure> {
        if self.carrier == Carrier::Udp {
            return Ok(builder);
        }
        let failed = |error: std::io::Error| Failure::new(format!("TLS: {error}"));
        let builder = if accepts { builder.tls(TlsServer::self_signed().map_err(failed)?) } else { builder };
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
            Failure::new("no name service is given").hint(
                "give one: --names ID@HOST:PORT, or EXON_NAMES; `exon names serve` starts a name server",
            )
        })
    }

    /// The name service, for requests from the stored identity, which may bind names. None: no name service is given.
    pub(crate) async fn own_naming(&self) -> Result<Option<Arc<dyn Naming>>, Failure> {
        let Some(names) = &self.names else { return Ok(None) };
        let key = if self.identity.is_there()? { Some(self.identity.key()?) } else { None };
        peers::services(names, key).await.map(Some)
    }

    /// The name service, which takes `key` as the key of the identity that asks. None: no name service is given.
    pub(crate) async fn naming_of(&self, key: SecretKey) -> Result<Option<Arc<dyn Naming>>, Failure> {
        let Some(names) = &self.names else { return Ok(None) };
        peers::services(names, Some(key)).await.map(Some)
    }

    /// Whether the node keeps a journal, so that the next run continues with its messages.
    pub(crate) fn keeps_journal(&self) -> bool {
        self.identity.is_stored() && self.durability != Some(Durability::Memory)
    }

    /// The durability, as it was given on the command line.
    pub(crate) fn level(&self) -> Option<String> {
        self.durability.map(durability_name)
    }

    /// Whether the node waits for the disk before it acts.
    pub(crate) fn waits_for_disk(&self) -> bool {
        matches!(self.durability, Some(Durability::Batched(_) | Durability::Sync))
    }

    /// Prints an error for people, on standard error.
    pub(crate) fn error(&self, text: impl AsRef<str>) {
        stderr::line(format_args!("{} {}", console::style("exon:").red().for_stderr(), text.as_ref()));
    }

    /// What else a user may try at a peer that does not answer.
    pub(crate) fn carrier_hint(&self) -> &'static str {
        match self.carrier {
            Carrier::Udp => " (without --carrier udp, it also tries TCP)",
            _ => "",
        }
    }

    /// Prints a note for people, on standard error.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            stderr::line(format_args!("{} {}", console::style("exon:").dim().for_stderr(), text.as_ref()));
        }
    }
}
