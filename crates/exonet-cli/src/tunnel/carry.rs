//! Carries one connection: bytes in both directions, until both directions have ended or one of them breaks.

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

/// The maximum number of bytes of a message. Larger messages cost less per byte; smaller ones let a stream advance in
/// a small window.
const PART: usize = 16 << 10;
/// Shorter messages are copied, so that they do not hold a buffer of [`PART`].
const SHORT: usize = 2 << 10;

/// The pause before a connection is opened again after it was lost with the process at the other end.
const AGAIN: Duration = Duration::from_millis(50);

/// The limits of every connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// The maximum number of bytes, per direction, that are read here and not yet accepted by the other end.
    pub(crate) window: usize,
    /// The time without bytes after which a connection ends.
    pub(crate) idle: Option<Duration>,
    /// The time limit for the answer of the other end.
    pub(crate) answer: Duration,
}

/// The reason why a connection has ended.
#[derive(Debug)]
pub(crate) enum Why {
    /// Both directions have ended, as the programs at both ends wanted.
    Ended,
    /// The program at this end broke the connection.
    Local(io::Error),
    /// The other end broke the connection.
    Reset(String),
    /// There never was a connection.
    Refused(Refusal),
    /// The other node does not admit this one.
    Barred(Barred),
    /// The other end has not answered for this time.
    Unanswered(Duration),
    Idle(Duration),
    Over(Over),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("ended"),
            Self::Local(error) => write!(f, "broken at this end: {error}"),
            Self::Reset(error) => write!(f, "broken at the other end: {error}"),
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
    /// The reason in a word, for programs.
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

    /// The code for the client of a SOCKS server.
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
    /// The number of bytes from the program at this end to the other end, and back.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) why: Why,
    /// The program at this end has not received everything, and must not mistake the part that it has for the whole.
    pub(crate) abort: bool,
}

impl Closed {
    /// There never was a connection.
    pub(crate) fn unopened(why: Why) -> Self {
        Self { sent: 0, received: 0, why, abort: true }
    }
}

/// Prepares a socket to be carried. If this process is killed, the program at the socket gets a reset: an end of file
/// would mean that it has received everything.
pub(crate) fn hold(socket: &TcpStream) {
    // If this fails, small messages are sent late. If the linger option fails, a program may see an end of file
    // instead of a reset.
    let _ = socket.set_nodelay(true);
    let _ = socket.set_zero_linger();
}

/// Prepares a socket for its end: a clean one, or a reset.
pub(crate) fn finish(socket: &TcpStream, abort: bool) {
    if abort {
        let _ = socket.set_zero_linger();
    } else {
        #[expect(deprecated, reason = "a socket that does not linger blocks nothing")]
        let _ = socket.set_linger(None);
    }
}

/// Counts the bytes, and notes the time of the last ones.
struct Meter {
    began: Instant,
    sent: AtomicU64,
    received: AtomicU64,
    /// The time of the last bytes, in milliseconds after `began`.
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

    /// Waits until no byte has passed for the time `most`. Returns that time.
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

/// Opens a connection. Returns the address that the other end is connected to. No byte of the connection is sent
/// before, so a connection that is lost with the process at the other end is opened again at the next process, within
/// the same time limit.
///
/// # Errors
/// The reason why there is no connection.
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
                // If the node is closed, nothing can be sent.
                let _ = sender.reset().await;
                receiver.stop("given up");
            });
        }
    }
}

/// Carries an established connection to its end, or to the end of `life`.
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
        // If the node is closed, nothing can be sent. A direction that has ended stays ended.
        let _ = sender.reset().await;
        // If the process that knew of the stream is gone, nothing would ever end the stream.
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

/// Whether the other end continues to receive.
#[derive(Debug)]
enum Taken {
    Yes,
    /// It wants no more bytes, for this reason.
    Enough(String),
}

/// Checks the outcome of a message.
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

/// The reason for a stream whose process is gone.
fn ended() -> Why {
    Why::Over(Over::Restarted)
}

fn reset(error: StreamError) -> Why {
    Why::Reset(error.to_string())
}

/// Carries bytes from the program at this end to the other end.
async fn up(
    reader: &mut (impl AsyncRead + Unpin),
    sender: &mut StreamSender,
    meter: &Meter,
    window: usize,
) -> Result<(), Why> {
    let mut buffer = BytesMut::new();
    // The messages that the other end has not accepted yet, in order.
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

/// Carries bytes from the other end to the program at this end. Bytes that are not written yet hold back the next
/// ones.
async fn down(
    receiver: &mut StreamReceiver,
    writer: &mut (impl AsyncWrite + Unpin),
    meter: &Meter,
) -> Result<(), Why> {
    while let Some(said) = receiver.recv_at_most_once().await.map_err(reset)? {
        // Every message of a stream is short enough to arrive in full.
        let part = said.body.as_whole().cloned().unwrap_or_default();
        writer.write_all(&part).await.map_err(Why::Local)?;
        writer.flush().await.map_err(Why::Local)?;
        meter.count(&meter.received, part.len());
    }
    writer.shutdown().await.map_err(Why::Local)
}
