"""A service with a database that is killed: `sql_child.py bank STATE PORT DATABASE STUCK`, or `sql_child.py shop STATE DATABASE`."""

import asyncio
import functools
import sqlite3
import sys
import threading

import exonet
import exonet.sql as sql


class Stuck(sqlite3.Connection):
    """A connection that gets stuck after the first commit that has booked something."""

    def execute(self, text, *args):
        result = super().execute(text, *args)
        if text == "commit" and "booked" in done:
            stick("committed")
        return result


done = set()


def stick(what):
    print(what, flush=True)
    threading.Event().wait()


async def bank(state, port, database, stuck):
    """Books each payment. It gets stuck after it has acted on the payment ``stuck``, before the commit. If ``stuck`` is "commit", it gets
    stuck after the commit of the first payment."""

    def book(tx, message):
        tx.execute(f"insert into booked values ({int(message.body)})")
        done.add("booked")
        if message.body.decode() == stuck:
            stick("acted")

    if stuck == "commit":
        path = database.replace("sqlite:///", "", 1)
        database = functools.partial(sqlite3.connect, path, check_same_thread=False, factory=Stuck)
    async with exonet.Node(allow="anyone", bind=f"127.0.0.1:{port}", state_dir=state, durability="memory") as node:
        async with await sql.Inbox.start(node, database, book, collect_every=0.05):
            print(node.address, flush=True)
            await asyncio.Event().wait()


async def shop(state, database):
    """Relays what is in the outbox."""
    async with exonet.Node(bind="127.0.0.1:0", state_dir=state, durability="memory") as node:
        async with await sql.Relay.start(node, database):
            print("relays", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run({"bank": bank, "shop": shop}[sys.argv[1]](*sys.argv[2:]))
