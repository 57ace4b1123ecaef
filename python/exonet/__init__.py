"""Messages between machines that arrive exactly once: encrypted, over UDP, with no broker in between.

    async with exonet.Node() as node:
        receipt = await node.send("ID@HOST:PORT", b"hello")
        print((await receipt).outcome)

``docs/python.md`` is the tutorial. ``exonet.blocking`` has the same without ``asyncio``.
"""

from . import errors, types
from ._native import (
    AtMostOnce,
    BatchReceipt,
    Delivery,
    Group,
    GroupReceipt,
    Member,
    Open,
    Operation,
    Peer,
    Receipt,
    Received,
    Reply,
    Request,
    Session,
    SessionListener,
    Settled,
    Stream,
    StreamListener,
    Tally,
    Verdict,
)
from .errors import *  # noqa: F403
from .node import Failure, Node, Serving, balanced, quorum
from .outcome import Outcome

__all__ = [
    "AtMostOnce",
    "BatchReceipt",
    "Delivery",
    "Failure",
    "Group",
    "GroupReceipt",
    "Member",
    "Node",
    "Open",
    "Operation",
    "Outcome",
    "Peer",
    "Receipt",
    "Received",
    "Reply",
    "Request",
    "Serving",
    "Session",
    "SessionListener",
    "Settled",
    "Stream",
    "StreamListener",
    "Tally",
    "Verdict",
    "balanced",
    "errors",
    "quorum",
    "types",
    *errors.__all__,
]
