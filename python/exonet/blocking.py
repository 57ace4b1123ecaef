"""The same without ``asyncio``: calls that block the thread that makes them. Other threads of Python run meanwhile.

    with exonet.blocking.Node() as node:
        receipt = node.send("ID@HOST:PORT", b"hello")
        print(receipt.wait().outcome)

What waits takes a ``timeout`` in seconds, and raises ``exonet.Timeout`` when it has passed; None, the default, waits for ever. Ctrl-C
ends any wait. A node may be shared by threads.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, TypeVar, Union

from . import _native
from .errors import CallError, Closed
from .node import _fail
from .types import Allow, Buffer, Confirm, Mode, PriorityName, Text, WhenFull

__all__ = [
    "AtMostOnce",
    "Group",
    "GroupStream",
    "Node",
    "Peer",
    "Serving",
    "Session",
    "SessionListener",
    "Stream",
    "StreamAnswers",
    "StreamListener",
]

Self = TypeVar("Self", bound="Node")
PeerLike = Union[str, _native.Peer, "Peer"]
Handler = Callable[[_native.Request], Union[Buffer, str, None]]
AnyHandler = TypeVar("AnyHandler", bound=Handler)


class Serving:
    """A method that is served by threads, until this is stopped or the node is closed."""

    def __init__(self, calls: _native.Calls, handler: Handler, threads: int) -> None:
        self._calls = calls
        self._handler = handler
        for at in range(threads):
            threading.Thread(target=self._serve, name=f"exonet-serve-{at}", daemon=True).start()

    def stop(self, timeout: float = 5.0) -> int:
        """Takes no new call, and waits until those that run have been answered, for ``timeout`` seconds at most.

        Gives how many still run.
        """
        left: int = self._calls.stop(timeout).wait()
        return left

    def _serve(self) -> None:
        while True:
            try:
                (request,) = self._calls.next_many(1).wait()
            except Closed:
                return
            try:
                request._reply(self._handler(request))
            except Exception as error:
                _fail(request, error)


class AtMostOnce:
    """Receives messages without a guard: each is delivered as it is returned. Made by ``Node.at_most_once()``."""

    def __init__(self, receiver: _native.AtMostOnce) -> None:
        self._receiver = receiver

    def recv(self, timeout: Optional[float] = None) -> _native.Received:
        """The next message."""
        return self._receiver.recv().wait(timeout)

    def recv_many(self, max: int = 256, timeout: Optional[float] = None) -> List[_native.Received]:
        """At least one message, and ``max`` at most."""
        return self._receiver.recv_many(max).wait(timeout)

    def __iter__(self) -> Iterator[_native.Received]:
        while True:
            try:
                yield self.recv()
            except Closed:
                return


class Stream:
    """A stream with a peer: messages in order, both ways. See ``exonet.Stream``."""

    def __init__(self, stream: _native.Stream) -> None:
        self._stream = stream

    @property
    def peer(self) -> str:
        """The id of the peer at the other end."""
        return self._stream.peer

    @property
    def name(self) -> str:
        """The name of the stream."""
        return self._stream.name

    def send(
        self,
        body: Buffer,
        *,
        deadline: Optional[float] = None,
        confirm: Optional[Confirm] = None,
        timeout: Optional[float] = None,
    ) -> _native.Receipt:
        """Sends a message behind all that were sent before it in this stream. Gives its ``Receipt``."""
        return self._stream.send(body, deadline=deadline, confirm=confirm).wait(timeout)

    def ack_and_send(
        self,
        delivery: _native.Delivery,
        body: Buffer,
        *,
        deadline: Optional[float] = None,
        confirm: Optional[Confirm] = None,
        timeout: Optional[float] = None,
    ) -> _native.Receipt:
        """Acknowledges a delivery, and sends a message in this stream, in one step. See ``exonet.Stream.ack_and_send``."""
        return self._stream.ack_and_send(delivery, body, deadline=deadline, confirm=confirm).wait(timeout)

    def recv(self, timeout: Optional[float] = None) -> Optional[_native.Delivery]:
        """The next message, or None at the end of the stream."""
        return self._stream.recv().wait(timeout)

    def close(self, timeout: Optional[float] = None) -> _native.Receipt:
        """Ends this direction behind all that was sent in it."""
        return self._stream.close().wait(timeout)

    def reset(self, timeout: Optional[float] = None) -> _native.Receipt:
        """Gives up what has not left of this direction, and ends it."""
        return self._stream.reset().wait(timeout)

    def stop(self, reason: str = "") -> None:
        """Wants nothing more: what comes until the stream ends is rejected, with this reason."""
        self._stream.stop(reason).wait()

    def __iter__(self) -> Iterator[_native.Delivery]:
        return iter(self.recv, None)


class StreamListener:
    """Takes streams of one name that peers begin. See ``exonet.StreamListener``."""

    def __init__(self, listener: _native.StreamListener) -> None:
        self._listener = listener

    def accept(self, timeout: Optional[float] = None) -> Stream:
        """The next stream of this name."""
        return Stream(self._listener.accept().wait(timeout))

    def __iter__(self) -> Iterator[Stream]:
        while True:
            try:
                yield self.accept()
            except Closed:
                return


class Session:
    """One end of a session. See ``exonet.Session``."""

    def __init__(self, session: _native.Session) -> None:
        self._session = session

    @property
    def id(self) -> str:
        """Which session it is."""
        return self._session.id

    @property
    def peer(self) -> str:
        """The id of the peer at the other end."""
        return self._session.peer

    @property
    def name(self) -> str:
        """Its name."""
        return self._session.name

    def send(
        self,
        body: Buffer,
        *,
        deadline: Optional[float] = None,
        confirm: Optional[Confirm] = None,
        timeout: Optional[float] = None,
    ) -> _native.Receipt:
        """Sends a message of any size behind all that were sent before it in this session. Gives its ``Receipt``."""
        return self._session.send(body, deadline=deadline, confirm=confirm).wait(timeout)

    def answer(
        self,
        delivery: _native.Delivery,
        body: Buffer,
        *,
        deadline: Optional[float] = None,
        confirm: Optional[Confirm] = None,
        timeout: Optional[float] = None,
    ) -> _native.Receipt:
        """Acknowledges a delivery of a session, and sends a message in this one, in one step. See ``exonet.Session.answer``."""
        return self._session.answer(delivery, body, deadline=deadline, confirm=confirm).wait(timeout)

    def recv(self, timeout: Optional[float] = None) -> Optional[_native.Delivery]:
        """The next message, or None when the peer has closed the session."""
        return self._session.recv().wait(timeout)

    def finish(self, timeout: Optional[float] = None) -> _native.Receipt:
        """Sends nothing more."""
        return self._session.finish().wait(timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Ends the session, and waits until what was sent is settled."""
        self._session.close(timeout).wait()

    def abort(self) -> None:
        """Ends the session now."""
        self._session.abort().wait()

    def refuse(self, reason: str = "") -> None:
        """Refuses a session that a peer has opened, and tells it why."""
        self._session.refuse(reason).wait()

    def detach(self) -> None:
        """Gives the handle up, and leaves the session as it is."""
        self._session.detach().wait()

    def __iter__(self) -> Iterator[_native.Delivery]:
        return iter(self.recv, None)


