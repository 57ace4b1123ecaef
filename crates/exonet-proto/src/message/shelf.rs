//! A place where the driver keeps waiting bodies once there are enough of them in memory.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::SMALL;

/// A place for waiting bodies, outside of memory. It serves only this process: the journal has the same bytes.
pub trait Keep: Send + Sync {
    /// Returns the same bytes in a form that costs no memory until they are read. None: there is no room, and they stay in
    /// memory.
    fn keep(&self, body: &[u8]) -> Option<Bytes>;
}

/// A [`Keep`], or none, and how many bytes of bodies are in memory before it is used.
#[derive(Clone, Default)]
pub struct Shelf(Option<(Arc<dyn Keep>, u64)>);

impl Shelf {
    /// Bodies go to `keep` while memory has more than `most` bytes of bodies that are longer than 64.
    pub fn new(keep: Arc<dyn Keep>, most: u64) -> Self {
        Self(Some((keep, most)))
    }

    /// Puts a body on the shelf, beside `resident` bytes in memory. None: the body stays in memory.
    pub(crate) fn put(&self, resident: u64, body: &[u8]) -> Option<Bytes> {
        let (keep, most) = self.0.as_ref()?;
        if body.len() > SMALL && resident > *most { keep.keep(body) } else { None }
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shelf").field(&self.0.as_ref().map(|(_, most)| most)).finish()
    }
}
