//! Cookies: a receiver under load makes a sender prove its address, and meanwhile keeps no state about it.
//!
//! The cookie is a MAC of the sender's address under a secret that only the receiver knows. It goes out in a RETRY, encrypted so
//! that only an observer of the opening can use it, and comes back as the key of mac2.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use super::hash::{derive, hash, mac, mac_matches};
use super::{MAC_LEN, Unauthentic};
use crate::{Mono, NodeId, Wall};

/// Bytes of the random nonce of a RETRY.
pub const RETRY_NONCE_LEN: usize = 24;
/// Bytes of the sealed part of a RETRY: cookie, time, tag.
pub const RETRY_LEN: usize = 40;

/// For how many nanoseconds one secret makes cookies. It accepts them for as long again.
const EPOCH: u64 = 120_000_000_000;

/// A value that a receiver gave to one address. It proves later that answers get there.
#[derive(Clone)]
pub struct Cookie([u8; 16]);

impl Cookie {
    pub(super) fn mac2(&self, datagram: &[u8]) -> [u8; MAC_LEN] {
        mac(&self.mac2_key(), &[datagram])
    }

    fn mac2_key(&self) -> [u8; 32] {
        hash(&[b"exonet mac2", &self.0])
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookie(..)")
    }
}

/// Makes and checks the cookies of one receiver. It holds 32 bytes, however many peers ask.
///
/// Secrets change every 120 s; a cookie is valid for 120 to 240 s. Each secret is derived from the jar's seed and the number of
/// its epoch, so that no rotation can be missed during a long pause.
pub struct CookieJar {
    seed: Zeroizing<[u8; 32]>,
}

impl CookieJar {
    /// A jar whose secrets follow from `seed`: fresh randomness at each start of the node, never stored.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed: Zeroizing::new(seed) }
    }

    /// The present cookie of an address.
    pub fn cookie(&self, now: Mono, address: SocketAddr) -> Cookie {
        self.of_epoch(epoch(now), address)
    }

    /// Whether `mac2` over `datagram` (everything before mac2) was made with a cookie that this jar gave to exactly this address
    /// in the current or the previous epoch. Constant time in `mac2`.
    pub fn verify_mac2(&self, now: Mono, address: SocketAddr, datagram: &[u8], mac2: &[u8; MAC_LEN]) -> bool {
        let current = epoch(now);
        let previous = current.checked_sub(1);
        [Some(current), previous].into_iter().flatten().any(|epoch| {
            let key = self.of_epoch(epoch, address).mac2_key();
            mac_matches(&key, &[datagram], mac2)
        })
    }

    fn of_epoch(&self, epoch: u64, address: SocketAddr) -> Cookie {
        let secret = Zeroizing::new(derive(&self.seed, &[b"exonet cookie secret", &epoch.to_be_bytes()]));
        // The form that a dual-stack socket gives to an IPv4 address: a cookie is valid on either socket.
        let ip = match address.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        Cookie(mac(&secret, &[&ip, &address.port().to_be_bytes()]))
    }
}

impl fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieJar(..)")
    }
}

fn epoch(now: Mono) -> u64 {
    now.0 / EPOCH
}

/// The content of a RETRY.
#[derive(Clone, Debug)]
pub struct Retry {
    /// The key for mac2 of the next copy of the opening.
    pub cookie: Cookie,
    /// The receiver's wall clock, for future stamps: nothing reads it yet. It is only a hint, sealed under a key that every node
    /// has that knows the receiver.
    pub time: Wall,
}

/// Seals and opens the RETRYs of one receiver.
#[derive(Clone)]
pub struct RetryKey {
    key: [u8; 32],
}

impl RetryKey {
    /// The key for RETRYs by `receiver`. It is as public as the receiver's id: mac1 of the opening protects a RETRY, and no node
    /// off the path has seen it.
    pub fn new(receiver: &NodeId) -> Self {
        Self { key: hash(&[b"exonet cookie", &receiver.0]) }
    }

    /// The sealed part of the answer to the opening that bore `mac1`. `nonce` is random and used once.
    pub fn seal(
        &self,
        nonce: &[u8; RETRY_NONCE_LEN],
        retry: &Retry,
        mac1: &[u8; MAC_LEN],
    ) -> [u8; RETRY_LEN] {
        let mut sealed = [0; RETRY_LEN];
        if let Some((text, room)) = sealed.split_last_chunk_mut::<16>() {
            let plain = retry.cookie.0.into_iter().chain(retry.time.0.to_be_bytes());
            text.iter_mut().zip(plain).for_each(|(to, from)| *to = from);
            // 24 bytes never exceed the limit of the cipher.
            if let Ok(tag) = self.cipher().encrypt_in_place_detached(XNonce::from_slice(nonce), mac1, text) {
                *room = tag.into();
            }
        }
        sealed
    }

    /// The content of a RETRY, if it answers the opening that bore `mac1`.
    ///
    /// # Errors
    /// [`Unauthentic`] if it was sealed for another opening, or by a node that had not seen this one.
    pub fn open(
        &self,
        nonce: &[u8; RETRY_NONCE_LEN],
        mac1: &[u8; MAC_LEN],
        sealed: &[u8; RETRY_LEN],
    ) -> Result<Retry, Unauthentic> {
        let mut sealed = *sealed;
        let (text, tag) = sealed.split_last_chunk_mut::<16>().ok_or(Unauthentic)?;
        self.cipher()
            .decrypt_in_place_detached(XNonce::from_slice(nonce), mac1, text, Tag::from_slice(tag))
            .map_err(|_| Unauthentic)?;
        let (cookie, time) = text.split_first_chunk::<16>().ok_or(Unauthentic)?;
        let time = time.first_chunk().ok_or(Unauthentic)?;
        Ok(Retry { cookie: Cookie(*cookie), time: Wall(u64::from_be_bytes(*time)) })
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&self.key).into())
    }
}

impl fmt::Debug for RetryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetryKey(..)")
    }
}

#[cfg(test)]
mod tests;
