//! The way of a message from its delivery to its acknowledgement.

use core::fmt;
use core::future::{Future, poll_fn};
use core::num::NonZeroU32;
use core::pin::pin;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use exonet::error::BodyError;
use exonet::receive::Filter;
use exonet::{Delivery, Node, NodeId};
use sqlx::Pool;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::Instrument;

use crate::database::{Database, Value};
use crate::inbox::handed::{HandedOut, Ticket};
use crate::inbox::tx::Lent;
use crate::inbox::{Counters, HandlerError, InboxBuilder, InboxMessage, InboxTx, collect};
use crate::outbox::MAX_BODY;
use crate::wire::{Envelope, Owner, Row, TAG};

/// The first and the longest wait after the handler or the database has failed.
const AGAIN: Duration = Duration::from_millis(50);
const LONGEST_AGAIN: Duration = Duration::from_secs(60);

/// How long a rollback may take. The inbox does not wait for a longer one, which counts as a database that is away.
const ROLLBACK: Duration = Duration::from_secs(10);

/// The number of messages that wait after a failure, or for a handler. Beyond that, the inbox asks the node for no
/// more, and the node holds senders back.
const WAITING: usize = 1_024;

/// The reason for which a message is not processed this time.
enum Failed {
    /// The handler failed, and its transaction is rolled back.
    Handler(HandlerError),
    /// The database failed. It is not known whether the transaction has ended.
    Database(String),
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.to_string())
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(HandlerError::Retry(why)) => write!(f, "its handler failed: {why}"),
            Self::Handler(HandlerError::Reject { status, reason }) => {
                write!(f, "its handler rejects it: {reason} (status {status})")
            }
            Self::Database(why) => write!(f, "the database says: {why}"),
        }
    }
}

pub(super) struct Work<DB: Database, F>(Arc<Inner<DB, F>>);

struct Inner<DB: Database, F> {
    pool: Pool<DB>,
    node: Node,
    handler: F,
    handlers: Semaphore,
    most: Option<Duration>,
    attempts: Option<NonZeroU32>,
    counters: Arc<Counters>,
    handed: HandedOut,
    /// The nodes that speak for outboxes, according to the database.
    senders: Mutex<HashMap<Owner, NodeId>>,
}

impl<DB, F, Fut, E> Work<DB, F>
where
    DB: Database,
    F: Fn(InboxTx<DB>, InboxMessage) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<HandlerError> + Send + 'static,
{
    pub(super) fn new(builder: &InboxBuilder<DB>, handler: F, counters: Arc<Counters>) -> Self {
        Self(Arc::new(Inner {
            pool: builder.pool.clone(),
            node: builder.node.clone(),
            handler,
            handlers: Semaphore::new(builder.concurrency),
            most: builder.handler_timeout,
            attempts: builder.attempts,
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
            inner.pool.clone(),
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

impl<DB, F, Fut, E> Inner<DB, F>
where
    DB: Database,
    F: Fn(InboxTx<DB>, InboxMessage) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<HandlerError> + Send + 'static,
{
    /// Processes a message once. After that it is acknowledged, handed out again later, or rejected.
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
                // If the record of the message has died meanwhile, the sender hands the row over again, and the inbox
                // row says that it is processed.
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
                // It does not count as an attempt: the message waits here for the database. It may even be processed.
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
        // Not before: until here the message was handed out.
        drop(ticket);
    }

    /// Rejects a message. Its transaction, if it had one, is rolled back.
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
        let mut tx = self.pool.begin().await?;
        let args = vec![Value::blob(owner.0), Value::blob(row.key.to_vec())];
        if DB::execute(&mut tx, DB::STATEMENTS.process, args).await? == 0 {
            self.counters.repeated.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let (lent, tx) = Lent::lend(tx).await;
        let message = InboxMessage {
            from: delivery.from(),
            key: row.key,
            tag: row.tag.clone(),
            order: row.order.clone(),
            body: row.body.clone(),
            attempt: delivery.attempt(),
            id: delivery.id(),
        };
        let handled = self.handle(tx, message).await;
        let Some(tx) = lent.back() else {
            return Err(Failed::Database(
                "its handler has kept the transaction, and may still use it".into(),
            ));
        };
        if let Err(why) = handled {
            let undone = timeout(ROLLBACK, tx.rollback()).await;
            undone.map_err(|_| Failed::Database(format!("no rollback within {ROLLBACK:?}")))??;
            return Err(Failed::Handler(why));
        }
        tx.commit().await?;
        self.counters.processed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Calls the handler, on its own task, to which a panic is confined.
    async fn handle(&self, tx: InboxTx<DB>, message: InboxMessage) -> Result<(), HandlerError> {
        let begin = core::panic::AssertUnwindSafe(|| (self.handler)(tx, message));
        let Ok(handling) = std::panic::catch_unwind(begin) else {
            return Err("the handler has panicked".into());
        };
        let mut task = JoinSet::new();
        task.spawn(handling.in_current_span());
        let ended = match self.most {
            None => task.join_next().await,
            Some(most) => match timeout(most, task.join_next()).await {
                Ok(ended) => ended,
                Err(_) => {
                    task.shutdown().await;
                    return Err(format!("the handler has taken longer than {most:?}").into());
                }
            },
        };
        match ended {
            Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error.into()),
            Some(Err(_)) | None => Err("the handler has panicked".into()),
        }
    }

    /// Notes which node speaks for an outbox: the inbox asks this node which rows are gone.
    async fn speaks(&self, owner: Owner, node: NodeId) -> Result<(), sqlx::Error> {
        let mut conn = self.pool.acquire().await?;
        let args = vec![Value::blob(owner.0), Value::blob(self.node.id().0), Value::blob(node.0)];
        DB::execute(&mut conn, DB::STATEMENTS.set_sender, args).await?;
        self.senders.lock().unwrap_or_else(PoisonError::into_inner).insert(owner, node);
        Ok(())
    }
}
