"""The only place where tests poll."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

_Result = TypeVar("_Result")


async def eventually(
    check: Callable[[], _Result | Awaitable[_Result]], what: str, timeout: float = 30.0
) -> _Result:
    """Waits until `check` answers something true, and answers it; fails after the timeout."""
    until = time.monotonic() + timeout
    while True:
        found = check()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        if time.monotonic() >= until:
            raise AssertionError(f"never happened within {timeout} s: {what}; last seen: {found!r}")
        await asyncio.sleep(0.02)
