"""Writes the steps of one turn, one after the other, each until it is durable or the lease is lost.

Invariant: a step that was sent is written to its end, also when who asked for it is interrupted: it may
have taken effect, so no other step can have its number before that is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from herma.agent_runner import wire
from herma.agent_runner.authority import Authority
from herma.agent_runner.lease_keeper import LeaseKeeper
from herma.api.lease.v1 import lease_pb2
from herma.common.errors import HermaError, Kind, LeaseLost, Unauthenticated

_ATTEMPT_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
# All but a deterministic refusal is tried again while the lease lives.
_PASSING = frozenset({Kind.UNAVAILABLE, Kind.DEADLINE, Kind.CANCELLED, Kind.INTERNAL})


class Journal:
    """The turn's ledger, as its runner writes it."""

    def __init__(self, authority: Authority, keeper: LeaseKeeper, last_step: int) -> None:
        self._authority = authority
        self._keeper = keeper
        self._last_step = last_step
        self._lock = asyncio.Lock()

    async def append(
        self, operations: Sequence[lease_pb2.Operation], end: lease_pb2.Finish | None = None
    ) -> lease_pb2.AppendResponse:
        """Writes one step.  While the database or the authority is away, it is repeated.

        Cancelled before it is the step's turn, it writes nothing.

        Raises:
            LeaseLost: when the lease is not the newest, or must be given up meanwhile.
            HermaError: for a deterministic refusal.
        """
        await self._lock.acquire()
        writing = asyncio.create_task(self._write(operations, end))
        writing.add_done_callback(self._written)
        return await asyncio.shield(writing)

    def _written(self, writing: asyncio.Task[lease_pb2.AppendResponse]) -> None:
        self._lock.release()
        if not writing.cancelled():
            # Whoever still waits is told; nobody else is to be.
            writing.exception()

    async def _write(
        self, operations: Sequence[lease_pb2.Operation], end: lease_pb2.Finish | None
    ) -> lease_pb2.AppendResponse:
        request = wire.append_request(self._last_step + 1, operations, end)
        while not self._keeper.is_lost:
            try:
                response = await self._authority.append(
                    self._keeper.turn_token, request, _ATTEMPT_SECONDS
                )
            except (LeaseLost, Unauthenticated) as error:
                self._keeper.give_up()
                raise LeaseLost() from error
            except HermaError as error:
                if error.kind not in _PASSING:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._last_step += 1
            if response.interrupt_requested:
                self._keeper.interrupted.set()
            return response
        raise LeaseLost()
