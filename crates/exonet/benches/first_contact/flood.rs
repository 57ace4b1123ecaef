//! Openings from addresses that nobody answers at. Of twenty, sixteen have a true mac1 over garbage, which takes two
//! Diffie-Hellmans to see; two are openings like any others, each of another key; two are garbage throughout.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use exonet_proto::crypto::OpeningMac;

use crate::client::{Client, Clock};
use crate::target::{Failure, Target};

const KINDS: u64 = 20;
const TRUE: usize = 2_000;
const ADDRESSES: u8 = 64;

/// Sends `per_second`, until the server is gone.
pub(crate) fn run(target: &Target, per_second: u32) -> Result<(), Failure> {
    let address = |i| UdpSocket::bind((Ipv4Addr::new(127, 9, i, 1), 0));
    let sockets: Vec<UdpSocket> = (0..ADDRESSES).map(address).collect::<Result<_, _>>()?;
    let (clock, mac) = (Clock::start(), OpeningMac::new(&target.id));
    let mut openings = Vec::new();
    for _ in 0..TRUE {
        let now = clock.now();
        let mut client = Client::new(now, target)?;
        client.speak(now, &mut Vec::new(), |opening| openings.push(opening.to_vec()));
    }
    let mut forged = openings.first().ok_or("no opening")?.clone();
    let mut garbage = vec![0; forged.len()];
    getrandom::fill(&mut garbage)?;
    println!("ready");
    let (since, mut sent) = (target.worked()?, 0_u64);
    loop {
        let due = target.due(since, per_second)?;
        for i in sent..due {
            let datagram = match i % KINDS {
                0 | 1 => openings.get(usize::try_from(i)? % TRUE).ok_or("no opening")?,
                2 | 3 => {
                    garbage
                        .iter_mut()
                        .zip(i.to_be_bytes())
                        .for_each(|(to, byte)| *to = to.wrapping_add(byte));
                    &garbage
                }
                _ => forge(&mut forged, i, &mac),
            };
            let socket = sockets.get(usize::try_from(i)? % sockets.len()).ok_or("no socket")?;
            let _ = socket.send_to(datagram, target.address);
        }
        sent = due;
        // As seldom as it takes: the friends need the other processors.
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Behind the keys, where it shows only after two Diffie-Hellmans.
fn forge<'a>(opening: &'a mut [u8], i: u64, mac: &OpeningMac) -> &'a [u8] {
    let body = opening.len().saturating_sub(32);
    if let Some((text, macs)) = opening.split_at_mut_checked(body) {
        text.iter_mut().skip(100).zip(i.to_be_bytes()).for_each(|(to, byte)| *to = byte);
        macs.iter_mut().zip(mac.mac1(text)).for_each(|(to, byte)| *to = byte);
    }
    opening
}
