//! Sends items, several at once: offers each item, and sends the missing parts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{self, FuturesUnordered};
use futures_util::{StreamExt, TryStreamExt};

use super::meter::Meter;
use super::peer::{Fault, Peer};
use super::scan::Item;
use super::source::{Odd, Source, Stream};
use super::window::Window;
use crate::copy::{self, Answer, Answers, Entry, FileInfo, Hex32, Offer, Piece, PieceAnswer};
use crate::failure::Failure;

/// The maximum number of files in progress at once, and of pieces of one file.
const ABREAST: usize = 16;
/// The maximum number of entries of one offer.
const BATCH: usize = 256;
/// The number of attempts for a file that changes while it is read.
const TRIES: u32 = 3;

/// The pause before a receiver that cannot store is asked again.
const LATER: Duration = Duration::from_secs(1);
const LOST: &str = "the receiver had lost a part of it";

/// The result of an item.
#[derive(Debug)]
pub(super) enum End {
    Stored(Option<Hex32>),
    /// It was already at the receiver.
    There,
    /// A directory or a link was made.
    Made,
    Refused(String),
    /// Everything has been sent, and the answer to the last piece has not arrived.
    Unknown,
    /// It is certainly not stored. The receiver keeps `held` bytes of it for the next attempt.
    Cancelled {
        held: u64,
    },
    Failed(Failure),
}

#[derive(Debug)]
pub(super) struct Copied {
    pub(super) item: Item,
    pub(super) end: End,
    pub(super) took: Duration,
    /// The number of its bytes at the receiver.
    pub(super) stored: u64,
    /// The reason why it was started again from the beginning, if it was.
    pub(super) anew: Option<&'static str>,
}

pub(super) struct Copying {
    pub(super) peer: Peer,
    pub(super) meter: Arc<Meter>,
    pub(super) window: Window,
    /// The key for files, whose copies can be resumed; and the key for streams, which cannot be read again.
    pub(super) lasting: Hex32,
    pub(super) of_this_run: Hex32,
    pub(super) checksum: bool,
}

/// The state of one file while it is sent.
struct Progress<'a> {
    meter: &'a Meter,
    /// The number of bytes at the receiver.
    held: u64,
    anew: Option<&'static str>,
}

impl Progress<'_> {
    fn begin(&mut self, have: u64) {
        self.meter.done.sub(self.held);
        self.meter.done.add(have);
        self.held = have;
    }

    fn add(&mut self, len: u64) {
        self.held += len;
        self.meter.done.add(len);
        self.meter.sent.add(len);
    }
}

