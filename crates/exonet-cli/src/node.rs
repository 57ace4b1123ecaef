//! The node behind a command.

use std::time::Duration;

use exonet::{Allow, BuildError, Config, Node, NodeId, PeerAddr};

use crate::failure::Failure;
use crate::settings::Settings;

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
    if peer.hints().next().is_none() {
        // An id alone is enough only for a node that has heard of it, and this one is about to be born.
        return Err(Failure::new(format!("no address is known for {}", peer.id.short()))
            .hint("write the peer as ID@HOST:PORT, as `exon listen` prints it"));
    }
    let builder = settings.identity.apply(Node::builder(Allow::only([peer.id])))?;
    builder.config(change).build().await.map_err(|error| failed(settings, &error))
}

/// A node that peers reach at `bind`, with settings changed.
pub(crate) async fn at(
    settings: &Settings,
    bind: Option<&str>,
    allow: &[NodeId],
    change: impl Fn(&mut Config),
) -> Result<Node, Failure> {
    let build = async |bind: &str| {
        let allow = if allow.is_empty() { Allow::anyone() } else { Allow::only(allow.iter().copied()) };
        let builder = settings.identity.apply(Node::builder(allow))?.bind(bind).config(&change);
        Ok(builder.build().await)
    };
    let built = match bind {
        Some(bind) => build(bind).await?,
        None => match build(EVERYWHERE).await? {
            // Machines without IPv6 are common enough.
            Err(BuildError::Bind { .. }) => build(EVERYWHERE_V4).await?,
            built => built,
        },
    };
    built.map_err(|error| match error {
        BuildError::AddressInUse(_) => failed(settings, &error).hint("for a free port: --bind [::]:0"),
        error => failed(settings, &error),
    })
}

fn failed(settings: &Settings, error: &BuildError) -> Failure {
    Failure::new(format!("cannot start the node ({})", settings.identity)).because(error)
}
