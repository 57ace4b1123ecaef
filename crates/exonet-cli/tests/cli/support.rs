//! Running `exon` as people do: as processes with arguments, pipes, signals and exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes: a test that hangs fails then, and the next ones run.
const HANG: Duration = Duration::from_secs(120);

/// A place with identities of its own.
pub(crate) struct World {
    directory: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
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
        let args = [&["listen", "--json", "--bind", "127.0.0.1:0"], args].concat();
        let mut running = Running::start(self.command(&args));
        let first = running.line().expect("a listener says where it is");
        assert_eq!(first["type"], "listening", "{first}");
        let peer = first["peer"].as_str().unwrap().to_owned();
        Listener { running, peer }
    }
}

/// A process under way.
pub(crate) struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: mpsc::Receiver<String>,
    seen: String,
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
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut pipe = child.stderr.take().unwrap();
        let (tell, stderr) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.read_to_end(&mut text);
            let _ = tell.send(String::from_utf8_lossy(&text).into_owned());
        });
        Self {
            child,
            stdout,
            stderr,
            seen: String::new(),
        }
    }

    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// The next line of standard output, as JSON; None at its end.
    pub(crate) fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        self.seen.push_str(&line);
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}")))
    }

    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// As the power button does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for the end and takes the rest of what is said.
    pub(crate) fn end(mut self) -> Ended {
        let pid = self.child.id();
        let (tell, ended) = mpsc::channel();
        let mut stdout = self.stdout;
        let mut seen = self.seen;
        std::thread::spawn(move || {
            let mut rest = Vec::new();
            let _ = stdout.read_to_end(&mut rest);
            seen.push_str(&String::from_utf8_lossy(&rest));
            let _ = tell.send((self.child.wait().unwrap().code(), seen));
        });
        let (code, stdout) = ended.recv_timeout(HANG).unwrap_or_else(|_| {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            panic!("the process hangs");
        });
        let stderr = self.stderr.recv_timeout(HANG).unwrap_or_default();
        Ended { code, stdout, stderr }
    }
}

impl Ended {
    /// Fails unless it ended with this code.
    pub(crate) fn expect(self, code: i32) -> Self {
        let Self { stdout, stderr, .. } = &self;
        assert_eq!(
            self.code,
            Some(code),
            "\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        );
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
        self.lines()
            .into_iter()
            .filter(|line| line["type"] == name)
            .collect()
    }

    /// The last line, which sums up.
    pub(crate) fn summary(&self) -> Value {
        let last = self.lines().pop().expect("a last line");
        assert_eq!(last["type"], "summary", "{last}");
        last
    }
}

/// Reproducible noise.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new()
        .update(&seed.to_be_bytes())
        .finalize_xof()
        .fill(&mut bytes);
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
