//! Dispatches the replies to `exon bench client`: each echo goes to the actor that waits for it.

use bytes::Bytes;
use exonet::Node;
use exonet::receive::Received;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::actor::actor_of;
use super::work::REPORT;
use crate::failure::Failure;

/// One task receives for all actors.
pub(super) struct Replies {
    actors: Vec<Option<mpsc::Receiver<Bytes>>>,
    reports: mpsc::Receiver<Bytes>,
    task: AbortHandle,
}

/// The channels into which the task puts messages.
#[derive(Clone)]
struct Out {
    actors: Vec<mpsc::Sender<Bytes>>,
    reports: mpsc::Sender<Bytes>,
}

impl Replies {
    pub(super) fn start(node: &Node, actors: u32) -> Self {
        let (sinks, actors): (Vec<_>, Vec<_>) = (0..actors).map(|_| mpsc::channel(1)).unzip();
        let (sink, reports) = mpsc::channel(1);
        let out = Out { actors: sinks, reports: sink };
        let task = tokio::spawn(receive(node.clone(), out)).abort_handle();
        Self { actors: actors.into_iter().map(Some).collect(), reports, task }
    }

    /// The echoes of one actor. None: they were taken before.
    pub(super) fn of(&mut self, actor: u32) -> Option<mpsc::Receiver<Bytes>> {
        self.actors.get_mut(usize::try_from(actor).ok()?)?.take()
    }

    pub(super) async fn report(&mut self) -> Result<Bytes, Failure> {
        self.reports.recv().await.ok_or_else(|| Failure::new("the bench has stopped receiving"))
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(node: Node, out: Out) {
    while let Ok(received) = node.at_most_once().recv().await {
        if received.body.is_stream() {
            // Read in a task of its own, so that it delays no other message.
            tokio::spawn(out.clone().pass(received));
        } else {
            out.clone().pass(received).await;
        }
    }
}

impl Out {
    async fn pass(self, received: Received) {
        let Received { tag, mut body, .. } = received;
        let Ok(body) = body.bytes(u64::MAX).await else { return };
        let sink = if tag == REPORT { Some(&self.reports) } else { self.actors.get(actor_of(&body)) };
        if let Some(sink) = sink {
            // If the actor has ended, the echo is discarded.
            let _ = sink.send(body).await;
        }
    }
}
