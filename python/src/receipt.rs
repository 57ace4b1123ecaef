//! The outcomes of messages.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use exonet::send::{
    BatchReceipt as CoreBatch, Cancel, Refusal, Settled as CoreSettled, Status, Tally as CoreTally,
};
use exonet::{DurabilityLevel, Outcome, Receipt as CoreReceipt};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tokio::runtime::Handle;

use crate::fault::Fault;
use crate::op::{Operation, work};
use crate::runtime::Held;

/// Wakes all tasks that wait for one event, of which the library wakes only one.
#[derive(Default)]
struct Fan(Mutex<Vec<Waker>>);

impl Fan {
    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, waker: &Waker) {
        let mut wakers = self.wakers();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    fn ring(&self) {
        let wakers = std::mem::take(&mut *self.wakers());
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Fan {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

/// A future that ends once, and that many tasks may await.
pub(crate) struct Shared<T> {
    inner: Mutex<T>,
    fan: Arc<Fan>,
}

impl<T: Unpin> Shared<T> {
    pub(crate) fn new(inner: T) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::new(inner), fan: Arc::default() })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end, together with other tasks.
    pub(crate) async fn end<U>(&self, poll: impl Fn(&mut T, &mut Context<'_>) -> Poll<U>) -> U {
        let waker = Waker::from(Arc::clone(&self.fan));
        let end = poll_fn(|cx| {
            self.fan.add(cx.waker());
            poll(&mut self.lock(), &mut Context::from_waker(&waker))
        });
        let end = end.await;
        self.fan.ring();
        end
    }
}

/// The result of `send`: it tells the status of the message and, when awaited, its outcome. It may be awaited any
/// number of times. Dropping it neither cancels the message nor speeds it up.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct Receipt {
    runtime: Handle,
    receipt: Held<Arc<Shared<CoreReceipt>>>,
}

impl Receipt {
    pub(crate) fn give(py: Python<'_>, runtime: Handle, receipt: CoreReceipt) -> PyResult<Py<Self>> {
        Py::new(py, Self { runtime, receipt: Held::new(Shared::new(receipt)) })
    }
}

#[pymethods]
impl Receipt {
    /// Waits for the outcome of the message: a `Settled`. A dead peer leaves a message in doubt for the node's
    /// `doubt_timeout`, by default for ever: see `abandon()`.
    fn settle(&self) -> PyResult<Operation> {
        let receipt = Arc::clone(self.receipt.get()?);
        let settle = async move {
            let settled = receipt.end(|receipt, cx| Pin::new(receipt).poll(cx)).await;
            let reason = match settled.outcome {
                Outcome::Processed { .. } | Outcome::Rejected { .. } => receipt.lock().reason(),
                _ => None,
            };
            Ok((settled, reason))
        };
        let give = |py: Python<'_>, (settled, reason)| Py::new(py, Settled::new(settled, reason));
        Ok(Operation::new(&self.runtime, "Receipt.settle()", work(settle, give)))
    }

    fn __await__(&self) -> PyResult<Operation> {
        self.settle()
    }

    /// Waits on this thread, for `timeout` seconds at most: see `settle()`.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        Bound::new(py, self.settle()?)?.call_method1("wait", (timeout,)).map(Bound::unbind)
    }

    /// The message's name at both ends, once it has left; None before.
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let receipt = self.receipt.get()?;
        Ok(py.detach(|| receipt.lock().id()).map(|id| id.to_string()))
    }

    /// The status of the message: "queued", "in doubt" or "settled".
    fn status(&self, py: Python<'_>) -> PyResult<&'static str> {
        let receipt = self.receipt.get()?;
        Ok(match py.detach(|| receipt.lock().status()) {
            Status::Queued => "queued",
            Status::InDoubt { .. } => "in doubt",
            Status::Settled => "settled",
        })
    }

    /// The outcome of the message, if it is known; else None.
    fn settled(&self, py: Python<'_>) -> PyResult<Option<Settled>> {
        let receipt = self.receipt.get()?;
        Ok(py.detach(|| {
            let receipt = receipt.lock();
            receipt.settled().map(|settled| Settled::new(settled, receipt.reason()))
        }))
    }

    /// Withdraws the message. True: it had not left, and its outcome is CANCELLED, certainly never delivered. False:
    /// it has left, and its receiver is asked for it: its outcome is CANCELLED too if it was not taken, and DELIVERED
    /// if it was.
    ///
    /// Raises `CancelError` if it has its outcome, or has left and is the end of a stream.
    fn cancel(&self, py: Python<'_>) -> PyResult<bool> {
        let receipt = self.receipt.get()?;
        let cancelled = py.detach(|| receipt.lock().cancel()).map_err(Fault::from)?;
        Ok(cancelled == Cancel::Done)
    }

    /// Gives the message up: its outcome is UNKNOWN now, or CANCELLED if it never left.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        let receipt = self.receipt.get()?;
        py.detach(|| receipt.lock().abandon());
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<Receipt: {}>", self.status(py)?))
    }
}

