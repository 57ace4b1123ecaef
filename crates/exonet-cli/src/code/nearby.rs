//! Finds an offer on the local network, with datagrams to a multicast group that travel at most one hop.
//!
//! A question has a tag that is derived from the number of the code, never from its words. An answer is no longer
//! than the question, so that nothing is amplified. It has the address at which the asker reaches the sender.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket as Plain};
use std::time::Duration;

use exonet::{NodeId, PeerAddr};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::time::Instant;

/// The destination of questions: an organization-local group, at the port after that of listeners.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 39, 67);
const PORT: u16 = 3967;

const ASKS: &[u8] = b"exon code 1?";
const SAYS: &[u8] = b"exon code 1!";
const TAG: usize = 8;
const HEAD: usize = ASKS.len() + 2 * TAG;
/// The length of a question in bytes, and the maximum length of an answer.
const LENGTH: usize = 512;
/// The number of answers that may be sent at once, and the number of further answers per second.
const BURST: u32 = 20;
const PER_SECOND: u32 = 10;
/// The pause between questions, doubled from the first value to the last.
const AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));

/// The addresses of this machine that others may reach: those of its interfaces, or the loopback address if there is
/// no other.
pub(crate) fn addresses() -> Vec<IpAddr> {
    let all = interfaces();
    let usable = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_link_local() && !ip.is_loopback(),
        // A link-local address does not name its link.
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    let mut usable: Vec<_> = all.into_iter().filter(usable).collect();
    if usable.is_empty() {
        usable.push(Ipv4Addr::LOCALHOST.into());
    }
    usable.truncate(8);
    usable
}

fn interfaces() -> Vec<IpAddr> {
    if_addrs::get_if_addrs().unwrap_or_default().into_iter().map(|interface| interface.ip()).collect()
}

/// The addresses of the interfaces that send and receive questions.
fn ways() -> Vec<Ipv4Addr> {
    let of = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    };
    let mut ways: Vec<_> = interfaces().into_iter().filter_map(of).take(32).collect();
    if !ways.contains(&Ipv4Addr::LOCALHOST) {
        ways.push(Ipv4Addr::LOCALHOST);
    }
    ways
}

fn tag(number: u16) -> [u8; TAG] {
    let key = blake3::derive_key("exonet codes 1: the tag of a number", &number.to_be_bytes());
    let mut tag = [0; TAG];
    tag.iter_mut().zip(key).for_each(|(to, from)| *to = from);
    tag
}

fn socket(bind: SocketAddrV4) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    // Several offers may wait on one machine.
    socket.set_reuse_address(true)?;
    socket.set_multicast_ttl_v4(1)?;
    // Answers do not leave the network either.
    socket.set_ttl_v4(1)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::V4(bind).into())?;
    Ok(socket)
}

fn to_tokio(socket: Socket) -> io::Result<UdpSocket> {
    UdpSocket::from_std(Plain::from(socket))
}

/// Answers questions about one number.
pub(crate) struct Answering {
    socket: UdpSocket,
    tag: [u8; TAG],
    id: NodeId,
    port: u16,
    left: u32,
    since: Instant,
}

impl Answering {
    /// Answers for the node of this id, which listens at `local`.
    pub(crate) fn new(number: u16, id: NodeId, local: SocketAddr) -> io::Result<Self> {
        let socket = socket(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT))?;
        let joined = ways().iter().filter(|way| socket.join_multicast_v4(&GROUP, way).is_ok()).count();
        if joined == 0 {
            return Err(io::Error::other("no interface sends multicast datagrams"));
        }
        let since = Instant::now();
        Ok(Self { socket: to_tokio(socket)?, tag: tag(number), id, port: local.port(), left: BURST, since })
    }

    /// Answers questions. Never returns.
    pub(crate) async fn run(mut self) {
        let mut buffer = [0; LENGTH + 1];
        loop {
            let Ok((len, from)) = self.socket.recv_from(&mut buffer).await else {
                // For example, an earlier answer was undeliverable.
                tokio::time::sleep(AGAIN.0).await;
                continue;
            };
            let question = buffer.get(..len).unwrap_or_default();
            if let Some(answer) = self.answer(question, from)
                && self.may_answer()
            {
                // If this fails, the asker asks again.
                let _ = self.socket.send_to(&answer, from).await;
            }
        }
    }

    fn answer(&self, question: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
        let nonce = read(question, ASKS, &self.tag)?.get(..TAG)?;
        if question.len() != LENGTH {
            return None;
        }
        let ip = toward(from)?;
        let peer = PeerAddr::new(self.id, [SocketAddr::new(ip, self.port).to_string()]).ok()?;
        let answer = [SAYS, &self.tag, nonce, peer.to_string().as_bytes()].concat();
        (answer.len() <= LENGTH).then_some(answer)
    }

    /// A token bucket of answers.
    fn may_answer(&mut self) -> bool {
        let now = Instant::now();
        let seconds = u32::try_from(now.duration_since(self.since).as_secs()).unwrap_or(u32::MAX);
        if seconds > 0 {
            self.left = self.left.saturating_add(seconds.saturating_mul(PER_SECOND)).min(BURST);
            self.since = now;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

/// The rest of a datagram after its kind and tag.
fn read<'a>(datagram: &'a [u8], kind: &[u8], tag: &[u8; TAG]) -> Option<&'a [u8]> {
    datagram.strip_prefix(kind)?.strip_prefix(tag.as_slice())
}

