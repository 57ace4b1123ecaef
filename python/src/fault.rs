//! Errors: made without the interpreter, and raised as the exceptions of `exonet`.

use exonet::error::{
    BatchError, BodyError, BuildError, CallError, Closed, GroupError, NotDelivered, PeerAddrError, PingError,
    SendError, ServeError,
};
use exonet::send::CancelError;
use exonet::session::{SessionError, SessionOpenError, SessionSendError};
use exonet::stream::{OpenError, StreamError, StreamSendError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyModule};

/// An attribute of an exception, besides its text.
pub(crate) enum Field {
    /// Yes or no.
    Bool(bool),
    /// A number.
    Int(u64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An object of Python.
    Object(Py<PyAny>),
}

/// A future exception: the class in `exonet.errors`, its text, and its attributes.
pub(crate) struct Fault {
    class: &'static str,
    text: String,
    fields: Vec<(&'static str, Field)>,
    /// The exception that is its `__cause__`.
    cause: Option<Box<Self>>,
}

impl Fault {
    pub(crate) fn new(class: &'static str, text: impl Into<String>) -> Self {
        Self { class, text: text.into(), fields: Vec::new(), cause: None }
    }

    /// An exception with a cause, whose text ends its own.
    pub(crate) fn because(class: &'static str, text: &str, cause: Self) -> Self {
        let text = format!("{text}: {}", cause.text);
        Self { cause: Some(Box::new(cause)), ..Self::new(class, text) }
    }

    /// An argument is wrong.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new("UsageError", text)
    }

    /// A handle of the parent is used in a child of a fork.
    pub(crate) fn forked() -> Self {
        let text = "this was made before the process forked, and belongs to the parent: make a new Node in the child";
        Self::new("ForkedError", text)
    }

    pub(crate) fn closed() -> Self {
        Self::new("Closed", "the node is closed: make another Node")
    }

    /// There is no more: the end of an `async for`.
    pub(crate) fn end() -> Self {
        Self::new("Closed", "there is no more")
    }

    /// Whether this ends an `async for`.
    pub(crate) fn ends_a_loop(&self) -> bool {
        self.class == "Closed"
    }

    pub(crate) fn with(mut self, name: &'static str, field: Field) -> Self {
        self.fields.push((name, field));
        self
    }

    /// The exception.
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        self.build(py).unwrap_or_else(|error| error)
    }

    fn build(self, py: Python<'_>) -> PyResult<PyErr> {
        static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let errors = ERRORS.get_or_try_init(py, || py.import("exonet.errors").map(Bound::unbind))?;
        let fields = PyDict::new(py);
        for (name, field) in self.fields {
            match field {
                Field::Bool(is) => fields.set_item(name, is)?,
                Field::Int(number) => fields.set_item(name, number)?,
                Field::Text(text) => fields.set_item(name, text)?,
                Field::Bytes(bytes) => fields.set_item(name, PyBytes::new(py, &bytes))?,
                Field::Object(object) => fields.set_item(name, object)?,
            }
        }
        let class = errors.bind(py).getattr(self.class)?;
        let error = PyErr::from_value(class.call((self.text,), Some(&fields))?);
        if let Some(cause) = self.cause {
            error.set_cause(py, Some(cause.raise(py)));
        }
        Ok(error)
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        Python::attach(|py| fault.raise(py))
    }
}

impl From<Closed> for Fault {
    fn from(_: Closed) -> Self {
        Self::closed()
    }
}

impl From<NotDelivered> for Fault {
    fn from(error: NotDelivered) -> Self {
        Self::new("NotDelivered", format!("{error}: undo what was done with it"))
    }
}

impl From<PeerAddrError> for Fault {
    fn from(error: PeerAddrError) -> Self {
        Self::new(
            "AddressError",
            format!("{error}; a peer is written as ID@HOST:PORT, which `node.address` gives"),
        )
    }
}

impl From<BuildError> for Fault {
    fn from(error: BuildError) -> Self {
        Self::new("BuildError", error.to_string())
    }
}

impl From<SendError> for Fault {
    fn from(error: SendError) -> Self {
        match &error {
            SendError::Closed => Self::closed(),
            SendError::TooLarge { .. } => Self::new(
                "SendError",
                format!("{error}: raise `max_message` at both ends, or send it in parts"),
            ),
            _ => Self::new("SendError", error.to_string()),
        }
    }
}

impl From<BatchError> for Fault {
    fn from(error: BatchError) -> Self {
        let sent = error.sent.len();
        let fault = Self::from(error.source);
        let text = format!("the batch ended after {sent} messages: {}", fault.text);
        Self { text, ..fault }.with("sent", Field::Int(sent))
    }
}

