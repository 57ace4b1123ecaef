//! Streams to groups.

use std::sync::Arc;

use exonet::group::{
    Cause, Departure as CoreDeparture, Group as CoreGroup, GroupStream as CoreStream, Remove, WhenFull,
};
use pyo3::prelude::*;

use crate::args::{self, Treatment};
use crate::fault::Fault;
use crate::group::{GroupReceipt, mode};
use crate::node::{Inner, node_id};
use crate::op::{Operation, work};
use crate::runtime::Held;
use crate::stream::Reader;

/// A stream to the members of a group, made by `group.stream(name)`: each member takes the messages in the order in which
/// they were sent, in a `Stream` of that name. If the object is dropped, messages that were sent are still delivered.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct GroupStream {
    held: Held<(Arc<Inner>, CoreStream)>,
}

fn when_full(text: &str) -> Result<WhenFull, Fault> {
    match text {
        "fall out" => Ok(WhenFull::FallOut),
        "wait" => Ok(WhenFull::Wait),
        _ => Err(Fault::usage(format!("when_full must be \"fall out\" or \"wait\", not {text:?}"))),
    }
}

/// The settings of a stream.
pub(crate) struct Options<'a> {
    pub(crate) queue: Option<usize>,
    pub(crate) when_full: Option<&'a str>,
    pub(crate) priority: Option<&'a str>,
}

impl GroupStream {
    pub(crate) fn open(
        inner: &Arc<Inner>,
        group: &CoreGroup,
        name: &Bound<'_, PyAny>,
        options: &Options<'_>,
    ) -> PyResult<Self> {
        let name = args::name("name", name)?;
        let when_full = options.when_full.map(when_full).transpose()?;
        let priority = options.priority.map(args::priority).transpose()?;
        // The stream starts a task on the runtime.
        let _context = inner.runtime.enter();
        let mut stream = group.stream(name).map_err(Fault::from)?;
        if let Some(most) = options.queue {
            stream = stream.queue(most);
        }
        if let Some(when_full) = when_full {
            stream = stream.when_full(when_full);
        }
        if let Some(priority) = priority {
            stream = stream.priority(priority);
        }
        Ok(Self { held: Held::new((Arc::clone(inner), stream)) })
    }

    /// An operation that gives a receipt.
    fn receipt<F>(&self, name: &'static str, send: impl FnOnce(CoreStream) -> F) -> PyResult<Operation>
    where
        F: Future<Output = Result<exonet::group::GroupReceipt, exonet::group::GroupError>> + Send + 'static,
    {
        let (inner, stream) = self.held.get()?;
        Ok(GroupReceipt::of(inner, name, send(stream.clone())))
    }
}

#[pymethods]
impl GroupStream {
    /// The name of the stream at every member.
    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(String::from_utf8_lossy(self.held.get()?.1.name()).into_owned())
    }

    /// The ids of the members that are in the stream now.
    fn members(&self) -> PyResult<Vec<String>> {
        Ok(self.held.get()?.1.members().iter().map(ToString::to_string).collect())
    }

    /// The number of messages of the stream that are open at a member. None: the member is not in the stream.
    fn backlog(&self, member: &str) -> PyResult<Option<usize>> {
        Ok(self.held.get()?.1.backlog(&node_id(member)?))
    }

    /// Adds a member of the group to the stream: it gets later messages.
    fn add(&self, member: &str) -> PyResult<()> {
        let (inner, stream) = self.held.get()?;
        let _context = inner.runtime.enter();
        Ok(stream.add(&node_id(member)?).map_err(Fault::from)?)
    }

    /// Removes a member from this stream only: it gets no later messages. With `now`, messages that have not left for it are
    /// withdrawn as well, and its stream is reset.
    #[pyo3(signature = (member, *, now=false))]
    fn remove(&self, member: &str, now: bool) -> PyResult<()> {
        let how = if now { Remove::Now } else { Remove::Drain };
        Ok(self.held.get()?.1.remove(&node_id(member)?, how).map_err(Fault::from)?)
    }

    /// Sends a message to all members of the stream, after all that were sent before; `mode` says how many of them must have
    /// it. Waits while the stream is full. Returns a `GroupReceipt`.
    #[pyo3(signature = (body, *, mode, deadline=None, confirm=None))]
    fn send(
        &self,
        body: &Bound<'_, PyAny>,
        mode: &Bound<'_, PyAny>,
        deadline: Option<f64>,
        confirm: Option<&str>,
    ) -> PyResult<Operation> {
        let message = Treatment::in_stream(deadline, confirm).message(body)?;
        let mode = self::mode(mode)?;
        let send = |stream: CoreStream| async move { stream.send(mode, message).await };
        self.receipt("GroupStream.send()", send)
    }

    /// Ends the stream at every member, after everything that was sent. The `GroupReceipt` says for each member when its
    /// application has received the end.
    fn close(&self) -> PyResult<Operation> {
        self.receipt("GroupStream.close()", |stream| async move { stream.close().await })
    }

    /// Withdraws the messages that have not left, and ends the stream at every member by a reset.
    fn reset(&self) -> PyResult<Operation> {
        self.receipt("GroupStream.reset()", |stream| async move { stream.reset().await })
    }

    /// Waits until a member leaves the stream before its end: a `Departure`, or None at the end of the stream. Each departure
    /// is returned once.
    fn departed(&self) -> PyResult<Operation> {
        let (inner, stream) = self.held.get()?;
        let stream = stream.clone();
        let wait = async move { Ok(stream.departed().await) };
        let give = |py: Python<'_>, left: Option<CoreDeparture>| match left {
            Some(left) => Ok(Py::new(py, Departure(left))?.into_any()),
            None => Ok(py.None()),
        };
        Ok(Operation::new(&inner.runtime, "GroupStream.departed()", work(wait, give)))
    }

    /// The messages that a member sends under the name of the stream, as a `StreamAnswers`. None: the member is not in the
    /// stream, or this method was called for the member before.
    fn answers(&self, member: &str) -> PyResult<Option<StreamAnswers>> {
        let (inner, stream) = self.held.get()?;
        let answers = stream.answers(&node_id(member)?);
        Ok(answers.map(|receiver| StreamAnswers(Reader::new(inner, receiver))))
    }
}

/// The messages that a member of a group sends under the name of a stream to the group: use it in `async for`.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct StreamAnswers(Reader);

#[pymethods]
impl StreamAnswers {
    /// Waits for the next message: a `Delivery`, or None at the end. See `Stream.recv`.
    fn recv(&self) -> PyResult<Operation> {
        self.0.recv("StreamAnswers.recv()")
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(&self) -> PyResult<Operation> {
        self.0.step()
    }
}

/// A member that has left a stream to a group.
#[pyclass(frozen, module = "exonet")]
pub(crate) struct Departure(CoreDeparture);

#[pymethods]
impl Departure {
    /// The id of the member.
    #[getter]
    fn id(&self) -> String {
        self.0.id.to_string()
    }

    /// Why it has left: "full", "removed", or "failed" if the node could not queue a message for it.
    #[getter]
    const fn cause(&self) -> &'static str {
        match self.0.cause {
            Cause::Full => "full",
            Cause::Removed(_) => "removed",
            _ => "failed",
        }
    }

    /// The error if the cause is "failed", else None.
    #[getter]
    fn reason(&self) -> Option<String> {
        match &self.0.cause {
            Cause::Failed(error) => Some(error.to_string()),
            _ => None,
        }
    }

    fn __repr__(&self) -> String {
        format!("<Departure {}: {}>", self.0.id.short(), self.cause())
    }
}
