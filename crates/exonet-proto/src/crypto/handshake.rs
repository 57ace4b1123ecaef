//! The handshake: Noise_IK_25519_ChaChaPoly_BLAKE2s, one message each way, frames in both.
//!
//! Contract: `Initiator::new` → `write_opening` once → `read_answer` until it succeeds, once. At the other end `Opened::read` →
//! `answer`, which consumes it. A seed serves one handshake. A written message is sent again byte for byte; other content needs
//! another `Initiator` and another seed.
//!
//! Noise's messages have no associated data, so the clear header of an opening is in the prologue, and the clear
//! header of an answer is repeated at the head of the encrypted payload, where the initiator compares it.

use snow::params::NoiseParams;
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use super::resolver::Resolver;
use super::{OpenKey, SealKey, SecretKey, Suite, UnknownSuite};
use crate::NodeId;

/// Bytes of the clear header of an opening; the second is the suite.
pub const OPENING_HEADER_LEN: usize = 8;
/// Bytes of the clear header of an answer.
pub const ANSWER_HEADER_LEN: usize = 12;
/// How many bytes an opening's Noise message is longer than its payload: ephemeral key, static key and its tag, tag.
pub const OPENING_OVERHEAD: usize = 32 + 48 + 16;
/// How many bytes an answer's Noise message is longer than its payload: ephemeral key, copy of the clear header, tag.
pub const ANSWER_OVERHEAD: usize = 32 + ANSWER_HEADER_LEN + 16;

const NOISE: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
const PROTOCOL: &[u8; 8] = b"exonet/1";
/// The longest message that Noise allows.
const MAX_MESSAGE: usize = 65_535;

/// Why a handshake message was not written or not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The message is too short or too long to be a handshake message.
    #[error("not a handshake message")]
    Malformed,
    /// The message is not from its claimed sender, not for this handshake, or was changed on the way, including its clear header.
    #[error("handshake message not authentic")]
    Unauthentic,
    /// A public key of low order, or not in the only form that a node id has.
    #[error("a public key of the handshake is weak")]
    WeakKey,
    /// The opening asks for a suite that this version does not know.
    #[error(transparent)]
    UnknownSuite(#[from] UnknownSuite),
    /// The output buffer is too small: at least the payload and the overhead when writing, the message less its
    /// overhead when reading.
    #[error("no room for a handshake message")]
    NoRoom,
    /// Called a second time, or before its turn.
    #[error("handshake step out of order")]
    OutOfOrder,
}

impl From<snow::Error> for HandshakeError {
    fn from(error: snow::Error) -> Self {
        match error {
            snow::Error::Decrypt => Self::Unauthentic,
            snow::Error::Dh => Self::WeakKey,
            snow::Error::Input => Self::Malformed,
            _ => Self::OutOfOrder,
        }
    }
}

/// The result of a completed handshake: a key for each direction.
#[derive(Debug)]
pub struct Keys {
    /// Seals the packets that this end sends.
    pub seal: SealKey,
    /// Opens the packets that the other end sends.
    pub open: OpenKey,
    /// The handshake hash: the same at both ends, different in every handshake. It is not secret. It binds what is said inside
    /// the channel to this channel (RFC 5929's purpose).
    pub binding: [u8; 32],
}

impl Keys {
    fn split(noise: &mut HandshakeState, suite: Suite) -> Result<Self, HandshakeError> {
        let binding = *noise.get_handshake_hash().first_chunk().ok_or(HandshakeError::OutOfOrder)?;
        let (first, second) = noise.dangerously_get_raw_split();
        let (first, second) = (Zeroizing::new(first), Zeroizing::new(second));
        // Noise, section 5.2: the first key is for the packets of the initiator.
        let (ours, theirs) = if noise.is_initiator() { (first, second) } else { (second, first) };
        Ok(Self { seal: SealKey::new(suite, &ours), open: OpenKey::new(suite, &theirs), binding })
    }
}

/// The end that opens a channel.
#[derive(Debug)]
pub struct Initiator {
    noise: Box<HandshakeState>,
    suite: Suite,
    received: Option<Received>,
    done: bool,
}

