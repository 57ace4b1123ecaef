//! The manifest of the files offered under a code, with the hash of their content.

use std::sync::Arc;

use tokio::sync::watch;

use super::scan::{Item, Scan};
use super::source::Source;
use crate::code::meeting::{LONGEST, Manifest, listing};
use crate::copy::Entry;
use crate::failure::Failure;

/// The maximum number of top-level names in the manifest.
const NAMES: usize = 16;
/// The maximum length of these names together.
const LONGEST_NAMES: usize = 4 << 10;

/// The manifest, once everything has been read, or the reason why it cannot be read.
pub(super) type Known = Option<Result<Arc<Manifest>, String>>;

/// Reads everything that is offered, in the background. The code is printed meanwhile.
pub(super) fn read(scan: &Scan) -> watch::Receiver<Known> {
    let (tell, known) = watch::channel(None);
    let items = scan.items.clone();
    tokio::spawn(async move {
        let manifest = of(&items).await.map(Arc::new).map_err(|failure| failure.to_string());
        tell.send_replace(Some(manifest));
    });
    known
}

async fn of(items: &[Item]) -> Result<Manifest, Failure> {
    let mut hashes = Vec::new();
    let mut stream = false;
    for item in items {
        if let Entry::File { .. } = &item.entry {
            stream |= item.stream;
            if !stream {
                let hash = async { Source::open(&item.path).await?.hash().await };
                hashes.push((item.name(), hash.await.map_err(super::peer::Fault::into_failure)?));
            }
        }
    }
    let files = items.iter().filter(|item| matches!(item.entry, Entry::File { .. })).count();
    let mut room = LONGEST_NAMES.min(usize::try_from(LONGEST).unwrap_or(LONGEST_NAMES));
    let named = items.iter().filter(|item| item.named).map(|item| item.name().to_owned());
    let names = named.take(NAMES).take_while(|name| {
        room = room.saturating_sub(name.len());
        room > 0
    });
    Ok(Manifest {
        names: names.collect(),
        files: files as u64,
        bytes: items.iter().map(Item::size).sum(),
        root: if stream { None } else { listing(hashes) },
    })
}
