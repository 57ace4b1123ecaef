"""The outbox and the inbox: in SQLite, and in a PostgreSQL of the tests' own. Each test is of one promise."""

import asyncio
import contextlib
import os
import pathlib
import signal
import sqlite3
import sys
import threading
import uuid

import exonet
import exonet.sql as sql
import pytest
from conftest import node
from exonet.sql._database import AsyncKept
from postgres import needs, server  # noqa: F401

LONG = 60.0
SOON = 0.01
CHILD = str(pathlib.Path(__file__).parent / "sql_child.py")


class Sqlite:
    """A database in a file, by every library that the package knows."""

    dialect = "sqlite"

    def __init__(self, path):
        self.path, self.url = path, f"sqlite:///{path}"

    def connect(self):
        """A blocking connection of the driver itself."""
        return sqlite3.connect(self.path, check_same_thread=False)

    @contextlib.contextmanager
    def session(self):
        with contextlib.closing(self.connect()) as connection, connection:
            yield connection

    async def connect_async(self):
        aiosqlite = needs("aiosqlite")
        return await aiosqlite.connect(self.path)

    @property
    def alchemy(self):
        return self.url

    @property
    def alchemy_async(self):
        needs("aiosqlite")
        return f"sqlite+aiosqlite:///{self.path}"

    place = "?"


class Postgres:
    dialect = "postgresql"

    def __init__(self, server):
        self.url = server.database()

    def connect(self):
        import psycopg

        return psycopg.connect(self.url)

    @contextlib.contextmanager
    def session(self):
        with self.connect() as connection:
            yield connection

    async def connect_async(self):
        import psycopg

        return await psycopg.AsyncConnection.connect(self.url)

    @property
    def alchemy(self):
        return self.url.replace("postgresql:", "postgresql+psycopg:")

    alchemy_async = alchemy
    place = "%s"


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request, tmp_path):
    """Makes databases of one kind, with the tables of the outbox and the inbox and one of the application."""
    postgres = request.getfixturevalue("server") if request.param == "postgresql" else None

    def make(name, is_bare=False):
        database = Sqlite(tmp_path / f"{name}.db") if postgres is None else Postgres(postgres)
        if is_bare:
            return database
        sql.migrate(database.url)
        # Any number of times.
        sql.migrate(database.url)
        with database.session() as tx:
            tx.execute("create table seen (n bigint)")
        return database

    return make


@pytest.fixture
def shop(databases):
    return databases("shop")


@pytest.fixture
def bank(databases):
    return databases("bank")


@pytest.fixture
def bare(databases):
    """A database without any table."""
    return databases("bare", is_bare=True)


def all_of(database, statement):
    with database.session() as tx:
        return [row[0] if len(row) == 1 else tuple(row) for row in tx.execute(statement).fetchall()]


def count(database, table):
    return all_of(database, f"select count(*) from {table}")[0]


def seen(database):
    return all_of(database, "select n from seen order by n")


async def until(is_so):
    while not is_so():
        await asyncio.sleep(0.005)


def see(tx, message):
    """A handler that writes down what it is given, by whichever library."""
    text, args = f"insert into seen values ({int(message.body)})", ()
    if type(tx).__module__.startswith("sqlalchemy"):
        import sqlalchemy

        tx.execute(sqlalchemy.text(text))
    else:
        tx.execute(text, args)


async def see_async(tx, message):
    text = f"insert into seen values ({int(message.body)})"
    if type(tx).__module__.startswith("sqlalchemy"):
        import sqlalchemy

        await tx.execute(sqlalchemy.text(text))
    else:
        await tx.execute(text)


def send(database, to, n, **options):
    with database.session() as tx:
        return sql.send(tx, to, str(n).encode(), **options)


