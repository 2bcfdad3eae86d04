"""The audit log: each record is added in the transaction that it records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from opentelemetry import trace

from herma.common.postgres import Connection, Database
from herma.session_authority.domain.audit import (
    ORIGIN,
    Action,
    Anchor,
    ChainCheck,
    Record,
    Verdict,
    details_text,
)
from herma.session_authority.domain.model import Caller

_COLUMNS = (
    "tenant_id, seq, at, principal_id, key_id, action, target, outcome, details, trace_id, previous, hash"
)
_BATCH = 1_000

# The row is locked until the commit, so a chain has no gap and no fork.
_HEAD = """
    INSERT INTO authority.audit_heads AS h (tenant_id, seq, hash, at) VALUES ($1, 1, $2, now())
    ON CONFLICT (tenant_id) DO UPDATE SET seq = h.seq + 1, at = now()
    RETURNING seq, hash, at
"""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which records; empty and None for all."""

    action: str = ""
    principal_id: UUID | None = None
    target: str = ""
    since: datetime | None = None
    until: datetime | None = None


async def record(
    connection: Connection,
    caller: Caller,
    action: Action,
    target: object,
    *,
    refused: bool = False,
    by_installation: bool = False,
    **details: object,
) -> None:
    """Adds a record to the log of the caller's tenant, which is set.

    Args:
        target: Id of what it is done to.
        by_installation: Nobody of the tenant did it.
        details: Small, without secrets and without anybody's words.
    """
    head = await connection.fetchrow(_HEAD, caller.tenant_id, ORIGIN)
    assert head is not None
    sealed = Record(
        caller.tenant_id,
        head["seq"],
        head["at"],
        None if by_installation else caller.principal_id,
        None if by_installation else caller.key_id,
        action.label,
        str(target),
        "refused" if refused else "done",
        details_text(details),
        _trace_id(),
        head["hash"],
    ).sealed()
    await connection.execute(
        f"""
        INSERT INTO authority.audit ({_COLUMNS})
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
        """,  # noqa: S608  # a constant
        sealed.tenant_id,
        sealed.seq,
        sealed.at,
        sealed.principal_id,
        sealed.key_id,
        sealed.action,
        sealed.target,
        sealed.outcome,
        sealed.details,
        sealed.trace_id,
        sealed.previous,
        sealed.hash,
    )
    await connection.execute(
        "UPDATE authority.audit_heads SET hash = $2 WHERE tenant_id = $1",
        sealed.tenant_id,
        sealed.hash,
    )


def _trace_id() -> str:
    context = trace.get_current_span().get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else ""


class AuditLog:
    """Reads logs; nothing is ever changed in them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def refuse(self, caller: Caller, action: Action, target: object, reason: str) -> None:
        """Records what was refused, in a transaction of its own: that of the refusal is undone."""
        async with self._database.transaction(caller.tenant_id) as connection:
            await record(connection, caller, action, target, refused=True, reason=reason)

    async def list(
        self, caller: Caller, wanted: AuditFilter, after: int, limit: int, *, oldest_first: bool
    ) -> Sequence[Record]:
        """Records of the caller's tenant.

        Args:
            after: Seq of the last record of the page before; 0 for the first page.
        """
        order, beyond = ("ASC", ">") if oldest_first else ("DESC", "<")
        async with self._database.transaction(caller.tenant_id) as connection:
            rows = await connection.fetch(
                f"""
                SELECT {_COLUMNS} FROM authority.audit
                WHERE tenant_id = $1 AND ($2 = 0 OR seq {beyond} $2) AND ($3 = '' OR action = $3)
                  AND ($4::uuid IS NULL OR principal_id = $4) AND ($5 = '' OR target = $5)
                  AND ($6::timestamptz IS NULL OR at >= $6) AND ($7::timestamptz IS NULL OR at < $7)
                ORDER BY seq {order} LIMIT $8
                """,  # noqa: S608  # constants
                caller.tenant_id,
                after,
                wanted.action,
                wanted.principal_id,
                wanted.target,
                wanted.since,
                wanted.until,
                limit,
            )
        return [Record(**row) for row in rows]

    async def verify(self, caller: Caller, anchors: Iterable[Anchor]) -> Verdict:
        """Checks the whole log of the caller's tenant against its end and against anchors."""
        check = ChainCheck(caller.tenant_id, anchors)
        # The end first: what is added meanwhile is not looked at.
        head = await self._head(caller)
        async for found in self._chain(caller, head.seq if head else 0):
            check.take(found)
        return check.verdict(head or Anchor(caller.tenant_id, 0, ORIGIN))

    async def _head(self, caller: Caller) -> Anchor | None:
        async with self._database.transaction(caller.tenant_id) as connection:
            row = await connection.fetchrow(
                "SELECT tenant_id, seq, hash FROM authority.audit_heads WHERE tenant_id = $1",
                caller.tenant_id,
            )
        return Anchor(**row) if row is not None else None

    async def _chain(self, caller: Caller, last: int) -> AsyncIterator[Record]:
        after = 0
        while True:
            page: Sequence[Any] = await self.list(caller, AuditFilter(), after, _BATCH, oldest_first=True)
            for found in page:
                if found.seq > last > 0:
                    return
                yield found
            if len(page) < _BATCH:
                return
            after = page[-1].seq

    async def heads_since(self, moment: datetime) -> AsyncIterator[Anchor]:
        """Ends of all tenants' chains that grew since."""
        after: UUID | None = None
        while True:
            async with self._database.transaction() as connection:
                rows = await connection.fetch(
                    "SELECT tenant_id, seq, hash FROM authority.audit_heads_since($1, $2, $3)",
                    moment,
                    after,
                    _BATCH,
                )
            for row in rows:
                yield Anchor(**row)
            if len(rows) < _BATCH:
                return
            after = rows[-1]["tenant_id"]
