//! A running part, whose output is read line by line.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use exonet_store::laboratory::PLAN;

/// One of the two machines of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Sender,
    Receiver,
}

/// A line of a life, or its end.
pub(crate) struct Heard {
    pub(crate) side: Side,
    /// The number of the life on that side.
    pub(crate) life: usize,
    pub(crate) line: Option<String>,
}

/// One life of a process.
pub(crate) struct Life {
    child: Child,
    listener: Option<JoinHandle<()>>,
}

impl Life {
    /// Starts a part with these arguments, and with faults. Its output goes to `hears`, followed by its end.
    pub(crate) fn begin(
        (side, life): (Side, usize),
        args: &[String],
        plan: &str,
        hears: Sender<Heard>,
    ) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("part")
            .args(args)
            .env(PLAN, plan)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let listener = child.stdout.take().map(|out| {
            std::thread::spawn(move || {
                let (mut out, mut line) = (BufReader::new(out), String::new());
                // A line without an end was cut off by a kill, and does not count.
                while out.read_line(&mut line).is_ok() && line.ends_with('\n') {
                    let line = std::mem::take(&mut line);
                    let _ = hears.send(Heard { side, life, line: Some(line.trim_end().to_owned()) });
                }
                let _ = hears.send(Heard { side, life, line: None });
            })
        });
        Ok(Self { child, listener })
    }

    /// Kills the process, if it is alive. All its output has been sent when this returns.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.end();
    }
}
