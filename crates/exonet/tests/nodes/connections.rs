//! Packets over connections of every kind: through proxies, in TLS, in a WebSocket, in a pipe.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{builder, exchange, within};
use exonet::carrier::{Connection, Dialler, Dialling, LookUp, Proxy, Tls, TlsServer};
use exonet::{Carrier, Node, Outcome, PeerAddr};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy_bidirectional, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::{WebSocketStream, accept_async, client_async};

/// The address types of SOCKS5 requests.
const IPV4: u8 = 1;
const NAME: u8 = 3;
/// The capacity of a pipe, in bytes.
const PIPE: usize = 16_384;

/// Exchanges messages of several sizes in both directions, over a connection.
async fn talk(client: &Node, server: &Node) {
    exchange(client, server, &[0, 1_000, 300_000]).await;
    assert!(client.peer(server.id()).stats().unwrap().piped);
}

async fn node(dialler: impl Dialler) -> Node {
    builder().carrier(Carrier::Tcp).dialler(dialler).build().await.unwrap()
}

async fn server() -> Node {
    builder().carrier(Carrier::Tcp).build().await.unwrap()
}

/// How many connections a proxy has let through, and how many it has refused.
#[derive(Default)]
struct Counts {
    passed: AtomicUsize,
    refused: AtomicUsize,
}

