//! Content that only the holder of one key can read, whoever carries it: for files whose reader is not reachable.
//!
//! `ephemeral id (32) | chunk*`, where a chunk has [`CHUNK`] bytes of content and a tag; the last chunk has less content. Each is
//! sealed by ChaCha20-Poly1305 under `derive(DH(ephemeral, reader), "exonet sealed" | ephemeral id | reader)`, with its number as
//! the nonce; whether it is the last chunk is authenticated with it. So no change, omission, reordering or truncation goes
//! unnoticed. The writer stays unknown.

use zeroize::Zeroizing;

use super::hash::derive;
use super::packet_key::{OpenKey, SealKey, TAG_LEN};
use super::{SecretKey, Suite, Unauthentic};
use crate::NodeId;

/// The content of a chunk that is not the last, in bytes.
pub const CHUNK: usize = 64 * 1024;
/// The bytes of the ephemeral id at the front.
const FRONT: usize = 32;

/// Seals `content` for the node `reader`. `ephemeral` is a fresh random key that is used for nothing else. None: `reader` is not
/// the id of a valid key.
pub fn seal(content: &[u8], reader: &NodeId, ephemeral: &SecretKey) -> Option<Vec<u8>> {
    let front = ephemeral.node_id();
    let shared = ephemeral.shared_with(reader)?;
    let key = SealKey::new(Suite::ChaCha20Poly1305, &key(&shared, &front, reader));
    let whole = content.len() / CHUNK;
    let mut sealed = Vec::with_capacity(FRONT + content.len() + (whole + 1) * TAG_LEN);
    sealed.extend_from_slice(&front.0);
    for (number, chunk) in (0_u64..).zip(chunks(content)) {
        let at = sealed.len();
        sealed.extend_from_slice(chunk);
        sealed.extend_from_slice(&[0; TAG_LEN]);
        key.seal_in_place(number, &[u8::from(chunk.len() < CHUNK)], sealed.get_mut(at..)?).ok()?;
    }
    Some(sealed)
}

/// Opens what was sealed for the node of this key.
///
/// # Errors
/// [`Unauthentic`]: the content was sealed for another node, or is not complete.
pub fn open(sealed: &[u8], key_of: &SecretKey) -> Result<Zeroizing<Vec<u8>>, Unauthentic> {
    let (front, mut rest) = sealed.split_first_chunk::<FRONT>().ok_or(Unauthentic)?;
    let (front, reader) = (NodeId(*front), key_of.node_id());
    let shared = key_of.shared_with(&front).ok_or(Unauthentic)?;
    let key = OpenKey::new(Suite::ChaCha20Poly1305, &key(&shared, &front, &reader));
    let mut content = Zeroizing::new(Vec::with_capacity(rest.len()));
    for number in 0_u64.. {
        let (chunk, behind) = rest.split_at_checked(CHUNK + TAG_LEN).unwrap_or((rest, &[]));
        let last = chunk.len() < CHUNK + TAG_LEN;
        let mut chunk = Zeroizing::new(chunk.to_vec());
        content.extend_from_slice(key.open_in_place(number, &[u8::from(last)], &mut chunk)?);
        if last {
            break;
        }
        rest = behind;
    }
    Ok(content)
}

/// Divides the content into chunks, of which exactly the last is shorter than the others.
fn chunks(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = content.len() / CHUNK * CHUNK;
    let (before, last) = content.split_at_checked(whole).unwrap_or((content, &[]));
    before.chunks(CHUNK).chain(core::iter::once(last))
}

fn key(shared: &[u8; 32], front: &NodeId, reader: &NodeId) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(derive(shared, &[b"exonet sealed", &front.0, &reader.0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ephemeral() -> SecretKey {
        SecretKey::from_bytes([7; 32])
    }

    #[test]
    fn only_its_reader_opens_what_is_whole() {
        let [bob, eve] = [1, 2].map(|n| SecretKey::from_bytes([n; 32]));
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let content: Vec<u8> = (0..=250).cycle().take(len).collect();
            let sealed = seal(&content, &bob.node_id(), &ephemeral()).unwrap();
            assert_eq!(*open(&sealed, &bob).unwrap(), content);
            assert_eq!(open(&sealed, &eve).err(), Some(Unauthentic));
            for cut in [sealed.len() - 1, sealed.len() - TAG_LEN, FRONT, 0] {
                assert!(open(&sealed[..cut], &bob).is_err(), "{len} cut to {cut}");
            }
            let mut more = sealed.clone();
            more.push(0);
            assert!(open(&more, &bob).is_err());
            for at in [0, FRONT, sealed.len() - 1] {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert!(open(&changed, &bob).is_err(), "{len} changed at {at}");
            }
        }
    }

    #[test]
    fn chunks_stay_in_their_places() {
        let bob = SecretKey::from_bytes([1; 32]);
        let sealed = seal(&vec![5; 3 * CHUNK], &bob.node_id(), &ephemeral()).unwrap();
        let chunk = |n: usize| FRONT + n * (CHUNK + TAG_LEN)..FRONT + (n + 1) * (CHUNK + TAG_LEN);
        let mut swapped = sealed.clone();
        swapped[chunk(0)].copy_from_slice(&sealed[chunk(1)]);
        swapped[chunk(1)].copy_from_slice(&sealed[chunk(0)]);
        assert!(open(&swapped, &bob).is_err());
        // Only the whole chunks: the last of them is not marked as the last.
        assert!(open(&sealed[..FRONT + 3 * (CHUNK + TAG_LEN)], &bob).is_err());
    }

    #[test]
    fn nothing_is_sealed_for_nobody() {
        assert!(seal(b"x", &NodeId([0xff; 32]), &ephemeral()).is_none());
    }
}
