//! This implementation as the subject of checks, as `docs/conformance.md` specifies it.

use std::time::Duration;

use exonet::call::{Failure as Failed, Request, Serving};
use exonet::stream::StreamListener;
use exonet::{Delivery, Message, Node, Stream};
use tokio::task::{AbortHandle, JoinSet};

use crate::failure::Failure;

/// The largest body in bytes that the subject sends back.
const LARGEST: u64 = 64 << 20;
/// How long a call of the method `slow` takes.
const SLOW: Duration = Duration::from_secs(2);

/// A running subject. It ends when this is dropped.
pub(crate) struct Subject {
    _methods: Vec<Serving>,
    tasks: Vec<AbortHandle>,
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Makes `node` a subject.
pub(crate) fn subject(node: &Node) -> Result<Subject, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::new("cannot serve as a subject").because(error);
    let back = node.clone();
    let methods = vec![
        node.serve("echo", whole).start(),
        node.serve("fail", |request| async { Err::<Vec<u8>, _>(Failed::new(42, whole(request).await?)) })
            .start(),
        node.serve("slow", |request| async {
            tokio::time::sleep(SLOW).await;
            whole(request).await
        })
        .start(),
        node.serve("back", move |request: Request| {
            let peer = back.peer(request.caller);
            async move {
                let body = whole(request).await?;
                let mut reply = peer.call("echo", body).await.map_err(Failed::error)?;
                reply.body.bytes(LARGEST).await.map_err(Failed::error)
            }
        })
        .start(),
    ];
    let methods = methods.into_iter().collect::<Result<_, _>>().map_err(|error| failed(&error))?;
    let listener = node.stream_listener("echo").map_err(|error| failed(&error))?;
    let tasks = vec![
        tokio::spawn(messages(node.clone())).abort_handle(),
        tokio::spawn(streams(listener)).abort_handle(),
    ];
    Ok(Subject { _methods: methods, tasks })
}

async fn whole(mut request: Request) -> Result<bytes::Bytes, Failed> {
    request.body.bytes(LARGEST).await.map_err(Failed::error)
}

async fn messages(node: Node) {
    let mut at_work = JoinSet::new();
    while let Ok(delivery) = node.recv().await {
        at_work.spawn(message(node.clone(), delivery));
        while at_work.try_join_next().is_some() {}
    }
}

async fn message(node: Node, mut delivery: Delivery) {
    if delivery.tag() == "reject" {
        return delivery.reject_with(7, "as asked");
    }
    let (from, echo, process) = (delivery.from(), delivery.tag() == "echo", delivery.tag() == "process");
    // A message whose body ends early is handed out again.
    let Ok(body) = delivery.body_mut().bytes(LARGEST).await else { return };
    let taken = if process { delivery.ack_with(5) } else { delivery.ack() };
    if taken.is_ok() && echo {
        // If the sender has gone, the body cannot be sent back.
        let _ = node.peer(from).send(Message::new(body).tag("echoed")).await;
    }
}

async fn streams(listener: StreamListener) {
    let mut at_work = JoinSet::new();
    while let Ok(stream) = listener.accept().await {
        at_work.spawn(stream_back(stream));
        while at_work.try_join_next().is_some() {}
    }
}

async fn stream_back(stream: Stream) {
    let (mut sender, mut receiver) = stream.split();
    while let Ok(Some(mut delivery)) = receiver.recv().await {
        let Ok(body) = delivery.body_mut().bytes(LARGEST).await else { return };
        if delivery.ack().is_err() || sender.send(body).await.is_err() {
            return;
        }
    }
    // The sender may have gone.
    let _ = sender.close().await;
}
