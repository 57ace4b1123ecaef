//! The event trace: lines of JSON in the style of qlog, with `time` in ms since the start, `name` and `data`.

use core::fmt::Write;

use exonet_proto::node::{Conflict, Event, Stats};
use exonet_proto::{Mono, NodeId, Now};

/// How many bytes may wait for the driver. Lines beyond that are dropped and counted.
const CAPACITY: usize = 1 << 20;

/// Lines that wait for the driver, since no thread writes to the sink under the lock.
pub(crate) struct Trace {
    start: Mono,
    lines: String,
    dropped: u64,
}

impl Trace {
    pub(crate) fn new(now: Now, id: NodeId) -> Self {
        let mut trace = Self { start: now.mono, lines: String::new(), dropped: 0 };
        let (version, wall) = (env!("CARGO_PKG_VERSION"), now.wall.0);
        trace.line(
            now,
            "started",
            format_args!(r#"{{"node":"{id}","version":"{version}","wall_ns":{wall}}}"#),
        );
        trace
    }

    /// Notes an event of the core, if the trace reports events of its kind.
    pub(crate) fn event(&mut self, now: Now, event: &Event) {
        match event {
            Event::Outcome { outcome, id: Some(id), late, count, .. } => {
                for s in (id.s.0..).take(*count as usize) {
                    self.line(
                        now,
                        "outcome",
                        format_args!(
                            r#"{{"outcome":"{outcome:?}","sender":"{}","r":{},"s":{s},"late":{late}}}"#,
                            id.sender, id.r.0
                        ),
                    );
                }
            }
            Event::Outcome { outcome, id: None, count, .. } => {
                for _ in 0..*count {
                    self.line(now, "outcome", format_args!(r#"{{"outcome":"{outcome:?}"}}"#));
                }
            }
            Event::Reason { id, reason } => {
                let reason = reason.escape_default();
                self.line(
                    now,
                    "reason",
                    format_args!(
                        r#"{{"sender":"{}","r":{},"s":{},"reason":"{reason}"}}"#,
                        id.sender, id.r.0, id.s.0
                    ),
                );
            }
            Event::Authorize { id, remote } => self.peer_at(now, "asked", id, remote),
            Event::Refused { peer, remote } => self.peer_at(now, "refused", peer, remote),
            Event::Away { peer, .. } => self.peer(now, "away", peer),
            Event::Back { peer } => self.peer(now, "back", peer),
            Event::Connected { peer, remote, .. } => self.peer_at(now, "connected", peer, remote),
            Event::Forgotten { peer } => self.peer(now, "forgotten", peer),
            Event::IdentityConflict { peer, whose: Conflict::Theirs } => {
                self.peer(now, "identity_conflict", peer);
            }
            Event::IdentityConflict { peer, whose: Conflict::Moved } => {
                self.peer(now, "identity_moved", peer);
            }
            Event::IdentityConflict { peer, whose: Conflict::Ours } => {
                self.peer(now, "own_identity_conflict", peer);
            }
            Event::Pong { peer, rtt, .. } => {
                let rtt = rtt.map_or(-1.0, |rtt| rtt.as_secs_f64() * 1e3);
                self.line(now, "pong", format_args!(r#"{{"peer":"{peer}","rtt_ms":{rtt:.3}}}"#));
            }
            Event::Stopped => self.line(now, "write_failed", format_args!("{{}}")),
            Event::Reply { .. }
            | Event::Called { .. }
            | Event::Stream { .. }
            | Event::Readable
            | Event::Sendable { .. }
            | Event::BodyWritable { .. }
            | Event::BodyReadable { .. } => {}
        }
    }

    /// Notes the figures of the node.
    pub(crate) fn stats(&mut self, now: Now, stats: &Stats) {
        let mut data = String::new();
        for figure in Stats::FIGURES {
            let comma = if data.is_empty() { "" } else { "," };
            // Writing to a String does not fail.
            let _ = write!(data, r#"{comma}"{}":{}"#, figure.name, (figure.of)(stats));
        }
        self.line(now, "stats", format_args!("{{{data}}}"));
    }

    /// Moves the waiting lines to `lines`, which is empty.
    pub(crate) fn take(&mut self, now: Now, lines: &mut String) {
        if self.dropped > 0 {
            let dropped = core::mem::take(&mut self.dropped);
            self.write(now, "lines_dropped", format_args!(r#"{{"lines":{dropped}}}"#));
        }
        core::mem::swap(&mut self.lines, lines);
    }

    fn peer(&mut self, now: Now, name: &str, id: &NodeId) {
        self.line(now, name, format_args!(r#"{{"peer":"{id}"}}"#));
    }

    fn peer_at(&mut self, now: Now, name: &str, id: &NodeId, remote: &core::net::SocketAddr) {
        self.line(now, name, format_args!(r#"{{"peer":"{id}","remote":"{remote}"}}"#));
    }

    fn line(&mut self, now: Now, name: &str, data: core::fmt::Arguments<'_>) {
        if self.lines.len() >= CAPACITY {
            self.dropped += 1;
            return;
        }
        self.write(now, name, data);
    }

    fn write(&mut self, now: Now, name: &str, data: core::fmt::Arguments<'_>) {
        let time = now.mono.since(self.start).as_secs_f64() * 1e3;
        // Writing to a String does not fail.
        let _ = writeln!(self.lines, r#"{{"time":{time:.3},"name":"exonet:{name}","data":{data}}}"#);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_and_said() {
        let id = NodeId([1; 32]);
        let mut trace = Trace::new(Now::default(), id);
        for _ in 0..CAPACITY / 64 {
            trace.event(Now::default(), &Event::Forgotten { peer: id });
        }
        let dropped = trace.dropped;
        assert!(dropped > 0);
        let mut lines = String::new();
        trace.take(Now::default(), &mut lines);
        assert!(lines.len() < CAPACITY + 512, "bounded");
        assert!(
            lines.ends_with(&format!(r#""data":{{"lines":{dropped}}}}}{}"#, '\n')),
            "{}",
            &lines[lines.len() - 90..]
        );
        assert!(
            lines.starts_with(r#"{"time":0.000,"name":"exonet:started","data":{"node":""#),
            "{}",
            &lines[..90]
        );
        trace.take(Now::default(), &mut String::new());
        assert_eq!(trace.dropped, 0);
    }
}
