//! News from the system that the network may be back: an interface is up, or has an address or a route.
//!
//! A node asks for this news once a peer has been silent: then whatever waits for the peer is repeated at once, and not
//! when its next probe is due.

/// The news of this machine's network.
pub(crate) use self::system::Network;

#[cfg(target_os = "linux")]
mod system {
    use core::time::Duration;
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::net::netlink::SocketAddrNetlink;
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::time::{Instant, sleep_until};

    /// Groups of rtnetlink(7): links, addresses and routes of both families.
    const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

    /// How long after its last change the network may be used. What is sent into a link that is not quite up is lost. If that was
    /// the question for a neighbour's address, the system asks again only after a second.
    const SETTLES: Duration = Duration::from_millis(5);

    /// A socket that the system tells of each change. What has changed is not read: any change may be the one.
    pub(crate) struct Network {
        news: AsyncFd<OwnedFd>,
        /// When the last change will have settled.
        settled: Option<Instant>,
    }

    impl Network {
        pub(crate) fn watch() -> io::Result<Self> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            // The protocol 0 is rtnetlink.
            let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
            rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
            // The function is deprecated for descriptors that change while registered; this one is owned and never does.
            #[allow(deprecated)]
            let news = AsyncFd::with_interest(socket, Interest::READABLE)?;
            Ok(Self { news, settled: None })
        }

        /// Waits until a change has settled. Cancel-safe.
        ///
        /// # Errors
        /// There is no more news.
        pub(crate) async fn changed(&mut self) -> io::Result<()> {
            loop {
                let Some(settled) = self.settled else {
                    self.hear().await?;
                    continue;
                };
                tokio::select! {
                    biased;
                    heard = self.hear() => heard?,
                    () = sleep_until(settled) => {
                        self.settled = None;
                        return Ok(());
                    }
                }
            }
        }

        /// Waits for the next change.
        async fn hear(&mut self) -> io::Result<()> {
            let Self { news, settled } = self;
            let heard = news.readable().await?.try_io(|fd| {
                loop {
                    match rustix::net::recv(fd, &mut [0_u8; 16], RecvFlags::TRUNC) {
                        // More came than there was room for.
                        Ok(_) | Err(rustix::io::Errno::NOBUFS) => *settled = Some(Instant::now() + SETTLES),
                        Err(rustix::io::Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            });
            // Err: all was read.
            heard.unwrap_or(Ok(()))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    /// This system is not asked.
    pub(crate) struct Network;

    impl Network {
        pub(crate) fn watch() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) async fn changed(&mut self) -> io::Result<()> {
            core::future::pending().await
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use nix::sched::{CloneFlags, unshare};

    use super::Network;

    #[test]
    fn a_link_that_goes_up_is_told() {
        // A namespace is that of its thread.
        std::thread::spawn(|| {
            if unshare(CloneFlags::CLONE_NEWNET).is_err() {
                return crate::skip::skipped("only root may make networks");
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut network = Network::watch().unwrap();
                for _ in 0..2 {
                    let set = |state| Command::new("ip").args(["link", "set", "lo", state]).status().unwrap();
                    assert!(set("up").success());
                    let told = tokio::time::timeout(Duration::from_secs(60), network.changed());
                    told.await.expect("this hangs").unwrap();
                    assert!(set("down").success());
                }
            });
        })
        .join()
        .unwrap();
    }
}
