//! Starts `exon up` again, in a session of its own.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::control::Client;
use crate::control::protocol::Places;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;

/// The file in the directory of the identity that has the output of the process.
const LOG: &str = "up.log";
/// The time limit for the start: a journal of millions of messages takes seconds to read.
const START: Duration = Duration::from_secs(120);
/// The interval between two checks whether the process runs.
const AGAIN: Duration = Duration::from_millis(20);

/// Returns when the process runs and answers. Its output goes to a file.
pub(super) async fn detach(settings: &Settings) -> Result<Exit, Failure> {
    let identity = &settings.identity;
    if let Some(process) = Client::find(identity).await? {
        let who = format!("exon {} (process {})", process.command, process.pid);
        let failure = Failure::new(format!("identity {identity} is in use by {who}"));
        return Err(failure.hint("to use another identity: --as NAME"));
    }
    let Some(directory) = identity.directory() else {
        return Err(Failure::new("a temporary identity cannot run in the background"));
    };
    let path = directory.join(LOG);
    let log = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&path);
    let log = log.map_err(|e| Failure::path("write", &path, &e))?;
    let mut child = start(log)?;
    let until = Instant::now() + START;
    loop {
        if let Some(process) = Client::find(identity).await?.filter(|process| process.pid == child.id()) {
            return announce(settings, &process, &path);
        }
        let ended = child.try_wait().map_err(|e| Failure::new("cannot wait for the process").because(&e))?;
        if let Some(status) = ended {
            let said = std::fs::read_to_string(&path).unwrap_or_default();
            let said = said.trim().replace('\n', "\n      ");
            return Err(Failure::new(format!("exon up has ended ({status})")).hint(said));
        }
        if Instant::now() >= until {
            let failure = Failure::new(format!("process {} does not answer yet", child.id()));
            return Err(failure.hint(format!("it goes on; its output is in {}", path.display())));
        }
        sleep(AGAIN).await;
    }
}

fn start(log: File) -> Result<Child, Failure> {
    let failed = |e: &std::io::Error| Failure::new("cannot start exon up").because(e);
    let exon = std::env::current_exe().map_err(|e| failed(&e))?;
    let args =
        std::env::args_os().skip(1).map(|arg| if arg == "--detach" { "--session".into() } else { arg });
    let mut command = Command::new(exon);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(|e| failed(&e))
}

fn announce(settings: &Settings, process: &Client, log: &Path) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Up<'a> {
        r#type: &'static str,
        id: &'a str,
        identity: String,
        pid: u32,
        log: String,
        #[serde(flatten)]
        places: &'a Places,
    }
    let (identity, pid, options) = (&settings.identity, process.pid, settings.identity.options());
    settings.note(format!("the node of identity {identity} runs in the background (process {pid}); to end it: exon down{options}"));
    let Places { http, http_token, metrics, .. } = &*process.places;
    if let Some((http, token)) = http.as_ref().zip(http_token.as_ref()) {
        settings.note(format!("HTTP at {http}; each request needs the token in {token}"));
    }
    if let Some(metrics) = metrics {
        settings.note(format!("metrics for Prometheus at {metrics}"));
    }
    settings.output.line(&Up {
        r#type: "up",
        id: &process.id,
        identity: identity.to_string(),
        pid,
        log: log.display().to_string(),
        places: &process.places,
    })?;
    Ok(Exit::Success)
}