/// An answer that Noise found authentic. Noise can do this only once. The clear header around it may still have been changed on
/// the way; then the same message comes again with its true header.
struct Received {
    message: Box<[u8]>,
    plain: Zeroizing<Vec<u8>>,
}

impl core::fmt::Debug for Received {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Received(..)")
    }
}

impl Initiator {
    /// A handshake of `local` with `remote`, whose opening has the clear `header`. `seed` is fresh randomness.
    ///
    /// # Errors
    /// [`HandshakeError::UnknownSuite`] if the second byte of `header` names no suite.
    pub fn new(
        local: &SecretKey,
        remote: &NodeId,
        header: &[u8; OPENING_HEADER_LEN],
        seed: [u8; 32],
    ) -> Result<Self, HandshakeError> {
        let suite = suite_of(header)?;
        let noise = builder(local, seed)?
            .prologue(&prologue(header))?
            .local_private_key(local.expose())?
            .remote_public_key(&remote.0)?
            .build_initiator()?;
        Ok(Self { noise: Box::new(noise), suite, received: None, done: false })
    }

    /// Writes the Noise message of the opening, [`OPENING_OVERHEAD`] bytes longer than `payload`, to the start of
    /// `out`, and returns its length. Once.
    ///
    /// The payload is encrypted to the receiver's long-term key: a later thief of that key can read it.
    ///
    /// # Errors
    /// [`HandshakeError::WeakKey`] if the remote id is not a usable key; `NoRoom`; `OutOfOrder` the second time.
    pub fn write_opening(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, HandshakeError> {
        check_room(payload.len(), OPENING_OVERHEAD, out.len())?;
        Ok(self.noise.write_message(payload, out)?)
    }

    /// Reads the Noise message of an answer that came with the clear `header`, writes its payload to the start of
    /// `payload_out`, and returns the keys and the payload's length. Succeeds once.
    ///
    /// # Errors
    /// `Malformed`, `Unauthentic` and `WeakKey` mean that this was not the answer: anyone can forge one, so the initiator stays
    /// ready for the true one. After `NoRoom`, the call may be repeated with more room.
    pub fn read_answer(
        &mut self,
        header: &[u8; ANSWER_HEADER_LEN],
        noise_message: &[u8],
        payload_out: &mut [u8],
    ) -> Result<(Keys, usize), HandshakeError> {
        if self.done {
            return Err(HandshakeError::OutOfOrder);
        }
        if self.received.is_none() {
            self.received = Some(receive(&mut self.noise, noise_message)?);
        }
        let received = self.received.as_ref().filter(|received| *received.message == *noise_message);
        let plain = &received.ok_or(HandshakeError::Unauthentic)?.plain;
        let (inner, payload) = plain.split_first_chunk().ok_or(HandshakeError::Malformed)?;
        if inner != header {
            return Err(HandshakeError::Unauthentic);
        }
        let room = payload_out.get_mut(..payload.len()).ok_or(HandshakeError::NoRoom)?;
        room.copy_from_slice(payload);
        let keys = Keys::split(&mut self.noise, self.suite)?;
        // A second pair of the same keys would count packets from zero again.
        self.done = true;
        Ok((keys, room.len()))
    }

    /// The payload of an authentic answer, for a test that shows what is on the way. The answer can still be read.
    #[cfg(test)]
    pub(crate) fn peek(&mut self, noise_message: &[u8]) -> Vec<u8> {
        if self.received.is_none() {
            self.received = receive(&mut self.noise, noise_message).ok();
        }
        let plain = self.received.as_ref().map(|received| &received.plain[ANSWER_HEADER_LEN..]);
        plain.unwrap_or_default().to_vec()
    }
}

fn receive(noise: &mut HandshakeState, message: &[u8]) -> Result<Received, HandshakeError> {
    let length = payload_len(message, ANSWER_OVERHEAD)?.saturating_add(ANSWER_HEADER_LEN);
    let mut plain = Zeroizing::new(vec![0; length]);
    let length = noise.read_message(message, &mut plain)?;
    plain.truncate(length);
    Ok(Received { message: message.into(), plain })
}

/// An opening that was read and found authentic, ready to be answered.
///
/// *Authentic* does not mean *fresh*: anyone can send a copy of it again, at any time.
#[derive(Debug)]
pub struct Opened {
    noise: Box<HandshakeState>,
    suite: Suite,
    peer: NodeId,
    payload_len: usize,
}

impl Opened {
    /// Reads the Noise message of an opening that came with the clear `header`; its payload goes to the start of
    /// `payload_out`. `seed`, fresh randomness, is for the answer.
    ///
    /// # Errors
    /// Any except `OutOfOrder`. None of them changes anything.
    pub fn read(
        local: &SecretKey,
        header: &[u8; OPENING_HEADER_LEN],
        noise_message: &[u8],
        seed: [u8; 32],
        payload_out: &mut [u8],
    ) -> Result<Self, HandshakeError> {
        let suite = suite_of(header)?;
        if payload_out.len() < payload_len(noise_message, OPENING_OVERHEAD)? {
            return Err(HandshakeError::NoRoom);
        }
        let mut noise = builder(local, seed)?
            .prologue(&prologue(header))?
            .local_private_key(local.expose())?
            .build_responder()?;
        let payload_len = noise.read_message(noise_message, payload_out)?;
        let peer = noise.get_remote_static().and_then(|key| key.first_chunk());
        let peer = NodeId(*peer.ok_or(HandshakeError::OutOfOrder)?);
        Ok(Self { noise: Box::new(noise), suite, peer, payload_len })
    }

