//! Running `exon` as people do: as processes with arguments, pipes, signals and exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

pub(crate) use crate::free::free_address;

/// Longer than anything here takes: a test that hangs fails then, and the next ones run.
const HANG: Duration = Duration::from_secs(120);

/// A place with identities of its own.
pub(crate) struct World {
    directory: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exon"));
        command
            .args(args)
            .env("EXONET_STATE", self.path("state"))
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs to the end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        Running::start(self.command(args)).end()
    }

    /// Runs with something on standard input.
    pub(crate) fn feed(&self, args: &[&str], input: &[u8]) -> Ended {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut running = Running::start(command);
        running.stdin().write_all(input).unwrap();
        running.end()
    }

    /// A listener on a free port, and what it can be reached by.
    pub(crate) fn listen(&self, args: &[&str]) -> Listener {
        self.listener("listening", &[&["listen", "--json", "--bind", "127.0.0.1:0"], args].concat())
    }

    /// A listener at this address.
    pub(crate) fn listen_at(&self, bind: &str, args: &[&str]) -> Listener {
        self.listener("listening", &[&["listen", "--json", "--bind", bind], args].concat())
    }

    /// A server on a free port.
    pub(crate) fn serve(&self, args: &[&str]) -> Listener {
        self.serve_at("127.0.0.1:0", args)
    }

    pub(crate) fn serve_at(&self, bind: &str, args: &[&str]) -> Listener {
        self.listener("listening", &[&["serve", "--json", "--bind", bind], args].concat())
    }

    /// A node of its own identity that shares a directory.
    #[cfg(unix)]
    pub(crate) fn share(&self, identity: &str, directory: &Path, args: &[&str]) -> Listener {
        self.share_at("127.0.0.1:0", identity, directory, args)
    }

    #[cfg(unix)]
    pub(crate) fn share_at(&self, bind: &str, identity: &str, directory: &Path, args: &[&str]) -> Listener {
        let home = self.path(identity);
        let share = ["share", arg(directory), "--state", arg(&home), "--json", "--bind", bind];
        self.listener("listening", &[&share, args].concat())
    }

    /// A background node of the identity `sender`.
    #[cfg(unix)]
    pub(crate) fn up(&self, args: &[&str]) -> Listener {
        self.listener("up", &[&["up", "--as", "sender", "--json", "--bind", "127.0.0.1:0"], args].concat())
    }

    /// What clients of the bench send to.
    pub(crate) fn bench_server(&self) -> Listener {
        self.listener("ready", &["bench", "server", "--json", "--bind", "127.0.0.1:0"])
    }

    fn listener(&self, says: &str, args: &[&str]) -> Listener {
        self.listener_of(says, self.command(args))
    }

    /// What a command starts that ends in a listener: it says so by its first line.
    pub(crate) fn listener_of(&self, says: &str, command: Command) -> Listener {
        let mut running = Running::start(command);
        let first = running.line().expect("a listener says where it is");
        assert_eq!(first["type"], says, "{first}");
        let peer = first["peer"].as_str().unwrap().to_owned();
        Listener { running, peer }
    }
}

/// A process under way. What it says is read at once, so that it never waits for us.
pub(crate) struct Running {
    child: Reaped,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
    seen: String,
}

/// A process that does not outlive its test.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Listener {
    pub(crate) running: Running,
    pub(crate) peer: String,
}

