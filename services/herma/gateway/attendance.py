"""Answers that take long: what is worked on as long as somebody may and wants to hear it.

Invariant: nothing outlives the answer.  Whoever ends first (the work, the client, its rights, the
gateway) ends the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from enum import Enum
from typing import Any, Final

from herma.common.errors import HermaError, Kind
from herma.common.logs import logger
from herma.gateway.pace import Pace

_REVOKED: Final = frozenset({Kind.UNAUTHENTICATED, Kind.FORBIDDEN})

_log = logger(__name__)

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Departure(Enum):
    """Who ended first."""

    DONE = "done"
    CLIENT = "client"
    RIGHTS = "rights"
    GATEWAY = "gateway"


async def attend(
    work: Coroutine[Any, Any, None],
    receive: Receive,
    *,
    recheck: Callable[[], Awaitable[object]],
    stopping: asyncio.Event,
    pace: Pace,
) -> Departure:
    """Works until the first of its parties ends, and cancels what is left.

    Args:
        receive: Of the request, whose body was read.
        recheck: Raises `Unauthenticated` or `PermissionDenied` when the client's rights are gone.
        stopping: Set when the gateway stops.

    Raises:
        Exception: what the work raised.
    """
    working = asyncio.ensure_future(work)
    parties = {
        asyncio.ensure_future(_gone(receive)): Departure.CLIENT,
        asyncio.ensure_future(_rights_gone(recheck, pace)): Departure.RIGHTS,
        asyncio.ensure_future(stopping.wait()): Departure.GATEWAY,
    }
    try:
        ended, _ = await asyncio.wait([working, *parties], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, *parties):
            task.cancel()
        for outcome in await asyncio.gather(*parties, return_exceptions=True):
            if isinstance(outcome, Exception):
                _log.error("an answer's attendance broke", exc_info=outcome)
        await asyncio.gather(working, return_exceptions=True)
    if working in ended:
        working.result()
        return Departure.DONE
    return next(departure for task, departure in parties.items() if task in ended)


async def _gone(receive: Receive) -> None:
    """Waits until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _rights_gone(recheck: Callable[[], Awaitable[object]], pace: Pace) -> None:
    """Ends when the rights are gone; not when nobody can tell, for then nothing is shown either."""
    while True:
        await asyncio.sleep(pace.recheck)
        try:
            await recheck()
        except HermaError as error:
            if error.kind in _REVOKED:
                return
