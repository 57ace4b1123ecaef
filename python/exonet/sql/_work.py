"""One message in one transaction: the record that it is processed, and the work of the handler.

The native part decides what is recorded, what is confirmed to the sender and when a message comes again. This module tells it how
the transaction has ended. It says that a handler has failed only if the transaction is certainly not committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from typing import Any, Awaitable, Callable, Iterator, Optional

from .. import _native
from ..errors import Closed, UsageError
from ._database import Asynchronous, Blocking, Database
from ._statements import Kind, kind_of, run, run_async

log = logging.getLogger("exonet")

Handler = Callable[[Any, _native.InboxMessage], Optional[Awaitable[None]]]


class Reject(Exception):
    """Raised by a handler for a message that can never be processed. Its transaction is rolled back; the message becomes a dead
    letter of this node, and its row at the sender gets the reason."""

    def __init__(self, reason: str = "", status: int = 0) -> None:
        if not isinstance(status, int) or not 0 <= status < 1 << 32:
            raise UsageError(f"a status is a number from 0 to 4294967295, not {status!r}")
        super().__init__(reason)
        self.reason = reason
        self.status = status


class _HandlerFailed(Exception):
    """The handler has raised the exception that is the cause of this one."""


class _Unwanted(Exception):
    """The inbox has stopped, and the message may be processed elsewhere by now."""


def is_async(handler: Handler) -> bool:
    """Whether a handler is an ``async def``."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))


def blocking_of(database: Database) -> Blocking:
    """How a transaction for a plain function begins."""
    if database.blocking is None:
        raise UsageError(
            "a plain function as handler needs a blocking connection: give an Engine, a ConnectionPool or a URL, or make it an `async def`"
        )
    return database.blocking


def asynchronous_of(database: Database) -> Asynchronous:
    """How a transaction for an ``async def`` begins."""
    if database.asynchronous is None:
        raise UsageError(
            f"an async handler needs an asynchronous connection: give {database.async_help}, or make it a plain function"
        )
    return database.asynchronous


def count_of(name: str, given: Optional[int], most: int) -> int:
    """How many handlers run at once: ``most``, unless the application says otherwise."""
    if given is None:
        return most
    if given < 1:
        raise UsageError(f"{name} must be 1 at least, not {given}: None is the default")
    return given


def _has_ended(tx: Any) -> bool:
    """Whether the transaction is no longer open: a handler that has ended it and has begun another is not found out."""
    open_now = getattr(tx, "in_transaction", None)
    if open_now is None:
        # psycopg: idle means that there is no transaction.
        return bool(tx.info.transaction_status == 0)
    return not (open_now() if callable(open_now) else open_now)


def _check(tx: Any) -> None:
    if _has_ended(tx):
        raise UsageError("the handler has ended the transaction: it must neither commit nor roll back, the inbox does so")


def _trial(kind: Kind) -> Optional[str]:
    """A statement that fails if the transaction cannot be committed.

    If a statement in it has failed, PostgreSQL can only roll it back, and answers a commit as if that had succeeded. So a handler
    that hides the error would lose its message."""
    return "select 1" if kind.dialect == "postgresql" else None


def _text(said: object) -> str:
    """A text for the native part, which takes no lone surrogates: a handler that decodes with ``surrogateescape`` makes some."""
    return str(said).encode("utf-8", "backslashreplace").decode()


@contextlib.contextmanager
def _told(job: _native.InboxJob) -> Iterator[None]:
    """Tells the native part how the transaction in this block has ended."""
    try:
        yield
    except _Unwanted:
        pass
    except _HandlerFailed as failed:
        error = failed.__cause__
        if isinstance(error, Reject):
            job.rejected(error.status, _text(error.reason))
        elif getattr(error, "connection_invalidated", False):
            job.away(_text(error))
        else:
            log.warning("the handler of an inbox has failed", exc_info=error)
            job.failed(_text(f"{type(error).__name__}: {error}"))
    except Exception as error:
        # The beginning or the commit has failed. A commit fails with an IntegrityError if a deferred constraint refuses what the
        # handler has done.
        if any(base.__name__ == "IntegrityError" for base in type(error).__mro__):
            job.failed(_text(f"{type(error).__name__}: {error}"))
        else:
            job.away(_text(error))


def process(job: _native.InboxJob, begin: Blocking, handler: Handler) -> None:
    """Processes a message on this thread."""
    with _told(job):
        is_new = False
        with begin() as tx:
            kind, _ = kind_of(tx)
            is_new = run(kind, tx, job.sql, job.args) > 0
            # Not before: the record locks the key, so whoever else has the message waits for the end of this transaction.
            if not job.is_wanted:
                raise _Unwanted
            if is_new:
                try:
                    _refuse_awaitable(handler(tx, job.message))
                    if hasattr(tx, "flush"):
                        tx.flush()
                    _check(tx)
                    if trial := _trial(kind):
                        run(kind, tx, trial, [])
                # `sys.exit()` as well: it would end the thread, and nothing would take the next message.
                except BaseException as error:
                    raise _HandlerFailed from error
        job.processed(is_new)


def _refuse_awaitable(given: Any) -> None:
    if inspect.isawaitable(given):
        if inspect.iscoroutine(given):
            given.close()
        raise UsageError("the handler has given something to await: make it an `async def`")


def start_threads(jobs: _native.InboxJobs, begin: Blocking, handler: Handler, count: int) -> None:
    """Starts threads that process messages until the inbox has stopped."""

    def work() -> None:
        while True:
            try:
                job = jobs.next().wait()
            except Closed:
                return
            process(job, begin, handler)

    for at in range(count):
        threading.Thread(target=work, name=f"exonet-inbox-{at}", daemon=True).start()


async def process_async(
    job: _native.InboxJob, begin: Asynchronous, handler: Handler, timeout: Optional[float]
) -> None:
    """The same on an event loop."""
    with _told(job):
        is_new = False
        async with begin() as tx:
            kind, _ = kind_of(tx)
            is_new = await run_async(kind, tx, job.sql, job.args) > 0
            if not job.is_wanted:
                raise _Unwanted
            if is_new:
                try:
                    await _within(handler(tx, job.message), timeout)
                    if hasattr(tx, "flush"):
                        await tx.flush()
                    _check(tx)
                    if trial := _trial(kind):
                        await run_async(kind, tx, trial, [])
                except asyncio.CancelledError as error:
                    # The inbox cancels handlers only when it has stopped. Otherwise what the handler awaited was cancelled.
                    if not job.is_wanted:
                        raise
                    raise _HandlerFailed from error
                except Exception as error:
                    raise _HandlerFailed from error
        job.processed(is_new)


async def _within(handling: Any, timeout: Optional[float]) -> None:
    try:
        await asyncio.wait_for(handling, timeout)
    except asyncio.TimeoutError:
        raise TimeoutError(f"the handler has taken longer than {timeout} s, or has raised a TimeoutError") from None
