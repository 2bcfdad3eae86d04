"""Answers by idempotency key: the same key and digest gets the first answer verbatim."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from herma.common.errors import AlreadyExists, IdempotencyConflict
from herma.common.postgres import Connection
from herma.session_authority.domain.admission import request_digest
from herma.session_authority.domain.model import Caller


async def claim_key(
    connection: Connection, tenant_id: UUID, principal_id: UUID, operation: str, key: str, digest: bytes
) -> dict[str, Any] | None:
    """Takes the key for this transaction, or answers what it was answered before.

    A simultaneous holder of the key makes this wait until it commits or rolls back, so exactly one
    of many equal requests takes effect.

    Returns:
        None when the key is new: go on, then `store_answer` in the same transaction.

    Raises:
        IdempotencyConflict: when the key was used for another request.
    """
    taken = await connection.fetchval(
        """
        INSERT INTO authority.idempotency (tenant_id, principal_id, operation, key, digest)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING true
        """,
        tenant_id,
        principal_id,
        operation,
        key,
        digest,
    )
    if taken:
        return None
    row = await connection.fetchrow(
        """
        SELECT digest, response FROM authority.idempotency
        WHERE tenant_id = $1 AND principal_id = $2 AND operation = $3 AND key = $4
        """,
        tenant_id,
        principal_id,
        operation,
        key,
    )
    if row is None or row["digest"] != digest:
        raise IdempotencyConflict("the idempotency key was used for another request")
    answer: dict[str, Any] = json.loads(row["response"])
    return answer


async def store_answer(
    connection: Connection,
    tenant_id: UUID,
    principal_id: UUID,
    operation: str,
    key: str,
    answer: dict[str, Any],
) -> None:
    """Stores the answer of a key that `claim_key` took in this transaction."""
    await connection.execute(
        """
        UPDATE authority.idempotency SET response = $5
        WHERE tenant_id = $1 AND principal_id = $2 AND operation = $3 AND key = $4
        """,
        tenant_id,
        principal_id,
        operation,
        key,
        json.dumps(answer),
    )


async def take_once(
    connection: Connection, caller: Caller, operation: str, idempotency_key: str, *request: str
) -> None:
    """Takes an idempotency key for what shows a secret only once; nothing without a key.

    Raises:
        AlreadyExists: for a repeat: the secret is not stored, so it cannot be shown again.
        IdempotencyConflict: when the key was used for another request.
    """
    if not idempotency_key:
        return
    tenant, principal = caller.tenant_id, caller.principal_id
    digest = request_digest(*request)
    known = await claim_key(connection, tenant, principal, operation, idempotency_key, digest)
    if known is not None:
        raise AlreadyExists("this request was carried out before; what it made cannot be shown again")
    await store_answer(connection, tenant, principal, operation, idempotency_key, {})
