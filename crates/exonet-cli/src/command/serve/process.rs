//! A process per call: the body is its input, its output the reply, its exit code the status.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use exonet::call::{Failure as Answer, ReplyStatus, Request};
use exonet::error::BodyError;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

#[cfg(unix)]
use super::reaper::{self, Reaper};
use crate::failure::Failure;
use crate::text::escape;
use crate::units::Size;

/// A longer line of standard error is logged in pieces.
const LONGEST_LINE: u64 = 4 << 10;
/// Its output was left open by a process that has ended: what that wrote is read within this.
const LEFT_OPEN: Duration = Duration::from_millis(500);
/// What shells say of a command that cannot be started, and of one that is not there.
const NOT_STARTED: u32 = 126;
const NOT_FOUND: u32 = 127;
/// What shells add to the number of a signal.
#[cfg(unix)]
const SIGNALLED: u32 = 128;

/// What answers calls.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    args: Vec<OsString>,
    max_reply: Size,
    #[cfg(unix)]
    reaper: Reaper,
}

impl Program {
    /// Fails where it is not there: better said now than to every caller.
    pub(super) fn new(command: &[OsString], max_reply: Size) -> Result<Self, Failure> {
        let (name, args) = command.split_first().ok_or_else(|| Failure::new("--exec names no command"))?;
        let path = find(Path::new(name)).ok_or_else(|| {
            Failure::new(format!("there is no command {}", Path::new(name).display()))
                .hint("write its path, or put it into one of the directories of PATH")
        })?;
        Ok(Self {
            path,
            args: args.to_vec(),
            max_reply,
            #[cfg(unix)]
            reaper: Reaper::start()?,
        })
    }

    /// Answers a call. Dropped early, the process and what it started are ended.
    pub(super) async fn answer(&self, mut request: Request) -> Result<Bytes, Answer> {
        let mut command = Command::new(&self.path);
        command
            .args(&self.args)
            .env("EXON_CALLER", request.caller.to_string())
            .env("EXON_CALL_ID", request.id.to_string())
            .env("EXON_METHOD", String::from_utf8_lossy(&request.method).as_ref())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0).env(reaper::MARK, self.reaper.mark());
        let child = command.spawn().map_err(|error| {
            let status = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED };
            tracing::error!("cannot start {}: {error}", self.path.display());
            Answer::new(status, format!("cannot start the command: {error}"))
        })?;
        let mut process = Process(child);
        #[cfg(unix)]
        let _reaped = process.group().map(|group| self.reaper.group(group));
        let (mut stdout, stderr) = (process.0.stdout.take(), process.0.stderr.take());
        let mut stdin = process.0.stdin.take();
        let call = request.id.to_string();
        let mut reply = Vec::new();
        let mut logging = JoinSet::new();
        if let Some(stderr) = stderr {
            logging.spawn(async move { log(stderr, &call).await });
        }
        let (read, ended) = tokio::select! {
            read = self.outputs(&mut stdout, &mut reply, &mut logging) => (read, None),
            // What it started may hold its output open for longer than it lives: the reply is what it wrote itself.
            ended = process.0.wait() => (Ok(()), Some(ended)),
            // The end of its input is seen by a process only if the body came whole.
            error = feed(&mut request, &mut stdin) => {
                drop(process);
                return Err(error.into());
            }
        };
        read?;
        let ended = match ended {
            Some(ended) => {
                // All that it wrote is in the pipe.
                let rest = self.outputs(&mut stdout, &mut reply, &mut logging);
                if let Ok(read) = timeout(LEFT_OPEN, rest).await {
                    read?;
                }
                ended
            }
            // Only now, so that its id, by which it would be ended, is still its own.
            None => process.0.wait().await,
        };
        match status(ended.map_err(Answer::error)?) {
            0 => Ok(reply.into()),
            status => Err(Answer::new(status, reply)),
        }
    }

    /// Reads and logs to the end of both outputs. Given up, it may be called again.
    async fn outputs(
        &self,
        stdout: &mut Option<impl AsyncRead + Unpin>,
        reply: &mut Vec<u8>,
        logging: &mut JoinSet<()>,
    ) -> Result<(), Answer> {
        let logged = async {
            logging.join_next().await;
            Ok(())
        };
        tokio::try_join!(self.read(stdout, reply), logged).map(drop)
    }

    /// Reads to the end. Given up, what was read stays in `reply`.
    async fn read(
        &self,
        stdout: &mut Option<impl AsyncRead + Unpin>,
        reply: &mut Vec<u8>,
    ) -> Result<(), Answer> {
        loop {
            let Some(pipe) = stdout else { return Ok(()) };
            if pipe.read_buf(reply).await.map_err(Answer::error)? == 0 {
                return Ok(());
            }
            if u64::try_from(reply.len()).is_ok_and(|len| len > self.max_reply.0) {
                // A process that writes on ends by that.
                *stdout = None;
                let why = format!("the reply has more than {} bytes", self.max_reply.0);
                return Err(Answer::new(ReplyStatus::FAILED, why));
            }
        }
    }
}

/// Gives the body, and ends only if that breaks off. A process may well not read it all.
async fn feed(request: &mut Request, stdin: &mut Option<tokio::process::ChildStdin>) -> BodyError {
    if let Some(pipe) = stdin {
        loop {
            match request.body.chunk().await {
                Ok(Some(chunk)) if pipe.write_all(&chunk).await.is_ok() => {}
                Ok(_) => break,
                Err(error) => return error,
            }
        }
    }
    *stdin = None;
    std::future::pending().await
}

async fn log(stderr: impl AsyncRead + Unpin, call: &str) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while (&mut stderr).take(LONGEST_LINE).read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        tracing::warn!("{call}: {}", escape(line.trim_ascii_end()));
        line.clear();
    }
}

/// As shells have it.
fn status(ended: ExitStatus) -> u32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&ended) {
        return SIGNALLED.saturating_add_signed(signal);
    }
    ended.code().map_or(ReplyStatus::FAILED.0, i32::cast_unsigned)
}

/// A process that does not outlive this, with what it started and did not put into a group of its own.
struct Process(Child);

#[cfg(unix)]
impl Process {
    /// Has an id until it has been waited for: no other process can have it.
    fn group(&self) -> Option<rustix::process::Pid> {
        self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.group() {
            // An error says that nobody is left.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// The file that `name` stands for: as it is if it says where, else in the directories of `PATH`.
fn find(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 || cfg!(windows) {
        return (cfg!(windows) || name.is_file()).then(|| name.to_owned());
    }
    let directories = std::env::var_os("PATH")?;
    std::env::split_paths(&directories).map(|directory| directory.join(name)).find(|path| path.is_file())
}
