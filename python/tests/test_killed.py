"""Processes with a state directory that are killed by `kill -9` while messages go on: every message arrives once."""

import asyncio
import pathlib
import sys

import exonet
from conftest import node
from exonet import Outcome

CHILD = str(pathlib.Path(__file__).parent / "child.py")


async def start(*arguments):
    return await asyncio.create_subprocess_exec(
        sys.executable, CHILD, *map(str, arguments), stdout=asyncio.subprocess.PIPE
    )


async def kill(child):
    child.kill()
    await child.wait()


async def test_a_receiver_that_is_killed(tmp_path):
    ledger = tmp_path / "ledger"

    def noted():
        return ledger.read_text().splitlines() if ledger.exists() else []

    async with node() as alice:
        child = await start("receive", tmp_path / "state", 0, ledger)
        peer = (await child.stdout.readline()).decode().strip()
        port = peer.rsplit(":", 1)[1]
        receipts, most = [], 900
        for kills in range(3):
            while len(receipts) < most * (kills + 1) // 3:
                receipts.append(await alice.send(peer, str(len(receipts)).encode()))
                if len(receipts) % 25 == 0:
                    await asyncio.sleep(0)
            while len(noted()) < 100 * (kills + 1):
                await asyncio.sleep(0.001)
            await kill(child)
            child = await start("receive", tmp_path / "state", port, ledger)
            assert (await child.stdout.readline()).decode().strip() == peer
        outcomes = {(await receipt).outcome for receipt in receipts}
        await kill(child)
    assert outcomes == {Outcome.DELIVERED}
    first = [line.split()[0] for line in noted() if line.endswith("first")]
    every = {line.split()[0] for line in noted()}
    assert every == {str(n) for n in range(most)}
    assert len(first) == len(set(first)), "a message was handed out twice, and not marked"


async def test_a_sender_that_is_killed(tmp_path):
    accepted, got = 0, []
    async with node() as bob:

        async def take():
            async for delivery in bob:
                got.append(int(delivery.body))
                delivery.ack()

        taking = asyncio.ensure_future(take())
        for _ in range(3):
            child = await start("send", tmp_path / "state", bob.address, accepted + 1)
            await child.stdout.readline()
            for _ in range(50):
                accepted = int(await child.stdout.readline())
            await kill(child)
            # What it had told before its death, and nobody has read.
            rest = (await child.stdout.read()).split(b"\n")
            accepted = max([accepted, *(int(line) for line in rest[:-1])])
            # One more may have been accepted, and not told: its number is used up.
            accepted += 1
        async with exonet.Node(bind="127.0.0.1:0", state_dir=tmp_path / "state") as last:
            left = last.recovered()
            assert {(await receipt).outcome for _, receipt in left} <= {Outcome.DELIVERED}
            assert await last.flush(30.0) == []
        taking.cancel()
    assert len(got) == len(set(got)), "a message arrived twice"
    told = set(range(1, accepted))
    missing = told - set(got)
    # Of each life, the one number that may not have been sent.
    assert len(missing) <= 3
