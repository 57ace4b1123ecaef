//! SCTP over UDP, by usrsctp.

use super::{Peer, one_connection};

pub(super) const PEERS: &[Peer] = &[Peer {
    name: "sctp",
    label: "SCTP (usrsctp)",
    tuning: "unordered messages (on lanes: ordered, a stream for each), SCTP_NODELAY, over UDP; not encrypted",
    reliable: true,
    cannot: one_connection,
    missing,
    run,
}];

#[cfg(not(has_sctp))]
use super::absent as run;

#[cfg(not(has_sctp))]
fn missing() -> Option<String> {
    Some("built without usrsctp (Debian: libusrsctp-dev)".into())
}

#[cfg(has_sctp)]
use super::nothing_missing as missing;

#[cfg(has_sctp)]
mod shim {
    use std::ffi::{c_long, c_uint, c_void};

    #[repr(C)]
    pub(super) struct Socket {
        _opaque: [u8; 0],
    }

    unsafe extern "C" {
        pub(super) fn lab_sctp_start(send: c_uint, receive: c_uint);
        pub(super) fn lab_sctp_listen(ip: c_uint, port: u16) -> *mut Socket;
        pub(super) fn lab_sctp_accept(listener: *mut Socket) -> *mut Socket;
        pub(super) fn lab_sctp_connect(ip: c_uint, port: u16) -> *mut Socket;
        pub(super) fn lab_sctp_send(socket: *mut Socket, data: *const c_void, length: usize) -> c_long;
        pub(super) fn lab_sctp_send_on(
            socket: *mut Socket,
            data: *const c_void,
            length: usize,
            stream: u16,
        ) -> c_long;
        pub(super) fn lab_sctp_receive(socket: *mut Socket, buffer: *mut c_void, room: usize) -> c_long;
    }
}

/// A socket, whose functions any thread may call.
#[cfg(has_sctp)]
#[derive(Clone, Copy)]
struct Socket(*mut shim::Socket);

// SAFETY: usrsctp locks its sockets itself.
#[cfg(has_sctp)]
unsafe impl Send for Socket {}
// SAFETY: as above.
#[cfg(has_sctp)]
unsafe impl Sync for Socket {}

#[cfg(has_sctp)]
impl Socket {
    fn send(&self, message: &[u8]) -> bool {
        // SAFETY: the socket lives as long as the process, and the bytes are copied.
        unsafe { shim::lab_sctp_send(self.0, message.as_ptr().cast(), message.len()) >= 0 }
    }

    /// In the order of the stream.
    fn send_on(&self, stream: u16, message: &[u8]) -> bool {
        // SAFETY: as above.
        unsafe { shim::lab_sctp_send_on(self.0, message.as_ptr().cast(), message.len(), stream) >= 0 }
    }

    fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        // SAFETY: the socket lives as long as the process, and no more than the length of the buffer is written.
        let length = unsafe { shim::lab_sctp_receive(self.0, buffer.as_mut_ptr().cast(), buffer.len()) };
        usize::try_from(length).ok().filter(|length| *length > 0)
    }
}

#[cfg(has_sctp)]
fn run(setup: &super::Setup, meter: &std::sync::Arc<crate::app::Meter>) -> anyhow::Result<()> {
    let (ip, port) = super::v4(if setup.is_server() { setup.listen } else { setup.server_address()? })?;
    // SAFETY: plain values in; pointers are checked before they are used.
    let socket = unsafe {
        shim::lab_sctp_start(setup.buffer(), 4 << 20);
        if setup.is_server() {
            let listener = shim::lab_sctp_listen(ip, port);
            anyhow::ensure!(!listener.is_null(), "usrsctp cannot listen");
            setup.hello(&setup.listen.to_string());
            shim::lab_sctp_accept(listener)
        } else {
            meter.hand_over();
            shim::lab_sctp_connect(ip, port)
        }
    };
    anyhow::ensure!(!socket.is_null(), "usrsctp cannot connect");
    if let (crate::app::Work::Lanes { lanes, per_second }, false) = (setup.work, setup.is_server()) {
        let socket = Socket(socket);
        let mut pacer = crate::app::Pacer::new(meter, (lanes, per_second), setup.bytes);
        while let Some((lane, message)) = pacer.next_blocking() {
            anyhow::ensure!(socket.send_on(u16::try_from(lane)?, &message), "usrsctp cannot send");
        }
        // Messages in flight still arrive. The lab ends this process.
        loop {
            std::thread::park();
        }
    }
    let (socket, app) = (Socket(socket), crate::app::app(setup.work, setup.role, meter));
    super::blocking::run(app, setup.bytes, |message| socket.send(message), |buffer| socket.receive(buffer))
}
