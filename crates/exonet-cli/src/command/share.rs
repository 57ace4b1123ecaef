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

/// Files that are read in full at once, and pieces that are read at once: beyond, their callers wait.
const READING: usize = 4;
const ABREAST: usize = 32;
/// What is kept of pieces for one getter, in bytes: more than it asks for at once; and for how long, while it is silent.
const REPLIES: usize = 128 << 20;
const REPLY_KEPT: Duration = Duration::from_secs(30);
/// Questions that are to be told of: beyond, they are answered and not told.
const MOST_UNTOLD: usize = 1_024;
/// How long the last answers may take at the end.
const GOODBYE: Duration = Duration::from_secs(2);
/// Beyond this, nobody waits for a piece: a rate of a byte a second is as good as none.
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

/// What answers.
struct Desk {
    shelf: Shelf,
    tell: mpsc::Sender<Asked>,
    rate: Option<Rate>,
    pieces: AtomicU64,
    bytes: AtomicU64,
}

/// So many bytes a second.
struct Rate {
    bytes: u64,
    /// When what has been promised will have left.
    free: Mutex<Instant>,
}

impl Rate {
    /// Waits until so many bytes more may have left.
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
    if !settings.identity.is_there() {
        node::can_bind(args.bind.as_deref()).await?;
    }
    be_somebody(settings)?;
    let metrics = Metrics::open(settings, &args.metrics, "share").await?;
    let node = node::at(settings, args.bind.as_deref(), &args.allow, |config| {
        config.tell_refused = !args.silent;
        // Nobody would ever look at them.
        config.takes.messages = false;
        // A piece that is forgotten is asked for again.
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
    announce(settings, &node, &args.allow, "get", format!("shares {}", args.directory.display()))?;

    let (started, mut files) = (Instant::now(), 0);
    loop {
        tokio::select! {
            // The desk lives on here.
            Some(asked) = asked.recv() => {
                files += u64::from(asked.refused.is_none());
                tell_of(settings, &asked)?;
            }
            _ = requests.wait_for(|requests| *requests > 0) => break,
        }
    }
    control.close().await;
    // Who asks now hears that this ends, and asks again when it is back.
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

/// Answers for as long as what this gives is kept.
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
        // The disk may block, and hashing takes a while.
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
        // Nobody hears it once the command has ended, nor while nothing can be printed.
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

/// A question of the version that is known here.
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