async def test_what_is_committed_is_processed_once_and_every_row_goes(shop, bank):
    async with node() as there, node() as here:
        async with await sql.Inbox.start(there, bank.url, see, collect_every=SOON) as inbox:
            async with await sql.Relay.start(here, shop.url) as relay:
                for n in range(40):
                    with contextlib.closing(shop.connect()) as tx:
                        sql.send(tx, there.address, str(n).encode())
                        # What is not committed is not sent.
                        tx.commit() if n % 2 == 0 else tx.rollback()
                await until(lambda: inbox.stats().collected == 20 and relay.stats().processed == 20)
                assert seen(bank) == list(range(0, 40, 2))
                assert (inbox.stats().processed, inbox.stats().repeated, relay.stats().handed_over) == (20, 0, 20)
                assert count(shop, "exonet_outbox") == count(bank, "exonet_inbox") == 0


async def test_a_message_has_what_was_sent_with_it(shop, bank):
    got = []
    async with node() as there, node() as here:
        key = send(shop, there.address, 7, tag="payment", order="account 7")
        assert str(uuid.UUID(key)) == key
        async with await sql.Inbox.start(there, bank.url, lambda tx, message: got.append(message)):
            async with await sql.Relay.start(here, shop.url):
                await until(lambda: got)
        (message,) = got
        assert (message.body, message.key, message.sender, message.attempt) == (b"7", key, here.id, 1)
        assert (message.tag, message.tag_bytes, message.order, message.order_bytes) == ("payment", b"payment", "account 7", b"account 7")
        assert message.id.startswith(here.id)


KINDS = ["driver", "function", "engine", "session", "async driver", "async engine", "async session"]


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_transaction_sends_and_processes(shop, bank, kind):
    async with node() as there, node() as here:
        database, handler, sender = of_kind(kind, bank, shop)
        inbox = await sql.Inbox.start(there, database, handler, collect_every=SOON)
        relay = await sql.Relay.start(here, of_kind(kind, shop, shop)[0])
        for n in range(6):
            # Each other one is rolled back.
            await sender(there.address, n, n % 2 == 0)
        await until(lambda: inbox.stats().collected == 3)
        assert (seen(bank), count(shop, "exonet_outbox")) == ([0, 2, 4], 0)
        # It is undone with the handler's failure, and comes again.
        await sender(there.address, -1, True)
        await until(lambda: inbox.stats().processed == 4)
        assert (seen(bank), inbox.stats().failed) == ([-1, 0, 2, 4], 1)
        await inbox.stop()
        await relay.stop()


def of_kind(kind, bank, shop):
    """How the inbox is given its database, a handler, and how a message is sent."""

    def handler(tx, message):
        see(tx, message)
        if int(message.body) == -1 and message.attempt == 1:
            raise ValueError("not today")

    async def handler_async(tx, message):
        await see_async(tx, message)
        if int(message.body) == -1 and message.attempt == 1:
            raise ValueError("not today")

    if kind in ("driver", "function"):

        async def sender(to, n, commits):
            with contextlib.closing(shop.connect()) as tx:
                sql.send(tx.cursor() if n == 0 else tx, to, str(n).encode())
                tx.commit() if commits else tx.rollback()

        return (bank.url if kind == "driver" else bank.connect), handler, sender
    if kind == "async driver":

        async def sender(to, n, commits):
            tx = await shop.connect_async()
            with pytest.raises(exonet.ArgumentTypeError, match="send_async"):
                sql.send(tx, to, b"x")
            await sql.send_async(tx, to, str(n).encode())
            await (tx.commit() if commits else tx.rollback())
            await tx.close()

        if bank.dialect == "sqlite":
            needs("aiosqlite")
        return bank.url, handler_async, sender
    needs("sqlalchemy")
    from sqlalchemy import create_engine
    from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
    from sqlalchemy.orm import sessionmaker
    from sqlalchemy.pool import NullPool

    if "async" in kind:
        engine = create_async_engine(bank.alchemy_async, poolclass=NullPool)
        there = create_async_engine(shop.alchemy_async, poolclass=NullPool)

        async def sender(to, n, commits):
            make = async_sessionmaker(there) if "session" in kind else there.connect
            async with make() as tx:
                await sql.send_async(tx, to, str(n).encode())
                await (tx.commit() if commits else tx.rollback())

        return (async_sessionmaker(engine) if "session" in kind else engine), handler_async, sender
    engine, there = create_engine(bank.alchemy, poolclass=NullPool), create_engine(shop.alchemy, poolclass=NullPool)

    async def sender(to, n, commits):
        make = sessionmaker(there) if "session" in kind else there.connect
        with make() as tx:
            sql.send(tx, to, str(n).encode())
            tx.commit() if commits else tx.rollback()

    return (sessionmaker(engine) if "session" in kind else engine), handler, sender


