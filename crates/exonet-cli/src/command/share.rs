//! `exon share`: lets others fetch files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use exonet::call::{Failure as Answer, ReplyStatus, Request, Serving};
use exonet::{Node, NodeId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, mpsc};

use super::announce::{announce, be_somebody};
use super::standing::{Begin, answers};
use super::stop::requests;
use crate::args::ShareArgs;
use crate::control::{Control, Role};
use crate::copy::Hex32;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::node;
use crate::settings::Settings;
use crate::share::{
    INFO, InfoQuestion, LIST, LONGEST_QUESTION, ListQuestion, PIECE, PieceQuestion, Refused, Shelf, VERSION,
};
use crate::text::escape;
use crate::units::{self, Size, count};

/// The maximum number of files that are read in full at once, and of pieces that are read at once. Further callers
/// wait.
const READING: usize = 4;
const ABREAST: usize = 32;
/// The number of bytes of replies that are kept for one getter, which is more than it asks for at once; and the time
/// that they are kept while it is silent.
const REPLIES: usize = 128 << 20;
const REPLY_KEPT: Duration = Duration::from_secs(30);
/// The maximum number of questions that wait to be reported. Further questions are answered and not reported.
const MOST_UNTOLD: usize = 1_024;
/// The time limit for the last answers at the end.
const GOODBYE: Duration = Duration::from_secs(2);
/// The longest wait for a piece: at a rate of a byte a second, no getter waits any longer.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);

/// A file that was asked for.
#[derive(Debug, Serialize)]
struct Asked {
    r#type: &'static str,
    from: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<Hex32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    end: &'static str,
    files: u64,
    pieces: u64,
    bytes: u64,
    seconds: f64,
}

/// The state that answers calls.
struct Desk {
    shelf: Shelf,
    tell: mpsc::Sender<Asked>,
    rate: Option<Rate>,
    pieces: AtomicU64,
    bytes: AtomicU64,
}

/// A limit of the rate, in bytes a second.
struct Rate {
    bytes: u64,
    /// The time at which all bytes that were granted will have been sent.
    free: Mutex<Instant>,
}

impl Rate {
    /// Waits until `bytes` more bytes may have been sent.
    async fn spend(&self, bytes: usize) {
        let seconds = units::precise(bytes as u64) / units::precise(self.bytes.max(1));
        let span = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
        let until = {
            let mut free = self.free.lock().await;
            *free = (*free).max(Instant::now()) + span;
            *free
        };
        tokio::time::sleep_until(until.into()).await;
    }
}

pub(super) async fn run(settings: &Settings, args: ShareArgs) -> Result<Exit, Failure> {
    let shelf = Shelf::open(&args.directory, args.hidden)
        .map_err(|error| Failure::path("share", &args.directory, &error))?;
    if !settings.identity.is_there()? {
        node::can_bind(args.bind).await?;
    }
    be_somebody(settings)?;
    let metrics = Metrics::open(settings, &args.metrics, "share").await?;
    let node = node::at(settings, args.bind, &args.allow, |config| {
        config.tell_refused = !args.silent;
        // Nothing would ever read messages.
        config.takes.messages = false;
        // The getter asks again for a reply that is no longer kept.
        config.limits.reply_bytes = REPLIES;
        config.reply_kept = REPLY_KEPT;
    })
    .await?;
    let _watched = metrics.as_ref().map(|metrics| metrics.watch(&node));
    let control = Control::try_open(settings, &node, Role::Command("share"));
    let mut requests = requests(2)?;
    let (tell, mut asked) = mpsc::channel(MOST_UNTOLD);
    let rate = args.rate.map(|rate| Rate { bytes: rate.0, free: Mutex::new(Instant::now()) });
    let desk = Arc::new(Desk { shelf, tell, rate, pieces: AtomicU64::new(0), bytes: AtomicU64::new(0) });
    let servings = serve(&node, &desk)?;
    Begin::First.greet(settings, &node);
    answers(settings, None);
    announce(settings, &node, &args.allow, "get", format!("shares {}", args.directory.display()))?;

    let (started, mut files) = (Instant::now(), 0);
    loop {
        tokio::select! {
            // The desk stays alive in this function, so the channel stays open.
            Some(asked) = asked.recv() => {
                files += u64::from(asked.refused.is_none());
                tell_of(settings, &asked)?;
            }
            _ = requests.wait_for(|requests| *requests > 0) => break,
        }
    }
    control.close().await;
    // New callers are told that this node is stopping, and ask again when it is back.
    node.drain();
    drop(servings);
    node.close(GOODBYE).await;
    let (pieces, bytes) = (desk.pieces.load(Ordering::Relaxed), desk.bytes.load(Ordering::Relaxed));
    let took = started.elapsed();
    settings.note(format!(
        "gave {}, {} in {}",
        units::counted(pieces, "piece"),
        Size(bytes),
        units::span(took)
    ));
    let seconds = took.as_secs_f64();
    settings.output.line(&Summary {
        r#type: "summary",
        end: "interrupted",
        files,
        pieces,
        bytes,
        seconds,
    })?;
    Ok(Exit::Interrupted)
}

