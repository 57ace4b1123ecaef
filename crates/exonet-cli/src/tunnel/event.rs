//! The events of a tunnel, and its totals.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::carry::Closed;
use super::keep::{Ending, Told, word};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::escape;
use crate::units::{self, Size, counted};

/// The origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// `-L`
    Local,
    /// `-R`
    Remote,
    /// `-D`
    Socks,
    /// `--stdio`
    Stdio,
    /// The connection comes from a near end.
    Peer,
}

/// An event.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Event {
    /// Connections are accepted here, or by the far end for `-R`.
    Listening {
        way: Way,
        bind: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// The other end has answered for the first time in this run.
    Ready {
        peer: String,
    },
    /// The other end no longer answers; below, it answers again.
    Away {
        seconds: f64,
    },
    Back {
        seconds: f64,
    },
    /// A near end has begun a run; below, it has ended the run.
    Joined {
        peer: String,
    },
    Left {
        peer: String,
        why: String,
    },
    /// A connection is established. `address` is the address that it leads to.
    Opened {
        id: u64,
        way: Way,
        peer: String,
        from: String,
        to: String,
        address: String,
    },
    /// A connection of a former run continues.
    Resumed {
        id: u64,
        way: Way,
        peer: String,
        from: String,
        to: String,
        address: String,
    },
    /// A connection has ended, or was never established.
    Closed {
        id: u64,
        way: Way,
        from: String,
        to: String,
        sent: u64,
        received: u64,
        why: &'static str,
        text: String,
        seconds: f64,
    },
    /// A problem that the user should know about.
    Trouble {
        text: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |peer: &str| peer.get(..8).unwrap_or(peer).to_owned();
        match self {
            Self::Listening { way: Way::Remote, bind, to } => {
                write!(f, "{bind} of the far end leads to {}", to.as_deref().unwrap_or_default())
            }
            Self::Listening { bind, to: Some(to), .. } => {
                write!(f, "{bind} leads to {to} as the far end sees it")
            }
            Self::Listening { bind, .. } => write!(f, "{bind} is a SOCKS5 server"),
            Self::Ready { peer } => write!(f, "{} answers", short(peer)),
            Self::Away { seconds } => {
                let span = units::span(Duration::from_secs_f64(*seconds));
                write!(f, "the other end does not answer for {span}: connections wait for it")
            }
            Self::Back { seconds } => {
                write!(
                    f,
                    "the other end answers again, after {}",
                    units::span(Duration::from_secs_f64(*seconds))
                )
            }
            Self::Joined { peer } => write!(f, "{}  joined", short(peer)),
            Self::Left { peer, why } => write!(f, "{}  {why}", short(peer)),
            Self::Opened { id, from, to, address, .. } => {
                let (from, to, address) =
                    (escape(from.as_bytes()), escape(to.as_bytes()), escape(address.as_bytes()));
                write!(f, "{id}  {from} to {to} ({address})")
            }
            Self::Resumed { id, from, to, .. } => {
                let (from, to) = (escape(from.as_bytes()), escape(to.as_bytes()));
                write!(f, "{id}  {from} to {to} continues")
            }
            Self::Closed { id, from, to, sent, received, text, seconds, .. } => {
                let (from, to) = (escape(from.as_bytes()), escape(to.as_bytes()));
                let (sent, received) = (Size(*sent), Size(*received));
                let span = units::span(Duration::from_secs_f64(*seconds));
                write!(f, "{id}  {from} to {to}: {text}; {sent} sent, {received} received, {span}")
            }
            Self::Trouble { text } => f.write_str(text),
        }
    }
}

/// Reports events. Clones report to the same listener.
#[derive(Clone, Debug)]
pub(crate) struct Tell {
    events: mpsc::UnboundedSender<Event>,
    next: Arc<AtomicU64>,
}

/// A connection whose events are reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Story {
    pub(crate) way: Way,
    pub(crate) peer: String,
    pub(crate) from: String,
    pub(crate) to: String,
}

/// A connection that has a number.
#[derive(Debug)]
pub(crate) struct Numbered {
    id: u64,
    story: Story,
    began: Instant,
    tell: Tell,
}

