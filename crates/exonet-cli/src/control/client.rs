//! The client side of the control socket.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::time::timeout;

use super::protocol::{Envelope, LONGEST_BODY, PIECE, Part, Places, Reply, Request, VERSION};
use super::wire::{Lines, say};
use super::{place, wire};
use crate::failure::Failure;
use crate::identity::Identity;
use crate::units::Size;

/// The time limit for the first answer of the process. It answers at once, or hangs.
const HELLO: Duration = Duration::from_secs(10);

/// A process that runs the identity.
#[derive(Debug)]
pub(crate) struct Client {
    identity: Identity,
    /// The command that it runs.
    pub(crate) command: String,
    pub(crate) pid: u32,
    /// The id of its node.
    pub(crate) id: String,
    /// Its durability, as `--durability` has it.
    pub(crate) durability: String,
    /// It accepts messages.
    pub(crate) takes: bool,
    /// It retries dead letters.
    pub(crate) works: bool,
    pub(crate) places: Box<Places>,
}

impl Client {
    /// Finds the process that runs `identity`. None: no process runs it, or the process has no control socket.
    ///
    /// # Errors
    /// A process runs it, and its answer cannot be understood.
    pub(crate) async fn find(identity: &Identity) -> Result<Option<Self>, Failure> {
        let Some(connection) = connect(identity).await? else { return Ok(None) };
        // What the system says of it, rather than what the process says of itself.
        let known = connection.stream.peer_cred().ok().and_then(|peer| u32::try_from(peer.pid()?).ok());
        let known = known.filter(|pid| *pid > 0);
        if connection.foreign && known.is_none() {
            let text = "the system does not say which process of the other user runs identity";
            return Err(Failure::new(format!("{text} {identity}")));
        }
        let asked = timeout(HELLO, async {
            let mut hearer = connection.ask(Request::Status).await?;
            let first = hearer.next().await;
            let Some(Reply::Node { command, pid, id, durability, takes, works, places, .. }) = first? else {
                return Ok(None);
            };
            let pid = known.unwrap_or(pid);
            Ok(Some(Self { identity: identity.clone(), command, pid, id, durability, takes, works, places }))
        });
        let hangs = |_| Failure::new(format!("the process that runs identity {identity} does not answer"));
        asked.await.map_err(hangs)?
    }

    /// Sends a request. The result reads the answer to its end.
    pub(crate) async fn ask(&self, request: Request) -> Result<Hearer, Failure> {
        self.reach().await?.ask(request).await
    }

    /// Begins to hand messages over.
    pub(crate) async fn give(&self, request: Request) -> Result<(Giver, Hearer), Failure> {
        self.reach().await?.give(request).await
    }

    async fn reach(&self) -> Result<Connection, Failure> {
        connect(&self.identity).await?.ok_or_else(|| gone(&self.identity))
    }
}

