"""One session's row, locked until the transaction ends: where sequence numbers come from.

Invariant: whoever writes events, positions or epochs of a session holds this lock, so each of them is
gapless and in commit order.  Events are gathered and written once, by `flush`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from herma.common.errors import NotFound
from herma.common.postgres import Connection


@dataclass(slots=True)
class LockedSession:
    """Mutable for the length of one transaction."""

    connection: Connection
    tenant_id: UUID
    id: UUID
    principal_id: UUID
    profile_id: UUID
    last_seq: int
    last_position: int
    epoch: int
    system_prompt: str | None
    # The only turn that the prompt holds for; None when it holds for the session.
    system_prompt_turn: UUID | None = None
    _events: list[tuple[int, str, UUID, str]] = field(default_factory=list)

    def emit(self, kind: str, turn_id: UUID, data: Mapping[str, object]) -> int:
        """Gathers one event; its seq."""
        self.last_seq += 1
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        self._events.append((self.last_seq, kind, turn_id, text))
        return self.last_seq

    def take_position(self) -> int:
        """The next place in the transcript."""
        self.last_position += 1
        return self.last_position

    def raise_epoch(self) -> int:
        """Fences every earlier lease; the new epoch."""
        self.epoch += 1
        return self.epoch

    async def flush(self) -> None:
        """Writes the gathered events and the counters, and derives whether a turn may be claimed."""
        if self._events:
            seqs, kinds, turns, texts = zip(*self._events, strict=True)
            await self.connection.execute(
                """
                INSERT INTO authority.events (tenant_id, session_id, seq, kind, turn_id, data)
                SELECT $1, $2, e.* FROM unnest($3::bigint[], $4::text[], $5::uuid[], $6::text[]) e
                """,
                self.tenant_id,
                self.id,
                seqs,
                kinds,
                turns,
                texts,
            )
            self._events.clear()
        await self.connection.execute(
            """
            UPDATE authority.sessions s
            SET last_seq = $3, last_position = $4, epoch = $5, system_prompt = $6,
                system_prompt_turn = $7,
                runnable_since = CASE WHEN waiting.leased OR waiting.attempt IS NULL THEN NULL
                                      ELSE coalesce(s.runnable_since, now()) END,
                runnable_class = CASE WHEN waiting.attempt > 0 THEN 0 ELSE 1 END
            FROM (SELECT
                    EXISTS (SELECT FROM authority.leases l
                            WHERE l.tenant_id = $1 AND l.session_id = $2) AS leased,
                    (SELECT t.attempt FROM authority.turns t
                     WHERE t.tenant_id = $1 AND t.session_id = $2
                       AND t.state IN ('queued', 'running', 'waiting')
                     ORDER BY t.seq LIMIT 1) AS attempt) waiting
            WHERE s.tenant_id = $1 AND s.id = $2
            """,
            self.tenant_id,
            self.id,
            self.last_seq,
            self.last_position,
            self.epoch,
            self.system_prompt,
            self.system_prompt_turn,
        )


async def lock_session(
    connection: Connection, tenant_id: UUID, session_id: UUID, principal_id: UUID | None = None
) -> LockedSession:
    """Locks a session's row.

    Args:
        principal_id: If given, whose it must be.

    Raises:
        NotFound: when there is none, or it is not the principal's.
    """
    row = await connection.fetchrow(
        """
        SELECT principal_id, profile_id, last_seq, last_position, epoch, system_prompt,
               system_prompt_turn
        FROM authority.sessions WHERE tenant_id = $1 AND id = $2 FOR UPDATE
        """,
        tenant_id,
        session_id,
    )
    if row is None or (principal_id is not None and row["principal_id"] != principal_id):
        raise NotFound("no such session", reason="SESSION_NOT_FOUND")
    return LockedSession(connection, tenant_id, session_id, *row.values())
