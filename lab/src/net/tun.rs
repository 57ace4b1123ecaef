//! A TUN interface: IP packets in and out by read and write.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result};
use nix::errno::Errno;

nix::ioctl_write_int!(set_interface, b'T', 202);

/// One end of an emulated link. It belongs to the namespace of the thread that opened it.
pub(crate) struct Tun {
    file: File,
}

impl Tun {
    /// Makes the interface `name` in the namespace of this thread.
    ///
    /// No offloads: the kernel cuts what it sends into packets of the MTU before they come here.
    pub(crate) fn open(name: &str) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .context("cannot open /dev/net/tun")?;
        // SAFETY: all fields of `ifreq` are integers, byte arrays or pointers, for which zero is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_TUN | libc::IFF_NO_PI)?;
        let pointer = std::ptr::from_ref(&request) as libc::c_ulong;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call.
        unsafe { set_interface(file.as_raw_fd(), pointer) }.context("cannot make a TUN interface")?;
        Ok(Self { file })
    }

    /// The next packet that the kernel sends, if there is one; returns its length.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match nix::unistd::read(&self.file, buffer) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands a packet to the kernel. False: it took none.
    pub(crate) fn write(&self, packet: &[u8]) -> bool {
        nix::unistd::write(&self.file, packet).is_ok()
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
