//! One server. While it answers, it is asked for as many pieces as its path has room for. If it does not answer, it
//! is tried again.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use exonet::call::ReplyStatus;
use exonet::error::CallError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::course::Course;
use crate::exit::remedy;
use crate::failure::Failure;
use crate::share::{
    INFO, Info, InfoQuestion, LONGEST_ANSWER, LONGEST_PIECE, PIECE, PieceQuestion, Shape, VERSION, proven,
    status,
};
use crate::text::escape;

/// The pause before a server is tried again, doubled from the first value to the last.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// The number of failed calls without a piece between them after which a server is given up.
const MOST_FAILURES: u32 = 10;
/// The interval between two checks whether a piece is late at another server.
const LOOK: Duration = Duration::from_millis(100);
/// The silence after which a server counts as away: this time, or this number of round trips if that is longer.
const QUIET: (Duration, u32) = (Duration::from_secs(2), 8);

/// The reason why a server is no longer asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Out {
    /// For programs: `banned`, `differs`, `changed`, `refused`.
    pub(super) state: &'static str,
    /// For people, safe to be printed.
    pub(super) reason: String,
}

impl Out {
    fn refused(reason: impl Into<String>) -> Self {
        Self { state: "refused", reason: reason.into() }
    }

    /// The server has another file under this name.
    pub(super) fn differs(info: &Info) -> Self {
        let reason = format!("what it has under this name is another file: {}", info.root);
        Self { state: "differs", reason }
    }

    fn banned(reason: &str) -> Self {
        Self { state: "banned", reason: reason.to_owned() }
    }
}

/// An event of a server.
#[derive(Debug)]
pub(super) enum Event {
    /// The server has answered with this information on the file.
    Met(Info),
    /// It does not answer now.
    Silent,
    /// The server is no longer asked.
    Out(Out),
    /// A local write has failed.
    Failed(Failure),
}

/// Why there is no answer.
enum Fault {
    /// The server does not answer, and gives no sign of life.
    Silent,
    /// The call has failed; another one may succeed.
    Lost,
    Out(Out),
    Failed(Failure),
}

#[derive(Clone)]
pub(super) struct Server {
    pub(super) at: usize,
    pub(super) peer: exonet::Peer,
    pub(super) tell: mpsc::UnboundedSender<(usize, Event)>,
    /// Whether the server has answered once. Then it shares files, even if it denies that for a moment while it
    /// starts or stops.
    met: Arc<AtomicBool>,
}

impl Server {
    pub(super) fn new(at: usize, peer: exonet::Peer, tell: mpsc::UnboundedSender<(usize, Event)>) -> Self {
        Self { at, peer, tell, met: Arc::default() }
    }

    /// Runs until the file is complete, or the server is given up. `decided` names the file to fetch once it is known.
    pub(super) async fn run(self, name: String, mut decided: watch::Receiver<Option<Arc<Course>>>) {
        let mut failures = 0;
        loop {
            let info = match self.meet(&name).await {
                Ok(info) => info,
                Err(out) => return self.tell(Event::Out(out)),
            };
            self.tell(Event::Met(info));
            let course = match decided.wait_for(Option::is_some).await {
                Ok(course) => course.clone(),
                Err(_) => return,
            };
            let Some(course) = course else { return };
            if let Err(out) = fits(&info, &course) {
                return self.tell(Event::Out(out));
            }
            course.join(self.at);
            let before = course.plan().tally(self.at).pieces;
            let fault = self.bring(&course).await;
            let brought = course.plan().tally(self.at).pieces > before;
            course.leave(self.at);
            failures = if brought { 0 } else { failures + 1 };
            match fault {
                Ok(()) => return,
                Err(Fault::Out(out)) => return self.tell(Event::Out(out)),
                Err(Fault::Failed(failure)) => return self.tell(Event::Failed(failure)),
                Err(Fault::Lost) if failures >= MOST_FAILURES => {
                    return self.tell(Event::Out(Out::refused("it answers, but sends no piece")));
                }
                Err(Fault::Lost) => tokio::time::sleep(AGAIN.0).await,
                Err(Fault::Silent) => self.tell(Event::Silent),
            }
        }
    }

    fn tell(&self, event: Event) {
        // The event is lost once the command has ended.
        let _ = self.tell.send((self.at, event));
    }

