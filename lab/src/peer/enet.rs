//! ENet: reliable packets over UDP, for games.

use super::{Peer, one_connection};

pub(super) const PEERS: &[Peer] = &[Peer {
    name: "enet",
    label: "ENet",
    tuning: "reliable packets over 32 channels in turn, socket buffers of 4 MiB; not encrypted",
    reliable: true,
    cannot: one_connection,
    missing,
    run,
}];

#[cfg(not(has_enet))]
use super::absent as run;

#[cfg(not(has_enet))]
fn missing() -> Option<String> {
    Some("built without libenet (Debian: libenet-dev)".into())
}

#[cfg(has_enet)]
use super::nothing_missing as missing;

#[cfg(has_enet)]
mod shim {
    use std::ffi::c_int;

    #[repr(C)]
    pub(super) struct Host {
        _opaque: [u8; 0],
    }

    unsafe extern "C" {
        pub(super) fn lab_enet_open(
            ip: u32,
            port: u16,
            remote: u32,
            remote_port: u16,
            channels: usize,
        ) -> *mut Host;
        pub(super) fn lab_enet_service(host: *mut Host, wait: u32, buffer: *mut u8, room: usize) -> c_int;
        pub(super) fn lab_enet_send(host: *mut Host, channel: u8, data: *const u8, length: usize) -> c_int;
        pub(super) fn lab_enet_under_way(host: *const Host) -> usize;
    }
}

#[cfg(has_enet)]
fn run(setup: &super::Setup, meter: &std::sync::Arc<crate::app::Meter>) -> anyhow::Result<()> {
    use anyhow::{Context, bail};

    const CHANNELS: u8 = 32;
    /// ENet looks through all that is queued again and again.
    const MOST: usize = 4_096;
    let (local, remote) = if setup.is_server() {
        (super::v4(setup.listen)?, (0, 0))
    } else {
        ((0, 0), super::v4(setup.server_address()?)?)
    };
    meter.hand_over();
    // SAFETY: plain values in; the pointer is checked, and is used by this thread alone.
    let host = unsafe { shim::lab_enet_open(local.0, local.1, remote.0, remote.1, CHANNELS.into()) };
    if host.is_null() {
        bail!("ENet cannot make a host");
    }
    if setup.is_server() {
        setup.hello(&setup.listen.to_string());
    }
    let most = (setup.buffer() as usize / setup.bytes.max(1)).min(MOST);
    let mut app = crate::app::app(setup.work, setup.role, meter);
    let (mut message, mut buffer) = (vec![0x5a; setup.bytes], vec![0; 1 << 16]);
    let (mut connected, mut channel) = (false, 0);
    loop {
        // SAFETY: the host is alive.
        while connected && unsafe { shim::lab_enet_under_way(host) } < most && app.next(&mut message) {
            // SAFETY: the host is alive and connected, and the bytes are copied.
            let sent = unsafe { shim::lab_enet_send(host, channel, message.as_ptr(), message.len()) };
            if sent != 0 {
                bail!("ENet cannot send");
            }
            channel = (channel + 1) % CHANNELS;
        }
        let mut wait = 1;
        loop {
            // SAFETY: the host is alive, and writes no more than the length of the buffer.
            let event = unsafe { shim::lab_enet_service(host, wait, buffer.as_mut_ptr(), buffer.len()) };
            match event {
                0 => break,
                -1 => connected = true,
                -2 => bail!("the other end is gone"),
                length => {
                    let length = usize::try_from(length).ok().context("ENet cannot receive")?;
                    app.take(buffer.get(..length).unwrap_or_default());
                }
            }
            wait = 0;
        }
    }
}
