//! Calls on a stream of bytes, and TCP as it is: four bytes of length, then the message.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Result, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::super::Setup;
use super::Caller;
use crate::app::Answers;

const LONGEST: u32 = 1 << 16;

pub(in crate::peer) async fn write(stream: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> Result<()> {
    let mut bytes = u32::try_from(message.len())?.to_be_bytes().to_vec();
    bytes.extend_from_slice(message);
    stream.write_all(&bytes).await?;
    Ok(stream.flush().await?)
}

/// None: the other end has no more to say.
pub(in crate::peer) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<Vec<u8>>> {
    let length = match stream.read_u32().await {
        Ok(length) => length,
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    ensure!(length <= LONGEST, "the stream of messages is damaged");
    let mut message = vec![0; length as usize];
    stream.read_exact(&mut message).await?;
    Ok(Some(message))
}

/// Asks on a stream, and waits for the answer.
pub(in crate::peer) async fn ask(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &[u8],
) -> Result<Vec<u8>> {
    write(stream, request).await?;
    Ok(read(stream).await?.unwrap_or_default())
}

/// Answers what comes on a stream until it ends.
pub(super) async fn answer(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    answers: &Answers,
) -> Result<()> {
    while let Some(request) = read(stream).await? {
        answers.note(&request);
        write(stream, &request).await?;
    }
    Ok(stream.shutdown().await?)
}

/// A listener that has said where it is, for a crowd that comes at once.
pub(in crate::peer) fn listen(setup: &Setup, certificate: &str) -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(setup.listen)?;
    let listener = socket.listen(4_096)?;
    setup.hello(format!("{} {certificate}", listener.local_addr()?).trim_end());
    Ok(listener)
}

pub(in crate::peer) async fn connect(server: SocketAddr, from: Ipv4Addr) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.set_nodelay(true)?;
    Ok(socket.connect(server).await?)
}

/// TCP, bare.
pub(in crate::peer) struct Tcp {
    server: SocketAddr,
    from: Ipv4Addr,
    stream: Option<TcpStream>,
}

impl Caller for Tcp {
    async fn serve(setup: &Setup, answers: Answers) -> Result<()> {
        let listener = listen(setup, "")?;
        loop {
            let (mut stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let answers = answers.clone();
            tokio::spawn(async move { answer(&mut stream, &answers).await });
        }
    }

    async fn new(setup: &Setup, from: Ipv4Addr) -> Result<Self> {
        Ok(Self { server: setup.server_address()?, from, stream: None })
    }

    async fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            empty => empty.insert(connect(self.server, self.from).await?),
        };
        ask(stream, request).await
    }

    async fn close(self) -> Result<()> {
        let Some(mut stream) = self.stream else { return Ok(()) };
        stream.shutdown().await?;
        // Until the server has left too.
        read(&mut stream).await.map(drop)
    }
}
