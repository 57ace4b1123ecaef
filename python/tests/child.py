"""A process that is killed: `child.py receive STATE PORT LEDGER`, or `child.py send STATE PEER FIRST`."""

import asyncio
import os
import sys

import exonet


async def receive(state, port, ledger):
    """Notes each message in a file, then acknowledges it."""
    book = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with exonet.Node(allow="anyone", bind=f"127.0.0.1:{port}", state_dir=state) as node:
        print(node.address, flush=True)
        async for delivery in node:
            again = "again" if delivery.redelivered else "first"
            os.write(book, f"{delivery.body.decode()} {again}\n".encode())
            delivery.ack()


async def send(state, peer, first):
    """Sends numbers, and tells each that was accepted. A former life's messages go on by themselves."""
    async with exonet.Node(bind="127.0.0.1:0", state_dir=state) as node:
        number = int(first)
        print(f"recovered {len(node.recovered())}", flush=True)
        while True:
            await node.send(peer, str(number).encode())
            print(number, flush=True)
            number += 1
            await asyncio.sleep(0.001)


if __name__ == "__main__":
    asyncio.run({"receive": receive, "send": send}[sys.argv[1]](*sys.argv[2:]))