/// The outcome of a message.
#[pyclass(frozen, module = "exonet")]
pub(crate) struct Settled {
    settled: CoreSettled,
    reason: Option<Arc<str>>,
}

impl Settled {
    pub(crate) const fn new(settled: CoreSettled, reason: Option<Arc<str>>) -> Self {
        Self { settled, reason }
    }
}

/// The name of an outcome in `exonet.Outcome`.
const fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Delivered => "DELIVERED",
        Outcome::Processed { .. } => "PROCESSED",
        Outcome::Rejected { .. } => "REJECTED",
        Outcome::Expired => "EXPIRED",
        Outcome::Cancelled => "CANCELLED",
        Outcome::Refused(_) => "REFUSED",
        Outcome::Unknown => "UNKNOWN",
        Outcome::Kept => "KEPT",
    }
}

#[pymethods]
impl Settled {
    /// An `exonet.Outcome`.
    #[getter]
    fn outcome(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static OUTCOME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let outcome = OUTCOME.import(py, "exonet.outcome", "Outcome")?;
        outcome.getattr(outcome_name(&self.settled.outcome)).map(Bound::unbind)
    }

    /// The status from the receiving application, with PROCESSED and REJECTED; else zero.
    #[getter]
    const fn status(&self) -> u32 {
        match self.settled.outcome {
            Outcome::Processed { status } | Outcome::Rejected { status, .. } => status,
            _ => 0,
        }
    }

    /// The reason from the receiving application with REJECTED, or from the peer with REFUSED. Else None.
    #[getter]
    fn reason(&self) -> Option<String> {
        match &self.settled.outcome {
            Outcome::Refused(why) => Some(refusal(*why)),
            _ => self.reason.as_deref().map(str::to_owned),
        }
    }

    /// How often a REJECTED message was handed out; else None.
    #[getter]
    const fn attempts(&self) -> Option<u32> {
        match self.settled.outcome {
            Outcome::Rejected { attempts, .. } => Some(attempts),
            _ => None,
        }
    }

    /// The message's name at both ends; None: it never left.
    #[getter]
    fn id(&self) -> Option<String> {
        self.settled.id.map(|id| id.to_string())
    }

    /// Whether its deadline passed before.
    #[getter]
    const fn late(&self) -> bool {
        self.settled.late
    }

    /// The durability level that the receiver has declared: "memory", "process", "batched" or "sync". None: the outcome does not come
    /// from the receiver.
    #[getter]
    fn receiver_durability(&self) -> Option<&'static str> {
        self.settled.receiver_durability.map(DurabilityLevel::name)
    }

    fn __repr__(&self) -> String {
        let outcome = outcome_name(&self.settled.outcome);
        match (self.status(), self.reason()) {
            (0, None) => format!("<Settled: {outcome}>"),
            (status, None) => format!("<Settled: {outcome}, status {status}>"),
            (status, Some(reason)) => format!("<Settled: {outcome}, status {status}, {reason:?}>"),
        }
    }
}

fn refusal(why: Refusal) -> String {
    match why {
        Refusal::Policy => format!("{why}: give this node's id to the peer's `allow`"),
        _ => why.to_string(),
    }
}

/// The result of `send_many`: it counts the outcomes of the messages of a batch. Awaited, it returns a `Tally` when
/// all are settled.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct BatchReceipt {
    runtime: Handle,
    batch: Held<Arc<Shared<CoreBatch>>>,
}

