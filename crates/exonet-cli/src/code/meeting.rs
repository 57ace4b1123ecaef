//! The exchange in which two nodes prove to each other that they know the same code.
//!
//! It is SPAKE2 over the code. The two identities are the ids of the nodes, as each node knows them from the
//! handshake of their channel. The receiver proves its key first, so that the sender notices every guess. The
//! sender's proof covers its manifest.

use exonet::NodeId;
use serde::{Deserialize, Serialize};
use spake2::{Ed25519Group, Identity, Password, Spake2};
use zeroize::Zeroizing;

use super::Code;
use crate::copy::Hex32;

/// The method that the sender serves.
pub(crate) const METHOD: &str = "exon.code";
/// The method with which the sender tells the receiver that the copy has ended.
pub(crate) const ENDED: &str = "exon.code.ended";
/// The version of both methods.
pub(crate) const VERSION: u8 = 1;
/// The longest body of both methods, in bytes.
pub(crate) const LONGEST: u64 = 16 << 10;
/// The number of wrong codes that end an offer, and the number of wrong nodes at which a receiver tries its code.
pub(crate) const GUESSES: u32 = 3;

const RECEIVER: &str = "exonet codes 1: the receiver knows the code";
const SENDER: &str = "exonet codes 1: the sender knows the code and offers this";

/// A request of the receiver.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    Meet {
        v: u8,
        share: String,
    },
    Confirm {
        proof: Hex32,
    },
    /// The receiver is ready for the copy.
    Begin,
}

/// A reply of the sender.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Reply {
    Met {
        share: String,
    },
    /// The manifest is JSON in a string, so that the proof covers its exact bytes.
    Open {
        proof: Hex32,
        manifest: String,
    },
    Wrong {
        left: u32,
    },
    Begun,
    /// The sender cannot continue.
    Over {
        why: String,
    },
}

/// The manifest of the offered files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The top-level names, as far as there is room for them.
    pub(crate) names: Vec<String>,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// BLAKE3 of the file, or the hash of [`listing`] for several files. Absent if the end of a stream is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) root: Option<Hex32>,
}

/// The result of the copy, as the sender tells the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) v: u8,
    /// `done` or `interrupted`.
    pub(crate) end: String,
    /// The number of files that were stored or already present, and the number of other files.
    pub(crate) stored: u64,
    pub(crate) left: u64,
}

/// The hash of several files, from the hash of each, in the order of their paths.
pub(crate) fn listing<'a>(files: impl IntoIterator<Item = (&'a str, Hex32)>) -> Option<Hex32> {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_unstable();
    match files.as_slice() {
        [] => None,
        [(_, hash)] => Some(*hash),
        several => {
            let mut hasher = blake3::Hasher::new();
            for (path, hash) in several {
                hasher.update(&(path.len() as u64).to_be_bytes()).update(path.as_bytes()).update(&hash.0);
            }
            Some(Hex32(hasher.finalize().into()))
        }
    }
}

/// The state of one end, which has sent its share or is about to.
pub(crate) struct Meeting(Spake2<Ed25519Group>);

/// The key, which both ends share if they know the same code and agree on the ids of the two nodes.
pub(crate) struct Key(Zeroizing<Vec<u8>>);

impl Meeting {
    /// The state of the receiver, and its share.
    pub(crate) fn receiver(code: &Code, sender: &NodeId, receiver: &NodeId) -> (Self, String) {
        Self::new(code, sender, receiver, Spake2::start_b)
    }

    /// The state of the sender, and its share.
    pub(crate) fn sender(code: &Code, sender: &NodeId, receiver: &NodeId) -> (Self, String) {
        Self::new(code, sender, receiver, Spake2::start_a)
    }

    fn new(
        code: &Code,
        sender: &NodeId,
        receiver: &NodeId,
        start: impl FnOnce(&Password, &Identity, &Identity) -> (Spake2<Ed25519Group>, Vec<u8>),
    ) -> (Self, String) {
        let password = Password::new(code.password().as_bytes());
        let (meeting, share) = start(&password, &Identity::new(&sender.0), &Identity::new(&receiver.0));
        (Self(meeting), crate::text::hex(&share))
    }

    /// Derives the key from the share of the other end. None: the share is invalid.
    pub(crate) fn finish(self, share: &str) -> Option<Key> {
        let share = unhex(share)?;
        self.0.finish(&share).ok().map(|key| Key(Zeroizing::new(key)))
    }
}

impl Key {
    /// The receiver's proof.
    pub(crate) fn of_receiver(&self) -> Hex32 {
        self.proof(RECEIVER, b"")
    }

