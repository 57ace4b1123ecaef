//! From a delivery to its acknowledgement.

use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

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
use crate::inbox::{Counters, InboxBuilder, InboxMessage, InboxTx, collect};
use crate::outbox::MAX_BODY;
use crate::wire::{Envelope, Owner, Row, TAG};

/// The first and the longest wait after a handler has failed.
const AGAIN: Duration = Duration::from_millis(50);
const LONGEST_AGAIN: Duration = Duration::from_secs(60);

/// Messages that wait after a failure, or for a handler. Beyond these the node is not asked for more, and holds senders back.
const WAITING: usize = 1_024;

/// Why a message is not processed this time.
enum Failed {
    Handler(String),
    Database(sqlx::Error),
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(why) => write!(f, "its handler failed: {why}"),
            Self::Database(error) => write!(f, "the database says: {error}"),
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
    counters: Arc<Counters>,
    handed: HandedOut,
    /// Whom the database knows as the node that speaks for an outbox.
    senders: Mutex<HashMap<Owner, NodeId>>,
}

impl<DB, F, Fut, E> Work<DB, F>
where
    DB: Database,
    F: Fn(InboxTx<DB>, InboxMessage) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: fmt::Display + Send + 'static,
{
    pub(super) fn new(builder: &InboxBuilder<DB>, handler: F, counters: Arc<Counters>) -> Self {
        Self(Arc::new(Inner {
            pool: builder.pool.clone(),
            node: builder.node.clone(),
            handler,
            handlers: Semaphore::new(builder.concurrency),
            most: builder.handler_timeout,
            counters,
            handed: HandedOut::default(),
            senders: Mutex::default(),
        }))
    }

    /// Until the node closes, or `stopped` says so.
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
    E: fmt::Display + Send + 'static,
{
    /// Processes a message, however often it takes, and acknowledges it.
    async fn take(self: Arc<Self>, mut delivery: Delivery, ticket: Ticket) {
        let limit = MAX_BODY as u64 + 1_024;
        // What ends early is handed out again.
        let Ok(body) = delivery.body_mut().bytes(limit).await else { return };
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
                // A later version of this application may know it. Nothing can be told its sender yet: this is where it is rejected.
                tracing::error!(%error, "a message cannot be read, and is kept");
                return sleep(LONGEST_AGAIN).await;
            }
        };
        ticket.has_key(row.key);
        let (mut attempt, mut wait) = (1, AGAIN);
        while let Err(failed) = self.process(&delivery, owner, &row, attempt).await {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(key = %row.key, attempt, again = ?wait, "a message is not processed: {failed}");
            sleep(wait).await;
            (attempt, wait) = (attempt.saturating_add(1), (2 * wait).min(LONGEST_AGAIN));
        }
        // If its record has died meanwhile, the sender hands the row over again, and the inbox row says that it is processed.
        let _ = delivery.ack();
        drop(ticket);
    }

    /// One transaction: the record that the message is processed, and what the handler does.
    async fn process(
        &self,
        delivery: &Delivery,
        owner: Owner,
        row: &Row,
        attempt: u32,
    ) -> Result<(), Failed> {
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
            attempt,
            id: delivery.id(),
        };
        self.handle(tx, message).await.map_err(Failed::Handler)?;
        let Some(tx) = lent.back() else {
            return Err(Failed::Handler("it has kept its transaction".into()));
        };
        tx.commit().await?;
        self.counters.processed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Calls the handler, on a task of its own: its panic is its own.
    async fn handle(&self, tx: InboxTx<DB>, message: InboxMessage) -> Result<(), String> {
        let begin = core::panic::AssertUnwindSafe(|| (self.handler)(tx, message));
        let Ok(handling) = std::panic::catch_unwind(begin) else { return Err("it has panicked".into()) };
        let mut task = JoinSet::new();
        task.spawn(handling.in_current_span());
        let ended = match self.most {
            None => task.join_next().await,
            Some(most) => match timeout(most, task.join_next()).await {
                Ok(ended) => ended,
                Err(_) => {
                    task.shutdown().await;
                    return Err(format!("it has taken longer than {most:?}"));
                }
            },
        };
        match ended {
            Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error.to_string()),
            Some(Err(_)) | None => Err("it has panicked".into()),
        }
    }

    /// Notes which node speaks for an outbox: it is asked what is gone.
    async fn speaks(&self, owner: Owner, node: NodeId) -> Result<(), sqlx::Error> {
        let mut conn = self.pool.acquire().await?;
        let args = vec![Value::blob(owner.0), Value::blob(self.node.id().0), Value::blob(node.0)];
        DB::execute(&mut conn, DB::STATEMENTS.set_sender, args).await?;
        self.senders.lock().unwrap_or_else(PoisonError::into_inner).insert(owner, node);
        Ok(())
    }
}
