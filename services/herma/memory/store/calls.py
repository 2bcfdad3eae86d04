"""Answers to calls: a write that is repeated under the same call id gets the first answer.

Invariant: the answer is recorded in the transaction of the write, so there is never one without the
other; whoever comes second at the same moment waits for the first one's commit.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any
from uuid import UUID

from herma.common.errors import IdempotencyConflict
from herma.common.postgres import Connection
from herma.common.turn_token import TurnIdentity


def call_digest(identity: TurnIdentity, operation: str, request: object) -> bytes:
    """What a call asked for, and for whom: the scope and the session count, not the attempt."""
    whose = (identity.profile_id, identity.principal_id, identity.session_id, identity.turn_id)
    return hashlib.sha256(repr((operation, *map(str, whose), request)).encode()).digest()


async def begin_call(
    connection: Connection, tenant_id: UUID, call_id: UUID, digest: bytes
) -> dict[str, Any] | None:
    """Takes the call id for this transaction; the answer if the call was made before.

    Raises:
        IdempotencyConflict: when another request was made under the id.
    """
    taken = await connection.fetchval(
        """
        INSERT INTO memory.calls (tenant_id, call_id, digest) VALUES ($1, $2, $3)
        ON CONFLICT DO NOTHING RETURNING true
        """,
        tenant_id,
        call_id,
        digest,
    )
    if taken:
        return None
    row = await connection.fetchrow(
        "SELECT digest, response FROM memory.calls WHERE tenant_id = $1 AND call_id = $2",
        tenant_id,
        call_id,
    )
    assert row is not None
    if row["digest"] != digest:
        raise IdempotencyConflict("another request was made under this call id")
    answer: dict[str, Any] = json.loads(row["response"])
    return answer


async def end_call(
    connection: Connection, tenant_id: UUID, call_id: UUID, response: dict[str, Any]
) -> None:
    """Records the answer."""
    await connection.execute(
        "UPDATE memory.calls SET response = $3 WHERE tenant_id = $1 AND call_id = $2",
        tenant_id,
        call_id,
        json.dumps(response),
    )
