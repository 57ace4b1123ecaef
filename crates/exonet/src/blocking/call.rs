//! Calls that blocking threads make and answer.

use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Handle;

use super::runtime::Runtime;
use crate::call::CallId;
use crate::error::BodyError;

/// A call that a function which may block answers: see [`crate::call::Request`].
pub struct Request {
    request: crate::call::Request,
    runtime: Handle,
}

impl Request {
    pub(super) const fn new(request: crate::call::Request, runtime: Handle) -> Self {
        Self { request, runtime }
    }

    /// The request itself, with the caller, the id of the call and its method. [`Self::bytes`] reads its body.
    pub const fn get_ref(&self) -> &crate::call::Request {
        &self.request
    }

    /// Waits for the whole body, if it has no more than `limit` bytes.
    ///
    /// # Errors
    /// [`BodyError`].
    pub fn bytes(&mut self, limit: u64) -> Result<Bytes, BodyError> {
        self.runtime.block_on(self.request.body.bytes(limit))
    }
}

/// The reply to a call: see [`crate::call::Reply`].
pub struct Reply {
    reply: crate::call::Reply,
    runtime: Arc<Runtime>,
}

impl Reply {
    pub(super) fn new(reply: crate::call::Reply, runtime: &Arc<Runtime>) -> Self {
        Self { reply, runtime: Arc::clone(runtime) }
    }

    /// The async reply, for its methods that do not wait.
    pub const fn get_ref(&self) -> &crate::call::Reply {
        &self.reply
    }

    /// The id of the call: the same at both ends.
    pub const fn id(&self) -> CallId {
        self.reply.id
    }

    /// Waits for the whole body, if it has no more than `limit` bytes.
    ///
    /// # Errors
    /// [`BodyError`].
    pub fn bytes(&mut self, limit: u64) -> Result<Bytes, BodyError> {
        self.runtime.wait(self.reply.body.bytes(limit))
    }

    /// The reply, for an async task.
    pub fn into_inner(self) -> crate::call::Reply {
        self.reply
    }
}

debugs!(Request.request, Reply.reply);
