//! Serves sessions, each with a process that reads and writes lines.

use std::sync::Arc;

use exonet::session::{LONGEST, SessionError, SessionListener, SessionReceiver, SessionSender};
use exonet::{Node, Session};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::desk::{Answers, Event};
use crate::args::ServeArgs;
use crate::command::exec::{Program, Run, Stdout};
use crate::command::listen::refuse_sessions;
use crate::failure::Failure;
use crate::node::GOODBYE;

/// Starts to serve the sessions that `args` names, until the result is dropped.
pub(super) fn serve(
    node: &Node,
    args: &ServeArgs,
    answers: &Arc<Answers>,
    tell: &mpsc::UnboundedSender<Event>,
) -> Result<JoinSet<()>, Failure> {
    let mut serving = JoinSet::new();
    for name in &args.sessions {
        let listener = node.session_listener(name.clone());
        let listener = listener
            .map_err(|error| Failure::new(format!("cannot serve sessions {name:?}")).because(&error))?;
        serving.spawn(accept(listener, Arc::clone(answers), tell.clone()));
    }
    if !args.sessions.is_empty() {
        serving.spawn(reject(node.clone()));
        let node = node.clone();
        serving.spawn(async move {
            let _ = refuse_sessions(&node).await;
        });
    }
    Ok(serving)
}

/// Rejects plain messages, which are not for this node.
async fn reject(node: Node) {
    while let Ok(delivery) = node.recv().await {
        delivery.reject("this node serves sessions and calls, and takes no messages");
    }
}

async fn accept(listener: SessionListener, answers: Arc<Answers>, tell: mpsc::UnboundedSender<Event>) {
    let mut sessions = JoinSet::new();
    while let Ok(session) = listener.accept().await {
        let (answers, tell) = (Arc::clone(&answers), tell.clone());
        sessions.spawn(async move {
            let (id, client) = (session.id().to_string(), session.peer().id().to_string());
            let name = String::from_utf8_lossy(session.name()).into_owned();
            // An error means that the command has ended.
            let _ = tell.send(Event::Session { id: id.clone(), client, name });
            let (end, status) = match &*answers {
                Answers::Echo => (echo(session).await, 0),
                Answers::Process(program) => run(session, program).await,
            };
            let end = end.map_or_else(|error| error.to_string(), |()| "closed".to_owned());
            let _ = tell.send(Event::SessionEnd { id, end, status });
        });
        while sessions.try_join_next().is_some() {}
    }
}

/// Sends each message back.
async fn echo(mut session: Session) -> Result<(), SessionError> {
    while let Some(message) = session.recv().await? {
        let body = message.body().clone();
        drop(session.send(body).await?);
        // If the acknowledgement fails, the message is delivered again, and so is its echo.
        let _ = message.ack();
    }
    session.close(GOODBYE).await
}

/// Writes each message to a process as a line, and sends each line of the process. Also returns the exit code of the
/// process.
async fn run(session: Session, program: &Program) -> (Result<(), SessionError>, u32) {
    let (id, client) = (session.id().to_string(), session.peer().id().to_string());
    let name = String::from_utf8_lossy(session.name()).into_owned();
    let environment = vec![("EXON_SESSION", name), ("EXON_SESSION_ID", id.clone()), ("EXON_CALLER", client)];
    let label = format!("session {id}");
    let mut process = match program.converse(&Run { environment, name: &label, stdout: Stdout::Read(0) }) {
        Ok(process) => process,
        Err(status) => {
            session.refuse("its program could not be started");
            return (Ok(()), status);
        }
    };
    let (mut sender, mut receiver) = session.split();
    let input = process.stdin.take();
    let output = process.stdout.take();
    let feeds = async {
        let fed = feed(&mut receiver, input).await;
        match fed {
            // Further output of the process is sent.
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    };
    let talks = async {
        if !say(&mut sender, output).await? {
            return Ok((
                None,
                sender.refuse(format!("its program printed a line of more than {LONGEST} bytes")).await?,
            ));
        }
        let status = process.wait().await;
        let end = match status {
            0 => sender.close().await?,
            _ => sender.refuse(format!("its program failed with exit code {status}")).await?,
        };
        Ok((Some(status), end))
    };
    let ended = tokio::select! {
        ended = talks => ended,
        error = feeds => Err(error),
    };
    match ended {
        Ok((status, end)) => {
            // The client gets the rest when it is back.
            drop(tokio::time::timeout(GOODBYE, end).await);
            let status = match status {
                Some(status) => status,
                None => process.end().await,
            };
            (Ok(()), status)
        }
        Err(error) => {
            // The client is told at once: the process may take a while to end.
            drop((sender, receiver));
            (Err(error), process.end().await)
        }
    }
}

async fn feed(
    receiver: &mut SessionReceiver,
    mut input: Option<impl AsyncWrite + Unpin>,
) -> Result<(), SessionError> {
    while let Some(message) = receiver.recv().await? {
        let written = match &mut input {
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
            Some(pipe) => pipe.write_all(&[message.body(), &b"\n"[..]].concat()).await,
        };
        match written {
            Ok(()) => {
                let _ = message.ack_with(0);
            }
            Err(_) => {
                input = None;
                message.reject("the program reads nothing more");
            }
        }
    }
    Ok(())
}

/// Sends each line of a process as a message. Returns false if a line is too long for one.
async fn say(
    sender: &mut SessionSender,
    output: Option<impl AsyncRead + Unpin>,
) -> Result<bool, SessionError> {
    let Some(output) = output else { return Ok(true) };
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let mut limited = tokio::io::AsyncReadExt::take(&mut output, LONGEST as u64 + 1);
        // A read error counts as the end of the output.
        if limited.read_until(b'\n', &mut line).await.unwrap_or(0) == 0 {
            return Ok(true);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if line.len() > LONGEST {
            return Ok(false);
        }
        drop(sender.send(line).await?);
    }
}
