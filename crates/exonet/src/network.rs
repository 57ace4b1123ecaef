//! News from the system that the network may be back: an interface is up, or has an address or a route.
//!
//! A node asks for this news once a peer has been silent, or the node opens a connection: the system does not say how
//! long a connection waits before it repeats something. After such news the node repeats whatever waits for the peer at
//! once, and does not wait for the next probe.

/// The news about this machine's network.
pub(crate) use self::system::Network;

#[cfg(target_os = "linux")]
mod system {
    use core::time::Duration;
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::io::Errno;
    use rustix::net::netlink::SocketAddrNetlink;
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::time::{Instant, sleep_until};

    /// Groups of rtnetlink(7): links, addresses and routes of both families.
    const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

    /// How long after the last change the network counts as usable, and how long after the first change at most. What
    /// a node sends into a link that is not quite up is lost. If that was the system's question for a neighbour's
    /// address, the system asks again only after a second.
    const SETTLES: Duration = Duration::from_millis(5);
    const SETTLED: Duration = Duration::from_millis(50);

    /// The least time between two reports: some machines change their interfaces all the time.
    const PACE: Duration = Duration::from_millis(250);

    /// How many notices of the system are read at once.
    const READS: usize = 64;

    /// The length in bytes of the headers of a notice: that of netlink(7), and that of a link.
    const HEADERS: usize = 32;

    /// A socket to which the system reports each change.
    pub(crate) struct Network {
        news: AsyncFd<OwnedFd>,
        /// When the first change since the last report was, and when the network will have settled.
        change: Option<(Instant, Instant)>,
        /// Before then, nothing is reported.
        next: Instant,
    }

    /// Whether a notice that begins with `news` reports a new address, a new route, or a link that is running.
    pub(super) fn is_good(news: &[u8]) -> bool {
        let kind = news.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
        let flags = news.get(24..28).and_then(|flags| flags.try_into().ok()).map(u32::from_ne_bytes);
        match kind {
            // RTM_NEWLINK, with IFF_RUNNING.
            Some(16) => flags.is_some_and(|flags| flags & 0x40 != 0),
            // RTM_NEWADDR and RTM_NEWROUTE.
            Some(20 | 24) => true,
            _ => false,
        }
    }

    impl Network {
        pub(crate) fn watch() -> io::Result<Self> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            // Protocol 0 of netlink is rtnetlink.
            let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
            rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
            // tokio deprecates this function because a descriptor may change while it is registered. This one is
            // owned and never changes.
            #[allow(deprecated)]
            let news = AsyncFd::with_interest(socket, Interest::READABLE)?;
            Ok(Self { news, change: None, next: Instant::now() })
        }

        /// Waits until a change has settled. Cancel-safe.
        ///
        /// # Errors
        /// The system gives no more notices.
        pub(crate) async fn changed(&mut self) -> io::Result<()> {
            loop {
                let Some((_, settled)) = self.change else {
                    self.hear().await?;
                    continue;
                };
                let settled = settled.max(self.next);
                tokio::select! {
                    biased;
                    heard = self.hear() => heard?,
                    () = sleep_until(settled) => {
                        (self.change, self.next) = (None, Instant::now() + PACE);
                        return Ok(());
                    }
                }
            }
        }

        /// Waits until the system has sent notices, and reads them.
        async fn hear(&mut self) -> io::Result<()> {
            let Self { news, change, .. } = self;
            let mut ready = news.readable().await?;
            for _ in 0..READS {
                let mut headers = [0_u8; HEADERS];
                let read = ready.try_io(|fd| Ok(rustix::net::recv(fd, &mut headers, RecvFlags::TRUNC)?));
                let good = match read {
                    // All notices are read.
                    Err(_) => return Ok(()),
                    Ok(Ok(_)) => is_good(&headers),
                    Ok(Err(error)) => match Errno::from_io_error(&error) {
                        // The system dropped notices, since there were more than the socket had room for.
                        Some(Errno::NOBUFS) => true,
                        Some(Errno::INTR) => false,
                        _ => return Err(error),
                    },
                };
                if good {
                    let now = Instant::now();
                    let (first, _) = change.unwrap_or((now, now));
                    *change = Some((first, (now + SETTLES).min(first + SETTLED)));
                }
            }
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    /// On this system, the node does not ask for such news.
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
    use super::system::is_good;

    #[test]
    fn only_what_is_there_is_good_news() {
        let news = |kind: u16, flags: u32| {
            let mut news = [0; 32];
            news[4..6].copy_from_slice(&kind.to_ne_bytes());
            news[24..28].copy_from_slice(&flags.to_ne_bytes());
            is_good(&news)
        };
        // A link that runs, a link that is up without a carrier, and a link that goes; addresses and routes that come
        // and go.
        assert_eq!(
            [(16, 0x41), (16, 0x1), (17, 0x41)].map(|(kind, flags)| news(kind, flags)),
            [true, false, false]
        );
        assert_eq!([20, 21, 24, 25].map(|kind| news(kind, 0)), [true, false, true, false]);
        assert!(!is_good(&[]));
    }

    #[test]
    fn a_link_that_goes_up_is_told() {
        // A network namespace belongs to a thread.
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
