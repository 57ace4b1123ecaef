//! Handles one call: answers it, or ends it early.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use exonet::call::{Failure as Answer, ReplyStatus, Request};
use exonet::error::BodyError;
use exonet::{Node, NodeId};
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::args::ServeArgs;
use crate::command::exec::{Broken, Program, Run, Stdout};
use crate::text::escape;
use crate::{traceparent, units};

/// The interval between two checks whether a caller is still present.
const LOOK: Duration = Duration::from_millis(250);

/// The source of answers.
#[derive(Debug)]
pub(super) enum Answers {
    Echo,
    Process(Program),
}

/// An event of a server.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event {
    /// The call has been accepted, and does not run again.
    Call { id: String, caller: String, method: String, size: u64 },
    /// The call has been answered.
    Answer { id: String, caller: String, method: String, status: u32, size: usize, ms: f64 },
    /// A session continues here.
    Session { id: String, client: String, name: String },
    /// The session has ended. `status` is the exit code of its process.
    SessionEnd { id: String, end: String, status: u32 },
    /// No further call is accepted, while these run.
    Draining { running: usize },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { id, method, .. } => write!(f, "{method}  {id}"),
            Self::Session { id, client, name } => {
                let client = client.get(..8).unwrap_or(client);
                write!(f, "{client}  session {id}  {}", escape(name.as_bytes()))
            }
            Self::SessionEnd { id, end, status } => write!(f, "session {id}  {end}, exit code {status}"),
            Self::Draining { running } => write!(f, "the node takes no further calls; {running} run"),
            Self::Answer { caller, method, status, ms, .. } => {
                let (caller, method) = (caller.get(..8).unwrap_or(caller), escape(method.as_bytes()));
                let took = units::span(Duration::from_secs_f64(ms / 1e3));
                write!(f, "{caller}  {method}  {}, {took}", ReplyStatus(*status))
            }
        }
    }
}

/// Answers calls.
pub(super) struct Desk {
    node: Node,
    answers: Arc<Answers>,
    timeout: Option<Duration>,
    /// The silence after which a caller counts as gone.
    end_orphans: Option<Duration>,
    max_body: u64,
    max_reply: u64,
    tell: mpsc::UnboundedSender<Event>,
    cut: watch::Receiver<bool>,
}

impl Desk {
    /// Events go to `tell`. Running processes are ended when `cut` becomes true.
    pub(super) fn new(
        node: &Node,
        args: &ServeArgs,
        answers: Arc<Answers>,
        tell: mpsc::UnboundedSender<Event>,
        cut: watch::Receiver<bool>,
    ) -> Self {
        Self {
            node: node.clone(),
            answers,
            timeout: args.timeout,
            end_orphans: args.end_orphans,
            max_body: args.max_body.0,
            max_reply: args.max_reply.0,
            tell,
            cut,
        }
    }

    pub(super) async fn run(self: Arc<Self>, request: Request) -> Result<Bytes, Answer> {
        let started = Instant::now();
        let (id, caller) = (request.id.to_string(), request.caller.to_string());
        let method = String::from_utf8_lossy(&request.method).into_owned();
        let size = request.body.len().unwrap_or_default();
        // The event is lost once the command has ended.
        let _ = self.tell.send(Event::Call {
            id: id.clone(),
            caller: caller.clone(),
            method: method.clone(),
            size,
        });
        let answer = self.answer_in_time(request).await;
        let (status, size) = match &answer {
            Ok(body) => (0, body.len()),
            Err(failure) => (failure.status.0, failure.body.len()),
        };
        let ms = started.elapsed().as_secs_f64() * 1e3;
        let _ = self.tell.send(Event::Answer { id, caller, method, status, size, ms });
        answer
    }

    async fn answer_in_time(&self, request: Request) -> Result<Bytes, Answer> {
        let (len, limit) = (request.body.len(), self.max_body);
        if len.is_none_or(|len| len > limit) {
            let len = len.map_or_else(|| "bytes without a number".into(), |len| format!("{len} bytes"));
            let why = format!("the body has {len}, the limit is {limit}");
            return Err(Answer::new(ReplyStatus::BAD_REQUEST, why));
        }
        let mut cut = self.cut.clone();
        let caller = request.caller;
        let late = async {
            match self.timeout {
                Some(timeout) => sleep(timeout).await,
                None => pending().await,
            }
        };
        tokio::select! {
            answer = self.answer(request) => answer,
            () = late => Err(ReplyStatus::TIMED_OUT.into()),
            () = self.orphaned(&caller), if self.end_orphans.is_some() => Err(ReplyStatus::FAILED.into()),
            _ = cut.wait_for(|cut| *cut) => Err(ReplyStatus::FAILED.into()),
        }
    }

    async fn answer(&self, mut request: Request) -> Result<Bytes, Answer> {
        match &*self.answers {
            Answers::Echo => Ok(request.body.bytes(self.max_body).await?),
            Answers::Process(program) => process(program, request, self.max_reply).await,
        }
    }

    /// Ends when the caller's channel ends, which has then been silent for the idle timeout. A channel that was never
    /// seen has come and gone between two checks, or its opening was not confirmed.
    async fn orphaned(&self, caller: &NodeId) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut seen, began) = (false, Instant::now());
        loop {
            looks.tick().await;
            let there = self.node.peer(caller).stats().is_some_and(|peer| peer.remote.is_some());
            if !there && (seen || self.end_orphans.is_some_and(|silent| began.elapsed() > silent)) {
                return;
            }
            seen |= there;
        }
    }
}

/// Runs a process for a call: its output is the reply, and its exit code is the status.
async fn process(program: &Program, mut request: Request, max_reply: u64) -> Result<Bytes, Answer> {
    let id = request.id.to_string();
    let own = [
        ("EXON_CALLER", request.caller.to_string()),
        ("EXON_CALL_ID", id.clone()),
        ("EXON_METHOD", String::from_utf8_lossy(&request.method).into_owned()),
    ];
    let environment = own.into_iter().chain(traceparent::variable(request.traceparent)).collect();
    let run = Run { environment, name: &id, stdout: Stdout::Read(max_reply) };
    match program.run(run, &mut request.body).await {
        Ok(ended) if ended.status == 0 => Ok(ended.output.into()),
        Ok(ended) => Err(Answer::new(ended.status, ended.output)),
        Err(Broken::NotStarted { status, error }) => {
            Err(Answer::new(status, format!("cannot start the command: {error}")))
        }
        Err(Broken::Body(error)) => Err(match error.downcast::<BodyError>() {
            Ok(error) => error.into(),
            Err(error) => Answer::error(error),
        }),
        Err(Broken::System(error)) => Err(Answer::error(error)),
        Err(Broken::TooLong(most)) => {
            let why = format!("the reply has more than {most} bytes");
            Err(Answer::new(ReplyStatus::FAILED, why))
        }
    }
}
