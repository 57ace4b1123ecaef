#!/usr/bin/env python3
"""Messages and calls per second between two processes on loopback, beside ZeroMQ and NATS in the same run.

    pip install ./python pyzmq nats-py        # and `nats-server` on the path
    python python/bench/bench.py [--rounds 3] [--seconds 3]

What is not installed is left out. Rounds alternate between the systems, so that all see the same machine; the median is told, and the
spread. Exonet encrypts, acknowledges each message, and knows what became of it; ZeroMQ and NATS do neither here (NATS goes through its server,
without persistence).
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import time

SIZE = 1024
BATCH = 512
CALLERS = 100
BODY = b"x" * SIZE
CALL = b"x" * 64


def tell(line):
    print(line, flush=True)


# ---- Exonet


async def exonet_receive(guarded):
    import exonet

    async with exonet.Node(allow="anyone", bind="127.0.0.1:0") as node:
        tell(node.address)
        count, end = 0, None
        source = node if guarded else node.at_most_once()
        began = None
        while True:
            some = await source.recv_many(BATCH)
            began = began or time.perf_counter()
            for one in some:
                if len(one.body) == 3:
                    end = time.perf_counter()
                else:
                    count += 1
                if guarded:
                    one.ack()
            if end is not None:
                break
        tell(count / (end - began))
        await asyncio.sleep(0.2)


async def exonet_send(peer, seconds):
    import exonet

    async with exonet.Node(bind="127.0.0.1:0") as node:
        await node.peer(peer).ping()
        until, bodies, receipts = time.perf_counter() + seconds, [BODY] * BATCH, []
        while time.perf_counter() < until:
            receipts.append(await node.send_many(peer, bodies))
        for receipt in receipts:
            tally = await receipt
            assert tally.delivered == BATCH, tally
        await (await node.send(peer, b"end"))


async def exonet_serve(is_async):
    import exonet

    node = exonet.Node(allow="anyone", bind="127.0.0.1:0")
    if is_async:

        @node.method("echo")
        async def echo(request):
            return request.body
    else:

        @node.method("echo")
        def echo(request):
            return request.body

    async with node:
        tell(node.address)
        await asyncio.Event().wait()


async def exonet_call(peer, seconds):
    import exonet

    async with exonet.Node(bind="127.0.0.1:0") as node:
        to = node.peer(peer)
        await to.call("echo", CALL)

        async def one():
            assert len((await to.call("echo", CALL)).body) == len(CALL)

        await callers(one, seconds)


async def callers(one, seconds):
    """Many tasks, each of which calls again and again."""
    count, began = 0, time.perf_counter()
    until = began + seconds

    async def again():
        nonlocal count
        while time.perf_counter() < until:
            await one()
            count += 1

    await asyncio.gather(*(again() for _ in range(CALLERS)))
    tell(count / (time.perf_counter() - began))


# ---- ZeroMQ


async def zmq_receive(is_async):
    import zmq
    import zmq.asyncio

    context = zmq.asyncio.Context() if is_async else zmq.Context()
    socket = context.socket(zmq.PULL)
    socket.setsockopt(zmq.RCVHWM, 65_536)
    tell(f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}")
    count, began = 0, None
    while True:
        body = await socket.recv() if is_async else socket.recv()
        began = began or time.perf_counter()
        if len(body) == 3:
            break
        count += 1
    tell(count / (time.perf_counter() - began))


async def zmq_send(peer, seconds, is_async):
    import zmq
    import zmq.asyncio

    context = zmq.asyncio.Context() if is_async else zmq.Context()
    socket = context.socket(zmq.PUSH)
    socket.setsockopt(zmq.SNDHWM, 65_536)
    socket.connect(peer)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for _ in range(BATCH):
            if is_async:
                await socket.send(BODY)
            else:
                socket.send(BODY)
    sent = socket.send(b"end")
    if is_async:
        await sent
    socket.close(10_000)


async def zmq_serve():
    import zmq
    import zmq.asyncio

    socket = zmq.asyncio.Context().socket(zmq.ROUTER)
    tell(f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}")
    while True:
        await socket.send_multipart(await socket.recv_multipart())


async def zmq_call(peer, seconds):
    import zmq
    import zmq.asyncio

    socket = zmq.asyncio.Context().socket(zmq.DEALER)
    socket.connect(peer)
    waiting, loop, number = {}, asyncio.get_running_loop(), 0

    async def listen():
        while True:
            key, body = await socket.recv_multipart()
            waiting.pop(key).set_result(body)

    async def one():
        nonlocal number
        number += 1
        key = number.to_bytes(8, "big")
        waiting[key] = loop.create_future()
        await socket.send_multipart([key, CALL])
        await waiting[key] if key in waiting else None

    listening = asyncio.ensure_future(listen())
    await callers(one, seconds)
    listening.cancel()


# ---- NATS


async def nats_receive(url):
    import nats

    client = await nats.connect(url)
    subscription = await client.subscribe("messages", pending_msgs_limit=-1, pending_bytes_limit=-1)
    await client.flush()
    tell(url)
    count, began = 0, None
    async for message in subscription.messages:
        began = began or time.perf_counter()
        if len(message.data) == 3:
            break
        count += 1
    tell(count / (time.perf_counter() - began))
    await client.close()


async def nats_send(url, seconds):
    import nats

    client = await nats.connect(url)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for _ in range(BATCH):
            await client.publish("messages", BODY)
        await client.flush()
    await client.publish("messages", b"end")
    await client.drain()


async def nats_serve(url):
    import nats

    client = await nats.connect(url)

    async def echo(message):
        await message.respond(message.data)

    await client.subscribe("echo", cb=echo)
    await client.flush()
    tell(url)
    await asyncio.Event().wait()


async def nats_call(url, seconds):
    import nats

    client = await nats.connect(url)

    async def one():
        assert len((await client.request("echo", CALL, timeout=30)).data) == len(CALL)

    await callers(one, seconds)
    await client.close()


# ---- the parent


def role(name, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, __file__, "--role", name, *map(str, arguments)], stdout=subprocess.PIPE, text=True, **options
    )


def first_line(process):
    line = process.stdout.readline().strip()
    if not line:
        raise SystemExit(f"{process.args} ended without a word")
    return line


def one_way(receive, send, seconds):
    receiver = role(*receive)
    address = first_line(receiver)
    sender = role(send[0], address, seconds, *send[1:])
    rate = float(first_line(receiver))
    for process in (sender, receiver):
        if process.wait(60):
            raise SystemExit(f"{process.args} failed")
    return rate


def calls(serve, call, seconds):
    server = role(*serve)
    caller = role(call, first_line(server), seconds)
    rate = float(first_line(caller))
    caller.wait(60)
    server.kill()
    server.wait()
    return rate


ROLES = {
    "exonet-receive": lambda guarded: exonet_receive(guarded == "guarded"),
    "exonet-send": lambda peer, seconds: exonet_send(peer, float(seconds)),
    "exonet-serve": lambda kind: exonet_serve(kind == "async"),
    "exonet-call": lambda peer, seconds: exonet_call(peer, float(seconds)),
    "zmq-receive": lambda kind: zmq_receive(kind == "async"),
    "zmq-send": lambda peer, seconds, kind: zmq_send(peer, float(seconds), kind == "async"),
    "zmq-serve": zmq_serve,
    "zmq-call": lambda peer, seconds: zmq_call(peer, float(seconds)),
    "nats-receive": nats_receive,
    "nats-send": lambda url, seconds: nats_send(url, float(seconds)),
    "nats-serve": nats_serve,
    "nats-call": lambda url, seconds: nats_call(url, float(seconds)),
}


def measures(seconds, url):
    yield "messages", "exonet, unguarded", lambda: one_way(("exonet-receive", "unguarded"), ("exonet-send",), seconds)
    yield "messages", "exonet, each acknowledged", lambda: one_way(("exonet-receive", "guarded"), ("exonet-send",), seconds)
    if importlib.util.find_spec("zmq"):
        for kind in ("plain", "async"):
            run = lambda kind=kind: one_way(("zmq-receive", kind), ("zmq-send", kind), seconds)  # noqa: E731
            yield "messages", f"pyzmq, PUSH and PULL, {kind}", run
    if url:
        yield "messages", "nats-py", lambda: one_way(("nats-receive", url), ("nats-send",), seconds)
    yield "calls", "exonet, function", lambda: calls(("exonet-serve", "plain"), "exonet-call", seconds)
    yield "calls", "exonet, async function", lambda: calls(("exonet-serve", "async"), "exonet-call", seconds)
    if importlib.util.find_spec("zmq"):
        yield "calls", "pyzmq, DEALER and ROUTER, async", lambda: calls(("zmq-serve",), "zmq-call", seconds)
    if url:
        yield "calls", "nats-py", lambda: calls(("nats-serve", url), "nats-call", seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--nats-server", default=shutil.which("nats-server"), help="the program; it is left out if there is none")
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        name, *arguments = options.role
        asyncio.run(ROLES[name](*arguments))
        return
    server, url = None, None
    if options.nats_server and importlib.util.find_spec("nats"):
        url = "nats://127.0.0.1:14222"
        server = subprocess.Popen(
            [options.nats_server, "-a", "127.0.0.1", "-p", "14222"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(1.0)
    try:
        rates = {}
        for _ in range(options.rounds):
            for what, name, run in measures(options.seconds, url):
                rates.setdefault((what, name), []).append(run())
        print(f"{os.cpu_count()} processors; {SIZE}-byte messages in batches of {BATCH}; {CALLERS} calls of {len(CALL)} bytes at a time")
        for (what, name), all in rates.items():
            print(f"{what:8}  {name:32}  {statistics.median(all):>10,.0f}/s  ({min(all):,.0f} to {max(all):,.0f})")
    finally:
        if server:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
