//! What holds for every command, worked out from the arguments.

use crate::args::Common;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::output::Output;

/// Settings of one run.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Who this node is.
    pub(crate) identity: Identity,
    /// Where data goes.
    pub(crate) output: Output,
    /// Whether single outcomes are told to people.
    pub(crate) verbose: bool,
    /// Whether remarks are left out.
    pub(crate) quiet: bool,
}

impl Settings {
    /// `stored` is the identity of a command that is somebody by default; others are ephemeral.
    pub(crate) fn new(common: &Common, stored: Option<&str>) -> Result<Self, Failure> {
        let name = common.identity.as_deref().or(stored);
        Ok(Self {
            identity: Identity::new(name, common.state.as_deref())?,
            output: Output::new(common.json),
            verbose: common.verbose > 0,
            quiet: common.quiet,
        })
    }

    /// What went wrong, for people, on standard error.
    pub(crate) fn error(&self, text: impl AsRef<str>) {
        eprintln!("{} {}", console::style("exon:").red().for_stderr(), text.as_ref());
    }

    /// A remark for people, on standard error.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            eprintln!("{} {}", console::style("exon:").dim().for_stderr(), text.as_ref());
        }
    }
}
