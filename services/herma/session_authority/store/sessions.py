"""Sessions and the turns admitted to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from herma.common.errors import NotFound, PermissionDenied
from herma.common.postgres import Connection, Database
from herma.session_authority.domain.admission import request_digest
from herma.session_authority.domain.continuation import Continuation
from herma.session_authority.domain.model import (
    Admission,
    Caller,
    Message,
    Session,
    Turn,
    TurnInput,
    TurnState,
)
from herma.session_authority.domain.new_session import ImportedMessage, NewSession
from herma.session_authority.store.continuations import continued_session
from herma.session_authority.store.endings import end_turn
from herma.session_authority.store.idempotency import claim_key, store_answer
from herma.session_authority.store.locked_session import lock_of, lock_session, read_locked
from herma.session_authority.store.openings import open_session
from herma.session_authority.store.rows import (
    CALL_COLUMNS,
    TURN_COLUMNS,
    Row,
    call_of,
    messages_of,
    turn_of,
)
from herma.session_authority.store.transcript import read_messages

_SESSION = """
    SELECT s.id, p.name AS profile, coalesce(s.key, '') AS key, s.title, s.created_at, s.last_seq,
           CASE WHEN EXISTS (SELECT FROM authority.leases l
                             WHERE l.tenant_id = s.tenant_id AND l.session_id = s.id) THEN 'running'
                WHEN s.runnable_since IS NOT NULL THEN 'queued' ELSE 'idle' END AS state,
           coalesce((SELECT left(t.content, 80) FROM authority.turns t
                     WHERE t.tenant_id = s.tenant_id AND t.session_id = s.id ORDER BY t.seq LIMIT 1),
                    '') AS opening
    FROM authority.sessions s
    JOIN authority.profiles p ON p.tenant_id = s.tenant_id AND p.id = s.profile_id
    WHERE s.tenant_id = $1 AND s.principal_id = $2
"""


_QUEUED = """
    SELECT count(*) FROM authority.turns
    WHERE tenant_id = $1 AND session_id = $2 AND state IN ('queued', 'running', 'waiting')
"""

_INPUT = """
    SELECT t.content, t.session_id,
           NOT EXISTS (SELECT FROM authority.turns o WHERE o.tenant_id = $1
                       AND o.session_id = t.session_id AND o.seq < t.seq) AS is_first
    FROM authority.turns t WHERE t.tenant_id = $1 AND t.principal_id = $2 AND t.id = $3
"""

_IMPORTED = """
    SELECT id, turn_id, position, role, content, call_id, created_at, context
    FROM authority.messages WHERE tenant_id = $1 AND session_id = $2 AND turn_id IS NULL
    ORDER BY position
