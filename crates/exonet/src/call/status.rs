//! The status of a reply.

use core::convert::Infallible;
use core::fmt;

use bytes::Bytes;
use exonet_proto::node::{FAILED, NO_SUCH_METHOD, TOO_LARGE};

use crate::error::BodyError;

/// How a call went, as its server says. Zero is success. Nodes and this library use the values from
/// [`Self::RESERVED`] on. All values in between belong to the application.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyStatus(pub u32);

impl ReplyStatus {
    /// The call succeeded.
    pub const OK: Self = Self(0);
    /// An error of the application without a number of its own. [`Failure::error`] returns it.
    pub const ERROR: Self = Self(1);
    /// The smallest value that does not belong to the application.
    pub const RESERVED: Self = Self(u32::MAX - 255);
    /// There will be no reply: the server was stopped, or dropped the call. The call has run in full, in part or not
    /// at all.
    pub const FAILED: Self = Self(FAILED);
    /// The call has run, and its reply is longer than the caller's node accepts.
    pub const TOO_LARGE: Self = Self(TOO_LARGE);
    /// Nothing serves the method. The call has certainly not run.
    pub const NO_SUCH_METHOD: Self = Self(NO_SUCH_METHOD);
    /// The handler panicked. The call has run in part.
    pub const PANICKED: Self = Self(u32::MAX - 3);
    /// The handler took longer than [`Serve::timeout`](crate::call::Serve::timeout). The call has run in part.
    pub const TIMED_OUT: Self = Self(u32::MAX - 4);
    /// The body is not what the method expects. The call has certainly not run.
    pub const BAD_REQUEST: Self = Self(u32::MAX - 5);
    /// The server is about to end, and takes no new calls. The call has certainly not run: repeat it there later, or
    /// elsewhere now.
    pub const DRAINING: Self = Self(u32::MAX - 6);

    /// Whether the call has certainly not run, so that the caller may repeat it.
    pub const fn has_not_run(self) -> bool {
        matches!(self, Self::NO_SUCH_METHOD | Self::BAD_REQUEST | Self::DRAINING)
    }
}

impl From<u32> for ReplyStatus {
    fn from(status: u32) -> Self {
        Self(status)
    }
}

impl fmt::Display for ReplyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::OK => "ok",
            Self::ERROR => "error",
            Self::FAILED => "failed",
            Self::TOO_LARGE => "reply too large",
            Self::NO_SUCH_METHOD => "no such method",
            Self::PANICKED => "panicked",
            Self::TIMED_OUT => "timed out",
            Self::BAD_REQUEST => "bad request",
            Self::DRAINING => "server is ending",
            Self(other) => return write!(f, "status {other}"),
        };
        f.write_str(name)
    }
}

impl fmt::Debug for ReplyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplyStatus({self})")
    }
}

/// What a handler returns instead of a reply: a status that is not zero, and a body with details.
///
/// An error of the application becomes a failure by `From`, or by [`Self::error`]:
///
/// ```
/// use exonet::call::Failure;
///
/// struct NotFound;
/// impl From<NotFound> for Failure {
///     fn from(_: NotFound) -> Self {
///         Failure::new(404, "not found")
///     }
/// }
///
/// fn parse(text: &str) -> Result<u8, Failure> {
///     if text.is_empty() {
///         return Err(NotFound.into());
///     }
///     text.parse().map_err(Failure::error)
/// }
/// assert_eq!(parse("").unwrap_err().status.0, 404);
/// assert_eq!(parse("x").unwrap_err().body, "invalid digit found in string");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The status: not zero.
    pub status: ReplyStatus,
    /// The details, for the caller.
    pub body: Bytes,
}

impl Failure {
    /// Makes a failure. Status zero means success, so it becomes [`ReplyStatus::ERROR`].
    pub fn new(status: impl Into<ReplyStatus>, body: impl Into<Bytes>) -> Self {
        let status = status.into();
        let status = if status == ReplyStatus::OK { ReplyStatus::ERROR } else { status };
        Self { status, body: body.into() }
    }

    /// Makes a failure with [`ReplyStatus::ERROR`] and the text of `error` as its body, which the caller can read.
    #[allow(clippy::needless_pass_by_value)] // as `map_err` wants it
    pub fn error(error: impl fmt::Display) -> Self {
        Self::new(ReplyStatus::ERROR, error.to_string())
    }
}

impl From<ReplyStatus> for Failure {
    fn from(status: ReplyStatus) -> Self {
        Self::new(status, Bytes::new())
    }
}

/// For a body that the handler cannot read, or that is longer than the handler accepts.
impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        let long = matches!(error, BodyError::TooLarge { .. });
        Self::new(if long { ReplyStatus::BAD_REQUEST } else { ReplyStatus::FAILED }, error.to_string())
    }
}

impl From<Infallible> for Failure {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

impl std::error::Error for Failure {}

/// What a handler may return: bytes of any kind, or a result whose error converts into a [`Failure`].
pub trait Answer {
    /// Converts the value into the reply, or into the failure.
    ///
    /// # Errors
    /// The failure that the caller gets instead of a reply.
    fn answer(self) -> Result<Bytes, Failure>;
}

impl<T: Into<Bytes>, E: Into<Failure>> Answer for Result<T, E> {
    fn answer(self) -> Result<Bytes, Failure> {
        self.map(Into::into).map_err(Into::into)
    }
}

impl Answer for () {
    fn answer(self) -> Result<Bytes, Failure> {
        Ok(Bytes::new())
    }
}

macro_rules! bytes_answer {
    ($($kind:ty),*) => {
        $(impl Answer for $kind {
            fn answer(self) -> Result<Bytes, Failure> {
                Ok(self.into())
            }
        })*
    };
}

bytes_answer!(Bytes, Vec<u8>, String, &'static str, &'static [u8]);
