//! Pure Rust, for wasm32 and wherever no C compiler is available. Keys are wiped on drop.

use aes_gcm::Aes128Gcm;
use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use x25519_dalek::{PublicKey, StaticSecret};

use super::{LowOrder, Refused};
use crate::crypto::Unauthentic;

/// An AEAD under one key. The caller keeps nonces unique.
pub(in crate::crypto) enum Aead {
    // The key schedule of AES is thirty times the size of that of ChaCha20-Poly1305.
    Aes(Box<Aes128Gcm>),
    ChaCha(ChaCha20Poly1305),
}

impl Aead {
    pub(in crate::crypto) fn aes_128_gcm(key: &[u8; 16]) -> Self {
        Self::Aes(Box::new(Aes128Gcm::new(key.into())))
    }

    pub(in crate::crypto) fn chacha20_poly1305(key: &[u8; 32]) -> Self {
        Self::ChaCha(ChaCha20Poly1305::new(key.into()))
    }

    pub(in crate::crypto) fn seal(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; 16], Refused> {
        let nonce = (&nonce).into();
        let tag = match self {
            Self::Aes(key) => key.encrypt_in_place_detached(nonce, aad, text),
            Self::ChaCha(key) => key.encrypt_in_place_detached(nonce, aad, text),
        };
        tag.map(Into::into).map_err(|_| Refused)
    }

    /// After an error, the content of `text` is of no use.
    pub(in crate::crypto) fn open(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), Unauthentic> {
        let (nonce, tag) = ((&nonce).into(), tag.into());
        match self {
            Self::Aes(key) => key.decrypt_in_place_detached(nonce, aad, text, tag),
            Self::ChaCha(key) => key.decrypt_in_place_detached(nonce, aad, text, tag),
        }
        .map_err(|_| Unauthentic)
    }
}

/// An X25519 private key and its public key.
pub(in crate::crypto) struct X25519 {
    private: StaticSecret,
    public: [u8; 32],
}

impl X25519 {
    /// Always `Some`; the type is that of a backend which may run out of memory.
    #[allow(clippy::unnecessary_wraps)]
    pub(in crate::crypto) fn new(private: &[u8; 32]) -> Option<Self> {
        let private = StaticSecret::from(*private);
        let public = PublicKey::from(&private).to_bytes();
        Some(Self { private, public })
    }

    pub(in crate::crypto) fn public(&self) -> &[u8; 32] {
        &self.public
    }

    pub(in crate::crypto) fn agree(&self, peer: &[u8; 32], out: &mut [u8; 32]) -> Result<(), LowOrder> {
        let shared = self.private.diffie_hellman(&PublicKey::from(*peer));
        if !shared.was_contributory() {
            return Err(LowOrder);
        }
        *out = shared.to_bytes();
        Ok(())
    }
}
