//! One connection: bytes both ways until both ways have ended, or one of them breaks.

use std::collections::VecDeque;
use std::fmt;
use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use exonet::send::Refusal as Barred;
use exonet::stream::{Stream, StreamError, StreamReceiver, StreamSender};
use exonet::{Outcome, Peer, Receipt};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until};

use super::OVERHEAD;
use super::greet::GONE;
use super::life::{Life, Over};
use super::wire::{Answer, Code, Connected, Message as _, Names, Refusal};

/// Bytes of a message at most: larger ones cost less each, smaller ones let a stream move on in a small window.
const PART: usize = 16 << 10;
/// Shorter messages are copied, so that they do not hold a buffer of [`PART`].
const SHORT: usize = 2 << 10;

/// How soon a connection is opened again that was lost with the process at the other end.
const AGAIN: Duration = Duration::from_millis(50);

/// What holds for every connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// Bytes that are read here and not yet taken by the other end, one way.
    pub(crate) window: usize,
    /// A connection without bytes for so long ends.
    pub(crate) idle: Option<Duration>,
    /// How long the answer of the other end may take.
    pub(crate) answer: Duration,
}

/// Why a connection has ended.
#[derive(Debug)]
pub(crate) enum Why {
    /// Both ways have ended, as the programs at both ends wanted.
    Ended,
    /// The program at this end broke it off.
    Local(io::Error),
    /// The other end broke it off.
    Reset(String),
    /// There never was a connection.
    Refused(Refusal),
    /// The other node does not let this one in.
    Barred(Barred),
    /// The other end has not answered for so long.
    Unanswered(Duration),
    Idle(Duration),
    Over(Over),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("ended"),
            Self::Local(error) => write!(f, "broken off at this end: {error}"),
            Self::Reset(error) => write!(f, "broken off at the other end: {error}"),
            Self::Refused(refusal) => {
                write!(f, "no connection: {}", crate::text::escape(refusal.text.as_bytes()))
            }
            Self::Barred(barred) => barred.fmt(f),
            Self::Unanswered(span) => {
                write!(f, "the other end has not answered for {}", crate::units::span(*span))
            }
            Self::Idle(span) => write!(f, "idle for {}", crate::units::span(*span)),
            Self::Over(over) => over.fmt(f),
        }
    }
}

impl Why {
    /// In a word, for programs.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Local(_) => "reset_here",
            Self::Reset(_) => "reset_there",
            Self::Refused(refusal) => match refusal.code {
                Code::Denied => "denied",
                Code::Refused => "refused",
                Code::NoSuchHost => "no_such_host",
                Code::HostUnreachable => "host_unreachable",
                Code::NetworkUnreachable => "network_unreachable",
                Code::TimedOut => "timed_out",
                Code::Busy => "busy",
                Code::Malformed => "malformed",
                Code::Gone => "gone",
                Code::Failed => "failed",
            },
            Self::Barred(_) => "barred",
            Self::Unanswered(_) => "unanswered",
            Self::Idle(_) => "idle",
            Self::Over(Over::Restarted) => "restarted",
            Self::Over(Over::Left) => "left",
            Self::Over(Over::Silent) => "silent",
            Self::Over(Over::Stopping) => "stopping",
        }
    }

    /// What the client of a SOCKS server hears.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Refused(refusal) => refusal.code,
            Self::Unanswered(_) => Code::TimedOut,
            _ => Code::Failed,
        }
    }
}

/// A connection that has ended.
#[derive(Debug)]
pub(crate) struct Closed {
    /// Bytes from the program at this end to the other end, and back.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) why: Why,
    /// The program at this end has not had all, and must not take what it had for all.
    pub(crate) abort: bool,
}

impl Closed {
    /// There never was a connection.
    pub(crate) fn unopened(why: Why) -> Self {
        Self { sent: 0, received: 0, why, abort: true }
    }
}

/// Makes a socket ready to be carried. If this process is killed, its peer gets a reset: an end of file would say that it has had all.
pub(crate) fn hold(socket: &TcpStream) {
    // Without it, small messages leave late, and a peer is told less.
    let _ = socket.set_nodelay(true);
    let _ = socket.set_zero_linger();
}

