"""Usage: read from the turns themselves, and from what is kept of deleted sessions'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from herma.common.postgres import Connection, Database
from herma.session_authority.domain.model import Caller, Usage
from herma.session_authority.domain.usage import Grouping, UsageQuestion, UsageSum

_KEYS: Final = {
    Grouping.DAY: "(u.at AT TIME ZONE 'UTC')::date",
    Grouping.SESSION: "u.session_id",
    Grouping.PROFILE: "p.name",
    Grouping.PRINCIPAL: "u.principal_id",
}
_COUNTS: Final = (
    "turns",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
_USED: Final = """
    SELECT created_at AS at, session_id, profile_id, principal_id, 1 AS turns,
           input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens
    FROM authority.turns WHERE tenant_id = $1 AND ($2::uuid IS NULL OR principal_id = $2)
        AND ($3::timestamptz IS NULL OR created_at >= $3)
        AND ($4::timestamptz IS NULL OR created_at < $4)
    UNION ALL
    SELECT at, session_id, profile_id, principal_id, turns, input_tokens, output_tokens,
           cache_read_tokens, cache_write_tokens, reasoning_tokens
    FROM authority.deleted_usage WHERE tenant_id = $1 AND ($2::uuid IS NULL OR principal_id = $2)
        AND ($3::timestamptz IS NULL OR at >= date_trunc('hour', $3))
        AND ($4::timestamptz IS NULL OR at < $4)
"""


class UsageStore:
    """Usage of the caller, or of its tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def sums(
        self, caller: Caller, question: UsageQuestion, offset: int, limit: int
    ) -> Sequence[UsageSum]:
        """Sums, sorted by what they are by.  Of deleted sessions, whole hours are counted."""
        keys = {name: sql for name, sql in _KEYS.items() if name in question.by}
        columns = ", ".join(f"{sql} AS {name}" for name, sql in keys.items())
        counts = ", ".join(f"coalesce(sum(u.{name}), 0)::bigint AS {name}" for name in _COUNTS)
        grouped = ", ".join(keys.values())
        order = f"GROUP BY {grouped} ORDER BY {grouped}" if keys else ""
        async with self._database.transaction(caller.tenant_id) as connection:
            rows = await connection.fetch(
                f"""
                SELECT {columns + "," if columns else ""} {counts}
                FROM ({_USED}) u
                JOIN authority.profiles p ON p.tenant_id = $1 AND p.id = u.profile_id
                {order} LIMIT $5 OFFSET $6
                """,  # noqa: S608  # constants
                caller.tenant_id,
                None if question.of_tenant else caller.principal_id,
                question.since,
                question.until,
                limit,
                offset,
            )
        return [
            UsageSum(
                row.get("day"),
                row.get("session"),
                row.get("profile"),
                row.get("principal"),
                row["turns"],
                Usage(*(row[name] for name in _COUNTS[1:])),
            )
            for row in rows
        ]


async def keep_usage(connection: Connection, tenant_id: UUID, session_id: UUID) -> None:
    """Keeps what a session used, hour by hour: it is about to be deleted."""
    await connection.execute(
        """
        INSERT INTO authority.deleted_usage
        SELECT tenant_id, session_id, date_trunc('hour', created_at), principal_id,
               (array_agg(profile_id))[1], count(*), sum(input_tokens), sum(output_tokens),
               sum(cache_read_tokens), sum(cache_write_tokens), sum(reasoning_tokens)
        FROM authority.turns WHERE tenant_id = $1 AND session_id = $2
        GROUP BY tenant_id, session_id, date_trunc('hour', created_at), principal_id
        """,
        tenant_id,
        session_id,
    )
