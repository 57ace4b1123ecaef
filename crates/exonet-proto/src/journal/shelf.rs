//! Where the driver keeps bodies that wait, once memory has enough of them.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::message::SMALL;

/// A place for bodies that wait, beside memory. What it keeps is for this process alone: the journal has the same bytes.
pub trait Keep: Send + Sync {
    /// Gives the same bytes where they cost no memory until they are read. None: there is no room, and they stay in memory.
    fn keep(&self, body: &[u8]) -> Option<Bytes>;
}

/// A [`Keep`], or none; how many bytes of bodies memory has before it is used.
#[derive(Clone, Default)]
pub struct Shelf(Option<(Arc<dyn Keep>, u64)>);

impl Shelf {
    /// Bodies go to `keep` while memory has more than `most` bytes of those that are longer than 64.
    pub fn new(keep: Arc<dyn Keep>, most: u64) -> Self {
        Self(Some((keep, most)))
    }

    /// A body that is to wait beside `resident` bytes in memory, if it is not to stay there.
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
