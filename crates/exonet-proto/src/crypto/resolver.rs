//! The primitives that `snow` uses: this crate's generator, X25519 and ChaCha20-Poly1305, and BLAKE2s.

use std::sync::Arc;

use blake2::{Blake2s256, Digest};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use zeroize::Zeroizing;

use super::backend::Aead;
use super::secret::{Private, is_canonical};

/// Resolves the primitives of Noise_IK_25519_ChaChaPoly_BLAKE2s for one handshake.
pub(super) struct Resolver {
    seed: Zeroizing<[u8; 32]>,
    local: Arc<Private>,
}

impl Resolver {
    pub(super) fn new(seed: [u8; 32], local: &Arc<Private>) -> Self {
        Self { seed: Zeroizing::new(seed), local: Arc::clone(local) }
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Generator(ChaCha20Rng::from_seed(*self.seed))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        match choice {
            DHChoice::Curve25519 => Some(Box::new(KeyPair(Arc::clone(&self.local)))),
            _ => None,
        }
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        match choice {
            HashChoice::Blake2s => Some(Box::new(Blake2s(Blake2s256::new()))),
            _ => None,
        }
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        match choice {
            CipherChoice::ChaChaPoly => Some(Box::new(ChaChaPoly(None))),
            _ => None,
        }
    }
}

struct Generator(ChaCha20Rng);

impl Random for Generator {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        self.0.fill_bytes(dest);
        Ok(())
    }
}

/// A key pair of Noise. It starts as the local static key, so that `set` to that key costs no multiplication. `snow` makes the
/// ephemeral key with `generate`.
struct KeyPair(Arc<Private>);

impl Dh for KeyPair {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, privkey: &[u8]) {
        // Both are this node's own secrets: that they are equal reveals nothing.
        if self.0.bytes().as_slice() == privkey {
            return;
        }
        let mut bytes = Zeroizing::new([0; 32]);
        bytes.iter_mut().zip(privkey).for_each(|(to, from)| *to = *from);
        self.0 = Arc::new(Private::new(bytes));
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        let mut bytes = Zeroizing::new([0; 32]);
        rng.try_fill_bytes(bytes.as_mut_slice())?;
        self.0 = Arc::new(Private::new(bytes));
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        self.0.public()
    }

    fn privkey(&self) -> &[u8] {
        self.0.bytes()
    }

    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), Error> {
        // `snow` passes its buffer for the longest key that it knows.
        let peer = pubkey.first_chunk::<32>().ok_or(Error::Dh)?;
        let out = out.first_chunk_mut::<32>().ok_or(Error::Dh)?;
        if !is_canonical(peer) {
            return Err(Error::Dh);
        }
        self.0.agreement().ok_or(Error::Dh)?.agree(peer, out).map_err(|_| Error::Dh)
    }
}

struct Blake2s(Blake2s256);

impl Hash for Blake2s {
    fn name(&self) -> &'static str {
        "BLAKE2s"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        Digest::reset(&mut self.0);
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        if let Some(out) = out.first_chunk_mut::<32>() {
            *out = self.0.finalize_reset().into();
        }
    }
}

struct ChaChaPoly(Option<Aead>);

impl Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.0 = Some(Aead::chacha20_poly1305(key));
    }

    fn encrypt(&self, nonce: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let sealed = plaintext.len().checked_add(16);
        let Some(out) = sealed.and_then(|length| out.get_mut(..length)) else {
            return 0;
        };
        let Some((text, room)) = out.split_last_chunk_mut::<16>() else {
            return 0;
        };
        text.copy_from_slice(plaintext);
        match self.0.as_ref().map(|aead| aead.seal(noise_nonce(nonce), authtext, text)) {
            Some(Ok(tag)) => *room = tag,
            // The trait has no error. Zeros are never authentic, and no plaintext leaves.
            _ => out.fill(0),
        }
        out.len()
    }

    fn decrypt(
        &self,
        nonce: u64,
        authtext: &[u8],
        ciphertext: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let (text, tag) = ciphertext.split_last_chunk::<16>().ok_or(Error::Decrypt)?;
        let out = out.get_mut(..text.len()).ok_or(Error::Decrypt)?;
        out.copy_from_slice(text);
        let aead = self.0.as_ref().ok_or(Error::Decrypt)?;
        aead.open(noise_nonce(nonce), authtext, out, tag).map_err(|_| Error::Decrypt)?;
        Ok(text.len())
    }
}

/// Noise, section 12.3: 32 bits of zeros and the counter in little-endian order.
fn noise_nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    if let Some(low) = nonce.last_chunk_mut() {
        *low = counter.to_le_bytes();
    }
    nonce
}

#[cfg(test)]
mod tests;
