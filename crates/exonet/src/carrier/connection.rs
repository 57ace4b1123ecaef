//! A connection: bytes in both directions, in order, until it breaks.

use core::fmt;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::tune;

pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// A connection that carries packets instead of datagrams: bytes in both directions, in order, until it breaks.
///
/// A node writes its packets one after the other, each with its length in front. The node encrypts and authenticates
/// the packets, so the bytes need no further protection, and the connection need not prove who is at the other end.
/// If a connection breaks, no message is lost: the node opens another.
///
/// A writer should accept no more bytes than it can send soon. No urgent message can overtake bytes that wait in its
/// buffers.
///
/// ```
/// use exonet::carrier::Connection;
///
/// let (near, far) = tokio::io::duplex(16_384);
/// let connection = Connection::new(near);
/// # drop((connection, far));
/// ```
pub struct Connection {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
}

impl Connection {
    /// Makes a connection from a stream that can be read and written.
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self::of_halves(reader, writer)
    }

    /// Makes a connection from one stream for each direction.
    pub fn of_halves(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self { reader: Box::new(reader), writer: Box::new(writer) }
    }

    /// Makes a connection from a TCP connection. Sets options of the TCP connection, so that few bytes wait in the
    /// system.
    ///
    /// # Errors
    /// The error of the system for these options.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        tune(&stream)?;
        let (reader, writer) = stream.into_split();
        Ok(Self::of_halves(reader, writer))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}
