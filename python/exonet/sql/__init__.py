"""Outbox and inbox in the application's own database. A message is sent in a transaction of the sender and processed in a
transaction of the receiver. It is processed exactly once, whatever crashes.

    import exonet.sql as sql

    sql.migrate("sqlite:///shop.db")                       # once, when the application starts

    with engine.begin() as tx:                             # SQLAlchemy, psycopg, sqlite3, aiosqlite
        tx.execute(...)
        sql.send(tx, "ID@HOST:PORT", b"42", tag="payment", order="account 7")

    relay = await sql.Relay.start(node, "sqlite:///shop.db")

And at the receiver:

    def credit(tx, message):
        tx.execute("update account set balance = balance + ?", (int(message.body),))

    inbox = await sql.Inbox.start(node, "sqlite:///bank.db", credit)

SQLite from 3.35 on and PostgreSQL. The tables and the rules are those of the crate ``exonet-sql``, with which services in Rust share
them: ``docs/sql.md``. ``exonet.sql.blocking`` has the same without ``asyncio``.

A **database** is named by

* a URL: ``sqlite:///FILE``, ``postgresql://USER@HOST/NAME``, or a conninfo of libpq; a ``pathlib.Path`` is a file of SQLite;
* an ``Engine``, ``AsyncEngine``, ``sessionmaker`` or ``async_sessionmaker`` of SQLAlchemy (2.0 or later);
* a pool of ``psycopg_pool``;
* a function without arguments that opens a connection of ``sqlite3`` or ``psycopg``.

Besides the transactions of handlers, a relay and an inbox have connections of their own, by ``sqlite3`` or ``psycopg`` (3.2 or later).
"""

from __future__ import annotations

import asyncio
import atexit
from typing import Any, Iterable, Optional, Set, Union

from .. import _native
from .._native import InboxMessage, InboxStats, RelayStats
from ..errors import ArgumentTypeError, Closed, NotMigrated, SqlError, UsageError
from ..types import Buffer, Text
from ._database import Database, resolve
from ._statements import explained, kind_of, run, run_async
from ._work import Handler, Reject, asynchronous_of, blocking_of, count_of, is_async, log, process_async, start_threads

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
    "migrate_async",
    "send",
    "send_async",
]

_UNDOING = 5.0
"""For how many seconds a stopped inbox waits for handlers that it has cancelled."""

# No thread of the native part may run a statement when the interpreter ends.
atexit.register(_native._sql_at_exit)


def migrate(database: Any) -> None:
    """Makes the tables of the outbox and the inbox in a database, or brings old ones up to date.

    Any number of processes may call it, at each start. All names begin with ``exonet_``.
    """
    if asyncio._get_running_loop() is not None:
        raise UsageError("this would stop the event loop of this thread: write `await exonet.sql.migrate_async(...)`")
    _native._sql_migrate(resolve(database)).wait()


async def migrate_async(database: Any) -> None:
    """Like ``migrate``, on an event loop."""
    await _native._sql_migrate(await asyncio.to_thread(resolve, database))


def send(tx: Any, to: Union[str, _native.Peer], body: Buffer, *, tag: Text = "", order: Text = "") -> str:
    """Sends a message to a peer if, and as soon as, the transaction ``tx`` is committed. Gives its key, a UUID.

    ``tx`` is a connection of ``sqlite3`` or ``psycopg``, or a connection or session of SQLAlchemy, with the transaction that does
    the work which the message reports. ``to`` is ID@HOST:PORT; of a peer that the relay's node knows, the id is enough. ``body`` has
    at most 1 MiB. ``tag`` is for dispatch at the receiver. Messages to one peer with the same ``order`` are processed one after the
    other, in the order in which they were sent. ``tag`` and ``order`` have at most 255 bytes each.

    ``send`` needs no node: a ``Relay``, in this process or another, hands the message to one. If ``send`` raises, roll the transaction
    back.
    """
    kind, tx = kind_of(tx)
    if kind.is_async:
        raise ArgumentTypeError("this connection is asynchronous: write `await exonet.sql.send_async(...)`")
    key, sql, args = _native._sql_row(kind.dialect, _name(to), body, tag, order)
    with explained():
        run(kind, tx, sql, args)
    _native._sql_inserted()
    return key


async def send_async(tx: Any, to: Union[str, _native.Peer], body: Buffer, *, tag: Text = "", order: Text = "") -> str:
    """Like ``send``, with an asynchronous connection or session of ``psycopg``, ``aiosqlite`` or SQLAlchemy."""
    kind, tx = kind_of(tx)
    if not kind.is_async:
        raise ArgumentTypeError("this connection blocks: write `exonet.sql.send(...)`, without `await`")
    key, sql, args = _native._sql_row(kind.dialect, _name(to), body, tag, order)
    with explained():
        await run_async(kind, tx, sql, args)
    _native._sql_inserted()
    return key


def _name(to: Union[str, _native.Peer]) -> str:
    return to if isinstance(to, str) else to.address


