"""Sending and receiving."""

import array
import asyncio
import gc
import os
import warnings

import exonet
import pytest
from conftest import node
from exonet import Outcome


async def test_a_message_arrives_with_all_that_was_said_of_it():
    async with node() as bob, node() as alice:
        receipt = await alice.send(bob.address, b"hello", tag="letter", priority="urgent")
        delivery = await bob.recv()
        assert (delivery.body, delivery.view.tobytes()) == (b"hello", b"hello")
        assert (delivery.sender, delivery.tag, delivery.tag_bytes) == (alice.id, "letter", b"letter")
        assert (delivery.priority, delivery.attempt, delivery.redelivered) == ("urgent", 1, False)
        assert receipt.settled() is None
        delivery.ack()
        settled = await receipt
        assert (settled.outcome, settled.status, settled.reason, settled.late) == (Outcome.DELIVERED, 0, None, False)
        assert settled.receiver_durability == "memory"
        assert settled.id == delivery.id == receipt.id
        assert (await receipt).outcome is Outcome.DELIVERED
        assert receipt.status() == "settled"
        with pytest.raises(exonet.CancelError) as error:
            receipt.cancel()
        assert error.value.settled


@pytest.mark.parametrize(
    "body",
    [b"", b"bytes", bytearray(b"bytearray"), memoryview(b"every other")[::2], array.array("d", [1.0, 2.0]), b"x" * 3_000_000],
    ids=["empty", "bytes", "bytearray", "strided", "array", "large"],
)
async def test_a_body_is_any_buffer(body):
    async with node() as bob, node() as alice:
        receipt = await alice.send(bob.address, body)
        with await bob.recv() as delivery:
            assert delivery.body == memoryview(body).tobytes()
        assert (await receipt).outcome is Outcome.DELIVERED


async def test_the_receiver_says_what_becomes_of_a_message():
    async with node() as bob, node() as alice:
        processed = await alice.send(bob.address, b"1", confirm="processed")
        (await bob.recv()).ack(7)
        settled = await processed
        assert (settled.outcome, settled.status, settled.outcome.has_it) == (Outcome.PROCESSED, 7, True)
        rejected = await alice.send(bob.address, b"2")
        (await bob.recv()).reject("no such thing", 404)
        settled = await rejected
        assert (settled.outcome, settled.status, settled.reason) == (Outcome.REJECTED, 404, "no such thing")
        assert settled.attempts == 1 and settled.outcome.has_it_not
        again = await alice.send(bob.address, b"3")
        (await bob.recv()).retry_after(0.001)
        second = await bob.recv()
        assert (second.body, second.attempt, second.redelivered) == (b"3", 2, True)
        second.ack()
        assert (await again).outcome is Outcome.DELIVERED
        with pytest.raises(exonet.UsageError, match="dealt with already"):
            second.ack()


async def test_a_delivery_that_is_dropped_or_fails_is_handed_out_again():
    async with node() as bob, node() as alice:
        await alice.send(bob.address, b"once")
        dropped = await bob.recv()
        del dropped
        gc.collect()
        with pytest.raises(ZeroDivisionError):
            with await bob.recv() as failing:
                assert failing.attempt == 2
                raise ZeroDivisionError
        with await bob.recv() as last:
            assert last.attempt == 3


async def test_a_message_that_never_works_ends_rejected():
    async with node(attempts=2) as bob, node() as alice:
        receipt = await alice.send(bob.address, b"poison")
        for _ in range(2):
            (await bob.recv()).release()
        assert (await receipt).outcome is Outcome.REJECTED


async def test_batches_both_ways():
    async with node() as bob, node() as alice:
        bodies = [n.to_bytes(4, "big") for n in range(5_000)]
        sent = await alice.send_many(bob.address, bodies)
        assert len(sent) == 5_000
        got = []
        while len(got) < 2_500:
            for delivery in await bob.recv_many(100):
                delivery.ack()
                got.append(delivery.body)
        unguarded = bob.at_most_once()
        while len(got) < 5_000:
            got.extend(received.body for received in await unguarded.recv_many())
        assert sorted(got) == bodies
        tally = await sent
        assert (tally.delivered, tally.settled) == (5_000, 5_000)


async def test_large_and_small_bodies_in_one_batch():
    async with node() as bob, node() as alice:
        bodies = [b"s" * 10, b"l" * 2_000_000, b"t" * 10, b"m" * 1_500_000]
        for body in bodies:
            await alice.send(bob.address, body)
        unguarded, got = bob.at_most_once(), []
        while len(got) < 4:
            got.extend(received.body for received in await unguarded.recv_many())
        assert sorted(got) == sorted(bodies)


async def test_cancelling_a_receive_loses_no_message():
    async with node() as bob, node() as alice:
        unguarded = bob.at_most_once()
        got = []
        for n in range(300):
            waiting = asyncio.ensure_future(unguarded.recv())
            if n % 3:
                await asyncio.sleep(0)
            await alice.send(bob.address, str(n).encode())
            if n % 2:
                await asyncio.sleep(0.0005)
            waiting.cancel()
            try:
                got.append((await waiting).body)
            except asyncio.CancelledError:
                pass
        while len(got) < 300:
            got.extend(received.body for received in await asyncio.wait_for(unguarded.recv_many(), 10))
        assert sorted(got, key=int) == [str(n).encode() for n in range(300)]