class SessionListener:
    """Takes sessions of one name that peers open. See ``exonet.SessionListener``."""

    def __init__(self, listener: _native.SessionListener) -> None:
        self._listener = listener

    def accept(self, timeout: Optional[float] = None) -> Session:
        """The next session of this name."""
        return Session(self._listener.accept().wait(timeout))

    def __iter__(self) -> Iterator[Session]:
        while True:
            try:
                yield self.accept()
            except Closed:
                return


class Peer:
    """Another node. Made by ``Node.peer()``. See ``exonet.Peer``."""

    def __init__(self, peer: _native.Peer) -> None:
        self._peer = peer

    @property
    def id(self) -> str:
        """The id of the peer."""
        return self._peer.id

    @property
    def address(self) -> str:
        """The id of the peer and its address hints, as they were given."""
        return self._peer.address

    def send(
        self,
        body: Buffer,
        *,
        tag: Optional[Text] = None,
        priority: Optional[PriorityName] = None,
        deadline: Optional[float] = None,
        confirm: Optional[Confirm] = None,
        early: Optional[bool] = None,
        timeout: Optional[float] = None,
    ) -> _native.Receipt:
        """Sends a message to this peer. See ``Node.send``."""
        sent = self._peer.send(body, tag=tag, priority=priority, deadline=deadline, confirm=confirm, early=early)
        return sent.wait(timeout)

    def send_many(self, bodies: Iterable[Buffer], timeout: Optional[float] = None) -> _native.BatchReceipt:
        """Sends several bodies at once, with one receipt."""
        return self._peer.send_many(bodies).wait(timeout)

    def call(
        self,
        method: Text,
        body: Buffer = b"",
        *,
        timeout: Optional[float] = None,
        priority: Optional[PriorityName] = None,
        early: Optional[bool] = None,
    ) -> _native.Reply:
        """Calls a method of this peer, and waits for its ``Reply``."""
        return self._peer.call(method, body, timeout=timeout, priority=priority, early=early).wait()

    def ping(self, timeout: float = 5.0) -> Optional[float]:
        """A round trip to the peer and back, in seconds; None: no answer came in time."""
        return self._peer.ping(timeout).wait()

    def stats(self) -> Optional[Dict[str, float]]:
        """Figures about the peer, by their names; None: the node does not know the peer now. See ``exonet.Peer.stats``."""
        return self._peer.stats()

    def close(self, timeout: float = 5.0) -> List[_native.Open]:
        """Waits until all that was sent to this peer is settled, for ``timeout`` seconds at most, then gives up the rest. Gives the rest."""
        return self._peer.close(timeout).wait()

    def abandon(self) -> None:
        """Gives up every open message to the peer: what has left is UNKNOWN, the rest CANCELLED."""
        self._peer.abandon()

    def __repr__(self) -> str:
        return repr(self._peer)


