//! RSocket with resumption: a program in Java, `java/`, which does the work of both ends by itself.

use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use super::super::{Peer, Setup, sessions_only};
use crate::app::{Meter, Work};

const NAME: &str = "rsocket";

pub(super) const PEER: Peer = Peer {
    name: NAME,
    label: "RSocket (Java)",
    tuning: "rsocket-java 1.1.5 over TCP, with `Resume` as it is by default at both ends: a connection and a request-channel \
             for each client; payloads are not copied; one event loop at either end; not encrypted. The JVM has no options and \
             compiles while it is measured: the warm-up is as long as that of the others, and its rates still rise after it",
    reliable: true,
    cannot: sessions_only,
    missing,
    run,
};

/// Where Maven leaves the classes, and those that they need.
const CLASSES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/java/target/classes");
const LIBRARIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/java/target/lib/*");

fn missing() -> Option<String> {
    let said = Command::new("java").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if said.is_err() {
        return Some("no java in PATH".into());
    }
    let made = std::path::Path::new(CLASSES).join("lab/Sessions.class").exists();
    (!made).then(|| "`mvn -f java/pom.xml compile` in the lab has not been run".into())
}

/// Is not called: [`Setup::other_program`] takes its place.
fn run(_: &Setup, _: &Arc<Meter>) -> Result<()> {
    bail!("it is a program of its own")
}

impl Setup {
    /// The program that takes the place of this process, for a peer that is not in Rust. It talks to the lab as
    /// [`crate::child`] does, so its counts, its processor time and its memory are its own.
    pub(crate) fn other_program(&self) -> Result<Option<Command>> {
        let (NAME, Work::Sessions { clients, work_ms }) = (self.peer.as_str(), self.work) else {
            return Ok(None);
        };
        let mut java = Command::new("java");
        java.args(["-cp", &format!("{CLASSES}:{LIBRARIES}"), "lab.Sessions"]);
        if self.is_server() {
            java.args(["server", &self.listen.ip().to_string(), &self.listen.port().to_string()]);
            java.arg(work_ms.to_string());
        } else {
            let (host, port) = self.server.rsplit_once(':').context("the server has said no port")?;
            java.args(["client", host, port, &self.bytes.to_string()]);
            java.args((0..clients).map(|n| self.client_address(n).to_string()));
        }
        Ok(Some(java))
    }
}
