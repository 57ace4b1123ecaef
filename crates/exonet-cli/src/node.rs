//! The node behind a command.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use exonet::config::Config;
use exonet::error::{BuildError, NamingError};
use exonet::send::OpenMessage;
use exonet::state::StateError;
use exonet::{Allow, Node, NodeId, PeerAddr, Receipt};
use tokio::time::sleep;

use crate::args::UpArgs;
use crate::failure::Failure;
use crate::gateway;
use crate::peers::Named;
use crate::settings::Settings;
use crate::units::counted;

/// The time limit for closing the node of a command that is done or was stopped.
pub(crate) const GOODBYE: Duration = Duration::from_millis(300);

/// The default port of a listener: E-X-O-N on the keys of a telephone.
const PORT: u16 = 3966;
/// The default address of a listener, and the one of a machine without IPv6.
const EVERYWHERE: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), PORT);
const EVERYWHERE_V4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT);

/// How long a node that starts again waits for the lock of its directory, and the interval between two attempts.
const HELD: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(5);

/// A node for a command that contacts one peer. No other node may talk to it.
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
    let builder = settings.apply_to_client(Node::builder(Allow::only([peer.id]))).await?;
    let node = builder.config(change).build().await.map_err(|error| failed(settings, &error))?;
    recovered(settings, &node);
    Ok(node)
}

/// A node for a command that contacts several peers. No other node may talk to it.
pub(crate) async fn toward_all(
    settings: &Settings,
    peers: &[Named],
    change: impl FnOnce(&mut Config),
) -> Result<Node, Failure> {
    peers.iter().try_for_each(|named| needs_hint(&named.peer))?;
    let builder =
        settings.apply_to_client(Node::builder(Allow::only(peers.iter().map(|named| named.peer.id)))).await?;
    let node = builder.config(change).build().await.map_err(|error| failed(settings, &error))?;
    recovered(settings, &node);
    Ok(node)
}

/// A node for a command that sends to `peer`, or continues with the messages of a former run. Also returns these
/// messages.
pub(crate) async fn sender(
    settings: &Settings,
    peer: Option<&PeerAddr>,
) -> Result<(Node, Vec<(OpenMessage, Receipt)>), Failure> {
    if let Some(peer) = peer {
        needs_hint(peer)?;
    }
    let builder = settings.apply_to_client(Node::builder(Allow::only(peer.map(|peer| peer.id)))).await?;
    let node = builder.build().await.map_err(|error| failed(settings, &error))?;
    let recovered = recovered(settings, &node);
    Ok((node, recovered))
}

/// The messages that a former run of the identity has left, with which the node continues.
fn recovered(settings: &Settings, node: &Node) -> Vec<(OpenMessage, Receipt)> {
    let recovered = node.recovered();
    if !recovered.is_empty() {
        let number = u64::try_from(recovered.len()).unwrap_or(u64::MAX);
        let verb = if number == 1 { "goes" } else { "go" };
        settings.note(format!("{} of a former run {verb} on", counted(number, "message")));
    }
    recovered
}

/// Fails without an address: an id alone is enough only for a node that knows the peer, and this node is new.
fn needs_hint(peer: &PeerAddr) -> Result<(), Failure> {
    if peer.hints().next().is_some() {
        return Ok(());
    }
    Err(Failure::new(format!("no address is known for {}", peer.id.short()))
        .hint("write the peer as ID@HOST:PORT, as `exon listen` prints it"))
}

/// A node that sends for other commands. Unless it has a gateway, it accepts only refusals from its peers. It binds
/// `again`, its former address, if possible. Also returns the messages of a former run.
pub(crate) async fn background(
    settings: &Settings,
    again: Option<SocketAddr>,
    args: &UpArgs,
) -> Result<(Node, Vec<(OpenMessage, Receipt)>), Failure> {
    let change = |config: &mut Config| {
        config.takes.calls = args.gateway.http.is_some();
        config.limits.queued_messages = args.queue.get();
        config.limits.queued_bytes = usize::try_from(args.queue_bytes.0).unwrap_or(usize::MAX);
    };
    let build = async |bind: Option<SocketAddr>| {
        let builder = settings.apply(Node::builder(gateway::allow(&args.gateway))).await?.config(change);
        let builder = match bind {
            Some(bind) => builder.bind(bind),
            None => builder,
        };
        Ok(builder.build().await)
    };
    let built = match again {
        Some(again) => built_again(settings, again, args.bind, build).await?,
        None => build(args.bind).await?,
    };
    started(settings, built)
}

/// A node that peers reach at `bind`, with settings changed.
pub(crate) async fn at(
    settings: &Settings,
    bind: Option<SocketAddr>,
    allow: &[NodeId],
    change: impl Fn(&mut Config),
) -> Result<Node, Failure> {
    let built = built(settings, bind, allow, &change).await?;
    started(settings, built).map(|(node, _)| node)
}

