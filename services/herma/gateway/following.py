"""A session's events across restarts of session-authority: the one place that resumes a subscription.

Invariant: an event is yielded once and in order, whatever replica answers; streamed text, which is
outside the sequence, may come again from its beginning.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Final

from herma.api.session.v1 import session_pb2
from herma.common.errors import HermaError, Kind
from herma.gateway.pace import Pace

# Failures after which the stream goes on; INTERNAL is what a transport cut in mid-message looks like.
_PASSING: Final = frozenset({Kind.UNAVAILABLE, Kind.DEADLINE, Kind.CANCELLED, Kind.INTERNAL})

Subscribe = Callable[[int], AsyncIterator[session_pb2.SubscribeResponse]]


async def follow(
    subscribe: Subscribe, after: int, *, ends: bool, pace: Pace
) -> AsyncIterator[session_pb2.SubscribeResponse]:
    """What the authority says after a number, over its restarts.

    Args:
        subscribe: Opens a subscription after a number.
        ends: The authority may end it: it was asked to, after a turn.  Unasked, it ends a subscription
            only because it is stopping.

    Raises:
        HermaError: when the authority refuses.
    """
    pause = pace.backoff
    while True:
        try:
            async with aclosing(subscribe(after)) as items:  # type: ignore[type-var]  # a generator
                async for item in items:
                    if item.HasField("event"):
                        after = item.event.seq
                    pause = pace.backoff
                    yield item
            if ends:
                return
        except HermaError as error:
            if error.kind not in _PASSING:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 2, pace.backoff_most)