class Group:
    """Peers to which messages are sent together. See ``exonet.Group``."""

    def __init__(self, group: _native.Group) -> None:
        self._group = group

    def members(self) -> List[str]:
        """Who is a member now: their ids."""
        return self._group.members()

    def add(self, member: PeerLike) -> None:
        """Adds a member: it gets later messages."""
        self._group.add(member)

    def remove(self, member: str, *, now: bool = False) -> None:
        """Removes a member: it gets no later message."""
        self._group.remove(member, now=now)

    def send(
        self,
        body: Buffer,
        *,
        mode: Mode,
        tag: Optional[Text] = None,
        priority: Optional[PriorityName] = None,
        deadline: Optional[float] = None,
        confirm: Optional[Confirm] = None,
    ) -> _native.GroupReceipt:
        """Sends a message to members of the group, as ``mode`` says. The ``wait()`` of what it gives gives the verdict."""
        sent = self._group.send(body, mode=mode, tag=tag, priority=priority, deadline=deadline, confirm=confirm)
        return sent.wait()

    def stream(
        self,
        name: Text,
        *,
        queue: Optional[int] = None,
        when_full: Optional[WhenFull] = None,
        priority: Optional[PriorityName] = None,
    ) -> GroupStream:
        """A stream to the current members of the group. See ``exonet.Group.stream``."""
        return GroupStream(self._group.stream(name, queue=queue, when_full=when_full, priority=priority))

    def call(
        self, method: Text, body: Buffer = b"", *, timeout: Optional[float] = None
    ) -> List[Tuple[str, Union[_native.Reply, CallError]]]:
        """Calls a method of all members: pairs of an id and a ``Reply``, or the ``CallError`` in its place."""
        return self._group.call(method, body, timeout=timeout).wait()


