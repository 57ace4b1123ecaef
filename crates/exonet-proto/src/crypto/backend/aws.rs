//! AWS-LC. It wipes the memory that it frees, including keys.

use aws_lc_rs::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement;

use super::{LowOrder, Refused};
use crate::crypto::Unauthentic;

/// An AEAD under one key. The caller keeps nonces unique.
pub(in crate::crypto) struct Aead(Option<LessSafeKey>);

impl Aead {
    pub(in crate::crypto) fn aes_128_gcm(key: &[u8; 16]) -> Self {
        // A key of the right length is never refused. If it were, nothing could be sealed or opened.
        Self(UnboundKey::new(&AES_128_GCM, key).ok().map(LessSafeKey::new))
    }

    pub(in crate::crypto) fn chacha20_poly1305(key: &[u8; 32]) -> Self {
        Self(UnboundKey::new(&CHACHA20_POLY1305, key).ok().map(LessSafeKey::new))
    }

    pub(in crate::crypto) fn seal(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; 16], Refused> {
        let key = self.0.as_ref().ok_or(Refused)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(aad), text).map_err(|_| Refused)?;
        tag.as_ref().try_into().map_err(|_| Refused)
    }

    /// After an error, the content of `text` is of no use.
    pub(in crate::crypto) fn open(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), Unauthentic> {
        let key = self.0.as_ref().ok_or(Unauthentic)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.open_in_place_separate_tag(nonce, Aad::from(aad), tag, text).map_err(|_| Unauthentic)?;
        Ok(())
    }
}

/// An X25519 private key and its public key.
pub(in crate::crypto) struct X25519 {
    private: agreement::PrivateKey,
    public: [u8; 32],
}

impl X25519 {
    pub(in crate::crypto) fn new(private: &[u8; 32]) -> Option<Self> {
        let private = agreement::PrivateKey::from_private_key(&agreement::X25519, private).ok()?;
        let public = private.compute_public_key().ok()?.as_ref().try_into().ok()?;
        Some(Self { private, public })
    }

    pub(in crate::crypto) fn public(&self) -> &[u8; 32] {
        &self.public
    }

    pub(in crate::crypto) fn agree(&self, peer: &[u8; 32], out: &mut [u8; 32]) -> Result<(), LowOrder> {
        let peer = agreement::UnparsedPublicKey::new(&agreement::X25519, peer);
        agreement::agree(&self.private, peer, LowOrder, |shared| {
            *out = shared.try_into().map_err(|_| LowOrder)?;
            Ok(())
        })
    }
}
