//! ZeroMQ over TCP: a PUB socket for all members, or a DEALER socket for each.

use super::super::Peer;
#[cfg(not(has_zmq))]
use super::super::absent as run;
use super::super::zmq::missing;

pub(in super::super) const PEERS: &[Peer] = &[
    Peer {
        name: "zmq-pub",
        label: "ZeroMQ PUB",
        tuning: "PUB (XPUB, which waits for all subscriptions before it begins) and SUB; drops what a member is too slow for; not encrypted",
        reliable: false,
        cannot: super::only,
        missing,
        run,
    },
    Peer {
        name: "zmq-dealer",
        label: "ZeroMQ DEALER",
        tuning: "a DEALER socket for each member; not encrypted",
        reliable: true,
        cannot: super::only,
        missing,
        run,
    },
];

#[cfg(has_zmq)]
use driven::run;

#[cfg(has_zmq)]
mod driven {
    use std::ffi::{CString, c_int, c_void};
    use std::sync::Arc;

    use anyhow::{Result, ensure};

    use super::super::super::Setup;
    use super::super::super::zmq::library::*;
    use super::super::{listen, work};
    use crate::app::{App, Meter, Pacer, app};
    use crate::net::CLIENT_IP;

    const SUB: c_int = 2;
    const XPUB: c_int = 9;
    const SUBSCRIBE: c_int = 6;
    /// Passes on each subscription, not the first only.
    const XPUB_VERBOSE: c_int = 40;
    /// The high-water mark of a member, in messages.
    const MARK: c_int = 16_384;
    /// The longest wait for the network, in ms.
    const NAP: i64 = 20;

    pub(super) fn run(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
        let (members, per_second) = work(setup)?;
        if setup.is_server() { take(setup, meter, members) } else { send(setup, meter, members, per_second) }
    }

    struct Context(*mut c_void);

    impl Context {
        fn new() -> Result<Self> {
            // SAFETY: takes nothing.
            let context = unsafe { zmq_ctx_new() };
            ensure!(!context.is_null(), "ZeroMQ cannot start");
            Ok(Self(context))
        }

        fn open(&self, kind: c_int, binds: bool, at: std::net::SocketAddr) -> Result<Socket> {
            let (endpoint, mark) = (CString::new(format!("tcp://{at}"))?, MARK);
            // SAFETY: the context lives as long as the process; pointers outlive the calls that they are passed to.
            unsafe {
                let socket = zmq_socket(self.0, kind);
                ensure!(!socket.is_null(), "ZeroMQ cannot make a socket");
                for option in [SNDHWM, RCVHWM] {
                    zmq_setsockopt(socket, option, (&raw const mark).cast(), size_of_val(&mark));
                }
                if kind == XPUB {
                    let one: c_int = 1;
                    zmq_setsockopt(socket, XPUB_VERBOSE, (&raw const one).cast(), size_of_val(&one));
                }
                if kind == SUB {
                    zmq_setsockopt(socket, SUBSCRIBE, c"".as_ptr().cast(), 0);
                }
                let open = if binds { zmq_bind } else { zmq_connect };
                ensure!(open(socket, endpoint.as_ptr()) == 0, "ZeroMQ cannot use {at}");
                Ok(Socket(socket))
            }
        }
    }

    struct Socket(*mut c_void);

    impl Socket {
        /// Blocks while the member's queue is full.
        fn send(&self, message: &[u8]) -> bool {
            // SAFETY: the socket lives as long as the process, and the bytes are copied.
            unsafe { zmq_send(self.0, message.as_ptr().cast(), message.len(), 0) >= 0 }
        }

        /// The length of the next message. Without `waits`, None means that no message has arrived.
        fn receive(&self, buffer: &mut [u8], waits: bool) -> Option<usize> {
            let flags = if waits { 0 } else { DONTWAIT };
            // SAFETY: the socket lives as long as the process; no more than the length of the buffer is written.
            let length = unsafe { zmq_recv(self.0, buffer.as_mut_ptr().cast(), buffer.len(), flags) };
            usize::try_from(length).ok()
        }
    }

    fn send(setup: &Setup, meter: &Arc<Meter>, members: u32, per_second: u32) -> Result<()> {
        let (context, mut buffer) = (Context::new()?, [0; 64]);
        let sockets = if setup.peer == "zmq-pub" {
            let all = context.open(XPUB, true, (CLIENT_IP, setup.listen.port()).into())?;
            for _ in 0..members {
                ensure!(all.receive(&mut buffer, true).is_some(), "ZeroMQ has no subscription");
            }
            vec![all]
        } else {
            let each = (0..members).map(|n| context.open(DEALER, false, listen(setup, n)?));
            each.collect::<Result<_>>()?
        };
        let mut pacer = Pacer::new(meter, (1, per_second), setup.bytes);
        while let Some((_, message)) = pacer.next_blocking() {
            for socket in &sockets {
                ensure!(socket.send(&message), "ZeroMQ cannot send");
            }
        }
        // Messages in flight still arrive. The lab ends this process.
        loop {
            std::thread::park();
        }
    }

    fn take(setup: &Setup, meter: &Arc<Meter>, members: u32) -> Result<()> {
        let context = Context::new()?;
        let open = |n| {
            let socket = if setup.peer == "zmq-pub" {
                context.open(SUB, false, (CLIENT_IP, setup.listen.port()).into())?
            } else {
                context.open(DEALER, true, listen(setup, n)?)?
            };
            Ok((socket, app(setup.work, setup.role, meter)))
        };
        let mut all: Vec<(Socket, Box<dyn App>)> = (0..members).map(open).collect::<Result<_>>()?;
        setup.hello(&setup.listen.to_string());
        let item = |(socket, _): &(Socket, _)| Item { socket: socket.0, fd: 0, events: POLLIN, revents: 0 };
        let mut items: Vec<Item> = all.iter().map(item).collect();
        let (count, mut buffer) = (c_int::try_from(items.len())?, vec![0; 1 << 16]);
        loop {
            // SAFETY: as many items as there are, which outlive the call.
            unsafe { zmq_poll(items.as_mut_ptr(), count, NAP) };
            for (item, (socket, app)) in items.iter().zip(&mut all) {
                while item.revents & POLLIN != 0
                    && let Some(length) = socket.receive(&mut buffer, false)
                {
                    app.take(buffer.get(..length).unwrap_or_default());
                }
            }
        }
    }
}
