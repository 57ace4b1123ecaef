//! Opening connections.

use core::fmt;
use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;
use std::io;

use tokio::net::TcpStream;

use super::connection::Connection;

/// The future of a connection that is being opened.
pub type Dialling<'a> = Pin<Box<dyn Future<Output = io::Result<Connection>> + Send + 'a>>;

/// Opens connections for a node: see [`Builder::dialler`](crate::Builder::dialler).
///
/// The node calls it when it wants a connection to a peer (`docs/carriers.md`, "Who dials"). After a failure it calls
/// again, with growing pauses. The node drops an attempt after 10 s. When the network may be back, it drops an
/// attempt that is older than 1 s, and begins a new one.
///
/// ```
/// use std::net::SocketAddr;
///
/// use exonet::carrier::{Connection, Dialler, Dialling};
/// use exonet::{Allow, Carrier, Node};
/// use tokio::net::TcpStream;
///
/// /// Every connection goes to a relay, which forwards it.
/// #[derive(Debug)]
/// struct Relayed(SocketAddr);
///
/// impl Dialler for Relayed {
///     fn dial(&self, to: SocketAddr) -> Dialling<'_> {
///         Box::pin(async move {
///             let stream = TcpStream::connect(self.0).await?;
///             stream.writable().await?;
///             println!("to {to} by {}", self.0);
///             Connection::tcp(stream)
///         })
///     }
/// }
///
/// let relay = SocketAddr::from(([127, 0, 0, 1], 8080));
/// let builder = Node::builder(Allow::anyone()).carrier(Carrier::Tcp).dialler(Relayed(relay));
/// # let _ = builder;
/// ```
pub trait Dialler: fmt::Debug + Send + Sync + 'static {
    /// Opens a connection to the node that is probably at this address.
    ///
    /// # Errors
    /// Why there is no connection. The node logs the error, and tries again for as long as it wants a connection.
    fn dial(&self, to: SocketAddr) -> Dialling<'_>;

    /// Decides who looks up `name`, the `HOST:PORT` of a peer. Default: the system.
    ///
    /// If the other end of the dialler looks names up, this method returns an address that stands for the name.
    /// [`Self::dial`] then gets that address, in this process and, if the node keeps a journal, in later ones.
    fn look_up(&self, name: &str) -> LookUp {
        let _ = name;
        LookUp::Here
    }
}

/// Who looks up a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUp {
    /// The system.
    Here,
    /// The system first; if it fails, the other end of the dialler. The address stands for the name.
    HereFirst(SocketAddr),
    /// Only the other end of the dialler: the system does not learn the name. The address stands for the name.
    There(SocketAddr),
}

/// Opens TCP connections straight to the peer: the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp;

impl Dialler for Tcp {
    fn dial(&self, to: SocketAddr) -> Dialling<'_> {
        Box::pin(async move { Connection::tcp(TcpStream::connect(to).await?) })
    }
}