    /// Runs until the server describes the file.
    async fn meet(&self, name: &str) -> Result<Info, Out> {
        let (mut pause, mut told) = (AGAIN.0, false);
        loop {
            let question = InfoQuestion { v: VERSION, name: name.to_owned() };
            match self.ask::<Info>(INFO, &question).await {
                Ok(info) if info.shape().is_some() => {
                    self.met.store(true, Ordering::Relaxed);
                    return Ok(info);
                }
                Ok(_) => {
                    return Err(Out::banned("it divides the file in a way that the protocol does not know"));
                }
                Err(Fault::Out(out)) => return Err(out),
                Err(Fault::Failed(failure)) => return Err(Out::refused(failure.to_string())),
                Err(Fault::Silent | Fault::Lost) if !told => {
                    told = true;
                    self.tell(Event::Silent);
                }
                Err(Fault::Silent | Fault::Lost) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN.1);
        }
    }

    /// Makes a call with a JSON body, and waits for the answer as long as there are signs of life.
    async fn ask<T: DeserializeOwned>(
        &self,
        method: &'static str,
        question: &impl Serialize,
    ) -> Result<T, Fault> {
        let mut reply = pin!(self.call(method, question, LONGEST_ANSWER));
        let reply = loop {
            tokio::select! {
                reply = &mut reply => break reply?,
                silent = self.is_silent() => if silent { return Err(Fault::Silent) },
            }
        };
        serde_json::from_slice(&reply).map_err(|error| Fault::Out(nonsense(&error)))
    }

    /// Waits as long as a server may be silent, and returns whether it was. Sends a ping after half of that time.
    async fn is_silent(&self) -> bool {
        let half = QUIET.0.max(self.srt() * QUIET.1) / 2;
        tokio::time::sleep(half).await;
        // If the server refuses this node, that is an answer, and it ends the call.
        matches!(self.peer.ping(half).await, Ok(None))
    }

    fn srt(&self) -> Duration {
        self.peer.stats().map_or(Duration::ZERO, |stats| stats.rtt)
    }

