//! A peer that has genuine keys and sends anything.

use core::net::{Ipv4Addr, SocketAddr};

use exonet_proto::crypto::{Initiator, Keys, OPENING_OVERHEAD, Opened, OpeningMac, RetryKey, SecretKey};
use exonet_proto::wire::{
    self, ANSWER_HEADER, Bases, ChannelIndex, Datagram, MAC, MAX_ANSWER, MAX_ANSWER_PAYLOAD,
    MAX_OPENING_PAYLOAD, MIN_OPENING_PAYLOAD, Params, TAG, Writer, answer_header, data_header, expand,
    opening_header,
};
use exonet_proto::{NodeId, Wall};

use crate::speech::{Lore, Say, speak};

/// A channel, from the puppet's end.
struct Channel {
    keys: Keys,
    /// The node's index.
    to: ChannelIndex,
    next: u64,
    newest: Option<u64>,
    bases: Bases,
}

/// An opening that waits for its answer.
struct Begun {
    initiator: Initiator,
    index: ChannelIndex,
    base: u64,
    datagram: Vec<u8>,
}

/// A peer that has genuine keys.
pub(crate) struct Puppet {
    key: SecretKey,
    /// The node that it talks to.
    node: NodeId,
    /// Its first address.
    pub(crate) addr: SocketAddr,
    pub(crate) lore: Lore,
    channel: Option<Channel>,
    begun: Option<Begun>,
    /// The newest opening of the node, which has not been answered.
    pub(crate) asked: Option<Vec<u8>>,
    draws: u64,
}

impl Puppet {
    pub(crate) fn new(key: SecretKey, node: NodeId, host: u8) -> Self {
        let addr = SocketAddr::from((Ipv4Addr::new(10, 0, 0, host), 7_000));
        let lore = Lore { our_s: 1 << 33, ..Lore::default() };
        Self { key, node, addr, lore, channel: None, begun: None, asked: None, draws: 0 }
    }

    pub(crate) fn id(&self) -> NodeId {
        self.key.node_id()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.channel.is_some()
    }

    /// A fresh index and seed, determined by a counter.
    fn draw(&mut self) -> (ChannelIndex, [u8; 32]) {
        self.draws += 1;
        let mut seed = [0x5e; 32];
        seed[..8].copy_from_slice(&self.draws.to_be_bytes());
        seed[8..16].copy_from_slice(&self.key.node_id().0[..8]);
        (ChannelIndex(self.draws as u32), seed)
    }

