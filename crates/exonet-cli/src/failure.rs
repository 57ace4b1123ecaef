//! Errors of the command, with remedies.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::exit::Exit;
use crate::stderr;

/// An error for the user: it names the failed operation, the cause, and a remedy.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    why: Option<String>,
    todo: Option<String>,
    /// The reader of standard output is gone, so nothing is reported.
    unheard: bool,
    /// Another process runs the identity.
    in_use: bool,
    /// The command line is wrong.
    usage: bool,
}

impl Failure {
    /// A failure; `what` names the failed operation.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), why: None, todo: None, unheard: false, in_use: false, usage: false }
    }

    /// Notes that the command line is wrong.
    pub(crate) fn wrong_usage(self) -> Self {
        Self { usage: true, ..self }
    }

    /// The exit code of the command that fails with this.
    pub(crate) fn exit(&self) -> Exit {
        if self.usage { Exit::Usage } else { Exit::Error }
    }

    /// Notes that another process runs the identity.
    pub(crate) fn in_use(self) -> Self {
        Self { in_use: true, ..self }
    }

    /// Whether another process runs the identity.
    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use
    }

    /// The failure to use a file or directory; `doing` is the verb.
    pub(crate) fn path(doing: &str, path: &Path, error: &io::Error) -> Self {
        let failure = Self::new(format!("cannot {doing} {}", path.display())).because(error);
        match error.kind() {
            io::ErrorKind::NotFound => failure.hint("check the path"),
            io::ErrorKind::PermissionDenied => failure.hint("check its owner and permissions"),
            io::ErrorKind::ReadOnlyFilesystem => failure.hint("choose a place that can be written"),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.hint("the disk is full: free some space and try again")
            }
            _ => failure,
        }
    }

    /// As [`Self::output`], for a command that must print: a reader that is gone is an error.
    pub(crate) fn broken_output(mut self) -> Self {
        if std::mem::take(&mut self.unheard) {
            "standard output was closed".clone_into(&mut self.what);
            self.why = None;
        }
        self
    }

    /// The failure to write to standard output.
    pub(crate) fn output(error: &io::Error) -> Self {
        let unheard = error.kind() == io::ErrorKind::BrokenPipe;
        Self { unheard, ..Self::new("cannot write to standard output").because(error) }
    }

    /// Whether the reader of standard output is gone.
    pub(crate) fn is_unheard(&self) -> bool {
        self.unheard
    }

    /// Adds the cause, with its own causes.
    pub(crate) fn because(mut self, error: &dyn Error) -> Self {
        let mut why = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Many errors repeat their cause in their own text.
            if !why.contains(&text) {
                let _ = write!(why, ": {text}");
            }
            source = cause.source();
        }
        self.why = Some(why);
        self
    }

    /// Adds the remedy.
    pub(crate) fn hint(mut self, todo: impl Into<String>) -> Self {
        self.todo = Some(todo.into());
        self
    }

    /// Reports the failure on standard error, and for scripts also as the last line of standard output. Reports
    /// nothing if the reader of the output is gone, as `head` is when it has enough.
    pub(crate) fn report(&self, json: bool) {
        if self.unheard {
            return;
        }
        if json {
            let line = serde_json::json!({
                "type": "error",
                "error": self.sentence(),
                "hint": self.todo,
            });
            // If standard output is gone, nothing more can be reported.
            let _ = crate::output::Output::new(true).line(&line);
        }
        stderr::line(format_args!("{} {self}", console::style("exon:").red().for_stderr()));
    }

    /// The text and the remedy, for the terminal of another process.
    pub(crate) fn in_parts(&self) -> (String, Option<String>) {
        (self.sentence(), self.todo.clone())
    }

    fn sentence(&self) -> String {
        match &self.why {
            Some(why) => format!("{}: {why}", self.what),
            None => self.what.clone(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence())?;
        match &self.todo {
            Some(todo) => write!(f, "\n      {todo}"),
            None => Ok(()),
        }
    }
}

/// Reports wrong usage in the format of all errors, or prints the help, which arrives in the same way.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let code = u8::try_from(error.exit_code()).unwrap_or(2);
    if !error.use_stderr() {
        // An error means that the reader is gone.
        let _ = error.print();
        return code.into();
    }
    if std::env::args_os().any(|arg| arg == "--json") {
        let text = error.render().to_string();
        let text = text.trim_start_matches("error: ");
        let (what, todo) = text.split_once("\n\n").unwrap_or((text, ""));
        let line = serde_json::json!({ "type": "error", "error": what.trim(), "hint": todo.trim() });
        let _ = crate::output::Output::new(true).line(&line);
    }
    let told = error.render();
    let text = if console::colors_enabled_stderr() { told.ansi().to_string() } else { told.to_string() };
    stderr::line(text.replacen("error:", "exon:", 1).trim_end_matches('\n'));
    code.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    #[test]
    fn causes_are_told_once_each() {
        let cause = || io::Error::other("the cause");
        assert_eq!(Failure::new("it").because(&Outer(cause())).to_string(), "it: outer: the cause");
        assert_eq!(Failure::new("it").because(&cause()).to_string(), "it: the cause");
    }

    #[test]
    fn a_path_is_named_with_what_to_do() {
        let error = io::Error::from(io::ErrorKind::StorageFull);
        let text = Failure::path("write", Path::new("/a/b"), &error).to_string();
        assert!(text.starts_with("cannot write /a/b: "), "{text}");
        assert!(text.contains("free some space"), "{text}");
    }
}
