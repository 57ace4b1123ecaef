//! The opening of connections.

use core::fmt;
use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;
use std::io;

use tokio::net::TcpStream;

use super::connection::Connection;

/// A connection that is being opened.
pub type Dialling<'a> = Pin<Box<dyn Future<Output = io::Result<Connection>> + Send + 'a>>;

/// Opens connections for a node: see [`Builder::dialler`](crate::Builder::dialler).
///
/// The node calls it when it wants a connection to a peer (`docs/carriers.md`, "Who dials"), and calls it again after a
/// failure, with growing waits. An attempt that takes longer than 10 s is dropped.
///
/// ```
/// use std::net::SocketAddr;
///
/// use exonet::carrier::{Connection, Dialler, Dialling};
/// use exonet::{Allow, Carrier, Node};
/// use tokio::net::TcpStream;
///
/// /// Every connection goes to a relay, which knows the way.
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
    /// Opens a connection to a node that is believed to be at this address.
    ///
    /// # Errors
    /// The reason for which there is no connection. The node logs it, and tries again for as long as it wants a
    /// connection.
    fn dial(&self, to: SocketAddr) -> Dialling<'_>;

    /// Where `name`, the `HOST:PORT` of a peer, is looked up. Default: by the system.
    ///
    /// A dialler whose other end looks names up gives an address that stands for the name. [`Self::dial`] is asked for that address
    /// then, in this process and, where the node keeps a journal, in later ones.
    fn look_up(&self, name: &str) -> LookUp {
        let _ = name;
        LookUp::Here
    }
}

/// Where the name of a host is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUp {
    /// By the system.
    Here,
    /// By the system; where that finds nothing, at the other end of the dialler, to which the address stands for the name.
    HereFirst(SocketAddr),
    /// At the other end alone: the system does not learn of the name.
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