async fn next(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

/// The suffix of names that only a proxy knows: they lead to this machine.
const KNOWN: &str = ".invalid";

/// An HTTP proxy that supports CONNECT, and may require a password.
async fn http_proxy(password: Option<&'static str>) -> (SocketAddr, Arc<Counts>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, counts) = (listener.local_addr().unwrap(), Arc::<Counts>::default());
    let counted = Arc::clone(&counts);
    tokio::spawn(async move {
        loop {
            let mut near = next(&listener).await;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(near.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            if password
                .is_some_and(|password| !head.contains(&format!("Proxy-Authorization: Basic {password}\r\n")))
            {
                counted.refused.fetch_add(1, Ordering::Relaxed);
                let _ = near.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
                continue;
            }
            let target = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
            let (host, port) = target.rsplit_once(':').unwrap();
            let target = if host.ends_with(KNOWN) { format!("127.0.0.1:{port}") } else { target.to_owned() };
            let mut far = TcpStream::connect(target).await.unwrap();
            near.write_all(b"HTTP/1.1 200 OK\r\nVia: test\r\n\r\n").await.unwrap();
            counted.passed.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
        }
    });
    (address, counts)
}

/// A SOCKS5 proxy without a password (RFC 1928), for IPv4 or for names, which lead to this machine.
async fn socks_proxy(kind: u8) -> (SocketAddr, Arc<Counts>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, counts) = (listener.local_addr().unwrap(), Arc::<Counts>::default());
    let counted = Arc::clone(&counts);
    tokio::spawn(async move {
        loop {
            let mut near = next(&listener).await;
            let mut hello = [0; 3];
            near.read_exact(&mut hello).await.unwrap();
            assert_eq!(hello, [5, 1, 0]);
            near.write_all(&[5, 0]).await.unwrap();
            let mut ask = [0; 4];
            near.read_exact(&mut ask).await.unwrap();
            assert_eq!(ask, [5, 1, 0, kind]);
            let length = if kind == NAME { near.read_u8().await.unwrap().into() } else { 4 };
            let mut host = vec![0; length];
            near.read_exact(&mut host).await.unwrap();
            let ip = <[u8; 4]>::try_from(host).ok().filter(|_| kind == IPV4).unwrap_or([127, 0, 0, 1]);
            let port = near.read_u16().await.unwrap();
            let mut far = TcpStream::connect((std::net::Ipv4Addr::from(ip), port)).await.unwrap();
            near.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
            counted.passed.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
        }
    });
    (address, counts)
}

fn proxy(text: &str) -> Proxy {
    text.parse().unwrap()
}

#[tokio::test]
async fn packets_go_through_an_http_proxy() {
    within(async {
        let ((at, counts), server) = (http_proxy(None).await, server().await);
        talk(&node(proxy(&format!("http://{at}"))).await, &server).await;
        assert_eq!(counts.passed.load(Ordering::Relaxed), 1);
    })
    .await;
}

/// Sends a message to a peer whose address is a name, through this proxy.
async fn by_name(proxy_at: &str, host: &str) {
    let (client, server) = (node(proxy(proxy_at)).await, server().await);
    let peer = PeerAddr::new(server.id(), [format!("{host}:{}", server.local_addr().port())]).unwrap();
    let receipt = client.peer(peer).send("by name").await.unwrap();
    server.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
}

#[tokio::test]
async fn a_proxy_looks_up_names_that_the_system_does_not_know() {
    within(async {
        let ((http, socks), name) = ((http_proxy(None).await, socks_proxy(NAME).await), "far.invalid");
        by_name(&format!("http://{}", http.0), name).await;
        by_name(&format!("socks5://{}", socks.0), name).await;
        for counts in [http.1, socks.1] {
            assert_eq!(counts.passed.load(Ordering::Relaxed), 1);
        }
    })
    .await;
}

/// The system knows the name, and the client resolves it or not, depending on the proxy's URL.
#[tokio::test]
async fn a_proxy_looks_up_all_names_on_request() {
    within(async {
        for (scheme, kind) in [("socks5h", NAME), ("socks5", IPV4)] {
            let (at, counts) = socks_proxy(kind).await;
            by_name(&format!("{scheme}://{at}"), "localhost").await;
            assert_eq!(counts.passed.load(Ordering::Relaxed), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn packets_go_in_tls_by_a_name_that_a_proxy_looks_up() {
    within(async {
        let (at, counts) = socks_proxy(NAME).await;
        let tls = Tls::new().unwrap().over(proxy(&format!("socks5h://{at}")));
        let server =
            builder().carrier(Carrier::Tcp).tls(TlsServer::self_signed().unwrap()).build().await.unwrap();
        let (client, name) = (node(tls).await, format!("localhost:{}", server.local_addr().port()));
        let peer = PeerAddr::new(server.id(), [name]).unwrap();
        let receipt = client.peer(peer).send("by name").await.unwrap();
        server.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        assert_eq!(counts.passed.load(Ordering::Relaxed), 1);
    })
    .await;
}

/// Datagrams do not go through a proxy, and so need a real address.
#[tokio::test]
async fn the_system_looks_up_names_where_there_are_no_connections() {
    within(async {
        let client = builder().dialler(proxy("socks5h://127.0.0.1:9")).build().await.unwrap();
        let server = builder().build().await.unwrap();
        let name = format!("localhost:{}", server.local_addr().port());
        let peer = PeerAddr::new(server.id(), [name]).unwrap();
        let receipt = client.peer(peer).send("by name").await.unwrap();
        server.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    })
    .await;
}

/// A placeholder address that a former process used for a name has no meaning in this one.
#[tokio::test]
async fn an_address_that_stands_for_a_name_is_never_connected_to() {
    within(async {
        let (at, counts) = http_proxy(None).await;
        let before = proxy(&format!("http://{at}"));
        let LookUp::HereFirst(stands) = before.look_up("far.invalid:1") else { panic!() };
        let error = proxy(&format!("http://{at}")).dial(stands).await.unwrap_err().to_string();
        assert!(error.contains("ID@HOST:PORT"), "{error}");
        assert_eq!(counts.passed.load(Ordering::Relaxed), 0);
    })
    .await;
}

#[tokio::test]
async fn packets_go_through_a_socks_proxy() {
    within(async {
        let ((at, counts), server) = (socks_proxy(IPV4).await, server().await);
        talk(&node(proxy(&format!("socks5://{at}"))).await, &server).await;
        assert_eq!(counts.passed.load(Ordering::Relaxed), 1);
    })
    .await;
}

#[tokio::test]
async fn a_proxy_that_wants_a_password_gets_it_and_says_when_it_does_not() {
    within(async {
        // aladdin:opensesame
        let ((at, counts), server) = (http_proxy(Some("YWxhZGRpbjpvcGVuc2VzYW1l")).await, server().await);
        let without = proxy(&format!("http://{at}")).dial(server.local_addr()).await.unwrap_err().to_string();
        assert!(without.contains(&at.to_string()) && without.contains("NAME:PASSWORD"), "{without}");
        let wrong =
            proxy(&format!("http://a:guess@{at}")).dial(server.local_addr()).await.unwrap_err().to_string();
        assert!(!wrong.contains("guess"), "{wrong}");
        assert_eq!(counts.refused.load(Ordering::Relaxed), 2);
        talk(&node(proxy(&format!("http://aladdin:opensesame@{at}"))).await, &server).await;
    })
    .await;
}

#[tokio::test]
async fn a_proxy_that_is_not_there_or_speaks_something_else_is_named() {
    within(async {
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let error = proxy(&format!("http://{gone}")).dial(gone).await.unwrap_err().to_string();
        assert!(error.contains(&gone.to_string()) && error.contains("cannot be reached"), "{error}");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for answer in [&b"SSH-2.0-x\r\n\r\n"[..], &[b'x'; 20_000]] {
                let mut stream = next(&listener).await;
                let _ = stream.write_all(answer).await;
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        });
        let error = proxy(&format!("http://{at}")).dial(gone).await.unwrap_err().to_string();
        assert!(error.contains("SSH-2.0-x"), "{error}");
        let error = proxy(&format!("http://{at}")).dial(gone).await.unwrap_err().to_string();
        assert!(error.contains("no end"), "{error}");
    })
    .await;
}

/// One port takes both kinds of connections, and tells them apart.
#[tokio::test]
async fn packets_go_in_tls_beside_others_at_the_same_port() {
    within(async {
        let server =
            builder().carrier(Carrier::Tcp).tls(TlsServer::self_signed().unwrap()).build().await.unwrap();
        let tls = Tls::new().unwrap().server_name("example.org").unwrap();
        talk(&node(tls).await, &server).await;
        talk(&node(exonet::carrier::Tcp).await, &server).await;
    })
    .await;
}

#[tokio::test]
async fn packets_go_in_tls_through_a_proxy() {
    within(async {
        let (at, counts) = http_proxy(None).await;
        let server =
            builder().carrier(Carrier::Tcp).tls(TlsServer::self_signed().unwrap()).build().await.unwrap();
        talk(&node(Tls::new().unwrap().over(proxy(&format!("http://{at}")))).await, &server).await;
        assert_eq!(counts.passed.load(Ordering::Relaxed), 1);
    })
    .await;
}

#[tokio::test]
async fn where_authorities_are_given_no_other_certificate_will_do() {
    within(async {
        let made = rcgen::generate_simple_self_signed([String::from("chat.example")]).unwrap();
        let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let own = TlsServer::from_pem(pem.as_bytes(), key.as_bytes()).unwrap();
        let server = builder().carrier(Carrier::Tcp).tls(own).build().await.unwrap();
        let other =
            builder().carrier(Carrier::Tcp).tls(TlsServer::self_signed().unwrap()).build().await.unwrap();
        let tls =
            || Tls::new().unwrap().authorities(pem.as_bytes()).unwrap().server_name("chat.example").unwrap();
        let error = tls().dial(other.local_addr()).await.unwrap_err().to_string();
        assert!(error.contains("certificate"), "{error}");
        talk(&node(tls()).await, &server).await;
        assert!(Tls::new().unwrap().authorities(b"nothing").is_err());
        assert!(TlsServer::from_pem(pem.as_bytes(), b"nothing").is_err());
    })
    .await;
}

/// Each connection is a pipe, whose other end is handed to the server in the process.
#[derive(Debug)]
struct Piped(mpsc::UnboundedSender<DuplexStream>);

impl Dialler for Piped {
    fn dial(&self, _: SocketAddr) -> Dialling<'_> {
        Box::pin(async {
            let (near, far) = duplex(PIPE);
            self.0.send(far).map_err(std::io::Error::other)?;
            Ok(Connection::new(near))
        })
    }
}

#[tokio::test]
async fn packets_go_through_pipes_and_outlive_each() {
    within(async {
        let (dials, mut dialled) = mpsc::unbounded_channel();
        let (client, server) = (node(Piped(dials)).await, Arc::new(server().await));
        let takes = Arc::clone(&server);
        let count = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&count);
        // Each pipe except for the last ones carries some bytes, and then breaks.
        tokio::spawn(async move {
            while let Some(mut far) = dialled.recv().await {
                let (mut near, end) = duplex(PIPE);
                takes.take_connection(Connection::new(end), ([127, 0, 0, 1], 9).into()).unwrap();
                let breaks = counted.fetch_add(1, Ordering::Relaxed) < 3;
                tokio::spawn(async move {
                    if breaks {
                        let (mut reads, mut writes) = tokio::io::split(far);
                        let (mut back, mut there) = tokio::io::split(near);
                        let out = async { tokio::io::copy(&mut (&mut reads).take(50_000), &mut there).await };
                        let home = tokio::io::copy(&mut back, &mut writes);
                        tokio::select! { _ = out => {}, _ = home => {} }
                    } else {
                        let _ = copy_bidirectional(&mut far, &mut near).await;
                    }
                });
            }
        });
        talk(&client, &server).await;
        assert!(count.load(Ordering::Relaxed) > 3, "no pipe broke");
    })
    .await;
}

/// Carries the bytes of `stream` as messages of a WebSocket, and back.
async fn in_frames(socket: WebSocketStream<TcpStream>, stream: DuplexStream) {
    let (mut out, mut back) = socket.split();
    let (mut reads, mut writes) = tokio::io::split(stream);
    let there = async {
        let mut buffer = vec![0; PIPE];
        while let Ok(count @ 1..) = reads.read(&mut buffer).await {
            if out.send(Frame::binary(buffer[..count].to_vec())).await.is_err() {
                break;
            }
        }
    };
    let home = async {
        while let Some(Ok(frame)) = back.next().await {
            if frame.is_binary() && writes.write_all(&frame.into_data()).await.is_err() {
                break;
            }
        }
    };
    tokio::select! { () = there => {}, () = home => {} }
}

/// Each connection is a WebSocket, to a web server that hands it to the node.
#[derive(Debug)]
struct Web(SocketAddr);

impl Dialler for Web {
    fn dial(&self, _: SocketAddr) -> Dialling<'_> {
        Box::pin(async {
            let stream = TcpStream::connect(self.0).await?;
            let (socket, _) =
                client_async("ws://exonet.example/", stream).await.map_err(std::io::Error::other)?;
            let (near, far) = duplex(PIPE);
            tokio::spawn(in_frames(socket, far));
            Ok(Connection::new(near))
        })
    }
}

#[tokio::test]
async fn packets_go_in_a_websocket() {
    within(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (web, server) = (listener.local_addr().unwrap(), Arc::new(server().await));
        let takes = Arc::clone(&server);
        tokio::spawn(async move {
            let (stream, remote) = listener.accept().await.unwrap();
            let socket = accept_async(stream).await.unwrap();
            let (near, far) = duplex(PIPE);
            takes.take_connection(Connection::new(near), remote).unwrap();
            in_frames(socket, far).await;
        });
        talk(&node(Web(web)).await, &server).await;
    })
    .await;
}

#[tokio::test]
async fn a_node_that_has_ended_takes_no_connection() {
    within(async {
        let server = server().await;
        let other = server.clone();
        server.close(std::time::Duration::ZERO).await;
        let (near, _far) = duplex(PIPE);
        assert!(other.take_connection(Connection::new(near), ([127, 0, 0, 1], 9).into()).is_err());
    })
    .await;
}
