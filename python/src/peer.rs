//! A node's handle on a peer.

use std::sync::Arc;

use exonet::stats::{PeerStats, Reading};
use exonet::{Message, Peer as CorePeer};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;
use tokio::runtime::Handle;

use crate::args::{Treatment, backed, duration};
use crate::call;
use crate::node::{Inner, open_messages};
use crate::op::{Operation, work};
use crate::receipt::{BatchReceipt, Receipt};
use crate::runtime::Held;

/// A handle on a peer: `node.peer("ID@HOST:PORT")`.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct Peer {
    held: Held<(Arc<Inner>, CorePeer)>,
}

impl Peer {
    pub(crate) fn make(py: Python<'_>, inner: &Arc<Inner>, peer: CorePeer) -> PyResult<Py<Self>> {
        Py::new(py, Self { held: Held::new((Arc::clone(inner), peer)) })
    }

    pub(crate) fn core(&self) -> PyResult<&CorePeer> {
        Ok(&self.held.get()?.1)
    }

    fn runtime(&self) -> PyResult<&Handle> {
        Ok(&self.held.get()?.0.runtime)
    }
}

/// See `Node.send`.
pub(crate) fn send(runtime: &Handle, peer: CorePeer, message: Message) -> Operation {
    let handle = runtime.clone();
    let send = async move { Ok(peer.send(message).await?) };
    let give = move |py: Python<'_>, receipt| Receipt::give(py, handle, receipt);
    Operation::new(runtime, "Node.send()", work(send, give))
}

/// One body of a batch. The bodies are returned to Python together.
struct Body {
    all: Arc<Vec<PyBackedBytes>>,
    at: usize,
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        self.all.get(self.at).map(|body| &body[..]).unwrap_or_default()
    }
}

/// See `Node.send_many`.
pub(crate) fn send_many(runtime: &Handle, peer: CorePeer, bodies: &Bound<'_, PyAny>) -> PyResult<Operation> {
    let all: PyResult<Vec<_>> = bodies.try_iter()?.map(|body| backed("each body", &body?)).collect();
    let all = Arc::new(all?);
    let handle = runtime.clone();
    let kept = Arc::clone(&all);
    let send = async move {
        let bodies = (0..all.len()).map(|at| Body { all: Arc::clone(&all), at });
        Ok(peer.send_bodies(bodies).await?)
    };
    let give = move |py: Python<'_>, batch| {
        drop(kept);
        BatchReceipt::give(py, handle, batch)
    };
    Ok(Operation::new(runtime, "Node.send_many()", work(send, give)))
}

#[pymethods]
impl Peer {
    /// The id of the peer.
    #[getter]
    fn id(&self) -> PyResult<String> {
        Ok(self.core()?.id().to_string())
    }

    /// The id of the peer and its address hints, as they were given.
    #[getter]
    fn address(&self) -> PyResult<String> {
        Ok(self.core()?.addr().to_string())
    }

    /// Like `Node.send`, to this peer.
    #[pyo3(signature = (body, *, tag=None, priority=None, deadline=None, confirm=None, early=None))]
    fn send(
        &self,
        body: &Bound<'_, PyAny>,
        tag: Option<&Bound<'_, PyAny>>,
        priority: Option<&str>,
        deadline: Option<f64>,
        confirm: Option<&str>,
        early: Option<bool>,
    ) -> PyResult<Operation> {
        let message = Treatment { tag, priority, deadline, confirm, early }.message(body)?;
        Ok(send(self.runtime()?, self.core()?.clone(), message))
    }

    /// Like `Node.send_many`, to this peer.
    fn send_many(&self, bodies: &Bound<'_, PyAny>) -> PyResult<Operation> {
        send_many(self.runtime()?, self.core()?.clone(), bodies)
    }

    /// Like `Node.call`, to this peer.
    #[pyo3(signature = (method, body=None, *, timeout=None, priority=None, early=None))]
    fn call(
        &self,
        method: &Bound<'_, PyAny>,
        body: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        priority: Option<&str>,
        early: Option<bool>,
    ) -> PyResult<Operation> {
        call::call(self.runtime()?, self.core()?, method, body, &call::Options { timeout, priority, early })
    }

    /// The time of a round trip to the peer, in seconds; None: no answer came within `timeout` seconds.
    #[pyo3(signature = (timeout=5.0))]
    fn ping(&self, timeout: f64) -> PyResult<Operation> {
        let (peer, timeout) = (self.core()?.clone(), duration("timeout", timeout)?);
        let ping = async move { Ok(peer.ping(timeout).await?) };
        let give = |py: Python<'_>, took: Option<std::time::Duration>| {
            Ok(took.map(|took| took.as_secs_f64()).into_pyobject(py)?.unbind())
        };
        Ok(Operation::new(self.runtime()?, "Peer.ping()", work(ping, give)))
    }

    /// Figures about the peer, by their names without `peer_`; None: the node does not know the peer now. A figure whose
    /// value is not known now is left out.
    fn stats(&self, py: Python<'_>) -> PyResult<Option<Py<PyDict>>> {
        let peer = self.core()?;
        let Some(stats) = py.detach(|| peer.stats()) else { return Ok(None) };
        let figures = PyDict::new(py);
        for figure in PeerStats::FIGURES {
            let name = figure.metric.strip_prefix("peer_").unwrap_or(figure.metric);
            match figure.of {
                Reading::Truth(of) => figures.set_item(name, of(&stats))?,
                Reading::Count(of) => figures.set_item(name, of(&stats))?,
                _ => {
                    if let Some(value) = figure.of.number(&stats) {
                        figures.set_item(name, value)?;
                    }
                }
            }
        }
        Ok(Some(figures.unbind()))
    }

    /// Waits until all messages to this peer are settled, for `timeout` seconds at most, then gives up the rest.
    /// Returns a list of the rest.
    #[pyo3(signature = (timeout=5.0))]
    fn close(&self, timeout: f64) -> PyResult<Operation> {
        let (peer, timeout) = (self.core()?.clone(), duration("timeout", timeout)?);
        let close = async move { Ok(peer.close(timeout).await) };
        Ok(Operation::new(self.runtime()?, "Peer.close()", work(close, open_messages)))
    }

    /// Gives up every open message to the peer: those that have left are UNKNOWN, the others CANCELLED.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        let peer = self.core()?;
        py.detach(|| peer.abandon());
        Ok(())
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<Peer {}>", self.core()?.addr()))
    }
}
