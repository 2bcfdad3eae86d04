"""Leases: claimed, renewed, released, lapsed.  Time is the database's clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import asyncpg

from herma.common.errors import LeaseLost, NotFound
from herma.common.postgres import Connection, Database
from herma.common.turn_token import TurnIdentity
from herma.session_authority.domain.model import Lease, Profile, TurnState
from herma.session_authority.store.endings import end_turn
from herma.session_authority.store.locked_session import (
    LockedSession,
    read_locked,
    session_locked,
)
from herma.session_authority.store.rows import TURN_COLUMNS, turn_of
from herma.session_authority.store.transcript import read_messages

MAX_ATTEMPTS = 20
MAX_DEATHS = 3

# The session of the request's lease, else one that may run, which is locked by that; the tenant, which is
# known only now, is set for the statements that follow.
_TAKE = """
    WITH held AS (SELECT tenant_id, session_id FROM authority.lease_of_request($1)),
    found AS (
        SELECT tenant_id, session_id, true AS held FROM held
        UNION ALL
        SELECT taken.tenant_id, taken.session_id, false
        FROM (SELECT WHERE NOT EXISTS (SELECT FROM held)) AS none
        CROSS JOIN LATERAL authority.take_runnable() AS taken
    )
    SELECT tenant_id, session_id, held, set_config('herma.tenant_id', tenant_id::text, true) FROM found
"""

# The next turn of a session that `_TAKE` has locked runs, if whoever asked for it still may: its lease,
# its event, at its first attempt the user's message, and the counters that these take from the session's
# row.
_GRANT = """
    WITH session AS (
        SELECT last_seq, last_position, epoch FROM authority.sessions WHERE tenant_id = $1 AND id = $2
    ), turn AS (
        UPDATE authority.turns SET state = 'running', attempt = attempt + 1,
            started_at = coalesce(started_at, now())
        WHERE tenant_id = $1 AND id = (
            SELECT id FROM authority.turns
            WHERE tenant_id = $1 AND session_id = $2 AND state IN ('queued', 'running', 'waiting')
            ORDER BY seq LIMIT 1)
            AND authority.has_right($1, principal_id, profile_id, 'use')
        RETURNING id, attempt, content, principal_id, trust
    ), said AS (
        INSERT INTO authority.messages (tenant_id, session_id, id, turn_id, position, role, content,
                                        principal_id, trust)
        SELECT $1, $2, $3, id, last_position + 1, 'user', content, principal_id, trust
        FROM turn, session WHERE attempt = 1
    ), leased AS (
        INSERT INTO authority.leases (tenant_id, session_id, turn_id, epoch, runner_id, request_id,
                                      expires_at)
        SELECT $1, $2, id, epoch + 1, $4, $5, now() + $6 FROM turn, session
    ), told AS (
        INSERT INTO authority.events (tenant_id, session_id, seq, kind, turn_id, data)
        SELECT $1, $2, last_seq + 1,
               CASE WHEN attempt = 1 THEN 'turn.started' ELSE 'turn.resumed' END, id,
               '{"attempt":' || attempt || '}'
        FROM turn, session
    )
    UPDATE authority.sessions s
    SET last_seq = s.last_seq + 1, epoch = s.epoch + 1,
        last_position = s.last_position + CASE WHEN turn.attempt = 1 THEN 1 ELSE 0 END,
        runnable_since = NULL, runnable_class = 0
    FROM turn WHERE s.tenant_id = $1 AND s.id = $2
    RETURNING true
"""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A leased turn that was asked to stop."""

    turn_id: UUID
    epoch: int