impl From<BodyError> for Fault {
    fn from(error: BodyError) -> Self {
        match &error {
            BodyError::Closed => Self::closed(),
            BodyError::NotDelivered => Self::new("NotDelivered", error.to_string()),
            _ => Self::new("BodyError", error.to_string()),
        }
    }
}

impl From<CancelError> for Fault {
    fn from(error: CancelError) -> Self {
        let settled = matches!(error, CancelError::Settled);
        let way = if settled { "its receipt tells" } else { "only its outcome will tell" };
        Self::new("CancelError", format!("{error}: {way}")).with("settled", Field::Bool(settled))
    }
}

impl From<PingError> for Fault {
    fn from(error: PingError) -> Self {
        match error {
            PingError::Send(error) => Self::from(error),
            error => Self::new("SendError", error.to_string()),
        }
    }
}

impl From<ServeError> for Fault {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Closed => Self::closed(),
            error => Self::new("ServeError", error.to_string()),
        }
    }
}

impl Fault {
    /// The end of a call, with the body of its failure.
    pub(crate) fn of_call(error: &CallError, said: &[u8]) -> Self {
        if matches!(error, CallError::Refused(SendError::Closed)) {
            return Self::closed();
        }
        let class = match error {
            CallError::Failed { .. } => "CallFailed",
            CallError::Unknown { .. } => "CallUnknown",
            CallError::Expired => "CallExpired",
            CallError::Cancelled => "CallCancelled",
            _ => "CallRefused",
        };
        let fault = Self::new(class, error.to_string()).with("has_not_run", Field::Bool(error.has_not_run()));
        match error {
            CallError::Failed { id, status, .. } => {
                let most = said.get(..said.len().min(200)).unwrap_or_default();
                let more = if said.is_empty() {
                    String::new()
                } else {
                    format!(": {}", String::from_utf8_lossy(most))
                };
                Self { text: fault.text + &more, ..fault }
                    .with("id", Field::Text(id.to_string()))
                    .with("status", Field::Int(u64::from(status.0)))
                    .with("body", Field::Bytes(said.to_vec()))
            }
            CallError::Unknown { id, why, .. } => {
                let fault = fault.with("why", Field::Text(why.to_string()));
                match id {
                    Some(id) => fault.with("id", Field::Text(id.to_string())),
                    None => fault,
                }
            }
            _ => fault,
        }
    }
}

impl From<GroupError> for Fault {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::Closed => Self::closed(),
            error => Self::new("GroupError", error.to_string()),
        }
    }
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Self {
        Self::new("StreamError", error.to_string())
    }
}

impl From<StreamSendError> for Fault {
    fn from(error: StreamSendError) -> Self {
        match error {
            StreamSendError::Send(error) => Self::from(error),
            error => Self::new("StreamError", error.to_string()),
        }
    }
}

impl From<StreamError> for Fault {
    fn from(error: StreamError) -> Self {
        let text = error.to_string();
        match error {
            StreamError::Missing(count) => Self::new("StreamMissing", text).with("count", Field::Int(count)),
            StreamError::Continues(count) => {
                Self::new("StreamContinues", text).with("count", Field::Int(count))
            }
            StreamError::Reset => Self::new("StreamReset", text),
            StreamError::Broken => Self::new("StreamBroken", text),
            StreamError::Closed => Self::closed(),
            _ => Self::new("StreamError", text),
        }
    }
}

impl From<SessionSendError> for Fault {
    fn from(error: SessionSendError) -> Self {
        match error {
            SessionSendError::Send(error) => Self::from(error),
            error => Self::new("SessionError", error.to_string()),
        }
    }
}

impl From<SessionOpenError> for Fault {
    fn from(error: SessionOpenError) -> Self {
        match error {
            SessionOpenError::Send(error) => Self::from(error),
            error => Self::new("SessionError", error.to_string()),
        }
    }
}

impl From<SessionError> for Fault {
    fn from(error: SessionError) -> Self {
        let text = error.to_string();
        match error {
            SessionError::Missing(count) => {
                Self::new("SessionMissing", text).with("count", Field::Int(count))
            }
            SessionError::Ended(end) => {
                Self::new("SessionEnded", text).with("end", Field::Text(end_name(&end).to_owned()))
            }
            SessionError::Away => Self::new("SessionAway", format!("{text}; the node goes on with it")),
            SessionError::Closed => Self::closed(),
            SessionError::Send(error) => Self::from(error),
            _ => Self::new("SessionError", text),
        }
    }
}

/// The name of a session's end.
pub(crate) const fn end_name(end: &exonet::session::SessionEnd) -> &'static str {
    use exonet::session::SessionEnd;
    match end {
        SessionEnd::Closed => "closed",
        SessionEnd::Aborted => "aborted",
        SessionEnd::Refused(_) => "refused",
        SessionEnd::Expired => "expired",
        SessionEnd::Forgotten => "forgotten",
        _ => "ended",
    }
}
