"""Streams, sessions and groups."""

import asyncio

import exonet
import pytest
from conftest import node
from exonet import Outcome


async def test_a_stream_keeps_order_both_ways_and_ends():
    async with node() as bob, node() as alice:
        orders = alice.stream(bob.address, "orders")
        for n in range(100):
            await orders.send(str(n).encode())
        end = await orders.close()
        with pytest.raises(exonet.StreamError, match="closed at this end"):
            await orders.send(b"more")
        accepted = await bob.accept_stream()
        assert (accepted.name, accepted.peer, orders.peer) == ("orders", alice.id, bob.id)
        await accepted.send(b"thanks")
        got = []
        async for delivery in accepted:
            got.append(int(delivery.body))
            delivery.ack()
        assert got == list(range(100))
        assert (await end).outcome is Outcome.DELIVERED
        assert await accepted.recv() is None
        (await orders.recv()).ack()


async def test_streams_are_reset_stopped_and_listened_for():
    async with node() as bob, node() as alice:
        listener = bob.stream_listener("logs")
        with pytest.raises(exonet.StreamError, match="in use"):
            bob.stream_listener("logs")
        logs = alice.stream(bob.address, "logs")
        with pytest.raises(exonet.StreamError, match="in use"):
            alice.stream(bob.address, "logs")
        receipt = await logs.send(b"1")
        accepted = await listener.accept()
        (await accepted.recv()).ack()
        await receipt
        await logs.reset()
        with pytest.raises(exonet.StreamReset):
            await accepted.recv()
        other = alice.stream(bob.address, "other")
        await other.send(b"1")
        unwanted = await bob.accept_stream()
        await unwanted.stop("no")
        assert (await (await other.send(b"2"))).outcome is Outcome.REJECTED
        with pytest.raises(exonet.StreamError, match="1 to 255 bytes"):
            alice.stream(bob.address, "")


async def test_a_session_is_a_conversation():
    async with node() as bob, node() as alice:
        chat = await alice.session(bob.address, "chat", idle=60.0)
        large = b"x" * 500_000
        receipt = await chat.send(large, confirm="processed")
        served = await bob.accept_session()
        assert (served.name, served.id, served.peer) == ("chat", chat.id, alice.id)
        assert chat.is_client and not served.is_client
        assert alice.sessions() == [(bob.id, chat.id, "chat")]
        message = await served.recv()
        assert message.body == large
        message.ack(7)
        assert (await receipt).status == 7
        await served.send(b"hello yourself")
        with await chat.recv() as answer:
            assert answer.body == b"hello yourself"
        waiting = asyncio.ensure_future(served.recv())
        await asyncio.sleep(0)
        await chat.close()
        assert await waiting is None
        with pytest.raises(exonet.SessionError, match="given up"):
            await chat.send(b"more")


async def test_sessions_are_refused_aborted_and_detached():
    async with node() as bob, node() as alice:
        first = await alice.session(bob.address, "a")
        await (await bob.accept_session()).refuse("full")
        with pytest.raises(exonet.SessionEnded, match="full") as error:
            await first.recv()
        assert error.value.end == "refused"
        second = await alice.session(bob.address, "b")
        served = await bob.accept_session()
        waiting = asyncio.ensure_future(second.recv())
        await served.abort()
        with pytest.raises(exonet.SessionEnded) as error:
            await waiting
        assert error.value.end == "aborted"
        third = await alice.session(bob.address, "c")
        served = await bob.accept_session()
        waiting = asyncio.ensure_future(third.recv())
        await asyncio.sleep(0)
        await third.detach()
        with pytest.raises(exonet.SessionError, match="given up"):
            await waiting
        await served.send(b"still here")
        again = alice.attach_session(bob.address, "c", third.id)
        with await again.recv() as message:
            assert message.body == b"still here"
        with pytest.raises(exonet.UsageError, match="16 hexadecimal"):
            alice.attach_session(bob.address, "c", "1")


