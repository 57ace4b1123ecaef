//! Groups: one message to many nodes.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;

use exonet::group::{
    Group as CoreGroup, GroupError, GroupReceipt as CoreReceipt, MemberLine, MemberState, Mode, Remove,
    Verdict as CoreVerdict, Why,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tokio::sync::{Mutex, Notify};

use crate::args::{self, Treatment, bytes, duration, name};
use crate::call::{Reply, fault, whole};
use crate::fault::Fault;
use crate::group_stream::{GroupStream, Options};
use crate::node::{Inner, node_id};
use crate::op::{Operation, work};
use crate::receipt::Settled;
use crate::runtime::Held;

/// Peers to which messages are sent together, made by `node.group([...])`.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct Group {
    held: Held<(Arc<Inner>, CoreGroup)>,
}

/// Parses a mode: "all", "any", ("quorum", send, acks) or ("balanced", k).
pub(crate) fn mode(value: &Bound<'_, PyAny>) -> PyResult<Mode> {
    let wrong = || {
        let text = "mode must be \"all\", \"any\", exonet.quorum(send=..., acks=...) or exonet.balanced(k)";
        Fault::usage(text).raise(value.py())
    };
    if let Ok(text) = value.extract::<String>() {
        return match text.as_str() {
            "all" => Ok(Mode::All),
            "any" => Ok(Mode::Any),
            _ => Err(wrong()),
        };
    }
    let parts = value.cast::<PyTuple>().map_err(|_| wrong())?;
    match parts.get_item(0).and_then(|kind| kind.extract::<String>()).as_deref() {
        Ok("quorum") => {
            let (_, send, acks): (String, usize, usize) = parts.extract().map_err(|_| wrong())?;
            Ok(Mode::Quorum { send, acks })
        }
        Ok("balanced") => {
            let (_, k): (String, usize) = parts.extract().map_err(|_| wrong())?;
            Ok(Mode::Balanced { k })
        }
        _ => Err(wrong()),
    }
}

pub(crate) fn group(
    inner: &Arc<Inner>,
    members: &Bound<'_, PyAny>,
    patience: Option<f64>,
) -> PyResult<Group> {
    let mut addresses = Vec::new();
    for member in members.try_iter()? {
        addresses.push(inner.peer(&member?)?.addr().clone());
    }
    let mut builder = inner.node.group(addresses);
    if let Some(seconds) = patience {
        builder = builder.patience(duration("patience", seconds)?);
    }
    let group = builder.build().map_err(Fault::from)?;
    Ok(Group { held: Held::new((Arc::clone(inner), group)) })
}

#[pymethods]
impl Group {
    /// The ids of the current members.
    fn members(&self) -> PyResult<Vec<String>> {
        Ok(self.held.get()?.1.members().iter().map(ToString::to_string).collect())
    }

    /// Adds a member: it gets later messages.
    fn add(&self, member: &Bound<'_, PyAny>) -> PyResult<()> {
        let (inner, group) = self.held.get()?;
        Ok(group.add(inner.peer(member)?.addr().clone()).map_err(Fault::from)?)
    }

    /// Removes a member: it gets no later messages. With `now`, messages that have not left for it are withdrawn as
    /// well.
    #[pyo3(signature = (member, *, now=false))]
    fn remove(&self, member: &str, now: bool) -> PyResult<()> {
        let how = if now { Remove::Now } else { Remove::Drain };
        Ok(self.held.get()?.1.remove(&node_id(member)?, how).map_err(Fault::from)?)
    }

