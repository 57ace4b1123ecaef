//! Messages that outlive processes: what an application hands over one by one, and the book of the application that acts
//! on them.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};

use super::lanes::{Taker, stamped};
use super::{App as _, Meter, Stamp};

/// The file with the number of each message that was acted on, in the order in which that was done.
const BOOK: &str = "book";

/// The next message; None at the end of the run.
pub(crate) fn hand_over(meter: &Meter, bytes: usize) -> Option<Vec<u8>> {
    (!meter.is_stopped()).then(|| stamped(meter.send(), 0, super::machine_time(), bytes))
}

/// The application that acts on messages.
///
/// To act is to write the number of the message at the end of a file, which outlives the process. To acknowledge comes
/// after that: an application that is killed between the two acts again.
#[derive(Clone)]
pub(crate) struct Acts {
    state: Arc<Mutex<(Taker, File)>>,
}

impl Acts {
    pub(crate) fn open(meter: &Arc<Meter>, disk: &Path) -> Result<Self> {
        let path = disk.join(BOOK);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self { state: Arc::new(Mutex::new((Taker::new(Arc::clone(meter), None), file))) })
    }

    pub(crate) fn act(&self, message: &[u8]) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (taker, file) = &mut *state;
        taker.take(message);
        let stamp = Stamp::read(message).context("a message is damaged")?;
        Ok(file.write_all(&stamp.number.to_be_bytes())?)
    }
}

/// How often each of the first `sent` messages was acted on: never, and more than once.
pub(crate) fn lost_and_doubled(disk: &Path, sent: u64) -> Result<[u64; 2]> {
    let path = disk.join(BOOK);
    let book = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut times = vec![0_u32; usize::try_from(sent)?];
    for number in book.as_chunks::<8>().0 {
        let at = usize::try_from(u64::from_be_bytes(*number))?;
        *times.get_mut(at).context("a message was acted on that nobody sent")? += 1;
    }
    let count = |of: fn(u32) -> bool| times.iter().filter(|times| of(**times)).count() as u64;
    Ok([count(|times| times == 0), count(|times| times > 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_or_doubled_is_in_the_book() {
        let disk = std::env::temp_dir().join(format!("exonet-lab-book-{}", std::process::id()));
        std::fs::create_dir_all(&disk).unwrap();
        let meter = Arc::new(Meter::new());
        let sent: Vec<_> = (0..4).filter_map(|_| hand_over(&meter, 64)).collect();
        // Two lives of one application.
        for numbers in [[0, 1], [1, 3]] {
            let acts = Acts::open(&meter, &disk).unwrap();
            numbers.iter().for_each(|n: &usize| acts.act(&sent[*n]).unwrap());
        }
        assert_eq!(lost_and_doubled(&disk, 4).unwrap(), [1, 1]);
        assert!(lost_and_doubled(&disk, 3).is_err(), "nobody sent the fourth");
        std::fs::remove_dir_all(&disk).unwrap();
    }
}
