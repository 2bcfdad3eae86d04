"""What many use at a time, shared so that nobody has all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Share:
    free: asyncio.Semaphore
    users: int = 0


class Shares:
    """Bounds what each holder has at a time; who wants more waits.

    Args:
        most: For each holder.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._shares: dict[str, _Share] = {}

    @asynccontextmanager
    async def of(self, holder: str) -> AsyncIterator[None]:
        """One unit of a holder's share, while the block runs."""
        share = self._shares.setdefault(holder, _Share(asyncio.Semaphore(self._most)))
        share.users += 1
        try:
            async with share.free:
                yield
        finally:
            share.users -= 1
            if not share.users:
                del self._shares[holder]
