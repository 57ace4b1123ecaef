"""Calls, and the methods that answer them."""

import asyncio
import logging

import exonet
import pytest
from conftest import node


async def test_methods_are_async_or_not():
    bob = node()

    @bob.method("price")
    async def price(request):
        await asyncio.sleep(0)
        return b"3" if request.body == b"tea" else "4"

    @bob.method()
    def who(request):
        return f"{request.caller} {request.method}"

    @bob.method()
    def nothing(request):
        return None

    async with bob, node() as alice:
        reply = await alice.call(bob.address, "price", b"tea")
        assert (reply.body, bytes(reply)) == (b"3", b"3")
        assert reply.id.startswith(alice.id)
        assert (await alice.call(bob.address, b"price", bytearray(b"milk"), timeout=10)).body == b"4"
        assert (await alice.peer(bob.address).call("who")).body.decode() == f"{alice.id} who"
        assert (await alice.call(bob.address, "nothing")).body == b""
        big = b"b" * 2_000_000

        @bob.method("later")
        def later(request):
            return request.body

        assert (await alice.call(bob.address, "later", big)).body == big


async def test_failures_say_whether_the_call_has_run(caplog):
    bob = node()

    @bob.method()
    async def sold_out(request):
        raise exonet.Failure(404, "no such thing")

    @bob.method()
    def broken(request):
        raise ZeroDivisionError

    @bob.method(timeout=0.01)
    async def slow(request):
        await asyncio.Event().wait()

    @bob.method()
    async def wrong(request):
        return 7

    async with bob, node() as alice:

        async def fails(method):
            with pytest.raises(exonet.CallFailed) as error:
                await alice.call(bob.address, method, b"x")
            return error.value

        error = await fails("sold_out")
        assert (error.status, error.body, error.has_not_run) == (404, b"no such thing", False)
        assert error.id.startswith(alice.id) and "no such thing" in str(error)
        with caplog.at_level(logging.CRITICAL, "exonet"):
            assert not (await fails("broken")).has_not_run
            assert not (await fails("wrong")).has_not_run
        assert "timed out" in str(await fails("slow"))
        unknown = await fails("unknown")
        assert unknown.has_not_run and "no such method" in str(unknown)


async def test_a_call_that_does_not_leave_has_not_run():
    async with node() as bob, node() as alice:
        nobody = bob.id + "@127.0.0.1:9"
        with pytest.raises(exonet.CallExpired) as error:
            await alice.call(nobody, "m", b"", timeout=0.02, early=False)
        assert error.value.has_not_run
        with pytest.raises(exonet.AddressError):
            await alice.call("nobody", "m")
        async with exonet.Node(bind="127.0.0.1:0") as shut:
            with pytest.raises(exonet.CallRefused) as error:
                await alice.call(shut.address, "m")
            assert error.value.has_not_run
    with pytest.raises(exonet.Closed):
        await alice.call(nobody, "m")


async def test_a_call_that_has_left_is_unknown_at_its_timeout():
    bob, begun = node(), asyncio.Event()

    @bob.method()
    async def hang(request):
        begun.set()
        await asyncio.Event().wait()

    async with node() as alice:
        await bob.start()
        with pytest.raises(exonet.CallUnknown, match="deadline") as error:
            await alice.call(bob.address, "hang", timeout=0.2)
        assert not error.value.has_not_run and begun.is_set()
        assert await bob.close(0.1) == []


async def test_a_cancelled_call_is_given_up():
    bob, begun = node(), asyncio.Event()

    @bob.method()
    async def hang(request):
        begun.set()
        await asyncio.Event().wait()

    async with node() as alice:
        await bob.start()
        call = asyncio.create_task(alice.call(bob.address, "hang"))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await bob.close(0.1)


async def test_a_method_is_served_once_and_stops():
    async with node() as bob, node() as alice:
        serving = bob.serve("m", lambda request: b"1")
        with pytest.raises(exonet.ServeError, match="served already"):
            bob.serve("m", lambda request: b"2")
        assert (await alice.call(bob.address, "m")).body == b"1"
        assert await serving.stop() == 0
        with pytest.raises(exonet.CallFailed, match="no such method"):
            await alice.call(bob.address, "m")


async def test_concurrency_is_bounded_and_many_calls_go_on_at_once():
    bob, running, most = node(), 0, 0

    @bob.method(concurrency=5)
    async def work(request):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return request.body

    async with bob, node() as alice:
        bodies = [str(n).encode() for n in range(200)]
        replies = await asyncio.gather(*(alice.call(bob.address, "work", body) for body in bodies))
        assert [reply.body for reply in replies] == bodies
        assert 1 < most <= 5
