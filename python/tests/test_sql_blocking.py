"""The outbox and the inbox without asyncio, and at the end of the interpreter."""

import sqlite3
import subprocess
import sys
import time

import exonet
import exonet.sql.blocking as sql
import pytest
from exonet import blocking
from exonet.sql._database import Kept

OPTIONS = {"allow": "anyone", "bind": "127.0.0.1:0"}


def until(is_so):
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, "this hangs"
        time.sleep(0.005)


@pytest.fixture
def databases(tmp_path):
    paths = tmp_path / "shop.db", tmp_path / "bank.db"
    for path in paths:
        sql.migrate(path)
        with sqlite3.connect(path) as tx:
            tx.execute("create table seen (n integer)")
    return paths


def see(tx, message):
    tx.execute("insert into seen values (?)", (int(message.body),))


def test_a_message_from_transaction_to_transaction(databases):
    shop, bank = databases
    with blocking.Node(**OPTIONS) as there, blocking.Node(**OPTIONS) as here:
        with sql.Inbox.start(there, bank, see, collect_every=0.01) as inbox, sql.Relay.start(here, shop) as relay:
            for n in range(10):
                with sqlite3.connect(shop) as tx:
                    sql.send(tx, there.address, str(n).encode())
            until(lambda: inbox.stats().collected == 10)
            assert relay.stats().processed == 10
            assert repr(inbox.stats()) == "<InboxStats: 10 processed, 0 repeated, 0 failed, 0 rejected, 10 collected>"
            assert repr(relay.stats()) == "<RelayStats: 10 handed over, 10 processed, 0 failed, 0 open>"
        for stopped in (inbox, relay):
            with pytest.raises(exonet.UsageError, match="stopped"):
                stopped.stats()
            # It may be stopped again.
            stopped.stop()
    with sqlite3.connect(bank) as tx:
        assert [n for (n,) in tx.execute("select n from seen order by n")] == list(range(10))


def test_a_relay_signs_off(databases):
    with blocking.Node(**OPTIONS) as here:
        assert sql.Relay.start(here, databases[0]).sign_off()


def test_an_async_handler_is_refused(databases):
    async def handler(tx, message):
        pass

    with blocking.Node(**OPTIONS) as there:
        with pytest.raises(exonet.ArgumentTypeError, match="async def"):
            sql.Inbox.start(there, databases[1], handler)


def test_a_handler_that_gives_something_to_await_has_failed(databases):
    async def handle():
        pass

    shop, bank = databases
    with blocking.Node(**OPTIONS) as there, blocking.Node(**OPTIONS) as here:
        with sql.Inbox.start(there, bank, lambda tx, message: handle(), attempts=1), sql.Relay.start(here, shop) as relay:
            with sqlite3.connect(shop) as tx:
                sql.send(tx, there.address, b"1")
            until(lambda: relay.stats().failed == 1)
    with sqlite3.connect(shop) as tx:
        assert "make it an `async def`" in tx.execute("select failed from exonet_outbox").fetchone()[0]


@pytest.mark.parametrize("error", [SystemExit(1), ValueError("\udcff"), sql.Reject("\udcff")], ids=repr)
def test_whatever_a_handler_raises_its_thread_goes_on(databases, error):
    """In SQLite it is the only one."""

    def fail(tx, message):
        if message.body == b"1":
            raise error
        see(tx, message)

    shop, bank = databases
    with blocking.Node(**OPTIONS) as there, blocking.Node(**OPTIONS) as here:
        with sql.Inbox.start(there, bank, fail, attempts=1), sql.Relay.start(here, shop) as relay:
            with sqlite3.connect(shop) as tx:
                for body in (b"1", b"2"):
                    sql.send(tx, there.address, body, order="one after the other")
            until(lambda: (relay.stats().failed, relay.stats().processed) == (1, 1))
    with sqlite3.connect(shop) as tx:
        (why,) = tx.execute("select failed from exonet_outbox where failed is not null").fetchone()
        assert ("SystemExit: 1" if isinstance(error, SystemExit) else "\\udcff") in why


def test_an_inbox_without_threads_is_refused(databases):
    with blocking.Node(**OPTIONS) as there:
        for wrong in (0, -1):
            with pytest.raises(ValueError, match=f"threads must be 1 at least, not {wrong}"):
                sql.Inbox.start(there, databases[1], see, threads=wrong)


def test_a_status_that_cannot_be_sent_is_refused():
    for wrong in (-1, 1 << 32, "1"):
        with pytest.raises(exonet.UsageError, match="from 0 to 4294967295"):
            sql.Reject("no", wrong)


class Counted(sqlite3.Connection):
    """A connection that notes whether it is open."""

    opened = set()

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.opened.add(self)

    def close(self):
        super().close()
        self.opened.discard(self)


def connect():
    return sqlite3.connect(":memory:", check_same_thread=False, factory=Counted)


def transact(kept):
    with kept.transaction() as tx:
        tx.execute("select 1").close()


@pytest.mark.parametrize("act", [transact, Kept.close], ids=["transaction", "close"])
def test_connections_may_be_closed_by_another_thread_at_any_moment(act):
    """A trace function stands for the other thread: it acts between any two instructions, where the interpreter may switch threads."""

    def run(moment):
        Counted.opened.clear()
        kept, count = Kept(connect), 0
        transact(kept)

        def trace(frame, event, _):
            nonlocal count
            if not frame.f_code.co_filename.endswith("_database.py"):
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                if count == moment:
                    kept.close()
                count += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            act(kept)
        finally:
            sys.settrace(before)
        assert moment is None or not Counted.opened, f"a connection stays open that was closed at instruction {moment}"
        kept.close()
        return count

    moments = run(None)
    assert moments > 10
    for moment in range(moments):
        run(moment)


PROGRAM = """
import pathlib, sqlite3, sys
import exonet.sql.blocking as sql
from exonet import blocking

shop, bank = map(pathlib.Path, sys.argv[1:])
there, here = (blocking.Node(allow="anyone", bind="127.0.0.1:0").start() for _ in range(2))
inbox = sql.Inbox.start(there, bank, lambda tx, message: tx.execute("insert into seen values (1)") and None)
relay = sql.Relay.start(here, shop)
with sqlite3.connect(shop) as tx:
    for _ in range(200):
        sql.send(tx, there.address, b"1")
# It ends in the midst of that, without a word.
"""


def test_the_interpreter_ends_in_the_midst_of_statements(databases):
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", PROGRAM, *databases], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


LIGHT = """
import sys
import exonet.sql
loaded = {"sqlalchemy", "psycopg", "aiosqlite", "psycopg_pool"} & set(sys.modules)
assert not loaded, loaded
"""


def test_no_library_is_needed_to_import_the_package():
    subprocess.run([sys.executable, "-c", LIGHT], check=True, timeout=60)
