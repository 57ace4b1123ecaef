//! The messages that the receiver refuses, and the reasons.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use exonet::receive::Filter;
use exonet::{MessageId, Node};
use tokio::sync::watch;

use crate::failure::Failure;
use crate::transfer::{LONGEST_REFUSAL, Refused, TAG_REFUSED};

type Reasons = BTreeMap<(u64, u64), String>;

/// The maximum number of refusals that are kept. A receiver may send any number; the oldest are forgotten.
const MOST: usize = 65_536;

/// The refusals that have arrived, by incarnation and slot of the refused message. Clones share them.
#[derive(Clone, Debug)]
pub(in crate::command) struct Refusals(Arc<watch::Sender<Reasons>>);

impl Default for Refusals {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Reasons::new())))
    }
}

impl Refusals {
    /// Receives refusals. Never returns without an error.
    pub(in crate::command) async fn listen(&self, node: &Node) -> Result<Infallible, Failure> {
        // Other messages from the receiver are not for this command, and wait for their recipients.
        let refusals = node.receiver(Filter::any().tag(TAG_REFUSED));
        loop {
            let delivery = refusals.recv().await;
            let mut delivery = delivery.map_err(|error| crate::log::node_stopped(&error))?;
            if let Ok(body) = delivery.body_mut().bytes(LONGEST_REFUSAL).await
                && let Some(refused) = Refused::decode(&body)
            {
                // The refusal is stored before it is acknowledged, since the receiver continues after that.
                self.0.send_modify(|reasons| {
                    let reason = crate::text::escape(refused.reason.as_bytes());
                    reasons.insert(refused.message(), reason);
                    if reasons.len() > MOST {
                        reasons.pop_first();
                    }
                });
            }
            // If its record is gone, the refusal is delivered again.
            let _ = delivery.ack();
        }
    }

    /// The reason why this message was refused, if it was.
    pub(in crate::command) fn of(&self, id: MessageId) -> Option<String> {
        self.0.borrow().get(&(id.r.0, id.s.0)).cloned()
    }

    /// As [`Self::of`], and forgets the reason.
    pub(in crate::command) fn forget(&self, id: MessageId) -> Option<String> {
        let mut reason = None;
        // No watcher is notified, since none waits for a removal.
        self.0.send_if_modified(|reasons| {
            reason = reasons.remove(&(id.r.0, id.s.0));
            false
        });
        reason
    }

    /// Watches for new refusals.
    pub(in crate::command) fn watch(&self) -> watch::Receiver<Reasons> {
        self.0.subscribe()
    }
}
