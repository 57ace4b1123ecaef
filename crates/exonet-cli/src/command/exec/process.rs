//! A process for each call or message: the body is its standard input, and its exit code is the result.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

#[cfg(unix)]
use super::reaper::{self, Reaper};
use crate::failure::Failure;
use crate::text::escape;
use crate::traceparent;

/// The longest line of standard error that is logged in one piece.
const LONGEST_LINE: u64 = 4 << 10;
/// The number of bytes of a body that are written at a time.
const CHUNK: usize = 64 << 10;
/// The time limit for reading the output of a process that has ended, if another process still holds the output open.
const LEFT_OPEN: Duration = Duration::from_millis(500);
/// The statuses that shells use for a command that cannot be started, and for one that does not exist.
const NOT_STARTED: u32 = 126;
const NOT_FOUND: u32 = 127;
/// The status of a process whose end is unknown.
const NO_STATUS: u32 = u32::MAX;
/// The number that shells add to the number of a signal.
#[cfg(unix)]
const SIGNALLED: u32 = 128;

/// A command that is run for each call or message.
#[derive(Debug)]
pub(in crate::command) struct Program {
    path: PathBuf,
    args: Vec<OsString>,
    #[cfg(unix)]
    reaper: Reaper,
}

/// The parameters of one run of a command.
pub(in crate::command) struct Run<'a> {
    pub(in crate::command) environment: Vec<(&'static str, String)>,
    /// The name under which standard error is logged.
    pub(in crate::command) name: &'a str,
    pub(in crate::command) stdout: Stdout,
}

/// The destination of the standard output of a process.
#[derive(Clone, Copy)]
pub(in crate::command) enum Stdout {
    /// It is read, up to this number of bytes.
    Read(u64),
    /// It goes to standard output of `exon`.
    Ours,
    /// It goes to standard error of `exon`, since standard output carries other data.
    Errors,
}

/// A process that has ended.
pub(in crate::command) struct Ended {
    /// Its exit code, or the status that shells use in place of one.
    pub(in crate::command) status: u32,
    /// The bytes that were read from its standard output.
    pub(in crate::command) output: Vec<u8>,
    /// The last line that the process wrote to standard error.
    pub(in crate::command) last_words: String,
}

/// The reason why a process was not started, or was ended.
pub(in crate::command) enum Broken {
    NotStarted {
        status: u32,
        error: io::Error,
    },
    /// Its input ended early.
    Body(io::Error),
    /// It cannot be waited for, or its output cannot be read.
    System(io::Error),
    /// It wrote more than this number of bytes.
    TooLong(u64),
}

/// The last line of standard error.
type LastWords = Arc<Mutex<String>>;

impl Program {
    /// Fails if the command does not exist, so that the error is reported once and not for every call or message.
    pub(in crate::command) fn new(command: &[OsString]) -> Result<Self, Failure> {
        let (name, args) = command.split_first().ok_or_else(|| Failure::new("--exec names no command"))?;
        let path = find(Path::new(name)).ok_or_else(|| {
            Failure::new(format!("there is no command {}", Path::new(name).display()))
                .hint("write its path, or put it into one of the directories of PATH")
        })?;
        Ok(Self {
            path,
            args: args.to_vec(),
            #[cfg(unix)]
            reaper: Reaper::start()?,
        })
    }

    /// Runs the command to its end. If the future is dropped, the process and its descendants are ended.
    pub(in crate::command) async fn run(
        &self,
        run: Run<'_>,
        body: &mut (impl AsyncRead + Unpin),
    ) -> Result<Ended, Broken> {
        let mut process = self.start(&run)?;
        #[cfg(unix)]
        let _reaped = process.group().map(|group| self.reaper.group(group));
        let (mut stdin, stderr) = (process.0.stdin.take(), process.0.stderr.take());
        let mut outputs = Outputs {
            stdout: process.0.stdout.take(),
            output: Vec::new(),
            most: if let Stdout::Read(most) = run.stdout { most } else { 0 },
            logging: JoinSet::new(),
        };
        let last_words = LastWords::default();
        if let Some(stderr) = stderr {
            let (name, last) = (run.name.to_owned(), Arc::clone(&last_words));
            outputs.logging.spawn(async move { log(stderr, &name, &last).await });
        }
        let (read, ended) = tokio::select! {
            read = outputs.all() => (read, None),
            // Its descendants may hold its output open after its end: only the output of the process itself counts.
            ended = process.0.wait() => (Ok(()), Some(ended)),
            // The process sees the end of its input only if the body arrived in full.
            error = feed(body, &mut stdin) => {
                drop(process);
                return Err(Broken::Body(error));
            }
        };
        read?;
        let ended = match ended {
            Some(ended) => {
                // Everything that the process wrote is in the pipe.
                if let Ok(read) = timeout(LEFT_OPEN, outputs.all()).await {
                    read?;
                }
                ended
            }
            // The process is waited for only now, so that its id, with which it would be killed, still belongs to it.
            None => process.0.wait().await,
        };
        let status = status(ended.map_err(Broken::System)?);
        let last_words = last_words.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Ended { status, output: outputs.output, last_words })
    }

    /// Starts a process that exchanges data while it runs. Its standard output must be `Read`.
    ///
    /// # Errors
    /// The status that shells use for a command that cannot be started.
    pub(in crate::command) fn converse(&self, run: &Run<'_>) -> Result<Conversation, u32> {
        let mut process = self.start(run).map_err(|broken| match broken {
            Broken::NotStarted { status, .. } => status,
            _ => NO_STATUS,
        })?;
        let mut logging = JoinSet::new();
        if let Some(stderr) = process.0.stderr.take() {
            let name = run.name.to_owned();
            logging.spawn(async move { log(stderr, &name, &LastWords::default()).await });
        }
        let (stdin, stdout) = (process.0.stdin.take(), process.0.stdout.take());
        Ok(Conversation { process, stdin, stdout, _logging: logging })
    }

    fn start(&self, run: &Run<'_>) -> Result<Process, Broken> {
        let mut command = Command::new(&self.path);
        traceparent::pass_on(&mut command);
        command
            .args(&self.args)
            .envs(run.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(match run.stdout {
                Stdout::Read(_) => Stdio::piped(),
                Stdout::Ours => Stdio::inherit(),
                Stdout::Errors => Stdio::from(io::stderr()),
            })
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0).env(reaper::MARK, self.reaper.mark());
        command.spawn().map(Process).map_err(|error| {
            let status = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED };
            tracing::error!("cannot start {}: {error}", self.path.display());
            Broken::NotStarted { status, error }
        })
    }
}

