//! A peer with its own key that breaks the rules of the protocol.

use core::fmt;

use exonet_proto::crypto::{self, Cookie, Initiator, Keys, Opened, OpeningMac, RetryKey, SecretKey, Suite};
use exonet_proto::wire::{
    self, Answer, Bases, ChannelIndex, Claim, Datagram, Frame, Frames, Opening, Params, Retry, Writer,
};
use exonet_proto::{Incarnation, NodeId, Slot};

use crate::Dice;

const SUITE: Suite = Suite::Aes128Gcm;

/// Attacks nodes through a channel of its own. It opens the channel with a valid key, and then seals any frames. It
/// acknowledges, retransmits and accepts nothing unless the test tells it to.
pub struct Impostor {
    key: SecretKey,
    dice: Dice,
    victim: NodeId,
    opening: Option<Begun>,
    channel: Option<Channel>,
    cookie: Option<Cookie>,
    /// The largest payload of its packets.
    pub room: usize,
}

/// An opening in progress.
struct Begun {
    initiator: Initiator,
    index: ChannelIndex,
    base: u64,
    /// The datagram without mac2.
    datagram: Vec<u8>,
    mac1: [u8; crypto::MAC_LEN],
}

/// An established channel.
struct Channel {
    keys: Keys,
    index: ChannelIndex,
    remote: ChannelIndex,
    bases: Bases,
    next: u64,
    newest: Option<u64>,
}

/// The claim of a live record, as the impostor receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The bounds of the claim.
    pub claim: Claim,
    /// How many free ranges the claim has.
    pub ranges: u64,
}

/// A frame of the victim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// ACK up to this number.
    Ack(u64),
    /// PATH_CHALLENGE.
    Challenge([u8; 8]),
    /// PATH_RESPONSE.
    Response([u8; 8]),
    /// STATE.
    State(Incarnation, Incarnation, Option<Claimed>),
    /// ASK.
    Ask(wire::Ask),
    /// A message, or part of one.
    Token(Incarnation, Slot),
    /// CLOSE.
    Close,
    /// Another frame.
    Other,
}

impl fmt::Debug for Impostor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Impostor({})", self.id())
    }
}

impl Impostor {
    /// An attacker of `victim` with a key from the dice.
    pub fn new(victim: NodeId, dice: &mut Dice) -> Self {
        Self::with_key(victim, dice.bytes(), dice)
    }

    /// Like [`Impostor::new`], with a key that another node may have too.
    pub fn with_key(victim: NodeId, key: [u8; 32], dice: &mut Dice) -> Self {
        let seed = u64::from_be_bytes(dice.bytes());
        Self {
            key: SecretKey::from_bytes(key),
            dice: Dice::new(seed),
            victim,
            opening: None,
            channel: None,
            cookie: None,
            room: 1_400,
        }
    }

    /// The impostor's id.
    pub fn id(&self) -> NodeId {
        self.key.node_id()
    }

    /// The node that it attacks.
    pub fn victim(&self) -> NodeId {
        self.victim
    }

    /// Whether a channel is established.
    pub fn is_connected(&self) -> bool {
        self.channel.is_some()
    }

    /// Whether it has a cookie from a RETRY, which goes into the openings that follow.
    pub fn has_cookie(&self) -> bool {
        self.cookie.is_some()
    }

    /// The bases of the frames that it sends on its channel.
    pub fn bases(&self) -> Bases {
        self.channel.as_ref().map_or(Bases::default(), |channel| channel.bases)
    }

    // --- openings ---

