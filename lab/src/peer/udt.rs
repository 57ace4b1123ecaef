//! UDT, for bulk over long fat links.

use super::{Peer, one_connection};

pub(super) const PEERS: &[Peer] = &[Peer {
    name: "udt",
    label: "UDT",
    tuning: "unordered reliable messages; not encrypted",
    reliable: true,
    cannot: one_connection,
    missing,
    run,
}];

#[cfg(not(has_udt))]
use super::absent as run;

#[cfg(not(has_udt))]
fn missing() -> Option<String> {
    Some("built without UDT (Debian: libudt-dev)".into())
}

#[cfg(has_udt)]
use super::nothing_missing as missing;

#[cfg(has_udt)]
mod shim {
    use std::ffi::{c_char, c_int, c_uint};

    unsafe extern "C" {
        pub(super) fn lab_udt_listen(ip: c_uint, port: u16, buffer: c_int) -> c_int;
        pub(super) fn lab_udt_accept(listener: c_int) -> c_int;
        pub(super) fn lab_udt_connect(ip: c_uint, port: u16, buffer: c_int) -> c_int;
        pub(super) fn lab_udt_send(socket: c_int, data: *const c_char, length: c_int) -> c_int;
        pub(super) fn lab_udt_receive(socket: c_int, buffer: *mut c_char, room: c_int) -> c_int;
    }
}

#[cfg(has_udt)]
fn run(setup: &super::Setup, meter: &std::sync::Arc<crate::app::Meter>) -> anyhow::Result<()> {
    let buffer = setup.buffer().cast_signed();
    let (ip, port) = super::v4(if setup.is_server() { setup.listen } else { setup.server_address()? })?;
    // SAFETY: plain values in and out.
    let socket = unsafe {
        if setup.is_server() {
            let listener = shim::lab_udt_listen(ip, port, buffer);
            anyhow::ensure!(listener >= 0, "UDT cannot listen");
            setup.hello(&setup.listen.to_string());
            shim::lab_udt_accept(listener)
        } else {
            meter.hand_over();
            shim::lab_udt_connect(ip, port, buffer)
        }
    };
    anyhow::ensure!(socket >= 0, "UDT cannot connect");
    let length = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
    let send = |message: &[u8]| {
        // SAFETY: the bytes are copied.
        unsafe { shim::lab_udt_send(socket, message.as_ptr().cast(), length(message.len())) >= 0 }
    };
    let receive = |buffer: &mut [u8]| {
        // SAFETY: no more than the length of the buffer is written.
        let read = unsafe { shim::lab_udt_receive(socket, buffer.as_mut_ptr().cast(), length(buffer.len())) };
        usize::try_from(read).ok()
    };
    super::blocking::run(crate::app::app(setup.work, setup.role, meter), setup.bytes, send, receive)
}
