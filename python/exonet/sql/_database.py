"""The database that an application names: how the outbox and the inbox connect to it.

All runs on the application's own drivers. For SQLite there is no other way: a second copy of SQLite in one process breaks the
locks of the first.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sqlite3
import sys
import threading
import time
from typing import Any, AsyncContextManager, AsyncIterator, Callable, ContextManager, Iterator, List, Optional, Tuple

from .. import _native
from ..errors import ArgumentTypeError, UsageError
from ._statements import dialect_of, kind_of, named, numbered, of_psycopg

_OLDEST = (3, 35, 0)
"""The first version of SQLite that knows ``returning``."""

_LISTEN = 2.0
"""The longest time in seconds for which a thread waits for notifications before it checks whether the relay still wants it."""

_POLL = 0.01
"""The time in seconds between two questions to SQLite whether something was committed."""
_SOON = 0.001
"""The same after this process has inserted a row."""

Blocking = Callable[[], ContextManager[Any]]
"""Gives a connection or session of the application, in a transaction that is committed at the end of the block."""
Asynchronous = Callable[[], AsyncContextManager[Any]]


class Database:
    """A database: how to connect for bookkeeping, and how to begin the transaction that a handler gets."""

    dialect: str
    blocking: Optional[Blocking] = None
    asynchronous: Optional[Asynchronous] = None
    async_help: str = ""
    """If ``asynchronous`` is None: what the application can give instead, to have it."""

    def __init__(self, dialect: str, connect: Callable[[], Any]) -> None:
        self.dialect = dialect
        self._connect = connect
        self._kept: Optional[Kept] = None
        self._kept_async: Optional[AsyncKept] = None

    def keep(self, connect: Callable[[], Any], connect_async: Optional[Callable[[], Any]] = None) -> Database:
        """Lets transactions for handlers run on connections that this object opens and keeps."""
        self._kept = Kept(connect)
        self.blocking = self._kept.transaction
        if connect_async is not None:
            self._kept_async = AsyncKept(connect_async)
            self.asynchronous = self._kept_async.transaction
        return self

    @property
    def most_handlers(self) -> int:
        """How many handlers run at once, if the application does not say: SQLite has one writer."""
        return 1 if self.dialect == "sqlite" else 16

    def close(self) -> None:
        """Closes the connections for blocking transactions, once no thread uses them."""
        if self._kept is not None:
            self._kept.close()

    async def close_async(self) -> None:
        """Closes the connections for transactions, once no task or thread uses them."""
        self.close()
        if self._kept_async is not None:
            await self._kept_async.close()

    # Called by the native part.

    def connect(self) -> Connection:
        """A connection for bookkeeping."""
        return Connection(self.dialect, self._connect())

    def listen(self, waker: _native.Waker) -> None:
        """Starts a thread that wakes a relay when something may have been committed. It ends when the relay no longer wants that."""
        threading.Thread(target=self._listen, args=(waker,), name="exonet-listen", daemon=True).start()

    def _listen(self, waker: _native.Waker) -> None:
        try:
            raw = self._connect()
            try:
                if self.dialect == "sqlite":
                    _poll(raw, waker)
                else:
                    _wait(raw, waker)
            finally:
                raw.close()
        except Exception as error:
            waker.lost(str(error))


def _wait(raw: Any, waker: _native.Waker) -> None:
    """Waits for notifications of PostgreSQL."""
    raw.autocommit = True
    raw.execute("listen exonet_outbox")
    waker.wake()
    while waker.is_wanted:
        for _ in raw.notifies(timeout=_LISTEN, stop_after=1):
            waker.wake()


def _poll(raw: Any, waker: _native.Waker) -> None:
    """Asks SQLite again and again whether another connection has committed something, which SQLite reads from shared memory."""
    raw.row_factory = None
    seen: Optional[int] = None
    while waker.is_wanted:
        (version,) = raw.execute("pragma data_version").fetchone()
        if version != seen:
            seen = version
            waker.wake()
        time.sleep(_SOON if waker.is_soon else _POLL)


class Connection:
    """A connection for bookkeeping, on which each statement is a transaction unless one has begun.

    The native part runs one statement at a time. When it no longer waits for a statement it calls ``close``, from another thread: the
    lock makes ``close`` wait for the end of the statement.
    """

    def __init__(self, dialect: str, raw: Any) -> None:
        self._raw = raw
        self._is_sqlite = dialect == "sqlite"
        self._lock = threading.Lock()
        if self._is_sqlite:
            raw.isolation_level = None
            raw.row_factory = None
            _complete(raw)
        else:
            raw.rollback()
            raw.autocommit = True

    def execute(self, sql: str, args: List[Any]) -> int:
        """How many rows a statement has changed."""
        with self._lock, self._run(sql, args) as cursor:
            return max(0, int(cursor.rowcount))

    def fetch(self, sql: str, args: List[Any]) -> List[Tuple[Any, ...]]:
        """The rows that a statement returns."""
        with self._lock, self._run(sql, args) as cursor:
            rows: List[Tuple[Any, ...]] = cursor.fetchall()
            return rows

    def close(self) -> None:
        """Closes the connection. A transaction that is open is rolled back."""
        with self._lock:
            self._raw.close()

    def _run(self, sql: str, args: List[Any]) -> ContextManager[Any]:
        if self._is_sqlite:
            return contextlib.closing(self._raw.execute(sql, numbered(args)))
        psycopg = sys.modules["psycopg"]
        cursor: Any = psycopg.Cursor(self._raw, row_factory=psycopg.rows.tuple_row)
        return contextlib.closing(cursor.execute(of_psycopg(sql), named(args)))


def _complete(raw: Any) -> None:
    """Gives older versions of SQLite what the statements need."""
    if sqlite3.sqlite_version_info < _OLDEST:
        raise UsageError(f"SQLite 3.35 or later is needed, this Python has {sqlite3.sqlite_version}: use another build of it")
    if sqlite3.sqlite_version_info < (3, 41, 0):
        raw.create_function("unhex", 1, bytes.fromhex, deterministic=True)
    if sqlite3.sqlite_version_info < (3, 38, 0):
        raw.create_function("unixepoch", 0, lambda: int(time.time()))


def _library(name: str, what: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"{what} needs {name}: pip install '{package}'") from error


def _psycopg() -> Any:
    psycopg = _library("psycopg", "a relay or an inbox in PostgreSQL", "psycopg[binary]>=3.2")
    if tuple(int(part) for part in psycopg.__version__.split(".")[:2]) < (3, 2):
        raise UsageError(f"psycopg 3.2 or later is needed, not {psycopg.__version__}: pip install 'psycopg[binary]>=3.2'")
    return psycopg


def resolve(database: Any) -> Database:
    """The database that an application names, in any of the ways of ``exonet.sql``."""
    if isinstance(database, Database):
        return database
    if isinstance(database, os.PathLike):
        return _sqlite(os.fspath(database))
    if isinstance(database, str):
        return _of_text(database)
    module = type(database).__module__.split(".")[0]
    if module == "sqlalchemy":
        return _of_sqlalchemy(database)
    if module == "psycopg_pool":
        return _of_pool(database)
    if callable(database):
        return _of_function(database)
    raise ArgumentTypeError(
        "a database is a URL (sqlite:///FILE, postgresql://...), a path of SQLite, an engine or sessionmaker of SQLAlchemy, a pool "
        f"of psycopg_pool, or a function that opens a connection, not {type(database).__module__}.{type(database).__qualname__}"
    )


def _of_text(text: str) -> Database:
    scheme, colon, rest = text.partition("://")
    if not colon:
        if "=" in text:
            return _postgresql(text)
        raise UsageError(f"{text!r} is not a URL: write sqlite:///FILE, postgresql://USER@HOST/NAME, or a pathlib.Path for SQLite")
    name = scheme.partition("+")[0]
    if name == "sqlite":
        if not rest.startswith("/"):
            raise UsageError(f"{text!r}: write sqlite:///FILE, or sqlite:////FILE for a path from the root on")
        return _sqlite(rest[1:])
    if name in ("postgresql", "postgres"):
        return _postgresql(f"postgresql://{rest}")
    raise UsageError(f"an outbox or an inbox is in SQLite or PostgreSQL, not in {name}")


# ---- SQLite


def _sqlite(file: Any) -> Database:
    if not file or file == ":memory:" or str(file).startswith("file:") or "?" in str(file):
        raise UsageError(
            f"{file!r}: an outbox or an inbox is in a file of SQLite. What a URL cannot say, a function says that opens the connection"
        )

    def connect() -> Any:
        return sqlite3.connect(file, check_same_thread=False)

    async def connect_async() -> Any:
        return await _library("aiosqlite", "an async handler with SQLite", "aiosqlite").connect(file)

    return Database("sqlite", connect).keep(connect, connect_async)


# ---- PostgreSQL


def _postgresql(conninfo: str, **more: Any) -> Database:
    psycopg = _psycopg()

    def connect() -> Any:
        return psycopg.connect(conninfo, **more)

    async def connect_async() -> Any:
        return await psycopg.AsyncConnection.connect(conninfo, **more)

    return Database("postgresql", connect).keep(connect, connect_async)


def _of_pool(pool: Any) -> Database:
    conninfo, more = pool.conninfo, dict(pool.kwargs or {})
    if not isinstance(conninfo, str) or not isinstance(more, dict):
        raise UsageError("a pool whose connection parameters are a function cannot be used here: give a function that opens a connection")
    found = _postgresql(conninfo, **more)
    found.blocking = found.asynchronous = None
    if type(pool).__name__.startswith("Async"):

        @contextlib.asynccontextmanager
        async def lend() -> AsyncIterator[Any]:
            async with pool.connection() as connection, _async_transaction(connection):
                yield connection

        found.asynchronous = lend
        return found

    @contextlib.contextmanager
    def take() -> Iterator[Any]:
        with pool.connection() as connection, _transaction(connection):
            yield connection

    found.blocking = take
    found.async_help = "an AsyncConnectionPool or a URL"
    return found


# ---- SQLAlchemy


def _of_sqlalchemy(given: Any) -> Database:
    kind = type(given).__name__
    if kind == "URL":
        return _of_text(given.render_as_string(hide_password=False))
    maker = given if hasattr(given, "kw") else None
    engine = maker.kw.get("bind") if maker is not None else given
    if engine is None or not hasattr(engine, "dialect"):
        raise UsageError(f"this {kind} has no engine: give an Engine, an AsyncEngine, or a sessionmaker with `bind`")
    found = _engine(engine)
    if hasattr(engine, "sync_engine"):
        found.asynchronous = maker.begin if maker is not None else engine.begin
    else:
        found.blocking = maker.begin if maker is not None else engine.begin
        found.async_help = "an AsyncEngine, an async_sessionmaker or a URL"
    return found


def _engine(engine: Any) -> Database:
    """The bookkeeping of an engine. It has connections of its own."""
    if dialect_of(engine) == "sqlite":
        found = _sqlite(engine.url.database)
    elif engine.dialect.driver == "psycopg" and not hasattr(engine, "sync_engine"):
        _psycopg()

        def connect() -> Any:
            # As the application connects: with its `creator` and its events.
            lent = engine.raw_connection()
            raw = lent.dbapi_connection
            lent.detach()
            return raw

        return Database("postgresql", connect)
    else:
        found = _of_text(engine.url.render_as_string(hide_password=False))
    found.blocking = found.asynchronous = None
    return found


# ---- a function that opens a connection


def _of_function(connect: Callable[[], Any]) -> Database:
    probe = connect()
    try:
        kind, _ = kind_of(probe)
        if kind.is_async or kind.driver == "sqlalchemy":
            raise UsageError(
                "a function gives a new connection of sqlite3 or psycopg, which block: for others give the URL, the engine or the pool"
            )
    finally:
        close = getattr(probe, "close", None)
        if close is not None:
            closing = close()
            # An asynchronous connection, which is refused: its `close` is a coroutine, and must not be left without an await.
            if hasattr(closing, "close"):
                closing.close()

    def checked() -> Any:
        raw = connect()
        if kind.driver == "sqlite3":
            _is_for_all_threads(raw)
        return raw

    found = Database(kind.dialect, checked).keep(checked)
    found.async_help = "a URL, or an engine or a pool for asyncio"
    return found


def _is_for_all_threads(raw: Any) -> None:
    failed: List[BaseException] = []

    def try_it() -> None:
        try:
            raw.execute("select 1").close()
        except sqlite3.ProgrammingError as error:
            failed.append(error)

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    if failed:
        raw.close()
        raise UsageError("the connection is used by several threads, one at a time: open it with check_same_thread=False")


# ---- transactions


@contextlib.contextmanager
def _transaction(raw: Any) -> Iterator[Any]:
    """A transaction on a connection of sqlite3 or psycopg."""
    if not isinstance(raw, sqlite3.Connection):
        try:
            with raw.transaction():
                yield raw
        except Exception as error:
            _raise_if_lost(raw, error)
            raise
        return
    if not raw.in_transaction:
        # With the lock of writers from the beginning: a transaction that has read before it writes may not get it.
        raw.execute("begin immediate")
    try:
        yield raw
    except BaseException:
        if raw.in_transaction:
            raw.execute("rollback")
        raise
    raw.execute("commit")


@contextlib.asynccontextmanager
async def _async_transaction(raw: Any) -> AsyncIterator[Any]:
    """The same on a connection of aiosqlite or an asynchronous one of psycopg."""
    if hasattr(raw, "transaction"):
        try:
            async with raw.transaction():
                yield raw
        except Exception as error:
            _raise_if_lost(raw, error)
            raise
        return
    if not raw.in_transaction:
        await raw.execute("begin immediate")
    try:
        yield raw
    except BaseException:
        if raw.in_transaction:
            await raw.execute("rollback")
        raise
    await raw.execute("commit")


def _raise_if_lost(raw: Any, error: Exception) -> None:
    """psycopg rolls back what it can. A connection that is lost is no fault of the handler."""
    if raw.broken:
        raise ConnectionError(f"the connection to the database is lost: {error}") from error


# ---- connections that are kept from one transaction to the next


class Kept:
    """Blocking connections, of sqlite3 or psycopg: as many as are used at once."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._free: List[Any] = []
        self._is_closed = False

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """A transaction on a connection that no other thread has."""
        raw = _pop(self._free)
        if raw is None:
            raw = self._connect()
        is_whole = False
        try:
            with _transaction(raw):
                yield raw
            is_whole = True
        finally:
            if is_whole:
                self._free.append(raw)
            else:
                raw.close()
        # `close` either finds the connection in the list, or has said before that it must not stay there.
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """Closes the connections that are free, and each other one after its transaction."""
        self._is_closed = True
        while (raw := _pop(self._free)) is not None:
            raw.close()


class AsyncKept:
    """The same for aiosqlite and psycopg's asynchronous connections."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._free: List[Any] = []
        self._is_closed = False

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """A transaction on a connection that no other task has."""
        raw = _pop(self._free)
        if raw is None:
            raw = await self._connect()
        is_whole = False
        try:
            async with _async_transaction(raw):
                yield raw
            is_whole = True
        finally:
            if is_whole:
                self._free.append(raw)
            else:
                await raw.close()
        if self._is_closed:
            await self.close()

    async def close(self) -> None:
        """Closes the connections that are free, and each other one after its transaction."""
        self._is_closed = True
        while (raw := _pop(self._free)) is not None:
            await raw.close()


def _pop(free: List[Any]) -> Any:
    """Takes a connection that is free, or gives None. Between a look at the list and `pop`, another thread may take the last one."""
    try:
        return free.pop()
    except IndexError:
        return None
