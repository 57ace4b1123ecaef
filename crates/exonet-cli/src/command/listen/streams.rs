//! Streams whose messages are shown in order.

use std::convert::Infallible;

use exonet::error::Closed;
use exonet::stream::{StreamError, StreamListener, StreamReceiver};
use exonet::{Delivery, Node};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::escape;
use crate::units::counted;

/// The maximum number of streams that wait for their turn, with one message each.
const ABREAST: usize = 64;

/// An item that is read from a stream.
pub(super) enum Heard {
    /// The next message. The stream yields no other before this one is acknowledged or returned.
    Message(Delivery),
    Told(Event),
}

/// An event of a stream other than a message.
#[derive(Debug, Serialize)]
pub(super) struct Event {
    r#type: &'static str,
    from: String,
    stream: String,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<u64>,
    #[serde(skip)]
    text: String,
}

impl Event {
    fn new(lines: &StreamReceiver, what: Result<(), StreamError>) -> Self {
        let (event, messages) = match what {
            Ok(()) => ("ended", None),
            Err(StreamError::Missing(n)) => ("missing", Some(n)),
            Err(StreamError::Continues(n)) => ("continues", Some(n)),
            Err(StreamError::Reset) => ("reset", None),
            Err(_) => ("broken", None),
        };
        let (from, name) = (lines.peer().id(), escape(lines.name()));
        let told = match what {
            Ok(()) => "has ended".to_owned(),
            Err(StreamError::Missing(n)) => format!("lacks {} here", counted(n, "message")),
            Err(StreamError::Continues(n)) => {
                format!("continues: {} came before this process", counted(n, "message"))
            }
            Err(StreamError::Reset) => "was given up by its sender".to_owned(),
            Err(error) => format!("has ended: {error}"),
        };
        let text = format!("stream {name} of {} {told}", from.short());
        let stream = String::from_utf8_lossy(lines.name()).into_owned();
        Self { r#type: "stream", from: from.to_string(), stream, event, messages, text }
    }

    pub(super) fn tell(&self, settings: &Settings) -> Result<(), Failure> {
        settings.note(&self.text);
        settings.output.line(self)
    }
}

/// Reads all streams of a name, one message of each at a time. None: no name was given.
pub(super) fn read(node: &Node, name: Option<&str>) -> Result<mpsc::Receiver<Heard>, Failure> {
    let (tell, heard) = mpsc::channel(ABREAST);
    if let Some(name) = name {
        let wrong = |error| Failure::new(format!("cannot take streams of the name {name:?}")).because(&error);
        let listener = node.stream_listener(name.to_owned()).map_err(wrong)?;
        tokio::spawn(accept(listener, tell));
    }
    Ok(heard)
}

async fn accept(listener: StreamListener, tell: mpsc::Sender<Heard>) {
    loop {
        let stream = tokio::select! {
            stream = listener.accept() => stream,
            () = tell.closed() => return,
        };
        let Ok(stream) = stream else { return };
        tokio::spawn(follow(stream.split().1, tell.clone()));
    }
}

/// Refuses all sessions, and the streams that no listener accepts, until the node is closed.
pub(in crate::command) async fn refuse(node: &Node) -> Result<Infallible, Closed> {
    let streams = async {
        loop {
            let lines = node.accept_stream().await?.split().1;
            let name = escape(lines.name());
            lines.stop(format!("no --stream {name} here"));
        }
    };
    tokio::select! {
        end = streams => end,
        end = refuse_sessions(node) => end,
    }
}

/// Refuses the sessions that no listener accepts, until the node is closed.
pub(in crate::command) async fn refuse_sessions(node: &Node) -> Result<Infallible, Closed> {
    loop {
        let session = node.accept_session().await?;
        let name = escape(session.name());
        session.refuse(format!("no session {name:?} is served here"));
    }
}

/// Reads until the stream has ended, or the receiver of `tell` is dropped.
async fn follow(mut lines: StreamReceiver, tell: mpsc::Sender<Heard>) {
    loop {
        let next = tokio::select! {
            next = lines.recv() => next,
            () = tell.closed() => return,
        };
        let (heard, over) = match next {
            Ok(Some(delivery)) => (Heard::Message(delivery), false),
            Ok(None) => (Heard::Told(Event::new(&lines, Ok(()))), true),
            Err(StreamError::Closed) => return,
            Err(error) => {
                let goes_on = matches!(error, StreamError::Missing(_) | StreamError::Continues(_));
                (Heard::Told(Event::new(&lines, Err(error))), !goes_on)
            }
        };
        if tell.send(heard).await.is_err() || over {
            return;
        }
    }
}
