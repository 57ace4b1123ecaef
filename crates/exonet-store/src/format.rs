//! The bytes of a segment's header, a snapshot's header and a group's header.
//!
//! Numbers are little-endian. In every version, the header of a file has 128 bytes, and the last four are the CRC-32C
//! of the others. So a newer version can be distinguished from damage.

/// The length in bytes of the header of a segment, and of a snapshot.
pub(crate) const HEADER: usize = 128;
/// The length in bytes of the header of a group.
pub(crate) const GROUP: usize = 32;
/// The offset of a group is a multiple of this.
pub(crate) const ALIGN: usize = 8;
const VERSION: u32 = 1;
/// The version of a snapshot that depends on groups before it.
const KEEPING: u32 = 2;
const SEGMENT: &[u8; 8] = b"exonseg\n";
const SNAPSHOT: &[u8; 8] = b"exonsnp\n";

/// The journal to which a file belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) identity: [u8; 32],
    /// The generation in which this log began.
    pub(crate) log: u64,
}

impl Owner {
    pub(crate) fn key(&self) -> Key {
        let sum = crc32c::crc32c_append(crc32c::crc32c(&self.identity), &self.log.to_le_bytes());
        let mask = self.identity.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Key { sum, mask }
    }
}

/// What makes a group belong to this log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The seed of every checksum.
    sum: u32,
    /// Run numbers are combined with this by exclusive or, so that bytes from others hardly ever look like a group.
    mask: u64,
}

/// The content of the header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) owner: Owner,
    /// The run that wrote it.
    pub(crate) run: u64,
    /// In a segment: the LSN of its first group. In a snapshot: the LSN of the last group that it replaces.
    pub(crate) lsn: u64,
    /// In a segment: the length of the file. In a snapshot: the number of bytes after the header.
    pub(crate) len: u64,
    /// In a snapshot: the checksum of the bytes after the header.
    pub(crate) check: u32,
    /// In a snapshot that depends on groups before it: which ones, and up to which group the log was on disk. None:
    /// the snapshot replaces all groups.
    pub(crate) kept: Option<Kept>,
}

/// The groups before a snapshot on which it depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The LSN of the first of them. A segment begins with that group.
    pub(crate) from: u64,
    /// All groups up to this LSN were on disk when the snapshot was written.
    pub(crate) forced: u64,
    /// The run that began that segment. If another segment begins with the same LSN, an earlier run began it, and the
    /// groups of that run were lost.
    pub(crate) run: u64,
}

/// The kind of file to which a header belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    Snapshot,
}

/// Why bytes are not the expected header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHead {
    Damaged,
    Version,
    Identity,
}

impl Kind {
    const fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Segment => SEGMENT,
            Self::Snapshot => SNAPSHOT,
        }
    }
}

impl Head {
    pub(crate) fn encode(&self, kind: Kind) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let numbers = [self.owner.log, self.run, self.lsn, self.len].map(u64::to_le_bytes);
        let fields = kind.magic().iter().chain(&self.owner.identity).chain(numbers.as_flattened());
        let version = if self.kept.is_some() { KEEPING } else { VERSION };
        let (check, version) = (self.check.to_le_bytes(), version.to_le_bytes());
        let kept = self.kept.map_or([0; 3], |kept| [kept.from, kept.forced, kept.run]).map(u64::to_le_bytes);
        let fields = fields.chain(&check).chain(&version).chain(kept.as_flattened());
        bytes.iter_mut().zip(fields).for_each(|(to, from)| *to = *from);
        let sum = crc32c::crc32c(bytes.split_last_chunk::<4>().map_or(&[], |(covered, _)| covered));
        if let Some((_, to)) = bytes.split_last_chunk_mut::<4>() {
            *to = sum.to_le_bytes();
        }
        bytes
    }

    /// Reads the header of a file of the journal of `identity`.
    pub(crate) fn decode(kind: Kind, identity: &[u8; 32], bytes: &[u8; HEADER]) -> Result<Self, BadHead> {
        Self::parse(kind, identity, bytes).ok_or(BadHead::Damaged)?
    }

    fn parse(kind: Kind, identity: &[u8; 32], bytes: &[u8; HEADER]) -> Option<Result<Self, BadHead>> {
        let (covered, sum) = bytes.split_last_chunk::<4>()?;
        let rest = covered.strip_prefix(kind.magic())?;
        if crc32c::crc32c(covered) != u32::from_le_bytes(*sum) {
            return None;
        }
        let (owner, rest) = rest.split_first_chunk::<32>()?;
        let (numbers, rest) = rest.split_first_chunk::<32>()?;
        let (check, rest) = rest.split_first_chunk::<4>()?;
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let version = u32::from_le_bytes(*version);
        if version != VERSION && (version != KEEPING || kind != Kind::Snapshot) {
            return Some(Err(BadHead::Version));
        }
        if owner != identity {
            return Some(Err(BadHead::Identity));
        }
        let ([log, run, lsn, len], _) = numbers.as_chunks::<8>().0.split_first_chunk::<4>()?;
        let owner = Owner { identity: *owner, log: u64::from_le_bytes(*log) };
        let [run, lsn, len] = [run, lsn, len].map(|number| u64::from_le_bytes(*number));
        let ([from, forced, begun], _) = rest.as_chunks::<8>().0.split_first_chunk::<3>()?;
        let [from, forced, begun] = [from, forced, begun].map(|number| u64::from_le_bytes(*number));
        let kept = Some(Kept { from, forced, run: begun }).filter(|_| version == KEEPING);
        Some(Ok(Self { owner, run, lsn, len, check: u32::from_le_bytes(*check), kept }))
    }
}