async def test_cancelling_does_not_spoil_a_large_body():
    async with node() as bob, node() as alice:
        body = os.urandom(4_000_000)
        await alice.send(bob.address, body)
        while True:
            waiting = asyncio.ensure_future(bob.recv())
            await asyncio.sleep(0.001)
            waiting.cancel()
            try:
                delivery = await waiting
                break
            except asyncio.CancelledError:
                pass
        assert (delivery.body, delivery.attempt) == (body, 1)
        delivery.ack()


async def test_timeouts_are_those_of_asyncio():
    async with node() as bob:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(bob.recv(), 0.01)


async def test_many_tasks_receive_and_none_misses_its_wake_up():
    async with node() as bob, node() as alice:
        waiting = [asyncio.ensure_future(bob.recv()) for _ in range(100)]
        await asyncio.sleep(0)
        for n in range(100):
            await alice.send(bob.address, str(n).encode())
        deliveries = await asyncio.gather(*waiting)
        for delivery in deliveries:
            delivery.ack()
        assert sorted(int(delivery.body) for delivery in deliveries) == list(range(100))


async def test_many_tasks_await_one_receipt():
    async with node() as bob, node() as alice:
        receipt = await alice.send(bob.address, b"x")
        waiting = [asyncio.ensure_future(receipt) for _ in range(10)]
        await asyncio.sleep(0)
        waiting.pop().cancel()
        (await bob.recv()).ack()
        assert {settled.outcome for settled in await asyncio.gather(*waiting)} == {Outcome.DELIVERED}


async def test_async_for_ends_with_the_node():
    async with node() as alice:
        bob = node()
        await bob.start()

        async def serve():
            return [delivery.ack() async for delivery in bob]

        serving = asyncio.ensure_future(serve())
        for _ in range(3):
            await (await alice.send(bob.address, b"x"))
        assert await bob.close() == []
        assert await serving == [None] * 3
        for call in (bob.recv(), bob.send(alice.address, b"x"), bob.at_most_once().recv()):
            with pytest.raises(exonet.Closed, match="make another Node"):
                await call


async def test_closing_settles_open_receipts():
    bob = node()
    await bob.start()
    address = bob.address
    alice = node()
    await alice.start()
    await (await alice.peer(address).ping() and alice.flush())
    await bob.close()
    gone = await alice.send(address.split("@")[0] + "@127.0.0.1:9", b"x", early=False)
    waiting = asyncio.ensure_future(gone)
    left = await alice.close(0.05)
    assert len(left) <= 1
    assert (await waiting).outcome in (Outcome.CANCELLED, Outcome.REFUSED, Outcome.UNKNOWN)


async def test_an_unknown_peer_leaves_a_message_in_doubt_until_it_is_given_up():
    async with node() as alice, node() as bob:
        nobody = bob.id + "@127.0.0.1:9"
        receipt = await alice.send(nobody, b"x", early=False)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(receipt)), 0.05)
        assert receipt.cancel() is True
        assert (await receipt).outcome is Outcome.CANCELLED
        late = await alice.send(nobody, b"x", deadline=0.01, early=False)
        settled = await late
        assert settled.outcome is Outcome.EXPIRED and settled.outcome.has_it_not
        with pytest.raises(exonet.SendError, match="no address is known"):
            async with node() as carol:
                await carol.send(bob.id, b"x")
        with pytest.raises(exonet.SendError, match="to itself"):
            await bob.send(bob.address, b"x")


async def test_a_stranger_is_told_that_it_is_not_let_in():
    async with exonet.Node(bind="127.0.0.1:0") as bob, node() as alice:
        settled = await (await alice.send(bob.address, b"x"))
        assert settled.outcome is Outcome.REFUSED
        assert "allow" in settled.reason
        bob.set_allow([alice.id])
        async with node() as carol:
            bob.set_allow(lambda id, address: id == carol.id and address.startswith("127."))
            receipt = await carol.send(bob.address, b"y")
            (await bob.recv()).ack()
            assert (await receipt).outcome is Outcome.DELIVERED


async def test_an_operation_that_is_not_awaited_warns():
    async with node() as bob, node() as alice:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            alice.send(bob.address, b"x")
            gc.collect()
        assert any("was never awaited" in str(warning.message) for warning in caught)
        once = alice.send(bob.address, b"x")
        await once
        with pytest.raises(RuntimeError, match="awaited already"):
            await once
        (await bob.recv()).ack()


async def test_an_operation_is_a_coroutine_for_asyncio():
    async with node() as bob, node() as alice:
        sending = asyncio.create_task(alice.send(bob.address, b"x"))
        (await bob.recv()).ack()
        assert (await (await sending)).outcome is Outcome.DELIVERED
        with pytest.raises(exonet.UsageError, match="use `await`"):
            alice.send(bob.address, b"x").wait()


async def test_other_tasks_have_their_turn_beside_a_busy_sender():
    async with node() as bob, node() as alice:
        peer, turns = alice.peer(bob.address), 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        for _ in range(1_000):
            await peer.send(b"x")
        task.cancel()
        assert turns > 3
        assert await peer.ping() > 0
        peer.abandon()


async def test_a_node_tells_about_itself_and_its_peers():
    async with node() as bob, node() as alice:
        assert bob.address == f"{bob.id}@127.0.0.1:{bob.local_address[1]}"
        peer = alice.peer(bob.address)
        assert (peer.id, peer.address) == (bob.id, bob.address)
        await peer.ping()
        assert alice.peers() == [bob.id]
        assert bob.id in repr(bob) and "Peer" in repr(peer)
