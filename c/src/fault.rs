//! Errors, in Rust and in C.

use std::any::Any;

use bytes::Bytes;
use exo::error::{BodyError, BuildError, CallError, NotDelivered, PeerAddrError, SendError, ServeError};
use exo::send::CancelError;

use crate::border::{free, look};
use crate::raw::{exonet_bytes, exonet_str};
use crate::session::exonet_session_end;
use crate::text::Text;

/// The result of a function.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum exonet_code {
    /// Success.
    EXONET_OK = 0,
    /// The result is not there yet. The operation continues: wait again.
    EXONET_TIMEOUT = 1,
    /// An argument is wrong, or the function cannot be called now. The message says which.
    EXONET_USAGE = 2,
    /// The node is closed, or the object of the call has ended.
    EXONET_CLOSED = 3,
    /// The node, or the session, could not be opened.
    EXONET_NOT_OPENED = 4,
    /// The message was not accepted: nothing has been queued.
    EXONET_NOT_SENT = 5,
    /// The queue to the peer is full, and the caller did not want to wait: nothing has been queued.
    EXONET_FULL = 6,
    /// The message was not delivered, and must not be acted on: its record is gone.
    EXONET_NOT_DELIVERED = 7,
    /// The message is settled, or has left and cannot be withdrawn: its outcome tells which.
    EXONET_NOT_CANCELLED = 8,
    /// The call was answered by a failure: see exonet_error_status and exonet_error_body.
    EXONET_CALL_FAILED = 9,
    /// The call ran once or not at all, and it will not be known which.
    EXONET_CALL_UNKNOWN = 10,
    /// The deadline of the call came before it left: it certainly does not run.
    EXONET_CALL_EXPIRED = 11,
    /// The call was withdrawn before it left: it certainly does not run.
    EXONET_CALL_CANCELLED = 12,
    /// The call was not accepted, here or by the peer: it certainly does not run.
    EXONET_CALL_REFUSED = 13,
    /// The method cannot be served.
    EXONET_NOT_SERVED = 14,
    /// The system refuses a resource: a thread, a pipe.
    EXONET_SYSTEM = 15,
    /// A fault of the library, which should be reported. The handle may only be freed.
    EXONET_PANIC = 16,
    /// The stream has ended, and all of it was received.
    EXONET_STREAM_ENDED = 17,
    /// Messages are missing here in the stream, or came before this process. The stream continues after them.
    EXONET_STREAM_GAP = 18,
    /// The sender has given up the rest of the stream, or has forgotten it: there is no more.
    EXONET_STREAM_BROKEN = 19,
    /// The peer has closed the session, and all its messages were received.
    EXONET_SESSION_FINISHED = 20,
    /// Messages are missing here in the session. The session continues after them.
    EXONET_SESSION_MISSING = 21,
    /// The session has ended, and not because both ends closed it: see exonet_error_session_end.
    EXONET_SESSION_ENDED = 22,
    /// The peer has not settled all messages of the session in time. The node continues with them.
    EXONET_SESSION_AWAY = 23,
    /// The name service does not answer, does not know the name, or refuses: the message says which.
    EXONET_NAMING = 24,
    /// The node ended before what was to be sent was safely on the disk: the next process of the identity may send it.
    EXONET_IN_DOUBT = 25,
}

use exonet_code as Code;

/// An error that has not been given to C yet.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    code: Code,
    message: Text,
    status: u32,
    body: Bytes,
    has_not_run: bool,
    end: exonet_session_end,
}

impl Fault {
    pub(crate) fn new(code: Code, message: impl ToString) -> Self {
        let (message, end) = (Text::new(message), exonet_session_end::EXONET_END_NONE);
        Self { code, message, status: 0, body: Bytes::new(), has_not_run: false, end }
    }

    /// The end of a session.
    pub(crate) fn session(end: exonet_session_end, message: impl ToString) -> Self {
        Self { end, ..Self::new(Code::EXONET_SESSION_ENDED, message) }
    }

    pub(crate) fn usage(message: impl ToString) -> Self {
        Self::new(Code::EXONET_USAGE, message)
    }

    pub(crate) fn closed() -> Self {
        Self::new(Code::EXONET_CLOSED, "the node is closed: open another")
    }

    pub(crate) fn timeout() -> Self {
        Self::new(Code::EXONET_TIMEOUT, "it is not there yet")
    }

    pub(crate) fn system(what: &str, error: &std::io::Error) -> Self {
        Self::new(Code::EXONET_SYSTEM, format!("cannot make {what}: {error}"))
    }

