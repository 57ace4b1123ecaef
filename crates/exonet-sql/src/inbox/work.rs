//! What the inbox does with a message, from its delivery to its acknowledgement.

use core::future::poll_fn;
use core::num::NonZeroU32;
use core::pin::pin;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use exonet::error::BodyError;
use exonet::receive::Filter;
use exonet::{Delivery, Node, NodeId};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::Instrument;

use crate::database::{Store, Value};
use crate::error::StoreError;
use crate::inbox::handed::{HandedOut, Ticket};
use crate::inbox::process::{Failed, Process, Processed};
use crate::inbox::{Counters, HandlerError, InboxMessage, Settings, collect};
use crate::outbox::MAX_BODY;
use crate::statements::{Statement, Statements};
use crate::wire::{Envelope, Owner, Row, TAG};

/// The first and the longest pause after the handler or the database has failed.
const AGAIN: Duration = Duration::from_millis(50);
const LONGEST_AGAIN: Duration = Duration::from_secs(60);

/// How many messages may wait after a failure or for a handler. If there are more, the inbox asks the node for none,
/// and the node holds senders back.
const WAITING: usize = 1_024;

pub(super) struct Work<P>(Arc<Inner<P>>);

struct Inner<P> {
    store: Arc<dyn Store>,
    node: Node,
    process: P,
    handlers: Semaphore,
    attempts: Option<NonZeroU32>,
    counters: Arc<Counters>,
    handed: HandedOut,
    /// The node that speaks for each outbox, according to the database.
    senders: Mutex<HashMap<Owner, NodeId>>,
}

impl<P: Process> Work<P> {
    pub(super) fn new(
        store: Arc<dyn Store>,
        node: Node,
        process: P,
        settings: &Settings,
        counters: Arc<Counters>,
    ) -> Self {
        Self(Arc::new(Inner {
            store,
            node,
            process,
            handlers: Semaphore::new(settings.concurrency.max(1)),
            attempts: settings.attempts,
            counters,
            handed: HandedOut::default(),
            senders: Mutex::default(),
        }))
    }

    /// Runs until the node closes, or `stopped` is set.
    pub(super) async fn run(self, collect_every: Duration, mut stopped: watch::Receiver<bool>) {
        let inner = self.0;
        let receiver = inner.node.receiver(Filter::any().tag(TAG));
        let mut collecting = JoinSet::new();
        collecting.spawn(collect::run(
            Arc::clone(&inner.store),
            inner.node.clone(),
            inner.handed.clone(),
            Arc::clone(&inner.counters),
            collect_every,
        ));
        let mut tasks = JoinSet::new();
        loop {
            let mut next = pin!(receiver.recv());
            let next = poll_fn(|cx| inner.handed.poll(|| next.as_mut().poll(cx)));
            let (delivery, ticket) = tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => break,
                Some(_) = tasks.join_next() => continue,
                next = next, if tasks.len() < WAITING => next,
            };
            let Ok(delivery) = delivery else { break };
            let span = delivery.span();
            tasks.spawn(Arc::clone(&inner).take(delivery, ticket).instrument(span));
        }
        drop((collecting, receiver));
        while tasks.join_next().await.is_some() {}
    }
}

impl<P: Process> Inner<P> {
    /// Processes a message once. Then acknowledges it, postpones it, or rejects it.
    async fn take(self: Arc<Self>, mut delivery: Delivery, ticket: Ticket) {
        let limit = MAX_BODY as u64 + 1_024;
        let body = match delivery.body_mut().bytes(limit).await {
            Ok(body) => body,
            Err(error @ BodyError::TooLarge { .. }) => return self.reject(delivery, 0, &error.to_string()),
            // A message whose body ends early is handed out again.
            Err(_) => return,
        };
        let (owner, row) = match Envelope::decode(body) {
            Ok(Envelope::Row { owner, row }) => (owner, row),
            Ok(Envelope::Fence { .. }) => {
                let _ = delivery.ack();
                return;
            }
            Ok(Envelope::Hello { owner }) => {
                if self.speaks(owner, delivery.from()).await.is_ok() {
                    let _ = delivery.ack();
                }
                return;
            }
            Err(error) => {
                return self.reject(delivery, 0, &format!("the message cannot be read: {error}"));
            }
        };
        ticket.has_key(row.key);
        let mut wait = AGAIN;
        let why = loop {
            let failed = match self.process(&delivery, owner, &row).await {
                // If the node no longer has its record of the message, the sender hands the row over again, and the
                // inbox row says that it is processed.
                Ok(()) => {
                    let _ = delivery.ack();
                    return;
                }
                Err(failed) => failed,
            };
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(key = %row.key, attempt = delivery.attempt(), "a message is not processed: {failed}");
            match failed {
                Failed::Handler(why) => break why,
                // This attempt does not count: the message waits here for the database. It may even have been
                // processed.
                Failed::Database(_) => sleep(wait).await,
            }
            wait = (2 * wait).min(LONGEST_AGAIN);
        };
        let last = self.attempts.is_some_and(|most| delivery.attempt() >= most.get());
        match why {
            HandlerError::Reject { status, reason } => self.reject(delivery, status, &reason),
            HandlerError::Retry(why) if last => self.reject(delivery, 0, &why),
            HandlerError::Retry(_) => {
                let doublings = delivery.attempt().saturating_sub(1).min(16);
                delivery.retry_after((AGAIN * (1 << doublings)).min(LONGEST_AGAIN));
            }
        }
        // Not earlier, since the message was handed out until now.
        drop(ticket);
    }

    /// Rejects a message. Its transaction, if there was one, was rolled back.
    fn reject(&self, delivery: Delivery, status: u32, reason: &str) {
        tracing::error!(attempt = delivery.attempt(), status, "a message is rejected: {reason}");
        self.counters.rejected.fetch_add(1, Ordering::Relaxed);
        delivery.reject_with(status, reason);
    }

    /// Runs one transaction: the record that the message is processed, and the work of the handler.
    async fn process(&self, delivery: &Delivery, owner: Owner, row: &Row) -> Result<(), Failed> {
        let Ok(_turn) = self.handlers.acquire().await else { return Ok(()) };
        let known = self.senders.lock().unwrap_or_else(PoisonError::into_inner).get(&owner).copied();
        if known != Some(delivery.from()) {
            self.speaks(owner, delivery.from()).await?;
        }
        let message = InboxMessage {
            from: delivery.from(),
            key: row.key,
            tag: row.tag.clone(),
            order: row.order.clone(),
            body: row.body.clone(),
            attempt: delivery.attempt(),
            id: delivery.id(),
        };
        let args = vec![Value::blob(owner.0), Value::blob(row.key.to_vec())];
        let record = Statement { sql: self.statements().process, args };
        let counter = match self.process.process(record, message).await? {
            Processed::Now => &self.counters.processed,
            Processed::Before => &self.counters.repeated,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn statements(&self) -> &'static Statements {
        self.store.dialect().statements()
    }

    /// Notes which node speaks for an outbox: the inbox asks that node which rows are gone.
    async fn speaks(&self, owner: Owner, node: NodeId) -> Result<(), StoreError> {
        let mut conn = self.store.acquire().await?;
        let args = vec![Value::blob(owner.0), Value::blob(self.node.id().0), Value::blob(node.0)];
        conn.execute(self.statements().set_sender, args).await?;
        self.senders.lock().unwrap_or_else(PoisonError::into_inner).insert(owner, node);
        Ok(())
    }
}