/// The content of the header of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The number of groups of this log up to and including this one.
    pub(crate) lsn: u64,
    /// The run that appended it.
    pub(crate) run: u64,
    /// All groups up to this LSN were on disk when it was appended.
    pub(crate) forced: u64,
    /// The number of bytes after the header.
    pub(crate) len: u32,
    /// The checksum of the rest of the header and the bytes after it.
    pub(crate) check: u32,
}

impl Group {
    /// Makes the header of a group of `body`, whose bytes may lie in several places, and sets its checksum.
    pub(crate) fn encode(&mut self, key: Key, body: &[&[u8]]) -> [u8; GROUP] {
        let mut bytes = [0; GROUP];
        let numbers = [self.lsn, self.run ^ key.mask, self.forced].map(u64::to_le_bytes);
        let len = self.len.to_le_bytes();
        let fields = len.iter().chain(numbers.as_flattened());
        bytes.iter_mut().skip(4).zip(fields).for_each(|(to, from)| *to = *from);
        if let Some((to, covered)) = bytes.split_first_chunk_mut::<4>() {
            self.check = sum(key, covered, body);
            *to = self.check.to_le_bytes();
        }
        bytes
    }

    /// Reads a header. The bytes may be anything.
    pub(crate) fn decode(key: Key, bytes: &[u8; GROUP]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let word = |at: usize| words.get(at).map_or(0, |word| u32::from_le_bytes(*word));
        let number = |at: usize| u64::from(word(at)) | u64::from(word(at + 1)) << 32;
        Self { check: word(0), len: word(1), lsn: number(2), run: number(4) ^ key.mask, forced: number(6) }
    }

    /// Whether this is the header of `body`.
    pub(crate) fn fits(&self, key: Key, bytes: &[u8; GROUP], body: &[u8]) -> bool {
        bytes.split_first_chunk::<4>().is_some_and(|(_, covered)| sum(key, covered, &[body]) == self.check)
    }
}

fn sum(key: Key, head: &[u8], body: &[&[u8]]) -> u32 {
    let head = crc32c::crc32c_append(key.sum, head);
    body.iter().fold(head, |sum, part| crc32c::crc32c_append(sum, part))
}

/// The number of bytes that a group of `body` bytes takes in a segment.
pub(crate) const fn group_len(body: u64) -> u64 {
    (GROUP as u64 + body).next_multiple_of(ALIGN as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head() -> Head {
        let owner = Owner { identity: [7; 32], log: 3 };
        Head { owner, run: 4, lsn: 5, len: 6, check: 8, kept: None }
    }

    #[test]
    fn a_header_comes_back_and_any_changed_byte_is_damage() {
        for kind in [Kind::Segment, Kind::Snapshot] {
            let bytes = head().encode(kind);
            assert_eq!(Head::decode(kind, &[7; 32], &bytes), Ok(head()));
            let keeping = Head { kept: Some(Kept { from: 2, forced: 3, run: 9 }), ..head() };
            let read = Head::decode(kind, &[7; 32], &keeping.encode(kind));
            assert_eq!(read, if kind == Kind::Snapshot { Ok(keeping) } else { Err(BadHead::Version) });
            for at in 0..HEADER {
                let mut bytes = bytes;
                bytes[at] ^= 1;
                assert_eq!(Head::decode(kind, &[7; 32], &bytes), Err(BadHead::Damaged));
            }
        }
    }

    #[test]
    fn a_newer_version_and_another_identity_are_told_from_damage() {
        let bytes = head().encode(Kind::Segment);
        assert_eq!(Head::decode(Kind::Segment, &[8; 32], &bytes), Err(BadHead::Identity));
        assert_eq!(Head::decode(Kind::Snapshot, &[7; 32], &bytes), Err(BadHead::Damaged));
        assert_eq!(Head::decode(Kind::Segment, &[7; 32], &newer(bytes)), Err(BadHead::Version));
    }

    fn newer(mut bytes: [u8; HEADER]) -> [u8; HEADER] {
        bytes[76] += 2;
        let sum = crc32c::crc32c(&bytes[..124]);
        bytes[124..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn a_group_comes_back_and_any_change_is_noticed(
            lsn: u64, run: u64, forced: u64, body: Vec<u8>, at: prop::sample::Index, to: u8,
        ) {
            let len = u32::try_from(body.len()).unwrap();
            let mut group = Group { lsn, run, forced, len, check: 0 };
            let [key, other] = [3, 4].map(|log| Owner { identity: [7; 32], log }.key());
            let head = group.encode(key, &[&body]);
            prop_assert_eq!(Group::decode(key, &head), group);
            prop_assert!(group.fits(key, &head, &body));
            prop_assert!(!group.fits(other, &head, &body));
            let mut all = [&head[..], &body].concat();
            let at = at.index(all.len());
            prop_assume!(all[at] != to);
            all[at] = to;
            let (head, body) = all.split_first_chunk::<GROUP>().unwrap();
            prop_assert!(!Group::decode(key, head).fits(key, head, body));
        }
    }
}