class Relay:
    """Hands the rows of an outbox to a node as soon as they are committed, and deletes each once its message is processed.

    A node has one relay, and a database any number. Give the node of a relay a ``state_dir``: a relay that comes back with another
    identity leaves a record of the former one. A relay runs until ``stop()``, or until the node closes, and waits for a database that
    is away. An ``async with`` block stops it at its end.
    """

    def __init__(self, relay: _native.OutboxRelay) -> None:
        self._relay = relay

    @classmethod
    async def start(
        cls,
        node: _native.NodeBase,
        database: Any,
        *,
        lanes: Optional[Iterable[int]] = None,
        take_after: float = 10.0,
        keep_settled: Optional[float] = None,
        in_flight: int = 256,
    ) -> Relay:
        """Starts a relay.

        ``lanes`` are the lanes that it wants, out of 0 to 7: all by default. It takes a lane over when the owner has shown no sign of
        life for ``take_after`` seconds. With less than 3 seconds, it takes its lanes when it starts, and never afterwards.
        ``keep_settled`` is the number of seconds for which rows stay after they are processed: a database that is restored from a backup
        no older than this causes no duplicates. By default, rows are deleted at once. ``in_flight`` is the largest number of rows under
        way to one peer.
        """
        found = await asyncio.to_thread(resolve, database)
        options = (None if lanes is None else list(lanes), take_after, keep_settled, in_flight)
        return cls(await _native._sql_relay(node, found, *options))

    def stats(self) -> RelayStats:
        """Figures about the relay."""
        return self._relay.stats()

    async def stop(self, timeout: float = 5.0) -> None:
        """Hands no more rows over, and waits until all that is under way is settled, for ``timeout`` seconds at most. It keeps its
        lanes: the next process with the node's identity goes on with them."""
        await self._relay.stop(timeout)

    async def sign_off(self, timeout: float = 5.0) -> bool:
        """Like ``stop``, and leaves its lanes: for an identity that does not come back. Returns False if that was not possible within
        ``timeout`` seconds, because rows are still under way or a receiver is away."""
        return await self._relay.sign_off(timeout)

    async def __aenter__(self) -> Relay:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


class Inbox:
    """Takes the messages that relays send to a node, and processes each in a transaction of a database, exactly once.

    It leaves other messages to ``node.recv()`` and the like. It runs until ``stop()``, or until the node closes. An ``async with``
    block stops it at its end.
    """

    def __init__(self, jobs: _native.InboxJobs, database: Database) -> None:
        self._jobs = jobs
        self._database = database
        self._task: Optional[asyncio.Task[None]] = None
        self._running: Set[asyncio.Task[None]] = set()

    @classmethod
    async def start(
        cls,
        node: _native.NodeBase,
        database: Any,
        handler: Handler,
        *,
        concurrency: Optional[int] = None,
        handler_timeout: Optional[float] = 60.0,
        attempts: Optional[int] = 10,
        collect_every: float = 30.0,
    ) -> Inbox:
        """Starts an inbox. ``handler(tx, message)`` gets each message with a transaction that has begun.

        A plain function is called on a thread, with a blocking transaction: a connection of ``sqlite3`` or ``psycopg``, or what an
        ``Engine`` or a ``sessionmaker`` gives. An ``async def`` is called on this event loop, with an asynchronous one: a connection of
        ``aiosqlite`` or ``psycopg``, or what an ``AsyncEngine`` or an ``async_sessionmaker`` gives.

        When the handler returns, its work in ``tx`` and the record that the message is processed are committed together, and only then
        the sender is told. The handler must neither commit nor roll back, and must not keep ``tx``. It may call ``send`` with ``tx``. If
        it raises, its work is undone and it gets the message again: after 50 ms, then each time after twice as long, up to a minute.
        In PostgreSQL, a handler that hides the error of a failed statement counts as one that has raised: its work is lost.
        Other messages do not wait for that. After ``attempts`` failures (None: never), or at once if the handler raises ``Reject``, the
        message becomes a dead letter of the node.

        ``concurrency`` is the largest number of messages that are processed at once. Default: 1 in SQLite, which has one writer, and 16
        in PostgreSQL. An ``async def`` that takes longer than ``handler_timeout`` seconds is cancelled, and has failed; a handler on a
        thread cannot be cancelled, and one that swallows its cancellation keeps its place until it ends. Every ``collect_every``
        seconds, the inbox asks senders which rows they have deleted, and deletes its records of them.
        """
        found = await asyncio.to_thread(resolve, database)
        most = count_of("concurrency", concurrency, found.most_handlers)
        # Before anything starts: a database that does not suit the handler is refused here.
        begin: Any = asynchronous_of(found) if is_async(handler) else blocking_of(found)
        inbox = cls(await _native._sql_inbox(node, found, most, attempts, collect_every), found)
        if is_async(handler):
            serving = inbox._serve(begin, handler, handler_timeout)
            inbox._task = asyncio.get_running_loop().create_task(serving)
        else:
            start_threads(inbox._jobs, begin, handler, most)
        return inbox

    def stats(self) -> InboxStats:
        """Figures about the inbox."""
        return self._jobs.stats()

    async def stop(self, timeout: float = 5.0) -> None:
        """Takes no further message, and waits until the handlers that run have ended, for ``timeout`` seconds at most; then it
        cancels them, and waits for 5 seconds at most until they have undone their work. A handler on a thread cannot be cancelled, and
        one that swallows its cancellation goes on: it ends its transaction later. If that is committed, the inbox recognises the
        message when it comes again."""
        await self._jobs.stop(timeout)
        for task in self._running:
            task.cancel()
        waiting = [task for task in (self._task, *self._running) if task is not None]
        if waiting:
            _, left = await asyncio.wait(waiting, timeout=_UNDOING)
            if left:
                log.warning("handlers that an inbox has cancelled when it stopped, and that go on: %d", len(left))
        await self._database.close_async()

    async def _serve(self, begin: Any, handler: Handler, timeout: Optional[float]) -> None:
        while True:
            try:
                job = await self._jobs.next()
            except Closed:
                return
            task = asyncio.ensure_future(process_async(job, begin, handler, timeout))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def __aenter__(self) -> Inbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
