"""Reads transcripts."""

from __future__ import annotations

from uuid import UUID

from herma.common.postgres import Connection
from herma.session_authority.domain.model import Message
from herma.session_authority.store.rows import CALL_COLUMNS, call_of, messages_of


async def read_messages(
    connection: Connection, tenant_id: UUID, session_id: UUID, after: int = 0, limit: int | None = None
) -> list[Message]:
    """Messages after a position, in order, with their calls."""
    rows = await connection.fetch(
        """
        SELECT id, turn_id, position, role, content, call_id, created_at, context
        FROM authority.messages
        WHERE tenant_id = $1 AND session_id = $2 AND position > $3 ORDER BY position LIMIT $4
        """,
        tenant_id,
        session_id,
        after,
        limit,
    )
    if not any(row["role"] == "assistant" for row in rows):
        return messages_of(rows, ())
    calls = await connection.fetch(
        f"""
        SELECT {CALL_COLUMNS} FROM authority.calls c
        WHERE c.tenant_id = $1 AND c.session_id = $2 AND c.message_id = ANY($3::uuid[])
        ORDER BY c.position
        """,  # noqa: S608  # columns are a constant
        tenant_id,
        session_id,
        [row["id"] for row in rows],
    )
    return messages_of(rows, map(call_of, calls))