impl Tell {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (events, heard) = mpsc::unbounded_channel();
        (Self { events, next: Arc::default() }, heard)
    }

    pub(crate) fn say(&self, event: Event) {
        // The event is lost once the command has ended.
        let _ = self.events.send(event);
    }

    pub(crate) fn trouble(&self, text: impl Into<String>) {
        self.say(Event::Trouble { text: text.into() });
    }

    /// Gives a connection the next number.
    pub(crate) fn number(&self, story: Story) -> Numbered {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        Numbered { id, story, began: Instant::now(), tell: self.clone() }
    }
}

impl Numbered {
    pub(crate) fn story(&self) -> &Story {
        &self.story
    }

    pub(crate) fn opened(&self, address: String) {
        let Story { way, peer, from, to } = self.story.clone();
        self.tell.say(Event::Opened { id: self.id, way, peer, from, to, address });
    }

    pub(crate) fn resumed(&self, address: String) {
        let Story { way, peer, from, to } = self.story.clone();
        self.tell.say(Event::Resumed { id: self.id, way, peer, from, to, address });
    }

    /// Drops the seat of the connection when it has ended, and reports that.
    pub(crate) fn told(self, seat: impl Send + 'static) -> Told {
        Box::new(move |ending| {
            drop(seat);
            self.ended(ending);
        })
    }

    fn ended(self, ending: Ending) {
        let Story { way, from, to, .. } = self.story;
        self.tell.say(Event::Closed {
            id: self.id,
            way,
            from,
            to,
            sent: ending.sent,
            received: ending.received,
            why: word(&ending.why),
            text: ending.text,
            seconds: ending.seconds.max(self.began.elapsed().as_secs_f64()),
        });
    }

    /// Reports the end of the connection. `text`: the message for people.
    pub(crate) fn closed(self, closed: &Closed, text: String) {
        let Story { way, from, to, .. } = self.story;
        self.tell.say(Event::Closed {
            id: self.id,
            way,
            from,
            to,
            sent: closed.sent,
            received: closed.received,
            why: closed.why.word(),
            text,
            seconds: self.began.elapsed().as_secs_f64(),
        });
    }
}

/// The totals of a tunnel.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Totals {
    connections: u64,
    /// The number of these connections that were never established, or broke.
    failed: u64,
    sent: u64,
    received: u64,
}

impl Totals {
    /// Counts an event, and prints it.
    pub(crate) fn add(&mut self, settings: &Settings, event: &Event) -> Result<(), Failure> {
        match event {
            Event::Closed { sent, received, why, .. } => {
                self.connections += 1;
                self.failed += u64::from(*why != "ended");
                self.sent += sent;
                self.received += received;
                let refused = !matches!(
                    *why,
                    "ended" | "reset_here" | "reset_there" | "idle" | "stopping" | "restarted" | "left"
                );
                if settings.verbose || refused {
                    settings.note(event.to_string());
                }
            }
            Event::Opened { .. } | Event::Resumed { .. } | Event::Joined { .. } | Event::Left { .. } => {
                if settings.verbose {
                    settings.note(event.to_string());
                }
            }
            Event::Listening { .. } | Event::Away { .. } | Event::Back { .. } | Event::Ready { .. } => {
                settings.note(event.to_string());
            }
            Event::Trouble { text } => settings.error(text),
        }
        settings.output.line(event)
    }

    pub(crate) fn sum_up(
        &self,
        settings: &Settings,
        took: Duration,
        interrupted: bool,
    ) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Summary<'a> {
            r#type: &'static str,
            end: &'static str,
            #[serde(flatten)]
            totals: &'a Totals,
            seconds: f64,
        }
        let connections = counted(self.connections, "connection");
        let (sent, received) = (Size(self.sent), Size(self.received));
        settings.note(format!(
            "carried {connections}, {sent} there and {received} back, in {}",
            units::span(took)
        ));
        settings.output.line(&Summary {
            r#type: "summary",
            end: if interrupted { "interrupted" } else { "done" },
            totals: self,
            seconds: took.as_secs_f64(),
        })
    }
}
