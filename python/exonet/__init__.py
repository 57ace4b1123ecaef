"""Messages between machines that arrive exactly once: encrypted, over UDP, with no broker in between.

    async with exonet.Node() as node:
        receipt = await node.send("ID@HOST:PORT", b"hello")
        print((await receipt).outcome)

``docs/python.md`` is the tutorial. ``exonet.blocking`` has the same without ``asyncio``.
"""

from . import errors
from ._native import (
    AtMostOnce,
    BatchReceipt,
    Delivery,
    Open,
    Operation,
    Peer,
    Receipt,
    Received,
    Settled,
    Tally,
)
from .errors import *  # noqa: F403
from .node import Node
from .outcome import Outcome

__all__ = [
    "AtMostOnce",
    "BatchReceipt",
    "Delivery",
    "Node",
    "Open",
    "Operation",
    "Outcome",
    "Peer",
    "Receipt",
    "Received",
    "Settled",
    "Tally",
    *errors.__all__,
]
