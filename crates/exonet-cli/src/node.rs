//! The node behind a command.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use exonet::config::Config;
use exonet::error::BuildError;
use exonet::send::OpenMessage;
use exonet::state::StateError;
use exonet::{Allow, Node, NodeId, PeerAddr, Receipt};

use crate::args::UpArgs;
use crate::failure::Failure;
use crate::gateway;
use crate::peers::Named;
use crate::settings::Settings;
use crate::units::counted;

/// How long a command that is done, or was stopped, takes for saying goodbye.
pub(crate) const GOODBYE: Duration = Duration::from_millis(300);

/// Where a listener is when nothing else is said: E-X-O-N on the keys of a telephone.
const EVERYWHERE: &str = "[::]:3966";
const EVERYWHERE_V4: &str = "0.0.0.0:3966";

/// A node for a command that reaches out to one peer: nobody else may talk to it.
pub(crate) async fn toward(settings: &Settings, peer: &PeerAddr) -> Result<Node, Failure> {
    toward_with(settings, peer, |_| ()).await
}

/// As [`toward`], with settings changed.
pub(crate) async fn toward_with(
    settings: &Settings,
    peer: &PeerAddr,
    change: impl FnOnce(&mut Config),
) -> Result<Node, Failure> {
    needs_hint(peer)?;
    let builder = settings.apply(Node::builder(Allow::only([peer.id])))?;
    let node = builder.config(change).build().await.map_err(|error| failed(settings, &error))?;
    recovered(settings, &node);
    Ok(node)
}

/// A node for a command that reaches out to several peers: nobody else may talk to it.
pub(crate) async fn toward_all(
    settings: &Settings,
    peers: &[Named],
    change: impl FnOnce(&mut Config),
) -> Result<Node, Failure> {
    peers.iter().try_for_each(|named| needs_hint(&named.peer))?;
    let builder = settings.apply(Node::builder(Allow::only(peers.iter().map(|named| named.peer.id))))?;
    let node = builder.config(change).build().await.map_err(|error| failed(settings, &error))?;
    recovered(settings, &node);
    Ok(node)
}

/// A node for a command that sends to `peer`, or goes on with what was left; and what was left.
pub(crate) async fn sender(
    settings: &Settings,
    peer: Option<&PeerAddr>,
) -> Result<(Node, Vec<(OpenMessage, Receipt)>), Failure> {
    if let Some(peer) = peer {
        needs_hint(peer)?;
    }
    let builder = settings.apply(Node::builder(Allow::only(peer.map(|peer| peer.id))))?;
    let node = builder.build().await.map_err(|error| failed(settings, &error))?;
    let recovered = recovered(settings, &node);
    Ok((node, recovered))
}

/// What a former run of the identity has left: the node goes on with it.
fn recovered(settings: &Settings, node: &Node) -> Vec<(OpenMessage, Receipt)> {
    let recovered = node.recovered();
    if !recovered.is_empty() {
        let number = u64::try_from(recovered.len()).unwrap_or(u64::MAX);
        let verb = if number == 1 { "goes" } else { "go" };
        settings.note(format!("{} of a former run {verb} on", counted(number, "message")));
    }
    recovered
}

/// An id alone is enough only for a node that has heard of it, and this one is about to be born.
fn needs_hint(peer: &PeerAddr) -> Result<(), Failure> {
    if peer.hints().next().is_some() {
        return Ok(());
    }
    Err(Failure::new(format!("no address is known for {}", peer.id.short()))
        .hint("write the peer as ID@HOST:PORT, as `exon listen` prints it"))
}

/// A node that sends for others, and takes from those it sends to only what they say of that, unless it has a gateway; and what
/// was left. It is at `again` if that can be: where the node was before.
pub(crate) async fn background(
    settings: &Settings,
    again: Option<String>,
    args: &UpArgs,
) -> Result<(Node, Vec<(OpenMessage, Receipt)>), Failure> {
    let builder = settings.apply(Node::builder(gateway::allow(&args.gateway)))?;
    let again = again.filter(|again| try_bind(again).is_ok());
    let builder = match again.as_ref().or(args.bind.as_ref()) {
        Some(bind) => builder.bind(bind),
        None => builder,
    };
    let built = builder.config(|config| config.takes.calls = args.gateway.http.is_some()).build().await;
    let node = built.map_err(|error| failed(settings, &error))?;
    let recovered = recovered(settings, &node);
    Ok((node, recovered))
}

/// A node that peers reach at `bind`, with settings changed.
pub(crate) async fn at(
    settings: &Settings,
    bind: Option<&str>,
    allow: &[NodeId],
    change: impl Fn(&mut Config),
) -> Result<Node, Failure> {
    let naming = settings.own_naming().await?;
    let build = async |bind: &str| {
        let allow = if allow.is_empty() { Allow::anyone() } else { Allow::only(allow.iter().copied()) };
        let builder = settings.apply(Node::builder(allow))?.bind(bind).config(&change);
        let builder = match &naming {
            Some(naming) => builder.naming_shared(Arc::clone(naming)),
            None => builder,
        };
        Ok(builder.build().await)
    };
    let node = somewhere(bind, build).await?.map_err(|error| failed(settings, &error))?;
    recovered(settings, &node);
    Ok(node)
}

/// As [`at`], at `again` if that can be: where the node was before. Another one may have the place by now.
pub(crate) async fn at_again(
    settings: &Settings,
    again: Option<String>,
    bind: Option<&str>,
    allow: &[NodeId],
    change: impl Fn(&mut Config),
) -> Result<Node, Failure> {
    match again.filter(|again| try_bind(again).is_ok()) {
        Some(again) => at(settings, Some(&again), allow, change).await,
        None => at(settings, bind, allow, change).await,
    }
}

/// Fails where no node could be at `bind`: asked before an identity is made for one.
pub(crate) async fn can_bind(bind: Option<&str>) -> Result<(), Failure> {
    let tried = somewhere(bind, async |bind: &str| Ok(try_bind(bind))).await?;
    tried.map_err(|error| Failure::new("cannot start the node").because(&error))
}

fn try_bind(text: &str) -> Result<(), BuildError> {
    let address: SocketAddr = text.parse().map_err(|_| BuildError::Address(text.to_owned()))?;
    // Free again at once, for the node that is to have it.
    UdpSocket::bind(address).map(drop).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BuildError::AddressInUse(address),
        _ => BuildError::Bind { address, source },
    })
}

/// Builds at `bind`, or where listeners are when nothing is said.
async fn somewhere<T>(
    bind: Option<&str>,
    build: impl AsyncFn(&str) -> Result<Result<T, BuildError>, Failure>,
) -> Result<Result<T, BuildError>, Failure> {
    match bind {
        Some(bind) => build(bind).await,
        None => match build(EVERYWHERE).await? {
            // Machines without IPv6 are common enough.
            Err(BuildError::Bind { .. }) => build(EVERYWHERE_V4).await,
            built => Ok(built),
        },
    }
}

fn failed(settings: &Settings, error: &BuildError) -> Failure {
    let failure = Failure::new(format!("cannot start the node ({})", settings.identity)).because(error);
    match error {
        BuildError::AddressInUse(_) => failure.hint("for a free port: --bind [::]:0"),
        BuildError::State(StateError::Locked { .. }) => {
            failure.in_use().hint("for another identity: --as NAME")
        }
        _ => failure,
    }
}
