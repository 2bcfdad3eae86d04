"""Tenants: made whole, with an owner who can call, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from herma.common.errors import AlreadyExists, PermissionDenied, Unauthenticated
from herma.common.postgres import Connection, Database, see_tenant
from herma.session_authority.domain.audit import Action
from herma.session_authority.domain.keys import key_hash, key_prefix, mint_key
from herma.session_authority.domain.model import Caller
from herma.session_authority.domain.profile import ProfileSpec
from herma.session_authority.domain.rights import PLATFORM, SCOPES, TENANT_SCOPES, Role
from herma.session_authority.store.audit import record
from herma.session_authority.store.idempotency import take_once
from herma.session_authority.store.keys import insert_key
from herma.session_authority.store.principals import take_principal

# Any number, the same in every replica.
_BOOTSTRAP_LOCK = 7305162


@dataclass(frozen=True, slots=True)
class Tenant:
    """An organisation."""

    id: UUID
    name: str
    created_at: datetime


class TenantStore:
    """The tenants of the installation, for its operator."""

    def __init__(self, database: Database, new_id: Callable[[], UUID]) -> None:
        self._database = database
        self._new_id = new_id

    async def create(self, caller: Caller, name: str, idempotency_key: str) -> tuple[UUID, str]:
        """Makes a tenant with its owner, its profile `default`, and the owner's key.

        A repeat under the same idempotency key cannot show the key again, so it is refused like any
        other taken name.

        Raises:
            AlreadyExists: when the name is taken.
            PermissionDenied: when the caller's key is not the operator's.
        """
        key = mint_key()
        async with self._database.transaction(caller.tenant_id) as connection:
            await _need_platform(connection, caller)
            await take_once(connection, caller, "CreateTenant", idempotency_key, name)
            tenant_id = self._new_id()
            await record(connection, caller, Action.TENANT_CREATED, tenant_id, name=name)
            await self._insert(connection, tenant_id, name)
            owner = await take_principal(connection, tenant_id, self._new_id(), "owner", Role.OWNER)
            maker = Caller(tenant_id, owner)
            made = await insert_key(connection, maker, self._new_id(), owner, key, "owner", TENANT_SCOPES)
            await record(connection, maker, Action.KEY_CREATED, made.id, by_installation=True)
        return tenant_id, key

    async def list(self, caller: Caller, after: str, limit: int) -> Sequence[Tenant]:
        """Tenants whose names sort behind `after`, by name.

        Raises:
            PermissionDenied: when the caller's key is not the operator's.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            await _need_platform(connection, caller)
            ids = await connection.fetch(
                "SELECT tenant_id FROM authority.tenants_after($1, $2)", after, limit
            )
            found = []
            for row in ids:
                await see_tenant(connection, row["tenant_id"])
                found.append(await read_tenant(connection, row["tenant_id"]))
        return found

    async def bootstrap(self, operator_key: str) -> UUID:
        """Makes sure that the tenant `default` exists and that the operator's key works.

        Raises:
            Unauthenticated: for text that is no key.
        """
        if key_prefix(operator_key) is None:
            raise Unauthenticated("this is no API key", reason="API_KEY_INVALID")
        async with self._database.transaction() as connection:
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _BOOTSTRAP_LOCK)
            tenant_id: UUID | None = await connection.fetchval("SELECT authority.tenant_named('default')")
            if tenant_id is None:
                tenant_id = self._new_id()
                await self._insert(connection, tenant_id, "default")
            await see_tenant(connection, tenant_id)
            owner = await take_principal(connection, tenant_id, self._new_id(), "operator", Role.OWNER)
            known = await connection.fetchval(
                "SELECT tenant_id FROM authority.key_owner($1)", key_hash(operator_key)
            )
            if known is None:
                maker = Caller(tenant_id, owner)
                made = await insert_key(
                    connection, maker, self._new_id(), owner, operator_key, "operator", SCOPES
                )
                await record(connection, maker, Action.KEY_CREATED, made.id, by_installation=True)
        return tenant_id

    async def _insert(self, connection: Connection, tenant_id: UUID, name: str) -> None:
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
        founder = Caller(tenant_id, tenant_id)
        await record(
            connection, founder, Action.TENANT_CREATED, tenant_id, by_installation=True, name=name
        )


async def read_tenant(connection: Connection, tenant_id: UUID) -> Tenant:
    """The tenant that is set."""
    row = await connection.fetchrow(
        "SELECT id, name, created_at FROM authority.tenants WHERE id = $1", tenant_id
    )
    assert row is not None
    return Tenant(**row)


async def _need_platform(connection: Connection, caller: Caller) -> None:
    held = await connection.fetchval(
        """
        SELECT EXISTS (
            SELECT FROM authority.api_keys k
            JOIN authority.principals p ON p.tenant_id = k.tenant_id AND p.id = k.principal_id
            WHERE k.tenant_id = $1 AND k.principal_id = $2 AND k.id = $3 AND $4 = ANY (k.scopes)
              AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
              AND p.role = 'owner' AND p.disabled_at IS NULL)
        """,
        caller.tenant_id,
        caller.principal_id,
        caller.key_id,
        PLATFORM,
    )
    if not held:
        raise PermissionDenied("only the operator manages tenants", reason="SCOPE_MISSING")