class GroupStream:
    """A stream to the members of a group. See ``exonet.GroupStream``."""

    def __init__(self, stream: _native.GroupStream) -> None:
        self._stream = stream

    @property
    def name(self) -> str:
        """The name of the stream at every member."""
        return self._stream.name

    def members(self) -> List[str]:
        """The ids of the members that are in the stream now."""
        return self._stream.members()

    def backlog(self, member: str) -> Optional[int]:
        """The number of messages of the stream that are open at a member. None: the member is not in the stream."""
        return self._stream.backlog(member)

    def add(self, member: str) -> None:
        """Adds a member of the group to the stream: it gets later messages."""
        self._stream.add(member)

    def remove(self, member: str, *, now: bool = False) -> None:
        """Removes a member from this stream only: it gets no later messages."""
        self._stream.remove(member, now=now)

    def send(
        self,
        body: Buffer,
        *,
        mode: Mode,
        deadline: Optional[float] = None,
        confirm: Optional[Confirm] = None,
        timeout: Optional[float] = None,
    ) -> _native.GroupReceipt:
        """Sends a message to all members of the stream. Waits while the stream is full. The ``wait()`` of the receipt gives the verdict."""
        return self._stream.send(body, mode=mode, deadline=deadline, confirm=confirm).wait(timeout)

    def close(self, timeout: Optional[float] = None) -> _native.GroupReceipt:
        """Ends the stream at every member, after everything that was sent."""
        return self._stream.close().wait(timeout)

    def reset(self, timeout: Optional[float] = None) -> _native.GroupReceipt:
        """Withdraws the messages that have not left, and ends the stream at every member by a reset."""
        return self._stream.reset().wait(timeout)

    def departed(self, timeout: Optional[float] = None) -> Optional[_native.Departure]:
        """The next member that leaves the stream before its end, or None at the end of the stream."""
        return self._stream.departed().wait(timeout)

    def answers(self, member: str) -> Optional[StreamAnswers]:
        """The messages that a member sends under the stream's name. None: it is not in the stream, or an earlier call got them."""
        answers = self._stream.answers(member)
        return None if answers is None else StreamAnswers(answers)


class StreamAnswers:
    """The messages that a member of a group sends under the name of a stream. See ``exonet.StreamAnswers``."""

    def __init__(self, answers: _native.StreamAnswers) -> None:
        self._answers = answers

    def recv(self, timeout: Optional[float] = None) -> Optional[_native.Delivery]:
        """The next message, or None at the end."""
        return self._answers.recv().wait(timeout)

    def __iter__(self) -> Iterator[_native.Delivery]:
        return iter(self.recv, None)


