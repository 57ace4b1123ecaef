//! The inbox.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use exonet_sql::host::{Failed, Process, Processed, Settings, Statement};
use exonet_sql::{HandlerError, Inbox, InboxMessage as CoreMessage};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};

use super::driver::{Driver, arguments};
use super::message::InboxMessage;
use crate::args::{self, duration};
use crate::fault::Fault;
use crate::node::Node;
use crate::op::{Operation, work};
use crate::runtime::Held;

/// Tells how a transaction has ended.
type End = oneshot::Sender<Result<Processed, Failed>>;

/// A message that waits for a thread or a task of Python.
struct Job {
    record: Statement,
    message: CoreMessage,
    end: End,
}

/// Lets Python run the transactions.
struct Hand(mpsc::UnboundedSender<Job>);

impl Process for Hand {
    async fn process(&self, record: Statement, message: CoreMessage) -> Result<Processed, Failed> {
        let (end, ended) = oneshot::channel();
        let given_up = || Failed::Database("the task or thread of the handler has given it up".to_owned());
        self.0.send(Job { record, message, end }).map_err(|_| given_up())?;
        ended.await.unwrap_or_else(|_| Err(given_up()))
    }
}

/// Starts an inbox.
#[pyfunction]
pub(crate) fn _sql_inbox(
    node: &Bound<'_, Node>,
    database: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = args::concurrency)] concurrency: usize,
    #[pyo3(from_py_with = args::attempts)] attempts: Option<u32>,
    collect_every: f64,
) -> PyResult<Operation> {
    let inner = Arc::clone(node.get().inner()?);
    let attempts = attempts.map(|most| NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN));
    let settings =
        Settings { concurrency, attempts, collect_every: duration("collect_every", collect_every)? };
    let driver = Arc::new(Driver::new(database)?);
    let (send, jobs) = mpsc::unbounded_channel();
    let runtime = inner.runtime.clone();
    let start = {
        let inner = Arc::clone(&inner);
        async move { Ok(Inbox::over(driver, &inner.node, &settings, Hand(send)).await?) }
    };
    let give = move |py: Python<'_>, inbox| {
        let inbox = Mutex::new(Some(Held::new(inbox)));
        Py::new(py, InboxJobs { runtime, inbox, jobs: Held::new(Arc::new(AsyncMutex::new(jobs))) })
    };
    Ok(Operation::new(&inner.runtime, "Inbox.start()", work(start, give)))
}

/// An inbox that runs, and the messages that it wants processed.
#[pyclass(frozen, module = "exonet._native")]
pub(crate) struct InboxJobs {
    runtime: Handle,
    /// None: it was stopped.
    inbox: Mutex<Option<Held<Inbox>>>,
    jobs: Held<Arc<AsyncMutex<mpsc::UnboundedReceiver<Job>>>>,
}

#[pymethods]
impl InboxJobs {
    fn next(&self) -> PyResult<Operation> {
        let jobs = Arc::clone(self.jobs.get()?);
        let next = async move { jobs.lock().await.recv().await.ok_or_else(Fault::end) };
        let give = |py: Python<'_>, job: Job| {
            let Job { record, message, end } = job;
            let message = Py::new(py, InboxMessage(message))?;
            Py::new(py, InboxJob { record, message, end: Mutex::new(Some(Held::new(end))) })
        };
        Ok(Operation::new(&self.runtime, "InboxJobs.next()", work(next, give)))
    }

    fn stats(&self) -> PyResult<InboxStats> {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let stopped = || Fault::usage("the inbox has been stopped: start another");
        let stats = inbox.as_ref().ok_or_else(stopped)?.get()?.stats();
        Ok(InboxStats {
            processed: stats.processed,
            repeated: stats.repeated,
            failed: stats.failed,
            rejected: stats.rejected,
            collected: stats.collected,
        })
    }

    fn stop(&self, timeout: f64) -> PyResult<Operation> {
        let timeout = duration("timeout", timeout)?;
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take();
        let inbox = inbox.map(Held::take).transpose()?;
        let stop = async move {
            if let Some(inbox) = inbox {
                inbox.stop(timeout).await?;
            }
            Ok(())
        };
        Ok(Operation::new(&self.runtime, "Inbox.stop()", work(stop, |py, ()| Ok(py.None()))))
    }
}

impl Drop for InboxJobs {
    fn drop(&mut self) {
        let _context = self.runtime.enter();
        drop(self.inbox.get_mut().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// A message that Python processes in a transaction. If it is dropped before Python has said how the transaction has
/// ended, the inbox does not know whether that was committed.
#[pyclass(frozen, module = "exonet._native")]
pub(crate) struct InboxJob {
    record: Statement,
    message: Py<InboxMessage>,
    end: Mutex<Option<Held<End>>>,
}

impl InboxJob {
    fn end(&self, how: Result<Processed, Failed>) -> PyResult<()> {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(end) = end {
            // The inbox may have stopped.
            drop(end.take()?.send(how));
        }
        Ok(())
    }
}

#[pymethods]
impl InboxJob {
    /// The first statement of the transaction.
    #[getter]
    const fn sql(&self) -> &'static str {
        self.record.sql
    }

    /// Its arguments.
    #[getter]
    fn args(&self, py: Python<'_>) -> PyResult<Py<PyList>> {
        Ok(arguments(py, self.record.args.clone())?.unbind())
    }

    /// The message.
    #[getter]
    fn message(&self, py: Python<'_>) -> Py<InboxMessage> {
        self.message.clone_ref(py)
    }

    /// Whether the inbox waits for the end of this.
    #[getter]
    fn is_wanted(&self) -> bool {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.as_ref().and_then(|end| end.get().ok()).is_some_and(|end| !end.is_closed())
    }

    /// The transaction is committed. False: the message was processed before.
    fn processed(&self, is_new: bool) -> PyResult<()> {
        self.end(Ok(if is_new { Processed::Now } else { Processed::Before }))
    }

    /// The handler failed, and the transaction is rolled back.
    fn failed(&self, why: String) -> PyResult<()> {
        self.end(Err(Failed::Handler(HandlerError::Retry(why))))
    }

    /// The handler rejects the message, and the transaction is rolled back.
    fn rejected(&self, status: u32, reason: String) -> PyResult<()> {
        self.end(Err(Failed::Handler(HandlerError::Reject { status, reason })))
    }

    /// The database failed: it is not known whether the transaction is committed.
    fn away(&self, why: String) -> PyResult<()> {
        self.end(Err(Failed::Database(why)))
    }
}

/// Figures about an inbox.
#[pyclass(frozen, get_all, module = "exonet.sql")]
pub(crate) struct InboxStats {
    /// Messages whose handler's transaction was committed.
    processed: u64,
    /// Messages that came again after they were processed.
    repeated: u64,
    /// Attempts at which a message was not processed: a handler failed or took too long, or the database was away.
    failed: u64,
    /// Messages that were rejected, and are dead letters of the node.
    rejected: u64,
    /// Records that were deleted because the sender has said that its row is gone.
    collected: u64,
}

#[pymethods]
impl InboxStats {
    fn __repr__(&self) -> String {
        format!(
            "<InboxStats: {} processed, {} repeated, {} failed, {} rejected, {} collected>",
            self.processed, self.repeated, self.failed, self.rejected, self.collected
        )
    }
}
