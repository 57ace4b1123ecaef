"""Event loops: several, one after the other and beside each other, and one that cannot watch sockets."""

import asyncio
import gc
import threading
import weakref

import exonet
from conftest import node


async def exchange(alice, bob, count=20):
    async def take():
        for _ in range(count):
            (await bob.recv()).ack()

    taking = asyncio.ensure_future(take())
    for _ in range(count):
        settled = await (await alice.send(bob.address, b"x"))
        assert settled.outcome is exonet.Outcome.DELIVERED
    await taking


def test_nodes_outlive_event_loops():
    async def start():
        return await node().start(), await node().start()

    alice, bob = asyncio.run(start())
    for _ in range(3):
        asyncio.run(exchange(alice, bob))
    asyncio.run(alice.close())
    asyncio.run(bob.close())


def test_loops_on_several_threads_share_nodes():
    async def start():
        return await node().start(), await node().start()

    alice, bob = asyncio.run(start())
    failed = []

    def run():
        try:
            asyncio.run(asyncio.wait_for(exchange(alice, bob), 30))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert failed == [] and not any(thread.is_alive() for thread in threads)


class Deaf(asyncio.SelectorEventLoop):
    """A loop that cannot watch sockets, as the one of Windows cannot."""

    is_deaf = False

    def add_reader(self, fd, callback, *args):
        if self.is_deaf:
            raise NotImplementedError
        return super().add_reader(fd, callback, *args)


def test_a_loop_that_cannot_watch_sockets():
    loop = Deaf()
    loop.is_deaf = True

    async def main():
        async with node() as alice, node() as bob:
            await exchange(alice, bob)

    try:
        loop.run_until_complete(asyncio.wait_for(main(), 30))
    finally:
        loop.close()


def test_a_closed_loop_is_not_kept():
    loops = []
    for _ in range(3):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(exonet.Node(bind="127.0.0.1:0").start())
        loop.close()
        loops.append(weakref.ref(loop))
    del loop
    gc.collect()
    assert [kept() for kept in loops] == [None] * 3