    /// Fetches pieces until the file is complete.
    async fn bring(&self, course: &Arc<Course>) -> Result<(), Fault> {
        let (mut flights, mut handles) = (JoinSet::new(), BTreeMap::<u32, AbortHandle>::new());
        let mut silent = pin!(self.is_silent());
        loop {
            let mut changed = pin!(course.changed());
            // Registered here, so that no change before the first poll is missed.
            changed.as_mut().enable();
            {
                let (mut plan, srt) = (course.plan(), self.srt());
                if plan.is_done() {
                    return Ok(());
                }
                handles.retain(|index, handle| {
                    let wanted = plan.wants(self.at, *index);
                    if !wanted {
                        handle.abort();
                    }
                    wanted
                });
                while let Some(index) = plan.take(Instant::now(), self.at, srt) {
                    let (server, course) = (self.clone(), Arc::clone(course));
                    let flight = async move { (index, server.fetch(&course, index).await) };
                    handles.insert(index, flights.spawn(flight));
                }
            }
            tokio::select! {
                Some(ended) = flights.join_next() => match ended {
                    Ok((index, Ok(()))) => {
                        handles.remove(&index);
                        silent.set(self.is_silent());
                    }
                    Ok((_, Err(fault))) => return Err(fault),
                    // Another server was faster.
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => {
                        return Err(Fault::Failed(Failure::new("cannot fetch a piece").because(&error)));
                    }
                },
                is_silent = &mut silent, if !handles.is_empty() => {
                    if is_silent {
                        return Err(Fault::Silent);
                    }
                    silent.set(self.is_silent());
                }
                () = changed => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// Fetches a piece, proves it and writes it.
    async fn fetch(&self, course: &Arc<Course>, index: u32) -> Result<(), Fault> {
        let reply = self.piece(&course.name, course, index).await?;
        let (this, at) = (Arc::clone(course), self.at);
        let work = tokio::task::spawn_blocking(move || {
            let Some((data, value)) = proven(&this.root, this.shape, index, &reply) else {
                return Err(Fault::Out(Out::banned("what it sends is not part of this file")));
            };
            let written = this.part.write(index, data, value);
            written.map_err(|error| Fault::Failed(Failure::path("write", this.part.path(), &error)))
        });
        match work.await {
            Ok(written) => written?,
            Err(error) => {
                return Err(Fault::Failed(Failure::new("cannot write a piece").because(&error)));
            }
        }
        course.came(at, index);
        Ok(())
    }

    async fn piece(&self, name: &str, course: &Course, index: u32) -> Result<Bytes, Fault> {
        let question = PieceQuestion { v: VERSION, name: name.to_owned(), root: course.root, index };
        self.call(PIECE, &question, LONGEST_PIECE).await
    }

    /// Whether the server proves the size of the file, with the last piece.
    pub(super) async fn proves(&self, name: &str, info: &Info) -> bool {
        let Some(shape) = info.shape() else { return false };
        let Some(index) = shape.pieces().checked_sub(1) else {
            return info.root.0 == *blake3::hash(b"").as_bytes();
        };
        let question = PieceQuestion { v: VERSION, name: name.to_owned(), root: info.root, index };
        let mut reply = pin!(self.call(PIECE, &question, LONGEST_PIECE));
        loop {
            tokio::select! {
                reply = &mut reply => {
                    return reply.is_ok_and(|reply| proven(&info.root, shape, index, &reply).is_some());
                }
                silent = self.is_silent() => if silent { return false },
            }
        }
    }

    async fn call(&self, method: &'static str, question: &impl Serialize, most: u64) -> Result<Bytes, Fault> {
        let body = serde_json::to_vec(question)
            .map_err(|error| Fault::Failed(Failure::new("cannot make a call").because(&error)))?;
        match self.peer.call(method, body).await {
            Ok(mut reply) => match reply.body.bytes(most).await {
                Ok(body) => Ok(body),
                Err(exonet::error::BodyError::TooLarge { .. }) => {
                    Err(Fault::Out(Out::banned("its answer is too long")))
                }
                Err(_) => Err(Fault::Lost),
            },
            Err(error) => Err(self.judge(error).await),
        }
    }

    async fn judge(&self, error: CallError) -> Fault {
        if let Some(whose) = self.peer.conflict() {
            // This state is permanent.
            let failure = super::super::show::conflict(whose, &self.peer.id());
            return Fault::Out(Out::refused(failure.to_string()));
        }
        match error {
            CallError::Failed { status: ReplyStatus::NO_SUCH_METHOD, .. }
                if !self.met.load(Ordering::Relaxed) =>
            {
                Fault::Out(Out::refused("it shares no files: it must run `exon share DIR`"))
            }
            CallError::Failed { status, mut body, .. } => {
                let why = body.bytes(LONGEST_ANSWER).await.unwrap_or_default();
                let reason = escape(&why);
                match status.0 {
                    status::CHANGED => Fault::Out(Out { state: "changed", reason }),
                    status::NOT_SHARED | status::UNREADABLE => Fault::Out(Out::refused(reason)),
                    _ if status == ReplyStatus::BAD_REQUEST => {
                        Fault::Out(Out::refused(format!("it does not understand the request: {reason}")))
                    }
                    _ => Fault::Lost,
                }
            }
            CallError::NotTaken(why) => {
                Fault::Out(Out::refused(format!("{why}; {}", remedy(why, self.peer.node().id()))))
            }
            // The server has restarted. Pieces may be requested any number of times.
            CallError::Unknown { .. } | CallError::Expired | CallError::Cancelled => Fault::Lost,
            error => Fault::Out(Out::refused(format!("it cannot be reached: {error}"))),
        }
    }

    /// A page of the files that the server shares.
    pub(super) async fn list(&self, after: &str) -> Result<crate::share::Listing, String> {
        let question = crate::share::ListQuestion { v: VERSION, after: after.to_owned() };
        loop {
            match self.ask(crate::share::LIST, &question).await {
                Ok(listing) => return Ok(listing),
                Err(Fault::Lost) => tokio::time::sleep(AGAIN.0).await,
                Err(Fault::Silent) => return Err("it does not answer".to_owned()),
                Err(Fault::Out(out)) => return Err(out.reason),
                Err(Fault::Failed(failure)) => return Err(failure.to_string()),
            }
        }
    }
}

/// Checks that a server has the file that is being fetched.
fn fits(info: &Info, course: &Course) -> Result<(), Out> {
    if info.root != course.root {
        return Err(Out::differs(info));
    }
    if info.shape() != Some(course.shape) {
        return Err(Out::banned("it reports a size of the file that does not match the hash"));
    }
    Ok(())
}

fn nonsense(error: &serde_json::Error) -> Out {
    Out::banned(&format!("its answer cannot be understood: {error}"))
}

/// The shape of the file. If the servers differ about it, the first server that proves its own decides.
pub(super) async fn settle(name: &str, met: &[(Server, Info)]) -> Option<Shape> {
    let shape = met.first()?.1.shape()?;
    if met.iter().all(|(_, info)| info.shape() == Some(shape)) {
        return Some(shape);
    }
    // The last piece proves which servers are right.
    for (server, info) in met {
        if server.proves(name, info).await {
            return info.shape();
        }
    }
    None
}