    /// Makes a new opening, with PARAMS and what `fill` writes. None: the victim's id is not a valid key.
    pub fn open(&mut self, params: Params, fill: impl FnOnce(&mut Writer<'_>)) -> Option<Vec<u8>> {
        let index = ChannelIndex(u32::from_be_bytes(self.dice.bytes()));
        let header = wire::opening_header(SUITE.as_u8(), index);
        let mut initiator = Initiator::new(&self.key, &self.victim, &header, self.dice.bytes()).ok()?;
        let mut payload = [0; wire::MIN_OPENING_PAYLOAD];
        let mut writer = Writer::new(&mut payload, Bases { sender: params.base, receiver: 0 });
        writer.params(&params);
        fill(&mut writer);
        let mut datagram = header.to_vec();
        datagram.resize(header.len() + payload.len() + crypto::OPENING_OVERHEAD, 0);
        initiator.write_opening(&payload, datagram.get_mut(header.len()..)?).ok()?;
        let mac1 = OpeningMac::new(&self.victim).mac1(&datagram);
        datagram.extend(mac1);
        self.opening = Some(Begun { initiator, index, base: params.base, datagram, mac1 });
        self.again()
    }

    /// Returns the current opening once more, with the cookie if there is one.
    pub fn again(&self) -> Option<Vec<u8>> {
        let begun = self.opening.as_ref()?;
        let mac2 = self.cookie.as_ref().map_or([0; 16], |cookie| OpeningMac::mac2(cookie, &begun.datagram));
        Some([begun.datagram.as_slice(), &mac2].concat())
    }

    /// Answers an opening that the victim has sent. The channel is established at once.
    pub fn answer(
        &mut self,
        opening: &Opening<'_>,
        params: Params,
        fill: impl FnOnce(&mut Writer<'_>),
    ) -> Option<Vec<u8>> {
        let mut payload = [0; wire::MAX_OPENING_PAYLOAD];
        let seed = self.dice.bytes();
        let opened = Opened::read(&self.key, opening.header, opening.noise, seed, &mut payload).ok()?;
        let theirs = params_of(payload.get(..opened.payload_len())?)?;
        let bases = Bases { sender: params.base, receiver: theirs.base };
        let index = ChannelIndex(u32::from_be_bytes(self.dice.bytes()));
        let header = wire::answer_header(opened.suite().as_u8(), opening.index, index);
        let mut frames = [0; 1_000];
        let mut writer = Writer::new(&mut frames, bases);
        writer.params(&params);
        fill(&mut writer);
        let len = writer.len();
        let mut datagram = header.to_vec();
        datagram.resize(header.len() + len + crypto::ANSWER_OVERHEAD, 0);
        let noise = datagram.get_mut(header.len()..)?;
        let (keys, _) = opened.answer(&header, frames.get(..len)?, noise).ok()?;
        let mac1 = OpeningMac::new(&self.victim).mac1(&datagram);
        datagram.extend(mac1);
        self.channel = Some(Channel { keys, index, remote: opening.index, bases, next: 0, newest: None });
        Some(datagram)
    }

    // --- receiving ---

    /// Handles a datagram of the victim: keeps a cookie, establishes the channel by an ANSWER, or reads a packet.
    pub fn hear(&mut self, datagram: &[u8]) -> Vec<Said> {
        let mut datagram = datagram.to_vec();
        match Datagram::parse(&mut datagram) {
            Ok(Datagram::Retry(retry)) => self.on_retry(&retry),
            Ok(Datagram::Answer(answer)) => return self.on_answer(&answer).unwrap_or_default(),
            Ok(Datagram::Data(packet)) => return self.on_packet(packet).unwrap_or_default(),
            _ => {}
        }
        Vec::new()
    }

    fn on_retry(&mut self, retry: &Retry<'_>) {
        let Some(begun) = self.opening.as_ref().filter(|begun| begun.index == retry.to) else { return };
        let key = RetryKey::new(&self.victim);
        if let Ok(retry) = key.open(retry.nonce, &begun.mac1, retry.sealed) {
            self.cookie = Some(retry.cookie);
        }
    }

    fn on_answer(&mut self, answer: &Answer<'_>) -> Option<Vec<Said>> {
        let begun = self.opening.as_mut().filter(|begun| begun.index == answer.to)?;
        let mut payload = [0; wire::MAX_ANSWER];
        let (keys, len) = begun.initiator.read_answer(answer.header, answer.noise, &mut payload).ok()?;
        let payload = payload.get(..len)?;
        let bases = Bases { sender: begun.base, receiver: params_of(payload)?.base };
        let (index, remote) = (begun.index, answer.index);
        self.channel = Some(Channel { keys, index, remote, bases, next: 0, newest: None });
        self.opening = None;
        Some(said(payload, bases.reversed()))
    }

    fn on_packet(&mut self, packet: wire::Data<'_>) -> Option<Vec<Said>> {
        let channel = self.channel.as_mut().filter(|channel| channel.index == packet.index)?;
        let number = wire::expand(packet.number, channel.newest);
        let payload = channel.keys.open.open_in_place(number, packet.header, packet.sealed).ok()?;
        channel.newest = channel.newest.max(Some(number));
        Some(said(payload, channel.bases.reversed()))
    }

    /// The newest packet number that it has received.
    pub fn newest(&self) -> Option<u64> {
        self.channel.as_ref()?.newest
    }

    // --- sending ---

    /// Makes a packet with the frames that `fill` writes. None: there is no channel.
    pub fn packet(&mut self, fill: impl FnOnce(&mut Writer<'_>)) -> Option<Vec<u8>> {
        let mut payload = vec![0; self.room];
        let mut writer = Writer::new(&mut payload, self.bases());
        fill(&mut writer);
        let len = writer.len();
        payload.truncate(len);
        self.packet_of(&payload)
    }

    /// Makes a packet with this payload.
    pub fn packet_of(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let channel = self.channel.as_mut()?;
        let header = wire::data_header(channel.remote, channel.next);
        let mut packet = [header.as_slice(), payload, &[0; wire::TAG]].concat();
        let sealed = packet.get_mut(header.len()..)?;
        channel.keys.seal.seal_in_place(channel.next, &header, sealed).ok()?;
        channel.next += 1;
        Some(packet)
    }

    /// Skips packet numbers.
    pub fn skip_numbers(&mut self, numbers: u64) {
        if let Some(channel) = &mut self.channel {
            channel.next += numbers;
        }
    }

    /// A random number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.dice.below(n)
    }
}

/// The PARAMS of a handshake message, where it is the first frame.
fn params_of(payload: &[u8]) -> Option<Params> {
    match Frames::new(payload, Bases::default()).next() {
        Some(Ok(Frame::Params(params))) => Some(params),
        _ => None,
    }
}

fn said(payload: &[u8], bases: Bases) -> Vec<Said> {
    let heard = Frames::new(payload, bases).map_while(Result::ok).map(|frame| match frame {
        Frame::Ack(ack) => Said::Ack(ack.largest),
        Frame::PathChallenge(data) => Said::Challenge(data),
        Frame::PathResponse(data) => Said::Response(data),
        Frame::State(state) => {
            let claimed = |claim| Claimed { claim, ranges: state.free.remaining() };
            Said::State(state.b, state.r, state.live.map(claimed))
        }
        Frame::Ask(ask) => Said::Ask(ask),
        Frame::Messages(messages) => Said::Token(messages.r, messages.begin()),
        Frame::Close { .. } => Said::Close,
        _ => Said::Other,
    });
    heard.collect()
}