/// Ends a socket: as a whole connection does, or as one that broke.
pub(crate) fn finish(socket: TcpStream, closed: &Closed) {
    if closed.abort {
        let _ = socket.set_zero_linger();
    } else {
        #[expect(deprecated, reason = "a socket that does not linger blocks nothing")]
        let _ = socket.set_linger(None);
    }
}

/// What has gone through, and when something did last.
struct Meter {
    began: Instant,
    sent: AtomicU64,
    received: AtomicU64,
    /// Milliseconds after the beginning.
    last: AtomicU64,
}

impl Meter {
    fn new() -> Self {
        let [sent, received, last] = [const { AtomicU64::new(0) }; 3];
        Self { began: Instant::now(), sent, received, last }
    }

    fn count(&self, way: &AtomicU64, bytes: usize) {
        way.fetch_add(bytes as u64, Ordering::Relaxed);
        let since = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
    }

    /// Waits until nothing has gone through for so long.
    async fn idle(&self, most: Option<Duration>) -> Duration {
        let Some(most) = most else { return pending().await };
        loop {
            let last = self.began + Duration::from_millis(self.last.load(Ordering::Relaxed));
            if last.elapsed() >= most {
                return most;
            }
            sleep_until(last + most).await;
        }
    }
}

/// Opens a connection: what the other end is connected to. No byte of it is sent before. So one that is lost with the process at the
/// other end is opened again at the next, within the same span.
///
/// # Errors
/// There is none.
pub(crate) async fn open(
    peer: &Peer,
    names: &Names,
    message: &Bytes,
    life: &mut Life,
    span: Duration,
) -> Result<(Stream, Connected), Why> {
    let tries = async {
        loop {
            let stream = peer.stream(names.next()).map_err(|error| Why::Reset(error.to_string()))?;
            match Attempt(Some(stream)).ask(message).await {
                Err(Why::Over(Over::Restarted)) => sleep(AGAIN).await,
                asked => return asked,
            }
        }
    };
    tokio::select! {
        opened = tries => opened,
        () = sleep(span) => Err(Why::Unanswered(span)),
        over = life.over() => Err(Why::Over(over)),
    }
}

/// A stream that is given up when this is dropped.
struct Attempt(Option<Stream>);

impl Attempt {
    async fn ask(mut self, message: &Bytes) -> Result<(Stream, Connected), Why> {
        let Some(stream) = &mut self.0 else { return Err(Why::Over(Over::Stopping)) };
        let (sender, receiver) = stream.both();
        let asked = sender.send(message.clone()).await.map_err(|error| Why::Reset(error.to_string()))?;
        let connected = hear(receiver, asked).await?;
        self.0.take().map(|stream| (stream, connected)).ok_or(Why::Over(Over::Stopping))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            tokio::spawn(async move {
                let (mut sender, receiver) = stream.split();
                // A node that is closed tells nothing.
                let _ = sender.reset().await;
                receiver.stop("given up");
            });
        }
    }
}

/// Carries a connection that stands to its end, or to the end of `life`.
pub(crate) async fn carry<R, W>(
    stream: Stream,
    (reader, writer): (&mut R, &mut W),
    life: &mut Life,
    course: Course,
) -> Closed
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (mut sender, mut receiver) = stream.split();
    let meter = Meter::new();
    let mut heard_all = false;
    let both = async {
        let up = up(reader, &mut sender, &meter, course.window);
        let down = async {
            down(&mut receiver, writer, &meter).await?;
            heard_all = true;
            Ok(())
        };
        tokio::try_join!(up, down)
    };
    let why = tokio::select! {
        ended = both => ended.err().unwrap_or(Why::Ended),
        over = life.over() => Why::Over(over),
        span = meter.idle(course.idle) => Why::Idle(span),
    };
    if !matches!(why, Why::Ended) {
        // A node that is closed tells nothing, and a way that has ended stays as it is.
        let _ = sender.reset().await;
        // Where the process is gone that knew of it, nothing would ever end it.
        if !heard_all && !matches!(why, Why::Over(_)) {
            receiver.stop(why.word());
        }
    }
    let (sent, received) = (meter.sent.into_inner(), meter.received.into_inner());
    Closed { sent, received, abort: !heard_all, why }
}