    pub(crate) fn panic(panic: &(dyn Any + Send)) -> Self {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no more is said");
        Self::new(Code::EXONET_PANIC, format!("a fault of the library, please report it: {said}"))
    }

    /// The end of a call, with the body of its failure.
    pub(crate) fn call(error: &CallError, body: Bytes) -> Self {
        let code = match error {
            CallError::Refused(SendError::Closed) => {
                return Self { has_not_run: error.has_not_run(), ..Self::closed() };
            }
            CallError::Failed { .. } => Code::EXONET_CALL_FAILED,
            CallError::Expired => Code::EXONET_CALL_EXPIRED,
            CallError::Cancelled => Code::EXONET_CALL_CANCELLED,
            CallError::Refused(_) | CallError::NotTaken(_) => Code::EXONET_CALL_REFUSED,
            _ => Code::EXONET_CALL_UNKNOWN,
        };
        let status = if let CallError::Failed { status, .. } = error { status.0 } else { 0 };
        Self { status, body, has_not_run: error.has_not_run(), ..Self::new(code, error) }
    }

    pub(crate) const fn code(&self) -> Code {
        self.code
    }

    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        self.message.as_str()
    }
}

impl From<BuildError> for Fault {
    fn from(error: BuildError) -> Self {
        Self::new(Code::EXONET_NOT_OPENED, error)
    }
}

impl From<PeerAddrError> for Fault {
    fn from(error: PeerAddrError) -> Self {
        Self::usage(format!("{error}; a peer is written as ID@HOST:PORT, the address that its node gives"))
    }
}

impl From<SendError> for Fault {
    fn from(error: SendError) -> Self {
        let code = match error {
            SendError::Closed => return Self::closed(),
            SendError::InDoubt => Code::EXONET_IN_DOUBT,
            SendError::Full => Code::EXONET_FULL,
            _ => Code::EXONET_NOT_SENT,
        };
        Self::new(code, error)
    }
}

impl From<CancelError> for Fault {
    fn from(error: CancelError) -> Self {
        Self::new(Code::EXONET_NOT_CANCELLED, format!("{error}: wait for its outcome"))
    }
}

impl From<NotDelivered> for Fault {
    fn from(error: NotDelivered) -> Self {
        Self::new(Code::EXONET_NOT_DELIVERED, error)
    }
}

impl From<BodyError> for Fault {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Closed => Self::closed(),
            _ => Self::new(Code::EXONET_NOT_DELIVERED, error),
        }
    }
}

impl From<ServeError> for Fault {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Closed => Self::closed(),
            _ => Self::new(Code::EXONET_NOT_SERVED, error),
        }
    }
}

/// An error. It belongs to the caller: exonet_error_free.
pub struct exonet_error(Fault);

impl exonet_error {
    pub(crate) const fn new(fault: Fault) -> Self {
        Self(fault)
    }

    #[cfg(test)]
    pub(crate) const fn fault(&self) -> &Fault {
        &self.0
    }
}

/// The code that the function returned. EXONET_OK for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_error_code(error: Option<&exonet_error>) -> exonet_code {
    error.map_or(Code::EXONET_OK, |error| error.0.code)
}

/// A sentence for users: what is wrong, where, and what to do.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_error_message(error: Option<&exonet_error>) -> exonet_str {
    look(exonet_str::empty(), || error.map(|error| error.0.message.lend()))
}

/// For EXONET_CALL_FAILED, the status from the server; else 0. Numbers from 0xffffff00 on come from nodes, not from
/// applications.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_error_status(error: Option<&exonet_error>) -> u32 {
    error.map_or(0, |error| error.0.status)
}

/// For EXONET_CALL_FAILED, the body from the server.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_error_body(error: Option<&exonet_error>) -> exonet_bytes {
    look(exonet_bytes::empty(), || error.map(|error| exonet_bytes::lend(&error.0.body)))
}

/// For a call, whether it has certainly not run, so that it may be made again.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_error_has_not_run(error: Option<&exonet_error>) -> bool {
    error.is_some_and(|error| error.0.has_not_run)
}

/// For EXONET_SESSION_ENDED, how the session has ended; else EXONET_END_NONE.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_error_session_end(error: Option<&exonet_error>) -> exonet_session_end {
    error.map_or(exonet_session_end::EXONET_END_NONE, |error| error.0.end)
}

/// Frees an error.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_error_free(error: Option<Box<exonet_error>>) {
    free(error);
}
