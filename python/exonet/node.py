"""The node, for asyncio."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Optional, Type, TypeVar

from . import _native

__all__ = ["Node"]

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native._after_fork)

Self = TypeVar("Self", bound="Node")


class Node(_native.NodeBase):
    """A node: it sends and receives messages, each exactly once. It *is* a key; addresses are hints."""

    async def __aenter__(self: Self) -> Self:
        if not self.is_started:
            await self.start()
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()
