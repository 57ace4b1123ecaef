//! Arguments from Python: bytes, times, messages.

use std::time::Duration;

use bytes::Bytes;
use exonet::{Confirm, Message, Priority};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};

use crate::fault::Fault;

/// Bodies of at least this many bytes are lent to the node, not copied.
const LENT: usize = 16 << 10;

/// The bytes of any object that has a buffer. A `bytes` object is lent; others may change, and are copied.
pub(crate) fn backed(name: &str, value: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(PyBackedBytes::from(bytes.clone()));
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(PyBackedBytes::from(bytes.clone()));
    }
    if value.is_instance_of::<PyString>() {
        let text = format!("{name} must be bytes, not a text: use `.encode()`, or a literal b\"...\"");
        return Err(Fault::new("ArgumentTypeError", text).raise(value.py()));
    }
    let view = PyMemoryView::from(value).map_err(|_| {
        let kind = value.get_type().to_string();
        let text = format!("{name} must be bytes or another object with a buffer, not {kind}");
        Fault::new("ArgumentTypeError", text).raise(value.py())
    })?;
    let bytes = view.call_method0("tobytes")?;
    Ok(PyBackedBytes::from(bytes.cast_into::<PyBytes>()?))
}

/// Like [`backed`], in the type of the library.
pub(crate) fn bytes(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let backed = backed(name, value)?;
    Ok(if backed.len() < LENT { Bytes::copy_from_slice(&backed) } else { Bytes::from_owner(backed) })
}

/// A name, which may be a text or bytes.
pub(crate) fn name(what: &str, value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(Bytes::copy_from_slice(text.to_cow()?.as_bytes())),
        Err(_) => bytes(what, value),
    }
}

/// A whole number of at least `least`, which has room in `T`.
fn number<T: TryFrom<i128>>(name: &str, value: &Bound<'_, PyAny>, least: i128) -> PyResult<T> {
    // Other whole numbers than `int`, such as those of numpy, have this method, too.
    let Ok(whole) = value.call_method0("__index__") else {
        let kind = value.get_type().to_string();
        let text = format!("{name} must be a whole number, not {kind}");
        return Err(Fault::new("ArgumentTypeError", text).raise(value.py()));
    };
    let number = whole.extract::<i128>().ok().filter(|number| *number >= least);
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        let bound =
            if whole.lt(least).unwrap_or(false) { format!("at least {least}") } else { "less".to_owned() };
        Fault::usage(format!("{name} must be {bound}, not {value}")).raise(value.py())
    })
}

/// An argument that is a whole number, and may be left out.
macro_rules! optional_numbers {
    ($($name:ident: $of:ty, from $least:literal;)*) => {$(
        pub(crate) fn $name(value: &Bound<'_, PyAny>) -> PyResult<Option<$of>> {
            if value.is_none() { Ok(None) } else { number(stringify!($name), value, $least).map(Some) }
        }
    )*};
}

optional_numbers! {
    attempts: u32, from 1;
    max_message: u64, from 0;
    queued_messages: usize, from 1;
    longest: usize, from 0;
    queue: usize, from 1;
}

/// How many messages to take at most.
pub(crate) fn max(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    number("max", value, 1)
}

/// A number that two applications have agreed on.
pub(crate) fn status(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    number("status", value, 0)
}

/// How many calls run at once.
pub(crate) fn concurrency(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    number("concurrency", value, 1)
}

/// How many rows of an outbox are under way at once.
pub(crate) fn in_flight(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    number("in_flight", value, 1)
}

/// A duration from a number of seconds.
pub(crate) fn duration(name: &str, seconds: f64) -> Result<Duration, Fault> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        Fault::usage(format!("{name} must be a number of seconds that is not negative, not {seconds}"))
    })
}

/// A priority by its name.
pub(crate) fn priority(text: &str) -> Result<Priority, Fault> {
    match text {
        "urgent" => Ok(Priority::Urgent),
        "normal" => Ok(Priority::Normal),
        "low" => Ok(Priority::Low),
        "bulk" => Ok(Priority::Bulk),
        _ => Err(Fault::usage(format!(
            "priority must be \"urgent\", \"normal\", \"low\" or \"bulk\", not {text:?}"
        ))),
    }
}

/// The name of a priority.
pub(crate) const fn priority_name(priority: Priority) -> &'static str {
    match priority {
        Priority::Urgent => "urgent",
        Priority::Normal => "normal",
        Priority::Low => "low",
        Priority::Bulk => "bulk",
    }
}

/// How a message is sent, as given by Python.
pub(crate) struct Treatment<'a, 'py> {
    pub(crate) tag: Option<&'a Bound<'py, PyAny>>,
    pub(crate) priority: Option<&'a str>,
    pub(crate) deadline: Option<f64>,
    pub(crate) confirm: Option<&'a str>,
    pub(crate) early: Option<bool>,
}

impl<'a> Treatment<'a, '_> {
    /// How a message of a stream is sent: the stream has its tag and its priority.
    pub(crate) const fn in_stream(deadline: Option<f64>, confirm: Option<&'a str>) -> Self {
        Self { tag: None, priority: None, deadline, confirm, early: None }
    }

    /// A message with this body.
    pub(crate) fn message(&self, body: &Bound<'_, PyAny>) -> PyResult<Message> {
        let mut message = Message::new(bytes("body", body)?);
        if let Some(tag) = self.tag {
            message = message.tag(name("tag", tag)?);
        }
        if let Some(text) = self.priority {
            message = message.priority(priority(text)?);
        }
        if let Some(seconds) = self.deadline {
            message = message.deadline(duration("deadline", seconds)?);
        }
        match self.confirm {
            None | Some("delivered") => {}
            Some("processed") => message = message.confirm(Confirm::Processed),
            Some(text) => {
                let text = format!("confirm must be \"delivered\" or \"processed\", not {text:?}");
                return Err(Fault::usage(text).raise(body.py()));
            }
        }
        if let Some(early) = self.early {
            message = message.early(early);
        }
        Ok(message)
    }
}