impl Copying {
    /// Copies all items, and yields the result of each as it is known.
    pub(super) fn all(&self, items: Vec<Item>) -> impl futures_util::Stream<Item = Copied> + '_ {
        let batches = stream::unfold(VecDeque::from(items), async |mut items| {
            let batch: Vec<Item> = items.drain(..items.len().min(BATCH)).collect();
            (!batch.is_empty()).then_some((batch, items))
        });
        batches
            .then(|batch| self.offer_all(batch))
            .flat_map(stream::iter)
            .map(|(item, answer)| self.one(item, answer))
            .buffer_unordered(ABREAST)
    }

    /// Sets the modes and times of the directories, the deepest first.
    pub(super) async fn seal(&self, directories: Vec<Item>) -> Vec<Copied> {
        let mut failed = Vec::new();
        for batch in directories.rchunks(BATCH) {
            let entries = batch.iter().rev().map(|item| item.entry.clone()).collect();
            match self.ask(copy::SEAL, self.lasting, entries).await {
                Ok(answers) => {
                    for (item, answer) in batch.iter().rev().zip(answers) {
                        if let Answer::Refused { reason } = answer {
                            failed.push(done(item.clone(), End::Refused(reason)));
                        }
                    }
                }
                Err(fault) => {
                    let end = end_of(fault, 0);
                    failed.extend(batch.first().map(|item| done(item.clone(), end)));
                    break;
                }
            }
        }
        failed
    }

    async fn ask(&self, method: &'static str, key: Hex32, entries: Vec<Entry>) -> Result<Vec<Answer>, Fault> {
        let wanted = entries.len();
        let offer = Offer { v: copy::VERSION, key, entries };
        loop {
            let Answers { answers, .. } = self.calling(self.peer.ask(method, &offer)).await?;
            if answers.len() != wanted {
                return Err(nonsense("its answer is of another kind"));
            }
            let later = answers.iter().find_map(|answer| match answer {
                Answer::Later { reason } => Some(reason.clone()),
                _ => None,
            });
            let Some(reason) = later else { return Ok(answers) };
            self.later(reason).await?;
        }
    }

    async fn piece(&self, body: Bytes) -> Result<PieceAnswer, Fault> {
        loop {
            match self.calling(self.peer.call(copy::PIECE, body.clone())).await? {
                PieceAnswer::Later { reason } => self.later(reason).await?,
                answer => return Ok(answer),
            }
        }
    }

    /// Waits a moment, since the receiver cannot store the item now.
    async fn later(&self, reason: String) -> Result<(), Fault> {
        self.meter.set_trouble(reason);
        tokio::select! {
            () = tokio::time::sleep(LATER) => Ok(()),
            () = self.peer.stopped() => Err(Fault::Stopped { in_doubt: false }),
        }
    }

    async fn calling<T>(&self, call: impl Future<Output = T>) -> T {
        self.meter.asked.add(1);
        let answer = call.await;
        self.meter.asked.sub(1);
        answer
    }

    async fn offer_all(&self, mut batch: Vec<Item>) -> Vec<(Item, Result<Answer, Fault>)> {
        if self.checksum {
            for item in &mut batch {
                if let Entry::File { file, hash } = &mut item.entry
                    && file.size.is_some()
                    && let Ok(source) = Source::open(&item.path).await
                {
                    // A file that cannot be read fails when it is sent.
                    *hash = source.hash().await.ok();
                }
            }
        }
        let answers = self.ask_each(&batch).await;
        batch.into_iter().zip(answers).collect()
    }

    /// Offers a batch. Streams are left out: each is offered on its own once it is open.
    async fn ask_each(&self, batch: &[Item]) -> Vec<Result<Answer, Fault>> {
        let entries: Vec<Entry> =
            batch.iter().filter(|item| !item.stream).map(|item| item.entry.clone()).collect();
        let answers = if entries.is_empty() {
            Ok(Vec::new())
        } else {
            self.ask(copy::OFFER, self.lasting, entries).await
        };
        let mut answers = match answers {
            Ok(answers) => answers.into_iter(),
            Err(fault) => return batch.iter().map(|_| Err(fault.again())).collect(),
        };
        let mut answer = |item: &Item| {
            let nothing = Answer::Missing { piece: copy::piece_size(None), have: Vec::new(), anew: false };
            if item.stream { Some(nothing) } else { answers.next() }
        };
        batch.iter().map(|item| answer(item).ok_or_else(|| nonsense("answers are missing"))).collect()
    }

    async fn one(&self, item: Item, answer: Result<Answer, Fault>) -> Copied {
        let began = Instant::now();
        let mut progress = Progress { meter: &self.meter, held: 0, anew: None };
        let end = match (answer, &item.entry) {
            // An item that is only offered is certainly not stored.
            (Err(fault), _) => Err(certain(fault)),
            (Ok(Answer::Refused { reason }), _) => Ok(End::Refused(reason)),
            (Ok(answer), Entry::File { file, .. }) => {
                self.file(&item, file.clone(), answer, &mut progress).await
            }
            (Ok(_), _) => Ok(End::Made),
        };
        let end = end.unwrap_or_else(|fault| end_of(fault, progress.held));
        if matches!(end, End::There) {
            self.meter.done.add(item.size());
        }
        if matches!(item.entry, Entry::File { .. }) {
            self.meter.files_done.add(1);
        }
        Copied { item, end, took: began.elapsed(), stored: progress.held, anew: progress.anew }
    }

    async fn file(
        &self,
        item: &Item,
        mut file: FileInfo,
        mut answer: Answer,
        progress: &mut Progress<'_>,
    ) -> Result<End, Fault> {
        if item.stream {
            return self.stream(item, file, progress).await;
        }
        let source = Source::open(&item.path).await?;
        let mut tries = 0;
        loop {
            let (piece, have) = match answer {
                Answer::There => return Ok(End::There),
                Answer::Refused { reason } => return Ok(End::Refused(reason)),
                Answer::Made | Answer::Later { .. } => {
                    return Err(nonsense("it takes a file for another one"));
                }
                Answer::Hash => {
                    let hash = Some(source.hash().await?);
                    answer = self.offer(self.lasting, &file, hash).await?;
                    if answer == Answer::Hash {
                        return Err(nonsense("it asks for the hash that it has"));
                    }
                    continue;
                }
                Answer::Missing { piece, have, anew } => {
                    if anew {
                        progress.anew = Some("it has changed since a part of it was copied");
                    }
                    (piece, have)
                }
            };
            match self.pieces(&source, &file, piece, &have, progress).await {
                Ok(end) => return Ok(end),
                Err(Odd::Fault(fault)) => return Err(fault),
                Err(Odd::NoSize) => {
                    progress.begin(0);
                    self.meter.streams.add(1);
                    return self.stream(item, FileInfo { size: None, mtime: now(), ..file }, progress).await;
                }
                Err(Odd::Changed(changed)) => {
                    tries += 1;
                    if tries == TRIES {
                        let what = format!("{} changes while it is read", item.path.display());
                        let todo = "copy it when nothing writes to it; or copy its present content: exon cp - --name NAME PEER < FILE";
                        return Err(Fault::Failed(Failure::new(what).hint(todo)));
                    }
                    let same = changed == file;
                    progress.anew = Some(if same { LOST } else { "it changed while it was read" });
                    progress.begin(0);
                    self.meter.total.add(changed.size.unwrap_or(0));
                    self.meter.total.sub(file.size.unwrap_or(0));
                    file = changed;
                    answer = self.offer(self.lasting, &file, None).await?;
                }
            }
        }
    }

    async fn offer(&self, key: Hex32, file: &FileInfo, hash: Option<Hex32>) -> Result<Answer, Fault> {
        let entry = Entry::File { file: file.clone(), hash };
        // An item that is only offered is certainly not stored.
        let answers = certain(self.ask(copy::OFFER, key, vec![entry]).await)?;
        answers.into_iter().next().ok_or_else(|| nonsense("its answer is empty"))
    }

    /// Sends the missing pieces. The last piece is sent when all others have arrived and the file is known to be
    /// unchanged since the offer, because the last piece lets the receiver store the file.
    async fn pieces(
        &self,
        source: &Source,
        file: &FileInfo,
        piece: u32,
        have: &[(u64, u64)],
        progress: &mut Progress<'_>,
    ) -> Result<End, Odd> {
        let (full, size) = (u64::from(piece), file.size.unwrap_or(0));
        if !piece.is_power_of_two() || piece < copy::PIECES.0 || piece > copy::PIECES.1 {
            return Err(Odd::Fault(nonsense("it asks for pieces of a size that does not exist")));
        }
        let is_there = |at: u64| have.iter().any(|(from, to)| (*from..*to).contains(&at));
        let last_piece = size.saturating_sub(1) / full;
        let missing = || (0..=last_piece).map(|number| number * full).filter(|at| !is_there(*at));
        let there: u64 = have.iter().map(|(from, to)| to.min(&size).saturating_sub(*from)).sum();
        progress.begin(there.min(size));
        // If the file is complete at the receiver but has no name yet, the last piece is sent again.
        let last = missing().next_back().unwrap_or(last_piece * full);
        let others = missing().take_while(|at| *at != last);
        let send = |at: u64, is_last: bool| async move {
            let len = full.min(size.saturating_sub(at));
            let head = Piece::new(self.lasting, file.clone(), piece, at, false);
            let place = self.window.enter().await;
            let wanted = usize::try_from(len).unwrap_or(usize::MAX);
            let body = source.piece(head, wanted, is_last).await?;
            let answer = self.piece(body).await;
            place.into_iter().for_each(|place| self.window.leave(place));
            Ok::<_, Odd>((answer.map_err(Odd::Fault)?, len))
        };
        let mut sent =
            std::pin::pin!(stream::iter(others).map(|at| send(at, false)).buffer_unordered(ABREAST));
        while let Some((answer, len)) = sent.try_next().await.map_err(certain)? {
            match answer {
                PieceAnswer::Held | PieceAnswer::Later { .. } => progress.add(len),
                // Another process has copied the same file with the same key.
                PieceAnswer::Stored { hash } => return Ok(End::Stored(hash)),
                PieceAnswer::Refused { reason } => return Ok(End::Refused(reason)),
            }
        }
        let (answer, len) = send(last, true).await?;
        match answer {
            PieceAnswer::Stored { hash } => {
                progress.add(len);
                Ok(End::Stored(hash))
            }
            PieceAnswer::Refused { reason } => Ok(End::Refused(reason)),
            // The receiver has lost a part that it had acknowledged.
            PieceAnswer::Held | PieceAnswer::Later { .. } => Err(Odd::Changed(file.clone())),
        }
    }

    /// Sends a piece that was read from a stream. Returns the answer and the length of the piece.
    async fn send_read(&self, head: Piece, data: Vec<u8>) -> Result<(PieceAnswer, u64), Fault> {
        let place = self.window.enter().await;
        let fill = |body: &mut Vec<u8>| {
            body.extend_from_slice(&data);
            Ok::<_, Fault>(())
        };
        let (body, _) = head.encode(data.len(), fill)?;
        let len = data.len() as u64;
        drop(data);
        let answer = self.piece(body).await?;
        place.into_iter().for_each(|place| self.window.leave(place));
        Ok((answer, len))
    }

    /// Sends a stream to its end.
    async fn stream(&self, item: &Item, file: FileInfo, progress: &mut Progress<'_>) -> Result<End, Fault> {
        // The other end of a pipe may never be opened, so this waits for a stop as well.
        let mut source = tokio::select! {
            source = Stream::open(&item.path) => source?,
            () = self.peer.stopped() => return Ok(End::Cancelled { held: 0 }),
        };
        let piece = match self.offer(self.of_this_run, &file, None).await? {
            Answer::Missing { piece, .. } => piece,
            Answer::Refused { reason } => return Ok(End::Refused(reason)),
            _ => return Err(nonsense("it says that it has bytes which were never sent")),
        };
        if !piece.is_power_of_two() || piece < copy::PIECES.0 || piece > copy::PIECES.1 {
            return Err(nonsense("it asks for pieces of a size that does not exist"));
        }
        let full = piece as usize;
        let send = |data: Vec<u8>, at: u64, end: bool| {
            self.send_read(Piece::new(self.of_this_run, file.clone(), piece, at, end), data)
        };
        let (mut at, mut sent) = (0, FuturesUnordered::new());
        let rest = loop {
            // Pieces that were read wait for room, which bounds the memory.
            while sent.len() >= ABREAST
                && let Some(answer) = sent.next().await
            {
                if let Some(end) = held(certain(answer)?, progress) {
                    return Ok(end);
                }
            }
            let mut reading = std::pin::pin!(source.next(full));
            let read = loop {
                tokio::select! {
                    read = &mut reading => break read,
                    Some(answer) = sent.next() => if let Some(end) = held(certain(answer)?, progress) {
                        return Ok(end);
                    },
                    () = self.peer.stopped() => return Ok(End::Cancelled { held: progress.held }),
                }
            };
            let data;
            (source, data) = read?;
            if data.len() < full {
                break data;
            }
            let len = data.len() as u64;
            sent.push(send(data, at, false));
            at += len;
        };
        while let Some(answer) = sent.next().await {
            if let Some(end) = held(certain(answer)?, progress) {
                return Ok(end);
            }
        }
        let (answer, len) = send(rest, at, true).await?;
        match answer {
            PieceAnswer::Stored { hash } => {
                progress.add(len);
                Ok(End::Stored(hash))
            }
            PieceAnswer::Refused { reason } => Ok(End::Refused(reason)),
            PieceAnswer::Held | PieceAnswer::Later { .. } => {
                Err(nonsense("it has lost a part that cannot be read again"))
            }
        }
    }
}