async fn built(
    settings: &Settings,
    bind: Option<SocketAddr>,
    allow: &[NodeId],
    change: &impl Fn(&mut Config),
) -> Result<Result<Node, BuildError>, Failure> {
    let build = async |bind: SocketAddr| {
        let allow = if allow.is_empty() { Allow::anyone() } else { Allow::only(allow.iter().copied()) };
        let builder = settings.apply(Node::builder(allow)).await?.bind(bind).config(change);
        Ok(builder.build().await)
    };
    somewhere(bind, build).await
}

/// The node, and the messages of a former run with which it continues.
fn started(
    settings: &Settings,
    built: Result<Node, BuildError>,
) -> Result<(Node, Vec<(OpenMessage, Receipt)>), Failure> {
    let node = built.map_err(|error| failed(settings, &error))?;
    settings.check_connections(&node)?;
    let recovered = recovered(settings, &node);
    Ok((node, recovered))
}

/// As [`at`], but binds `again`, the former address of the node, if possible. Another process may have the address by
/// now.
pub(crate) async fn at_again(
    settings: &Settings,
    again: Option<SocketAddr>,
    bind: Option<SocketAddr>,
    allow: &[NodeId],
    change: impl Fn(&mut Config),
) -> Result<Node, Failure> {
    let Some(again) = again else { return at(settings, bind, allow, change).await };
    let build = async |bind: Option<SocketAddr>| built(settings, bind, allow, &change).await;
    let built = built_again(settings, again, bind, build).await?;
    started(settings, built).map(|(node, _)| node)
}

/// Builds the node again after its identity has failed to move: at the address `again` if that is free, otherwise at
/// `bind`. If another command has locked the directory meanwhile, waits until that command releases it.
async fn built_again(
    settings: &Settings,
    again: SocketAddr,
    bind: Option<SocketAddr>,
    build: impl AsyncFn(Option<SocketAddr>) -> Result<Result<Node, BuildError>, Failure>,
) -> Result<Result<Node, BuildError>, Failure> {
    let (until, mut noted) = (Instant::now() + HELD, false);
    loop {
        let bind = if try_bind(again).is_ok() { Some(again) } else { bind };
        match build(bind).await? {
            Err(BuildError::State(StateError::Locked { .. })) if Instant::now() < until => {
                if !std::mem::replace(&mut noted, true) {
                    settings.note("waits until another command releases the directory of the identity");
                }
                sleep(AGAIN).await;
            }
            built => return Ok(built),
        }
    }
}

/// Fails if no node can bind `bind`. This is checked before an identity is created for a node.
pub(crate) async fn can_bind(bind: Option<SocketAddr>) -> Result<(), Failure> {
    let tried = somewhere(bind, async |bind: SocketAddr| Ok(try_bind(bind))).await?;
    tried.map_err(|error| Failure::new("cannot start the node").because(&error))
}

fn try_bind(address: SocketAddr) -> Result<(), BuildError> {
    // The address is released at once, for the node.
    UdpSocket::bind(address).map(drop).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BuildError::AddressInUse(address),
        _ => BuildError::Bind { address, source },
    })
}

/// Builds at `bind`, or at the default address of listeners.
async fn somewhere<T>(
    bind: Option<SocketAddr>,
    build: impl AsyncFn(SocketAddr) -> Result<Result<T, BuildError>, Failure>,
) -> Result<Result<T, BuildError>, Failure> {
    match bind {
        Some(bind) => build(bind).await,
        None => match build(EVERYWHERE).await? {
            // Machines without IPv6 are common.
            Err(BuildError::Bind { .. }) => build(EVERYWHERE_V4).await,
            built => Ok(built),
        },
    }
}

fn failed(settings: &Settings, error: &BuildError) -> Failure {
    let failure = Failure::new(format!("cannot start the node ({})", settings.identity)).because(error);
    match error {
        BuildError::AddressInUse(_) => failure.hint("to use a free port: --bind [::]:0"),
        BuildError::Naming(NamingError::Unreachable(_)) => failure.hint(
            "a stored identity starts once the name service confirms that it lives here: check --names or \
             EXON_NAMES, and whether the service runs there",
        ),
        BuildError::Naming(NamingError::Storage(_)) => failure.hint(
            "a stored identity starts once the name service has stored that it lives here: if a name server holds the \
             file, name that server by --names; otherwise check the disk",
        ),
        BuildError::State(StateError::Locked { .. }) => {
            let options = settings.identity.options();
            failure.in_use().hint(format!(
                "to use another identity: --as NAME; to end the process, if it is exon up: exon down{options}"
            ))
        }
        _ => failure,
    }
}
