//! Decides whether the log that was found is the one that the last run appended.

use std::fmt;

use crate::Level;
use crate::run::{Ended, Run};
use crate::scan::Scan;

/// Whether the groups that were found are exactly those that were appended, except for losses that a crash may cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// They are those groups.
    Trusted,
    /// They may not be: the node must start as one that has forgotten everything. A new journal has begun.
    Untrusted(Reason),
}

/// Why a journal is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The system may have been rebooted, or the directory was moved to another system, and the journal had not been
    /// forced.
    Rebooted,
    /// The system could not force the journal of the last run.
    SyncFailed,
    /// Some groups are missing, although later ones are present.
    PagesLost,
    /// The log ends before the last group that was appended.
    CutShort,
    /// The files are not from the same time.
    RolledBack,
    /// The file `run` is missing.
    NoRun,
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trusted => f.write_str("the journal is trusted"),
            Self::Untrusted(reason) => reason.fmt(f),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rebooted => {
                "the last run did not end cleanly, and the system was started anew since, or does not tell one boot \
                 from another: what the journal had not forced to the disk may be lost"
            }
            Self::SyncFailed => "the system could not force the journal of the last run to the disk",
            Self::PagesLost => "a part of the journal was lost while the system ran on",
            Self::CutShort => "the end of the journal was lost, or the disk was rolled back, while the system ran on",
            Self::RolledBack => "the files of the journal are not of one time: some were put back or replaced",
            Self::NoRun => "the file that says how the last run of the journal ended is missing",
        })
    }
}

/// The verdict on a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Trusted,
    Untrusted(Reason),
    /// A part that was once on disk is damaged.
    Corrupt,
}

/// `boot` is the id of the current boot. `witness` has the generation and the LSN.
pub(crate) fn judge(run: &Run, scan: &Scan, boot: Option<[u8; 16]>, witness: Option<(u64, u64)>) -> Verdict {
    use Verdict::{Corrupt, Trusted, Untrusted};
    // If a snapshot is damaged, groups may be found that it had replaced.
    let is_here = scan.snapshot_damaged || scan.noted.is_none_or(|check| check == run.check);
    if scan.newest > run.generation || !is_here {
        return Untrusted(Reason::RolledBack);
    }
    let is_whole = !scan.snapshot_damaged && scan.end >= scan.forced.max(run.lsn);
    if run.ended == Ended::Clean {
        return match is_whole {
            true if (scan.end, scan.check) == (run.lsn, run.check) => Trusted,
            true => Untrusted(Reason::RolledBack),
            false => Corrupt,
        };
    }
    if run.level != Level::Process {
        return if is_whole { Trusted } else { Corrupt };
    }
    if boot.is_none() || boot != run.boot {
        return Untrusted(Reason::Rebooted);
    }
    if run.ended == Ended::Failed {
        return Untrusted(Reason::SyncFailed);
    }
    if !is_whole {
        return Corrupt;
    }
    if scan.hole || scan.lacks_kept() {
        return Untrusted(Reason::PagesLost);
    }
    if witness.is_some_and(|(generation, lsn)| generation > run.generation || lsn > scan.end) {
        return Untrusted(Reason::CutShort);
    }
    Trusted
}
