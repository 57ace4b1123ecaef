//! The first line of a connection to a keeper, and the socket that comes with it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;

/// The most bytes of a line.
const LONGEST: usize = 16 << 10;

/// Sends a line, and a socket with it.
///
/// # Errors
/// The other end has gone.
pub(super) async fn send(
    stream: &mut UnixStream,
    line: &impl Serialize,
    socket: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line).map_err(io::Error::from)?;
    bytes.push(b'\n');
    let sent = match socket {
        Some(socket) => {
            let send = || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                let sockets = [socket];
                control.push(SendAncillaryMessage::ScmRights(&sockets));
                let parts = [IoSlice::new(&bytes)];
                Ok(sendmsg(stream.as_fd(), &parts, &mut control, SendFlags::empty())?)
            };
            stream.async_io(Interest::WRITABLE, send).await?
        }
        None => 0,
    };
    stream.write_all(bytes.get(sent..).unwrap_or_default()).await
}

/// Reads a line, and the sockets that come with it. The other end sends nothing behind it before it is answered.
///
/// # Errors
/// The other end has gone, or this is no such line.
pub(super) async fn receive<T: DeserializeOwned>(stream: &UnixStream) -> io::Result<(T, Vec<OwnedFd>)> {
    let (mut line, mut sockets) = (Vec::new(), Vec::new());
    while line.last() != Some(&b'\n') {
        if line.len() > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the line is too long"));
        }
        let mut bytes = [0; 4 << 10];
        let read = stream.async_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut bytes)];
            let read = recvmsg(stream.as_fd(), &mut parts, &mut control, RecvFlags::empty())?.bytes;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(passed) = message {
                    sockets.extend(passed);
                }
            }
            Ok(read)
        });
        match read.await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => line.extend_from_slice(bytes.get(..read).unwrap_or_default()),
        }
    }
    Ok((serde_json::from_slice(&line).map_err(io::Error::from)?, sockets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_arrives_with_its_line() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (socket, accepted) = tokio::join!(tokio::net::TcpStream::connect(at), listener.accept());
        let (mut to, from) = UnixStream::pair().unwrap();
        send(&mut to, &["with"], Some(socket.unwrap().as_fd())).await.unwrap();
        let (line, sockets) = receive::<Vec<String>>(&from).await.unwrap();
        assert_eq!((line, sockets.len()), (vec!["with".to_owned()], 1));
        let passed: std::net::TcpStream = sockets.into_iter().next().unwrap().into();
        assert_eq!(passed.peer_addr().unwrap(), at);
        drop(accepted);
        send(&mut to, &["without"], None).await.unwrap();
        assert!(receive::<Vec<String>>(&from).await.unwrap().1.is_empty());
        to.write_all(&[b'x'; LONGEST + 1]).await.unwrap();
        assert!(receive::<Vec<String>>(&from).await.is_err());
        drop(to);
        assert!(receive::<Vec<String>>(&from).await.is_err());
    }
}
