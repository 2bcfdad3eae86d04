"""Tenants, principals and API keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from herma.common.errors import AlreadyExists, NotFound, Unauthenticated
from herma.common.postgres import Connection, Database, see_tenant
from herma.session_authority.domain.admission import request_digest
from herma.session_authority.domain.keys import (
    OWNER_SCOPES,
    SCOPES,
    ApiKey,
    granted_scopes,
    key_hash,
    key_prefix,
    mint_key,
)
from herma.session_authority.domain.model import Caller
from herma.session_authority.domain.profile import ProfileSpec
from herma.session_authority.store.idempotency import claim_key, store_answer

_KEY_COLUMNS = "id, principal_id, name, prefix, scopes, created_at, expires_at, revoked_at"


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Who presented a key, and what it may."""

    caller: Caller
    key_id: UUID
    scopes: Sequence[str]
    expires_at: datetime | None


class IdentityStore:
    """Who may act."""

    def __init__(self, database: Database, new_id: Callable[[], UUID]) -> None:
        self._database = database
        self._new_id = new_id

    async def authenticate(self, key: str) -> Authenticated:
        """Who presents this key.

        Raises:
            Unauthenticated: for any key that does not work; the reason is not told.
        """
        refused = Unauthenticated("the API key is not valid", reason="API_KEY_INVALID")
        if key_prefix(key) is None:
            raise refused
        async with self._database.transaction() as connection:
            owner = await connection.fetchrow(
                "SELECT tenant_id, key_id FROM authority.key_owner($1)", key_hash(key)
            )
            if owner is None:
                raise refused
            await see_tenant(connection, owner["tenant_id"])
            row = await connection.fetchrow(
                """
                SELECT principal_id, scopes, expires_at FROM authority.api_keys
                WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL
                  AND (expires_at IS NULL OR expires_at > now())
                """,
                owner["tenant_id"],
                owner["key_id"],
            )
        if row is None:
            raise refused
        return Authenticated(
            Caller(owner["tenant_id"], row["principal_id"]),
            owner["key_id"],
            tuple(row["scopes"]),
            row["expires_at"],
        )

    async def create_tenant(self, caller: Caller, name: str, idempotency_key: str) -> tuple[UUID, str]:
        """Makes a tenant with its owner, its profile `default`, and the owner's key.

        A repeat under the same idempotency key cannot show the key again, so it is refused like any
        other taken name.

        Raises:
            AlreadyExists: when the name is taken.
        """
        key = mint_key()
        async with self._database.transaction(caller.tenant_id) as connection:
            await _once(connection, caller, "CreateTenant", idempotency_key, name)
            tenant_id = await self._insert_tenant(connection, name)
            principal_id = await self._principal(connection, tenant_id, "owner")
            await self._insert_key(connection, tenant_id, principal_id, key, "owner", OWNER_SCOPES, None)
        return tenant_id, key

    async def bootstrap(self, operator_key: str) -> UUID:
        """Makes sure that the tenant `default` exists and that the operator's key works.

        Raises:
            Unauthenticated: for text that is no key.
        """
        if key_prefix(operator_key) is None:
            raise Unauthenticated("this is no API key", reason="API_KEY_INVALID")
        async with self._database.transaction() as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(7305162)")
            tenant_id: UUID | None = await connection.fetchval("SELECT authority.tenant_named('default')")
            if tenant_id is None:
                tenant_id = await self._insert_tenant(connection, "default")
            await see_tenant(connection, tenant_id)
            principal_id = await self._principal(connection, tenant_id, "operator")
            owner = await connection.fetchval(
                "SELECT tenant_id FROM authority.key_owner($1)", key_hash(operator_key)
            )
            if owner is None:
                await self._insert_key(
                    connection, tenant_id, principal_id, operator_key, "operator", SCOPES, None
                )
        return tenant_id

    async def create_key(
        self,
        caller: Caller,
        caller_key_id: UUID,
        name: str,
        scopes: Sequence[str],
        expires_at: datetime | None,
        idempotency_key: str = "",
    ) -> tuple[ApiKey, str]:
        """Makes a key for the calling principal; its text is answered only here.

        Raises:
            AlreadyExists: for a repeat under the same idempotency key, which cannot show it again.
            PermissionDenied: for more scopes than the caller's key holds.
            NotFound: when the caller's key is gone or not the caller's.
        """
        key = mint_key()
        async with self._database.transaction(caller.tenant_id) as connection:
            maker = await connection.fetchrow(
                """
                SELECT scopes, expires_at FROM authority.api_keys
                WHERE tenant_id = $1 AND principal_id = $2 AND id = $3 AND revoked_at IS NULL
                  AND (expires_at IS NULL OR expires_at > now())
                """,
                caller.tenant_id,
                caller.principal_id,
                caller_key_id,
            )
            if maker is None:
                raise NotFound("no such key", reason="KEY_NOT_FOUND")
            if maker["expires_at"] is not None:
                expires_at = min(expires_at or maker["expires_at"], maker["expires_at"])
            granted = granted_scopes(scopes, maker["scopes"])
            await _once(connection, caller, "CreateKey", idempotency_key, name, *granted, str(expires_at))
            row = await self._insert_key(
                connection, caller.tenant_id, caller.principal_id, key, name, granted, expires_at
            )
        return row, key

    async def list_keys(self, caller: Caller) -> Sequence[ApiKey]:
        """The caller's keys, oldest first."""
        async with self._database.transaction(caller.tenant_id) as connection:
            rows = await connection.fetch(
                f"SELECT {_KEY_COLUMNS} FROM authority.api_keys"  # noqa: S608  # a constant
                " WHERE tenant_id = $1 AND principal_id = $2 ORDER BY id",
                caller.tenant_id,
                caller.principal_id,
            )
        return [ApiKey(**row) for row in rows]

    async def revoke_key(self, caller: Caller, key_id: UUID) -> ApiKey:
        """Revokes one of the caller's keys.

        Raises:
            NotFound: when it is not the caller's.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            row = await connection.fetchrow(
                f"""
                UPDATE authority.api_keys SET revoked_at = coalesce(revoked_at, now())
                WHERE tenant_id = $1 AND principal_id = $2 AND id = $3 RETURNING {_KEY_COLUMNS}
                """,  # noqa: S608  # a constant
                caller.tenant_id,
                caller.principal_id,
                key_id,
            )
        if row is None:
            raise NotFound("no such key", reason="KEY_NOT_FOUND")
        return ApiKey(**row)

    async def _insert_tenant(self, connection: Connection, name: str) -> UUID:
        tenant_id = self._new_id()
        await see_tenant(connection, tenant_id)
        try:
            await connection.execute(
                "INSERT INTO authority.tenants (id, name) VALUES ($1, $2)", tenant_id, name
            )
        except asyncpg.UniqueViolationError as error:
            raise AlreadyExists(f"there is a tenant {name!r}") from error
        profile_id = self._new_id()
        await connection.execute(
            "INSERT INTO authority.profiles (tenant_id, id, name, version) VALUES ($1, $2, 'default', 1)",
            tenant_id,
            profile_id,
        )
        await connection.execute(
            """
            INSERT INTO authority.profile_versions (tenant_id, profile_id, version, spec)
            VALUES ($1, $2, 1, $3)
            """,
            tenant_id,
            profile_id,
            ProfileSpec().to_json(),
        )
        return tenant_id

    async def _principal(self, connection: Connection, tenant_id: UUID, subject: str) -> UUID:
        await connection.execute(
            """
            INSERT INTO authority.principals (tenant_id, id, issuer, subject)
            VALUES ($1, $2, 'herma', $3) ON CONFLICT (tenant_id, issuer, subject) DO NOTHING
            """,
            tenant_id,
            self._new_id(),
            subject,
        )
        found: UUID = await connection.fetchval(
            """
            SELECT id FROM authority.principals
            WHERE tenant_id = $1 AND issuer = 'herma' AND subject = $2
            """,
            tenant_id,
            subject,
        )
        return found

    async def _insert_key(
        self,
        connection: Connection,
        tenant_id: UUID,
        principal_id: UUID,
        key: str,
        name: str,
        scopes: Sequence[str],
        expires_at: datetime | None,
    ) -> ApiKey:
        row = await connection.fetchrow(
            f"""
            INSERT INTO authority.api_keys (tenant_id, id, principal_id, name, prefix, hash, scopes,
                                            expires_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING {_KEY_COLUMNS}
            """,  # noqa: S608  # a constant
            tenant_id,
            self._new_id(),
            principal_id,
            name,
            key_prefix(key),
            key_hash(key),
            list(scopes),
            expires_at,
        )
        assert row is not None
        return ApiKey(**row)


async def _once(
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
