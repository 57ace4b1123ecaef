//! The keys of one direction of a channel: sealing and opening packets in place.

use zeroize::Zeroizing;

use super::backend::Aead;
use super::hash::derive;
use super::{Suite, Unauthentic};

/// Bytes of the tag at the end of every sealed packet.
pub const TAG_LEN: usize = 16;

/// The buffer to seal has no room for the tag (or is longer than the AEAD can take, 64 GiB). Nothing was sealed:
/// it must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for the tag of a packet")]
pub struct NoRoom;

/// Seals the packets that this end sends.
pub struct SealKey(Aead);

/// Opens the packets that the other end sent.
pub struct OpenKey(Aead);

impl SealKey {
    /// The key that seals under `suite`, from the 32 bytes that the handshake gives to this direction.
    pub fn new(suite: Suite, key: &[u8; 32]) -> Self {
        Self(aead(suite, key))
    }

    /// Encrypts all of `buf` except its last [`TAG_LEN`] bytes, authenticates it with `header`, and puts the tag into those last
    /// bytes.
    ///
    /// `number` is the full packet number. It must never repeat under this key: one repetition reveals both plaintexts and, with
    /// AES-GCM, allows forgeries.
    ///
    /// # Errors
    /// [`NoRoom`] if `buf` is shorter than the tag; `buf` must then not be sent.
    pub fn seal_in_place(&self, number: u64, header: &[u8], buf: &mut [u8]) -> Result<(), NoRoom> {
        let (text, room) = buf.split_last_chunk_mut::<TAG_LEN>().ok_or(NoRoom)?;
        *room = self.0.seal(nonce(number), header, text).map_err(|_| NoRoom)?;
        Ok(())
    }
}

impl OpenKey {
    /// The key that opens under `suite`, from the 32 bytes that the handshake gives to the other direction.
    pub fn new(suite: Suite, key: &[u8; 32]) -> Self {
        Self(aead(suite, key))
    }

    /// Checks and decrypts `buf`, ciphertext and tag, and returns the plaintext within it.
    ///
    /// # Errors
    /// [`Unauthentic`] unless `number`, `header` and every byte are what was sealed; the content of `buf` is then of no use. The
    /// caller counts these errors against [`Suite::forgery_limit`].
    pub fn open_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        buf: &'a mut [u8],
    ) -> Result<&'a mut [u8], Unauthentic> {
        let (text, tag) = buf.split_last_chunk_mut::<TAG_LEN>().ok_or(Unauthentic)?;
        self.0.open(nonce(number), header, text, tag)?;
        Ok(text)
    }
}

impl core::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SealKey(..)")
    }
}

impl core::fmt::Debug for OpenKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("OpenKey(..)")
    }
}

/// Each suite gets a key of its own, so that no two suites ever run under the same bytes.
fn aead(suite: Suite, key: &[u8; 32]) -> Aead {
    match suite {
        Suite::Aes128Gcm => {
            let derived = Zeroizing::new(derive(key, &[b"exonet aes-128-gcm"]));
            let mut half = Zeroizing::new([0; 16]);
            half.iter_mut().zip(derived.iter()).for_each(|(to, from)| *to = *from);
            Aead::aes_128_gcm(&half)
        }
        Suite::ChaCha20Poly1305 => {
            Aead::chacha20_poly1305(&Zeroizing::new(derive(key, &[b"exonet chacha20"])))
        }
    }
}

fn nonce(number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    if let Some(low) = nonce.last_chunk_mut() {
        *low = number.to_be_bytes();
    }
    nonce
}

#[cfg(test)]
mod tests;