class Node:
    """A node whose calls block. Its options are those of ``exonet.Node``. Use it in a ``with`` block, or ``start()`` and ``close()`` it."""

    def __init__(self, **options: Any) -> None:
        self._node = _native.NodeBase(**options)
        self._methods: List[Tuple[Any, Handler, int, Optional[float]]] = []

    def start(self: Self) -> Self:
        """Starts the node, and gives it."""
        self._node.start().wait()
        methods, self._methods = self._methods, []
        for method, handler, threads, timeout in methods:
            self.serve(method, handler, threads=threads, timeout=timeout)
        return self

    def close(self, timeout: float = 5.0) -> List[_native.Open]:
        """Ends the node: waits until all is settled, for ``timeout`` seconds at most. Gives what is still open."""
        return self._node.close(timeout).wait()

    def __enter__(self: Self) -> Self:
        return self if self._node.is_started else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        """The id of this node: its public key."""
        return self._node.id

    @property
    def address(self) -> str:
        """How this node is reached from the same machine: ID@HOST:PORT."""
        return self._node.address

    @property
    def local_address(self) -> Tuple[str, int]:
        """The local address of the socket: host and port."""
        return self._node.local_address

    @property
    def is_started(self) -> bool:
        """Whether the node has been started."""
        return self._node.is_started

    def peers(self) -> List[str]:
        """The ids of the peers that are known now."""
        return self._node.peers()

    def peer(self, to: PeerLike) -> Peer:
        """A handle on a peer."""
        return Peer(self._node.peer(to))

    def stats(self) -> Dict[str, int]:
        """Figures about the node, by their names: what it has counted since it started, and what it holds now."""
        return self._node.stats()

    def set_allow(self, allow: Allow) -> None:
        """Changes which peers may talk to this node."""
        self._node.set_allow(allow)

    def send(
        self,
        to: PeerLike,
        body: Buffer,
        *,
        tag: Optional[Text] = None,
        priority: Optional[PriorityName] = None,
        deadline: Optional[float] = None,
        confirm: Optional[Confirm] = None,
        early: Optional[bool] = None,
        timeout: Optional[float] = None,
    ) -> _native.Receipt:
        """Sends a message: waits for room in the peer's queue, then queues it. See ``exonet.Node.send``."""
        sent = self._node.send(
            to, body, tag=tag, priority=priority, deadline=deadline, confirm=confirm, early=early
        )
        return sent.wait(timeout)

    def send_many(
        self, to: PeerLike, bodies: Iterable[Buffer], timeout: Optional[float] = None
    ) -> _native.BatchReceipt:
        """Sends several bodies at once, with one receipt."""
        return self._node.send_many(to, bodies).wait(timeout)

    def recv(self, timeout: Optional[float] = None) -> _native.Delivery:
        """The next message."""
        return self._node.recv().wait(timeout)

    def recv_many(self, max: int = 256, timeout: Optional[float] = None) -> List[_native.Delivery]:
        """At least one message, and ``max`` at most."""
        return self._node.recv_many(max).wait(timeout)

    def __iter__(self) -> Iterator[_native.Delivery]:
        while True:
            try:
                yield self.recv()
            except Closed:
                return

    def at_most_once(self) -> AtMostOnce:
        """Receives messages without a guard: each is delivered as it is returned."""
        return AtMostOnce(self._node.at_most_once())

    def recovered(self) -> List[Tuple[_native.Open, _native.Receipt]]:
        """What a former life of this identity had sent and not settled."""
        return self._node.recovered()

    def flush(self, timeout: Optional[float] = None) -> List[_native.Open]:
        """Waits until all that was sent so far is settled, for ``timeout`` seconds at most. Gives what is still open."""
        return self._node.flush(timeout).wait()

    def ping(self, to: PeerLike, timeout: float = 5.0) -> Optional[float]:
        """A round trip to a peer and back, in seconds; None: no answer came in time."""
        return self._node.peer(to).ping(timeout).wait()

    def call(
        self,
        to: PeerLike,
        method: Text,
        body: Buffer = b"",
        *,
        timeout: Optional[float] = None,
        priority: Optional[PriorityName] = None,
        early: Optional[bool] = None,
    ) -> _native.Reply:
        """Calls a method of a peer, and waits for its ``Reply``. See ``exonet.Node.call``."""
        return self._node.call(to, method, body, timeout=timeout, priority=priority, early=early).wait()

    def serve(
        self, method: Text, handler: Handler, *, threads: int = 4, timeout: Optional[float] = None
    ) -> Serving:
        """Serves a method by ``handler``, on as many threads. Gives what stops that."""
        return Serving(self._node._serve(method, threads, timeout), handler, threads)

    def method(
        self, name: Optional[Text] = None, *, threads: int = 4, timeout: Optional[float] = None
    ) -> Callable[[AnyHandler], AnyHandler]:
        """Serves a method by the function that is decorated. See ``exonet.Node.method``."""

        def serve(handler: AnyHandler) -> AnyHandler:
            method = getattr(handler, "__name__", "") if name is None else name
            if self._node.is_started:
                self.serve(method, handler, threads=threads, timeout=timeout)
            else:
                self._methods.append((method, handler, threads, timeout))
            return handler

        return serve

    def stream(self, to: PeerLike, name: Text) -> Stream:
        """A handle on the stream of this name with a peer."""
        return Stream(self._node.stream(to, name))

    def accept_stream(self, timeout: Optional[float] = None) -> Stream:
        """The next stream that a peer has begun, or goes on with."""
        return Stream(self._node.accept_stream().wait(timeout))

    def stream_listener(self, name: Text) -> StreamListener:
        """Takes the streams of this name. ``accept_stream`` gets them no longer."""
        return StreamListener(self._node.stream_listener(name))

    def session(
        self,
        to: PeerLike,
        name: Text,
        *,
        idle: Optional[float] = None,
        life: Optional[float] = None,
        longest: Optional[int] = None,
    ) -> Session:
        """Opens a session of this name with a peer."""
        return Session(self._node.session(to, name, idle=idle, life=life, longest=longest).wait())

    def attach_session(self, to: PeerLike, name: Text, id: str) -> Session:
        """Takes a handle on a session that this node takes part in already."""
        return Session(self._node.attach_session(to, name, id))

    def accept_session(self, timeout: Optional[float] = None) -> Session:
        """The next session that a peer opens."""
        return Session(self._node.accept_session().wait(timeout))

    def session_listener(self, name: Text) -> SessionListener:
        """Takes the sessions of this name. ``accept_session`` gets them no longer."""
        return SessionListener(self._node.session_listener(name))

    def sessions(self) -> List[Tuple[str, str, str]]:
        """The sessions that this node takes part in: of each the id of the peer, its own id, and its name."""
        return self._node.sessions()

    def group(self, members: Iterable[PeerLike], *, patience: Optional[float] = None) -> Group:
        """A group of peers, to which messages are sent together."""
        return Group(self._node.group(members, patience=patience))

    def __repr__(self) -> str:
        return repr(self._node)
