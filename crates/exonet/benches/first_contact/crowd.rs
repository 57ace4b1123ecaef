//! Clients that each call once and are never heard of again, whether they say that they go or not.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;

use crate::client::{Client, Clock};
use crate::target::{Failure, Target};

/// How a client ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// With its reply, and no word.
    Silently = 0,
    /// Its node is closed, and has said so.
    Politely = 1,
    /// Every second one with its reply, the others when that is on its way: nothing more is heard of either.
    Suddenly = 2,
}

impl Leaving {
    pub(crate) fn parse(word: &str) -> Result<Self, Failure> {
        let all = [Self::Silently, Self::Politely, Self::Suddenly];
        Ok(*all.get(word.parse::<usize>()?).ok_or("0 to 2")?)
    }
}

/// Lets `clients` call, `at_once` at a time, and says how many datagrams they exchanged. If `per_second` is not 0, they
/// come at that rate, and end with the server.
pub(crate) fn run(
    target: &Target,
    clients: u64,
    at_once: usize,
    per_second: u32,
    leaving: Leaving,
) -> Result<(), Failure> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_nonblocking(true)?;
    let (clock, since) = (Clock::start(), target.worked()?);
    // By the index that each has chosen.
    let mut open: BTreeMap<u32, Client> = BTreeMap::new();
    let polite = leaving == Leaving::Politely;
    let (mut begun, mut datagrams) = (0, 0);
    let mut buffer = Vec::new();
    let mut heard = [0; 2_048];
    while begun < clients || !open.is_empty() {
        let due = if per_second == 0 { clients } else { target.due(since, per_second)?.min(clients) };
        while begun < due && open.len() < at_once {
            let now = clock.now();
            let mut client = Client::new(now, target)?;
            let mut index = 0;
            client.speak(now, &mut buffer, |opening| {
                index = index_at(opening, 4);
                let _ = socket.send_to(opening, target.address);
            });
            open.insert(index, client);
            begun += 1;
        }
        let now = clock.now();
        let mut quiet = true;
        while let Ok((len, from)) = socket.recv_from(&mut heard) {
            quiet = false;
            let datagram = heard.get_mut(..len).unwrap_or_default();
            let index = index_at(datagram, if datagram.first() == Some(&0x14) { 1 } else { 4 });
            if leaving == Leaving::Suddenly && index & 1 == 1 && datagram.first() == Some(&0x12) {
                open.remove(&index);
            }
            let Some(client) = open.get_mut(&index) else { continue };
            client.hear(now, from, datagram);
            client.speak(now, &mut buffer, |datagram| drop(socket.send_to(datagram, target.address)));
            if client.is_done(now, polite) {
                datagrams += client.datagrams;
                open.remove(&index);
            }
        }
        if quiet {
            open.retain(|_, client| {
                client.speak(now, &mut buffer, |datagram| drop(socket.send_to(datagram, target.address)));
                let done = client.is_done(now, polite);
                datagrams += if done { client.datagrams } else { 0 };
                !done
            });
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    println!("{datagrams}");
    Ok(())
}

fn index_at(datagram: &[u8], at: usize) -> u32 {
    let bytes = datagram.get(at..).and_then(|rest| rest.first_chunk());
    bytes.copied().map_or(0, u32::from_be_bytes)
}