fn tell_of(settings: &Settings, asked: &Asked) -> Result<(), Failure> {
    let from = asked.from.get(..8).unwrap_or(&asked.from);
    let what = match (&asked.refused, asked.size) {
        (Some(why), _) => why.clone(),
        (None, size) => Size(size.unwrap_or(0)).to_string(),
    };
    settings.output.text(&format!("{from}  {}  {what}", escape(asked.name.as_bytes())))?;
    settings.output.line(asked)
}

/// Serves the calls until the result is dropped.
fn serve(node: &Node, desk: &Arc<Desk>) -> Result<Vec<Serving>, Failure> {
    let one = |(method, abreast): (&'static str, usize)| {
        let desk = Arc::clone(desk);
        let serve = node.serve(method, move |request| Arc::clone(&desk).answer(method, request));
        let started = serve.concurrency(abreast).start();
        started.map_err(|e| Failure::new(format!("cannot serve {method}")).because(&e))
    };
    [(LIST, READING), (INFO, READING), (PIECE, ABREAST)].into_iter().map(one).collect()
}

impl Desk {
    async fn answer(self: Arc<Self>, method: &'static str, mut request: Request) -> Result<Bytes, Answer> {
        let (body, from) = (request.body.bytes(LONGEST_QUESTION).await?, request.caller);
        let desk = Arc::clone(&self);
        // The disk may block, and hashing takes time.
        let work = tokio::task::spawn_blocking(move || match method {
            LIST => desk.list(&body),
            INFO => desk.info(from, &body),
            _ => desk.piece(&body),
        });
        let reply = work.await.map_err(|error| Answer::new(ReplyStatus::FAILED, error.to_string()))??;
        if method == PIECE {
            if let Some(rate) = &self.rate {
                rate.spend(reply.len()).await;
            }
            self.pieces.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(reply.len() as u64, Ordering::Relaxed);
        }
        Ok(reply)
    }

    fn list(&self, body: &[u8]) -> Result<Bytes, Answer> {
        let question: ListQuestion = read(body, |question: &ListQuestion| question.v)?;
        json(&self.shelf.list(&question.after).map_err(refused)?)
    }

    fn info(&self, from: NodeId, body: &[u8]) -> Result<Bytes, Answer> {
        let InfoQuestion { name, .. } = read(body, |question: &InfoQuestion| question.v)?;
        let info = self.shelf.info(&name);
        // The event is lost once the command has ended, or while the output is blocked.
        let _ = self.tell.try_send(Asked {
            r#type: "asked",
            from: from.to_string(),
            name,
            size: info.as_ref().ok().map(|info| info.size),
            root: info.as_ref().ok().map(|info| info.root),
            refused: info.as_ref().err().map(ToString::to_string),
        });
        json(&info.map_err(refused)?)
    }

    fn piece(&self, body: &[u8]) -> Result<Bytes, Answer> {
        let question: PieceQuestion = read(body, |question: &PieceQuestion| question.v)?;
        let piece = self.shelf.piece(&question.name, &question.root, question.index);
        piece.map(Bytes::from).map_err(refused)
    }
}

/// Parses a question, which must be of the known version.
fn read<T: DeserializeOwned>(body: &[u8], version: impl Fn(&T) -> u8) -> Result<T, Answer> {
    let question: T = serde_json::from_slice(body).map_err(bad_request)?;
    match version(&question) {
        VERSION => Ok(question),
        other => {
            Err(bad_request(format!("version {} is not known here, only {VERSION}", count(other.into()))))
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "as `map_err` wants it")]
fn refused(refused: Refused) -> Answer {
    match refused.status() {
        Some(status) => Answer::new(status, refused.to_string()),
        None => bad_request(refused),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "as `map_err` wants it")]
fn bad_request(error: impl ToString) -> Answer {
    Answer::new(ReplyStatus::BAD_REQUEST, error.to_string())
}

fn json(value: &impl Serialize) -> Result<Bytes, Answer> {
    let written = serde_json::to_vec(value).map(Bytes::from);
    written.map_err(|error| Answer::new(ReplyStatus::FAILED, error.to_string()))
}