    /// Sends a message to members of the group, according to `mode`. Returns a `GroupReceipt`.
    #[pyo3(signature = (body, *, mode, tag=None, priority=None, deadline=None, confirm=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn send(
        &self,
        body: &Bound<'_, PyAny>,
        mode: &Bound<'_, PyAny>,
        tag: Option<&Bound<'_, PyAny>>,
        priority: Option<&str>,
        deadline: Option<f64>,
        confirm: Option<&str>,
    ) -> PyResult<Operation> {
        let message = Treatment { tag, priority, deadline, confirm, early: None }.message(body)?;
        let mode = self::mode(mode)?;
        let (inner, group) = self.held.get()?;
        let group = group.clone();
        Ok(GroupReceipt::of(inner, "Group.send()", async move { group.send(mode, message).await }))
    }

    /// A stream to the current members of the group. `queue` is the largest number of messages that may be open at a member
    /// (1,024 by default). `when_full` says what happens when a member has that many: the member leaves the stream ("fall
    /// out", the default), or `send` waits for the member ("wait").
    #[pyo3(signature = (name, *, queue=None, when_full=None, priority=None))]
    fn stream(
        &self,
        name: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = args::queue)] queue: Option<usize>,
        when_full: Option<&str>,
        priority: Option<&str>,
    ) -> PyResult<GroupStream> {
        let (inner, group) = self.held.get()?;
        GroupStream::open(inner, group, name, &Options { queue, when_full, priority })
    }

    /// Calls a method of all members. Returns a list of pairs of an id and a `Reply`, or the `CallError` in its place.
    #[pyo3(signature = (method, body=None, *, timeout=None))]
    fn call(
        &self,
        method: &Bound<'_, PyAny>,
        body: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Operation> {
        let (inner, group) = self.held.get()?;
        let body = body.map(|body| bytes("body", body)).transpose()?.unwrap_or_default();
        let mut call = group.call(name("method", method)?, body);
        if let Some(seconds) = timeout {
            call = call.deadline(duration("timeout", seconds)?);
        }
        let call = async move {
            let mut all = Vec::new();
            for (id, answer) in call.all().await? {
                let answer = match answer {
                    Ok(reply) => whole(reply).await,
                    Err(error) => Err(fault(error).await),
                };
                all.push((id, answer));
            }
            Ok(all)
        };
        let give = |py: Python<'_>, all: Vec<(exonet::NodeId, Result<_, Fault>)>| {
            let list = pyo3::types::PyList::empty(py);
            for (id, answer) in all {
                let answer = match answer {
                    Ok(reply) => Reply::give(py, reply)?.into_any(),
                    Err(fault) => fault.raise(py).into_value(py).into_any(),
                };
                list.append((id.to_string(), answer))?;
            }
            Ok(list.unbind())
        };
        Ok(Operation::new(&inner.runtime, "Group.call()", work(call, give)))
    }
}

/// A receipt for which some tasks wait, while others look at it.
struct Watched {
    receipt: Mutex<CoreReceipt>,
    /// Another task wants to look: the waiting task releases the receipt.
    wanted: Notify,
}

impl Watched {
    async fn look<T>(&self, look: impl FnOnce(&CoreReceipt) -> T) -> T {
        let mut lock = pin!(self.receipt.lock());
        // First in line, so that the task that releases the receipt does not get it again at once.
        let receipt = tokio::select! {
            biased;
            receipt = &mut lock => receipt,
            () = ready(()) => {
                self.wanted.notify_waiters();
                lock.await
            }
        };
        look(&receipt)
    }

    async fn decided(&self) -> CoreVerdict {
        loop {
            let wanted = self.wanted.notified();
            let mut receipt = self.receipt.lock().await;
            tokio::select! {
                verdict = receipt.decided() => return verdict,
                () = wanted => {}
            }
        }
    }

    async fn ended(&self) -> Vec<MemberLine> {
        loop {
            let wanted = self.wanted.notified();
            let mut receipt = self.receipt.lock().await;
            tokio::select! {
                lines = receipt.ended() => return lines,
                () = wanted => {}
            }
        }
    }
}

/// The result of `Group.send`. Awaited, it returns the `Verdict`.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct GroupReceipt {
    held: Held<(Arc<Inner>, Arc<Watched>)>,
}

impl GroupReceipt {
    /// The method `name`, which gives the receipt of what `send` sends.
    pub(crate) fn of(
        inner: &Arc<Inner>,
        name: &'static str,
        send: impl Future<Output = Result<CoreReceipt, GroupError>> + Send + 'static,
    ) -> Operation {
        let (inner, runtime) = (Arc::clone(inner), inner.runtime.clone());
        let give = move |py: Python<'_>, receipt| Self::give(py, inner, receipt);
        Operation::new(&runtime, name, work(async move { Ok(send.await?) }, give))
    }

    fn give(py: Python<'_>, inner: Arc<Inner>, receipt: CoreReceipt) -> PyResult<Py<Self>> {
        let watched = Arc::new(Watched { receipt: Mutex::new(receipt), wanted: Notify::new() });
        Py::new(py, Self { held: Held::new((inner, watched)) })
    }
}

fn lines(py: Python<'_>, lines: Vec<MemberLine>) -> PyResult<Py<pyo3::types::PyList>> {
    let lines: PyResult<Vec<_>> = lines.into_iter().map(|line| Py::new(py, Member(line))).collect();
    Ok(pyo3::types::PyList::new(py, lines?)?.unbind())
}

