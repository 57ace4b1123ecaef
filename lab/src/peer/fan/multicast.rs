//! UDP multicast: the network makes the copies.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use anyhow::Result;
use socket2::{Domain, Protocol, Socket, Type};

use super::super::tasks::{self, Shared};
use super::super::{Peer, Setup, nothing_missing};
use crate::app::{Meter, Pacer};
use crate::net::{CLIENT_IP, SERVER_IP};

pub(in super::super) const PEERS: &[Peer] = &[Peer {
    name: "udp-multicast",
    label: "UDP multicast",
    tuning: "a datagram for all members, each of which has joined; nothing is repeated, nothing is known of what arrived; not encrypted",
    reliable: false,
    cannot: super::only,
    missing: nothing_missing,
    run: |setup, meter| tasks::run(setup, meter, fan),
}];

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 77, 0, 1);
const BUFFER: usize = 4 << 20;

async fn fan(setup: Arc<Setup>, meter: Arc<Meter>) -> Result<()> {
    let (members, per_second) = super::work(&setup)?;
    let to = SocketAddr::from((GROUP, setup.listen.port()));
    if setup.is_server() {
        for _ in 0..members {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
            socket.set_reuse_address(true)?;
            socket.set_recv_buffer_size(BUFFER)?;
            socket.bind(&to.into())?;
            socket.join_multicast_v4(&GROUP, &SERVER_IP)?;
            socket.set_nonblocking(true)?;
            let socket = tokio::net::UdpSocket::from_std(UdpSocket::from(socket))?;
            tokio::spawn(take(socket, Shared::new(&setup, &meter)));
        }
        setup.hello(&to.to_string());
        return std::future::pending().await;
    }
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_multicast_if_v4(&CLIENT_IP)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((CLIENT_IP, 0)).into())?;
    let socket = tokio::net::UdpSocket::from_std(UdpSocket::from(socket))?;
    let to: SocketAddr = setup.server_address()?;
    let mut pacer = Pacer::new(&meter, (1, per_second), setup.bytes);
    loop {
        let (_, message) = pacer.next().await;
        socket.send_to(&message, to).await?;
    }
}

async fn take(socket: tokio::net::UdpSocket, shared: Shared) -> Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = socket.recv(&mut buffer).await?;
        shared.take(buffer.get(..length));
    }
}
