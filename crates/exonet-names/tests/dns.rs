//! Names in DNS, as a server of a few lines gives them.
#![cfg(feature = "dns")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on has failed"
)]

mod common;

use std::net::{SocketAddr, UdpSocket};

use exonet::naming::{Expect, Naming, NamingError};
use exonet::{Allow, Node, Outcome};
use exonet_names::DnsNames;

use crate::common::{key, name, record};

const TXT: u16 = 16;
const SRV: u16 = 33;

/// A name in the form of DNS.
fn labels(name: &str) -> Vec<u8> {
    let parts =
        name.split('.').flat_map(|label| [vec![label.len() as u8], label.as_bytes().to_vec()].concat());
    parts.chain([0]).collect()
}

/// Answers questions about one name: with its records, or that there is no such name.
fn serve(full: &str, id: &str, port: u16) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (address, full) = (socket.local_addr().unwrap(), labels(full));
    let text = format!("id={id}");
    let txt = [vec![text.len() as u8], text.into_bytes()].concat();
    let srv = [&[0, 0, 0, 0][..], &port.to_be_bytes(), &labels("localhost")].concat();
    std::thread::spawn(move || {
        let mut datagram = [0; 1_500];
        while let Ok((len, from)) = socket.recv_from(&mut datagram) {
            let end = 12 + datagram[12..len].iter().position(|byte| *byte == 0).unwrap() + 5;
            let question = &datagram[12..end];
            let kind = u16::from_be_bytes([question[question.len() - 4], question[question.len() - 3]]);
            let asked = question[..question.len() - 4].to_ascii_lowercase();
            let answer = match kind {
                TXT if asked == full => Some(&txt),
                SRV if asked == full => Some(&srv),
                _ => None,
            };
            let code = if asked == full { 0x80 } else { 0x83 };
            let mut told =
                [&datagram[..2], &[0x81, code, 0, 1, 0, u8::from(answer.is_some()), 0, 0, 0, 0]].concat();
            told.extend_from_slice(question);
            if let Some(answer) = answer {
                told.extend_from_slice(&[0xc0, 12]);
                told.extend_from_slice(&kind.to_be_bytes());
                told.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
                told.extend_from_slice(&(answer.len() as u16).to_be_bytes());
                told.extend_from_slice(answer);
            }
            socket.send_to(&told, from).unwrap();
        }
    });
    address
}

#[tokio::test]
async fn a_service_is_found_by_its_records() {
    let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
    let port = bob.local_addr().port();
    let server = serve("_exonet._udp.chat.example.org", &bob.id().to_string(), port);
    let names = DnsNames::at("example.org", server).unwrap();
    let found = names.look_up(&name("chat")).await.unwrap().unwrap();
    assert_eq!(found.record.peer.to_string(), format!("{}@localhost:{port}", bob.id()));
    assert_eq!(names.look_up(&name("other")).await, Ok(None));

    let alice =
        Node::builder(Allow::anyone()).bind("127.0.0.1:0").naming(names.clone()).build().await.unwrap();
    let receipt = alice.named(&name("chat")).await.unwrap().send("hello").await.unwrap();
    bob.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);

    let refused = Err(NamingError::NoAuthority("DNS"));
    assert_eq!(names.bind(&name("chat"), &record(key(1).node_id(), 1, 0), Expect::Unbound).await, refused);
}

#[tokio::test]
async fn a_record_that_is_wrong_is_named() {
    let server = serve("_exonet._udp.chat.example.org", "nobody", 1);
    let names = DnsNames::at("example.org.", server).unwrap();
    let error = names.look_up(&name("chat")).await.unwrap_err();
    assert!(matches!(&error, NamingError::Damaged(why) if why.contains("chat")), "{error}");
}
