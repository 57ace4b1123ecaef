//! The attacker: one thread that seals and sends as fast as it can, many packets to a system call.

use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use exonet::PeerAddr;
use exonet_proto::wire::{Ask, Params};
use exonet_proto::{MAX_NUMBER, Slot, Stamp};
use exonet_sim::Dice;
use exonet_sim::hostile::{Impostor, Raw, Said};
use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};

use crate::Failure;
use crate::attack::{ALL, Attack, ROOM, SLOTS};
use crate::victim::address;

/// Packets to a system call.
const TRAIN: u64 = 32;
/// Who hears nothing for so long opens another channel.
const SILENCE: Duration = Duration::from_millis(300);

pub(crate) fn run(victim: &PeerAddr, attack: usize) -> Result<(), Failure> {
    let attack = ALL.get(attack).ok_or("no such attack")?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address(victim)?)?;
    socket.set_nonblocking(true)?;
    let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
    let mut dice = Dice::new(u64::from(std::process::id()));
    let key = dice.bytes();
    loop {
        let mut foe = Impostor::with_key(victim.id, key, &mut dice);
        foe.room = ROOM;
        attack_until_silent(attack, &socket, &state, &mut foe, address(victim)?)?;
    }
}

fn attack_until_silent(
    attack: &Attack,
    socket: &UdpSocket,
    state: &UdpSocketState,
    foe: &mut Impostor,
    to: std::net::SocketAddr,
) -> Result<(), Failure> {
    let opening = foe.open(Params::default(), |writer| {
        writer.ask(Ask { s: Slot(0), n: SLOTS, l: Slot(0), ts: Stamp::NONE });
    });
    socket.send(&opening.unwrap_or_default())?;
    let (begun, mut r) = (Instant::now(), 0);
    while !foe.is_connected() && begun.elapsed() < SILENCE {
        hear(socket, foe, |said, bases| {
            if let Said::State(_, live, Some(_)) = said {
                r = live.0.wrapping_sub(bases) & MAX_NUMBER;
            }
        })?;
    }
    if !foe.is_connected() {
        return Ok(());
    }
    let (mut heard, mut n, mut train) = (Instant::now(), 0, Vec::new());
    while heard.elapsed() < SILENCE {
        let newest = foe.newest().unwrap_or(0);
        train.clear();
        for i in n..n + TRAIN {
            let mut payload = (attack.fill)(r, i, newest);
            let corrupt = payload.is_empty();
            payload.resize(ROOM, 0);
            let mut packet = foe.packet_of(&payload).unwrap_or_default();
            if let Some(last) = packet.last_mut().filter(|_| corrupt && i > 0) {
                *last ^= 1;
            }
            train.extend(packet);
        }
        let (first, contents) = (n == 0, &train);
        n += TRAIN;
        let size = contents.len() / usize::try_from(TRAIN)?;
        let all = Transmit { destination: to, ecn: None, contents, segment_size: Some(size), src_ip: None };
        match state.try_send(UdpSockRef::from(socket), &all) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            sent => sent?,
        }
        if first || n % (TRAIN * 64) == 0 {
            let newest = foe.newest();
            hear(socket, foe, |_, _| heard = Instant::now())?;
            // All that came is acknowledged, so that the channel is kept.
            if let Some(largest) = foe.newest().filter(|_| newest != foe.newest()) {
                let ack = Raw::default().bytes(&[2, 0]).numbers(&[largest, 0, 0, 0, largest]).0;
                socket.send(&foe.packet_of(&ack).unwrap_or_default()).ok();
            }
        }
    }
    Ok(())
}

/// Reads all that is there.
fn hear(socket: &UdpSocket, foe: &mut Impostor, mut say: impl FnMut(Said, u64)) -> Result<(), Failure> {
    let mut buffer = [0; 65_536];
    loop {
        match socket.recv(&mut buffer) {
            Ok(len) => {
                for said in foe.hear(buffer.get(..len).unwrap_or_default()) {
                    say(said, foe.bases().receiver);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