/// The address of this machine on the route to `other`. Nothing is sent.
fn toward(other: SocketAddr) -> Option<IpAddr> {
    let socket = Plain::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(other).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
}

/// Asks for the offer of one number.
pub(crate) struct Asking {
    sockets: Vec<UdpSocket>,
    tag: [u8; TAG],
    nonce: [u8; TAG],
    pause: Duration,
    next: Instant,
}

impl Asking {
    pub(crate) fn new(number: u16) -> io::Result<Self> {
        let open = |way: Ipv4Addr| {
            let socket = socket(SocketAddrV4::new(way, 0))?;
            socket.set_multicast_if_v4(&way)?;
            to_tokio(socket)
        };
        let mut failed = io::Error::other("there is no interface");
        let mut sockets = Vec::new();
        for way in ways() {
            match open(way) {
                Ok(socket) => sockets.push(socket),
                Err(error) => failed = error,
            }
        }
        if sockets.is_empty() {
            return Err(failed);
        }
        let mut nonce = [0; TAG];
        super::random(&mut nonce).map_err(|failure| io::Error::other(failure.to_string()))?;
        Ok(Self { sockets, tag: tag(number), nonce, pause: AGAIN.0, next: Instant::now() })
    }

    /// Waits for the next answer, without a time limit. Cancel-safe.
    pub(crate) async fn next(&mut self) -> PeerAddr {
        loop {
            if Instant::now() >= self.next {
                self.ask();
                self.next = Instant::now() + self.pause;
                self.pause = (self.pause * 2).min(AGAIN.1);
            }
            let mut buffers = vec![[0; LENGTH + 1]; self.sockets.len()];
            let receiving = self.sockets.iter().zip(&mut buffers).map(|(socket, buffer)| {
                Box::pin(async move {
                    match socket.recv_from(buffer).await {
                        Ok((len, _)) => buffer.get(..len).unwrap_or_default().to_vec(),
                        // The error may be temporary.
                        Err(_) => {
                            tokio::time::sleep(AGAIN.0).await;
                            Vec::new()
                        }
                    }
                })
            });
            tokio::select! {
                (datagram, ..) = futures_util::future::select_all(receiving) => {
                    if let Some(peer) = self.candidate(&datagram) {
                        return peer;
                    }
                }
                () = tokio::time::sleep_until(self.next) => {}
            }
        }
    }

    fn ask(&self) {
        let mut question = [ASKS, &self.tag, &self.nonce].concat();
        question.resize(LENGTH, 0);
        for socket in &self.sockets {
            // If one interface fails, the others may work.
            let _ = socket.try_send_to(&question, SocketAddr::from((GROUP, PORT)));
        }
    }

    /// Parses an answer. Its content is not trusted.
    fn candidate(&self, datagram: &[u8]) -> Option<PeerAddr> {
        if datagram.len() > LENGTH || datagram.len() < HEAD {
            return None;
        }
        let text = read(datagram, SAYS, &self.tag)?.strip_prefix(self.nonce.as_slice())?;
        let (_, address) = std::str::from_utf8(text).ok()?.split_once('@')?;
        // Names are not accepted, since they would be looked up.
        address.parse::<SocketAddr>().ok()?;
        std::str::from_utf8(text).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tag_is_of_one_number() {
        assert_eq!(tag(7), tag(7));
        assert_ne!(tag(7), tag(8));
    }

    #[tokio::test]
    async fn an_answer_names_what_the_asker_reaches_and_is_no_longer_than_the_question() {
        let id = NodeId([7; 32]);
        let Ok(answering) = Answering::new(1_007, id, "[::]:4000".parse().unwrap()) else { return };
        let asking = Asking::new(1_007).unwrap();
        let mut question = [ASKS, &asking.tag, &asking.nonce].concat();
        let from = "127.0.0.1:9".parse().unwrap();
        assert_eq!(answering.answer(&question, from), None, "a short question gets no answer");
        question.resize(LENGTH, 0);
        let answer = answering.answer(&question, from).unwrap();
        assert!(answer.len() <= question.len());
        assert_eq!(asking.candidate(&answer).unwrap().to_string(), format!("{id}@127.0.0.1:4000"));
        let other = Asking::new(1_007).unwrap();
        assert_eq!(other.candidate(&answer), None, "another question has another nonce");
        question[ASKS.len()] ^= 1;
        assert_eq!(answering.answer(&question, from), None, "another number");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_bounded() {
        let Ok(mut answering) = Answering::new(1_008, NodeId([7; 32]), "[::]:4000".parse().unwrap()) else {
            return;
        };
        let given = |answering: &mut Answering| (0..1_000).filter(|_| answering.may_answer()).count();
        assert_eq!(given(&mut answering), 20);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(given(&mut answering), 10);
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!(given(&mut answering), 20);
    }

    #[tokio::test]
    async fn names_in_an_answer_are_not_looked_up() {
        let asking = Asking::new(1_009).unwrap();
        let id = NodeId([7; 32]);
        for text in [format!("{id}@evil.example:80"), id.to_string(), format!("{id}@name:x"), "@".to_owned()]
        {
            let answer = [SAYS, &asking.tag, &asking.nonce, text.as_bytes()].concat();
            assert_eq!(asking.candidate(&answer), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_upset_the_reader(bytes: Vec<u8>) {
            let _ = read(&bytes, ASKS, &tag(7));
        }
    }
}
