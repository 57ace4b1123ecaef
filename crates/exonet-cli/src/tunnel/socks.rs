//! SOCKS5 (RFC 1928), as a server, without authentication: CONNECT only.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::target::{Host, Target};
use super::wire::Code;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Replies that do not depend on an answer of the far end.
const SUCCEEDED: u8 = 0;
const FAILED: u8 = 1;
const NO_SUCH_COMMAND: u8 = 7;
const NO_SUCH_ADDRESS: u8 = 8;

/// The reason why a client is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocksError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the client does not speak SOCKS5")]
    Version,
    #[error("the client wants to authenticate itself; this server has no authentication")]
    Method,
    #[error("the client asks for something other than a connection")]
    Command,
    #[error("the client names no valid host and port")]
    Address,
}

/// A request that waits for its reply.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) target: Target,
}

impl Request {
    /// Reads the request of the client. On an error, the client has already got its reply.
    ///
    /// # Errors
    /// [`SocksError`].
    pub(crate) async fn read(client: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<Self, SocksError> {
        let [version, methods] = bytes(client).await?;
        if version != VERSION {
            return Err(SocksError::Version);
        }
        let mut offered = vec![0; methods.into()];
        client.read_exact(&mut offered).await?;
        if !offered.contains(&NO_AUTHENTICATION) {
            client.write_all(&[VERSION, NO_METHOD]).await?;
            return Err(SocksError::Method);
        }
        client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
        let [version, command, _, kind] = bytes(client).await?;
        if version != VERSION {
            return Err(SocksError::Version);
        }
        let host = match kind {
            IPV4 => Some(Host::from(IpAddr::V4(Ipv4Addr::from(bytes::<4>(client).await?)))),
            IPV6 => Some(Host::from(IpAddr::V6(Ipv6Addr::from(bytes::<16>(client).await?)))),
            NAME => {
                let [length] = bytes(client).await?;
                let mut name = vec![0; length.into()];
                client.read_exact(&mut name).await?;
                // Some clients send an address as a name.
                std::str::from_utf8(&name).ok().and_then(|name| name.parse().ok())
            }
            _ => return Err(fail(client, NO_SUCH_ADDRESS, SocksError::Address).await),
        };
        let port = u16::from_be_bytes(bytes(client).await?);
        if command != CONNECT {
            return Err(fail(client, NO_SUCH_COMMAND, SocksError::Command).await);
        }
        match host {
            Some(host) if port > 0 => Ok(Self { target: Target { host, port } }),
            _ => Err(fail(client, FAILED, SocksError::Address).await),
        }
    }

    /// Sends the result to the client. None: the target is connected.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) async fn reply(
        client: &mut (impl AsyncWrite + Unpin),
        refused: Option<Code>,
    ) -> io::Result<()> {
        say(client, refused.map_or(SUCCEEDED, reply_code)).await
    }
}

/// The reply for each refusal.
fn reply_code(code: Code) -> u8 {
    match code {
        Code::Denied => 2,
        Code::NetworkUnreachable => 3,
        Code::HostUnreachable | Code::NoSuchHost => 4,
        Code::Refused => 5,
        Code::TimedOut => 6,
        Code::Busy | Code::Malformed | Code::Gone | Code::Failed => FAILED,
    }
}

async fn bytes<const N: usize>(client: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Sends a reply. Its address is zero, since the client need not know the address of the far end.
async fn say(client: &mut (impl AsyncWrite + Unpin), reply: u8) -> io::Result<()> {
    client.write_all(&[VERSION, reply, 0, IPV4, 0, 0, 0, 0, 0, 0]).await
}

async fn fail(client: &mut (impl AsyncWrite + Unpin), reply: u8, error: SocksError) -> SocksError {
    // A client that has disconnected needs no reply.
    let _ = say(client, reply).await;
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::duplex;

    /// The result for the bytes that a client sends, and the bytes that it receives.
    fn served(said: &[u8]) -> (Result<Request, SocksError>, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut client, mut server) = duplex(4_096);
            client.write_all(said).await.unwrap();
            client.shutdown().await.unwrap();
            let request = Request::read(&mut server).await;
            drop(server);
            let mut heard = Vec::new();
            client.read_to_end(&mut heard).await.unwrap();
            (request, heard)
        })
    }

    #[test]
    fn requests_name_their_targets() {
        for (address, target) in [
            (&[1, 127, 0, 0, 1, 0, 80][..], "127.0.0.1:80"),
            (&[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 31, 144], "[::1]:8080"),
            (b"\x03\x02Db\x15\x38", "db:5432"),
            (b"\x03\x09127.0.0.1\x00\x50", "127.0.0.1:80"),
        ] {
            let (request, heard) = served(&[&[5, 2, 2, 0, 5, 1, 0], address].concat());
            assert_eq!(request.unwrap().target.to_string(), target);
            assert_eq!(heard, [5, 0]);
        }
    }

    #[test]
    fn what_cannot_be_served_is_told() {
        let failed = |reply| [&[5, 0, 5, reply][..], &[0, 1, 0, 0, 0, 0, 0, 0]].concat();
        for (said, heard) in [
            (&[4, 1, 0, 80, 1, 2, 3, 4, 0][..], vec![]),
            (&[5, 1, 2], vec![5, 0xff]),
            (&[5, 0], vec![5, 0xff]),
            (&[5, 1, 0, 5, 2, 0, 1, 127, 0, 0, 1, 0, 80], failed(7)),
            (&[5, 1, 0, 5, 3, 0, 1, 127, 0, 0, 1, 0, 80], failed(7)),
            (&[5, 1, 0, 5, 1, 0, 9, 127], failed(8)),
            (&[5, 1, 0, 5, 1, 0, 3, 1, b' ', 0, 80], failed(1)),
            (&[5, 1, 0, 5, 1, 0, 3, 0, 0, 80], failed(1)),
            (&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 0], failed(1)),
            (&[5, 1, 0, 5, 1], vec![5, 0]),
        ] {
            let (request, told) = served(said);
            assert!(request.is_err(), "{said:?}");
            assert_eq!(told, heard, "{said:?}");
        }
    }

    proptest! {
        #[test]
        fn any_client_is_heard_without_harm(said: Vec<u8>, head: bool) {
            let said = if head { [&[5, 1, 0, 5, 1, 0][..], &said].concat() } else { said };
            let _ = served(&said);
        }
    }
}
