"""The outbox and the inbox without ``asyncio``: as in ``exonet.sql``, with calls that block.

    import exonet.sql.blocking as sql

    with exonet.blocking.Node(state_dir="shop") as node, sql.Relay.start(node, "sqlite:///shop.db"):
        with sqlite3.connect("shop.db") as tx:
            sql.send(tx, "ID@HOST:PORT", b"42")
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional

from .. import _native
from .. import blocking as _blocking
from ..errors import ArgumentTypeError
from . import InboxMessage, InboxStats, NotMigrated, Reject, RelayStats, SqlError, migrate, send
from ._database import Database, resolve
from ._work import blocking_of, count_of, is_async, start_threads

__all__ = [
    "Inbox",
    "InboxMessage",
    "InboxStats",
    "NotMigrated",
    "Reject",
    "Relay",
    "RelayStats",
    "SqlError",
    "migrate",
    "send",
]


class Relay:
    """Hands the rows of an outbox to a node. See ``exonet.sql.Relay``."""

    def __init__(self, relay: _native.OutboxRelay) -> None:
        self._relay = relay

    @classmethod
    def start(
        cls,
        node: _blocking.Node,
        database: Any,
        *,
        lanes: Optional[Iterable[int]] = None,
        take_after: float = 10.0,
        keep_settled: Optional[float] = None,
        in_flight: int = 256,
    ) -> Relay:
        """Starts a relay. See ``exonet.sql.Relay.start``."""
        options = (None if lanes is None else list(lanes), take_after, keep_settled, in_flight)
        return cls(_native._sql_relay(node._node, resolve(database), *options).wait())

    def stats(self) -> RelayStats:
        """Figures about the relay."""
        return self._relay.stats()

    def stop(self, timeout: float = 5.0) -> None:
        """Hands no more rows over, and waits until all that is under way is settled, for ``timeout`` seconds at most."""
        self._relay.stop(timeout).wait()

    def sign_off(self, timeout: float = 5.0) -> bool:
        """Like ``stop``, and leaves its lanes: for an identity that does not come back."""
        return self._relay.sign_off(timeout).wait()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Inbox:
    """Processes messages, each in a transaction, on threads. See ``exonet.sql.Inbox``."""

    def __init__(self, jobs: _native.InboxJobs, database: Database) -> None:
        self._jobs = jobs
        self._database = database

    @classmethod
    def start(
        cls,
        node: _blocking.Node,
        database: Any,
        handler: Callable[[Any, InboxMessage], None],
        *,
        threads: Optional[int] = None,
        attempts: Optional[int] = 10,
        collect_every: float = 30.0,
    ) -> Inbox:
        """Starts an inbox that calls ``handler(tx, message)`` on ``threads`` threads. Default: 1 in SQLite, which has one writer, and
        16 in PostgreSQL. See ``exonet.sql.Inbox.start``."""
        if is_async(handler):
            raise ArgumentTypeError("the handler is an `async def`: use exonet.sql.Inbox, or make it a plain function")
        found = resolve(database)
        begin, most = blocking_of(found), count_of("threads", threads, found.most_handlers)
        inbox = cls(_native._sql_inbox(node._node, found, most, attempts, collect_every).wait(), found)
        start_threads(inbox._jobs, begin, handler, most)
        return inbox

    def stats(self) -> InboxStats:
        """Figures about the inbox."""
        return self._jobs.stats()

    def stop(self, timeout: float = 5.0) -> None:
        """Takes no further message, and waits until the handlers that run have ended, for ``timeout`` seconds at most. A handler
        that still runs ends its transaction later. If that is committed, the inbox recognises the message when it comes again."""
        self._jobs.stop(timeout).wait()
        self._database.close()

    def __enter__(self) -> Inbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