    /// An opening with these frames, valid in everything else. None: `suite` is unknown.
    pub(crate) fn open(&mut self, suite: u8, base: u64, says: &[Say<'_>]) -> Option<Vec<u8>> {
        let (index, seed) = self.draw();
        let header = opening_header(suite, index);
        let mut initiator = Initiator::new(&self.key, &self.node, &header, seed).ok()?;
        let bases = Bases { sender: base, receiver: 0 };
        let mut payload = introduced(says, &self.lore, bases, MAX_OPENING_PAYLOAD);
        payload.resize(payload.len().max(MIN_OPENING_PAYLOAD), 0);
        let mut datagram = header.to_vec();
        datagram.resize(header.len() + payload.len() + OPENING_OVERHEAD, 0);
        initiator.write_opening(&payload, &mut datagram[header.len()..]).unwrap();
        let mac1 = OpeningMac::new(&self.node).mac1(&datagram);
        datagram.extend_from_slice(&mac1);
        datagram.extend_from_slice(&[0; MAC]);
        self.begun = Some(Begun { initiator, index, base, datagram: datagram.clone() });
        Some(datagram)
    }

    /// The current opening as it stands: after a RETRY, with a cookie.
    pub(crate) fn reopen(&self) -> Option<Vec<u8>> {
        self.begun.as_ref().map(|begun| begun.datagram.clone())
    }

    /// An answer to the node's newest opening, with these frames.
    pub(crate) fn answer(&mut self, base: u64, says: &[Say<'_>]) -> Option<Vec<u8>> {
        let mut opening = self.asked.take()?;
        let (index, seed) = self.draw();
        let Ok(Datagram::Opening(parts)) = Datagram::parse(&mut opening) else { return None };
        let mut room = [0; MAX_OPENING_PAYLOAD];
        let opened = Opened::read(&self.key, parts.header, parts.noise, seed, &mut room).unwrap();
        let len = opened.payload_len();
        let declared = self.lore.learn(&room[..len], Bases::default()).unwrap_or(0);
        let bases = Bases { sender: base, receiver: declared };
        let room = MAX_ANSWER_PAYLOAD - ANSWER_HEADER;
        let payload = introduced(says, &self.lore, bases, room);
        let header = answer_header(parts.suite, parts.index, index);
        let mut noise = [0; MAX_ANSWER];
        let (keys, len) = opened.answer(&header, &payload, &mut noise).unwrap();
        let mut datagram = [&header[..], &noise[..len]].concat();
        datagram.extend_from_slice(&OpeningMac::new(&self.node).mac1(&datagram));
        self.channel = Some(Channel { keys, to: parts.index, next: 0, newest: None, bases });
        Some(datagram)
    }

    /// A RETRY to the node's newest opening, with a cookie of another node.
    pub(crate) fn retry(&self, cookie: &exonet_proto::crypto::Cookie, time: u64) -> Option<Vec<u8>> {
        let mut opening = self.asked.clone()?;
        let Ok(Datagram::Opening(parts)) = Datagram::parse(&mut opening) else { return None };
        let nonce = [time as u8; 24];
        let said = exonet_proto::crypto::Retry { cookie: cookie.clone(), time: Wall(time) };
        let sealed = RetryKey::new(&self.id()).seal(&nonce, &said, parts.mac1);
        Some(wire::retry(parts.index, &nonce, &sealed).to_vec())
    }

    /// A sealed packet with these frames, `skip` numbers after the last.
    pub(crate) fn seal(&mut self, skip: u64, says: &[Say<'_>]) -> Option<Vec<u8>> {
        let channel = self.channel.as_mut()?;
        let payload = speak(says, &self.lore, channel.bases, 1_400);
        let number = channel.next + skip;
        channel.next = number + 1;
        let header = data_header(channel.to, number);
        let mut sealed = payload;
        sealed.resize(sealed.len() + TAG, 0);
        channel.keys.seal.seal_in_place(number, &header, &mut sealed).unwrap();
        Some([&header[..], &sealed].concat())
    }

    /// Handles a datagram of the node.
    pub(crate) fn take(&mut self, mut data: Vec<u8>) {
        let copy = data.clone();
        match Datagram::parse(&mut data).expect("a node writes what it can read") {
            Datagram::Opening(_) => self.asked = Some(copy),
            Datagram::Answer(answer) => self.answered(&answer),
            Datagram::Retry(retry) => self.retried(&retry),
            Datagram::Data(packet) => {
                let Some(channel) = self.channel.as_mut() else { return };
                let number = expand(packet.number, channel.newest);
                let Ok(payload) = channel.keys.open.open_in_place(number, packet.header, packet.sealed)
                else {
                    return;
                };
                channel.newest = channel.newest.max(Some(number));
                self.lore.packet = channel.newest.unwrap_or(0);
                self.lore.learn(payload, channel.bases.reversed());
            }
            Datagram::Reset(_) | Datagram::Version(_) => {}
        }
    }

    fn answered(&mut self, answer: &wire::Answer<'_>) {
        let Some(begun) = self.begun.as_mut().filter(|begun| begun.index == answer.to) else { return };
        let mut room = [0; MAX_ANSWER];
        let Ok((keys, len)) = begun.initiator.read_answer(answer.header, answer.noise, &mut room) else {
            return;
        };
        let base = begun.base;
        let declared = self.lore.learn(&room[..len], Bases { sender: 0, receiver: base }).unwrap_or(0);
        let bases = Bases { sender: base, receiver: declared };
        self.channel = Some(Channel { keys, to: answer.index, next: 0, newest: None, bases });
        self.begun = None;
    }

    fn retried(&mut self, retry: &wire::Retry<'_>) {
        let Some(begun) = self.begun.as_mut() else { return };
        let body = begun.datagram.len() - MAC;
        let mac1 = begun.datagram[body - MAC..body].try_into().unwrap();
        if let Ok(said) = RetryKey::new(&self.node).open(retry.nonce, &mac1, retry.sealed) {
            let mac2 = OpeningMac::mac2(&said.cookie, &begun.datagram[..body]);
            begun.datagram[body..].copy_from_slice(&mac2);
        }
    }
}

/// PARAMS is the first frame of a handshake payload: with the puppet's base, unless `says` begins with something else.
fn introduced(says: &[Say<'_>], lore: &Lore, bases: Bases, room: usize) -> Vec<u8> {
    let mut payload = vec![0; room];
    if matches!(says.first(), Some(Say::Params { .. } | Say::Raw(_))) {
        payload.clear();
    } else {
        let mut writer = Writer::new(&mut payload, bases);
        writer.params(&Params { base: bases.sender, ..Params::default() });
        let len = writer.len();
        payload.truncate(len);
    }
    let room = room - payload.len();
    payload.extend(speak(says, lore, bases, room));
    payload
}
