//! 128-bit fingerprints of states.

use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Two lanes of multiply and fold. Deterministic, and good enough for states that no attacker chooses.
pub(crate) struct Fingerprinter(u64, u64);

const K: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

impl Default for Fingerprinter {
    fn default() -> Self {
        Self(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344)
    }
}

impl Fingerprinter {
    fn mix(x: u64, k: u64) -> u64 {
        let product = u128::from(x) * u128::from(k);
        (product as u64) ^ ((product >> 64) as u64)
    }
}

impl Hasher for Fingerprinter {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word) ^ ((chunk.len() as u64) << 60));
        }
    }

    fn write_u8(&mut self, x: u8) {
        self.write_u64(x.into());
    }

    fn write_u32(&mut self, x: u32) {
        self.write_u64(x.into());
    }

    fn write_usize(&mut self, x: usize) {
        self.write_u64(x as u64);
    }

    fn write_isize(&mut self, x: isize) {
        self.write_u64(x as u64);
    }

    fn write_u64(&mut self, x: u64) {
        self.0 = Self::mix(self.0 ^ x, K[0]).wrapping_add(K[1]);
        self.1 = Self::mix(self.1.rotate_left(23) ^ x, K[1]).wrapping_add(K[0]);
    }
}

/// The fingerprint of `x`.
pub(crate) fn fingerprint(x: &impl Hash) -> u128 {
    let mut hasher = Fingerprinter::default();
    x.hash(&mut hasher);
    u128::from(Fingerprinter::mix(hasher.0, K[1])) << 64 | u128::from(Fingerprinter::mix(hasher.1, K[0]))
}

/// For maps of fingerprints, and of datagrams: the same order in every run.
pub(crate) type Build = BuildHasherDefault<Fingerprinter>;
