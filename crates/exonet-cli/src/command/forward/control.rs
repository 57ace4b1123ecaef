//! The control streams between the near end and the far end.

use std::time::{Duration, Instant};

use exonet::stream::{Stream, StreamSender};
use exonet::{Outcome, Receipt};
use tokio::time::{sleep, timeout};

use super::near::{Near, Welcomed};
use crate::exit::{Exit, remedy};
use crate::text::escape;
use crate::tunnel::{self, BEAT, Code, Event, Hello, Listened, Message as _, Name, Run, Way, Welcome};

/// The silence after which the far end is reported as away.
const AWAY: Duration = Duration::from_secs(5);
/// The pause before a message is repeated that was lost with a process.
const AGAIN: Duration = Duration::from_millis(200);

/// Repeats the message that this end is present. Returns the exit code of the command when this is of no further use.
pub(super) async fn keep(near: &Near) -> Exit {
    let hello = Hello { listen: near.remote.iter().map(|spec| spec.bind).collect() }.encode();
    let peer = near.peer.id().short();
    let own = near.peer.node().id();
    let Ok(stream) = near.peer.stream(Name::hello(near.names.run())) else { return Exit::Error };
    let (mut sender, _) = stream.split();
    let mut welcomed = near.welcomed.subscribe();
    loop {
        let said = say(near, &mut sender, &hello).await;
        let not_yet = *welcomed.borrow() == Welcomed::NotYet;
        let pause = match said {
            Some((Outcome::Refused(barred), _)) => {
                near.tell.trouble(format!("{peer}: {barred}; {}", remedy(barred, own)));
                if not_yet {
                    return Exit::Undelivered;
                }
                BEAT
            }
            Some((Outcome::Rejected { .. }, reason)) => {
                let reason = escape(reason.as_bytes());
                near.tell.trouble(format!(
                    "{peer} carries no connections: {reason}; its owner starts `exon proxy serve`"
                ));
                if not_yet {
                    return Exit::Undelivered;
                }
                BEAT
            }
            Some((Outcome::Delivered | Outcome::Processed { .. }, _)) => BEAT,
            // The message was lost with the process that had it.
            Some(_) => AGAIN,
            None => return Exit::Error,
        };
        let denied = async {
            // The near end lives as long as this future.
            let _ = welcomed.wait_for(|welcomed| *welcomed == Welcomed::Denied).await;
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = near.unknown.notified() => {}
            () = denied => return Exit::Undelivered,
        }
    }
}

/// Sends the message, and waits until the far end has got it. Returns the outcome and its reason. None: the node is
/// closed.
async fn say(near: &Near, sender: &mut StreamSender, hello: &bytes::Bytes) -> Option<(Outcome, String)> {
    let began = Instant::now();
    let heard = async {
        let mut receipt: Receipt = sender.send(hello.clone()).await.ok()?;
        let outcome = receipt.outcome().await.outcome;
        Some((outcome, receipt.reason().as_deref().unwrap_or_default().to_owned()))
    };
    tokio::pin!(heard);
    match timeout(AWAY, &mut heard).await {
        Ok(heard) => heard,
        Err(_) => {
            near.tell.say(Event::Away { seconds: began.elapsed().as_secs_f64() });
            let heard = heard.await;
            near.tell.say(Event::Back { seconds: began.elapsed().as_secs_f64() });
            heard
        }
    }
}

/// Tells the far end that this end is stopping.
pub(super) async fn leave(near: &Near) {
    if let Ok(stream) = near.peer.stream(Name::hello(near.names.run())) {
        let _ = stream.split().0.close().await;
    }
}

/// Reads the control stream of a far end until its run ends.
pub(super) async fn hear(near: &Near, stream: Stream, far: Run) {
    let (_, mut receiver) = stream.split();
    let mut known = Vec::new();
    let Ok(mut life) = near.enter(far) else { return receiver.stop("this run has ended") };
    loop {
        let said = tokio::select! {
            said = tunnel::next::<Welcome>(&mut receiver) => said,
            _ = life.over() => return receiver.stop("this run has ended"),
        };
        match said {
            Some(Ok(welcome)) if welcome.listen.len() == near.remote.len() => {
                if welcome.listen != known || *near.welcomed.borrow() == Welcomed::NotYet {
                    tell(near, &welcome);
                    known = welcome.listen;
                }
            }
            Some(_) => return receiver.stop("this is not a message of a far end"),
            None => return near.left(far),
        }
    }
}

/// Reports changes.
fn tell(near: &Near, welcome: &Welcome) {
    let peer = near.peer.id();
    let first = *near.welcomed.borrow() == Welcomed::NotYet;
    let mut denied = false;
    for (spec, listened) in near.remote.iter().zip(&welcome.listen) {
        match listened {
            Listened::Ok(at) => {
                let to = Some(spec.to.to_string());
                near.tell.say(Event::Listening { way: Way::Remote, bind: at.to_string(), to });
            }
            Listened::Error(refusal) => {
                denied = true;
                let (peer, at) = (peer.short(), spec.bind);
                near.tell.trouble(match refusal.code {
                    Code::Denied => format!(
                        "{peer} does not allow listening at {at}; its owner can allow it: exon proxy serve \
                         --allow-listen {at}"
                    ),
                    _ => format!("{peer} cannot listen at {at}: {}", escape(refusal.text.as_bytes())),
                });
            }
        }
    }
    if first {
        near.tell.say(Event::Ready { peer: peer.to_string() });
        // A later refusal is only reported, and the port is requested again with each message to the far end.
        near.welcomed.send_replace(if denied { Welcomed::Denied } else { Welcomed::Yes });
    }
}
