"""Keeps one lease alive, and knows when it must be given up.

Invariant: `is_lost` turns true at two thirds of the lease's time to live, counted on the monotonic
clock from *sending* the last successful renewal, whether or not anything could be sent meanwhile.  So
a runner that was stopped or cut off ceases to act before anyone else may hold the lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from herma.agent_runner.authority import Authority
from herma.common.errors import HermaError, LeaseLost, Unauthenticated
from herma.common.logs import logger

_log = logger(__name__)


class LeaseKeeper:
    """One lease.

    Args:
        ttl: Its time to live in seconds.
        claimed_at: When the claim was sent, on `now`'s clock.
    """

    def __init__(
        self,
        authority: Authority,
        turn_token: str,
        ttl: float,
        claimed_at: float,
        now: Callable[[], float],
    ) -> None:
        self._authority = authority
        self._ttl = ttl
        self._now = now
        self._until = claimed_at + ttl * 2 / 3
        self._fenced = False
        self.turn_token = turn_token
        self.lost = asyncio.Event()
        self.interrupted = asyncio.Event()

    @property
    def is_lost(self) -> bool:
        """The lease must not be used any more."""
        if self._fenced or self._now() >= self._until:
            self.lost.set()
        return self.lost.is_set()

    def give_up(self) -> None:
        """Somebody else holds the session now."""
        self._fenced = True
        self.lost.set()

    async def run(self) -> None:
        """Renews until the lease is lost or this is cancelled."""
        # The first renewal comes soon: it also acknowledges a lease that no step was written under.
        pause = min(1.0, self._ttl / 6)
        while True:
            try:
                async with asyncio.timeout(min(pause, max(0.0, self._until - self._now()))):
                    await self.lost.wait()
            except TimeoutError:
                pass
            if self.is_lost:
                break
            pause = await self._renew()
        _log.warning("the lease was lost")

    async def _renew(self) -> float:
        sent = self._now()
        try:
            renewal = await self._authority.renew(
                self.turn_token, timeout=max(0.1, min(5.0, self._until - sent))
            )
        except (LeaseLost, Unauthenticated):
            self.give_up()
            return 0
        except HermaError as error:
            _log.warning("the lease was not renewed", reason=error.reason)
            return min(1.0, self._ttl / 30)
        self._until = sent + self._ttl * 2 / 3
        self.turn_token = renewal.turn_token
        if renewal.interrupt_requested:
            self.interrupted.set()
        return self._ttl / 3
