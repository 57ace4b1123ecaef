//! Receiving without a guard.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use exonet::receive::{AtMostOnce as CoreAtMostOnce, Received as CoreReceived};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::args;
use crate::delivery::Received;
use crate::fault::Fault;
use crate::node::Inner;
use crate::op::{Operation, Work, work};
use crate::runtime::Held;

/// Receives messages without a guard: each is delivered when it is returned. Made by `Node.at_most_once()`.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct AtMostOnce {
    inner: Held<Arc<Inner>>,
    source: Held<Arc<Source>>,
}

/// The source of messages.
struct Source {
    receiver: CoreAtMostOnce,
    /// Messages that were taken together with one whose body was still arriving.
    rest: Mutex<VecDeque<CoreReceived>>,
}

/// A message and its complete body.
type Whole = (CoreReceived, Bytes);

impl Source {
    fn rest(&self) -> MutexGuard<'_, VecDeque<CoreReceived>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message. A message whose body is still arriving when this is cancelled is handed out again.
    async fn next(&self) -> Result<Whole, Fault> {
        let waiting = self.rest().pop_front();
        let mut received = match waiting {
            Some(received) => received,
            None => self.receiver.recv().await?,
        };
        let body = match received.body.as_whole() {
            Some(body) => body.clone(),
            None => received.body.bytes(u64::MAX).await?,
        };
        Ok((received, body))
    }

    async fn next_many(&self, most: usize) -> Result<Vec<Whole>, Fault> {
        if self.rest().is_empty() {
            let batch = self.receiver.recv_batch(most.max(1)).await?;
            let mut all = Vec::with_capacity(batch.len());
            for received in batch {
                let body = received.body.as_whole().cloned();
                let mut rest = self.rest();
                match body {
                    Some(body) if rest.is_empty() => all.push((received, body)),
                    _ => rest.push_back(received),
                }
            }
            if !all.is_empty() {
                return Ok(all);
            }
        }
        Ok(vec![self.next().await?])
    }
}

impl AtMostOnce {
    pub(crate) fn new(inner: &Arc<Inner>) -> Self {
        let source = Source { receiver: inner.node.at_most_once(), rest: Mutex::default() };
        Self { inner: Held::new(Arc::clone(inner)), source: Held::new(Arc::new(source)) }
    }

    fn next(&self) -> PyResult<Work> {
        let source = Arc::clone(self.source.get()?);
        let next = async move { source.next().await };
        Ok(work(next, |py, (received, body): Whole| Received::give(py, received, &body)))
    }
}

#[pymethods]
impl AtMostOnce {
    /// Waits for the next message: a `Received`. If cancelled, no message is lost.
    fn recv(&self) -> PyResult<Operation> {
        Ok(Operation::new(&self.inner.get()?.runtime, "AtMostOnce.recv()", self.next()?))
    }

    /// Waits for messages: a list of at least one and at most `max` `Received` objects.
    #[pyo3(signature = (max=256))]
    fn recv_many(&self, #[pyo3(from_py_with = args::max)] max: usize) -> PyResult<Operation> {
        let source = Arc::clone(self.source.get()?);
        let next = async move { source.next_many(max).await };
        let give = |py: Python<'_>, all: Vec<Whole>| {
            let all: PyResult<Vec<_>> =
                all.into_iter().map(|(received, body)| Received::give(py, received, &body)).collect();
            Ok(PyList::new(py, all?)?.unbind())
        };
        Ok(Operation::new(&self.inner.get()?.runtime, "AtMostOnce.recv_many()", work(next, give)))
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(&self) -> PyResult<Operation> {
        Ok(Operation::of_for(&self.inner.get()?.runtime, "async for", self.next()?))
    }
}
