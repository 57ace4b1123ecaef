//! One kept connection with its socket and its link.

use std::future::pending;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::frame::{Frame, MOST_DATA};
use super::machine::{End, Machine};
use super::say::Ending;
use super::way::Give;
use crate::tunnel::{BEAT, HANDSHAKE};
use crate::units;

/// The number of bytes that wait for the link, from which on no frames are made.
const MOST_OUT: usize = 64 << 10;

/// What may happen to a connection from outside.
#[derive(Debug)]
pub(super) enum Command {
    /// A new link. The former one is of no further use.
    Link(UnixStream),
    /// Break the connection, for the reason of this word and text. With `forget`, the other end need not be told.
    Break { word: &'static str, text: String, forget: bool },
    /// This process ends the connection, and is gone with the link.
    Stop,
    /// A new run is there: how long it keeps connections.
    Renew(Duration),
}

/// The program at this end.
pub(super) struct Program<R, W> {
    pub(super) reader: R,
    pub(super) writer: W,
}

struct Link {
    stream: UnixStream,
    heard: BytesMut,
    out: BytesMut,
    /// What comes is no longer listened to.
    deaf: bool,
}

type Writing<W> = Pin<Box<dyn Future<Output = (W, io::Result<u64>)> + Send>>;

struct Connection<R, W> {
    machine: Machine,
    reader: Option<R>,
    writer: Option<W>,
    writing: Option<Writing<W>>,
    buffer: BytesMut,
    link: Option<Link>,
    keep: Duration,
    /// When a connection without a link ends, and one that has ended is forgotten.
    deadline: Instant,
    stopping: bool,
    began: Instant,
}

/// Whether the connection goes on.
#[derive(PartialEq, Eq)]
enum Next {
    On,
    Forget,
}

/// Keeps a connection until both ends know of its end, or nobody comes for it. `told` gets its end, and whether the
/// program here has received everything. Returns the last link, for [`part`].
pub(super) async fn keep<R, W>(
    program: Program<R, W>,
    window: usize,
    keep: Duration,
    mut commands: mpsc::UnboundedReceiver<Command>,
    told: impl FnOnce(Ending, bool),
) -> Option<UnixStream>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let now = Instant::now();
    let mut connection = Connection {
        machine: Machine::new(window),
        reader: Some(program.reader),
        writer: Some(program.writer),
        writing: None,
        buffer: BytesMut::new(),
        link: None,
        keep,
        deadline: now + keep,
        stopping: false,
        began: now,
    };
    let mut told = Some(told);
    loop {
        let next = connection.step(&mut commands).await;
        if connection.machine.end().is_some()
            && let Some(told) = told.take()
        {
            (connection.reader, connection.writer, connection.writing) = (None, None, None);
            connection.deadline = Instant::now() + connection.keep.max(BEAT * 2);
            told(connection.ending(), connection.machine.gave_all());
        }
        if next == Next::Forget {
            break;
        }
    }
    connection.link.map(|link| link.stream)
}

/// Ends a link when nothing is left of its connection. The process that carries the link gets all of it, and does not
/// see it break.
pub(super) async fn part(mut link: UnixStream) {
    let parted = async {
        link.shutdown().await?;
        tokio::io::copy(&mut link, &mut tokio::io::sink()).await
    };
    // If the other process does not end its side, nothing is lost.
    let _ = timeout(HANDSHAKE, parted).await;
}

