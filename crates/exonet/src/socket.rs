//! The UDP socket: several datagrams per system call, ECN, and the local address that a datagram was sent to.

use core::cell::Cell;
use core::net::{IpAddr, SocketAddr};
use std::io::{self, IoSliceMut};

use exonet_proto::node::{Arrival, Transmit};
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Type};

use self::system::Io;
use crate::sieve::Mesh;
#[cfg(target_os = "linux")]
use crate::sieve::program;

/// The size in bytes that the node requests for the buffer of each direction. The system may grant less.
const BUFFER: usize = 8 << 20;

pub(crate) struct Socket {
    io: Io,
    state: UdpSocketState,
    local: SocketAddr,
}

impl Socket {
    /// Binds a socket to `address`; if that is the unspecified address of IPv6, to both families.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // With larger buffers, fewer datagrams are lost while the machine is busy. With smaller ones, the node is
        // only slower.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), BUFFER);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), BUFFER);
        let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        Ok(Self { io: Io::new(socket)?, state, local })
    }

    pub(crate) const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The largest number of segments that one system call takes.
    pub(crate) fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.io.readable().await
    }

    /// Sets whether arriving datagrams wake tokio. While they do not, no task may wait for
    /// [`readable`](Self::readable), and the driver receives datagrams whenever it looks.
    pub(crate) fn watch(&self, watch: bool) -> io::Result<()> {
        self.io.watch(watch)
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }

    /// Whether the system may fragment datagrams. Then the node must not probe with large ones: they would pass
    /// although the path is narrower.
    pub(crate) fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// Sends a batch. Returns `WouldBlock` if the socket is full, or an error for which [`is_too_large`] is true. Any
    /// other error means that the batch is lost, as on the network.
    pub(crate) fn try_send(&self, transmit: &Transmit, data: &[u8]) -> io::Result<()> {
        let transmit = quinn_udp::Transmit {
            destination: self.to_socket(transmit.remote),
            ecn: EcnCodepoint::from_bits(transmit.ecn),
            contents: data,
            segment_size: (transmit.segment < data.len()).then_some(transmit.segment),
            src_ip: transmit.src_ip.map(|ip| self.ip_to_socket(ip)),
        };
        let sent = self.io.try_write(|io| self.state.try_send(io, &transmit));
        sent.inspect_err(|error| {
            if error.kind() != io::ErrorKind::WouldBlock {
                tracing::debug!(%error, to = %transmit.destination, "sending");
            }
        })
    }

    /// Receives as many datagrams as there are, up to the number of buffers. With `look`, it asks the system even if
    /// tokio has not yet reported any.
    fn try_recv(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
        look: bool,
    ) -> io::Result<usize> {
        let (most, mut received, asked) = (buffers.len(), 0, Cell::new(false));
        let mut receive = |io: UdpSockRef<'_>| {
            asked.set(true);
            received = self.state.recv(io, buffers, metas)?;
            // Fewer datagrams than buffers: the system has no more. Reporting that now saves a second system call. The
            // next datagram makes the socket readable again.
            if received < most { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        };
        let mut tried = self.io.try_read(&mut receive);
        if look && !asked.get() {
            tried = self.io.read_unasked(&mut receive);
        }
        if received > 0 { Ok(received) } else { tried.map(|()| received) }
    }

    /// Makes the system drop the openings that the meshes do not let through: those without a mac2, and those with
    /// one.
    #[cfg(target_os = "linux")]
    pub(crate) fn sift(&self, meshes: [Mesh; 2]) {
        let open = meshes == [Mesh::OPEN; 2];
        let set =
            if open { self.io.get().detach_filter() } else { self.io.get().attach_filter(&program(meshes)) };
        if let Err(error) = set {
            // If this fails, each opening costs a little more.
            tracing::debug!(%error, "sifting openings");
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn sift(&self, _: [Mesh; 2]) {}

    /// A socket of both families takes IPv4 addresses only in mapped form.
    fn to_socket(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V4(v4) => SocketAddr::new(self.ip_to_socket(IpAddr::V4(*v4.ip())), v4.port()),
            // Keeps the scope, which a link-local address needs.
            SocketAddr::V6(_) => address,
        }
    }

    fn ip_to_socket(&self, ip: IpAddr) -> IpAddr {
        match ip {
            IpAddr::V4(v4) if self.local.is_ipv6() => IpAddr::V6(v4.to_ipv6_mapped()),
            ip => ip,
        }
    }
}