/// Waits for the answer to the first message.
async fn hear(receiver: &mut StreamReceiver, asked: Receipt) -> Result<Connected, Why> {
    let failed = async {
        match check(asked).await {
            Ok(Taken::Yes) => pending().await,
            Ok(Taken::Enough(reason)) => Why::Refused(Refusal::new(Code::Malformed, reason)),
            Err(why) => why,
        }
    };
    let said = tokio::select! {
        said = receiver.recv_at_most_once() => said.map_err(|_| ended())?,
        why = failed => return Err(why),
    };
    let said = said.and_then(|said| said.body.as_whole().cloned()).unwrap_or_default();
    match Answer::decode(&said) {
        Ok(Answer::Ok(connected)) => Ok(connected),
        Ok(Answer::Error(refusal)) | Err(refusal) => Err(Why::Refused(refusal)),
    }
}

/// Whether the other end goes on.
#[derive(Debug)]
enum Taken {
    Yes,
    /// It has taken all that it wants, for this reason.
    Enough(String),
}

/// What became of a message.
async fn check(mut receipt: Receipt) -> Result<Taken, Why> {
    match receipt.outcome().await.outcome {
        Outcome::Delivered | Outcome::Processed { .. } => Ok(Taken::Yes),
        Outcome::Rejected { .. } => match receipt.reason().as_deref().unwrap_or_default() {
            GONE => Err(ended()),
            reason => Ok(Taken::Enough(reason.to_owned())),
        },
        Outcome::Refused(barred) => Err(Why::Barred(barred)),
        _ => Err(ended()),
    }
}

/// The process that had it is gone.
fn ended() -> Why {
    Why::Over(Over::Restarted)
}

fn reset(error: StreamError) -> Why {
    Why::Reset(error.to_string())
}

/// From the program at this end to the other end.
async fn up(
    reader: &mut (impl AsyncRead + Unpin),
    sender: &mut StreamSender,
    meter: &Meter,
    window: usize,
) -> Result<(), Why> {
    let mut buffer = BytesMut::new();
    // What the other end has not taken yet, in order.
    let mut open: VecDeque<(Receipt, usize)> = VecDeque::new();
    let mut untaken = 0;
    loop {
        if buffer.capacity() < SHORT {
            buffer.reserve(PART);
        }
        let mut part = (&mut buffer).limit(PART);
        let first = async {
            match open.front_mut() {
                Some((receipt, _)) => receipt.outcome().await,
                None => pending().await,
            }
        };
        tokio::select! {
            read = reader.read_buf(&mut part), if untaken < window => {
                let read = read.map_err(Why::Local)?;
                if read == 0 {
                    break;
                }
                let whole = buffer.split().freeze();
                let part = if read < SHORT { Bytes::copy_from_slice(&whole) } else { whole };
                let sent = sender.send(part).await.map_err(|error| Why::Reset(error.to_string()))?;
                meter.count(&meter.sent, read);
                untaken += read + OVERHEAD;
                open.push_back((sent, read + OVERHEAD));
            }
            _ = first => {
                if let Some((receipt, len)) = open.pop_front() {
                    untaken = untaken.saturating_sub(len);
                    if let Taken::Enough(_) = check(receipt).await? {
                        let _ = sender.reset().await;
                        return Ok(());
                    }
                }
            }
        }
    }
    let end = sender.close().await.map_err(|error| Why::Reset(error.to_string()))?;
    for receipt in open.into_iter().map(|(receipt, _)| receipt).chain([end]) {
        if let Taken::Enough(_) = check(receipt).await? {
            break;
        }
    }
    Ok(())
}

/// From the other end to the program at this end: what is not written holds back what follows.
async fn down(
    receiver: &mut StreamReceiver,
    writer: &mut (impl AsyncWrite + Unpin),
    meter: &Meter,
) -> Result<(), Why> {
    while let Some(said) = receiver.recv_at_most_once().await.map_err(reset)? {
        // No message of a stream is longer than one that comes whole.
        let part = said.body.as_whole().cloned().unwrap_or_default();
        writer.write_all(&part).await.map_err(Why::Local)?;
        writer.flush().await.map_err(Why::Local)?;
        meter.count(&meter.received, part.len());
    }
    writer.shutdown().await.map_err(Why::Local)
}
