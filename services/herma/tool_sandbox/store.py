"""The only SQL of tool-sandbox: records of sandboxes, and the fence of each session."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from uuid import UUID

from herma.common.errors import LeaseLost
from herma.common.postgres import Database
from herma.common.turn_token import TurnIdentity
from herma.tool_sandbox.domain.model import SandboxRecord

_STANDING = """
    SELECT id, tenant_id, session_id, workspace_id, epoch, secret, instance, settled_turn_id
    FROM sandbox.sandboxes
    WHERE tenant_id = seen.tenant_id AND session_id = $2 AND epoch = $3
"""

_RAISE = """
    INSERT INTO sandbox.sandboxes (tenant_id, session_id, id, workspace_id, epoch, secret)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (tenant_id, session_id) DO UPDATE SET epoch = excluded.epoch
        WHERE sandboxes.epoch <= excluded.epoch
    RETURNING id, tenant_id, session_id, workspace_id, epoch, secret, instance, settled_turn_id
"""


class SandboxStore:
    """Records."""

    def __init__(self, database: Database, new_id: Callable[[], UUID]) -> None:
        self._database = database
        self._new_id = new_id

    async def raise_fence(self, identity: TurnIdentity) -> SandboxRecord:
        """The session's record, made if there is none, with its fence at the token's epoch.

        Raises:
            LeaseLost: when a higher epoch has been here.
        """
        # Nearly always the fence stands there already.
        standing = await self._database.glance(
            identity.tenant_id, _STANDING, identity.session_id, identity.epoch
        )
        row = standing[0] if standing else None
        if row is None:
            async with self._database.transaction(identity.tenant_id) as connection:
                row = await connection.fetchrow(
                    _RAISE,
                    identity.tenant_id,
                    identity.session_id,
                    self._new_id(),
                    self._new_id(),
                    identity.epoch,
                    secrets.token_urlsafe(32),
                )
        if row is None:
            raise LeaseLost()
        return SandboxRecord(**row)

    async def set_instance(self, record: SandboxRecord, instance: str) -> None:
        """Remembers the incarnation that was last spoken to."""
        async with self._database.transaction(record.tenant_id) as connection:
            await connection.execute(
                """
                UPDATE sandbox.sandboxes SET instance = $3 WHERE tenant_id = $1 AND session_id = $2
                """,
                record.tenant_id,
                record.session_id,
                instance,
            )

    async def settle(self, record: SandboxRecord, turn_id: UUID) -> None:
        """Remembers that nothing of an older turn runs any more."""
        async with self._database.transaction(record.tenant_id) as connection:
            await connection.execute(
                """
                UPDATE sandbox.sandboxes SET settled_turn_id = $3
                WHERE tenant_id = $1 AND session_id = $2
                """,
                record.tenant_id,
                record.session_id,
                turn_id,
            )

    async def renew_secret(self, record: SandboxRecord) -> str:
        """A new secret, for a new container: an old one may have been seen by its commands."""
        secret = secrets.token_urlsafe(32)
        async with self._database.transaction(record.tenant_id) as connection:
            await connection.execute(
                """
                UPDATE sandbox.sandboxes SET secret = $3 WHERE tenant_id = $1 AND session_id = $2
                """,
                record.tenant_id,
                record.session_id,
                secret,
            )
        return secret

    async def known(self, sandbox_ids: Sequence[UUID]) -> set[UUID]:
        """Which of these have a record, of whatever tenant."""
        async with self._database.transaction() as connection:
            rows = await connection.fetch(
                "SELECT known_sandboxes AS id FROM sandbox.known_sandboxes($1)", list(sandbox_ids)
            )
        return {row["id"] for row in rows}
