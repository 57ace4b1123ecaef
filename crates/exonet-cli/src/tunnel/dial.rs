//! Connections to targets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};

use super::policy::{Policy, Ruling};
use super::target::{Host, Target};
use super::wire::{Code, Refusal};

/// Connects to a target that the policy allows, within `span`.
///
/// # Errors
/// Why there is no connection.
pub(crate) async fn dial(policy: &Policy, target: &Target, span: Duration) -> Result<TcpStream, Refusal> {
    let denied = || Refusal::new(Code::Denied, format!("{target} is not allowed here"));
    match policy.rule(target) {
        Ruling::Denied => Err(denied()),
        Ruling::Allowed => connect(target, span).await,
        Ruling::ByAddress => {
            let by = Instant::now() + span;
            // A failed lookup also counts as denied: it must not reveal whether a name exists that the policy does
            // not allow.
            let addresses = addresses(target, by).await.map_err(|_| denied())?;
            let allowed: Vec<_> = addresses.into_iter().filter(|address| policy.allows(*address)).collect();
            if allowed.is_empty() { Err(denied()) } else { first(allowed, by).await }
        }
    }
}

/// Connects to a target, within `span`.
///
/// # Errors
/// Why there is no connection.
pub(crate) async fn connect(target: &Target, span: Duration) -> Result<TcpStream, Refusal> {
    let by = Instant::now() + span;
    let addresses = addresses(target, by).await?;
    first(addresses, by).await
}

async fn addresses(target: &Target, by: Instant) -> Result<Vec<SocketAddr>, Refusal> {
    match &target.host {
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, target.port)]),
        Host::Name(name) => match timeout_at(by, lookup_host((name.as_str(), target.port))).await {
            Ok(Ok(found)) => Ok(found.collect()),
            Ok(Err(error)) => Err(Refusal::new(Code::NoSuchHost, error.to_string())),
            Err(_) => Err(Refusal::new(
                Code::TimedOut,
                format!("{name} could not be looked up", name = name.as_str()),
            )),
        },
    }
}

/// Connects to the first of several addresses that answers. An address that does not answer gets half of the time that
/// is left.
async fn first(addresses: Vec<SocketAddr>, by: Instant) -> Result<TcpStream, Refusal> {
    let mut last = Refusal::new(Code::NoSuchHost, "it has no address");
    let mut left = addresses.len();
    for address in addresses {
        left -= 1;
        let rest = by.saturating_duration_since(Instant::now());
        let span = if left == 0 { rest } else { rest / 2 };
        match timeout(span, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = Refusal::new(code(&error), format!("{address}: {error}")),
            Err(_) => last = Refusal::new(Code::TimedOut, format!("{address} did not answer")),
        }
    }
    Err(last)
}

fn code(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Code::Refused,
        io::ErrorKind::TimedOut => Code::TimedOut,
        io::ErrorKind::HostUnreachable => Code::HostUnreachable,
        io::ErrorKind::NetworkUnreachable => Code::NetworkUnreachable,
        _ => Code::Failed,
    }
}
