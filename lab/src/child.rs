//! The process of a peer: one end of a connection, and a line to who started it.
//!
//! Out, a JSON object a line: `{"ready": SERVER}` once, `{"mark": MARK}` whenever asked, `{"failed": WHY}` at the end.
//! In, a word a line: `mark`; `reset`, which forgets latencies and marks; `start`, before which some begin nothing; `stop`, after which nothing new begins, and
//! marks. The end of input is the end of the process.

use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::sync::Arc;

use anyhow::Result;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use crate::app::Meter;
use crate::peer::{self, Setup};

/// Open files that a process may have where root grants it.
const FILES: u64 = 65_536;

/// Says one thing to who started the process.
pub(crate) fn say(key: &str, value: &impl Serialize) {
    let line = serde_json::json!({ key: value });
    let mut out = std::io::stdout().lock();
    // Nobody listens any more only if the process is about to end.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Runs the end that `setup` describes, for ever.
pub(crate) fn main(setup: &str) -> Result<()> {
    let setup: Setup = serde_json::from_str(setup)?;
    // Thousands of connections have as many sockets, and some a timer and a poller each.
    if setrlimit(Resource::RLIMIT_NOFILE, FILES, FILES).is_err() {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
        setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    }
    if let Some(mut program) = setup.other_program()? {
        let error = program.exec();
        say("failed", &format!("cannot start {}: {error}", program.get_program().display()));
        return Err(error.into());
    }
    // Peers bring two providers of cryptography with them, of which some find none by themselves then.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let meter = Arc::new(Meter::new());
    let listening = Arc::clone(&meter);
    std::thread::Builder::new().name("line".into()).spawn(move || listen(&listening))?;
    let ended = peer::run(&setup, &meter);
    if let Err(error) = &ended {
        say("failed", &format!("{error:#}"));
    }
    ended
}

fn listen(meter: &Meter) {
    for word in std::io::stdin().lock().lines().map_while(Result::ok) {
        match word.as_str() {
            "reset" => meter.forget_latencies(),
            "start" => meter.start(),
            "stop" => meter.stop(),
            _ => (),
        }
        say("mark", &meter.mark());
    }
    std::process::exit(0);
}
