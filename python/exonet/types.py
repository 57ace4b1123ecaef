"""Names for the types of arguments."""

from typing import Any, Callable, Iterable, Literal, Tuple, Union

__all__ = ["Allow", "Buffer", "Carrier", "Confirm", "Mode", "PriorityName", "StatusName", "Text"]

Buffer = Any
"""Bytes, or any object with a buffer."""
Text = Union[str, bytes]
"""A name, of at most 255 bytes."""
PriorityName = Literal["urgent", "normal", "low", "bulk"]
"""Which message goes first when several wait."""
Confirm = Literal["delivered", "processed"]
"""What the sender of a message wants to be told."""
StatusName = Literal["queued", "in doubt", "settled"]
"""Where a message stands."""
Mode = Union[Literal["all", "any"], Tuple[str, int], Tuple[str, int, int]]
"""Whom a message to a group is for: see ``quorum`` and ``balanced`` for the tuples."""
WhenFull = Literal["fall out", "wait"]
"""What happens when a member of a stream to a group is too slow."""
Allow = Union[Literal["anyone"], Iterable[str], Callable[[str, str], bool], None]
"""Who may talk to a node."""
Carrier = Literal["udp", "tcp", "auto"]
"""What carries packets."""
