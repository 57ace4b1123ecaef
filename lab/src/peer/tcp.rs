//! The kernel's TCP, with length-prefixed messages.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::contact;
use super::frames::{Incoming, Outgoing};
use super::tasks::{self, Shared};
use super::{Peer, Setup, fan, one_connection, session};
use crate::app::{Crowd, Meter, NUMBERS_APART, Pacer, Work, app};

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "tcp-cubic",
        label: "TCP (CUBIC)",
        tuning: "TCP_NODELAY, writes and reads of up to 64 KiB, buffers tuned by the kernel up to 16 MiB; not encrypted",
        reliable: true,
        cannot: no_members_apart,
        missing: || lacks("cubic"),
        run: |setup, meter| run(setup, meter, "cubic"),
    },
    Peer {
        name: "tcp-bbr",
        label: "TCP (BBR)",
        tuning: "as TCP (CUBIC), with TCP_CONGESTION bbr",
        reliable: true,
        cannot: one_connection,
        missing: || lacks("bbr"),
        run: |setup, meter| run(setup, meter, "bbr"),
    },
];

/// The longest wait for the network, in ms.
const NAP: u8 = 20;

const fn no_members_apart(work: Work) -> Option<&'static str> {
    match work {
        Work::Spread { .. } | Work::Download { .. } => Some("it has no groups"),
        Work::Durable { .. } => Some("it keeps nothing on the disk"),
        _ => None,
    }
}

/// Whether the kernel has no such congestion control.
pub(super) fn lacks(congestion: &str) -> Option<String> {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").ok()?;
    let there = known.split_whitespace().any(|name| name == congestion);
    (!there).then(|| format!("this kernel's TCP has no {congestion} (`modprobe tcp_{congestion}` may help)"))
}

fn run(setup: &Setup, meter: &Arc<Meter>, congestion: &str) -> Result<()> {
    if matches!(setup.work, Work::Contact { .. }) {
        return contact::run::<contact::stream::Tcp>(setup, meter);
    }
    if let Work::Sessions { .. } = setup.work {
        return session::run::<session::Tcp>(setup, meter);
    }
    if let Work::Crowd { .. } = setup.work {
        return tasks::run(setup, meter, crowd);
    }
    if let Work::Fan { .. } = setup.work {
        return tasks::run(setup, meter, fan::tcp);
    }
    if let Work::Lanes { .. } = setup.work {
        return tasks::run(setup, meter, lanes);
    }
    let mut stream = connect(setup, meter)?;
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_congestion(congestion.as_bytes())?;
    stream.set_nonblocking(true)?;
    let mut app = app(setup.work, setup.role, meter);
    let (mut outgoing, mut incoming) = (Outgoing::default(), Incoming::default());
    let mut buffer = vec![0; 64 << 10];
    loop {
        outgoing.fill(app.as_mut(), setup.bytes);
        let mut idle = true;
        if !outgoing.rest().is_empty() {
            match stream.write(outgoing.rest()) {
                Ok(written) => {
                    outgoing.advance(written);
                    idle = false;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => (),
                Err(error) => return Err(error).context("cannot write"),
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) => bail!("the other end has closed the connection"),
            Ok(read) => {
                incoming.take(buffer.get(..read).unwrap_or_default(), |message| app.take(message))?;
                idle = false;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => (),
            Err(error) => return Err(error).context("cannot read"),
        }
        if idle {
            let mut events = PollFlags::POLLIN;
            events.set(PollFlags::POLLOUT, !outgoing.rest().is_empty());
            poll(&mut [PollFd::new(stream.as_fd(), events)], PollTimeout::from(NAP))?;
        }
    }
}

fn connect(setup: &Setup, meter: &Meter) -> Result<TcpStream> {
    if setup.is_server() {
        let listener = TcpListener::bind(setup.listen)?;
        setup.hello(&listener.local_addr()?.to_string());
        return Ok(listener.accept()?.0);
    }
    meter.hand_over();
    TcpStream::connect(setup.server_address()?).context("cannot connect")
}

/// All lanes on one connection.
async fn lanes(setup: Arc<Setup>, meter: Arc<Meter>) -> Result<()> {
    let Work::Lanes { lanes, per_second } = setup.work else { bail!("there are no lanes") };
    let stream = connect(&setup, &meter)?;
    stream.set_nodelay(true)?;
    let congestion: &[u8] = if setup.peer.ends_with("bbr") { b"bbr" } else { b"cubic" };
    SockRef::from(&stream).set_tcp_congestion(congestion)?;
    stream.set_nonblocking(true)?;
    let mut stream = tokio::net::TcpStream::from_std(stream)?;
    if setup.is_server() {
        return take_all(stream, Shared::new(&setup, &meter)).await;
    }
    let length = u32::try_from(setup.bytes)?.to_be_bytes();
    let mut pacer = Pacer::new(&meter, (lanes, per_second), setup.bytes);
    loop {
        let (_, message) = pacer.next().await;
        stream.write_all(&[&length[..], &message].concat()).await?;
    }
}

/// Many connections, a task each; CUBIC, as the system may have another for its default.
async fn crowd(setup: Arc<Setup>, meter: Arc<Meter>) -> Result<()> {
    let Work::Crowd { clients, per_second } = setup.work else { bail!("that is no crowd") };
    if setup.is_server() {
        let listener = tokio::net::TcpSocket::new_v4()?;
        listener.set_reuseaddr(true)?;
        listener.bind(setup.listen)?;
        let listener = listener.listen(4_096)?;
        setup.hello(&listener.local_addr()?.to_string());
        let shared = Shared::new(&setup, &meter);
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(take_all(stream, shared.clone()));
        }
    }
    let crowd = Crowd::new(Arc::clone(&meter), setup.part, setup.bytes, (clients, per_second));
    let (mut all, server) = (tokio::task::JoinSet::new(), setup.server_address()?);
    let length = u32::try_from(setup.bytes)?.to_be_bytes();
    for n in 0..clients {
        let (mut visitor, from) = (crowd.visitor(n), setup.client_address(n));
        all.spawn(async move {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind((from, 0).into())?;
            let mut stream = socket.connect(server).await?;
            stream.set_nodelay(true)?;
            SockRef::from(&stream).set_tcp_congestion(b"cubic")?;
            loop {
                let message = visitor.message().await;
                let frame = [&length[..], &message].concat();
                stream.write_all(&frame).await?;
            }
        });
        tokio::time::sleep(NUMBERS_APART).await;
    }
    match all.join_next().await {
        Some(ended) => ended?,
        None => Ok(()),
    }
}

pub(super) async fn take_all(mut stream: tokio::net::TcpStream, shared: Shared) -> Result<()> {
    let (mut incoming, mut buffer) = (Incoming::default(), vec![0; 4 << 10]);
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let bytes = buffer.get(..read).unwrap_or_default();
        shared.take_from(|message| incoming.take(bytes, message))?;
    }
}