/// Whether the error says that a datagram was larger than the first link takes. Then nothing of the batch has left.
pub(crate) fn is_too_large(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    let code = rustix::io::Errno::MSGSIZE.raw_os_error();
    // On other systems, the search for the path MTU learns it from losses.
    #[cfg(not(target_os = "linux"))]
    let code = i32::MIN;
    error.raw_os_error() == Some(code)
}

/// Registered with tokio only for reading. If it were registered for writing, the system would wake the thread after
/// every datagram, to report that there is room again.
#[cfg(unix)]
mod system {
    use std::io;
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    use quinn_udp::UdpSockRef;
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    type Registered = AsyncFd<Arc<socket2::Socket>>;

    pub(super) struct Io {
        socket: Arc<socket2::Socket>,
        /// None: arriving datagrams wake no task.
        watched: Mutex<Option<Arc<Registered>>>,
    }

    impl Io {
        pub(super) fn new(socket: socket2::Socket) -> io::Result<Self> {
            let it = Self { socket: Arc::new(socket), watched: Mutex::new(None) };
            it.watch(true)?;
            Ok(it)
        }

        #[cfg(target_os = "linux")]
        pub(super) fn get(&self) -> &socket2::Socket {
            &self.socket
        }

        fn watched(&self) -> MutexGuard<'_, Option<Arc<Registered>>> {
            self.watched.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(super) fn watch(&self, watch: bool) -> io::Result<()> {
            let mut watched = self.watched();
            if !watch {
                *watched = None;
            } else if watched.is_none() {
                // If something has arrived meanwhile, the registration reports that at once.
                *watched = Some(Arc::new(registered(Arc::clone(&self.socket), Interest::READABLE)?));
            }
            Ok(())
        }

        pub(super) async fn readable(&self) -> io::Result<()> {
            let watched = self.watched().clone();
            match watched {
                Some(watched) => watched.readable().await.map(|mut guard| guard.retain_ready()),
                None => core::future::pending().await,
            }
        }

        /// Waits until there is room to write. Call it only when there was none.
        pub(super) async fn writable(&self) -> io::Result<()> {
            let again = registered(Arc::new(self.socket.try_clone()?), Interest::WRITABLE)?;
            again.writable().await.map(|mut guard| guard.retain_ready())
        }

