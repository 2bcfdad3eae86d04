"""Stores streamed text in batches across sessions, without waiting for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

from herma.common.errors import HermaError
from herma.common.logs import logger
from herma.common.postgres import Database
from herma.session_authority.domain.model import Delta

_log = logger(__name__)


class DeltaWriter:
    """Gathers deltas and writes them together, one transaction per tenant and batch.

    Streamed text may be lost: it is only ever shown, and the whole message is appended durably.

    Args:
        written: Called with each session whose deltas became visible.
    """

    def __init__(self, database: Database, written: Callable[[UUID], None]) -> None:
        self._database = database
        self._written = written
        self._waiting: list[tuple[UUID, UUID, Delta]] = []
        self._some = asyncio.Event()

    def put(self, tenant_id: UUID, session_id: UUID, delta: Delta) -> None:
        """Hands over one delta; drops it when far too many wait."""
        if len(self._waiting) < 10_000:
            self._waiting.append((tenant_id, session_id, delta))
            self._some.set()

    async def run(self) -> None:
        """Writes until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            batch, self._waiting = self._waiting, []
            by_tenant: dict[UUID, list[tuple[UUID, Delta]]] = {}
            for tenant_id, session_id, delta in batch:
                by_tenant.setdefault(tenant_id, []).append((session_id, delta))
            for tenant_id, deltas in by_tenant.items():
                try:
                    await self._write(tenant_id, deltas)
                except HermaError as error:
                    _log.warning("streamed text was dropped", reason=error.reason)

    async def _write(self, tenant_id: UUID, deltas: list[tuple[UUID, Delta]]) -> None:
        async with self._database.transaction(tenant_id) as connection:
            await connection.execute("SET LOCAL synchronous_commit = off")
            await connection.executemany(
                """
                INSERT INTO authority.deltas (tenant_id, message_id, attempt, "offset", text)
                SELECT $1, $2, $3, $4, $5 FROM authority.turns t
                WHERE t.tenant_id = $1 AND t.id = $6 AND t.open_message_id = $2
                FOR KEY SHARE -- the turn is not deleted meanwhile
                ON CONFLICT DO NOTHING
                """,
                [(tenant_id, d.message_id, d.attempt, d.offset, d.text, d.turn_id) for _, d in deltas],
            )
        for session_id in {session_id for session_id, _ in deltas}:
            self._written(session_id)
