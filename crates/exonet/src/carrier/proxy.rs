//! Connections through a proxy.

use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;
use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_socks::TargetAddr;
use tokio_socks::tcp::Socks5Stream;

use super::connection::Connection;
use super::dial::{Dialler, Dialling, LookUp};
use super::stand_ins::{StandIns, Target};

/// The longest answer of an HTTP proxy, in bytes.
const MAX_ANSWER: usize = 8_192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Http,
    Socks5,
}

/// Connections through a proxy: HTTP CONNECT (RFC 9110, section 9.3.6) or SOCKS5 (RFC 1928).
///
/// The proxy sees addresses and sizes, but no content: the nodes encrypt packets end to end. The node asks the proxy
/// to connect to the address of the peer. If the peer has a host name for which the system finds no address, the node
/// gives the proxy the name. With `socks5h`, the proxy looks up all names, and the system none.
///
/// ```
/// use exonet::carrier::Proxy;
/// use exonet::{Allow, Carrier, Node};
///
/// let proxy: Proxy = "http://proxy.example:3128".parse()?;
/// let builder = Node::builder(Allow::anyone()).carrier(Carrier::Tcp).dialler(proxy);
/// # let _ = builder;
/// # Ok::<_, exonet::carrier::BadProxy>(())
/// ```
#[derive(Clone)]
pub struct Proxy {
    kind: Kind,
    /// Whether the proxy looks up all names of peers, and the system none.
    names_there: bool,
    /// `HOST:PORT` of the proxy, looked up for each attempt.
    at: String,
    /// The user name and the password.
    user: Option<(String, String)>,
    names: StandIns,
}

impl PartialEq for Proxy {
    fn eq(&self, other: &Self) -> bool {
        let parts = |it: &Self| (it.kind, it.names_there, it.at.clone(), it.user.clone());
        parts(self) == parts(other)
    }
}

impl Eq for Proxy {}

/// The text is not the address of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "write a proxy as http://HOST:PORT or socks5://HOST:PORT, with NAME:PASSWORD@ before HOST if it asks for that"
)]
pub struct BadProxy;

impl FromStr for Proxy {
    type Err = BadProxy;

    /// `http://[NAME:PASSWORD@]HOST:PORT`, or the same with `socks5` or `socks5h`.
    fn from_str(text: &str) -> Result<Self, BadProxy> {
        let (scheme, rest) = text.split_once("://").ok_or(BadProxy)?;
        let kind = match scheme {
            "http" => Kind::Http,
            "socks5" | "socks5h" => Kind::Socks5,
            _ => return Err(BadProxy),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, at) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((user, at)) => {
                let (name, password) = user.split_once(':').ok_or(BadProxy)?;
                (Some((name.to_owned(), password.to_owned())), at)
            }
        };
        let (host, port) = at.rsplit_once(':').ok_or(BadProxy)?;
        let is_host =
            !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/');
        if !is_host || port.parse::<u16>().is_err() {
            return Err(BadProxy);
        }
        let names_there = scheme == "socks5h";
        Ok(Self { kind, names_there, at: at.to_owned(), user, names: StandIns::default() })
    }
}

impl fmt::Display for Proxy {
    /// The password is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            Kind::Http => "http",
            Kind::Socks5 if self.names_there => "socks5h",
            Kind::Socks5 => "socks5",
        };
        write!(f, "{scheme}://{}", self.at)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

impl Dialler for Proxy {
    fn dial(&self, to: SocketAddr) -> Dialling<'_> {
        Box::pin(async move {
            let unreachable = |error: io::Error| {
                io::Error::new(error.kind(), format!("the proxy {self} cannot be reached: {error}"))
            };
            let to = self.names.target(to).ok_or_else(forgotten)?;
            let stream = TcpStream::connect(&self.at).await.map_err(unreachable)?;
            Connection::tcp(match self.kind {
                Kind::Http => self.connect(stream, &to).await?,
                Kind::Socks5 => self.socks(stream, &to).await?,
            })
        })
    }

    fn look_up(&self, name: &str) -> LookUp {
        match self.names.of(name) {
            Some(address) if self.names_there => LookUp::There(address),
            Some(address) => LookUp::HereFirst(address),
            None => LookUp::Here,
        }
    }
}

fn forgotten() -> io::Error {
    io::Error::other(
        "the proxy was to look up the name of this peer, which a former process knew: give ID@HOST:PORT again",
    )
}

impl Proxy {
    async fn socks(&self, stream: TcpStream, target: &Target) -> io::Result<TcpStream> {
        let to = match target {
            Target::Address(address) => TargetAddr::Ip(*address),
            Target::Name(host, port) => TargetAddr::Domain((&**host).into(), *port),
        };
        let connected = match &self.user {
            None => Socks5Stream::connect_with_socket(stream, to).await,
            Some((name, password)) => {
                Socks5Stream::connect_with_password_and_socket(stream, to, name, password).await
            }
        };
        connected.map(Socks5Stream::into_inner).map_err(|error| self.refuses(target, &error))
    }

    async fn connect(&self, mut stream: TcpStream, to: &Target) -> io::Result<TcpStream> {
        let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
        if let Some((name, password)) = &self.user {
            let proof = BASE64_STANDARD.encode(format!("{name}:{password}"));
            request.push_str(&format!("Proxy-Authorization: Basic {proof}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        let answer = answer(&mut stream).await?;
        let status = answer.lines().next().unwrap_or_default();
        match status.split_whitespace().nth(1).and_then(|code| code.parse::<u16>().ok()) {
            Some(200..=299) if status.starts_with("HTTP/1.") => Ok(stream),
            Some(407) => Err(self.refuses(to, &"it asks for NAME:PASSWORD@ before its HOST")),
            _ => Err(self.refuses(to, &status.escape_debug())),
        }
    }

    fn refuses(&self, to: &Target, why: &dyn fmt::Display) -> io::Error {
        let text = format!("the proxy {self} opens no connection to {to}: {why}");
        io::Error::new(io::ErrorKind::ConnectionRefused, text)
    }
}

/// Reads the head of the proxy's answer, and no byte after it.
async fn answer(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_ANSWER {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the proxy's answer has no end"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_scheme_a_host_and_a_port() {
        let proxy: Proxy = "http://a:b:c@[::1]:3128/".parse().unwrap();
        assert_eq!((proxy.kind, proxy.at.as_str()), (Kind::Http, "[::1]:3128"));
        assert_eq!(proxy.user, Some(("a".to_owned(), "b:c".to_owned())));
        assert_eq!(
            "socks5://p.example:1080".parse::<Proxy>().unwrap().to_string(),
            "socks5://p.example:1080"
        );
        assert_eq!(
            "socks5h://p.example:1080".parse::<Proxy>().unwrap().to_string(),
            "socks5h://p.example:1080"
        );
        for wrong in [
            "",
            "p:1",
            "ftp://p:1",
            "http://p",
            "http://:1",
            "http://p:x",
            "http://a@p:1",
            "http://p/q:1",
            "http://p\r\nX:1",
        ] {
            assert_eq!(wrong.parse::<Proxy>(), Err(BadProxy), "{wrong}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let proxy: Proxy = "socks5://me:secret@p:1080".parse().unwrap();
        assert!(!format!("{proxy} {proxy:?}").contains("secret"));
    }
}
