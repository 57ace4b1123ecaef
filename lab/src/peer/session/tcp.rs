//! TCP: a connection for each client.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use socket2::SockRef;
use tokio::io::BufReader;
use tokio::net::TcpStream;

use super::super::Setup;
use super::super::contact::stream::{ask, connect, listen, read, write};
use super::Caller;
use crate::app::Answers;

pub(in crate::peer) struct Tcp {
    server: SocketAddr,
    from: Ipv4Addr,
    stream: Option<BufReader<TcpStream>>,
}

impl Caller for Tcp {
    async fn serve(setup: &Setup, answers: Answers) -> Result<()> {
        let listener = listen(setup, "")?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(answer(stream, answers.clone()));
        }
    }

    async fn new(setup: &Setup, from: Ipv4Addr) -> Result<Self> {
        Ok(Self { server: setup.server_address()?, from, stream: None })
    }

    async fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            empty => {
                let stream = connect(self.server, self.from).await?;
                SockRef::from(&stream).set_tcp_congestion(b"cubic")?;
                empty.insert(BufReader::new(stream))
            }
        };
        ask(stream, request).await
    }

    async fn close(self) -> Result<()> {
        std::future::pending().await
    }
}

async fn answer(stream: TcpStream, answers: Answers) -> Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_congestion(b"cubic")?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await? {
        answers.work(&request).await;
        write(&mut stream, &request).await?;
    }
    Ok(())
}
