//! A message for the handler of an inbox.

use exonet_sql::InboxMessage as CoreMessage;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A message for the handler of an inbox.
#[pyclass(frozen, module = "exonet.sql")]
pub(crate) struct InboxMessage(pub(super) CoreMessage);

#[pymethods]
impl InboxMessage {
    /// The id of the node that has sent it: proven, and admitted by this node.
    #[getter]
    fn sender(&self) -> String {
        self.0.from.to_string()
    }

    /// Its key, a UUID that `send` has returned: the same each time it comes.
    #[getter]
    fn key(&self) -> String {
        self.0.key.to_string()
    }

    /// The tag, for dispatch, as text; bytes that are not UTF-8 are replaced: see `tag_bytes`.
    #[getter]
    fn tag(&self) -> String {
        String::from_utf8_lossy(&self.0.tag).into_owned()
    }

    /// The tag as it was sent.
    #[getter]
    fn tag_bytes(&self, py: Python<'_>) -> Py<PyBytes> {
        PyBytes::new(py, &self.0.tag).unbind()
    }

    /// The order that it belongs to, as text; empty: none.
    #[getter]
    fn order(&self) -> String {
        String::from_utf8_lossy(&self.0.order).into_owned()
    }

    /// The order as it was sent.
    #[getter]
    fn order_bytes(&self, py: Python<'_>) -> Py<PyBytes> {
        PyBytes::new(py, &self.0.order).unbind()
    }

    /// The content.
    #[getter]
    fn body(&self, py: Python<'_>) -> Py<PyBytes> {
        PyBytes::new(py, &self.0.body).unbind()
    }

    /// The number of times that the message has been handed out, starting at 1.
    #[getter]
    const fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// Its name at both nodes, this time.
    #[getter]
    fn id(&self) -> String {
        self.0.id.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<InboxMessage {} from {}, {} bytes>", self.0.key, self.0.from, self.0.body.len())
    }
}
