//! Announces a node and the addresses where others can reach it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use exonet::{Node, NodeId, PeerAddr};
use serde::Serialize;

use crate::failure::Failure;
use crate::identity::Identity;
use crate::settings::Settings;
use crate::stderr;

#[derive(Serialize)]
struct Listening {
    r#type: &'static str,
    id: String,
    peer: String,
    anyone: bool,
    identity: String,
}

/// Creates the stored identity of a node that others connect to, if there is none yet, and prints that. True if it
/// did.
pub(super) fn be_somebody(settings: &Settings) -> Result<bool, Failure> {
    let new = settings.identity.ensure()?;
    if new && let Identity::Stored { name, path } = &settings.identity {
        settings.note(format!("created identity {name} in {}", path.display()));
    }
    Ok(new)
}

/// Prints the address of `node`, the peers that `allow` permits to do `verb` there, and then `remark`.
pub(super) fn announce(
    settings: &Settings,
    node: &Node,
    allow: &[NodeId],
    verb: &str,
    remark: String,
) -> Result<(), Failure> {
    let peer = peer_of(node).to_string();
    settings.note("listening; peers reach this node as");
    if !settings.quiet {
        stderr::line(format_args!("\n      {}\n", console::style(&peer).bold().for_stderr()));
    }
    settings.note(match allow {
        [] => format!("anyone who knows this address may {verb}; --allow ID restricts that"),
        [one] => format!("only {} may {verb}", one.short()),
        ids => format!("only {} nodes may {verb}", ids.len()),
    });
    settings.note(remark);
    line(settings, node, peer, allow.is_empty())
}

/// Prints the address of `node`, which is a subject of checks, on standard output.
pub(super) fn announce_subject(settings: &Settings, node: &Node) -> Result<(), Failure> {
    let peer = peer_of(node).to_string();
    settings.note(
        "a subject, which anyone who knows its address may check; docs/conformance.md says what it does",
    );
    settings.output.text(&peer)?;
    line(settings, node, peer, true)
}

fn line(settings: &Settings, node: &Node, peer: String, anyone: bool) -> Result<(), Failure> {
    let (id, identity) = (node.id().to_string(), settings.identity.to_string());
    settings.output.line(&Listening { r#type: "listening", id, peer, anyone, identity })
}

/// The address under which others reach `node`.
pub(super) fn peer_of(node: &Node) -> PeerAddr {
    let addresses = reachable(node.local_addr());
    let peer = PeerAddr::new(node.id(), addresses.iter().map(SocketAddr::to_string));
    peer.unwrap_or_else(|_| node.peer_addr())
}

/// The addresses that others can use for `local`, which may stand for all addresses of this machine.
pub(super) fn reachable(local: SocketAddr) -> Vec<SocketAddr> {
    if !local.ip().is_unspecified() {
        return vec![local];
    }
    // Connecting a datagram socket sends nothing. It only looks up the route to addresses that are reserved for
    // documentation (RFC 5737, RFC 3849).
    let outward = |from: &str, to: &str| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
    };
    let mut ips: Vec<IpAddr> = outward("0.0.0.0:0", "192.0.2.1:9").into_iter().collect();
    if local.is_ipv6() {
        ips.extend(outward("[::]:0", "[2001:db8::1]:9"));
    }
    if ips.is_empty() {
        ips.push(Ipv4Addr::LOCALHOST.into());
    }
    ips.into_iter().map(|ip| SocketAddr::new(ip, local.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_says_where_is_kept() {
        let local: SocketAddr = "127.0.0.1:77".parse().unwrap();
        assert_eq!(reachable(local), [local]);
    }

    #[test]
    fn others_are_made_usable() {
        for text in ["0.0.0.0:77", "[::]:77"] {
            let addresses = reachable(text.parse().unwrap());
            assert!(!addresses.is_empty());
            assert!(addresses.iter().all(|a| !a.ip().is_unspecified() && a.port() == 77), "{addresses:?}");
        }
    }
}