impl<R, W> Connection<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    fn ending(&self) -> Ending {
        let (sent, received) = self.machine.totals();
        let (why, text) = match self.machine.end() {
            Some(End::Here(word @ "reset_here", reason)) => (*word, format!("broken at this end: {reason}")),
            Some(End::Here(word, reason)) => (*word, reason.clone()),
            Some(End::There(reason)) => ("reset_there", format!("broken at the other end: {reason}")),
            Some(End::Well) | None => ("ended", "ended".to_owned()),
        };
        Ending { sent, received, why: why.to_owned(), text, seconds: self.began.elapsed().as_secs_f64() }
    }

    /// Begins to give the program and the other end what there is for them.
    fn prepare(&mut self) -> Next {
        if self.writing.is_none()
            && let Some(writer) = self.writer.take()
        {
            match self.machine.give() {
                Some(give) => self.writing = Some(Box::pin(write(writer, give))),
                None => self.writer = Some(writer),
            }
        }
        if let Some(link) = &mut self.link {
            while link.out.len() < MOST_OUT
                && let Some(frame) = self.machine.next()
            {
                frame.write(&mut link.out);
            }
            if link.out.is_empty() && self.machine.is_over() {
                return Next::Forget;
            }
        }
        Next::On
    }

    /// Waits for something to happen, and does what follows from it.
    async fn step(&mut self, commands: &mut mpsc::UnboundedReceiver<Command>) -> Next {
        if self.prepare() == Next::Forget {
            return Next::Forget;
        }
        let room = self.machine.room().min(MOST_DATA);
        self.buffer.reserve(room);
        let mut part = (&mut self.buffer).limit(room);
        let read = async {
            match &mut self.reader {
                Some(reader) if room > 0 => reader.read_buf(&mut part).await,
                _ => pending().await,
            }
        };
        let written = async {
            match &mut self.writing {
                Some(writing) => writing.await,
                None => pending().await,
            }
        };
        let link = self.link.as_ref();
        let readable = async {
            match link {
                Some(link) if !link.deaf => link.stream.readable().await,
                _ => pending().await,
            }
        };
        let writable = async {
            match link {
                Some(link) if !link.out.is_empty() => link.stream.writable().await,
                _ => pending().await,
            }
        };
        // Once a connection has ended, the other end has the same time to say that it knows.
        let waits = link.is_none() || self.machine.end().is_some();
        let lonely = async { if waits { sleep_until(self.deadline).await } else { pending().await } };
        tokio::select! {
            command = commands.recv() => return self.obey(command),
            read = read => match read {
                Ok(_) => {
                    self.machine.said(&self.buffer);
                    self.buffer.clear();
                }
                Err(error) => self.machine.break_off("reset_here", error.to_string()),
            },
            (writer, written) = written => {
                (self.writing, self.writer) = (None, Some(writer));
                match written {
                    Ok(bytes) => self.machine.took(bytes),
                    Err(error) => self.machine.break_off("reset_here", error.to_string()),
                }
            }
            ready = readable => return self.hear(ready),
            ready = writable => return self.speak(ready),
            () = lonely => {
                let span = units::span(self.keep);
                self.machine.break_off("restarted", format!("no process has come back for it in {span}"));
                return Next::Forget;
            }
        }
        Next::On
    }

    fn obey(&mut self, command: Option<Command>) -> Next {
        match command {
            Some(Command::Link(stream)) => {
                let [heard, out] = [(); 2].map(|()| BytesMut::new());
                self.link = Some(Link { stream, heard, out, deaf: false });
                self.machine.link_up();
            }
            Some(Command::Break { word, text, forget }) => {
                self.machine.break_off(word, text);
                if forget {
                    return Next::Forget;
                }
            }
            Some(Command::Renew(keep)) => {
                self.keep = keep;
                // An end that has nothing to send hears of a restart with the next beat.
                self.deadline = Instant::now() + keep.max(BEAT * 2);
            }
            Some(Command::Stop) | None => {
                self.machine.break_off("stopping", "this end is stopping");
                self.stopping = true;
                if self.link.is_none() {
                    return Next::Forget;
                }
            }
        }
        Next::On
    }

    fn hear(&mut self, ready: io::Result<()>) -> Next {
        let Some(link) = &mut self.link else { return Next::On };
        link.heard.reserve(MOST_DATA);
        match ready.and_then(|()| link.stream.try_read_buf(&mut link.heard)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Next::On,
            Ok(0) | Err(_) => return self.lose(),
            Ok(_) => {}
        }
        loop {
            let heard = match Frame::read(&mut link.heard) {
                Ok(None) => return Next::On,
                Ok(Some(frame)) => self.machine.hear(frame).map_err(|lie| lie.to_string()),
                Err(garbled) => Err(garbled.to_string()),
            };
            if let Err(reason) = heard {
                self.machine.break_off("failed", format!("the other end breaks the protocol: {reason}"));
                self.machine.hear_no_more();
                link.deaf = true;
                return Next::On;
            }
        }
    }

    fn speak(&mut self, ready: io::Result<()>) -> Next {
        let Some(link) = &mut self.link else { return Next::On };
        match ready.and_then(|()| link.stream.try_write(&link.out)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Next::On,
            Ok(0) | Err(_) => self.lose(),
            Ok(written) => {
                link.out.advance(written);
                if link.out.is_empty() && link.out.capacity() > 2 * MOST_OUT {
                    link.out = BytesMut::new();
                }
                Next::On
            }
        }
    }

    fn lose(&mut self) -> Next {
        self.link = None;
        self.machine.link_down();
        self.deadline = Instant::now() + self.keep;
        if self.stopping { Next::Forget } else { Next::On }
    }
}

/// Gives bytes to the program. Returns how many it has taken; the end of file counts as one.
async fn write<W: AsyncWrite + Unpin>(mut writer: W, give: Give) -> (W, io::Result<u64>) {
    let given = async {
        match give {
            Give::Bytes(bytes) => {
                writer.write_all(&bytes).await?;
                writer.flush().await?;
                Ok(bytes.len() as u64)
            }
            Give::Fin => writer.shutdown().await.map(|()| 1),
        }
    };
    let given = given.await;
    (writer, given)
}
