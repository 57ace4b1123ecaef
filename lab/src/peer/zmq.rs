//! ZeroMQ over TCP.

use super::{Peer, one_connection};

pub(super) const PEERS: &[Peer] = &[Peer {
    name: "zmq",
    label: "ZeroMQ",
    tuning: "DEALER sockets, over the system's default TCP; not encrypted",
    reliable: true,
    cannot: one_connection,
    missing,
    run,
}];

#[cfg(not(has_zmq))]
use super::absent as run;

#[cfg(not(has_zmq))]
pub(super) fn missing() -> Option<String> {
    Some("built without libzmq (Debian: libzmq3-dev)".into())
}

#[cfg(has_zmq)]
pub(super) use super::nothing_missing as missing;

#[cfg(has_zmq)]
pub(super) mod library {
    use std::ffi::{c_char, c_int, c_long, c_short, c_void};

    pub(in super::super) const DEALER: c_int = 5;
    pub(in super::super) const SNDHWM: c_int = 23;
    pub(in super::super) const RCVHWM: c_int = 24;
    pub(in super::super) const DONTWAIT: c_int = 1;
    pub(in super::super) const POLLIN: c_short = 1;
    pub(in super::super) const POLLOUT: c_short = 2;

    #[repr(C)]
    pub(in super::super) struct Item {
        pub(in super::super) socket: *mut c_void,
        pub(in super::super) fd: c_int,
        pub(in super::super) events: c_short,
        pub(in super::super) revents: c_short,
    }

    unsafe extern "C" {
        pub(in super::super) fn zmq_ctx_new() -> *mut c_void;
        pub(in super::super) fn zmq_socket(context: *mut c_void, kind: c_int) -> *mut c_void;
        pub(in super::super) fn zmq_setsockopt(
            socket: *mut c_void,
            option: c_int,
            value: *const c_void,
            length: usize,
        ) -> c_int;
        pub(in super::super) fn zmq_bind(socket: *mut c_void, endpoint: *const c_char) -> c_int;
        pub(in super::super) fn zmq_connect(socket: *mut c_void, endpoint: *const c_char) -> c_int;
        pub(in super::super) fn zmq_send(
            socket: *mut c_void,
            data: *const c_void,
            length: usize,
            flags: c_int,
        ) -> c_int;
        pub(in super::super) fn zmq_recv(
            socket: *mut c_void,
            buffer: *mut c_void,
            room: usize,
            flags: c_int,
        ) -> c_int;
        pub(in super::super) fn zmq_poll(items: *mut Item, count: c_int, timeout: c_long) -> c_int;
    }
}

#[cfg(has_zmq)]
fn run(setup: &super::Setup, meter: &std::sync::Arc<crate::app::Meter>) -> anyhow::Result<()> {
    use std::ffi::CString;

    use library::*;

    /// Messages on their way out between two looks at those that come in.
    const TURN: usize = 64;
    let address = if setup.is_server() { setup.listen } else { setup.server_address()? };
    let endpoint = CString::new(format!("tcp://{address}"))?;
    let marks = i32::try_from(setup.buffer() as usize / setup.bytes.max(1))?;
    meter.hand_over();
    // SAFETY: pointers are checked, and outlive the calls that they are passed to.
    let socket = unsafe {
        let context = zmq_ctx_new();
        anyhow::ensure!(!context.is_null(), "ZeroMQ cannot start");
        let socket = zmq_socket(context, DEALER);
        anyhow::ensure!(!socket.is_null(), "ZeroMQ cannot make a socket");
        for option in [SNDHWM, RCVHWM] {
            zmq_setsockopt(socket, option, (&raw const marks).cast(), size_of_val(&marks));
        }
        let open = if setup.is_server() { zmq_bind } else { zmq_connect };
        anyhow::ensure!(open(socket, endpoint.as_ptr()) == 0, "ZeroMQ cannot use {address}");
        socket
    };
    if setup.is_server() {
        setup.hello(&address.to_string());
    }
    let mut app = crate::app::app(setup.work, setup.role, meter);
    let (mut message, mut buffer) = (vec![0x5a; setup.bytes], vec![0_u8; 1 << 16]);
    let mut waits = false;
    loop {
        for _ in 0..TURN {
            if !waits && !app.next(&mut message) {
                break;
            }
            // SAFETY: the socket lives as long as the process, and the bytes are copied.
            let sent = unsafe { zmq_send(socket, message.as_ptr().cast(), message.len(), DONTWAIT) };
            waits = sent < 0;
            if waits {
                break;
            }
        }
        let mut idle = true;
        for _ in 0..TURN {
            // SAFETY: the socket lives as long as the process; no more than the length of the buffer is written.
            let length = unsafe { zmq_recv(socket, buffer.as_mut_ptr().cast(), buffer.len(), DONTWAIT) };
            let Ok(length) = usize::try_from(length) else { break };
            app.take(buffer.get(..length).unwrap_or_default());
            idle = false;
        }
        if idle {
            let events = if waits { POLLIN | POLLOUT } else { POLLIN };
            let mut item = Item { socket, fd: 0, events, revents: 0 };
            // A source that was not made to wait has more.
            let patience = if waits || setup.waits_for_others() { 20 } else { 0 };
            // SAFETY: one item, which outlives the call.
            unsafe { zmq_poll(&raw mut item, 1, patience) };
        }
    }
}
