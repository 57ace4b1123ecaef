//! TCP connections through streams, unnoticed by the client and the server. Each connection has its own stream.
//!
//! ```text
//! python3 -m http.server 8000
//! cargo run --example tunnel -- exit 127.0.0.1:8000                      # prints ID@HOST:PORT
//! cargo run --example tunnel -- entry 127.0.0.1:8080 ID@HOST:PORT
//! curl http://127.0.0.1:8080/
//! ```

use std::error::Error;

use exonet::stream::Stream;
use exonet::{Allow, Node, Peer, PeerAddr};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

const USAGE: &str = "usage: tunnel exit TARGET | tunnel entry LISTEN ID@HOST:PORT";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["exit", target] => exit(target).await,
        ["entry", listen, peer] => entry(listen, peer.parse()?).await,
        _ => Err(USAGE.into()),
    }
}

/// The exit of the tunnel: it opens a connection to the target for each stream.
async fn exit(target: &str) -> Result<(), Box<dyn Error>> {
    // A real program names the identities that it admits.
    let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    println!("{}", node.peer_addr());
    loop {
        let stream = node.accept_stream().await?;
        let target = target.to_owned();
        tokio::spawn(async move {
            match TcpStream::connect(&target).await {
                Ok(connection) => relay(connection, stream).await,
                // The stream is dropped, which ends the client's connection.
                Err(error) => {
                    drop(stream.into_bytes());
                    eprintln!("cannot connect to {target}: {error}");
                }
            }
        });
    }
}

/// The entry of the tunnel: it opens a stream for each connection.
async fn entry(listen: &str, exit: PeerAddr) -> Result<(), Box<dyn Error>> {
    let node = Node::builder(Allow::only([exit.id])).bind("0.0.0.0:0").build().await?;
    let peer: Peer = node.peer(exit);
    let listener = TcpListener::bind(listen).await?;
    println!("listening on {}", listener.local_addr()?);
    for number in 0_u64.. {
        let (connection, _) = listener.accept().await?;
        tokio::spawn(relay(connection, peer.stream(number.to_string())?));
    }
    Ok(())
}

/// Copies in both directions until both have ended. A connection that breaks resets its stream, and vice versa.
async fn relay(mut connection: TcpStream, stream: Stream) {
    let name = stream.name().clone();
    if let Err(error) = copy_bidirectional(&mut connection, &mut stream.into_bytes()).await {
        eprintln!("connection {}: {error}", String::from_utf8_lossy(&name));
        // Resets the TCP connection, so that its other end does not mistake the error for the end of the data.
        let _ = connection.set_zero_linger();
    }
}