/// Counts a piece. Some: it was the end of its file.
fn held((answer, len): (PieceAnswer, u64), progress: &mut Progress<'_>) -> Option<End> {
    match answer {
        PieceAnswer::Held | PieceAnswer::Later { .. } => {
            progress.add(len);
            None
        }
        PieceAnswer::Stored { hash } => Some(End::Stored(hash)),
        PieceAnswer::Refused { reason } => Some(End::Refused(reason)),
    }
}

/// Before the last piece has left, the file is certainly not stored.
trait Certain {
    fn certain(self) -> Self;
}

impl Certain for Fault {
    fn certain(self) -> Self {
        match self {
            Self::Stopped { .. } => Self::Stopped { in_doubt: false },
            fault => fault,
        }
    }
}

impl Certain for Odd {
    fn certain(self) -> Self {
        match self {
            Self::Fault(fault) => Self::Fault(fault.certain()),
            odd => odd,
        }
    }
}

impl<T, E: Certain> Certain for Result<T, E> {
    fn certain(self) -> Self {
        self.map_err(E::certain)
    }
}

fn certain<T: Certain>(what: T) -> T {
    what.certain()
}

fn end_of(fault: Fault, held: u64) -> End {
    match fault {
        Fault::Refused(reason) => End::Refused(reason),
        Fault::Stopped { in_doubt: true } => End::Unknown,
        Fault::Stopped { in_doubt: false } => End::Cancelled { held },
        Fault::Failed(failure) => End::Failed(failure),
    }
}

fn done(item: Item, end: End) -> Copied {
    Copied { item, end, took: Duration::ZERO, stored: 0, anew: None }
}

fn nonsense(what: &str) -> Fault {
    Fault::Failed(Failure::new(format!("the receiver's answer cannot be understood: {what}")))
}

fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}