#[pymethods]
impl GroupReceipt {
    /// Waits for the verdict: the requested number of members has the message, or cannot have it any more.
    fn decided(&self) -> PyResult<Operation> {
        let (inner, receipt) = self.held.get()?;
        let receipt = Arc::clone(receipt);
        let decide = async move { Ok(receipt.decided().await) };
        let give = |py: Python<'_>, verdict| Py::new(py, Verdict(verdict));
        Ok(Operation::new(&inner.runtime, "GroupReceipt.decided()", work(decide, give)))
    }

    fn __await__(&self) -> PyResult<Operation> {
        self.decided()
    }

    /// Waits on this thread, for `timeout` seconds at most: see `decided()`.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        Bound::new(py, self.decided()?)?.call_method1("wait", (timeout,)).map(Bound::unbind)
    }

    /// Waits until the state of no member can change any more: a list of `Member`.
    fn ended(&self) -> PyResult<Operation> {
        let (inner, receipt) = self.held.get()?;
        let receipt = Arc::clone(receipt);
        let end = async move { Ok(receipt.ended().await) };
        Ok(Operation::new(&inner.runtime, "GroupReceipt.ended()", work(end, lines)))
    }

    /// Withdraws the copies that have not left.
    fn cancel(&self) -> PyResult<Operation> {
        let (inner, receipt) = self.held.get()?;
        let receipt = Arc::clone(receipt);
        let cancel = async move {
            receipt.look(CoreReceipt::cancel).await;
            Ok(())
        };
        Ok(Operation::new(&inner.runtime, "GroupReceipt.cancel()", work(cancel, |py, ()| Ok(py.None()))))
    }

    /// The known state of each member: a list of `Member`.
    fn members(&self) -> PyResult<Operation> {
        let (inner, receipt) = self.held.get()?;
        let receipt = Arc::clone(receipt);
        let look = async move { Ok(receipt.look(CoreReceipt::members).await) };
        Ok(Operation::new(&inner.runtime, "GroupReceipt.members()", work(look, lines)))
    }
}

/// The verdict on a message to a group: given once, and final.
#[pyclass(frozen, module = "exonet")]
pub(crate) struct Verdict(CoreVerdict);

#[pymethods]
impl Verdict {
    /// Whether the requested number of members has the message.
    #[getter]
    const fn reached(&self) -> bool {
        self.0.is_reached()
    }

    /// The number of members that had the message at the time of the verdict.
    #[getter]
    const fn good(&self) -> usize {
        match self.0 {
            CoreVerdict::Reached { good } | CoreVerdict::Failed { good, .. } => good,
            _ => 0,
        }
    }

    /// Why it was not reached: "too few" or "deadline"; None if it was reached.
    #[getter]
    const fn why(&self) -> Option<&'static str> {
        match self.0 {
            CoreVerdict::Reached { .. } => None,
            CoreVerdict::Failed { why: Why::Deadline, .. } => Some("deadline"),
            _ => Some("too few"),
        }
    }

    fn __bool__(&self) -> bool {
        self.reached()
    }

    fn __repr__(&self) -> String {
        match self.why() {
            None => format!("<Verdict: reached, {} have it>", self.good()),
            Some(why) => format!("<Verdict: failed, {why}, {} have it>", self.good()),
        }
    }
}

/// The state of a message to a group at one member.
#[pyclass(frozen, module = "exonet")]
pub(crate) struct Member(MemberLine);

#[pymethods]
impl Member {
    /// The id of the member.
    #[getter]
    fn id(&self) -> String {
        self.0.id.to_string()
    }

    /// "spare", "queued", "in doubt", "skipped" or "settled".
    #[getter]
    const fn state(&self) -> &'static str {
        match self.0.state {
            MemberState::Spare => "spare",
            MemberState::Queued => "queued",
            MemberState::Bound(_) => "in doubt",
            MemberState::Skipped(_) => "skipped",
            MemberState::Settled(_) => "settled",
            _ => "unknown",
        }
    }

    /// The outcome at the member, if it is settled; else None.
    #[getter]
    fn settled(&self) -> Option<Settled> {
        match &self.0.state {
            MemberState::Settled(settled) => Some(Settled::new(*settled, self.0.reason.clone())),
            _ => None,
        }
    }

    /// Whether the member has the message.
    #[getter]
    const fn has_it(&self) -> bool {
        self.0.state.has_it()
    }

    /// Whether the member certainly has not acted on the message, and never will.
    #[getter]
    fn has_it_not(&self) -> bool {
        self.0.state.is_certainly_not()
    }

    fn __repr__(&self) -> String {
        format!("<Member {}: {}>", self.0.id.short(), self.state())
    }
}
