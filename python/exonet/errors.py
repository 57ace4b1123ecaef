"""What can go wrong, each thing by its name. Every exception of the package is an ``Error``."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple, Type

if TYPE_CHECKING:
    from ._native import Delivery

__all__ = [
    "AddressError",
    "AnswerError",
    "ArgumentTypeError",
    "BodyError",
    "BuildError",
    "CallCancelled",
    "CallError",
    "CallExpired",
    "CallFailed",
    "CallRefused",
    "CallUnknown",
    "CancelError",
    "Closed",
    "Error",
    "ForkedError",
    "GroupError",
    "NotDelivered",
    "NotMigrated",
    "SendError",
    "ServeError",
    "SessionAway",
    "SessionEnded",
    "SessionError",
    "SessionMissing",
    "SqlError",
    "StreamBroken",
    "StreamContinues",
    "StreamError",
    "StreamMissing",
    "StreamReset",
    "Timeout",
    "UsageError",
]


class Error(Exception):
    """Anything that this package raises."""

    def __init__(self, message: str = "", **attributes: object) -> None:
        super().__init__(message)
        self.__dict__.update(attributes)

    def __reduce__(self) -> Tuple[Any, ...]:
        return (_make, (type(self), str(self), dict(self.__dict__)))


def _make(kind: Type[Error], message: str, attributes: Dict[str, object]) -> Error:
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    error.__dict__.update(attributes)
    return error


class UsageError(Error, ValueError):
    """An argument has a value that it cannot have, or something is used that is not ready or is used up."""


class ArgumentTypeError(Error, TypeError):
    """An argument is of a type that it cannot be of."""


class AddressError(Error, ValueError):
    """A text does not name a peer: ``ID@HOST:PORT`` is wanted."""


class BuildError(Error):
    """The node could not be started: its address, its state directory, or its settings."""


class Closed(Error):
    """The node is closed. An ``async for`` ends in its place."""


class ForkedError(Error, RuntimeError):
    """Something of the parent is used in a child of a fork."""


class Timeout(Error, builtins.TimeoutError):
    """Something did not end in the time that was given to it. Only the blocking calls raise it: ``asyncio`` has its own."""


class SendError(Error):
    """A message was not accepted. Nothing has been queued, with two exceptions: what ``send_many`` has queued before (see ``sent``), and
    a message that waited for the disk when the node closed. The next process of the identity may send that one, and the text says so.
    """

    sent: int = 0
    """How many messages of a batch have been queued before."""


class AnswerError(Error):
    """A message was neither acknowledged nor answered. The ``__cause__`` is what ``send`` would have raised. Nothing was sent,
    unless the node closed while the answer waited for the disk: then the next process of the identity may have done both, and the text says so.

    Unless the node has closed, the delivery is as it was before: acknowledge, reject or put it off, or answer with something else. If
    it is dropped instead, the message is handed out again.
    """

    delivery: Optional[Delivery] = None
    """The delivery that was to be answered. None: the node was closed first."""

    def __reduce__(self) -> Tuple[Any, ...]:
        # A delivery belongs to its process.
        attributes = {name: value for name, value in self.__dict__.items() if name != "delivery"}
        return (_make, (type(self), str(self), attributes))


class CancelError(Error):
    """A message cannot be withdrawn any more: it has left, or has its outcome."""

    settled: bool = False
    """Whether it has its outcome."""


class NotDelivered(Error):
    """The message was not delivered, and must not be acted on: what the node knew of it is gone."""


class BodyError(Error):
    """A body cannot be read."""


class ServeError(Error):
    """A method is not served: it is served already, or its name is too long."""


class CallError(Error):
    """A call has no reply."""

    has_not_run: bool = False
    """Whether the call has certainly not run, so that it may be made again."""
    id: Optional[str] = None
    """The call's name at both ends, if it has left."""


class CallRefused(CallError):
    """The call was not accepted by this node, or not taken by the peer: it has certainly not run."""

    has_not_run = True


class CallExpired(CallError):
    """The deadline came before the call left: it has certainly not run."""

    has_not_run = True


class CallCancelled(CallError):
    """The call was withdrawn before it left: it has certainly not run."""

    has_not_run = True


class CallFailed(CallError):
    """The call was answered by a failure. ``has_not_run`` says of some that the handler was never begun."""

    status: int = 1
    """Not zero. Below 4294967040, what the handler said by ``exonet.Failure``."""
    body: bytes = b""
    """What more was said."""


class CallUnknown(CallError):
    """The call ran once or not at all, and nobody here will know which. Ask the server, by ``id``."""

    why: str = ""
    """Why that is not known."""


class StreamError(Error):
    """A stream cannot be opened, or cannot go on."""


class StreamMissing(StreamError):
    """Messages are missing here: their sender gave them up. The stream goes on behind them."""

    count: int = 0
    """How many."""


class StreamContinues(StreamError):
    """Messages came before the next one, for a process before this one that kept no journal. The stream goes on."""

    count: int = 0
    """How many."""


class StreamReset(StreamError):
    """The sender has given the rest of the stream up: there is no more."""


class StreamBroken(StreamError):
    """The sender has forgotten the stream, and has begun another of this name."""


class SessionError(Error):
    """A session cannot be opened, or cannot go on."""


class SessionMissing(SessionError):
    """Messages are missing here: the peer gave them up. The session goes on behind them."""

    count: int = 0
    """How many."""


class SessionEnded(SessionError):
    """The session has ended, and not by both ends having said all."""

    end: str = ""
    """How: "aborted", "refused", "expired" or "forgotten"."""


class SessionAway(SessionError):
    """The peer did not answer in time. What was sent goes on, if the node does."""


class SqlError(Error):
    """An outbox or an inbox cannot do what is asked of it."""


class NotMigrated(SqlError):
    """The database has no tables of the outbox and the inbox, or old ones: ``exonet.sql.migrate(database)`` makes them."""


class GroupError(Error):
    """Something is wrong with a group, or with what is asked of it. Nothing has been sent."""
