"""A service in Rust and one in Python pay each other, from database to database. The service in Rust is the example `transfer` of the
crate `exonet-sql`, which the tests of the crates build."""

import asyncio
import contextlib
import os
import pathlib
import subprocess

import exonet.sql as sql
import pytest
from conftest import node
from postgres import server  # noqa: F401
from test_sql import LONG, SOON, Postgres, Sqlite, all_of, count, until

ROOT = pathlib.Path(os.environ.get("EXONET_PAGES") or pathlib.Path(__file__).parents[2])
EXAMPLES = ROOT / "target" / "debug" / "examples"


def transfer():
    """The newest build of the example. The crate `exonet` has one of the same name, which sends files and knows no `--postgres`."""
    found = [path for path in EXAMPLES.glob("transfer*") if path.suffix == "" and os.access(path, os.X_OK)]
    for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True):
        said = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=LONG, check=False)
        if "--postgres" in said.stdout + said.stderr:
            return path
    pytest.fail(f"there is no `transfer` in {EXAMPLES}: build it with `cargo build -p exonet-sql --example transfer`")


@pytest.fixture
def rust(tmp_path):
    """Starts the service in Rust, and gives its address. One runs at a time."""
    running = []

    async def start(database, peer, **options):
        for child in running:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        log = tmp_path / f"rust {len(running)}.log"
        environment = {"TRANSFER_DATABASE": database, "TRANSFER_STATE": str(tmp_path / "rust"), "TRANSFER_PEER": peer, **options}
        with open(log, "w") as out:
            child = await asyncio.create_subprocess_exec(transfer(), env={**os.environ, **environment}, stdout=out)
        running.append(child)
        await until(lambda: "@ready" in log.read_text())
        return log.read_text().split("@at ", 1)[1].split("\n", 1)[0]

    yield start
    for child in running:
        with contextlib.suppress(ProcessLookupError):
            child.kill()


@pytest.fixture(params=["sqlite to sqlite", "sqlite to postgresql", "postgresql to sqlite"])
def pair(request, tmp_path):
    """The database of the service in Rust, as it is told, and both as this test sees them."""
    theirs, ours = request.param.split(" to ")

    def make(dialect, name):
        return Sqlite(tmp_path / name) if dialect == "sqlite" else Postgres(request.getfixturevalue("server"))

    theirs, ours = make(theirs, "theirs"), make(ours, "ours")
    told = str(theirs.path) if theirs.dialect == "sqlite" else theirs.url.replace("postgresql://postgres@", "postgres://postgres@localhost")
    sql.migrate(ours.url)
    with ours.session() as tx:
        for table in ("sent", "booked"):
            tx.execute(f"create table {table} (key text, amount bigint)")
    return told, theirs, ours


async def test_both_book_what_the_other_has_sent_once(pair, rust):
    told, theirs, ours = pair

    def book(tx, message):
        assert message.tag == "transfer"
        amount = int.from_bytes(message.body[8:], "big", signed=True)
        tx.execute(f"insert into booked values ('{message.key}', {amount})")

    async with node() as here:
        address = await rust(told, here.address, TRANSFER_BIND="127.0.0.1:0")
        async with await sql.Inbox.start(here, ours.url, book, collect_every=SOON), await sql.Relay.start(here, ours.url):
            for amount in range(1, 31):
                with ours.session() as tx:
                    body = (amount % 10).to_bytes(8, "big") + amount.to_bytes(8, "big")
                    key = sql.send(tx, address, body, tag="transfer", order=f"account {amount % 3}")
                    tx.execute(f"insert into sent values ('{key}', {amount})")
                await asyncio.sleep(0)
            await until(lambda: count(ours, "booked") >= 30)
            # It is killed, and then goes on with what it has sent and sends no more.
            port = address.rsplit(":", 1)[1]
            assert await rust(told, here.address, TRANSFER_BIND=f"127.0.0.1:{port}", TRANSFER_RESTS="") == address
            for database in (theirs, ours):
                for table in ("exonet_outbox", "exonet_inbox"):
                    await until(lambda: count(database, table) == 0)
    for sender, receiver in ((theirs, ours), (ours, theirs)):
        sent, booked = (all_of(of, f"select key, amount from {table} order by key") for of, table in ((sender, "sent"), (receiver, "booked")))
        assert booked == sent and len(sent) >= 30