async def test_a_pool_of_psycopg(server):  # noqa: F811
    psycopg_pool = needs("psycopg_pool")
    shop, bank = Postgres(server), Postgres(server)
    for database in (shop, bank):
        await sql.migrate_async(database.url)
    with bank.session() as tx:
        tx.execute("create table seen (n bigint)")
    async with node() as there, node() as here, psycopg_pool.AsyncConnectionPool(bank.url, open=False) as pool:
        with psycopg_pool.ConnectionPool(shop.url, open=True) as shop_pool:
            async with await sql.Inbox.start(there, pool, see_async) as inbox, await sql.Relay.start(here, shop_pool):
                with shop_pool.connection() as tx:
                    sql.send(tx, there.address, b"1")
                await until(lambda: inbox.stats().processed == 1)
        with psycopg_pool.ConnectionPool(bank.url, open=True) as blocking:
            async with await sql.Inbox.start(there, blocking, see) as inbox, await sql.Relay.start(here, shop.url):
                send(shop, there.address, 2)
                await until(lambda: inbox.stats().processed == 1)
    assert seen(bank) == [1, 2]


async def test_a_message_that_always_fails_is_a_dead_letter_and_others_go_on(shop, bank):
    def fail(tx, message):
        see(tx, message)
        if message.body == b"1":
            raise ValueError("no account 1")
        if message.body == b"3":
            raise sql.Reject("account 3 is closed", 7)

    async with node() as there, node() as here:
        inbox = await sql.Inbox.start(there, bank.url, fail, attempts=3)
        relay = await sql.Relay.start(here, shop.url)
        for n in (1, 2, 3):
            send(shop, there.address, n, order="one after the other")
        await until(lambda: relay.stats().failed == 2 and count(shop, "exonet_outbox") == 2)
        assert seen(bank) == [2], "the next goes on, and what failed is undone"
        assert all_of(shop, "select failed from exonet_outbox order by id") == [
            "rejected by the receiver: ValueError: no account 1 (status 0, attempts 3)",
            "rejected by the receiver: account 3 is closed (status 7, attempts 1)",
        ]
        stats = inbox.stats()
        assert (stats.processed, stats.failed, stats.rejected) == (1, 4, 2)
        await inbox.stop()
        # Their keys are not taken for processed: tried again, they are.
        with shop.session() as tx:
            tx.execute("update exonet_outbox set failed = null")
        async with await sql.Inbox.start(there, bank.url, see):
            await until(lambda: count(shop, "exonet_outbox") == 0)
        assert seen(bank) == [1, 2, 3]
        await relay.stop()


async def test_what_comes_again_is_recognised(shop, bank):
    async with node() as there, node() as here:
        async with await sql.Inbox.start(there, bank.url, see, collect_every=SOON) as inbox:
            async with await sql.Relay.start(here, shop.url, keep_settled=1_000) as relay:
                send(shop, there.address, 1)
                await until(lambda: relay.stats().processed == 1)
                # As after the restore of a backup.
                with shop.session() as tx:
                    tx.execute("update exonet_outbox set settled_at = null")
                await until(lambda: inbox.stats().repeated == 1 and relay.stats().processed == 2)
                assert (seen(bank), count(bank, "exonet_inbox"), inbox.stats().collected) == ([1], 1, 0)


