//! Commands that `--exec` names: what `exon serve` and `exon listen` run.

mod attempt;
mod process;
#[cfg(unix)]
pub(crate) mod reaper;

pub(in crate::command) use self::attempt::{Head, Tried, Undone, Worker};
pub(in crate::command) use self::process::{Broken, Program, Run, Stdout};
