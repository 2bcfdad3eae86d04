"""Deletes sessions with all that hangs on them.

Invariant: once a session's row is gone nothing of it is left but answers kept by idempotency key, which
are ids and digests.  Whoever writes to a session holds its row, or a lock on its turn's; both are taken
before anything is deleted, so nothing is written behind the deletion.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from herma.common.errors import NotFound, SessionGoesOn
from herma.common.postgres import Connection, Database
from herma.session_authority.domain.admission import request_digest
from herma.session_authority.domain.audit import Action
from herma.session_authority.domain.model import Caller, TurnState
from herma.session_authority.store.audit import record
from herma.session_authority.store.endings import end_turn
from herma.session_authority.store.idempotency import claim_key, store_answer
from herma.session_authority.store.locked_session import LockedSession, lock_session

_OPERATION = "DeleteSession"


class DeletionStore:
    """Ends what a session has under way, and removes it."""

    def __init__(self, database: Database, new_id: Callable[[], UUID]) -> None:
        self._database = database
        self._new_id = new_id

    async def stop(self, caller: Caller, session_id: UUID, only: UUID | None = None) -> bool:
        """Asks the leased turn to stop and ends all others; whether one is leased.

        False for a session that the caller has deleted before.

        Args:
            only: If given, the only turn that the session may hold.

        Raises:
            NotFound: when the session is not the caller's.
            SessionGoesOn: when it holds another turn than `only`.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            try:
                session = await lock_session(
                    connection, caller.tenant_id, session_id, caller.principal_id
                )
            except NotFound:
                if await _was_deleted(connection, caller, session_id):
                    return False
                raise
            await _check_only(session, only)
            leased: UUID | None = await connection.fetchval(
                """
                UPDATE authority.turns t SET interrupt_requested = true
                FROM authority.leases l
                WHERE l.tenant_id = $1 AND l.session_id = $2 AND t.tenant_id = $1 AND t.id = l.turn_id
                RETURNING t.id
                """,
                session.tenant_id,
                session.id,
            )
            await self._end_unleased(session, leased)
            await session.flush()
            return leased is not None

    async def is_leased(self, caller: Caller, session_id: UUID) -> bool:
        """Whether a runner still holds the session."""
        async with self._database.transaction(caller.tenant_id) as connection:
            held: bool = await connection.fetchval(
                "SELECT EXISTS (SELECT FROM authority.leases WHERE tenant_id = $1 AND session_id = $2)",
                caller.tenant_id,
                session_id,
            )
            return held

    async def delete(self, caller: Caller, session_id: UUID, only: UUID | None = None) -> None:
        """Removes the session and takes its lease away from whoever holds it.

        Harmless when repeated by whoever deleted it.

        Args:
            only: As for `stop`; what was admitted since is not deleted unseen.

        Raises:
            NotFound, SessionGoesOn: as `stop`.
        """
        tenant, principal = caller.tenant_id, caller.principal_id
        async with self._database.transaction(tenant) as connection:
            # That it was deleted is kept as the answer to a request, for that outlives the session.
            key, digest = str(session_id), request_digest(str(session_id))
            if await claim_key(connection, tenant, principal, _OPERATION, key, digest) is not None:
                return
            await _check_only(await lock_session(connection, tenant, session_id, principal), only)
            await connection.execute("SELECT authority.delete_session($1, $2)", tenant, session_id)
            await record(connection, caller, Action.SESSION_DELETED, session_id)
            await store_answer(connection, tenant, principal, _OPERATION, key, {})

    async def _end_unleased(self, session: LockedSession, leased: UUID | None) -> None:
        """Ends waiting turns: what was begun as interrupted, the others, of which there may be many, as
        cancelled."""
        turns = await session.connection.fetch(
            """
            SELECT id, attempt FROM authority.turns
            WHERE tenant_id = $1 AND session_id = $2 AND state IN ('queued', 'running', 'waiting')
              AND id IS DISTINCT FROM $3 ORDER BY seq
            """,
            session.tenant_id,
            session.id,
            leased,
        )
        ends: list[tuple[UUID, int]] = []
        for turn in turns:
            if turn["attempt"]:
                await end_turn(
                    session, turn["id"], TurnState.INTERRUPTED, "interrupted_by_user", "", self._new_id
                )
                continue
            end = {
                "state": TurnState.CANCELLED.value,
                "exit_reason": "interrupted_by_user",
                "attempt": 0,
                "usage": {"input_tokens": 0, "output_tokens": 0},
            }
            ends.append((turn["id"], session.emit("turn.ended", turn["id"], end)))
        await session.connection.execute(
            """
            UPDATE authority.turns t SET state = 'cancelled', exit_reason = 'interrupted_by_user',
                started_at = now(), ended_at = now(), ended_seq = e.seq
            FROM unnest($2::uuid[], $3::bigint[]) e (id, seq) WHERE t.tenant_id = $1 AND t.id = e.id
            """,
            session.tenant_id,
            [turn_id for turn_id, _ in ends],
            [seq for _, seq in ends],
        )


async def _check_only(session: LockedSession, only: UUID | None) -> None:
    if only is None:
        return
    others = await session.connection.fetchval(
        """
        SELECT EXISTS (SELECT FROM authority.turns
                       WHERE tenant_id = $1 AND session_id = $2 AND id <> $3)
        """,
        session.tenant_id,
        session.id,
        only,
    )
    if others:
        raise SessionGoesOn("the session holds other turns")


async def _was_deleted(connection: Connection, caller: Caller, session_id: UUID) -> bool:
    found: bool = await connection.fetchval(
        """
        SELECT EXISTS (SELECT FROM authority.idempotency
                       WHERE tenant_id = $1 AND principal_id = $2 AND operation = $3 AND key = $4)
        """,
        caller.tenant_id,
        caller.principal_id,
        _OPERATION,
        str(session_id),
    )
    return found