async def test_groups_count_who_has_a_message():
    async with node() as alice, node() as bob, node() as carol, node() as dave:
        group = alice.group([bob.address, carol.address])
        group.add(dave.address)
        assert group.members() == [bob.id, carol.id, dave.id]

        async def take(member):
            (await member.recv()).ack()

        receipt = await group.send(b"42", mode="all", deadline=10.0)
        assert {member.state for member in await receipt.members()} <= {"queued", "in doubt"}
        deciding = asyncio.ensure_future(receipt)
        await asyncio.sleep(0)
        assert len(await receipt.members()) == 3
        await asyncio.gather(take(bob), take(carol), take(dave))
        verdict = await deciding
        assert verdict and (verdict.reached, verdict.good, verdict.why) == (True, 3, None)
        assert all(member.has_it and member.settled.outcome is Outcome.DELIVERED for member in await receipt.ended())

        receipt = await group.send(b"43", mode=exonet.quorum(send=3, acks=2))
        await asyncio.gather(take(bob), take(carol))
        assert (await receipt).good == 2
        group.remove(dave.id)
        with pytest.raises(exonet.GroupError, match="has 2"):
            await group.send(b"44", mode=exonet.balanced(3))
        with pytest.raises(exonet.UsageError, match="quorum"):
            await group.send(b"44", mode="most")
        with pytest.raises(exonet.GroupError, match="name each once"):
            alice.group([bob.address, bob.address])


async def test_a_stream_to_a_group_is_in_order_at_each_member():
    async with node() as alice, node() as bob, node() as carol, node() as dave:
        group = alice.group([bob.address, carol.address])
        stream = group.stream("prices", queue=64, when_full="wait", priority="low")
        assert (stream.name, stream.members(), stream.backlog(dave.id)) == ("prices", [bob.id, carol.id], None)
        for n in range(20):
            receipt = await stream.send(b"%d" % n, mode="any", deadline=60.0)
        group.add(dave.address)
        stream.add(dave.id)
        last = await stream.send(b"20", mode=exonet.quorum(send=3, acks=3))

        async def read(member, first):
            lines = await member.accept_stream()
            assert (lines.name, lines.peer) == ("prices", alice.id)
            got = []
            for _ in range(first, 21):
                with await lines.recv() as line:
                    got.append(int(line.body))
            assert got == list(range(first, 21))
            await lines.send(b"done")
            return lines

        lines = await asyncio.gather(read(bob, 0), read(carol, 0), read(dave, 20))
        assert (await receipt).reached and (await last).good == 3
        answers = stream.answers(bob.id)
        assert stream.answers(bob.id) is None
        with await answers.recv() as answer:
            assert (answer.sender, answer.body) == (bob.id, b"done")
        await lines[0].close()
        async for _ in answers:
            raise AssertionError("it has ended")

        stream.remove(carol.id, now=True)
        left = await stream.departed()
        assert (left.id, left.cause, left.reason) == (carol.id, "removed", None)
        with pytest.raises(exonet.StreamReset):
            await lines[1].recv()
        end = await stream.close()
        assert [await lines[at].recv() for at in (0, 2)] == [None, None]
        assert await end
        assert await stream.departed() is None
        with pytest.raises(exonet.GroupError):
            await stream.send(b"x", mode="all")
        with pytest.raises(exonet.UsageError, match="fall out"):
            group.stream("other", when_full="never")
        with pytest.raises(exonet.UsageError, match="queue must be at least 1, not 0"):
            group.stream("other", queue=0)
        with pytest.raises(exonet.GroupError):
            await group.stream("other").send(b"x", mode=exonet.balanced())


async def test_a_group_is_called():
    async with node() as alice, node() as bob, node() as carol:
        bob.serve("who", lambda request: b"bob")
        answers = dict(await alice.group([bob.address, carol.address]).call("who", timeout=10.0))
        assert answers[bob.id].body == b"bob"
        assert answers[carol.id].has_not_run