async def test_no_confirmation_before_the_commit(shop, bank):
    """A message whose commit fails is not confirmed."""
    refuses = {
        "sqlite": "create table other (n references seen (n) deferrable initially deferred)",
        "postgresql": "create table other (n bigint unique deferrable initially deferred)",
    }
    with bank.session() as tx:
        if bank.dialect == "sqlite":
            tx.execute("drop table seen")
            tx.execute("create table seen (n bigint primary key)")
        tx.execute(refuses[bank.dialect])

    def book(tx, message):
        if bank.dialect == "sqlite" and not tx.in_transaction:
            raise AssertionError("it has begun")
        # The constraint is checked at the commit.
        tx.execute("insert into other values (5)")
        if message.attempt == 1:
            tx.execute("insert into other values (5)")
        see(tx, message)

    def connect():
        connection = bank.connect()
        if bank.dialect == "sqlite":
            connection.execute("pragma foreign_keys = on")
        return connection

    async with node() as there, node() as here:
        async with await sql.Inbox.start(there, connect, book, attempts=2) as inbox:
            async with await sql.Relay.start(here, shop.url) as relay:
                send(shop, there.address, 5 if bank.dialect == "postgresql" else 6)
                if bank.dialect == "postgresql":
                    await until(lambda: inbox.stats().processed == 1)
                    assert (seen(bank), inbox.stats().failed) == ([5], 1)
                else:
                    # There is no 5: it is refused each time, and that is the handler's fault.
                    await until(lambda: relay.stats().failed == 1)
                    assert (seen(bank), count(bank, "exonet_inbox"), inbox.stats().rejected) == ([], 0, 1)