    /// The sender of the opening.
    pub fn peer(&self) -> NodeId {
        self.peer
    }

    /// The suite that the opening asked for, and that the keys will have.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// How many bytes of payload the opening bore.
    pub fn payload_len(&self) -> usize {
        self.payload_len
    }

    /// Writes the Noise message of the answer, [`ANSWER_OVERHEAD`] bytes longer than `payload`, to the start of
    /// `out`, and returns the keys and its length. It will travel behind the clear `header`.
    ///
    /// # Errors
    /// [`HandshakeError::NoRoom`]. The opening can then be read again.
    pub fn answer(
        mut self,
        header: &[u8; ANSWER_HEADER_LEN],
        payload: &[u8],
        out: &mut [u8],
    ) -> Result<(Keys, usize), HandshakeError> {
        check_room(payload.len(), ANSWER_OVERHEAD, out.len())?;
        let plain = Zeroizing::new([header.as_slice(), payload].concat());
        let length = self.noise.write_message(&plain, out)?;
        let keys = Keys::split(&mut self.noise, self.suite)?;
        Ok((keys, length))
    }
}

fn builder<'a>(local: &SecretKey, seed: [u8; 32]) -> Result<Builder<'a>, HandshakeError> {
    let params: NoiseParams = NOISE.parse()?;
    Ok(Builder::with_resolver(params, Box::new(Resolver::new(seed, local.private()))))
}

fn suite_of(header: &[u8; OPENING_HEADER_LEN]) -> Result<Suite, UnknownSuite> {
    let [_, suite, ..] = *header;
    Suite::from_u8(suite)
}

fn prologue(header: &[u8; OPENING_HEADER_LEN]) -> [u8; 16] {
    let mut prologue = [0; 16];
    let parts = PROTOCOL.iter().chain(header);
    prologue.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
    prologue
}

fn check_room(payload: usize, overhead: usize, room: usize) -> Result<(), HandshakeError> {
    match payload.checked_add(overhead) {
        Some(needed) if needed <= room && needed <= MAX_MESSAGE => Ok(()),
        _ => Err(HandshakeError::NoRoom),
    }
}

fn payload_len(message: &[u8], overhead: usize) -> Result<usize, HandshakeError> {
    if message.len() > MAX_MESSAGE {
        return Err(HandshakeError::Malformed);
    }
    message.len().checked_sub(overhead).ok_or(HandshakeError::Malformed)
}

#[cfg(test)]
mod tests;
