//! Bare UDP: what packets alone reach, and what they reach sealed. Nothing is repeated or ordered.

use std::io::{ErrorKind, IoSliceMut};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};

use super::contact;
use super::envelope::Envelope;
use super::tasks::{self, Shared};
use super::{Peer, Setup, not_both_ways, nothing_missing, one_way};
use crate::app::{Crowd, Meter, NUMBERS_APART, Work, app};

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "udp-gso",
        label: "UDP, GSO and GRO",
        tuning: "a message per datagram, up to 64 of them a call; nothing is repeated: the limit",
        reliable: false,
        cannot: one_way,
        missing: nothing_missing,
        run: |setup, meter| segments(setup, meter, Envelope::none()),
    },
    Peer {
        name: "udp-sealed",
        label: "UDP, sealed, GSO and GRO",
        tuning: "as UDP, GSO and GRO, each message sealed in place with AES-128-GCM as Exonet's packets are; nothing is repeated: the limit of what is encrypted",
        reliable: false,
        cannot: one_way,
        missing: nothing_missing,
        run: |setup, meter| segments(setup, meter, Envelope::sealed()?),
    },
    Peer {
        name: "udp-echo",
        label: "UDP through tokio",
        tuning: "a message per datagram, one a call; nothing is repeated",
        reliable: false,
        cannot: not_both_ways,
        missing: nothing_missing,
        run: echo,
    },
];

/// The most that the system takes at once.
const SEGMENTS: usize = 64;
const LARGEST: usize = 65_000;
/// The number of buffers that one system call receives into.
const BUFFERS: usize = 16;

fn bind(setup: &Setup) -> Result<UdpSocket> {
    let socket = if setup.is_server() {
        UdpSocket::bind(setup.listen)?
    } else {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(setup.server_address()?)?;
        socket
    };
    let (size, buffers) = (8 << 20, socket2::SockRef::from(&socket));
    buffers.set_send_buffer_size(size)?;
    buffers.set_recv_buffer_size(size)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn segments(setup: &Setup, meter: &Arc<Meter>, mut envelope: Envelope) -> Result<()> {
    let socket = bind(setup)?;
    let state = UdpSocketState::new((&socket).into())?;
    let mut app = app(setup.work, setup.role, meter);
    if setup.is_server() {
        setup.hello(&socket.local_addr()?.to_string());
        let mut memory = vec![0; BUFFERS << 16];
        let mut metas = [RecvMeta::default(); BUFFERS];
        loop {
            let mut rest = memory.chunks_mut(1 << 16);
            let mut buffers: [IoSliceMut<'_>; BUFFERS] =
                std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
            let received = match state.recv((&socket).into(), &mut buffers, &mut metas) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE)?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            for (buffer, meta) in buffers.iter_mut().zip(&metas).take(received) {
                let data = buffer.get_mut(..meta.len).unwrap_or_default();
                // One that does not open is empty, which the application takes for damaged.
                let datagrams = data.chunks_mut(meta.stride.max(1));
                datagrams.for_each(|datagram| app.take(envelope.open(datagram).unwrap_or_default()));
            }
        }
    }
    let destination = setup.server_address()?;
    let size = envelope.datagram(setup.bytes);
    let most = state.max_gso_segments().min(SEGMENTS).min(LARGEST / size.max(1)).max(1);
    let mut batch = vec![0x5a; most * size];
    let mut next =
        |datagram: &mut [u8]| app.next(envelope.message(datagram)).then(|| envelope.seal(datagram))?;
    loop {
        let full = batch.chunks_mut(size).map_while(&mut next).count();
        if full == 0 {
            std::thread::park();
            continue;
        }
        let contents = batch.get(..full * size).unwrap_or_default();
        let transmit = Transmit { destination, ecn: None, contents, segment_size: Some(size), src_ip: None };
        while let Err(error) = state.try_send((&socket).into(), &transmit) {
            if error.kind() != ErrorKind::WouldBlock {
                return Err(error).context("cannot send");
            }
            poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE)?;
        }
    }
}

fn echo(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    if matches!(setup.work, Work::Contact { .. }) {
        return contact::run::<contact::udp::Udp>(setup, meter);
    }
    tasks::run(setup, meter, |setup, meter| async move {
        if let Work::Crowd { clients, per_second } = setup.work {
            if setup.is_server() {
                return echo_to_all(&setup, &meter).await;
            }
            let crowd = Crowd::new(meter, setup.part, setup.bytes, (clients, per_second));
            return visit(&setup, clients, crowd).await;
        }
        let shared = Shared::new(&setup, &meter);
        let socket = tokio::net::UdpSocket::from_std(bind(&setup)?)?;
        let mut buffer = vec![0; 1 << 16];
        if setup.is_server() {
            setup.hello(&socket.local_addr()?.to_string());
            let (length, from) = socket.recv_from(&mut buffer).await?;
            socket.connect(from).await?;
            shared.take([buffer.get(..length).unwrap_or_default()]);
        }
        // Both end only by failing.
        tokio::try_join!(
            async {
                loop {
                    for message in shared.next(1).await {
                        socket.send(&message).await?;
                    }
                }
                #[allow(unreachable_code)]
                Ok::<(), std::io::Error>(())
            },
            async {
                loop {
                    let length = socket.recv(&mut buffer).await?;
                    shared.take([buffer.get(..length).unwrap_or_default()]);
                }
                #[allow(unreachable_code)]
                Ok::<(), std::io::Error>(())
            }
        )?;
        Ok(())
    })
}

/// Every datagram goes back to where it came from.
async fn echo_to_all(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    let socket = bind(setup)?;
    setup.hello(&socket.local_addr()?.to_string());
    let (socket, shared) = (tokio::net::UdpSocket::from_std(socket)?, Shared::new(setup, meter));
    let mut buffer = vec![0; 1 << 16];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await?;
        let message = buffer.get(..length).unwrap_or_default();
        shared.take([message]);
        socket.send_to(message, from).await?;
    }
}

/// Each client has a socket of its own, and waits for no answer.
async fn visit(setup: &Setup, clients: u32, crowd: Crowd) -> Result<()> {
    let mut all = tokio::task::JoinSet::new();
    let server = setup.server_address()?;
    for n in 0..clients {
        let socket = tokio::net::UdpSocket::bind((setup.client_address(n), 0)).await?;
        socket.connect(server).await?;
        let mut visitor = crowd.visitor(n);
        all.spawn(async move {
            let mut buffer = [0; 2_048];
            loop {
                tokio::select! {
                    message = visitor.message() => drop(socket.send(&message).await?),
                    echo = socket.recv(&mut buffer) => drop(echo?),
                }
            }
        });
        tokio::time::sleep(NUMBERS_APART).await;
    }
    match all.join_next().await {
        Some(ended) => ended?,
        None => Ok(()),
    }
}