async def test_a_handler_that_ends_the_transaction_itself_is_told_so(shop, bank):
    def end(tx, message):
        see(tx, message)
        tx.rollback() if bank.dialect == "sqlite" else tx.execute("rollback")

    async with node() as there, node() as here:
        async with await sql.Inbox.start(there, bank.url, end, attempts=1) as inbox:
            async with await sql.Relay.start(here, shop.url) as relay:
                send(shop, there.address, 1)
                await until(lambda: relay.stats().failed == 1)
                (why,) = all_of(shop, "select failed from exonet_outbox")
                assert "must neither commit nor roll back" in why
                assert (seen(bank), inbox.stats().processed) == ([], 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_handler_that_hides_a_failed_statement_loses_no_message(shop, bank, kind):
    """PostgreSQL answers the commit of a transaction that has failed as if it had succeeded."""

    def wrong(tx):
        text = "delete from nowhere"
        if type(tx).__module__.startswith("sqlalchemy"):
            import sqlalchemy

            text = sqlalchemy.text(text)
        return tx.execute(text)

    def hide(tx, message):
        see(tx, message)
        if message.attempt == 1:
            with contextlib.suppress(Exception):
                wrong(tx)

    async def hide_async(tx, message):
        await see_async(tx, message)
        if message.attempt == 1:
            with contextlib.suppress(Exception):
                await wrong(tx)

    async with node() as there, node() as here:
        database = of_kind(kind, bank, shop)[0]
        async with await sql.Inbox.start(there, database, hide_async if "async" in kind else hide) as inbox:
            async with await sql.Relay.start(here, shop.url):
                send(shop, there.address, 1)
                await until(lambda: count(shop, "exonet_outbox") == 0)
                assert (seen(bank), inbox.stats().processed) == ([1], 1)


async def test_an_async_handler_that_takes_too_long_is_cancelled_and_undone(shop, bank):
    attempts = []

    async def hang(tx, message):
        await see_async(tx, message)
        attempts.append(message.attempt)
        if message.attempt == 1:
            await asyncio.Event().wait()

    if bank.dialect == "sqlite":
        needs("aiosqlite")
    async with node() as there, node() as here:
        async with await sql.Inbox.start(there, bank.url, hang, handler_timeout=0.05) as inbox:
            async with await sql.Relay.start(here, shop.url):
                send(shop, there.address, 1)
                await until(lambda: inbox.stats().processed == 1)
        assert (attempts, seen(bank)) == ([1, 2], [1])


async def test_an_async_handler_that_awaits_what_is_cancelled_has_failed(shop, bank):
    async def await_it(tx, message):
        await see_async(tx, message)
        cancelled = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        await cancelled

    async with node() as there, node() as here:
        async with await sql.Inbox.start(there, bank.url, await_it, attempts=1), await sql.Relay.start(here, shop.url) as relay:
            send(shop, there.address, 1)
            await until(lambda: relay.stats().failed == 1)
        (why,) = all_of(shop, "select failed from exonet_outbox")
        assert "CancelledError" in why
        assert seen(bank) == []


async def test_a_handler_sends_in_its_own_transaction(shop, bank):
    async with node() as there, node() as here:

        def pass_on(tx, message):
            see(tx, message)
            sql.send(tx, here.address, message.body + b"0")
            if message.attempt == 1:
                raise ValueError("not today")

        async with await sql.Inbox.start(there, bank.url, pass_on), await sql.Relay.start(there, bank.url):
            async with await sql.Relay.start(here, shop.url), await sql.Inbox.start(here, shop.url, see):
                send(shop, there.address, 4)
                await until(lambda: seen(shop) == [40])
                await until(lambda: count(bank, "exonet_outbox") == 0)
        assert (seen(bank), seen(shop)) == ([4], [40])


async def test_a_stopped_inbox_processes_nothing(shop, bank):
    """A message that was handed to a thread before the stop is left alone if its transaction begins afterwards: another copy may have
    been processed, and its record be gone."""
    asked = []

    def connect():
        asked.append(asyncio.run_coroutine_threadsafe(may.wait(), loop))
        asked[-1].result(LONG)
        return bank.connect()

    loop, may = asyncio.get_running_loop(), asyncio.Event()
    may.set()
    async with node() as there, node() as here:
        inbox = await sql.Inbox.start(there, connect, see)
        may.clear()
        begun = len(asked)
        async with await sql.Relay.start(here, shop.url) as relay:
            send(shop, there.address, 1)
            # The record of who sends has its own connection; the other is that of the transaction.
            await until(lambda: len(asked) > begun)
            await inbox.stop(0.0)
            async with await sql.Inbox.start(there, bank.url, see, collect_every=SOON) as again:
                await until(lambda: relay.stats().processed == again.stats().collected == 1)
            may.set()
            await until(lambda: not any(thread.name.startswith("exonet-inbox") for thread in threading.enumerate()))
            assert seen(bank) == [1]


async def test_a_handler_that_swallows_its_cancellation_does_not_hold_the_stop(shop, bank, monkeypatch, caplog):
    begun, may = asyncio.Event(), asyncio.Event()
    swallowed = []

    async def stubborn(tx, message):
        await see_async(tx, message)
        begun.set()
        try:
            await may.wait()
        except asyncio.CancelledError:
            swallowed.append(message.body)
            await may.wait()

    if bank.dialect == "sqlite":
        needs("aiosqlite")
    monkeypatch.setattr(sql, "_UNDOING", 0.05)
    async with node() as there, node() as here, await sql.Relay.start(here, shop.url) as relay:
        inbox = await sql.Inbox.start(there, bank.url, stubborn)
        send(shop, there.address, 1)
        await begun.wait()
        await inbox.stop(0.0)
        assert (swallowed, seen(bank)) == ([b"1"], [])
        assert "and that go on: 1" in caplog.text
        may.set()
        # Whether it then commits or not, the message is processed once.
        async with await sql.Inbox.start(there, bank.url, see):
            await until(lambda: relay.stats().processed == 1)
        assert seen(bank) == [1]


async def test_what_a_handler_has_done_is_undone_when_the_stop_of_its_inbox_returns(shop, bank, caplog):
    begun, undone = asyncio.Event(), []

    async def hang(tx, message):
        await see_async(tx, message)
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            undone.append(message.body)

    if bank.dialect == "sqlite":
        needs("aiosqlite")
    async with node() as there, node() as here, await sql.Relay.start(here, shop.url) as relay:
        inbox = await sql.Inbox.start(there, bank.url, hang)
        send(shop, there.address, 1)
        await begun.wait()
        await inbox.stop(0.0)
        assert (undone, seen(bank)) == ([b"1"], [])
        assert "that go on" not in caplog.text
        async with await sql.Inbox.start(there, bank.url, see):
            await until(lambda: relay.stats().processed == 1)
        assert seen(bank) == [1]


async def test_a_database_that_is_away_is_waited_for_and_counts_as_no_attempt(shop, bank):
    attempts = []

    def note(tx, message):
        attempts.append(message.attempt)
        see(tx, message)

    async with node() as there, node() as here:
        async with await sql.Inbox.start(there, bank.url, note, attempts=1) as inbox:
            with bank.session() as tx:
                tx.execute("alter table exonet_inbox rename to hidden")
            async with await sql.Relay.start(here, shop.url):
                send(shop, there.address, 1)
                await until(lambda: inbox.stats().failed == 2)
                with bank.session() as tx:
                    tx.execute("alter table hidden rename to exonet_inbox")
                await until(lambda: inbox.stats().processed == 1)
        assert (attempts, seen(bank)) == ([1], [1])


@pytest.mark.parametrize("kind", ["driver", "engine", "pool", "async driver", "async engine", "async pool"])
async def test_a_connection_that_is_lost_counts_as_no_attempt(server, kind):  # noqa: F811
    """Though the handler is the first that hears of it."""
    sqlalchemy, psycopg_pool = needs("sqlalchemy"), needs("psycopg_pool")
    from sqlalchemy.ext.asyncio import create_async_engine

    shop, bank = Postgres(server), Postgres(server)
    for database in (shop, bank):
        await sql.migrate_async(database.url)
    with bank.session() as tx:
        tx.execute("create table seen (n bigint)")
    attempts, end = [], "select pg_terminate_backend(pg_backend_pid())"

    def lose(tx, message):
        attempts.append(message.attempt)
        if len(attempts) == 1:
            tx.execute(sqlalchemy.text(end) if "engine" in kind else end)
        see(tx, message)

    async def lose_async(tx, message):
        attempts.append(message.attempt)
        if len(attempts) == 1:
            await tx.execute(sqlalchemy.text(end) if "engine" in kind else end)
        await see_async(tx, message)

    given = {
        "engine": lambda: sqlalchemy.create_engine(bank.alchemy, poolclass=sqlalchemy.NullPool),
        "async engine": lambda: create_async_engine(bank.alchemy_async, poolclass=sqlalchemy.NullPool),
    }
    async with contextlib.AsyncExitStack() as until_the_end, node() as there, node() as here:
        if kind == "pool":
            database = until_the_end.enter_context(psycopg_pool.ConnectionPool(bank.url, open=True))
        elif kind == "async pool":
            database = await until_the_end.enter_async_context(psycopg_pool.AsyncConnectionPool(bank.url, open=False))
        else:
            database = given.get(kind, lambda: bank.url)()
        async with await sql.Inbox.start(there, database, lose_async if "async" in kind else lose, attempts=1) as inbox:
            async with await sql.Relay.start(here, shop.url):
                send(shop, there.address, 1)
                await until(lambda: inbox.stats().processed == 1)
        assert (attempts, seen(bank)) == ([1, 1], [1])


async def test_a_session_that_cannot_be_flushed_is_the_handlers_fault(tmp_path):
    sqlalchemy = needs("sqlalchemy")
    from sqlalchemy.orm import sessionmaker

    shop, bank = Sqlite(tmp_path / "shop.db"), Sqlite(tmp_path / "bank.db")
    for database in (shop, bank):
        await sql.migrate_async(database.url)
    Session = sessionmaker(sqlalchemy.create_engine(bank.url, poolclass=sqlalchemy.NullPool))
    base = sqlalchemy.orm.declarative_base()
    entry = type("Entry", (base,), {"__tablename__": "no_such_table", "n": sqlalchemy.Column(sqlalchemy.Integer, primary_key=True)})

    def add(session, message):
        session.add(entry(n=1))

    async with node() as there, node() as here:
        async with await sql.Inbox.start(there, Session, add, attempts=1), await sql.Relay.start(here, shop.url) as relay:
            send(shop, there.address, 1)
            await until(lambda: relay.stats().failed == 1)
    assert "no such table: no_such_table" in all_of(shop, "select failed from exonet_outbox")[0]


async def test_what_cannot_be_done_is_said_with_the_way_out(shop, bare):
    good = shop
    async with node() as one, node(attempts=3) as counting, node(doubt_timeout=5) as impatient:
        with contextlib.closing(bare.connect()) as tx:
            with pytest.raises(sql.NotMigrated, match=r"exonet\.sql\.migrate\(database\)"):
                sql.send(tx, one.address, b"x")
        with pytest.raises(sql.NotMigrated, match=r"exonet\.sql\.migrate\(database\)"):
            await sql.Relay.start(one, bare.url)
        with pytest.raises(sql.NotMigrated):
            await sql.Inbox.start(one, bare.url, see)
        with pytest.raises(sql.SqlError, match="without `attempts`"):
            await sql.Inbox.start(counting, good.url, see)
        with pytest.raises(sql.SqlError, match="without `doubt_timeout`"):
            await sql.Relay.start(impatient, good.url)
        relay = await sql.Relay.start(one, good.url)
        with pytest.raises(sql.SqlError, match="relay already"):
            await sql.Relay.start(one, good.url)
        assert await relay.sign_off(LONG)
        with pytest.raises(exonet.UsageError, match="migrate_async"):
            sql.migrate(good.url)
        with pytest.raises(exonet.UsageError, match="0 to 7"):
            await sql.Relay.start(one, good.url, lanes=[8])
        for wrong in (0, -1):
            with pytest.raises(ValueError, match=f"concurrency must be 1 at least, not {wrong}"):
                await sql.Inbox.start(one, good.url, see, concurrency=wrong)
        for wrong in (0, -1, 1 << 64):
            with pytest.raises(exonet.UsageError, match=f"attempts must be .*, not {wrong}"):
                await sql.Inbox.start(one, good.url, see, attempts=wrong)
            with pytest.raises(exonet.UsageError, match=f"in_flight must be .*, not {wrong}"):
                await sql.Relay.start(one, good.url, in_flight=wrong)
        with pytest.raises(exonet.ArgumentTypeError, match="in_flight must be a whole number"):
            await sql.Relay.start(one, good.url, in_flight=1.5)
        for wrong in (-1, 256, 1 << 64):
            with pytest.raises(exonet.UsageError, match="0 to 7"):
                await sql.Relay.start(one, good.url, lanes=[wrong])
        with good.session() as tx:
            with pytest.raises(sql.SqlError, match="1048576"):
                sql.send(tx, one.address, bytes((1 << 20) + 1))
            with pytest.raises(sql.SqlError, match="255 bytes"):
                sql.send(tx, one.address, b"x", tag="x" * 256)
            with pytest.raises(exonet.ArgumentTypeError, match="bytes, not a text"):
                sql.send(tx, one.address, "x")
            with pytest.raises(exonet.AddressError):
                sql.send(tx, "nobody", b"x")
            with pytest.raises(exonet.ArgumentTypeError, match="without `await`"):
                await sql.send_async(tx, one.address, b"x")
        with good.session() as tx:
            tx.execute("insert into exonet_schema (version) values (99)")
        with pytest.raises(sql.SqlError, match="version 99"):
            await sql.migrate_async(good.url)


def test_what_is_no_database_is_said(tmp_path):
    for wrong, said in (
        ("shop.db", "sqlite:///FILE"),
        ("mysql://there/x", "not in mysql"),
        ("sqlite://", "sqlite:///FILE"),
        ("sqlite:///:memory:", "in a file"),
        ("sqlite:///x.db?timeout=3", "a function"),
        (lambda: sqlite3.connect(tmp_path / "x.db"), "check_same_thread=False"),
        (3, "a database is a URL"),
        (object, "not builtins.object"),
    ):
        with pytest.raises(exonet.Error, match=said):
            sql.migrate(wrong)
    with pytest.raises(exonet.ArgumentTypeError, match="not builtins.str"):
        sql.send("tx", "peer", b"x")


async def test_an_async_handler_needs_an_asynchronous_database(tmp_path):
    sqlalchemy = needs("sqlalchemy")
    from sqlalchemy.ext.asyncio import create_async_engine

    path = tmp_path / "x.db"
    await sql.migrate_async(path)
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    async with node() as one:
        with pytest.raises(exonet.UsageError, match="an AsyncEngine"):
            await sql.Inbox.start(one, engine, see_async)
        with pytest.raises(exonet.UsageError, match="make it an `async def`"):
            await sql.Inbox.start(one, create_async_engine(f"sqlite+aiosqlite:///{path}"), see)


async def test_a_connection_that_a_task_has_at_the_end_is_closed_after_its_transaction():
    aiosqlite = needs("aiosqlite")
    kept = AsyncKept(lambda: aiosqlite.connect(":memory:"))
    async with kept.transaction() as tx:
        await kept.close()
        await (await tx.execute("select 1")).close()
    with pytest.raises(ValueError, match="no active connection"):
        await tx.execute("select 1")


@pytest.fixture
def children():
    """Starts processes, and ends those that are left."""
    started = []

    async def start(*arguments):
        command = [sys.executable, CHILD, *map(str, arguments)]
        child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        started.append(child)
        return child

    yield start
    for child in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)