impl BatchReceipt {
    pub(crate) fn give(py: Python<'_>, runtime: Handle, batch: CoreBatch) -> PyResult<Py<Self>> {
        Py::new(py, Self { runtime, batch: Held::new(Shared::new(batch)) })
    }
}

#[pymethods]
impl BatchReceipt {
    /// Waits until every message is settled: a `Tally`.
    fn settle(&self) -> PyResult<Operation> {
        let batch = Arc::clone(self.batch.get()?);
        let settle = async move { Ok(batch.end(|batch, cx| Pin::new(batch).poll(cx)).await) };
        let give = |py: Python<'_>, tally| Py::new(py, Tally(tally));
        Ok(Operation::new(&self.runtime, "BatchReceipt.settle()", work(settle, give)))
    }

    fn __await__(&self) -> PyResult<Operation> {
        self.settle()
    }

    /// Waits on this thread, for `timeout` seconds at most: see `settle()`.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        Bound::new(py, self.settle()?)?.call_method1("wait", (timeout,)).map(Bound::unbind)
    }

    /// The outcomes of the messages that are settled so far.
    fn tally(&self, py: Python<'_>) -> PyResult<Tally> {
        let batch = self.batch.get()?;
        Ok(Tally(py.detach(|| batch.lock().tally())))
    }

    /// Withdraws the messages. Returns how many had not left: they are CANCELLED, certainly never delivered. The
    /// receiver is asked for the others, which are CANCELLED too if they were not taken.
    fn cancel(&self, py: Python<'_>) -> PyResult<u64> {
        let batch = self.batch.get()?;
        Ok(py.detach(|| batch.lock().cancel()))
    }

    /// Gives up the messages that are open: UNKNOWN now, or CANCELLED if they never left.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        let batch = self.batch.get()?;
        py.detach(|| batch.lock().abandon());
        Ok(())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let batch = self.batch.get()?;
        Ok(usize::try_from(py.detach(|| batch.lock().len())).unwrap_or(usize::MAX))
    }
}

/// The number of messages of a batch, by outcome.
#[pyclass(frozen, module = "exonet")]
pub(crate) struct Tally(CoreTally);

#[pymethods]
impl Tally {
    /// Messages that were DELIVERED.
    #[getter]
    const fn delivered(&self) -> u64 {
        self.0.delivered
    }

    /// Messages that were PROCESSED.
    #[getter]
    const fn processed(&self) -> u64 {
        self.0.processed
    }

    /// Messages that were REJECTED.
    #[getter]
    const fn rejected(&self) -> u64 {
        self.0.rejected
    }

    /// Messages that are EXPIRED.
    #[getter]
    const fn expired(&self) -> u64 {
        self.0.expired
    }

    /// Messages that were CANCELLED.
    #[getter]
    const fn cancelled(&self) -> u64 {
        self.0.cancelled
    }

    /// Messages that were REFUSED.
    #[getter]
    const fn refused(&self) -> u64 {
        self.0.refused
    }

    /// Messages whose outcome is UNKNOWN.
    #[getter]
    const fn unknown(&self) -> u64 {
        self.0.unknown
    }

    /// Messages that are KEPT for the next life of the identity.
    #[getter]
    const fn kept(&self) -> u64 {
        self.0.kept
    }

    /// All messages that are settled.
    #[getter]
    const fn settled(&self) -> u64 {
        self.0.settled()
    }

    /// Settled messages whose deadline passed before.
    #[getter]
    const fn late(&self) -> u64 {
        self.0.late
    }

    fn __repr__(&self) -> String {
        let CoreTally { delivered, processed, rejected, expired, cancelled, refused, unknown, kept, .. } =
            self.0;
        let counts = [
            (delivered, "delivered"),
            (processed, "processed"),
            (rejected, "rejected"),
            (expired, "expired"),
            (cancelled, "cancelled"),
            (refused, "refused"),
            (unknown, "unknown"),
            (kept, "kept"),
        ];
        let said: Vec<_> =
            counts.iter().filter(|(n, _)| *n > 0).map(|(n, name)| format!("{n} {name}")).collect();
        format!("<Tally: {}>", if said.is_empty() { "nothing settled".to_owned() } else { said.join(", ") })
    }
}
