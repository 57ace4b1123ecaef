//! The relay.

use std::sync::{Arc, Mutex, PoisonError};

use exonet_sql::Relay;
use exonet_sql::host::Host;
use pyo3::prelude::*;
use tokio::runtime::Handle;

use super::driver::Driver;
use crate::args::{self, duration};
use crate::fault::Fault;
use crate::node::Node;
use crate::op::{Operation, work};
use crate::runtime::Held;

/// Starts a relay.
#[pyfunction]
pub(crate) fn _sql_relay(
    node: &Bound<'_, Node>,
    database: &Bound<'_, PyAny>,
    lanes: Option<Vec<Bound<'_, PyAny>>>,
    take_after: f64,
    keep_settled: Option<f64>,
    #[pyo3(from_py_with = args::in_flight)] in_flight: usize,
) -> PyResult<Operation> {
    let inner = Arc::clone(node.get().inner()?);
    let mut builder = Relay::over(Arc::new(Driver::new(database)?), &inner.node)
        .take_after(duration("take_after", take_after)?)
        .in_flight(in_flight);
    if let Some(lanes) = lanes {
        let lane = |lane: Bound<'_, PyAny>| {
            let number = lane.extract::<u8>().ok().filter(|number| *number <= 7);
            number.ok_or_else(|| Fault::usage(format!("lanes are numbers from 0 to 7, not {lane}")))
        };
        builder = builder.lanes(lanes.into_iter().map(lane).collect::<Result<Vec<_>, _>>()?);
    }
    if let Some(seconds) = keep_settled {
        builder = builder.keep_settled(duration("keep_settled", seconds)?);
    }
    let runtime = inner.runtime.clone();
    let start = async move { Ok(builder.start().await?) };
    let give = move |py: Python<'_>, relay| {
        Py::new(py, OutboxRelay { runtime, relay: Mutex::new(Some(Held::new(relay))) })
    };
    Ok(Operation::new(&inner.runtime, "Relay.start()", work(start, give)))
}

/// A relay that runs.
#[pyclass(frozen, module = "exonet._native")]
pub(crate) struct OutboxRelay {
    runtime: Handle,
    /// None: it was stopped.
    relay: Mutex<Option<Held<Relay<Host>>>>,
}

fn stopped() -> Fault {
    Fault::usage("the relay has been stopped: start another")
}

impl OutboxRelay {
    fn take(&self) -> Result<Relay<Host>, Fault> {
        let relay = self.relay.lock().unwrap_or_else(PoisonError::into_inner).take();
        relay.ok_or_else(stopped)?.take()
    }
}

#[pymethods]
impl OutboxRelay {
    fn stats(&self) -> PyResult<RelayStats> {
        let relay = self.relay.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = relay.as_ref().ok_or_else(stopped)?.get()?.stats();
        Ok(RelayStats {
            handed_over: stats.handed_over,
            processed: stats.processed,
            failed: stats.failed,
            open: stats.open,
            lanes: stats.lanes.into_iter().map(u32::from).collect(),
            leaving: stats.leaving.into_iter().map(u32::from).collect(),
            error: stats.error,
        })
    }

    fn stop(&self, timeout: f64) -> PyResult<Operation> {
        let timeout = duration("timeout", timeout)?;
        let Ok(relay) = self.take() else {
            let nothing = work(async { Ok(()) }, |py, ()| Ok(py.None()));
            return Ok(Operation::new(&self.runtime, "Relay.stop()", nothing));
        };
        let stop = async move { Ok(relay.stop(timeout).await?) };
        Ok(Operation::new(&self.runtime, "Relay.stop()", work(stop, |py, ()| Ok(py.None()))))
    }

    fn sign_off(&self, timeout: f64) -> PyResult<Operation> {
        let timeout = duration("timeout", timeout)?;
        let relay = self.take()?;
        let sign_off = async move { Ok(relay.sign_off(timeout).await?) };
        let give = |py: Python<'_>, done: bool| Ok(done.into_pyobject(py)?.to_owned().unbind());
        Ok(Operation::new(&self.runtime, "Relay.sign_off()", work(sign_off, give)))
    }
}

impl Drop for OutboxRelay {
    fn drop(&mut self) {
        let _context = self.runtime.enter();
        drop(self.relay.get_mut().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Figures about a relay.
#[pyclass(frozen, get_all, module = "exonet.sql")]
pub(crate) struct RelayStats {
    /// Rows that were handed to the node; a row that is handed over again counts again.
    handed_over: u64,
    /// Rows that were deleted, or marked as settled, because they are processed.
    processed: u64,
    /// Rows that cannot be processed: their column `failed` says why.
    failed: u64,
    /// Rows that are under way.
    open: usize,
    /// Lanes that the relay owns.
    lanes: Vec<u32>,
    /// Lanes that it owned and has not left yet. Receivers keep their records while there are any.
    leaving: Vec<u32>,
    /// The last error of the database, if the relay waits for it.
    error: Option<String>,
}

#[pymethods]
impl RelayStats {
    fn __repr__(&self) -> String {
        format!(
            "<RelayStats: {} handed over, {} processed, {} failed, {} open>",
            self.handed_over, self.processed, self.failed, self.open
        )
    }
}