"""

# Where a submission goes.
Target: TypeAlias = UUID | NewSession | Continuation


class SessionStore:
    """Sessions of a caller.  What is not the caller's does not exist."""

    def __init__(self, database: Database, new_id: Callable[[], UUID]) -> None:
        self._database = database
        self._new_id = new_id

    async def create(
        self,
        caller: Caller,
        profile: str,
        key: str,
        title: str,
        idempotency_key: str,
        instructions: str = "",
        history: Sequence[ImportedMessage] = (),
    ) -> Session:
        """Makes a session with its history, or answers the one with the same key.

        Raises:
            NotFound: for an unknown profile.
            IdempotencyConflict: for a reused idempotency key.
        """
        tenant, principal = caller.tenant_id, caller.principal_id
        new = NewSession(profile or "default", key, title, instructions, history)
        async with self._database.transaction(tenant) as connection:
            if idempotency_key:
                digest = request_digest(*new.parts)
                known = await claim_key(
                    connection, tenant, principal, "CreateSession", idempotency_key, digest
                )
                if known is not None:
                    return await self._made_before(connection, caller, new, known)
            session_id = await open_session(connection, caller, new, self._new_id)
            made = await self._read(connection, caller, session_id)
            if idempotency_key:
                await store_answer(
                    connection,
                    tenant,
                    principal,
                    "CreateSession",
                    idempotency_key,
                    {"session_id": str(session_id), "created_at": made.created_at.isoformat()},
                )
            return made

    async def _made_before(
        self, connection: Connection, caller: Caller, new: NewSession, answer: dict[str, Any]
    ) -> Session:
        """The answer to a repeated request: the session as it is, or as it was made if it is gone."""
        try:
            return await self._read(connection, caller, UUID(answer["session_id"]))
        except NotFound:
            return Session(
                id=UUID(answer["session_id"]),
                profile=new.profile,
                key=new.key,
                title=new.title,
                state="idle",
                created_at=datetime.fromisoformat(answer["created_at"]),
                last_seq=0,
                opening="",
            )

    async def get(self, caller: Caller, session_id: UUID) -> Session:
        """One session.

        Raises:
            NotFound: when it is not the caller's.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            return await self._read(connection, caller, session_id)

    async def list(self, caller: Caller, before: UUID | None, limit: int) -> Sequence[Session]:
        """Sessions older than `before`, newest first."""
        async with self._database.transaction(caller.tenant_id) as connection:
            rows = await connection.fetch(
                _SESSION + " AND ($3::uuid IS NULL OR s.id < $3) ORDER BY s.id DESC LIMIT $4",
                caller.tenant_id,
                caller.principal_id,
                before,
                limit,
            )
        return [_session_of(row) for row in rows]

    async def messages(
        self, caller: Caller, session_id: UUID, after: int, limit: int
    ) -> Sequence[Message]:
        """The transcript after a position.

        Raises:
            NotFound: when the session is not the caller's.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            await self._read(connection, caller, session_id)
            return await read_messages(connection, caller.tenant_id, session_id, after, limit)

    async def submit(
        self,
        caller: Caller,
        target: Target,
        content: str,
        idempotency_key: str,
        traceparent: str,
        fingerprint: str = "",
        memo: str = "",
    ) -> Admission:
        """Admits a turn at the end of the session's queue, in one transaction with its event.

        Args:
            target: A session, one to make in the same transaction, or a turn to go on after.
            fingerprint: What else the request said; the idempotency key stands for it too.

        Raises:
            NotFound: when the session or turn is not the caller's, or a new session's profile is unknown.
            TurnUnfinished, InvalidArgument: as `continued_session`.
            PermissionDenied: when the caller may not use the session's profile any more.
            IdempotencyConflict: for a key that was used for another request.
        """
        tenant, principal = caller.tenant_id, caller.principal_id
        # Keys are taken before sessions everywhere, or two requests could wait for each other.
        first = ""
        if isinstance(target, UUID) and not idempotency_key:
            first = lock_of(tenant, target)
        async with self._database.transaction(tenant, first=first) as connection:
            if idempotency_key:
                parts = [
                    *_parts_of(target),
                    content,
                    "message",
                    "queue",
                    *([fingerprint] if fingerprint else []),
                ]
                digest = request_digest(*parts)
                known = await claim_key(connection, tenant, principal, "Submit", idempotency_key, digest)
                if known is not None:
                    return Admission(
                        UUID(known["turn_id"]),
                        UUID(known["session_id"]),
                        known["position"],
                        known["cursor"],
                    )
            session_id = await self._session_of(connection, caller, target)
            take = read_locked if first else lock_session
            session = await take(connection, tenant, session_id, principal)
            position = await connection.fetchval(_QUEUED, tenant, session_id)
            turn_id = self._new_id()
            cursor = session.emit("turn.queued", turn_id, {"position": position})
            admitted = await connection.fetchval(
                """
                INSERT INTO authority.turns (tenant_id, id, session_id, principal_id, profile_id,
                    profile_version, kind, trust, content, state, seq, traceparent, memo)
                SELECT $1, $2, $3, $4, p.id, p.version, 'message', 'trusted', $5, 'queued', $6, $7, $9
                FROM authority.profiles p
                WHERE p.tenant_id = $1 AND p.id = $8 AND authority.has_right($1, $4, p.id, 'use')
                RETURNING true
                """,
                tenant,
                turn_id,
                session_id,
                principal,
                content,
                cursor,
                traceparent,
                session.profile_id,
                memo,
            )
            if not admitted:
                raise PermissionDenied("you may not use this profile any more", reason="RIGHT_MISSING")
            is_runnable = await session.flush()
            if idempotency_key:
                await store_answer(
                    connection,
                    tenant,
                    principal,
                    "Submit",
                    idempotency_key,
                    {
                        "turn_id": str(turn_id),
                        "session_id": str(session_id),
                        "position": position,
                        "cursor": cursor,
                    },
                )
            return Admission(turn_id, session_id, position, cursor, is_runnable)

    async def _session_of(self, connection: Connection, caller: Caller, target: Target) -> UUID:
        if isinstance(target, NewSession):
            return await open_session(connection, caller, target, self._new_id)
        if isinstance(target, Continuation):
            return await continued_session(connection, caller, target, self._new_id)
        return target

    async def turn_input(self, caller: Caller, turn_id: UUID) -> TurnInput:
        """What a turn was asked.

        Raises:
            NotFound: when it is not the caller's.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            row = await connection.fetchrow(_INPUT, caller.tenant_id, caller.principal_id, turn_id)
            if row is None:
                raise NotFound("no such turn", reason="TURN_NOT_FOUND")
            earlier = []
            if row["is_first"]:
                earlier = await connection.fetch(_IMPORTED, caller.tenant_id, row["session_id"])
            return TurnInput(row["content"], messages_of(earlier, ()))

    async def turn(self, caller: Caller, turn_id: UUID) -> Turn:
        """One turn with its calls.

        Raises:
            NotFound: when it is not the caller's.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            return await self._turn(connection, caller, turn_id)

    async def interrupt(self, caller: Caller, turn_id: UUID) -> Turn:
        """Asks a leased turn to stop, or ends one that no runner holds.

        Raises:
            NotFound: when it is not the caller's.
        """
        tenant = caller.tenant_id
        async with self._database.transaction(tenant) as connection:
            turn = await self._turn(connection, caller, turn_id)
            session = await lock_session(connection, tenant, turn.session_id, caller.principal_id)
            # Once more, for it may have moved on before the session was locked.
            turn = await self._turn(connection, caller, turn_id)
            if not turn.state.is_terminal:
                leased = await connection.fetchval(
                    """
                    SELECT true FROM authority.leases
                    WHERE tenant_id = $1 AND session_id = $2 AND turn_id = $3
                    """,
                    tenant,
                    session.id,
                    turn_id,
                )
                if leased:
                    await connection.execute(
                        """
                        UPDATE authority.turns SET interrupt_requested = true
                        WHERE tenant_id = $1 AND id = $2
                        """,
                        tenant,
                        turn_id,
                    )
                else:
                    ended = TurnState.INTERRUPTED if turn.attempt else TurnState.CANCELLED
                    await end_turn(session, turn_id, ended, "interrupted_by_user", "", self._new_id)
                    await session.flush()
            return await self._turn(connection, caller, turn_id)

    async def _read(self, connection: Connection, caller: Caller, session_id: UUID) -> Session:
        row = await connection.fetchrow(
            _SESSION + " AND s.id = $3", caller.tenant_id, caller.principal_id, session_id
        )
        if row is None:
            raise NotFound("no such session", reason="SESSION_NOT_FOUND")
        return _session_of(row)

    async def _turn(self, connection: Connection, caller: Caller, turn_id: UUID) -> Turn:
        row = await connection.fetchrow(
            f"""
            SELECT {TURN_COLUMNS}, t.memo FROM authority.turns t
            WHERE t.tenant_id = $1 AND t.principal_id = $2 AND t.id = $3
            """,  # noqa: S608  # columns are a constant
            caller.tenant_id,
            caller.principal_id,
            turn_id,
        )
        if row is None:
            raise NotFound("no such turn", reason="TURN_NOT_FOUND")
        calls = await connection.fetch(
            f"""
            SELECT {CALL_COLUMNS} FROM authority.calls c
            WHERE c.tenant_id = $1 AND c.turn_id = $2 ORDER BY c.position
            """,  # noqa: S608  # columns are a constant
            caller.tenant_id,
            turn_id,
        )
        return turn_of(row, map(call_of, calls))


def _parts_of(target: Target) -> list[str]:
    """What a submission's digest says of where it goes: no two places have the same parts."""
    if isinstance(target, NewSession):
        return ["new", *target.parts]
    if isinstance(target, Continuation):
        return ["after", *target.parts]
    return [str(target)]


def _session_of(row: Row) -> Session:
    return Session(
        id=row["id"],
        profile=row["profile"],
        key=row["key"],
        title=row["title"],
        state=row["state"],
        created_at=row["created_at"],
        last_seq=row["last_seq"],
        opening=row["opening"],
    )
