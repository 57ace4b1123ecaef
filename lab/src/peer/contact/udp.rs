//! A datagram and its copy: the least that a call can cost. Nothing is repeated, or encrypted, or known to be new.

use std::net::Ipv4Addr;

use anyhow::Result;
use tokio::net::UdpSocket;

use super::super::Setup;
use super::Caller;
use crate::app::Answers;

pub(in crate::peer) struct Udp(UdpSocket);

const LONGEST: usize = 2_048;

impl Caller for Udp {
    async fn serve(setup: &Setup, answers: Answers) -> Result<()> {
        let socket = UdpSocket::bind(setup.listen).await?;
        setup.hello(&socket.local_addr()?.to_string());
        let mut buffer = [0; LONGEST];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).await?;
            let request = buffer.get(..length).unwrap_or_default();
            answers.note(request);
            socket.send_to(request, from).await?;
        }
    }

    async fn new(setup: &Setup, from: Ipv4Addr) -> Result<Self> {
        let socket = UdpSocket::bind((from, 0)).await?;
        socket.connect(setup.server_address()?).await?;
        Ok(Self(socket))
    }

    async fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        self.0.send(request).await?;
        let mut buffer = vec![0; LONGEST];
        let length = self.0.recv(&mut buffer).await?;
        buffer.truncate(length);
        Ok(buffer)
    }

    async fn close(self) -> Result<()> {
        Ok(())
    }
}