        pub(super) fn try_read<T>(&self, f: impl FnOnce(UdpSockRef<'_>) -> io::Result<T>) -> io::Result<T> {
            match &*self.watched() {
                Some(watched) => watched.try_io(Interest::READABLE, |socket| f(UdpSockRef::from(&**socket))),
                None => f(UdpSockRef::from(&*self.socket)),
            }
        }

        pub(super) fn read_unasked<T>(
            &self,
            f: impl FnOnce(UdpSockRef<'_>) -> io::Result<T>,
        ) -> io::Result<T> {
            f(UdpSockRef::from(&*self.socket))
        }

        pub(super) fn try_write<T>(&self, f: impl FnOnce(UdpSockRef<'_>) -> io::Result<T>) -> io::Result<T> {
            f(UdpSockRef::from(&*self.socket))
        }
    }

    fn registered(socket: Arc<socket2::Socket>, interest: Interest) -> io::Result<Registered> {
        // tokio deprecates this function because a descriptor may change while it is registered. This one is owned
        // and never changes.
        #[allow(deprecated)]
        AsyncFd::with_interest(socket, interest)
    }
}

#[cfg(not(unix))]
mod system {
    use std::io;

    use quinn_udp::UdpSockRef;
    use tokio::io::Interest;
    use tokio::net::UdpSocket;

    pub(super) struct Io(UdpSocket);

    impl Io {
        pub(super) fn new(socket: socket2::Socket) -> io::Result<Self> {
            UdpSocket::from_std(socket.into()).map(Self)
        }

        /// On this system, arriving datagrams always wake tokio.
        pub(super) fn watch(&self, _: bool) -> io::Result<()> {
            Ok(())
        }

        pub(super) async fn readable(&self) -> io::Result<()> {
            self.0.readable().await
        }

        pub(super) async fn writable(&self) -> io::Result<()> {
            self.0.writable().await
        }

        pub(super) fn try_read<T>(&self, f: impl FnOnce(UdpSockRef<'_>) -> io::Result<T>) -> io::Result<T> {
            self.0.try_io(Interest::READABLE, || f(UdpSockRef::from(&self.0)))
        }

        pub(super) fn read_unasked<T>(
            &self,
            f: impl FnOnce(UdpSockRef<'_>) -> io::Result<T>,
        ) -> io::Result<T> {
            f(UdpSockRef::from(&self.0))
        }

        pub(super) fn try_write<T>(&self, f: impl FnOnce(UdpSockRef<'_>) -> io::Result<T>) -> io::Result<T> {
            self.0.try_io(Interest::WRITABLE, || f(UdpSockRef::from(&self.0)))
        }
    }
}

/// The core uses plain IPv4 addresses, not mapped ones.
fn from_socket(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::new(IpAddr::V4(v4), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// How many buffers one system call fills. Each may hold many datagrams of one sender.
const BUFFERS: usize = 8;

/// The size in bytes of a buffer, for datagrams that the system coalesces.
const BUFFER_LEN: usize = 65_536;

thread_local! {
    static INBOX: Cell<Option<Box<Inbox>>> = const { Cell::new(None) };
}

/// The memory into which a node receives datagrams. All nodes of a thread reuse it: many nodes with little traffic
/// need no memory of their own, and the memory is still in the processor's cache for the next node.
pub(crate) struct Inbox {
    memory: Box<[u8]>,
    metas: [RecvMeta; BUFFERS],
    filled: usize,
}

impl Inbox {
    fn new() -> Self {
        let memory = vec![0; BUFFERS * BUFFER_LEN].into_boxed_slice();
        Self { memory, metas: [RecvMeta::default(); BUFFERS], filled: 0 }
    }

    /// Takes the inbox of this thread. The caller gives it back with [`Self::give_back`].
    pub(crate) fn take() -> Box<Self> {
        INBOX.take().unwrap_or_else(|| Box::new(Self::new()))
    }

    pub(crate) fn give_back(self: Box<Self>) {
        INBOX.set(Some(self));
    }

    /// Receives the datagrams that are there, up to its capacity. With `look`, it does not wait until tokio reports
    /// some. Returns whether there may be more.
    pub(crate) fn fill(&mut self, socket: &Socket, look: bool) -> io::Result<bool> {
        let mut rest = self.memory.chunks_mut(BUFFER_LEN);
        let mut buffers: [IoSliceMut<'_>; BUFFERS] =
            core::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
        self.filled = 0;
        self.filled = socket.try_recv(&mut buffers, &mut self.metas, look)?;
        Ok(self.filled == BUFFERS)
    }

    /// The datagrams that it received.
    pub(crate) fn datagrams(&mut self) -> impl Iterator<Item = (Arrival, &mut [u8])> {
        let filled = self.memory.chunks_mut(BUFFER_LEN).zip(&self.metas).take(self.filled);
        filled.flat_map(|(buffer, meta)| {
            let arrival = Arrival {
                remote: from_socket(meta.addr),
                local_ip: meta.dst_ip.map(|ip| ip.to_canonical()),
                ecn: meta.ecn.map_or(0, |ecn| ecn as u8),
                pipe: None,
            };
            let data = buffer.get_mut(..meta.len).unwrap_or_default();
            data.chunks_mut(meta.stride.max(1)).map(move |datagram| (arrival, datagram))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transmit(remote: SocketAddr, segment: usize, len: usize) -> Transmit {
        Transmit { remote, src_ip: None, ecn: EcnCodepoint::Ect0 as u8, segment, len, pipe: None }
    }

    /// Sends `data` in segments, with one system call for as many as the socket takes. Returns the content of the
    /// datagrams that arrive.
    async fn pass(from: &Socket, to: &Socket, address: SocketAddr, segment: usize, data: &[u8]) -> Vec<u8> {
        let step = segment * from.max_segments().min(65_507 / segment);
        let mut inbox = Inbox::new();
        let mut got = Vec::new();
        for chunk in data.chunks(step) {
            from.writable().await.unwrap();
            from.try_send(&transmit(address, segment, chunk.len()), chunk).unwrap();
            let end = got.len() + chunk.len();
            while got.len() < end {
                to.readable().await.unwrap();
                match inbox.fill(to, false) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    filled => drop(filled.unwrap()),
                }
                for (arrival, datagram) in inbox.datagrams() {
                    let last = got.len() + datagram.len() == data.len();
                    assert!(datagram.len() == segment || last, "{} bytes", datagram.len());
                    assert_eq!(arrival.ecn, EcnCodepoint::Ect0 as u8, "lost on a coalesced receive");
                    assert_eq!(arrival.remote.port(), from.local_addr().port());
                    assert_eq!(arrival.remote.is_ipv4(), address.is_ipv4(), "{}", arrival.remote);
                    assert_eq!(arrival.local_ip, Some(address.ip()));
                    got.extend_from_slice(datagram);
                }
            }
        }
        got
    }

    #[tokio::test]
    async fn segments_come_out_as_they_went_in() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (from, to) = (Socket::bind(any).unwrap(), Socket::bind(any).unwrap());
        let data: Vec<u8> = (0..=255).cycle().take(100_001).collect();
        let got = pass(&from, &to, to.local_addr(), 1_200, &data).await;
        assert!(got == data, "the bytes differ");
    }

    #[tokio::test]
    async fn who_looks_finds_what_the_runtime_has_not_told_yet() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (from, to) = (Socket::bind(any).unwrap(), Socket::bind(any).unwrap());
        let mut inbox = Inbox::new();
        // tokio cannot poll the system before this test awaits something.
        from.try_send(&transmit(to.local_addr(), 5, 5), b"hello").unwrap();
        assert_eq!(inbox.fill(&to, false).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(!inbox.fill(&to, true).unwrap(), "there is no more");
        assert_eq!(inbox.datagrams().count(), 1);
        assert_eq!(inbox.fill(&to, true).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[tokio::test]
    async fn what_comes_while_nobody_watches_is_told_by_looking_and_by_watching_again() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (from, to) = (Socket::bind(any).unwrap(), Socket::bind(any).unwrap());
        let mut inbox = Inbox::new();
        to.watch(false).unwrap();
        for look in [false, true] {
            from.try_send(&transmit(to.local_addr(), 5, 5), b"hello").unwrap();
            assert!(!inbox.fill(&to, look).unwrap());
            assert_eq!(inbox.datagrams().count(), 1);
        }
        from.try_send(&transmit(to.local_addr(), 5, 5), b"hello").unwrap();
        to.watch(true).unwrap();
        to.readable().await.unwrap();
        assert!(!inbox.fill(&to, false).unwrap());
        assert_eq!(inbox.datagrams().count(), 1);
    }

    #[tokio::test]
    async fn a_socket_of_both_families_knows_each_by_its_own_address() {
        let Ok(both) = Socket::bind("[::]:0".parse().unwrap()) else {
            crate::skip::skipped("no IPv6 on this machine");
            return;
        };
        let port = both.local_addr().port();
        for own in ["127.0.0.1:0", "[::1]:0"] {
            let one = Socket::bind(own.parse().unwrap()).unwrap();
            let there = SocketAddr::new(one.local_addr().ip(), port);
            assert_eq!(pass(&one, &both, there, 100, &[1; 950]).await, [1; 950]);
            assert_eq!(pass(&both, &one, one.local_addr(), 100, &[2; 950]).await, [2; 950]);
        }
    }
}
