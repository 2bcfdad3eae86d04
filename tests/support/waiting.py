"""The only place where tests poll."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

_Result = TypeVar("_Result")


@overload
async def eventually(
    check: Callable[[], Awaitable[_Result | None]], what: str, timeout: float = 30.0
) -> _Result: ...


@overload
async def eventually(
    check: Callable[[], _Result | None], what: str, timeout: float = 30.0
) -> _Result: ...


async def eventually(check: Callable[[], Any], what: str, timeout: float = 30.0) -> Any:
    """Waits until `check` answers something true, and answers it.

    What `check` raises is not waited out.

    Raises:
        AssertionError: when that does not come within `timeout` seconds, with what was seen last; also
            when `check` itself does not come back.
    """
    last = "nothing yet"
    scope = asyncio.timeout(timeout)
    try:
        async with scope:
            while True:
                found = check()
                if inspect.isawaitable(found):
                    found = await found
                if found:
                    return found
                last = repr(found)
                await asyncio.sleep(0.02)
    except TimeoutError:
        if not scope.expired():
            raise
        raise AssertionError(f"never happened within {timeout:g} s: {what}; last seen: {last}") from None
