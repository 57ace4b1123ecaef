//! KCP: an ARQ over UDP that never slows down.

use std::cell::Cell;
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use kcp::Kcp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Peer, Setup, nothing_missing, one_connection};
use crate::app::{Meter, app};

pub(super) const PEERS: &[Peer] = &[Peer {
    name: "kcp",
    label: "KCP",
    tuning: "its fastest mode (nodelay 1, interval 10 ms, resend 2, no congestion control), flushed at once; the window is told what the link and its queue hold; not encrypted",
    reliable: true,
    cannot: one_connection,
    missing: nothing_missing,
    run,
}];

const CONVERSATION: u32 = 1;
const MTU: usize = 1_400;
/// In packets, where there is no link; and at least.
const WINDOW: usize = 1_024;
const LEAST: usize = 128;

/// Where KCP writes its packets: they leave at once, to who is there.
struct Out {
    socket: UdpSocket,
    other: Rc<Cell<Option<SocketAddr>>>,
}

impl Write for Out {
    fn write(&mut self, packet: &[u8]) -> io::Result<usize> {
        if let Some(to) = self.other.get() {
            match self.socket.send_to(packet, to) {
                // What finds no room is repeated, as what the network loses.
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => (),
            }
        }
        Ok(packet.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn run(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    let (socket, other) = if setup.is_server() {
        (UdpSocket::bind(setup.listen)?, None)
    } else {
        (UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?, Some(setup.server_address()?))
    };
    socket.set_nonblocking(true)?;
    socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20)?;
    let other = Rc::new(Cell::new(other));
    if setup.is_server() {
        setup.hello(&socket.local_addr()?.to_string());
    }
    meter.hand_over();
    let out = Out { socket: socket.try_clone()?, other: Rc::clone(&other) };
    let began = Instant::now();
    let now = || u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
    let window = if setup.window == 0 { WINDOW } else { (setup.window / MTU).max(LEAST) };
    let mut kcp = Kcp::new(CONVERSATION, out);
    kcp.set_mtu(MTU)?;
    kcp.set_nodelay(true, 10, 2, true);
    kcp.set_wndsize(u16::try_from(window)?, u16::try_from(window.max(WINDOW))?);
    kcp.update(now())?;
    let mut app = app(setup.work, setup.role, meter);
    let (mut message, mut buffer) = (vec![0x5a; setup.bytes], vec![0; 1 << 16]);
    loop {
        let mut news = false;
        while kcp.wait_snd() < 2 * window && app.next(&mut message) {
            kcp.send(&message)?;
            news = true;
        }
        loop {
            match socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    other.set(Some(from));
                    kcp.input(buffer.get(..length).unwrap_or_default())?;
                    news = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        while let Ok(length) = kcp.recv(&mut buffer) {
            app.take(buffer.get(..length).unwrap_or_default());
        }
        while kcp.wait_snd() < 2 * window && app.next(&mut message) {
            kcp.send(&message)?;
            news = true;
        }
        kcp.update(now())?;
        if news {
            kcp.flush()?;
        }
        let wait = u16::try_from(kcp.check(now()).min(10)).unwrap_or(10);
        poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], PollTimeout::from(wait))?;
    }
}
