"""One session's row, locked until the transaction ends: where sequence numbers come from.

Invariant: whoever writes events, positions or epochs of a session holds this lock, so each of them is
gapless and in commit order.  Events are gathered and written once, by `flush`.

The lock is taken in the round trip that begins the transaction, and what depends on it is read by a
statement of its own after that: a statement that waited for a lock sees other tables as they were before
it waited.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, field
from uuid import UUID

from herma.common.errors import NotFound
from herma.common.postgres import Connection, Database

_READ = """
    SELECT principal_id, profile_id, last_seq, last_position, epoch
    FROM authority.sessions WHERE tenant_id = $1 AND id = $2
"""

_EVENTS = """
    told AS (
        INSERT INTO authority.events (tenant_id, session_id, seq, kind, turn_id, data)
        SELECT $1, $2, e.* FROM unnest($3::bigint[], $4::text[], $5::uuid[], $6::text[]) e
    )
"""

# The step, with the answer to give again; using a lease acknowledges it.
_STEP = """
    moved AS (
        UPDATE authority.turns SET last_step = $14 WHERE tenant_id = $1 AND id = $13
    ), used AS (
        UPDATE authority.leases SET acknowledged = true
        WHERE tenant_id = $1 AND session_id = $2 AND NOT acknowledged
    ), stepped AS (
        INSERT INTO authority.steps (tenant_id, turn_id, step, epoch, digest, message_ids, call_ids,
                                     last_seq)
        VALUES ($1, $13, $14, $15, $16, $17, $18, $7)
    )
"""

# Whether a turn may be claimed follows from the session's leases and open turns.
_COUNTERS = """
    UPDATE authority.sessions s
    SET last_seq = $7, last_position = $8, epoch = $9, system_prompt = coalesce($10, system_prompt),
        prompt_profile_version = CASE WHEN $10::text IS NULL THEN prompt_profile_version ELSE $11 END,
        system_prompt_turn = CASE WHEN $10::text IS NULL THEN system_prompt_turn ELSE $12 END,
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
    RETURNING s.runnable_since IS NOT NULL
"""

_FLUSH = f"WITH {_EVENTS} {_COUNTERS}"
_FLUSH_STEP = f"WITH {_EVENTS}, {_STEP} {_COUNTERS}"


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step as it is kept, with the ids of its answer."""

    turn_id: UUID
    number: int
    epoch: int
    digest: bytes
    message_ids: Sequence[UUID]
    call_ids: Sequence[UUID]


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
    # A prompt to store (None keeps the stored one), the profile's version that it was built under, and
    # the only turn that it holds for (None when it holds for the session).
    new_system_prompt: str | None = None
    new_prompt_version: int = 0
    new_prompt_turn: UUID | None = None
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

    async def flush(self, step: StepRecord | None = None) -> bool:
        """Writes the gathered events, the counters and the step, if it is one.

        The last statement of a change: it sees the leases and turns that those before it wrote.

        Returns:
            Whether a turn may be claimed now.
        """
        events, self._events = self._events, []
        recorded = () if step is None else astuple(step)
        is_runnable: bool = await self.connection.fetchval(
            _FLUSH if step is None else _FLUSH_STEP,
            self.tenant_id,
            self.id,
            [seq for seq, _, _, _ in events],
            [kind for _, kind, _, _ in events],
            [turn_id for _, _, turn_id, _ in events],
            [text for _, _, _, text in events],
            self.last_seq,
            self.last_position,
            self.epoch,
            self.new_system_prompt,
            self.new_prompt_version,
            self.new_prompt_turn,
            *recorded,
        )
        return is_runnable


@asynccontextmanager
async def session_locked(
    database: Database, tenant_id: UUID, session_id: UUID, principal_id: UUID | None = None
) -> AsyncIterator[LockedSession]:
    """A transaction that holds a session's lock.

    Args:
        principal_id: If given, whose the session must be.

    Raises:
        NotFound: when there is none, or it is not the principal's.
    """
    async with database.transaction(tenant_id, first=lock_of(tenant_id, session_id)) as connection:
        yield await read_locked(connection, tenant_id, session_id, principal_id)


async def lock_session(
    connection: Connection, tenant_id: UUID, session_id: UUID, principal_id: UUID | None = None
) -> LockedSession:
    """Locks a session's row in a transaction that is under way.

    Raises:
        NotFound: as `session_locked`.
    """
    await connection.execute(lock_of(tenant_id, session_id))
    return await read_locked(connection, tenant_id, session_id, principal_id)


async def read_locked(
    connection: Connection, tenant_id: UUID, session_id: UUID, principal_id: UUID | None = None
) -> LockedSession:
    """A session whose row this transaction has locked.

    Raises:
        NotFound: as `session_locked`.
    """
    row = await connection.fetchrow(_READ, tenant_id, session_id)
    if row is None or (principal_id is not None and row["principal_id"] != principal_id):
        raise NotFound("no such session", reason="SESSION_NOT_FOUND")
    return LockedSession(connection, tenant_id, session_id, *row.values())


def lock_of(tenant_id: UUID, session_id: UUID) -> str:
    """The statement, without parameters, that locks a session's row: a UUID's text needs no quoting."""
    tenant, session = UUID(int=tenant_id.int), UUID(int=session_id.int)
    return f"SELECT FROM authority.sessions WHERE tenant_id = '{tenant}' AND id = '{session}' FOR UPDATE"
