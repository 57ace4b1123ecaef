//! A run of `exon get`, from one server that shares a file or from several.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;

use super::disk::Disk;
use super::record::Record;
use super::{PORT, Plan};
use crate::app::Servers;
use crate::net::{Namespace, Star};

/// The longest that a download may take.
const PATIENCE: Duration = Duration::from_secs(180);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(2);
const NAME: &str = "film";

/// The `exon` binary: the one that `EXON` names, or the project's release build.
fn command() -> PathBuf {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/exon");
    std::env::var_os("EXON").map_or_else(|| built.into(), PathBuf::from)
}

fn missing() -> String {
    format!(
        "cannot start {}: `cargo build --release` in the project makes it, EXON names another",
        command().display()
    )
}

/// A process that is killed when this is dropped, or when the lab dies.
struct Running {
    child: Child,
    /// Kept open: a process that writes to a closed pipe dies.
    out: Option<BufReader<ChildStdout>>,
}

impl Running {
    fn start(host: &Namespace, words: &[String], at: &Path) -> Result<Self> {
        let mut command = Command::new(command());
        command.args(words).current_dir(at).stdout(Stdio::piped()).stderr(Stdio::piped());
        let dies_with_us = || nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(Into::into);
        // SAFETY: the closure makes one system call, and allocates nothing.
        unsafe { command.pre_exec(dies_with_us) };
        let mut child = host.enter(move || command.spawn())?.with_context(missing)?;
        let out = child.stdout.take().map(BufReader::new);
        Ok(Self { child, out })
    }

    /// The address of a server, from the first line of its output.
    fn address(&mut self) -> Result<String> {
        let out = self.out.as_mut().context("a process without output")?;
        for line in out.lines() {
            let said: serde_json::Value = serde_json::from_str(&line?)?;
            if let Some(address) = said.get("peer").and_then(|it| it.as_str()) {
                return Ok(address.to_owned());
            }
        }
        bail!("`exon share` does not say where it is")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Plan {
    /// Measures from the start of `exon get` to its end.
    pub(super) fn download(&self, megabytes: u32, servers: Servers) -> Result<Vec<Record>> {
        let [peer] = self.flows.as_slice() else { bail!("a download is of one peer") };
        let star = Star::new(&self.spokes, self.seed)?;
        let disk = Disk::new()?;
        let bytes = u64::from(megabytes) * 1_000_000;
        let mut content = vec![0; usize::try_from(bytes)?];
        fastrand::Rng::with_seed(self.seed).fill(&mut content);
        let shared = disk.path().join("shared");
        std::fs::create_dir_all(&shared)?;
        std::fs::write(shared.join(NAME), &content)?;
        let (mut running, mut words) =
            (Vec::new(), vec!["get".to_owned(), NAME.into(), "--out".into(), "got".into()]);
        let first = if servers == Servers::Slowest { star.members.len().saturating_sub(1) } else { 0 };
        let count =
            if matches!(servers, Servers::Fastest | Servers::Slowest) { 1 } else { star.members.len() };
        for (host, n) in star.members.iter().zip(0_u8..).skip(first).take(count) {
            let at = format!("{}:{PORT}", Star::member_ip(n));
            let state = format!("state{n}");
            let share = ["share", "shared", "--anyone", "--json", "--bind", &at, "--state", &state];
            let share = share.map(str::to_owned);
            let mut server = Running::start(host, &share, disk.path())?;
            words.extend(["--from".to_owned(), server.address()?]);
            running.push(server);
        }
        star.links.iter().for_each(|link| drop(link.take_stats()));
        let began = Instant::now();
        let mut get = Running::start(&star.client, &words, disk.path())?;
        let mut brought = 0;
        let ended = loop {
            if let Some(ended) = get.child.try_wait()? {
                break ended;
            }
            brought += star.links.iter().map(|link| link.take_stats()[1].bytes).sum::<u64>();
            if servers == Servers::FastestDies && brought > bytes / 2 && running.len() == count {
                // The fastest is the first.
                running.drain(..running.len().min(1)).for_each(drop);
            }
            ensure!(began.elapsed() < PATIENCE, "no end within {} s", PATIENCE.as_secs());
            std::thread::sleep(LOOK);
        };
        let took = began.elapsed().as_secs_f64();
        if !ended.success() {
            let mut why = String::new();
            get.child.stderr.take().map(|mut it| it.read_to_string(&mut why)).transpose()?;
            bail!("`exon get` has failed: {ended}: {why}");
        }
        let got = std::fs::read(disk.path().join("got"))?;
        let fault = (got != content).then(|| "the file that came is another".to_owned());
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let (rate, wire) = (bytes as f64 / took / 1e6, brought as f64 / bytes as f64);
        let peer = peer.name.to_owned();
        Ok(vec![Record { peer, rate, wire_bytes_each: Some(wire), fault, ..Record::default() }])
    }
}