/// A process that exchanges data while it runs. It is ended when this is dropped.
pub(in crate::command) struct Conversation {
    process: Process,
    pub(in crate::command) stdin: Option<ChildStdin>,
    pub(in crate::command) stdout: Option<ChildStdout>,
    _logging: JoinSet<()>,
}

impl Conversation {
    /// Waits for its end, and returns its exit code.
    pub(in crate::command) async fn wait(&mut self) -> u32 {
        self.stdin = None;
        self.process.0.wait().await.map_or(NO_STATUS, status)
    }

    /// Ends it, and returns its exit code.
    pub(in crate::command) async fn end(&mut self) -> u32 {
        // An error means that the process has already ended.
        let _ = self.process.0.start_kill();
        self.wait().await
    }
}

/// The outputs of a process.
struct Outputs {
    stdout: Option<ChildStdout>,
    output: Vec<u8>,
    most: u64,
    logging: JoinSet<()>,
}

impl Outputs {
    /// Reads standard output and logs standard error, to the end of both. Cancel-safe: it may be called again.
    async fn all(&mut self) -> Result<(), Broken> {
        let Self { stdout, output, most, logging } = self;
        let logged = async {
            logging.join_next().await;
            Ok(())
        };
        tokio::try_join!(read(stdout, output, *most), logged).map(drop)
    }
}

/// Reads to the end. Cancel-safe: the bytes that were read stay in `output`.
async fn read(stdout: &mut Option<ChildStdout>, output: &mut Vec<u8>, most: u64) -> Result<(), Broken> {
    loop {
        let Some(pipe) = stdout else { return Ok(()) };
        if pipe.read_buf(output).await.map_err(Broken::System)? == 0 {
            return Ok(());
        }
        if u64::try_from(output.len()).is_ok_and(|len| len > most) {
            // A process that continues to write ends by SIGPIPE or an error.
            *stdout = None;
            return Err(Broken::TooLong(most));
        }
    }
}

/// Writes the body. Returns only if the body ends early. A process need not read all of it.
async fn feed(body: &mut (impl AsyncRead + Unpin), stdin: &mut Option<ChildStdin>) -> io::Error {
    if let Some(pipe) = stdin {
        let mut chunk = vec![0; CHUNK];
        loop {
            match body.read(&mut chunk).await {
                Ok(0) => break,
                Ok(read) => {
                    let piece = chunk.get(..read).unwrap_or_default();
                    if pipe.write_all(piece).await.is_err() {
                        break;
                    }
                }
                Err(error) => return error,
            }
        }
    }
    *stdin = None;
    std::future::pending().await
}

async fn log(stderr: impl AsyncRead + Unpin, name: &str, last: &LastWords) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while (&mut stderr).take(LONGEST_LINE).read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        let words = line.trim_ascii();
        tracing::warn!("{name}: {}", escape(line.trim_ascii_end()));
        if !words.is_empty() {
            *last.lock().unwrap_or_else(PoisonError::into_inner) =
                String::from_utf8_lossy(words).into_owned();
        }
        line.clear();
    }
}

/// The status that shells use for this end.
fn status(ended: ExitStatus) -> u32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&ended) {
        return SIGNALLED.saturating_add_signed(signal);
    }
    ended.code().map_or(NO_STATUS, i32::cast_unsigned)
}

/// A process that is killed when this is dropped, together with its descendants in its process group.
struct Process(Child);

#[cfg(unix)]
impl Process {
    /// The process group. The id is known until the process has been waited for, and no other process can have it
    /// until then.
    fn group(&self) -> Option<rustix::process::Pid> {
        self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.group() {
            // An error means that no process is left.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// The file of the command `name`: the path itself if it has a directory, otherwise a file in the directories of
/// `PATH`.
fn find(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 || cfg!(windows) {
        return (cfg!(windows) || name.is_file()).then(|| name.to_owned());
    }
    let directories = std::env::var_os("PATH")?;
    std::env::split_paths(&directories).map(|directory| directory.join(name)).find(|path| path.is_file())
}
