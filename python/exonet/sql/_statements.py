"""Runs a statement of the outbox or the inbox on a connection of the application, whichever library it is of.

The statements come from the native part, with arguments named ``$1``, ``$2`` and so on. No library is imported here that the
application has not imported.
"""

from __future__ import annotations

import contextlib
import re
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type

from .. import _native
from ..errors import ArgumentTypeError, NotMigrated, UsageError

_ARGUMENT = re.compile(r"\$(\d+)")


class Kind(NamedTuple):
    """What a connection is."""

    driver: str
    """"sqlite3", "psycopg", "sqlalchemy" or "aiosqlite"."""
    dialect: str
    """"sqlite" or "postgresql"."""
    is_async: bool


def _classes(module: str, *names: str) -> Tuple[Type[Any], ...]:
    loaded = sys.modules.get(module)
    found = (getattr(loaded, name, None) for name in names)
    return tuple(one for one in found if isinstance(one, type))


def dialect_of(engine: Any) -> str:
    """The dialect of an engine or a connection of SQLAlchemy."""
    name = str(engine.dialect.name)
    if name not in ("sqlite", "postgresql"):
        raise UsageError(f"an outbox or an inbox is in SQLite or PostgreSQL, not in {name}")
    return name


def kind_of(tx: Any) -> Tuple[Kind, Any]:
    """What a connection, a session or a cursor is, and the connection or session of it."""
    if isinstance(tx, _classes("sqlite3", "Cursor") + _classes("psycopg", "Cursor", "AsyncCursor")):
        tx = tx.connection
    if isinstance(tx, _classes("sqlite3", "Connection")):
        return Kind("sqlite3", "sqlite", False), tx
    if isinstance(tx, _classes("psycopg", "Connection")):
        return Kind("psycopg", "postgresql", False), tx
    if isinstance(tx, _classes("psycopg", "AsyncConnection")):
        return Kind("psycopg", "postgresql", True), tx
    if isinstance(tx, _classes("sqlalchemy.engine", "Connection")):
        return Kind("sqlalchemy", dialect_of(tx), False), tx
    if isinstance(tx, _classes("sqlalchemy.orm", "Session", "scoped_session")):
        return Kind("sqlalchemy", dialect_of(tx.get_bind()), False), tx
    if isinstance(tx, _classes("sqlalchemy.ext.asyncio", "AsyncConnection")):
        return Kind("sqlalchemy", dialect_of(tx), True), tx
    if isinstance(tx, _classes("sqlalchemy.ext.asyncio", "AsyncSession", "async_scoped_session")):
        return Kind("sqlalchemy", dialect_of(tx.get_bind()), True), tx
    if isinstance(tx, _classes("aiosqlite", "Connection")):
        return Kind("aiosqlite", "sqlite", True), tx
    raise ArgumentTypeError(
        "a transaction is a connection of sqlite3, psycopg or aiosqlite, or a connection or session of SQLAlchemy, "
        f"not {type(tx).__module__}.{type(tx).__qualname__}"
    )


_texts: Dict[str, Any] = {}
"""Statements of SQLAlchemy, which it caches by what they are."""


def of_psycopg(sql: str) -> str:
    """A statement as psycopg takes it."""
    return _ARGUMENT.sub(r"%(p\1)s", sql.replace("%", "%%"))


def _of_sqlalchemy(sql: str) -> Any:
    if sql not in _texts:
        _texts[sql] = sys.modules["sqlalchemy"].text(_ARGUMENT.sub(r":p\1", sql))
    return _texts[sql]


def numbered(args: Sequence[Any]) -> Dict[str, Any]:
    """Arguments for sqlite3, which takes ``$1`` for a name."""
    return {str(at): arg for at, arg in enumerate(args, 1)}


def named(args: Sequence[Any]) -> Dict[str, Any]:
    """Arguments for psycopg and SQLAlchemy."""
    return {f"p{at}": arg for at, arg in enumerate(args, 1)}


def run(kind: Kind, tx: Any, sql: str, args: List[Any]) -> int:
    """Runs a statement on a blocking connection. Gives how many rows it has changed."""
    if kind.driver == "sqlite3":
        cursor = tx.execute(sql, numbered(args))
        try:
            return int(cursor.rowcount)
        finally:
            cursor.close()
    if kind.driver == "psycopg":
        # Whatever kind of cursor the application has chosen for itself.
        with sys.modules["psycopg"].Cursor(tx) as cursor:
            return int(cursor.execute(of_psycopg(sql), named(args)).rowcount)
    result = tx.execute(_of_sqlalchemy(sql), named(args))
    try:
        return int(result.rowcount)
    finally:
        result.close()


async def run_async(kind: Kind, tx: Any, sql: str, args: List[Any]) -> int:
    """The same on an asynchronous connection."""
    if kind.driver == "aiosqlite":
        async with tx.execute(sql, numbered(args)) as cursor:
            return int(cursor.rowcount)
    if kind.driver == "psycopg":
        async with sys.modules["psycopg"].AsyncCursor(tx) as cursor:
            return int((await cursor.execute(of_psycopg(sql), named(args))).rowcount)
    result = await tx.execute(_of_sqlalchemy(sql), named(args))
    try:
        return int(result.rowcount)
    finally:
        result.close()


def said(error: BaseException) -> Tuple[Optional[str], str]:
    """The SQLSTATE of a driver's error, if it has one, and its text."""
    # SQLAlchemy wraps the error of the driver.
    error = getattr(error, "orig", None) or error
    code = getattr(error, "sqlstate", None)
    return (code if isinstance(code, str) else None), str(error)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Says so if the tables are missing, in place of the driver's error."""
    try:
        yield
    except Exception as error:
        code, text = said(error)
        if "exonet_" in text and _native._sql_is_missing(code, text):
            raise NotMigrated(
                f"the database has no tables of the outbox and the inbox, or old ones ({text}): call "
                "exonet.sql.migrate(database) when the application starts; roll this transaction back"
            ) from error
        raise
