"""Reads what subscribers see: numbered events, and the streamed text of the open message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from uuid import UUID

from herma.common.errors import NotFound
from herma.common.postgres import Connection, Database
from herma.session_authority.domain.model import Caller, Delta, Event

# Events of one read; fewer mean that there were no more.
READ_AT_MOST = 500

_AFTER = """
    SELECT seq, kind, turn_id, at, data FROM authority.events
    WHERE tenant_id = seen.tenant_id AND session_id = $2 AND seq > $3 ORDER BY seq LIMIT $4
"""

_STREAMED = """
    SELECT attempt, "offset", text FROM authority.deltas
    WHERE tenant_id = seen.tenant_id AND message_id = $2 AND "offset" >= $3
"""


@dataclass(frozen=True, slots=True)
class Vantage:
    """Where a subscription starts."""

    last_seq: int
    # The open message, when its `message.started` lies behind the cursor.
    open_message_id: UUID | None
    open_turn_id: UUID | None
    # The seq of the asked turn's end, if it has ended.
    ended_seq: int | None


@dataclass(frozen=True, slots=True)
class DeltaCursor:
    """Up to where the streamed text of one message was shown."""

    turn_id: UUID
    message_id: UUID
    offset: int = 0


class EventLog:
    """The stream of a session."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def vantage(self, caller: Caller, session_id: UUID, turn_id: UUID | None) -> Vantage:
        """Checks that the session, and the turn if given, are the caller's.

        Raises:
            NotFound: when they are not.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            row = await connection.fetchrow(
                """
                SELECT s.last_seq, t.open_message_id, t.id AS open_turn_id
                FROM authority.sessions s
                LEFT JOIN authority.turns t ON t.tenant_id = s.tenant_id AND t.session_id = s.id
                     AND t.state = 'running' AND t.open_message_id IS NOT NULL
                WHERE s.tenant_id = $1 AND s.principal_id = $2 AND s.id = $3
                """,
                caller.tenant_id,
                caller.principal_id,
                session_id,
            )
            if row is None:
                raise NotFound("no such session", reason="SESSION_NOT_FOUND")
            ended_seq = None
            if turn_id is not None:
                ended_seq = await self._ended_seq(connection, caller, session_id, turn_id)
            return Vantage(row["last_seq"], row["open_message_id"], row["open_turn_id"], ended_seq)

    async def _ended_seq(
        self, connection: Connection, caller: Caller, session_id: UUID, turn_id: UUID
    ) -> int | None:
        row = await connection.fetchrow(
            """
            SELECT ended_seq FROM authority.turns
            WHERE tenant_id = $1 AND session_id = $2 AND id = $3
            """,
            caller.tenant_id,
            session_id,
            turn_id,
        )
        if row is None:
            raise NotFound("no such turn", reason="TURN_NOT_FOUND")
        ended: int | None = row["ended_seq"]
        return ended

    async def read(
        self,
        tenant_id: UUID,
        session_id: UUID,
        after: int,
        cursor: DeltaCursor | None,
        *,
        suspect: bool = False,
    ) -> tuple[Sequence[Event], Sequence[Delta]]:
        """Events after a seq, at most `READ_AT_MOST`; if there are none, text of the open message.

        Args:
            cursor: Up to where the open message's text was read; None for none of it.
            suspect: The session may have been deleted: if there is nothing, look whether it has.

        Raises:
            NotFound: when it has.
        """
        rows = await self._database.glance(tenant_id, _AFTER, session_id, after, READ_AT_MOST)
        deltas: Sequence[Delta] = ()
        if cursor is not None and not rows:
            deltas = await self._read_deltas(tenant_id, cursor)
        if suspect and not rows and not deltas:
            async with self._database.transaction(tenant_id) as connection:
                await _check_exists(connection, tenant_id, session_id)
        return [Event(**row) for row in sorted(rows, key=itemgetter("seq"))], deltas

    async def _read_deltas(self, tenant_id: UUID, cursor: DeltaCursor) -> Sequence[Delta]:
        rows = await self._database.glance(tenant_id, _STREAMED, cursor.message_id, cursor.offset)
        found = []
        expected = cursor.offset
        for row in sorted(rows, key=itemgetter("offset")):
            if row["offset"] != expected:
                break  # the batch before it is not committed yet
            text: str = row["text"]
            found.append(Delta(cursor.turn_id, cursor.message_id, row["attempt"], expected, text))
            expected += len(text)
        return found


async def _check_exists(connection: Connection, tenant_id: UUID, session_id: UUID) -> None:
    found = await connection.fetchval(
        "SELECT true FROM authority.sessions WHERE tenant_id = $1 AND id = $2", tenant_id, session_id
    )
    if not found:
        raise NotFound("no such session", reason="SESSION_NOT_FOUND")