class LeaseStore:
    """The right to write, handed from runner to runner.

    Args:
        ttl: How long a lease lives without renewal.
        acknowledge_within: How long a fresh lease may stay unused.
    """

    def __init__(
        self,
        database: Database,
        new_id: Callable[[], UUID],
        ttl: timedelta,
        acknowledge_within: timedelta = timedelta(seconds=2),
    ) -> None:
        self._database = database
        self._new_id = new_id
        self.ttl = ttl
        self._acknowledge_within = acknowledge_within

    async def claim(self, request_id: UUID, runner_id: UUID) -> Lease | None:
        """Takes the runnable turn that has waited longest, those under way before first.

        The same request id gets the same lease again while it lives.
        """
        try:
            return await self._claim(request_id, runner_id)
        except asyncpg.UniqueViolationError:
            # The same request, made at the same time, has taken another session.
            return await self._claim(request_id, runner_id)

    async def _claim(self, request_id: UUID, runner_id: UUID) -> Lease | None:
        async with self._database.transaction() as connection:
            found = await connection.fetchrow(_TAKE, request_id)
            if found is None:
                return None
            tenant_id, session_id = found["tenant_id"], found["session_id"]
            if not found["held"] and not await connection.fetchval(
                _GRANT, tenant_id, session_id, self._new_id(), runner_id, request_id, self.ttl
            ):
                # Nothing that may run waits after all: what says so is put right.
                session = await read_locked(connection, tenant_id, session_id)
                await self._end_without_right(session)
                await session.flush()
                return None
            return await _read_lease(connection, tenant_id, session_id, request_id)

    async def _end_without_right(self, session: LockedSession) -> None:
        """Ends waiting turns, up to the first that may run, of who may not use the profile any more."""
        waiting = await session.connection.fetch(
            """
            SELECT id, attempt, authority.has_right($1, principal_id, profile_id, 'use') AS may
            FROM authority.turns
            WHERE tenant_id = $1 AND session_id = $2 AND state IN ('queued', 'running', 'waiting')
            ORDER BY seq
            """,
            session.tenant_id,
            session.id,
        )
        for turn in waiting:
            if turn["may"]:
                return
            state = TurnState.INTERRUPTED if turn["attempt"] else TurnState.CANCELLED
            await end_turn(session, turn["id"], state, "rights_lost", "", self._new_id)

    async def renew(self, identity: TurnIdentity) -> bool:
        """Extends a lease; whether its turn was asked to stop.

        Raises:
            LeaseLost: when it is not the newest.
        """
        async with self._database.transaction(identity.tenant_id) as connection:
            asked: bool | None = await connection.fetchval(
                """
                UPDATE authority.leases l SET expires_at = now() + $5, acknowledged = true
                FROM authority.turns t
                WHERE l.tenant_id = $1 AND l.session_id = $2 AND l.turn_id = $3 AND l.epoch = $4
                  AND t.tenant_id = $1 AND t.id = $3
                RETURNING t.interrupt_requested
                """,
                identity.tenant_id,
                identity.session_id,
                identity.turn_id,
                identity.epoch,
                self.ttl,
            )
        if asked is None:
            raise LeaseLost()
        return asked

    async def release(self, identity: TurnIdentity) -> None:
        """Gives a lease back: the turn may be claimed at once.

        Raises:
            LeaseLost: when it is not the newest.
        """
        try:
            async with session_locked(self._database, identity.tenant_id, identity.session_id) as session:
                await check_fence(session, identity)
                await self._let_go(session, identity.turn_id)
                await session.flush()
        except NotFound as error:
            raise LeaseLost() from error

    async def _let_go(self, session: LockedSession, turn_id: UUID) -> None:
        await session.connection.execute(
            "DELETE FROM authority.leases WHERE tenant_id = $1 AND session_id = $2",
            session.tenant_id,
            session.id,
        )
        await session.connection.execute(
            "UPDATE authority.turns SET state = 'queued' WHERE tenant_id = $1 AND id = $2",
            session.tenant_id,
            turn_id,
        )
        session.raise_epoch()

    async def take_back_lapsed(self, at_most: int = 100) -> int:
        """Makes turns whose lease lapsed claimable again, or ends those that kill their runners.

        Returns:
            How many leases were taken back.
        """
        async with self._database.transaction() as connection:
            lapsed = await connection.fetch(
                "SELECT tenant_id, session_id FROM authority.lapsed_leases($1, $2)",
                self._acknowledge_within,
                at_most,
            )
        taken = 0
        for row in lapsed:
            taken += await self._take_back(row["tenant_id"], row["session_id"])
        return taken

    async def _take_back(self, tenant_id: UUID, session_id: UUID) -> bool:
        try:
            async with session_locked(self._database, tenant_id, session_id) as session:
                return await self._take_back_locked(session)
        except NotFound:
            return False  # deleted since it was looked for

    async def _take_back_locked(self, session: LockedSession) -> bool:
        lease = await session.connection.fetchrow(
            """
            SELECT l.turn_id, l.acknowledged, t.attempt, t.deaths,
                   NOT EXISTS (SELECT FROM authority.steps s WHERE s.tenant_id = $1
                               AND s.turn_id = l.turn_id AND s.epoch = l.epoch) AS idle
            FROM authority.leases l
            JOIN authority.turns t ON t.tenant_id = l.tenant_id AND t.id = l.turn_id
            WHERE l.tenant_id = $1 AND l.session_id = $2
              AND (l.expires_at <= now()
                   OR (NOT l.acknowledged AND l.acquired_at <= now() - $3::interval))
            """,
            session.tenant_id,
            session.id,
            self._acknowledge_within,
        )
        if lease is None:
            return False
        deaths = lease["deaths"] + (1 if lease["acknowledged"] and lease["idle"] else 0)
        if deaths >= MAX_DEATHS or lease["attempt"] >= MAX_ATTEMPTS:
            await end_turn(
                session,
                lease["turn_id"],
                TurnState.FAILED,
                "poisoned",
                "The turn was given up: its runners kept dying.",
                self._new_id,
            )
        else:
            await session.connection.execute(
                "UPDATE authority.turns SET deaths = $3 WHERE tenant_id = $1 AND id = $2",
                session.tenant_id,
                lease["turn_id"],
                deaths,
            )
            await self._let_go(session, lease["turn_id"])
        await session.flush()
        return True

    async def interrupts_of(self, runner_id: UUID) -> Sequence[Interrupt]:
        """The runner's leased turns that were asked to stop."""
        async with self._database.transaction() as connection:
            rows = await connection.fetch(
                "SELECT turn_id, epoch FROM authority.interrupts_of($1)", runner_id
            )
        return [Interrupt(row["turn_id"], row["epoch"]) for row in rows]