async def kill(child):
    child.kill()
    await child.wait()


async def test_a_bank_that_is_killed_between_act_and_confirmation_books_once(tmp_path, shop, bank, children):
    with bank.session() as tx:
        tx.execute("create table booked (n bigint)")
    # When it has acted on a payment and not committed it; and, in SQLite, when it has committed and not confirmed it.
    lives = ["9", "19", "29"] + (["commit"] if bank.dialect == "sqlite" else []) + ["nowhere"]
    most, port = 10 * len(lives), 0
    async with node() as here, await sql.Relay.start(here, shop.url) as relay:
        for life, stuck in enumerate(lives):
            child = await children("bank", tmp_path / "node", port, bank.url, stuck)
            address = (await child.stdout.readline()).decode().strip()
            port = address.rsplit(":", 1)[1]
            for n in range(10 * life, 10 * life + 10):
                send(shop, address, n)
            if stuck != "nowhere":
                said = (await child.stdout.readline()).decode().strip()
                assert said == ("committed" if stuck == "commit" else "acted")
                await kill(child)
        await until(lambda: count(shop, "exonet_outbox") == 0 and relay.stats().open == 0)
        assert all_of(bank, "select n from booked order by n") == list(range(most))
        # And the records of them go, or they would stay for ever.
        await until(lambda: count(bank, "exonet_inbox") == 0)
        await kill(child)


async def test_a_relay_that_is_killed_loses_and_doubles_nothing(tmp_path, shop, bank, children):
    most = 60
    async with node() as there:
        async with await sql.Inbox.start(there, bank.url, see, collect_every=SOON) as inbox:
            for life in range(3):
                child = await children("shop", tmp_path / "node", shop.url)
                await child.stdout.readline()
                for n in range(most * life // 3, most * (life + 1) // 3):
                    send(shop, there.address, n)
                await until(lambda: inbox.stats().processed >= most * life // 3 + 5)
                await kill(child)
            child = await children("shop", tmp_path / "node", shop.url)
            await until(lambda: count(shop, "exonet_outbox") == 0 and count(bank, "exonet_inbox") == 0)
            assert seen(bank) == list(range(most))
            await kill(child)
