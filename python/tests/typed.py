"""A program that a type checker has to accept, and whose types it has to know."""

from typing import List

import exonet
from exonet import blocking
from typing_extensions import assert_type


async def main() -> None:
    async with exonet.Node(allow="anyone", bind="127.0.0.1:0") as node:
        receipt = await node.send("ID@HOST:PORT", b"x", tag="t", priority="urgent")
        assert_type(receipt, exonet.Receipt)
        settled = await receipt
        assert_type(settled.outcome, exonet.Outcome)
        async for delivery in node:
            assert_type(delivery.body, bytes)
            assert_type(await delivery.answer(b"x", tag="t", early=False), exonet.Receipt)
            assert_type(await delivery.ack_and_send("p", b"x", deadline=1.0), exonet.Receipt)
            delivery.ack(1)
        assert_type(await node.recv_many(10), List[exonet.Delivery])
        assert_type((await node.call("p", "m", b"x", timeout=1.0)).body, bytes)
        stream = node.stream("p", "s")
        async for delivery in stream:
            delivery.reject("no")
        assert_type((await stream.recv()), "exonet.Delivery | None")
        session = await node.session("p", "s")
        assert_type(session, exonet.Session)
        try:
            assert_type(await stream.ack_and_send(delivery, b"x"), exonet.Receipt)
            assert_type(await session.answer(delivery, b"x", confirm="processed"), exonet.Receipt)
        except exonet.AnswerError as error:
            assert_type(error.delivery, "exonet.Delivery | None")
        verdict = await (await node.group(["a"]).send(b"x", mode=exonet.quorum(send=2, acks=1)))
        assert_type(verdict.reached, bool)
        prices = node.group(["a"]).stream("prices", when_full="wait")
        assert_type(await (await prices.send(b"x", mode="any")), exonet.Verdict)
        assert_type(await prices.departed(), "exonet.Departure | None")

        @node.method("price")
        async def price(request: exonet.Request) -> bytes:
            return request.body

        assert_type(await price(None), bytes)  # type: ignore[arg-type]


def threads() -> None:
    with blocking.Node() as node:
        assert_type(node.send("p", b"x").wait(1.0), exonet.Settled)
        for delivery in node:
            assert_type(delivery, exonet.Delivery)
            assert_type(delivery.answer(b"x").wait(1.0), exonet.Receipt)
            assert_type(node.stream("p", "s").ack_and_send(delivery, b"x", timeout=1.0), exonet.Receipt)
            assert_type(node.session("p", "s").answer(delivery, b"x", timeout=1.0), exonet.Receipt)


async def databases() -> None:
    import sqlite3

    from exonet import sql

    def credit(tx: sqlite3.Connection, message: sql.InboxMessage) -> None:
        assert_type(message.body, bytes)
        assert_type(sql.send(tx, message.sender, b"x", tag="t", order="o"), str)

    async def credit_later(tx: object, message: sql.InboxMessage) -> None:
        assert_type(await sql.send_async(tx, message.sender, b"x"), str)

    async with exonet.Node() as node:
        relay = await sql.Relay.start(node, "sqlite:///shop.db", keep_settled=3600)
        assert_type(relay.stats().processed, int)
        async with await sql.Inbox.start(node, "sqlite:///bank.db", credit, attempts=None) as inbox:
            assert_type(inbox, sql.Inbox)
        await sql.Inbox.start(node, "sqlite:///bank.db", credit_later)