/// A process that has ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        // Nothing comes of an output that somebody else has.
        let stdout = child.stdout.take().map_or_else(|| mpsc::channel().1, lines_of);
        let stderr = child.stderr.take().map_or_else(|| mpsc::channel().1, lines_of);
        Self { child: Reaped(child), stdout, stderr, seen: String::new() }
    }

    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.0.stdin.take().unwrap()
    }

    /// The next line of standard output, as JSON; None at its end.
    pub(crate) fn line(&mut self) -> Option<Value> {
        let line = match self.stdout.recv_timeout(HANG) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the process says nothing"),
        };
        self.seen.push_str(&line);
        Some(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}")))
    }

    /// The next line of standard output that is of this type.
    pub(crate) fn line_of(&mut self, name: &str) -> Value {
        loop {
            let Some(line) = self.line() else {
                let errors: String = self.stderr.iter().collect();
                panic!("the process ended before it said {name:?}\n--- stderr\n{errors}");
            };
            if line["type"] == name {
                return line;
            }
        }
    }

    /// Waits for a line on standard error that has these words.
    pub(crate) fn says(&mut self, words: &str) -> String {
        loop {
            match self.stderr.recv_timeout(HANG) {
                Ok(line) if line.contains(words) => return line,
                Ok(_) => {}
                Err(error) => panic!("{error}: nobody says {words:?}"),
            }
        }
    }

    /// Waits for a line of standard output that has these words.
    #[cfg(unix)]
    pub(crate) fn hears(&mut self, words: &str) -> String {
        loop {
            match self.stdout.recv_timeout(HANG) {
                Ok(line) if line.contains(words) => return line,
                Ok(_) => {}
                Err(error) => panic!("{error}: nobody says {words:?}"),
            }
        }
    }

    #[cfg(unix)]
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child.0);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// As the power button does.
    pub(crate) fn kill(&mut self) {
        self.child.0.kill().unwrap();
    }

    /// Waits until it is gone, and what it held with it.
    pub(crate) fn wait(&mut self) {
        self.child.0.wait().unwrap();
    }

    /// Waits for the end and takes the rest of what is said.
    pub(crate) fn end(mut self) -> Ended {
        let mut rest = |lines: &mpsc::Receiver<String>, text: &mut String| loop {
            match lines.recv_timeout(HANG) {
                Ok(line) => text.push_str(&line),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.child.0.kill().unwrap();
                    panic!("the process hangs; so far it said:\n{text}");
                }
            }
        };
        let (mut stdout, mut stderr) = (self.seen, String::new());
        rest(&self.stdout, &mut stdout);
        rest(&self.stderr, &mut stderr);
        let code = self.child.0.wait().unwrap().code();
        Ended { code, stdout, stderr }
    }
}

fn lines_of(pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    lines_when_open(|| pipe)
}

fn lines_when_open<R: Read>(open: impl FnOnce() -> R + Send + 'static) -> mpsc::Receiver<String> {
    let (tell, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(open());
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let _ = tell.send(String::from_utf8_lossy(&line).into_owned());
            line.clear();
        }
    });
    lines
}

/// What a process says into a named pipe, for as long as it or anything that it started lives.
pub(crate) struct Voice(mpsc::Receiver<String>);

impl World {
    /// A named pipe.
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// The next one that opens the pipe of this name for writing.
    pub(crate) fn voice(&self, name: &str) -> Voice {
        let path = self.path(name);
        Voice(lines_when_open(move || std::fs::File::open(path).unwrap()))
    }

    /// A pipe of this name at which processes wait that read a line of it.
    pub(crate) fn gate(&self, name: &str) -> Gate {
        // Held open both ways: to open it, and to write to it, waits for nobody.
        let pipe = std::fs::OpenOptions::new().read(true).write(true).open(self.pipe(name));
        Gate(pipe.unwrap())
    }
}

/// Where processes wait.
pub(crate) struct Gate(std::fs::File);

impl Gate {
    /// Lets one go on: the one that waits, or the next that comes.
    pub(crate) fn open(&mut self) {
        self.0.write_all(b"\n").unwrap();
    }
}

impl Voice {
    /// The next line; None once nobody is left who could say something.
    pub(crate) fn line(&self) -> Option<String> {
        match self.0.recv_timeout(HANG) {
            Ok(line) => Some(line.trim().to_owned()),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("somebody is left, and says nothing"),
        }
    }
}

impl Ended {
    /// Fails unless it ended with this code.
    pub(crate) fn expect(self, code: i32) -> Self {
        let Self { stdout, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "\n--- stdout\n{stdout}\n--- stderr\n{stderr}");
        self
    }

    /// Standard output as JSON lines.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let parse = |line: &str| {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
            assert!(value.is_object(), "{line}");
            value
        };
        self.stdout.lines().map(parse).collect()
    }

    /// Lines of one type.
    pub(crate) fn of_type(&self, name: &str) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["type"] == name).collect()
    }

    /// The last line, which sums up.
    pub(crate) fn summary(&self) -> Value {
        let last = self.lines().pop().expect("a last line");
        assert_eq!(last["type"], "summary", "{last}");
        last
    }
}

/// Waits until `it` is so.
pub(crate) fn until(what: &str, mut it: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !it() {
        assert!(begun.elapsed() < HANG, "never: {what}");
        std::thread::yield_now();
    }
}

/// Reproducible noise.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_be_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// The files in a directory.
pub(crate) fn entries(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// As an argument.
pub(crate) fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}