    /// The sender's proof, which covers its manifest.
    pub(crate) fn of_sender(&self, manifest: &str) -> Hex32 {
        self.proof(SENDER, manifest.as_bytes())
    }

    fn proof(&self, context: &str, of: &[u8]) -> Hex32 {
        let key = Zeroizing::new(blake3::derive_key(context, &self.0));
        Hex32(blake3::keyed_hash(&key, of).into())
    }
}

/// Whether two proofs are equal, in constant time.
pub(crate) fn same(one: Hex32, other: Hex32) -> bool {
    blake3::Hash::from_bytes(one.0) == blake3::Hash::from_bytes(other.0)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    if !digits.len().is_multiple_of(2) || digits.len() > 1_024 {
        return None;
    }
    let byte = |pair: &[u32]| u8::try_from(pair.iter().fold(0, |byte, digit| byte << 4 | digit)).ok();
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Code {
        text.parse().unwrap()
    }

    /// The keys of a sender and a receiver, each with the ids that it assumes.
    fn keys(sends: (&str, u8, u8), receives: (&str, u8, u8)) -> (Key, Key) {
        let id = |n| NodeId([n; 32]);
        let (sender, to_receiver) = Meeting::sender(&code(sends.0), &id(sends.1), &id(sends.2));
        let (receiver, to_sender) = Meeting::receiver(&code(receives.0), &id(receives.1), &id(receives.2));
        (sender.finish(&to_sender).unwrap(), receiver.finish(&to_receiver).unwrap())
    }

    fn agree((sender, receiver): &(Key, Key)) -> bool {
        same(sender.of_receiver(), receiver.of_receiver())
            && same(sender.of_sender("m"), receiver.of_sender("m"))
    }

    #[test]
    fn the_same_code_between_the_same_nodes_gives_the_same_proofs() {
        assert!(agree(&keys(("7-lucky-otter", 1, 2), ("7-lucky-otter", 1, 2))));
    }

    #[test]
    fn another_code_is_noticed() {
        assert!(!agree(&keys(("7-lucky-otter", 1, 2), ("7-lucky-puma", 1, 2))));
        assert!(!agree(&keys(("7-lucky-otter", 1, 2), ("8-lucky-otter", 1, 2))));
    }

    /// A node that forwards shares between two channels has another peer id on each channel.
    #[test]
    fn a_node_in_between_gains_nothing() {
        assert!(!agree(&keys(("7-lucky-otter", 1, 9), ("7-lucky-otter", 9, 2))));
        assert!(!agree(&keys(("7-lucky-otter", 1, 9), ("7-lucky-otter", 1, 2))));
        assert!(!agree(&keys(("7-lucky-otter", 1, 2), ("7-lucky-otter", 9, 2))));
    }

    #[test]
    fn another_manifest_is_noticed_and_no_proof_is_the_other() {
        let (sender, receiver) = keys(("7-lucky-otter", 1, 2), ("7-lucky-otter", 1, 2));
        assert!(!same(sender.of_sender("photo.jpg"), receiver.of_sender("virus.exe")));
        assert!(!same(sender.of_receiver(), sender.of_sender("")));
    }

    #[test]
    fn what_is_no_share_is_refused() {
        let id = NodeId([1; 32]);
        let own = Meeting::sender(&code("7-lucky-otter"), &id, &id).1;
        for share in ["", "0", "zz", "ff", &own, &"42".repeat(33), &"0".repeat(2_000)] {
            let (sender, _) = Meeting::sender(&code("7-lucky-otter"), &id, &id);
            let all_twos = share.len() == 66 && share.starts_with("4242");
            assert!(sender.finish(share).is_none() || all_twos, "{share}");
        }
    }

    #[test]
    fn a_listing_does_not_depend_on_the_order() {
        let (a, b) = (("a", Hex32([1; 32])), ("b", Hex32([2; 32])));
        assert_eq!(listing([a, b]), listing([b, a]));
        assert_ne!(listing([a, b]), listing([("a", b.1), ("b", a.1)]));
        assert_eq!(listing([a]), Some(a.1));
        assert_eq!(listing([]), None);
    }

    #[test]
    fn it_is_written_like_this() {
        let text = serde_json::to_string(&Request::Meet { v: 1, share: "41".to_owned() }).unwrap();
        assert_eq!(text, r#"{"do":"meet","v":1,"share":"41"}"#);
        assert_eq!(serde_json::to_string(&Reply::Wrong { left: 2 }).unwrap(), r#"{"is":"wrong","left":2}"#);
        assert_eq!(serde_json::to_string(&Request::Begin).unwrap(), r#"{"do":"begin"}"#);
    }
}
