"""The node, for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from types import TracebackType
from typing import Any, Awaitable, Callable, List, Optional, Set, Tuple, Type, TypeVar, Union

from . import _native
from .errors import Closed, Error, UsageError

__all__ = ["Failure", "Node", "Serving", "balanced", "quorum"]

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native._after_fork)

log = logging.getLogger("exonet")

Self = TypeVar("Self", bound="Node")
Answer = Union[bytes, bytearray, memoryview, str, None]
Handler = Callable[[_native.Request], Union[Answer, Awaitable[Answer]]]
AnyHandler = TypeVar("AnyHandler", bound=Handler)

PANICKED = 0xFFFF_FFFC
"""The status of a call whose handler has raised something else than a ``Failure``."""
TIMED_OUT = 0xFFFF_FFFB
"""The status of a call whose handler took too long."""

CONCURRENCY = 256
"""Calls of one method that run at once, unless ``Node.method`` says otherwise."""


class Failure(Error):
    """Raised by a handler that has no reply: the caller gets ``CallFailed`` with this status, which is not zero, and this body."""

    status: int
    """What the two applications agree on: below 4294967040."""
    body: bytes
    """For the caller to read."""

    def __init__(self, status: int, body: Union[bytes, str] = b"") -> None:
        if not 0 < status < 0xFFFF_FF00:
            raise UsageError(f"status must be from 1 to 4294967039, not {status}")
        super().__init__(f"status {status}")
        self.status = status
        self.body = body.encode() if isinstance(body, str) else bytes(body)


def quorum(*, send: int, acks: int) -> Tuple[str, int, int]:
    """A mode of a group: ``send`` members get the message, and ``acks`` of them must have it."""
    if not 1 <= acks <= send:
        raise UsageError(f"acks must be from 1 to send, which is {send}, not {acks}")
    return ("quorum", send, acks)


def balanced(k: int = 1) -> Tuple[str, int]:
    """A mode of a group: the ``k`` cheapest members get the message, and all of these must have it."""
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")
    return ("balanced", k)


class Serving:
    """A method that is served, until this is stopped or the node is closed."""

    def __init__(self, calls: _native.Calls, handler: Handler, timeout: Optional[float]) -> None:
        self._calls = calls
        self._handler = handler
        self._timeout = timeout
        self._running: Set[asyncio.Task[None]] = set()
        self._task = asyncio.get_running_loop().create_task(self._serve())

    async def stop(self, timeout: float = 5.0) -> int:
        """Takes no new call, and waits until those that run have been answered, for ``timeout`` seconds at most.

        Gives how many still run: their callers get ``CallFailed``, and their handlers are cancelled.
        """
        left: int = await self._calls.stop(timeout)
        self._cancel()
        return left

    def _cancel(self) -> None:
        self._task.cancel()
        for task in self._running:
            task.cancel()

    async def _serve(self) -> None:
        while True:
            try:
                requests = await self._calls.next_many(CONCURRENCY)
            except Closed:
                return
            for request in requests:
                self._begin(request)

    def _begin(self, request: _native.Request) -> None:
        try:
            answer = self._handler(request)
            if inspect.isawaitable(answer):
                task = asyncio.ensure_future(self._finish(request, answer))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
                return
            request._reply(answer)
        except Exception as error:
            _fail(request, error)

    async def _finish(self, request: _native.Request, answer: Awaitable[Answer]) -> None:
        try:
            if self._timeout is None:
                request._reply(await answer)
            else:
                request._reply(await asyncio.wait_for(answer, self._timeout))
        except Exception as error:
            _fail(request, error)


def _fail(request: _native.Request, error: Exception) -> None:
    """Tells the caller that the handler has no reply."""
    if isinstance(error, Failure):
        request._fail(error.status, error.body)
    elif isinstance(error, asyncio.TimeoutError):
        request._fail(TIMED_OUT, b"")
    else:
        log.error("the handler of the method %r has failed", request.method, exc_info=error)
        request._fail(PANICKED, b"")


class Node(_native.NodeBase):
    """A node: it sends and receives messages, each exactly once. It *is* a key; addresses are hints.

        async with exonet.Node(allow="anyone", bind="0.0.0.0:4455") as node:
            print(node.address)
            async for delivery in node:
                print(delivery.body)
                delivery.ack()

    ``allow`` says who may talk to the node: ``"anyone"``, a list of node ids, or a function of an id and an address, which is asked
    once of each stranger and has to answer at once. By default that is nobody but the peers that this node itself sends to.

    ``bind`` is the local address, as in ``"0.0.0.0:4455"``; by default any port. ``state_dir`` is the directory of a stored identity,
    made on first use; without it, the node has a fresh key that dies with it. ``durability`` says what a crash may take: ``"memory"``,
    ``"process"`` (the default of stored identities), ``"batched=MS"`` or ``"sync"``. ``carrier`` is ``"udp"`` (the default),
    ``"tcp"`` or ``"auto"``.

    ``attempts`` is how often a message is handed out before it is rejected. ``doubt_timeout`` is after how many seconds a message in
    doubt ends UNKNOWN: by default never. ``keepalive`` sends a sign of life after so many seconds of silence. ``idle_timeout`` is
    after how many seconds of silence a channel is forgotten. ``early=False`` keeps first messages until there is a channel.
    ``tell_refused=False`` does not tell strangers that they are not let in. ``max_message`` is the longest message that is sent or
    taken, in bytes: by default 64 MiB. ``queued_messages`` is how many may wait for one peer: by default 65,536.
    """

    _methods: List[Tuple[Any, Handler, int, Optional[float]]]
    _servings: List[Serving]

    def __init__(self, **options: Any) -> None:
        self._methods = []
        self._servings = []

    def method(
        self, name: Union[str, bytes, None] = None, *, concurrency: int = CONCURRENCY, timeout: Optional[float] = None
    ) -> Callable[[AnyHandler], AnyHandler]:
        """Serves a method by the function that is decorated, from now on or from the start of the node on.

            @node.method("price")
            async def price(request):
                return b"3" if request.body == b"tea" else b"4"

        The function gets a ``Request`` and gives bytes, a text, or None for an empty reply. It is async, or returns at once. It
        raises ``Failure`` if it has no reply. Of async functions, ``concurrency`` run at once at most, and one that runs for longer
        than ``timeout`` seconds is cancelled. Without ``name``, the method has the name of the function.
        """

        def serve(handler: AnyHandler) -> AnyHandler:
            method: Union[str, bytes] = getattr(handler, "__name__", "") if name is None else name
            if self.is_started:
                self.serve(method, handler, concurrency=concurrency, timeout=timeout)
            else:
                self._methods.append((method, handler, concurrency, timeout))
            return handler

        return serve

    def serve(
        self,
        method: Union[str, bytes],
        handler: Handler,
        *,
        concurrency: int = CONCURRENCY,
        timeout: Optional[float] = None,
    ) -> Serving:
        """Serves a method by ``handler``, as ``method`` does. Gives what stops that."""
        serving = Serving(self._serve(method, concurrency, timeout), handler, timeout)
        self._servings.append(serving)
        return serving

    def ping(self, to: Union[str, _native.Peer], timeout: float = 5.0) -> _native.Operation[Optional[float]]:
        """A round trip to a peer and back, in seconds; None: no answer came in time."""
        return self.peer(to).ping(timeout)

    async def start(self: Self) -> Self:  # type: ignore[override]
        """Starts the node, and gives it. ``async with`` does so by itself."""
        await super().start()
        methods, self._methods = self._methods, []
        for method, handler, concurrency, timeout in methods:
            self.serve(method, handler, concurrency=concurrency, timeout=timeout)
        return self

    async def __aenter__(self: Self) -> Self:
        return self if self.is_started else await self.start()

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            await self.close()
        finally:
            for serving in self._servings:
                serving._cancel()
            self._servings.clear()
