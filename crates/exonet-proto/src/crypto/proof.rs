//! A proof to one node that its maker holds a secret key, without a channel between the two.

use zeroize::Zeroizing;

use super::SecretKey;
use super::hash::{derive, mac, mac_matches};
use crate::NodeId;

/// Bytes of a proof.
pub const PROOF_LEN: usize = 16;

impl SecretKey {
    /// Proves to the node `to` that the holder of this key says `what`: a MAC under the secret that the two keys share. No other
    /// node can check it, and `to` could have made it itself. The caller makes sure that `what` cannot be used twice.
    ///
    /// None: `to` is not the id of a valid key.
    pub fn prove(&self, to: &NodeId, what: &[&[u8]]) -> Option<[u8; PROOF_LEN]> {
        let (from, shared) = (self.node_id(), self.shared_with(to)?);
        Some(mac(&key(&shared, &from, to), what))
    }

    /// Whether the holder of the key of `from` has made `proof` for this node, about `what`. Constant time.
    pub fn verify_proof(&self, from: &NodeId, what: &[&[u8]], proof: &[u8; PROOF_LEN]) -> bool {
        let shared = self.shared_with(from);
        shared.is_some_and(|shared| mac_matches(&key(&shared, from, &self.node_id()), what, proof))
    }

    /// The shared secret of this key and that of `other`. None if `other` is not the id of a valid key.
    pub(super) fn shared_with(&self, other: &NodeId) -> Option<Zeroizing<[u8; 32]>> {
        let mut shared = Zeroizing::new([0; 32]);
        super::secret::is_canonical(&other.0).then_some(())?;
        self.private().agreement()?.agree(&other.0, &mut shared).ok()?;
        Some(shared)
    }
}

fn key(shared: &[u8; 32], from: &NodeId, to: &NodeId) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(derive(shared, &[b"exonet proof", &from.0, &to.0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_key_for_one_node_and_one_saying() {
        let [alice, bob, eve] = [1, 2, 3].map(|n| SecretKey::from_bytes([n; 32]));
        let proof = alice.prove(&bob.node_id(), &[b"one", b"two"]).unwrap();
        let by =
            |who: &SecretKey, of: &SecretKey, what: &[&[u8]]| who.verify_proof(&of.node_id(), what, &proof);
        assert!(by(&bob, &alice, &[b"onetwo"]));
        assert!(!by(&bob, &alice, &[b"one"]));
        assert!(!by(&bob, &eve, &[b"onetwo"]));
        assert!(!by(&eve, &alice, &[b"onetwo"]));
        assert!(!by(&alice, &bob, &[b"onetwo"]), "it has a direction");
        for id in [NodeId([0; 32]), NodeId([0xff; 32])] {
            assert_eq!(alice.prove(&id, &[]), None, "no key has this id");
            assert!(!alice.verify_proof(&id, &[b"onetwo"], &proof));
        }
    }
}