async def check_fence(session: LockedSession, identity: TurnIdentity) -> None:
    """Proves that a lease is the newest; the session is locked.

    Raises:
        LeaseLost: when it is not.
    """
    held = await session.connection.fetchval(
        """
        UPDATE authority.leases SET acknowledged = true
        WHERE tenant_id = $1 AND session_id = $2 AND turn_id = $3 AND epoch = $4 RETURNING true
        """,
        session.tenant_id,
        session.id,
        identity.turn_id,
        identity.epoch,
    )
    if not held or session.epoch != identity.epoch:
        raise LeaseLost()


async def _read_lease(
    connection: Connection, tenant_id: UUID, session_id: UUID, request_id: UUID
) -> Lease | None:
    row = await connection.fetchrow(
        f"""
        SELECT {TURN_COLUMNS}, l.epoch, t.principal_id, t.profile_id, t.profile_version, t.trust,
               t.last_step, t.iterations, t.interrupt_requested, t.open_message_id,
               t.attempt_context, p.name AS profile_name, v.spec, s.instructions,
               -- Else it is built anew.
               CASE WHEN s.prompt_profile_version = t.profile_version
                         AND coalesce(s.system_prompt_turn = t.id, true) THEN s.system_prompt
               END AS system_prompt
        FROM authority.leases l
        JOIN authority.sessions s ON s.tenant_id = l.tenant_id AND s.id = l.session_id
        JOIN authority.turns t ON t.tenant_id = l.tenant_id AND t.id = l.turn_id
        JOIN authority.profiles p ON p.tenant_id = t.tenant_id AND p.id = t.profile_id
        JOIN authority.profile_versions v ON v.tenant_id = t.tenant_id
             AND v.profile_id = t.profile_id AND v.version = t.profile_version
        WHERE l.tenant_id = $1 AND l.session_id = $2 AND l.request_id = $3
        """,  # noqa: S608  # columns are a constant
        tenant_id,
        session_id,
        request_id,
    )
    if row is None:
        return None
    return Lease(
        tenant_id=tenant_id,
        session_id=session_id,
        principal_id=row["principal_id"],
        turn=turn_of(row),
        trust=row["trust"],
        epoch=row["epoch"],
        last_step=row["last_step"],
        profile=Profile(row["profile_id"], row["profile_name"], row["profile_version"], row["spec"]),
        system_prompt=row["system_prompt"] or "",
        history=await read_messages(connection, tenant_id, session_id),
        open_message_id=row["open_message_id"],
        previous_attempt=row["attempt_context"],
        iterations=row["iterations"],
        interrupt_requested=row["interrupt_requested"],
        instructions=row["instructions"],
    )