/// Connects to the process. None: no process listens.
async fn connect(identity: &Identity) -> Result<Option<Connection>, Failure> {
    let Identity::Stored { path, .. } = identity else { return Ok(None) };
    if !identity.is_there()? {
        return Ok(None);
    }
    // If no path for a socket can be found, there is no socket.
    let Ok(socket) = place::of(path, place::CONTROL) else { return Ok(None) };
    match UnixStream::connect(&socket).await {
        // In a directory that others can write to, another user may have created the socket.
        Ok(stream) if !wire::is_trusted(&stream, place::owner(path)?) => {
            let failure =
                Failure::new(format!("the control socket {} belongs to another user", socket.display()));
            Err(failure.hint("set XDG_RUNTIME_DIR to a directory of your own"))
        }
        Ok(stream) => {
            let foreign = wire::is_foreign(&stream);
            Ok(Some(Connection { identity: identity.clone(), stream, foreign }))
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(error) => Err(Failure::path("reach the control socket", &socket, &error)),
    }
}

fn gone(identity: &Identity) -> Failure {
    Failure::new(format!(
        "the process that runs identity {identity} has ended meanwhile, or too many commands ask it"
    ))
    .hint("repeat the command")
}

struct Connection {
    identity: Identity,
    stream: UnixStream,
    foreign: bool,
}

impl Connection {
    async fn ask(self, request: Request) -> Result<Hearer, Failure> {
        self.give(request).await.map(|(giver, mut hearer)| {
            // The write half stays open, so that the process does not think that the client has left.
            hearer.held = Some(giver);
            hearer
        })
    }

    async fn give(self, request: Request) -> Result<(Giver, Hearer), Failure> {
        let (from, mut to) = self.stream.into_split();
        let said = say(&mut to, &Envelope { exon: VERSION, request }).await;
        said.map_err(|_| gone(&self.identity))?;
        let lines = if self.foreign { Lines::foreign(from) } else { Lines::new(from) };
        let hearer = Hearer { identity: self.identity, lines, held: None };
        Ok((Giver { to }, hearer))
    }
}

/// Reads the answer.
#[derive(Debug)]
pub(crate) struct Hearer {
    identity: Identity,
    lines: Lines,
    held: Option<Giver>,
}

impl Hearer {
    /// The next line, or None at the end of the answer.
    ///
    /// # Errors
    /// The answer is an error, or the process ends before the answer does.
    pub(crate) async fn next(&mut self) -> Result<Option<Reply>, Failure> {
        match self.hear().await {
            Heard::Reply(reply) => Ok(Some(reply)),
            Heard::Done => Ok(None),
            Heard::Failed(failure) => Err(failure),
            Heard::Gone => Err(gone(&self.identity)),
        }
    }

    /// As [`Self::next`], for callers that distinguish the errors. Cancel-safe.
    pub(crate) async fn hear(&mut self) -> Heard {
        match self.lines.next().await {
            Ok(Some(Reply::Done)) => Heard::Done,
            Ok(Some(Reply::Error { error, hint })) => {
                let failure = Failure::new(error);
                Heard::Failed(match hint {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                })
            }
            Ok(Some(reply)) => Heard::Reply(reply),
            Ok(None) => Heard::Gone,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let failure =
                    Failure::new("cannot understand the answer of the process that runs the identity");
                Heard::Failed(
                    failure.because(&error).hint("start it again with the `exon` that is installed now"),
                )
            }
            Err(_) => Heard::Gone,
        }
    }
}

/// A part of the answer, or its end.
#[derive(Debug)]
pub(crate) enum Heard {
    Reply(Reply),
    Done,
    Failed(Failure),
    /// The process has ended.
    Gone,
}

/// Hands messages over.
#[derive(Debug)]
pub(crate) struct Giver {
    to: OwnedWriteHalf,
}

impl Giver {
    /// Sends a message. Waits while the process accepts nothing. False: the process has ended.
    ///
    /// # Errors
    /// The body is too long.
    pub(crate) async fn message(&mut self, body: Vec<u8>) -> Result<bool, Failure> {
        if body.len() > LONGEST_BODY {
            return Err(too_long());
        }
        let body =
            if body.len() > PIECE { Err(body) } else { String::from_utf8(body).map_err(|e| e.into_bytes()) };
        let bytes = match body {
            Ok(text) => return Ok(say(&mut self.to, &Part::Text(text)).await.is_ok()),
            Err(bytes) => bytes,
        };
        let mut left = bytes.len().div_ceil(PIECE);
        for piece in bytes.chunks(PIECE) {
            left -= 1;
            let part = Part::Bytes { base64: BASE64.encode(piece), more: left > 0 };
            if say(&mut self.to, &part).await.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Tells the process that there are no more messages. False: the process has ended.
    pub(crate) async fn end(&mut self) -> bool {
        say(&mut self.to, &Part::End).await.is_ok()
    }
}

/// The error for a body that is too long to be handed over.
pub(crate) fn too_long() -> Failure {
    let limit = Size(LONGEST_BODY as u64);
    Failure::new(format!("a message is longer than {limit}, the most that `exon up` takes")).hint(
        "a longer one is read while it is sent, and no journal keeps it: send it as another identity, or \
         without one",
    )
}
