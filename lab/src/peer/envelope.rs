//! What a bare datagram of one message is wrapped in: nothing, or what a data packet of Exonet is (PROTOCOL.md, "DATA"):
//! 9 bytes of header, which are authenticated too, and a tag of 16. The key is one that everybody knows.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

const HEADER: usize = 9;
const TAG: usize = 16;
const KEY: [u8; 16] = [0x42; 16];

/// Wraps and unwraps datagrams in place.
pub(super) struct Envelope {
    /// None: messages travel as they are.
    key: Option<LessSafeKey>,
    /// The number of the next datagram, which is also its nonce.
    number: u64,
}

impl Envelope {
    pub(super) const fn none() -> Self {
        Self { key: None, number: 0 }
    }

    pub(super) fn sealed() -> anyhow::Result<Self> {
        let key = UnboundKey::new(&AES_128_GCM, &KEY).map(LessSafeKey::new);
        Ok(Self { key: Some(key.map_err(|_| anyhow::anyhow!("there is no AES-128-GCM"))?), number: 0 })
    }

    /// Bytes of the datagram of a message.
    pub(super) const fn datagram(&self, message: usize) -> usize {
        if self.key.is_some() { HEADER + message + TAG } else { message }
    }

    /// Where the message of a datagram is, before it is sealed.
    pub(super) fn message<'a>(&self, datagram: &'a mut [u8]) -> &'a mut [u8] {
        if self.key.is_none() {
            return datagram;
        }
        let end = datagram.len().saturating_sub(TAG);
        datagram.get_mut(HEADER..end).unwrap_or_default()
    }

    /// Makes what is to leave of a datagram that holds its message. None: it has no room for the envelope.
    pub(super) fn seal(&mut self, datagram: &mut [u8]) -> Option<()> {
        let Some(key) = &self.key else { return Some(()) };
        let number = self.number;
        self.number += 1;
        let (header, rest) = datagram.split_first_chunk_mut::<HEADER>()?;
        let (text, room) = rest.split_last_chunk_mut::<TAG>()?;
        *header = [0; HEADER];
        *header.last_chunk_mut()? = number.to_be_bytes();
        let tag = key.seal_in_place_separate_tag(nonce(number), Aad::from(&*header), text).ok()?;
        room.copy_from_slice(tag.as_ref());
        Some(())
    }

    /// The message in a datagram. None: it is not what was sealed.
    pub(super) fn open<'a>(&self, datagram: &'a mut [u8]) -> Option<&'a [u8]> {
        let Some(key) = &self.key else { return Some(datagram) };
        let (header, rest) = datagram.split_first_chunk_mut::<HEADER>()?;
        let (text, tag) = rest.split_last_chunk_mut::<TAG>()?;
        let number = u64::from_be_bytes(*header.last_chunk()?);
        key.open_in_place_separate_tag(nonce(number), Aad::from(&*header), &*tag, text).ok()?;
        Some(text)
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    if let Some(low) = nonce.last_chunk_mut() {
        *low = number.to_be_bytes();
    }
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(envelope: &mut Envelope, message: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; envelope.datagram(message.len())];
        envelope.message(&mut datagram).copy_from_slice(message);
        envelope.seal(&mut datagram).unwrap();
        datagram
    }

    #[test]
    fn a_sealed_message_is_hidden_and_opens_and_damage_is_seen() {
        let mut envelope = Envelope::sealed().unwrap();
        let (first, second) = (datagram(&mut envelope, &[7; 64]), datagram(&mut envelope, &[7; 64]));
        assert_eq!(first.len(), 64 + 9 + 16);
        assert_ne!(first[9..73], [7; 64]);
        assert_ne!(first[9..], second[9..], "no number comes twice");
        for sealed in [&first, &second] {
            assert_eq!(envelope.open(&mut sealed.clone()), Some(&[7; 64][..]));
        }
        for at in 0..first.len() {
            let mut damaged = first.clone();
            damaged[at] ^= 1;
            assert_eq!(envelope.open(&mut damaged), None, "byte {at}");
        }
        assert_eq!(envelope.open(&mut [0; 9 + 15]), None);
        assert_eq!(envelope.seal(&mut [0; 9 + 15]), None);
    }

    #[test]
    fn without_an_envelope_a_datagram_is_its_message() {
        let mut envelope = Envelope::none();
        let mut plain = datagram(&mut envelope, &[7; 64]);
        assert_eq!(plain, [7; 64]);
        assert_eq!(envelope.open(&mut plain), Some(&[7; 64][..]));
    }
}
